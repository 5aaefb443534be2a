"""What judges of one account share: what it did, what may be assumed, and how what is found is noted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from ranksim.core.clock import Micros, iso
from ranksim.judge.conformance.spending.activity import AccountActivity
from ranksim.judge.conformance.spending.columns import Contradictions, CounterColumns
from ranksim.judge.conformance.spending.statements import (
    LONGEST_MONTH,
    LONGEST_WEEK,
    BusinessClock,
    CostStatement,
    MeterStatement,
)
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import ANY
from ranksim.judge.conformance.verdict.verdicts import Tally


@dataclass(frozen=True, slots=True)
class AccountAudit:
    """One account under judgement, by the deployment's clock, under some options."""

    activity: AccountActivity
    clock: BusinessClock
    options: Options
    tally: Tally

    def check(
        self,
        rule: str,
        holds: bool,
        says: str,
        ids: tuple[str, ...],
        at: Micros,
        expected: str = "",
        *,
        case: str | None = ANY,
    ) -> None:
        """Note that a rule held or broke, as these exchanges show."""
        self.tally.check(rule, holds, self.activity.evidence(says, ids, at, expected), case=case)

    def broke(
        self, rule: str, says: str, ids: tuple[str, ...], at: Micros, expected: str = "", *, case: str = ANY
    ) -> None:
        """Note that a rule broke, as these exchanges show."""
        self.check(rule, False, says, ids, at, expected, case=case)

    def differs(
        self,
        number: int,
        assumed: object,
        instead: object,
        says: str,
        ids: tuple[str, ...],
        at: Micros,
        expected: str = "",
    ) -> None:
        """Note that these exchanges exclude the default of an assumption."""
        self.tally.differs(number, assumed, instead, self.activity.evidence(says, ids, at, expected))


MOST_SHOWN = 50
"""Contradictions of one counter that are reported; one wrong count spoils all that follow."""


def judge_columns(
    audit: AccountAudit,
    rule: str,
    columns: CounterColumns,
    unexplained: Contradictions,
    about: str,
    case: str = ANY,
) -> None:
    """Break a rule for each contradiction: each call may be right by itself, and no order explains all."""
    if unexplained.too_many:
        audit.tally.open(rule, "too many calls met at once to tell")
    for calls in unexplained.calls[:MOST_SHOWN]:
        ids = tuple(dict.fromkeys(call.id for call in calls if call.id))
        audit.broke(rule, f"{about}: {columns.says(calls)}", ids, calls[0].sent, case=case)


StatedT = TypeVar("StatedT", MeterStatement, CostStatement)

CANNOT_TELL = "?"
"""What is wrong with a reset of which nobody can tell."""

LONGEST = {"week": LONGEST_WEEK, "month": LONGEST_MONTH}


def judge_resets(
    audit: AccountAudit,
    rule: str,
    case: str,
    statements: Iterable[StatedT],
    wrong_week: Callable[[StatedT, Micros], str] = lambda stated, ends: "",
) -> None:
    """A stated reset lies ahead, within its period, and never moves back; of a week's its kind knows more.

    Two replies, the second sent after the first was received, are in this order at the deployment too; so
    the period of the second is the same or a later one.
    """
    latest: StatedT | None = None
    for stated in statements:
        ends = stated.ends
        if ends is None:
            continue
        wrong, own = _wrong_reset(audit.clock, stated, ends), stated.exchange.id
        if stated.period == "week" and wrong in ("", CANNOT_TELL):
            wrong = wrong_week(stated, ends)
        ids: tuple[str, ...] = (own,)
        if latest is not None and latest.high < stated.low and (latest.ends or 0) > ends:
            wrong, ids = f"it was {iso(latest.ends or 0)} before", (latest.exchange.id, own)
        if latest is None or ends > (latest.ends or 0):
            latest = stated
        if wrong != CANNOT_TELL:
            says = f"{stated.about} resets at {iso(ends)}: {wrong}"
            audit.check(rule, not wrong, says, ids, stated.low, case=case)


LONGEST = {"week": LONGEST_WEEK, "month": LONGEST_MONTH}


def _wrong_reset(clock: BusinessClock, stated: MeterStatement | CostStatement, ends: Micros) -> str:
    """Say what is wrong with a stated reset by itself, or ""."""
    if clock.passed(stated.low, ends):
        return "that had passed when it was stated"
    if stated.period in LONGEST and clock.passed(stated.high, ends - LONGEST[stated.period]) is False:
        return f"that is more than a {stated.period} ahead"
    return "" if clock.at(stated.low) is not None else CANNOT_TELL
