"""What a load must keep: how it is said, and what it is held against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.kit.traces import a_trace
from tests.kit.traces import call as exchange

from ranksim.judge.load.summary import Summary
from ranksim.judge.load.thresholds import CallCounts, Threshold, verdict_lines


def call(milliseconds: int | None, status: int | None = 200, **more: Any) -> dict[str, Any]:
    received = None if milliseconds is None else milliseconds * 1000
    return {"sent": 0, "received": received, "planned": None, "status": status, "response": "{}"} | more


def counts(*calls: dict[str, Any]) -> CallCounts:
    made = CallCounts()
    for one in calls:
        made.add(one)
    return made


TWENTY = counts(*(call(10 * number) for number in range(1, 21)))


@pytest.mark.parametrize(
    ("said", "holds", "found"),
    [
        ("p50 <= 100ms", True, "100ms"),
        ("p50 < 100ms", False, "100ms"),
        ("p95<0.2s", True, "190ms"),
        ("longest < 200ms", False, "200ms"),
        ("rate >= 100/s", True, "100 a second"),
        ("rate > 100", False, "100 a second"),
        ("errors < 1 %", True, "0 %"),
        ("errors < 0", False, "0 %"),
    ],
)
def test_a_threshold_is_held_against_the_calls_of_users(said: str, holds: bool, found: str) -> None:
    verdict = Threshold.parse(said).judge(TWENTY)
    assert (verdict.holds, verdict.found) == (holds, found)
    assert verdict.text.endswith(f"{found} over 20 calls")


def test_refusals_that_are_documented_are_no_errors_and_rate_limits_are_not_quick_answers() -> None:
    """Nineteen quick refusals of a rate limit do not make the one answer quicker."""
    limited = [call(1, 429)] * 19
    measured = counts(call(400), *limited)
    assert measured.value("p50") == 400_000
    assert (measured.value("limited"), measured.value("errors")) == (0.95, 0.0)

    failed = counts(
        call(5, 402), call(5, 503), call(5, 404, response="<html>"), call(5, 302), call(None, None)
    )
    assert (failed.value("refused"), failed.value("errors")) == (0.2, 0.8)


def test_latency_begins_where_a_call_was_planned() -> None:
    assert counts(call(50, planned=-100_000)).value("longest") == 150_000


def test_a_threshold_is_on_one_operation_where_it_names_one() -> None:
    summary = Summary(TWENTY, {"domains.list": counts(call(900)), "jobs.get": counts(call(10))})
    slow, quick = (
        Threshold.parse(" p95  of domains.list < 500ms "),
        Threshold.parse("p95 of jobs.get < 500ms"),
    )
    assert slow.text == "p95 of domains.list < 500ms"
    assert [verdict.holds for verdict in summary.judged([slow, quick])] == [False, True]
    assert summary.measured(slow) == 900_000


def test_what_was_not_measured_does_not_hold() -> None:
    [verdict] = Summary(TWENTY).judged([Threshold.parse("p95 of jobs.get < 500ms")])
    assert (verdict.holds, verdict.text) == (False, "p95 of jobs.get < 500ms: nothing was measured")
    assert not Threshold.parse("errors < 1 %").judge(CallCounts()).holds


def test_the_last_line_is_what_came_of_all() -> None:
    kept, missed = (Threshold.parse(said).judge(TWENTY) for said in ("p50 < 1s", "p99 < 1ms"))
    assert verdict_lines([kept])[-1] == "the threshold holds"
    assert verdict_lines([kept, kept])[-1] == "all 2 thresholds hold"
    assert verdict_lines([kept, missed])[-2:] == [
        "FAILS  p99 < 1ms: 200ms over 20 calls",
        "1 of 2 thresholds FAILED: p99 < 1ms",
    ]
    assert verdict_lines([]) == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("p95", "expected such as"),
        ("p59 < 1s", "did you mean"),
        ("p95 of domain.list < 1s", "did you mean 'domains.list'"),
        ("p95 < 500", "is not a duration"),
        ("errors < few", "for errors"),
    ],
)
def test_a_threshold_that_says_nothing_is_refused(said: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Threshold.parse(said)


def test_refusals_that_nothing_promises_are_judged_where_a_threshold_asks(tmp_path: Path) -> None:
    """Those of a rate limit that come when they may are none."""
    limited = [exchange("domains.list", n, n + 0.1, code="rate_limited", status=429) for n in range(3)]
    refused = exchange("webhook_events.list", 9, 9.1, code="unauthorized", status=401, key=None)
    threshold, other = Threshold.parse("unpromised <= 0"), Threshold.parse("errors <= 0")
    for exchanges, share in ((limited, 0.0), ([*limited, refused], 0.25)):
        path = tmp_path / f"{len(exchanges)}.jsonl"
        a_trace(exchanges).write(path)
        summary = Summary.held_against(path, [other, threshold])
        assert summary.measured(threshold) == share
        assert [verdict.holds for verdict in summary.judged([threshold, other])] == [not share, True]
        assert Summary.held_against(path, [other]).measured(threshold) is None
