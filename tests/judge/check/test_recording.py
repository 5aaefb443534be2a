"""What a check recorded, where the process that made its calls ended without writing the trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ranksim.core.errors import BadInput
from ranksim.core.notes import ALONE
from ranksim.core.trace import Trace
from ranksim.judge.check import crew
from ranksim.judge.check.crew import CheckRecording
from ranksim.judge.load.recorder import AnchoredClock

CALL = {
    "kind": "exchange", "id": "0.1", "sent": 5, "received": None, "status": None, "effect": "unknown",
    "operations": ["domains.list"], "method": "GET", "path": "/v1/domains", "api_key": "main",
    "request_headers": {},
}  # fmt: skip

LIVED = [{"kind": "note", "t": 6, "text": ALONE}]


def recorded(
    folder: Path, *, receiver: bool = True, heard: list[dict[str, object]] | None = None
) -> CheckRecording:
    """A run whose process ended with a call under way; `heard` is what its own receiver logged."""
    parts = folder / ".parts-1"
    parts.mkdir()
    (parts / "header.json").write_text(json.dumps({"ranksim_trace": 1, "exclusive": True}), encoding="utf-8")
    (parts / "part-0.jsonl").write_text(json.dumps(CALL) + "\n", encoding="utf-8")
    if heard is not None:
        lines = "".join(json.dumps(line) + "\n" for line in heard)
        (parts / "receiver.jsonl").write_text(lines, encoding="utf-8")
    return CheckRecording(parts, folder / "trace.jsonl", AnchoredClock.here(), receiver)


@pytest.mark.parametrize(
    ("receiver", "heard", "missing", "capture"),
    [
        (True, LIVED, False, "complete"),
        (False, None, False, "complete"),  # nothing could come
        (True, [], False, "partial"),  # it ended with the calls, or before
        (True, None, False, "partial"),  # it is elsewhere, and was not asked
        (True, LIVED, True, "partial"),  # the disk was full
    ],
)
def test_the_trace_is_written_and_says_whether_anything_may_be_missing(
    receiver: bool,
    heard: list[dict[str, object]] | None,
    missing: bool,
    capture: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(crew, "NOTING", 0)
    recording = recorded(tmp_path, receiver=receiver, heard=heard)
    before = [line["kind"] for line in recording.lines() if "kind" in line]
    recording.write(missing=missing)
    trace = Trace.read(recording.trace)
    assert trace.header.capture == capture
    [call] = trace.exchanges
    assert (call.id, call.received, call.effect) == ("0.1", None, "unknown")
    assert {path.name for path in tmp_path.iterdir()} == {"trace.jsonl"}
    assert [line["kind"] for line in recording.lines() if "kind" in line] == before
    recording.write(missing=missing)  # again, it stays
    assert Trace.read(recording.trace) == trace


def test_where_it_cannot_be_written_what_was_recorded_stays(tmp_path: Path) -> None:
    recording = recorded(tmp_path, heard=LIVED)
    recording.trace = tmp_path / ".parts-1" / "header.json" / "trace.jsonl"
    with pytest.raises(BadInput):
        recording.write(missing=True)
    assert (tmp_path / ".parts-1" / "part-0.jsonl").exists()
    assert next(recording.lines())["capture"] == "partial"
