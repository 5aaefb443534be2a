"""Provider spend: what a trace shows of its sums, its ceiling and its month."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from ranksim.core.contract.policy import Policy

Steps = Callable[[ModuleType], list[Any]]

PARTS = {"spent": "5.00", "ceiling": "5.00", "currency": "USD", "resets_at": "2026-04-01T00:00:00Z"}
OTHER_FORM = {
    "amount_spent": {"amount": "5.00", "currency": "USD"},
    "cap": {"amount": 5, "currency": "USD"},
    "reset_date": "2026-04-01",
}
WITH_UNITS = {"spent": "$5.00", "ceiling": "5 USD", "resets": "2026-04-01T00:00:00Z"}

TWO_DATES = {"spent": "5.00", "since": "2026-03-01", "resets_at": "2026-04-01T00:00:00Z"}


def reached(d: ModuleType, meta: dict[str, Any]) -> Any:
    return d.job(0, code="cost_cap_reached", meta=meta)


def dated(d: ModuleType, date: str) -> list[Any]:
    """A refusal at the ceiling that tells a date, between two readings of usage (1 April)."""
    meta = {"amount_spent": "5.00", "ceiling": "5.00", "reset": date}
    return [d.cost(0), d.job(1, **{**d.capped(), "meta": meta}), d.cost(2)]


TABLE: list[tuple[str, str, Steps, str]] = [
    ("refused: reached", "cost.refused", lambda d: [d.job(0, **d.capped("5.00"))], "held"),
    ("refused: not reached", "cost.refused", lambda d: [d.job(0, **d.capped("4.99"))], "open"),
    ("refused: words cost nothing", "cost.refused", lambda d: [d.words(0, "a", **d.capped("4.99"))], "broke"),
    (
        "tracking: words cost nothing",
        "cost.tracking",
        lambda d: [d.cost(0, "1.00", "0.50"), d.words(1, "a"), d.cost(2, "1.00", "0.50")],
        "held",
    ),
    (
        "tracking: words are paid",
        "cost.tracking",
        lambda d: [d.cost(0, "1.00", "0.50"), d.words(1, "a"), d.cost(2, "1.00", "0.60")],
        "broke",
    ),
    (
        "tracking: a scan is paid at once",
        "cost.tracking",
        lambda d: [d.cost(0, "0.00", "0.50"), d.cost(1, "1.00"), d.scan(2), d.cost(3, "1.50")],
        "broke",
    ),
    (
        "tracking: a job beside",
        "cost.tracking",
        lambda d: [d.cost(0, "1.00", "0.50"), d.words(1, "a"), d.job(1.5), d.cost(2, "1.00", "0.60")],
        "-",
    ),
    ("refused: nothing stated", "cost.refused", lambda d: [d.job(0, code="cost_cap_reached")], "open"),
    ("meta: complete", "cost.meta", lambda d: [d.cost(0), d.job(1, **d.capped()), d.cost(2)], "held"),
    ("meta: nothing", "cost.meta", lambda d: [d.job(0, code="cost_cap_reached", status=402)], "broke"),
    (
        "meta: other names, amounts of a currency, a day",
        "cost.meta",
        lambda d: [reached(d, OTHER_FORM)],
        "held",
    ),
    ("meta: amounts with units", "cost.meta", lambda d: [reached(d, WITH_UNITS)], "held"),
    ("meta: no ceiling", "cost.meta", lambda d: [reached(d, {**PARTS, "ceiling": None})], "broke"),
    ("meta: no ceiling, and two dates", "cost.meta", lambda d: [reached(d, TWO_DATES)], "broke"),
    (
        "meta: a date of digits",
        "cost.meta",
        lambda d: [reached(d, {**PARTS, "resets_at": "20260401"})],
        "held",
    ),
    ("meta: no date", "cost.meta", lambda d: [reached(d, {**PARTS, "resets_at": "soon"})], "broke"),
    (
        "meta: another ceiling than usage",
        "cost.meta",
        lambda d: [d.cost(0, ceiling="6.00"), d.job(1, **d.capped()), d.cost(2, ceiling="6.00")],
        "broke",
    ),
    (
        "meta: another month than usage",
        "cost.meta",
        lambda d: [d.cost(0, resets_at=MAY), d.job(1, **d.capped()), d.cost(2, resets_at=MAY)],
        "broke",
    ),
    ("sum: adds up", "cost.sum", lambda d: [d.cost(0, "1.00", "2.00")], "held"),
    ("sum: settled alone", "cost.sum", lambda d: [d.cost(0, "1.00", "2.00", spent="1.00")], "held"),
    ("sum: half a cent", "cost.sum", lambda d: [d.cost(0, "1.0000", "2.0000", spent="3.0050")], "broke"),
    ("sum: neither", "cost.sum", lambda d: [d.cost(0, "1.00", "2.00", spent="2.50")], "broke"),
    ("counted: settles", "cost.counted", lambda d: [d.cost(0, "1.00", "2.00"), d.cost(1, "2.50")], "held"),
    ("counted: settled falls", "cost.counted", lambda d: [d.cost(0, "1.00"), d.cost(1, "0.90")], "broke"),
    (
        "counted: a job reserves",
        "cost.counted",
        lambda d: [d.cost(0), d.job(1), d.cost(2, "0.00", "1.00")],
        "held",
    ),
    ("counted: nothing reserves", "cost.counted", lambda d: [d.cost(0), d.cost(2, "0.00", "1.00")], "broke"),
    (
        "counted: a join reserves",
        "cost.counted",
        lambda d: [
            d.job(0, "rank_run", id="j"),
            d.cost(1),
            d.job(2, "rank_run", id="j", status=200),
            d.cost(3, "0.00", "1.00"),
        ],
        "broke",
    ),
    (
        "counted: a lost job may reserve",
        "cost.counted",
        lambda d: [d.cost(0), d.job(1, lost=True), d.cost(2, "0.00", "1.00")],
        "held",
    ),
    ("reset: lies ahead", "cost.reset", lambda d: [d.cost(0)], "held"),
    ("reset: has passed", "cost.reset", lambda d: [d.cost(0, resets_at="2026-03-04T00:00:00Z")], "broke"),
    ("reset: as a refusal tells", "cost.reset", lambda d: dated(d, "2026-04-01"), "held"),
    ("reset: not as a refusal tells", "cost.reset", lambda d: dated(d, "2026-04-04"), "broke"),
    ("reset: as a refusal tells in another zone", "cost.reset", lambda d: dated(d, "2026-03-31"), "held"),
    ("reset: beside a date that is past", "cost.reset", lambda d: dated(d, "2026-03-01"), "held"),
    (
        "reset: of another month after a refusal",
        "cost.reset",
        lambda d: [*dated(d, "2026-04-04")[:-1], d.cost(2, resets_at="2026-04-04T00:00:00Z")],
        "held",
    ),
    ("reset: too far", "cost.reset", lambda d: [d.cost(0, resets_at="2026-04-10T00:00:00Z")], "broke"),
    (
        "reset: moved back",
        "cost.reset",
        lambda d: [d.cost(0), d.cost(1, resets_at="2026-03-30T00:00:00Z")],
        "broke",
    ),
]
MAY = "2026-05-01T00:00:00Z"


@pytest.mark.fact("S62", "S99")
@pytest.mark.parametrize(
    ("rule", "steps", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_what_a_trace_shows_of_spend(d: ModuleType, rule: str, steps: Steps, expected: str) -> None:
    assert d.verdict(rule, steps(d)) == expected


@pytest.mark.fact("U48", "U96")
def test_other_readings_of_the_ceiling_differ_or_break_where_pinned(d: ModuleType) -> None:
    short = [d.job(0, **d.capped("4.99"))]
    assert d.differing(short) == {48}
    assert (
        d.verdict("cost.refused", short, Policy().replace(assumptions={"cost_gate": "at_ceiling"})) == "broke"
    )
    settled = [d.cost(0, "1.00", "2.00", spent="1.00")]
    assert d.differing(settled) == {96}
    pinned = Policy().replace(assumptions={"spent_counts": "settled_and_reserved"})
    assert d.verdict("cost.sum", settled, pinned) == "broke"


def test_a_scaled_clock_leaves_the_month_open(d: ModuleType) -> None:
    assert d.verdict("cost.reset", [d.cost(0)], rate=60) == "-"


@pytest.mark.fact("U109")
def test_what_would_exercise_a_rule_names_what_usage_has_to_state(d: ModuleType) -> None:
    """No profile helps where usage states what is spent and no more."""
    spent = {"metrics": [], "cost": {"spent": "1.00", "ceiling": "5.00"}}
    tally = d.judged([d.call(0, "account.usage", spent), d.job(1), d.call(2, "account.usage", spent)])
    needed = {
        "cost.sum": ("spent", "settled", "reserved"),
        "cost.counted": ("settled", "resets"),
        "cost.reset": ("resets",),
    }
    for rule, parts in needed.items():
        found = d.finding(tally, rule)
        assert found.verdict == "not exercised"
        assert [part for part in parts if part not in found.rule.exercise] == []


@pytest.mark.fact("U49")
@pytest.mark.parametrize(
    ("during", "after", "number"),
    [("0.00", "0.30", {49}), ("0.30", "0.30", {49}), ("0.00", "0.00", set())],
    ids=["as it ends", "as it begins", "never"],
)
def test_cost_that_is_never_reserved_is_booked_at_the_start_or_at_the_end(
    d: ModuleType, during: str, after: str, number: set[int]
) -> None:
    def steps(reserved: str) -> list[Any]:
        return [
            d.cost(0),
            d.job(1, id="j1"),
            d.cost(2, during, reserved),
            d.shown(3, "j1", "running"),
            d.shown(4, "j1"),
            d.cost(5, after),
        ]

    assert d.differing(steps("0.00")) == number
    assert 49 not in d.differing(steps("0.30"))


@pytest.mark.fact("U49")
@pytest.mark.parametrize(
    ("after", "beside", "kept"),
    [("0.30", [], True), ("0.00", [], False), ("0.30", ["j2"], False)],
    ids=["kept", "released", "another may reserve it"],
)
def test_what_a_failed_job_had_reserved_is_released(
    d: ModuleType, after: str, beside: list[str], kept: bool
) -> None:
    steps = [
        d.cost(0, "1.00", "0.00"),
        d.job(1, id="j1"),
        d.cost(2, "1.00", "0.30"),
        *(d.job(3, id=name, kind="ai_scan") for name in beside),
        d.shown(4, "j1", "failed"),
        d.cost(5, "1.00", after),
    ]
    assert (49 in d.differing(steps)) == kept


RESERVING = Policy().replace(
    assumptions={"cost_timing": "reserve", "spent_counts": "settled_and_reserved", "cost_gate": "at_ceiling"}
)


@pytest.mark.fact("S62", "U49", "U96")
def test_no_order_of_calls_that_overlap_explains_what_a_month_has_cost(d: ModuleType) -> None:
    """Either reading came first: settled cost fell to 1 USD, or what was reserved rose from nothing."""
    less, more = d.cost(1.2, "1.00", "0.00", took=3), d.cost(1.3, "2.00", "1.00", took=3)
    work = d.job(1.4, took=2)
    assert d.verdict("cost.counted", [less, more, work], RESERVING) != "broke"  # between them
    assert d.verdict("cost.counted", [less, more], RESERVING) == "broke"
    refused = d.job(2, **d.capped("5.00"))
    after = [d.cost(0, "5.50"), refused, d.cost(4, "6.00")]
    assert d.verdict("cost.counted", after, RESERVING) == "broke"  # 5.00 spent, where 5.50 was settled
