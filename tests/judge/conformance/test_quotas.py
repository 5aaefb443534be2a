"""Allowances: what a trace shows of counting, limits, refusals and resets."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from ranksim.core.contract.policy import Policy

Steps = Callable[[ModuleType], list[Any]]

TABLE: list[tuple[str, str, Steps, str]] = [
    # counted
    (
        "counted: each brief is one",
        "quota.counted",
        lambda d: [d.usage(0, 2), d.briefs(1), d.usage(2, 3)],
        "held",
    ),
    (
        "counted: a brief is lost",
        "quota.counted",
        lambda d: [d.usage(0, 2), d.briefs(1), d.usage(2, 2)],
        "broke",
    ),
    (
        "counted: a unit too many",
        "quota.counted",
        lambda d: [d.usage(0, 2), d.briefs(1), d.usage(2, 4)],
        "broke",
    ),
    (
        "counted: three keywords",
        "quota.counted",
        lambda d: [d.usage(0, 2), d.briefs(1, 3), d.usage(2, 5)],
        "held",
    ),
    (
        "counted: a refusal consumes",
        "quota.counted",
        lambda d: [d.usage(0, 2), d.briefs(1, **d.cooling(5)), d.usage(2, 3)],
        "broke",
    ),
    (
        "counted: a dry run consumes",
        "quota.counted",
        lambda d: [d.usage(0, 2), d.briefs(1, dry=True), d.usage(2, 3)],
        "open",
    ),
    (
        "counted: a dry run of a job gives nothing back",
        "quota.counted",
        lambda d: [d.usage(0, 2), d.briefs(1), d.job(2, dry=True), d.usage(3, 2)],
        "broke",
    ),
    (
        "counted: a lost call may have happened",
        "quota.counted",
        lambda d: [d.usage(0, 2), d.briefs(1, lost=True), d.usage(2, 3)],
        "held",
    ),
    (
        "counted: a lost call may not have happened",
        "quota.counted",
        lambda d: [d.usage(0, 2), d.briefs(1, lost=True), d.usage(2, 2)],
        "held",
    ),
    (
        "counted: a lost call cannot have happened twice",
        "quota.counted",
        lambda d: [d.usage(0, 2), d.briefs(1, lost=True), d.usage(2, 4)],
        "broke",
    ),
    (
        "counted: a reading beside a call may see it or not",
        "quota.counted",
        lambda d: [d.usage(0, 2), d.briefs(1, took=2), d.usage(1.5, 2), d.usage(1.6, 3), d.usage(4, 3)],
        "held",
    ),
    (
        "counted: what was seen cannot be unseen",
        "quota.counted",
        lambda d: [d.usage(0, 2), d.briefs(1, took=4), d.usage(1.5, 3), d.usage(2, 2)],
        "broke",
    ),
    (
        "counted: the replay of a lost call is one brief",
        "quota.counted",
        lambda d: [
            d.usage(0, 2),
            d.briefs(1, lost=True, idempotency_key="a"),
            d.briefs(2, idempotency_key="a"),
            d.usage(4, 4),
        ],
        "broke",
    ),
    (
        "counted: others may use the account",
        "quota.counted",
        lambda d: [d.usage(0, 2), d.usage(2, 4)],
        "broke",
    ),
    (
        "counted: a new week begins at nothing",
        "quota.counted",
        lambda d: [d.usage(0, 9), d.usage(2, 9, resets_at="2026-03-16T00:00:00Z")],
        "broke",
    ),
    (
        "counted: a refusal states it as well",
        "quota.counted",
        lambda d: [d.usage(0, 2), d.briefs(1, **d.exhausted())],
        "broke",
    ),
    # limit
    ("limit: reached", "quota.limit", lambda d: [d.usage(0, 9), d.briefs(1), d.usage(2, 10)], "held"),
    (
        "limit: passed, by the reading",
        "quota.limit",
        lambda d: [d.usage(0, 9), d.briefs(1, 2), d.usage(2, 11)],
        "broke",
    ),
    (
        "limit: two at once for the last unit, and the second is not even counted",
        "quota.limit",
        lambda d: [d.usage(0, 9), d.briefs(1), d.briefs(1), d.usage(2, 10)],
        "broke",
    ),
    (
        "limit: passed before the trace",
        "quota.limit",
        lambda d: [d.usage(0, 12), d.usage(2, 12)],
        "-",
    ),
    # refused
    ("refused: nothing left", "quota.refused", lambda d: [d.briefs(1, **d.exhausted(10, 10))], "held"),
    (
        "refused: one left, two asked",
        "quota.refused",
        lambda d: [d.briefs(1, 2, **d.exhausted(9, 10))],
        "held",
    ),
    ("refused: one left, one asked", "quota.refused", lambda d: [d.briefs(1, **d.exhausted(9, 10))], "broke"),
    ("refused: nothing stated", "quota.refused", lambda d: [d.briefs(1, code="quota_exhausted")], "open"),
    # meta
    ("meta: complete", "quota.meta", lambda d: [d.usage(0, 10), d.briefs(1, **d.exhausted())], "held"),
    (
        "meta: another status",
        "quota.meta",
        lambda d: [d.briefs(1, **{**d.exhausted(), "status": 429})],
        "broke",
    ),
    ("meta: no reset", "quota.meta", lambda d: [d.briefs(1, **d.exhausted(resets_at=None))], "broke"),
    ("meta: used as text", "quota.meta", lambda d: [d.briefs(1, **d.exhausted(used="10"))], "broke"),
    (
        "meta: a metric that usage lacks",
        "quota.meta",
        lambda d: [d.usage(0, 10), d.briefs(1, **d.exhausted(metric="other"))],
        "broke",
    ),
    (
        "meta: another limit than usage has",
        "quota.meta",
        lambda d: [d.usage(0, 10, 12), d.briefs(1, **d.exhausted())],
        "broke",
    ),
    # sum
    ("sum: adds up", "quota.sum", lambda d: [d.usage(0, 3)], "held"),
    ("sum: one too many remain", "quota.sum", lambda d: [d.usage(0, 3, remaining=8)], "broke"),
    # reset
    ("reset: on Monday", "quota.reset", lambda d: [d.usage(0)], "held"),
    ("reset: on Tuesday", "quota.reset", lambda d: [d.usage(0, resets_at="2026-03-10T00:00:00Z")], "broke"),
    (
        "reset: a Monday of New York",
        "quota.reset",
        lambda d: [d.usage(0, resets_at="2026-03-09T05:00:00Z")],
        "held",
    ),
    (
        "reset: the Monday after next",
        "quota.reset",
        lambda d: [d.usage(0, resets_at="2026-03-16T00:00:00Z")],
        "broke",
    ),
    (
        "reset: an hour ago",
        "quota.reset",
        lambda d: [d.usage(0, period="", resets_at="2026-03-04T11:00:00Z")],
        "broke",
    ),
    (
        "reset: moved back",
        "quota.reset",
        lambda d: [d.usage(0, period="", resets_at="2026-03-16T00:00:00Z"), d.usage(1, period="")],
        "broke",
    ),
]


@pytest.mark.fact("S35", "S38", "S63", "S98", "S108", "S110", "U54")
@pytest.mark.parametrize(
    ("rule", "steps", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_what_a_trace_shows_of_an_allowance(d: ModuleType, rule: str, steps: Steps, expected: str) -> None:
    assert d.verdict(rule, steps(d)) == expected


def test_foreign_traffic_leaves_what_is_too_much_open(d: ModuleType) -> None:
    steps = [d.usage(0, 2), d.usage(2, 4)]
    assert d.verdict("quota.counted", steps, exclusive=False) == "open"


@pytest.mark.fact("U50")
def test_jobs_of_others_may_give_units_back(d: ModuleType) -> None:
    steps = [d.usage(0, 2), d.briefs(1), d.usage(2, 2)]
    assert d.verdict("quota.counted", steps, exclusive=False) == "open"
    never = Policy().replace(assumptions={"quota_refund": "never"})
    assert d.verdict("quota.counted", steps, never, exclusive=False) == "broke"


@pytest.mark.fact("U54")
def test_a_unit_a_request_is_another_assumption(d: ModuleType) -> None:
    steps = [d.usage(0, 2), d.briefs(1, 3), d.usage(2, 3)]
    assert d.verdict("quota.counted", steps) == "held"
    assert d.differing(steps) == {54}


@pytest.mark.fact("U53")
def test_a_weekly_allowance_may_have_its_own_code(d: ModuleType) -> None:
    steps = [d.briefs(1, **{**d.exhausted(), "code": "allowance_exhausted"})]
    assert d.differing(steps) == {53}
    pinned = Policy().replace(assumptions={"weekly_exhaustion_code": "quota_exhausted"})
    assert d.verdict("quota.meta", steps, pinned) == "broke"


@pytest.mark.fact("U50", "U106")
def test_a_failed_job_may_give_its_unit_back(d: ModuleType) -> None:
    runs = {"metric": "runs", "period": "month", "resets_at": d.MONTH}
    refused = d.job(0, "crawl", **d.exhausted(10, 10, metric="runs", resets_at=d.MONTH))
    steps = [refused, d.usage(1, 5, **runs), d.job(2, id="j"), d.usage(3, 5, **runs)]
    assert d.verdict("quota.counted", [*steps, d.shown(4, "j", "running")]) == "broke"  # 10, then 5
    steps = [
        d.usage(1, 9, **runs),
        d.job(2, id="j"),
        d.usage(3, 9, **runs),
        d.job(4, **d.exhausted(9, 9, metric="runs", resets_at=d.MONTH)),
    ]
    assert d.verdict("quota.counted", steps) == "held"
    assert d.verdict("quota.counted", [*steps, d.shown(5, "j", "done")]) == "broke"


ANCHOR = "2025-11-17T08:30:00Z"


@pytest.mark.fact("U51")
@pytest.mark.parametrize(
    ("resets", "number"),
    [
        ("2026-03-17T08:30:00Z", set()),
        ("2026-03-17T08:30:02Z", set()),
        ("2026-04-01T00:00:00Z", {51}),
        ("2026-03-17T00:00:00Z", {51}),
    ],
)
def test_a_month_that_ends_elsewhere_than_the_billing_month_differs(
    d: ModuleType, resets: str, number: set[int]
) -> None:
    account = d.call(0, "account.get", {"id": "acc", "status": "active", "billing_anchor": ANCHOR})
    steps = [account, d.usage(1, 0, metric="lookups", period="month", resets_at=resets)]
    assert d.differing(steps) == number
    assert d.differing(steps[1:]) == set()


@pytest.mark.fact("U50", "U64", "U65")
def test_grants_of_less_than_was_asked_for_differ(d: ModuleType) -> None:
    body = {"domain_id": "d1", "keywords": ["a", "b", "B "]}
    made = {"id": "b1", "briefs": [{"id": "b1-1", "domain_id": "d1"}]}
    assert d.differing([d.spend(0, "keyword_briefs.create", body, made, False)]) == {50}
    whole = {**made, "briefs": [*made["briefs"], {"id": "b1-2", "domain_id": "d1"}]}
    assert d.differing([d.spend(0, "keyword_briefs.create", body, whole, False)]) == set()
    for created, there, number in ((1, 0, {64}), (1, 1, set()), (2, 0, set()), (3, 0, {65})):
        told = {
            "list_id": "l1",
            "created": [{"id": f"k{n}", "keyword": str(n)} for n in range(created)],
            "already_present": there,
        }
        steps = [d.spend(0, "keywords.create", {"list_id": "l1", "keywords": ["a", "b", "B "]}, told, False)]
        assert d.differing(steps) == number


@pytest.mark.fact("S63")
def test_a_limit_is_shown_to_hold_where_one_unit_more_is_refused(d: ModuleType) -> None:
    def covered(*entries: Any) -> list[str]:
        return [case.name for case in d.finding(d.judged(entries), "quota.limit").cases if case.exercised]

    assert covered(d.briefs(1, **d.exhausted(10, 10))) == [d.METRIC]
    assert covered(d.usage(0, 9), d.briefs(1), d.usage(2, 10)) == []  # reached, and not more asked for
    assert covered(d.briefs(1, 2, **d.exhausted(10, 10))) == []  # one more may have been given
    assert covered(d.briefs(1, **d.exhausted(11, 10))) == []  # one more was given


@pytest.mark.fact("S63")
def test_an_allowance_is_shown_to_hold_for_several_at_once_where_they_met(d: ModuleType) -> None:
    """One of two is granted the last unit, and the other refused, while both were under way."""

    def seen(*entries: Any) -> tuple[str, list[str], list[str]]:
        finding = d.finding(d.judged(entries), "quota.limit")
        exercised = [case.name for case in finding.cases if case.exercised]
        return finding.verdict, exercised, [case.name for case in finding.cases if case.broken]

    one, at_once = d.METRIC, f"{d.METRIC}, at once"
    after = d.briefs(1.2, **d.exhausted(10, 10))
    met = [d.usage(0, 9), d.briefs(1, took=1), after, d.usage(4, 10)]
    assert seen(*met) == ("conforms", [one, at_once], [])
    assert seen(d.usage(0, 9), d.briefs(1), after, d.usage(4, 10)) == ("undecided", [one], [])
    assert seen(d.usage(0, 10), d.briefs(1, took=1, **d.exhausted(10, 10)), after)[0] == "undecided"
    both = [d.usage(0, 9), d.briefs(1, took=1), d.briefs(1.2), d.usage(4, 11)]
    assert seen(*both) == ("deviates", [at_once], [at_once])
    assert seen(d.usage(0, 9), d.briefs(1), d.briefs(2), d.usage(4, 11)) == ("deviates", [one], [one])


@pytest.mark.fact("S35", "S63")
def test_no_order_of_calls_that_overlap_explains_what_they_show(d: ModuleType) -> None:
    """None is before another, so each pair is right; but nobody took the third, or one took all."""
    read = [d.usage(1, 2, took=3), d.usage(1.1, 3, took=3)]
    lost = d.briefs(1.2, lost=True)
    assert d.verdict("quota.counted", [*read, lost]) != "broke"  # it may lie between them
    assert d.verdict("quota.counted", read) == "broke"
    one, two = d.briefs(1.2, took=4), d.briefs(1.3, 3, took=4)
    between = [d.usage(1.4, 1, took=4), d.usage(1.5, 3, took=4)]
    assert d.verdict("quota.counted", [d.usage(0, 0), one, two, *between, d.usage(9, 4)]) == "broke"
    assert d.verdict("quota.counted", [d.usage(0, 0), one, two, between[0], d.usage(9, 4)]) == "held"


@pytest.mark.fact("S108")
def test_what_was_taken_in_a_week_counts_before_its_first_reading(d: ModuleType) -> None:
    """The week that ends on Monday 9 March had begun on the second, at every clock of the trace."""
    assert d.verdict("quota.counted", [d.briefs(1, 2), d.usage(2, 0)]) == "broke"
    assert d.verdict("quota.counted", [d.briefs(1, 2), d.usage(2, 0, period="")]) != "broke"
    assert d.verdict("quota.counted", [d.briefs(1, 2), d.usage(2, 1)]) != "broke"  # a unit a request (U54)


def test_a_thousand_calls_that_meet_are_left_open_or_told(d: ModuleType) -> None:
    """None of them can be right before another: too many orders to try, and no alarm."""
    calls = [d.briefs(1 + n / 1000, 1 + n % 7, took=2) for n in range(1000)]
    reads = [d.usage(1 + n / 10, 500 + 3 * n, 9000, took=1.5) for n in range(10)]
    steps = sorted([d.usage(0, 0, 9000), *calls, *reads], key=lambda one: one.sent)
    finding = d.finding(d.judged(steps), "quota.counted")
    assert not finding.broken
    assert finding.open == 1
