"""The six checks and their booking, on bare rows."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import pytest

from ranksim.core.clock import DISTANT_PAST, HOUR, instant
from ranksim.core.contract.facts import Decision, Spend
from ranksim.core.rules import admission
from ranksim.core.rules.admission import (
    AT_ACCEPTANCE,
    AT_CEILING,
    AT_COMPLETION,
    COOLDOWN_ACTIVE,
    COST_CAP_REACHED,
    ENTITLEMENT_REQUIRED,
    GRANTED,
    JOIN_AFTER_CHECKS,
    JOIN_AFTER_HEALTH,
    JOIN_BEFORE_CHECKS,
    JOIN_NEVER,
    JOINED,
    MONTH,
    QUOTA_EXHAUSTED,
    RESERVE,
    SLOT_LIMIT_EXCEEDED,
    SUBSCRIPTION_INACTIVE,
    WEEK,
    WOULD_EXCEED,
)
from ranksim.core.rules.books import UNLIMITED, Ask, Books, Cooldown, Meter, Terms

NOW = instant("2026-03-04T10:00:00Z")
ANCHOR = instant("2026-01-31T09:00:00Z")
MONTH_ENDS = instant("2026-03-31T09:00:00Z")
WEEK_ENDS = instant("2026-03-09T00:00:00Z")
ALL_SIX = 0b1111110
CHECKS = (1, 2, 3, 4, 5, 6)


@dataclass
class Desk:
    """Rows under which an ask that all six checks apply to is granted."""

    ask: Ask = field(
        default_factory=lambda: Ask(checks=ALL_SIX, capability=0b10, estimate=10, units=2, slots=3, revived=1)
    )
    books: Books = field(
        default_factory=lambda: Books(
            capabilities=0b11,
            ceiling=100,
            settled=40,
            reserved=20,
            anchor=ANCHOR,
            month_ends=MONTH_ENDS,
            slot_limit=10,
            active=5,
            held=2,
        )
    )
    meter: Meter = field(default_factory=lambda: Meter(limit=9, used=4, ends=WEEK_ENDS, period=WEEK))
    cooldown: Cooldown = field(default_factory=lambda: Cooldown(length=HOUR, since=NOW - 2 * HOUR))
    terms: Terms = field(default_factory=Terms)

    def with_(self, **changes: Any) -> "Desk":
        """Change fields: `books_held=3` sets `books.held`."""
        for name, value in changes.items():
            row, _, column = name.partition("_")
            setattr(getattr(self, row), column, value)
        return self

    def decide(self, now: int = NOW) -> int:
        return admission.decide(now, self.ask, self.books, self.meter, self.cooldown, self.terms)

    def admit(self, now: int = NOW) -> int:
        return admission.admit(now, self.ask, self.books, self.meter, self.cooldown, self.terms)


FAULTS: dict[int, dict[str, int]] = {
    ENTITLEMENT_REQUIRED: {"books_capabilities": 0b01},
    SUBSCRIPTION_INACTIVE: {"books_healthy": 0},
    COST_CAP_REACHED: {"books_settled": 80},
    QUOTA_EXHAUSTED: {"meter_used": 8},
    SLOT_LIMIT_EXCEEDED: {"books_active": 7},
    COOLDOWN_ACTIVE: {"cooldown_since": NOW - 1},
}
"""One way for each check to fail, which touches no other."""


def broken(*checks: int) -> Desk:
    desk = Desk()
    for check in checks:
        desk.with_(**FAULTS[check])
    return desk


def sets_of_checks() -> Iterator[tuple[int, ...]]:
    for size in range(7):
        yield from combinations(CHECKS, size)


# Precedence


def test_nothing_wrong_is_granted() -> None:
    assert Desk().decide() == GRANTED


@pytest.mark.fact("S60", "S61", "S62", "S63", "S64", "S65")
@pytest.mark.parametrize("check", CHECKS)
def test_each_check_refuses_alone_and_with_its_own_code(check: int) -> None:
    assert broken(check).decide() == check
    assert (
        Decision(check).code
        == (
            "entitlement_required",
            "subscription_inactive",
            "cost_cap_reached",
            "quota_exhausted",
            "slot_limit_exceeded",
            "cooldown_active",
        )[check - 1]
    )


@pytest.mark.fact("S59", "E12")
@pytest.mark.parametrize(
    ("first", "second", "refused_by"),
    [
        (1, 2, ENTITLEMENT_REQUIRED),
        (1, 3, ENTITLEMENT_REQUIRED),
        (1, 4, ENTITLEMENT_REQUIRED),
        (1, 5, ENTITLEMENT_REQUIRED),
        (1, 6, ENTITLEMENT_REQUIRED),
        (2, 3, SUBSCRIPTION_INACTIVE),
        (2, 4, SUBSCRIPTION_INACTIVE),
        (2, 5, SUBSCRIPTION_INACTIVE),
        (2, 6, SUBSCRIPTION_INACTIVE),
        (3, 4, COST_CAP_REACHED),
        (3, 5, COST_CAP_REACHED),
        (3, 6, COST_CAP_REACHED),
        (4, 5, QUOTA_EXHAUSTED),
        (4, 6, QUOTA_EXHAUSTED),
        (5, 6, SLOT_LIMIT_EXCEEDED),
    ],
)
def test_of_two_failing_checks_the_first_refuses(first: int, second: int, refused_by: int) -> None:
    assert broken(first, second).decide() == refused_by
    assert broken(second, first).decide() == refused_by


@pytest.mark.fact("S59", "E12")
def test_of_any_failing_checks_the_first_refuses() -> None:
    for checks in sets_of_checks():
        assert broken(*checks).decide() == min(checks, default=GRANTED), checks


@pytest.mark.fact("S59")
def test_mending_one_fault_after_the_other_walks_through_the_checks_in_order() -> None:
    refusals = [broken(*CHECKS[mended:]).decide() for mended in range(7)]
    assert refusals == [1, 2, 3, 4, 5, 6, GRANTED]


@pytest.mark.fact("U58")
def test_a_check_that_does_not_apply_passes() -> None:
    for left_out in CHECKS:
        desk = broken(*CHECKS).with_(ask_checks=1 << left_out)
        assert desk.decide() == left_out
    assert broken(*CHECKS).with_(ask_checks=0).decide() == GRANTED


# Edges


@pytest.mark.parametrize(
    ("changes", "decision"),
    [
        pytest.param({"ask_capability": 0, "books_capabilities": 0}, GRANTED, id="none needed"),
        pytest.param({"ask_capability": 0b10, "books_capabilities": 0b10}, GRANTED, id="the one needed"),
        pytest.param({"ask_capability": 0b11, "books_capabilities": 0b10}, 1, id="one of two needed"),
        pytest.param({"ask_beyond": ENTITLEMENT_REQUIRED}, 1, id="beyond the plan's dimensions"),
        pytest.param({"ask_beyond": SLOT_LIMIT_EXCEEDED}, 5, id="beyond the dimensions, minded by check 5"),
    ],
)
@pytest.mark.fact("S60", "U59")
def test_capability(changes: dict[str, int], decision: int) -> None:
    assert Desk().with_(**changes).decide() == decision


@pytest.mark.fact("S62", "U48", "U96")
@pytest.mark.parametrize(
    ("gate", "settled", "reserved", "estimate", "counts_reserved", "decision"),
    [
        pytest.param(AT_CEILING, 60, 39, 999, 1, GRANTED, id="one below; the job that crosses completes"),
        pytest.param(AT_CEILING, 60, 40, 0, 1, 3, id="reached, even by what costs nothing"),
        pytest.param(AT_CEILING, 0, 101, 1, 1, 3, id="passed by reservations"),
        pytest.param(AT_CEILING, 0, 101, 1, 0, GRANTED, id="reservations not counted"),
        pytest.param(AT_CEILING, 100, 0, 1, 0, 3, id="settled reaches it"),
        pytest.param(WOULD_EXCEED, 60, 30, 10, 1, GRANTED, id="would just reach it"),
        pytest.param(WOULD_EXCEED, 60, 30, 11, 1, 3, id="would exceed it"),
        pytest.param(WOULD_EXCEED, 60, 40, 0, 1, 3, id="already reached"),
    ],
)
def test_the_cost_ceiling(
    gate: int, settled: int, reserved: int, estimate: int, counts_reserved: int, decision: int
) -> None:
    desk = Desk().with_(
        terms_cost_gate=gate,
        terms_spent_counts_reserved=counts_reserved,
        books_settled=settled,
        books_reserved=reserved,
        ask_estimate=estimate,
    )
    assert desk.decide() == decision


@pytest.mark.fact("S63", "U50")
@pytest.mark.parametrize(
    ("limit", "used", "units", "decision"),
    [
        (9, 7, 2, GRANTED),
        (9, 8, 2, 4),
        (9, 9, 1, 4),
        (9, 9, 0, GRANTED),
        (9, 12, 0, GRANTED),
        (0, 0, 1, 4),
        (UNLIMITED, 10**9, 10**9, GRANTED),
    ],
)
def test_the_quota_is_all_or_nothing(limit: int, used: int, units: int, decision: int) -> None:
    desk = Desk().with_(meter_limit=limit, meter_used=used, ask_units=units)
    assert desk.decide() == decision


@pytest.mark.fact("S26", "S64", "U63")
@pytest.mark.parametrize(
    ("active", "held", "added", "revived", "decision"),
    [
        pytest.param(5, 2, 3, 0, GRANTED, id="fits exactly"),
        pytest.param(5, 3, 3, 0, 5, id="one too many, holds counted"),
        pytest.param(5, 3, 3, 1, GRANTED, id="a hold pays for one"),
        pytest.param(8, 9, 2, 2, GRANTED, id="net nothing, though the plan was lowered"),
        pytest.param(20, 0, 0, 0, GRANTED, id="nothing added, though the plan was lowered"),
        pytest.param(20, 0, -3, 0, GRANTED, id="narrows, though the plan was lowered"),
    ],
)
def test_slots(active: int, held: int, added: int, revived: int, decision: int) -> None:
    desk = Desk().with_(books_active=active, books_held=held, ask_slots=added, ask_revived=revived)
    assert desk.decide() == decision


@pytest.mark.fact("S65", "U46")
@pytest.mark.parametrize(
    ("length", "since", "decision"),
    [
        pytest.param(HOUR, NOW, 6, id="accepted at this instant"),
        pytest.param(HOUR, NOW - HOUR + 1, 6, id="a microsecond to go"),
        pytest.param(HOUR, NOW - HOUR, GRANTED, id="over to the microsecond"),
        pytest.param(HOUR, DISTANT_PAST, GRANTED, id="never run"),
        pytest.param(0, NOW, GRANTED, id="no cooldown"),
    ],
)
def test_the_cooldown(length: int, since: int, decision: int) -> None:
    assert Desk().with_(cooldown_length=length, cooldown_since=since).decide() == decision


@pytest.mark.fact("S108", "S110", "E17", "E21")
@pytest.mark.parametrize(
    ("check", "ends"),
    [(COST_CAP_REACHED, MONTH_ENDS), (QUOTA_EXHAUSTED, WEEK_ENDS), (SLOT_LIMIT_EXCEEDED, MONTH_ENDS)],
)
def test_what_was_used_is_forgotten_at_the_end_of_its_period_to_the_microsecond(
    check: int, ends: int
) -> None:
    desk = broken(check).with_(cooldown_since=DISTANT_PAST)
    assert desk.decide(ends - 1) == check
    assert desk.decide(ends) == GRANTED


# Joining


@pytest.mark.fact("U45", "E8", "E49")
@pytest.mark.parametrize(
    ("join", "by_fault"),
    [
        pytest.param(JOIN_AFTER_HEALTH, {0: 7, 1: 1, 2: 2, 3: 7, 4: 7, 5: 7, 6: 7}, id="after health"),
        pytest.param(JOIN_BEFORE_CHECKS, {0: 7, 1: 7, 2: 7, 3: 7, 4: 7, 5: 7, 6: 7}, id="before all"),
        pytest.param(JOIN_AFTER_CHECKS, {0: 7, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6}, id="after all"),
        pytest.param(JOIN_NEVER, {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6}, id="never"),
    ],
)
def test_where_a_running_rank_run_is_joined(join: int, by_fault: dict[int, int]) -> None:
    decisions = {}
    for fault in by_fault:
        desk = broken(*([fault] if fault else [])).with_(terms_join=join, ask_running=1)
        decisions[fault] = desk.decide()
    assert decisions == by_fault


# Booking


@pytest.mark.fact("U49", "U50", "U63", "U46")
def test_what_is_granted_is_booked() -> None:
    desk = Desk()
    assert desk.admit() == GRANTED
    assert (desk.books.settled, desk.books.reserved) == (40, 30)
    assert desk.meter.used == 6
    assert (desk.books.active, desk.books.held) == (8, 1)
    assert desk.cooldown.since == NOW
    assert (desk.books.month_ends, desk.meter.ends) == (MONTH_ENDS, WEEK_ENDS)


@pytest.mark.fact("E11", "S59")
def test_a_refusal_books_nothing() -> None:
    for checks in sets_of_checks():
        if checks:
            desk = broken(*checks)
            before = deepcopy(desk)
            assert desk.admit() == min(checks)
            assert desk == before, checks


@pytest.mark.fact("S66")
def test_a_dry_run_decides_alike_and_books_nothing() -> None:
    for checks in sets_of_checks():
        desk = broken(*checks).with_(ask_dry_run=1)
        before = deepcopy(desk)
        assert desk.admit() == min(checks, default=GRANTED)
        assert desk == before, checks


@pytest.mark.fact("U45", "E8")
def test_a_join_books_nothing() -> None:
    desk = Desk().with_(ask_running=1)
    before = deepcopy(desk)
    assert desk.admit() == JOINED
    assert desk == before


@pytest.mark.fact("S108", "S110", "U51", "E20")
@pytest.mark.parametrize(
    ("period", "now", "meter_ends", "month_ends"),
    [
        (WEEK, "2026-03-08T23:59:59Z", "2026-03-09T00:00:00Z", "2026-03-31T09:00:00Z"),
        (WEEK, "2026-03-09T00:00:00Z", "2026-03-16T00:00:00Z", "2026-03-31T09:00:00Z"),
        (MONTH, "2026-03-31T08:59:59Z", "2026-03-31T09:00:00Z", "2026-03-31T09:00:00Z"),
        (MONTH, "2026-03-31T09:00:00Z", "2026-04-30T09:00:00Z", "2026-04-30T09:00:00Z"),
        (MONTH, "2027-02-28T08:00:00Z", "2027-02-28T09:00:00Z", "2027-02-28T09:00:00Z"),
    ],
)
def test_booking_in_a_new_period_opens_it(period: int, now: str, meter_ends: str, month_ends: str) -> None:
    fresh = Desk().with_(
        books_month_ends=DISTANT_PAST, meter_ends=DISTANT_PAST, meter_period=period, ask_revived=0
    )
    assert fresh.admit(instant(now)) == GRANTED
    assert (fresh.books.month_ends, fresh.meter.ends) == (instant(month_ends), instant(meter_ends))
    assert (fresh.books.settled, fresh.books.reserved, fresh.books.held) == (0, 10, 0)
    assert (fresh.books.active, fresh.meter.used) == (8, 2)


@pytest.mark.fact("U52")
def test_the_week_may_begin_at_another_hour() -> None:
    desk = Desk().with_(terms_week_offset=-2 * HOUR, meter_ends=DISTANT_PAST)
    assert desk.admit() == GRANTED
    assert desk.meter.ends == instant("2026-03-08T22:00:00Z")


@pytest.mark.fact("U49")
@pytest.mark.parametrize(
    ("timing", "accepted", "done", "failed"),
    [
        pytest.param(RESERVE, (40, 30), (47, 20), (40, 20), id="reserve, settle, release"),
        pytest.param(AT_ACCEPTANCE, (50, 20), (50, 20), (50, 20), id="at acceptance"),
        pytest.param(AT_COMPLETION, (40, 20), (47, 20), (40, 20), id="at completion"),
    ],
)
def test_when_cost_is_booked(
    timing: int, accepted: tuple[int, int], done: tuple[int, int], failed: tuple[int, int]
) -> None:
    for actual, ended in ((7, done), (0, failed)):
        desk = Desk().with_(terms_cost_timing=timing)
        assert desk.admit() == GRANTED
        assert (desk.books.settled, desk.books.reserved) == accepted
        admission.settle(desk.books, MONTH_ENDS, 10, actual, desk.terms)
        assert (desk.books.settled, desk.books.reserved) == ended


@pytest.mark.fact("E16")
@pytest.mark.parametrize("timing", [RESERVE, AT_COMPLETION])
def test_work_that_outlives_its_month_leaves_the_next_month_alone(timing: int) -> None:
    desk = Desk().with_(terms_cost_timing=timing, cooldown_length=0)
    assert desk.admit() == GRANTED
    assert desk.admit(MONTH_ENDS) == GRANTED
    before = deepcopy(desk.books)
    admission.settle(desk.books, MONTH_ENDS, 10, 7, desk.terms)
    assert desk.books == before


@pytest.mark.fact("E16")
def test_work_settled_in_a_month_without_bookings_counts_in_the_month_that_is_over() -> None:
    desk = Desk()
    assert desk.admit() == GRANTED
    admission.settle(desk.books, MONTH_ENDS, 10, 7, desk.terms)
    assert admission.spent_at(MONTH_ENDS - 1, desk.books, desk.terms) == 67
    assert admission.spent_at(MONTH_ENDS, desk.books, desk.terms) == 0


@pytest.mark.fact("U50")
def test_units_are_given_back_in_their_own_period_only() -> None:
    desk = Desk()
    admission.refund(desk.meter, WEEK_ENDS, 3)
    assert desk.meter.used == 1
    admission.refund(desk.meter, WEEK_ENDS - 1, 3)
    assert desk.meter.used == 1


@pytest.mark.fact("S26", "S27", "E17")
def test_slots_are_held_in_the_month_of_their_removal() -> None:
    books = Desk().books
    admission.hold(NOW, books, 4)
    assert (books.active, books.held, books.month_ends) == (1, 6, MONTH_ENDS)
    admission.hold(MONTH_ENDS, books, 1)
    assert (books.active, books.held) == (0, 1)
    assert books.month_ends == instant("2026-04-30T09:00:00Z")
    assert (books.settled, books.reserved) == (0, 0)


@pytest.mark.fact("U46")
@pytest.mark.parametrize(
    ("spend", "since"),
    [(spend, DISTANT_PAST if spend < Spend.KEYWORD_BRIEFS else NOW) for spend in Spend],
)
def test_a_cooldown_from_the_finish_leaves_jobs_to_their_end(spend: Spend, since: int) -> None:
    """What is no job finishes as it is accepted."""
    desk = Desk().with_(terms_cooldown_from_finish=1, cooldown_since=DISTANT_PAST, ask_spend=spend)
    assert desk.admit() == GRANTED
    assert desk.cooldown.since == since


# Many at once


@pytest.mark.fact("E14", "S63")
@pytest.mark.parametrize("count", [1, 2, 20])
def test_one_more_spend_than_the_quota_has_units_is_refused_once(count: int) -> None:
    desk = Desk().with_(
        ask_units=1, meter_used=0, meter_limit=count - 1, ask_slots=0, ask_estimate=0, cooldown_length=0
    )
    decisions = [desk.admit() for _ in range(count)]
    assert decisions.count(QUOTA_EXHAUSTED) == 1
    assert decisions.count(GRANTED) == count - 1
    assert desk.meter.used == count - 1


@pytest.mark.fact("E15", "U49")
@pytest.mark.parametrize(
    ("timing", "second"),
    [(RESERVE, COST_CAP_REACHED), (AT_ACCEPTANCE, COST_CAP_REACHED), (AT_COMPLETION, GRANTED)],
)
def test_two_jobs_just_below_the_ceiling(timing: int, second: int) -> None:
    desk = Desk().with_(
        terms_cost_timing=timing, books_settled=79, ask_slots=0, ask_units=0, cooldown_length=0
    )
    assert [desk.admit(), desk.admit()] == [GRANTED, second]


@pytest.mark.parametrize("change", [lambda d: None, lambda d: d.with_(ask_running=1)])
def test_deciding_changes_nothing(change: Callable[[Desk], None]) -> None:
    for checks in sets_of_checks():
        desk = broken(*checks)
        change(desk)
        before = deepcopy(desk)
        desk.decide(NOW)
        desk.decide(MONTH_ENDS)
        assert desk == before
