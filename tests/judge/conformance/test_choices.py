"""Options that a trace excludes: each is told where it surely is, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit import spending as d
from tests.kit.traces import a_job, a_trace, call, error, found, judged

from ranksim.core.trace import Exchange
from ranksim.judge.conformance.calls import idempotency, schema_checks
from ranksim.judge.conformance.compare import compare


def crawl(at: float, end: str, id: str) -> list[Exchange]:
    """Give a crawl and a reading that shows how it ended."""
    return [d.job(at, id=id), d.shown(at + 5, id, end)]


def metered(at: float, used: int) -> Exchange:
    return d.usage(at, used, metric="crawls")


def wide(at: float, **more: Any) -> Exchange:
    return d.scan(at, places=3, **more)


def widened(at: float, places: int) -> Exchange:
    body = {"geographies": [{"country": name} for name in ("DE", "FR", "IT")[:places]]}
    return d.call(at, "scans.update", {"id": "s1"}, body=body, path={"id": "s1"})


SPENDING = {
    "nothing is given back": ([d.usage(0, 2), *crawl(1, "failed", "a"), d.usage(9, 3)], set()),
    "the units of a failed job are given back": (
        [
            *(metered(0, 2), *crawl(1, "done", "a"), metered(9, 3), d.job(300, id="b"), metered(301, 4)),
            *(d.shown(305, "b", "failed"), metered(310, 3)),
        ],
        {50},
    ),
    "a failed run arms": (
        [d.entitled(-2, crawl=100), d.domain(-1), *crawl(0, "failed", "a"), d.job(20, **d.cooling(80))],
        {46},
    ),
    "a run that may be done arms": (
        [d.entitled(-2, crawl=100), d.domain(-1), d.job(0, id="a"), d.job(20, **d.cooling(80))],
        set(),
    ),
    "a scan beyond the plan is refused for slots": (
        [d.entitled(-2), d.domain(-1), wide(0, **d.full(used=2, requested=3))],
        {59},
    ),
    "a scan within the plan is refused for slots": (
        [d.entitled(-2), d.domain(-1), d.scan(0, **d.full(used=20, requested=1))],
        set(),
    ),
    "a scan is widened beyond the plan": ([d.entitled(-2), d.scan(0, id="s1"), widened(1, 3)], {95}),
    "a scan is widened within the plan": ([d.entitled(-2), d.scan(0, id="s1"), widened(1, 2)], set()),
}


@pytest.mark.fact("U46", "U50", "U59", "U95")
@pytest.mark.parametrize(("calls", "numbers"), SPENDING.values(), ids=SPENDING)
def test_of_spending(calls: list[Exchange], numbers: set[int]) -> None:
    assert d.differing(calls) & {46, 50, 59, 95} == numbers


def usage(*names: str) -> Exchange:
    return call(
        "account.usage",
        0,
        1,
        {"metrics": [{"metric": n, "resets_at": "2026-04-01T00:00:00Z"} for n in names]},
    )


def refused(operation: str, code: str, status: int, **more: Any) -> Exchange:
    return call(operation, 0, 1, code=code, status=status, **more)


REPLIES = {
    "a list that is there": (call("labels.list", 0, 1, []), "held"),
    "a list that is not there": (refused("labels.list", "not_found", 404), "differs 107"),
    "a list of another domain": (
        refused("labels.list", "not_found", 404, query={"domain_id": "d"}),
        "nothing",
    ),
    "an item that is not there": (refused("labels.get", "not_found", 404, path={"id": "l"}), "nothing"),
    "an unknown key": (refused("labels.list", "unauthorized", 401), "nothing"),
    "metrics of another catalogue": (usage("rank_runs"), "held"),
    "a widening that does not fit": (
        refused("scans.update", "slot_limit_exceeded", 402, path={"id": "s"}),
        "nothing",
    ),
    "a widening of a past-due account": (
        refused("scans.update", "subscription_inactive", 402, path={"id": "s"}),
        "differs 95",
    ),
}


@pytest.mark.fact("S5", "S112", "U95", "U107")
@pytest.mark.parametrize(("entry", "expected"), REPLIES.values(), ids=REPLIES)
def test_of_single_replies(entry: Exchange, expected: str) -> None:
    told = found(judged(schema_checks, [entry]), schema_checks.ENVELOPE)
    assert told == expected or (expected == "held" and told != "broken" and "differs" not in told)


@pytest.mark.fact("U93")
@pytest.mark.parametrize(
    ("left", "marked", "expected"), [(80, True, False), (79, True, True), (79, False, False)]
)
def test_of_replayed_refusals(left: int, marked: bool, expected: bool) -> None:
    def told(at: float, wait: int, replay: bool) -> Exchange:
        headers = {"Idempotent-Replayed": "true"} if replay else {}
        body = {"kind": "crawl", "domain_id": "d"}
        meta = {"retry_after": wait}
        return call(
            "jobs.create", at, at + 1, code="cooldown_active", meta=meta, body=body, once="k", headers=headers
        )

    tally = judged(idempotency, [told(0, 80, False), told(2, left, marked)])
    assert (93 in {one.number for one in tally.differences}) == expected


@pytest.mark.fact("S2")
def test_fields_are_judged_in_sandbox_apart() -> None:
    entries = [call("jobs.list", n, n + 0.5, [a_job()], key=key) for n, key in enumerate(("main", "test"))]
    assert in_environments(entries, "resource.fields") == {"in production": True, "in sandbox": True}
    lacking = {name: value for name, value in a_job().items() if name != "kind"}
    entries.append(call("jobs.list", 5, 5.5, [lacking], key="test"))
    assert in_environments(entries, "resource.fields") == {"in production": True, "in sandbox": False}


@pytest.mark.fact("S2")
def test_errors_are_judged_in_sandbox_apart() -> None:
    entries = [
        call("jobs.list", n, n + 0.5, code="not_found", key=key) for n, key in enumerate(("main", "test"))
    ]
    assert in_environments(entries, "error.body") == {"in production": True, "in sandbox": True}
    lacking = {name: value for name, value in error("not_found", 404).items() if name != "remedy"}
    entries.append(call("jobs.list", 5, 5.5, reply=lacking, status=404, key="test"))
    assert in_environments(entries, "error.body") == {"in production": True, "in sandbox": False}


def in_environments(entries: list[Exchange], rule: str) -> dict[str, bool]:
    """Return whether a rule conforms in each environment."""
    cases = compare(a_trace(entries)).finding(rule).cases
    return {case.name: case.conforms for case in cases if case.name.startswith("in ")}
