"""Parts become one trace: in order of time, whatever was cut short, on the leader's clock."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from ranksim.core.callers.steps import Send
from ranksim.core.errors import BadInput
from ranksim.core.trace import Trace
from ranksim.judge.load.merging import Merged, joined, lost, merge, miss

CALL = {
    "kind": "exchange",
    "received": None,
    "operations": ["domains.create"],
    "method": "POST",
    "path": "/v1/domains",
    "status": None,
    "effect": "unknown",
    "api_key": "main",
    "environment": "production",
    "query": {},
    "body": "{}",
    "surface": "rest",
    "request_headers": {"Idempotency-Key": "k"},
}


def call(name: str, sent: int, **more: Any) -> dict[str, Any]:
    return {**CALL, "id": name, "sent": sent, **more}


def end(name: str, received: int | None, status: int | None = 201, effect: str = "yes") -> dict[str, Any]:
    return {"ended": name, "received": received, "status": status, "effect": effect, "error": None}


def part(directory: Path, name: str, *lines: Any, closed: bool = True) -> None:
    said = [*lines, *([{"closed": name, "t": 0}] if closed else [])]
    text = "".join(
        line if isinstance(line, str) else json.dumps(line, separators=(",", ":")) + "\n" for line in said
    )
    (directory / f"part-{name}.jsonl").write_text(text, encoding="utf-8")


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    (tmp_path / "header.json").write_text(json.dumps({"ranksim_trace": 1, "started": 3}), encoding="utf-8")
    return tmp_path


def test_calls_of_all_parts_are_in_the_order_in_which_they_were_sent(parts: Path) -> None:
    draw = random.Random(5)
    for name in ("w1", "w2", "w3"):
        lines, open_calls, t = [], [], 0
        for number in range(200):
            t += draw.randrange(10)
            if open_calls and draw.random() < 0.5:
                one = open_calls.pop(draw.randrange(len(open_calls)))
                lines.append(end(one, t))
            else:
                open_calls.append(f"{name}.{number}")
                lines.append(call(open_calls[-1], t))
        part(parts, name, *lines, *(end(one, t) for one in open_calls[1:]))

    merged = merge(parts, parts / "trace.jsonl")

    trace = Trace.read(parts / "trace.jsonl")
    sent = [one.sent for one in trace.exchanges]
    assert sent == sorted(sent)
    assert len(sent) == merged.exchanges
    assert sum(one.status is None for one in trace.exchanges) == merged.unknown == 3
    assert merged.cut == []


def test_what_is_broken_is_left_out_and_noted(parts: Path) -> None:
    part(
        parts,
        "w1",
        call("w1.1", 5),
        "garbage\n",
        end("w1.1", 6),
        end("w1.9", 6),
        '{"kind":"excha',
        closed=False,
    )

    merged = merge(parts, parts / "trace.jsonl")

    trace = Trace.read(parts / "trace.jsonl")
    assert [(one.id, one.status) for one in trace.exchanges] == [("w1.1", 201)]
    assert (merged.broken, merged.cut) == (2, ["w1"])
    assert {note.text for note in trace.notes} == {
        "processes ended before they were done",
        "broken lines were left out",
    }


def test_broken_lines_of_any_kind_are_left_out(parts: Path) -> None:
    note = '{"kind":"note","t":7,"text":"later"}\n'
    part(
        parts,
        "w1",
        '{"kind":"shift","low":1,"hi' + note,
        '{"kind":"endpoint","path":"/r/' + note,
        call("w1.1", 5),
        end("w1.1", 6),
        note,
    )

    merged = merge(parts, parts / "trace.jsonl")

    assert (merged.broken, merged.exchanges, merged.elsewhere) == (2, 1, {})


def test_deliveries_get_the_ids_of_their_endpoints_and_their_last_line_counts(parts: Path) -> None:
    def came(number: int, path: str, t: int, **more: Any) -> dict[str, Any]:
        return {
            "kind": "delivery", "number": number, "received": t, "answered": None, "endpoint": path,
            "headers": {}, "body": "{}", "signature": {"valid": None}, "status": None, **more,
        }  # fmt: skip

    answered = {"answered": 11, "status": 200, "signature": {"valid": True, "t": 1, "checked_by": "x"}}
    log = [came(1, "/r/1", 10), came(2, "/r/2", 10), came(1, "/r/1", 10, **answered),
           {"kind": "note", "t": 12, "text": "the webhook receiver stalled", "stalled": 5}]  # fmt: skip
    (parts / "receiver.jsonl").write_text("".join(json.dumps(one) + "\n" for one in log), encoding="utf-8")
    part(
        parts,
        "w1",
        call("w1.1", 9),
        {"kind": "endpoint", "path": "/r/1", "endpoint": "end_1"},
        end("w1.1", 20),
    )

    merge(parts, parts / "trace.jsonl")

    trace = Trace.read(parts / "trace.jsonl")
    assert [(one.endpoint, one.status, one.signature.valid) for one in trace.deliveries] == [
        ("end_1", 200, True),
        ("/r/2", None, None),
    ]
    kinds = [json.loads(line).get("kind") for line in (parts / "trace.jsonl").read_text().splitlines()]
    assert kinds == [None, "exchange", "delivery", "delivery", "note"]


def test_a_part_of_another_machine_is_put_on_the_leaders_clock_and_widened(parts: Path) -> None:
    lines = [call("w1.1", 1000, planned=990), end("w1.1", 1500), {"kind": "note", "t": 1600, "text": "x"}]
    part(
        parts, "w1", {"kind": "shift", "low": -420, "high": -380}, *lines,
        {"kind": "shift", "low": -430, "high": -370},
    )  # fmt: skip

    merge(parts, parts / "trace.jsonl")

    trace = Trace.read(parts / "trace.jsonl")
    [one] = trace.exchanges
    assert (one.planned, one.sent, one.received) == (590, 570, 1130)
    assert trace.notes[0].t == 1200
    assert trace.notes[1].model_extra == {"widened": {"w1": 60}}


def test_a_packed_trace_is_the_same_file_every_time(parts: Path) -> None:
    part(parts, "w1", call("w1.1", 5), end("w1.1", 6))
    merge(parts, parts / "a.jsonl.gz")
    merge(parts, parts / "b.jsonl.gz")
    merge(parts, parts / "c.jsonl")
    assert (parts / "a.jsonl.gz").read_bytes() == (parts / "b.jsonl.gz").read_bytes()
    assert gzip.decompress((parts / "a.jsonl.gz").read_bytes()) == (parts / "c.jsonl").read_bytes()


def test_a_directory_without_a_header_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"header\.json: expected the header of a run"):
        merge(tmp_path, tmp_path / "trace.jsonl")
    assert not (tmp_path / "trace.jsonl").exists()


def test_lost_posts_can_be_sent_again(parts: Path) -> None:
    test = {"operations": ["webhooks.test"], "path": "/v1/webhooks/end%201/test", "body": ""}
    part(
        parts, "w1",
        call("w1.1", 1), end("w1.1", 2),
        call("w1.2", 3, body='{"host":"a"}', environment="sandbox"), end("w1.2", None, None, "unknown"),
        call("w1.3", 4), end("w1.3", None, None, "none"),
        call("w1.4", 5, request_headers={}), end("w1.4", None, None, "unknown"),
        call("w1.5", 6, **test),
        call("w1.6", 7, body='{"a": 1}'),
        closed=False,
    )  # fmt: skip

    found = lost(parts)

    assert [one.exchange for one in found] == ["w1.2", "w1.5", "w1.6"]
    assert found[0].send == Send(
        "domains.create", "main", body={"host": "a"}, idempotency_key="k", environment="sandbox"
    )
    assert found[1].send == Send(
        "webhooks.test", "main", path={"id": "end 1"}, idempotency_key="k", environment="production"
    )
    assert found[2].send.raw == b'{"a": 1}'


def test_a_line_that_was_cut_short_makes_the_capture_partial(tmp_path: Path) -> None:
    (tmp_path / "header.json").write_text('{"ranksim_trace": 1, "exclusive": true}', encoding="utf-8")
    part = tmp_path / "part-0.jsonl"
    part.write_text('{"closed": "0", "t": 1}\n', encoding="utf-8")
    merge(tmp_path, tmp_path / "whole.jsonl")
    with part.open("a", encoding="utf-8") as file:
        file.write('{"kind": "exchange", "id"')
    assert next(joined(tmp_path, Merged(), 5)).get("capture") is None  # it is being written
    merge(tmp_path, tmp_path / "torn.jsonl")
    assert Trace.read(tmp_path / "whole.jsonl").header.capture == "complete"
    assert Trace.read(tmp_path / "torn.jsonl").header.capture == "partial"


def test_what_is_known_to_be_missing_stands_in_the_header(tmp_path: Path) -> None:
    (tmp_path / "header.json").write_text('{"ranksim_trace": 1, "exclusive": true}', encoding="utf-8")
    miss(tmp_path)
    merge(tmp_path, tmp_path / "trace.jsonl")
    assert Trace.read(tmp_path / "trace.jsonl").header.capture == "partial"
