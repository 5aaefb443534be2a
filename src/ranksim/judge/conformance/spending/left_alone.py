"""What calls leave alone: dry runs every counter (S29, S66), additions the month's cost (S57, S58).

Only accepted work raises used units, used slots and reserved cost, what is settled while no reservation is
given up, and what is spent where no job runs. So between two readings with such calls, where nothing else may
have been accepted, no counter has grown.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import TypeVar

from ranksim.core.clock import Micros
from ranksim.judge.conformance.history.fields import sent_body
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.spending.activity import (
    ADDS,
    JOBS,
    AccountActivity,
    DryRunReport,
    SpendWork,
    asked_of,
)
from ranksim.judge.conformance.spending.audit import AccountAudit
from ranksim.judge.conformance.spending.consumers import BRIEFS
from ranksim.judge.conformance.spending.counter_bounds import SpanSums
from ranksim.judge.conformance.spending.statements import (
    CostStatement,
    CounterStatement,
    StatedNumber,
    neighbours,
)
from ranksim.judge.conformance.verdict.rule import ANY

SPENT = "spent µUSD"


def books_of(activity: AccountActivity) -> Iterator[list[StatedNumber]]:
    """Return what a dry run might consume, each as it was read: units, slots, and cost."""
    for metric, meters in activity.meters.items():
        yield [_stated(metric, m, m.used, (BRIEFS,) if m.period == "week" else ()) for m in meters]
    yield [_stated("slots", slots, slots.used, ADDS) for slots in activity.slots]
    yield from month_cost(activity)


def month_cost(activity: AccountActivity) -> Iterator[list[StatedNumber]]:
    """Return the amounts that nothing raises but work.

    Where cost is reserved (U49), nothing has settled while what is reserved stayed the same; elsewhere what
    is spent may grow by jobs that run, and each surface may round it in its own way.
    """
    costs = activity.cost
    yield [_stated("reserved µUSD", c, c.reserved) for c in costs if c.reserved is not None]
    if any(c.reserved for c in costs):
        both = [c for c in costs if c.settled is not None and c.reserved is not None]
        yield [_stated("settled µUSD", c, c.settled, JOBS, c.reserved) for c in both]
    else:
        amounts = [(c, c.settled if c.spent is None else c.spent) for c in costs]
        yield [_stated(SPENT, c, spent, JOBS, c.exchange.surface) for c, spent in amounts]


def _stated(
    what: str,
    statement: CounterStatement | CostStatement,
    value: int | None,
    by: Collection[str] = (),
    beside: Hashable = None,
) -> StatedNumber:
    ends = statement.ends, beside
    return StatedNumber(statement.low, statement.high, statement.exchange, what, value or 0, ends, by)


CallT = TypeVar("CallT")


def between_readings(
    activity: AccountActivity,
    readings: Sequence[StatedNumber],
    calls: Sequence[CallT],
    begins: Callable[[CallT], Micros],
    moved: SpanSums,
) -> Iterator[tuple[StatedNumber, StatedNumber, Sequence[CallT]]]:
    """Yield each two readings between which nothing may have been `moved`, and the calls that began there."""
    starts = [begins(call) for call in calls]
    for first, second in neighbours(sorted(readings, key=lambda reading: reading.low)):
        inside = calls[bisect_right(starts, first.high) : bisect_left(starts, second.low)]
        if not inside or moved.possibly(first.low, second.high):
            continue
        if first.what != SPENT or not activity.jobs_run(first.low, second.high):
            yield first, second, inside


def judge_additions(audit: AccountAudit) -> None:
    """Between two readings with additions and no other work, nothing is reserved or spent."""
    activity = audit.activity
    others = SpanSums((work.low, work.high, 1) for work in activity.works if work.spend not in ADDS)
    added = [work for work in activity.works if work.sure and work.spend in ADDS]
    judged = set[tuple[str, ...]]()
    for readings in month_cost(activity):
        for first, second, works in between_readings(
            activity, readings, added, lambda work: work.low, others
        ):
            inside = [work for work in works if work.high < second.low]
            if not inside:
                continue
            says = (
                f"{inside[0].spend} was added and nothing else accepted; {first.what}: {first.value} before, "
                f"and {second.value} after"
            )
            ids = (first.exchange.id, inside[0].exchange.id, second.exchange.id)
            grown = second.value > first.value
            if grown or ids not in judged:  # amounts of the same replies are one instance
                audit.check("cost.tracking", not grown, says, ids, second.low, case=inside[0].spend)
            judged.add(ids)


def judge_dry_runs(audit: AccountAudit, allowed: AllowedDryRuns) -> None:
    """Between two readings with dry runs and surely no work between them, nothing has grown."""
    activity = audit.activity
    for readings in books_of(activity):
        undisturbed = between_readings(
            activity, readings, activity.dry_runs, lambda call: call.sent, activity.changed
        )
        for first, second, dry in undisturbed:
            if not activity.alone:
                audit.tally.open("dry_run.free", "others may have used the account")
                continue
            says = (
                f"{first.what}: {first.value} before and {second.value} after {len(dry)} dry runs, "
                "with no other call that spends"
            )
            ids, free = (first.exchange.id, dry[0].id, second.exchange.id), second.value <= first.value
            case = None if free else allowed.only(dry, first.by)
            audit.check("dry_run.free", free, says, ids, second.low, case=case)
            for report in allowed.between(first.high, second.low) if free else ():
                if report.spend in first.by:
                    by = (first.exchange.id, report.exchange.id, second.exchange.id)
                    audit.tally.covers("dry_run.free", report.spend, by)


class AllowedDryRuns:
    """Dry runs that said yes, in order: only such could have consumed anything."""

    def __init__(self, activity: AccountActivity) -> None:
        reports = [report for report in activity.reports if report.check == 0 and not report.joins]
        self.dry_runs = activity.dry_runs
        self.reports = sorted(reports, key=lambda report: report.low)
        self.lows = [report.low for report in self.reports]
        self.spends = {report.exchange.index: report.spend for report in self.reports}

    def as_works(self) -> list[SpendWork]:
        """Return them, and those without an answer, as if they were calls; none where none said yes."""
        return [
            SpendWork(dry.sent, dry.received, *asked_of(dry), dry, sure=not dry.lost)
            for dry in self.dry_runs
            if self.spends and sent_body(dry) and (dry.lost or dry.index in self.spends)
        ]

    def between(self, low: Micros, high: Micros) -> Iterator[DryRunReport]:
        """Return those that were made after `low` and answered before `high`."""
        for report in self.reports[bisect_right(self.lows, low) :]:
            if report.low >= high:
                return
            if report.high < high:
                yield report

    def only(self, dry: Sequence[Observation], by: Collection[str] = ()) -> str:
        """Return the one operation of which dry runs can have done something, if it is one.

        Those that said yes can, of the operations `by` which it is done, where these are known.
        """
        spends = {self.spends[exchange.index] for exchange in dry if exchange.index in self.spends}
        spends = {spend for spend in spends if not by or spend in by}
        spends = spends or {asked_of(exchange)[0] for exchange in dry if exchange.ok}
        return next(iter(spends)) or ANY if len(spends) == 1 else ANY
