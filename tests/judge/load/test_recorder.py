"""The recorder's lines: on the file before anything else happens, and without secrets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.kit.runs import TOKEN, lines_of

from ranksim.core.callers.steps import Send
from ranksim.core.trace import Trace
from ranksim.judge.load.merging import merge
from ranksim.judge.load.recorder import AnchoredClock, PartRecorder

TOLD = {"request_headers": {"Authorization": f"Bearer {TOKEN}", "X-Request-Id": "r1"}, "body": ""}


def recorder(path: Path, salt: bytes = b"salt", part: str = "w1") -> PartRecorder:
    return PartRecorder(path, part=part, clock=AnchoredClock.here(), salt=salt, tokens=[TOKEN])


def test_what_is_written_is_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "part-w1.jsonl"
    made = recorder(path)
    for number, write in enumerate(
        [
            lambda: made.began(Send("x"), 5, TOLD),
            lambda: made.ended("w1.1", 7, status=200),
            lambda: made.note("hello", more=1),
            lambda: made.endpoint("/hook", "end_1"),
            lambda: made.close(),
        ],
        1,
    ):
        write()
        assert len(lines_of(path)) == number
    made.close()
    assert len(lines_of(path)) == 5


def test_keys_and_secrets_are_never_written(tmp_path: Path) -> None:
    paths = [tmp_path / "part-1.jsonl", tmp_path / "part-2.jsonl"]
    for path in paths:
        made = recorder(path)
        body = '{"secret":"whsec_mine","token":"' + TOKEN + '"}'
        name = made.began(Send("x"), 5, {**TOLD, "body": body})
        made.hide("whsec_known")
        made.ended(
            name, 7, status=201, headers={"Set-Cookie": "s=1", "X": f"{TOKEN} whsec_known"},
            response='{"data":{"secret":"whsec_new","note":"' + TOKEN + '"}}', error=f"no {TOKEN}",
        )  # fmt: skip
        made.note(f"{TOKEN} ü whsec_known")
        made.close()
    texts = [path.read_text(encoding="utf-8") for path in paths]
    for text in texts:
        for secret in (TOKEN, "whsec_", "Set-Cookie", "Authorization"):
            assert secret not in text, secret
    first, second = (
        next(line for line in lines_of(path) if "response" in line)["response"] for path in paths
    )
    assert first == second, "one salt, one digest"
    other = recorder(tmp_path / "part-3.jsonl", salt=b"other")
    other.ended("w1.1", 7, status=201, response='{"data":{"secret":"whsec_new"}}')
    other.close()
    assert lines_of(tmp_path / "part-3.jsonl")[0]["response"] not in first


def test_a_key_that_is_a_word_of_ours_leaves_the_trace_readable(tmp_path: Path) -> None:
    """A deployment of one's own may well have a key called "main", "test" or even "kind"."""
    words = ["main", "test", "kind", "e"]
    path = tmp_path / "part-w1.jsonl"
    made = PartRecorder(path, part="w1", clock=AnchoredClock.here(), salt=b"salt", tokens=words)
    told = {**TOLD, "api_key": "main", "operations": ["webhooks.test"], "method": "POST", "path": "/v1/test"}
    made.ended(made.began(Send("x"), 5, told), 7, status=201, response='{"main":"e"}', effect="yes")
    made.close()
    header = '{"ranksim_trace": 1, "started": 1, "keys": {"main": {}}}'
    (tmp_path / "header.json").write_text(header, encoding="utf-8")

    merge(tmp_path, tmp_path / "trace.jsonl")

    [one] = Trace.read(tmp_path / "trace.jsonl").exchanges
    assert (one.api_key, one.operations, one.effect) == ("main", ("webhooks.test",), "yes")
    assert "main" not in one.response
    assert "test" not in one.path


def test_a_killed_process_leaves_what_it_sent(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from ranksim.judge.load.recorder import AnchoredClock, PartRecorder
from ranksim.core.callers.steps import Send
path = Path({str(tmp_path / "part-w1.jsonl")!r})
made = PartRecorder(path, part="w1", clock=AnchoredClock.here(), salt=b"")
told = dict(request_headers={{}}, body="", operations=["domains.create"], method="POST", path="/v1/domains")
made.ended(made.began(Send("domains.create"), 5, told), 6, status=201, effect="yes")
made.began(Send("domains.create"), 7, told)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", program], env=os.environ, check=False)
    assert ended.returncode == -signal.SIGKILL
    (tmp_path / "header.json").write_text('{"ranksim_trace": 1, "started": 1}', encoding="utf-8")

    merged = merge(tmp_path, tmp_path / "trace.jsonl")

    assert (merged.exchanges, merged.unknown, merged.cut) == (2, 1, ["w1"])
    trace = Trace.read(tmp_path / "trace.jsonl")
    assert [(one.sent, one.status, one.effect) for one in trace.exchanges] == [
        (5, 201, "yes"),
        (7, None, "unknown"),
    ]
    assert [note.text for note in trace.notes] == [
        "processes ended before they were done",
        "calls were in flight when their process ended",
    ]
