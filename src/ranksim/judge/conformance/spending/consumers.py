"""What consumes a metered allowance, and how works move it (U106).

It is plan data, so it is learnt: briefs consume the weekly allowance (S35), a refusal names its metric, and
any other operation may consume any metric until a pair of readings shows that it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ranksim.core.clock import DISTANT_FUTURE
from ranksim.core.contract.facts import SPENDING_OPERATIONS
from ranksim.judge.conformance.spending.activity import JOBS, AccountActivity, SpendWork
from ranksim.judge.conformance.spending.counter_bounds import ANY_FALL, UNBOUNDED, Increment, Sample, SpanSums
from ranksim.judge.conformance.spending.statements import neighbours
from ranksim.judge.conformance.verdict.options import Options

QUOTA = 4
"""The check of allowances among the six."""

BRIEFS = "keyword_briefs"
WORDED = (BRIEFS, "keywords")
"""The operations that ask for words."""

Unit: TypeAlias = tuple[str, str]
UNITS: tuple[Unit, ...] = (("keyword", "one"), ("request", "one"), ("keyword", "any"), ("request", "any"))
"""What a set of briefs costs: a unit a keyword, or one in all (U54); and what a job or a scan costs: one, or
any number, such as one a keyword or a page (U106)."""


@dataclass(frozen=True, slots=True)
class Consumers:
    """The operations that surely consume a metric, and all those that may."""

    sure: frozenset[str]
    possible: frozenset[str]


def consumed_metric(activity: AccountActivity, spend: str) -> str:
    """Return the metric that an operation surely consumes, "" when unknown (S35, S98)."""
    for refused in activity.refusals:
        metric = refused.exchange.meta.get("metric")
        if refused.check == QUOTA and refused.spend == spend and isinstance(metric, str):
            return metric
    weekly = [metric for metric, meters in activity.meters.items() if any(m.period == "week" for m in meters)]
    return weekly[0] if spend == BRIEFS and len(weekly) == 1 else ""


def consumers_of(
    activity: AccountActivity, metric: str, marks: Sequence[Sample], options: Options
) -> Consumers:
    """Learn what consumes a metric; an operation is ruled out where its works left the counter behind."""
    owners = {spend: consumed_metric(activity, spend) for spend in SPENDING_OPERATIONS}
    sure = frozenset(spend for spend, owner in owners.items() if owner == metric)
    open_ = [spend for spend, owner in owners.items() if not owner]
    ordered = sorted(marks, key=lambda mark: mark.low)
    possible = set(sure) | {""}
    _, falls = moves_of(activity, frozenset(), frozenset(open_) | sure, UNITS[-1], options)
    for spend in open_:
        moves, own = moves_of(activity, frozenset({spend}), frozenset({spend}), UNITS[-1], options)
        if not _left_behind(ordered, moves, [*falls, *own]):
            possible.add(spend)
    return Consumers(sure, frozenset(possible))


def _left_behind(marks: Sequence[Sample], moves: Sequence[Increment], falls: Sequence[Increment]) -> bool:
    """Return whether two neighbouring marks do not grow, although some move and no fall lies between."""
    admitted = SpanSums((m.low, m.high, m.least) for m in moves)
    first_fall = min((m.low for m in falls), default=DISTANT_FUTURE)
    return any(
        admitted.surely(first.high, second.low) > 0
        and second.value <= first.value
        and first_fall > second.high
        for first, second in neighbours(marks)
    )


def moves_of(
    activity: AccountActivity,
    sure: frozenset[str],
    possible: frozenset[str],
    unit: Unit,
    options: Options,
    dry: Sequence[SpendWork] = (),
) -> tuple[list[Increment], list[Increment]]:
    """Return how works move a counter, and what failures of jobs may give back (U50).

    Dry runs are counted out, but those which are taken for works.
    """
    moves, falls = [], []
    for work in (*activity.works, *dry):
        if work.spend not in possible:
            continue
        least, most = units_of(work, unit)
        begun = work.spend in JOBS and not work.exchange.dry_run
        unended = begun and activity.fates[work.id].done == DISTANT_FUTURE
        if unended and not options.must_be("quota_refund", "never"):
            failed = activity.fates[work.id].failed
            falls.append(Increment(work.low, failed, 0, most, work.exchange.id))
        surely = work.sure and work.spend in sure
        moves.append(Increment(work.low, work.high, least if surely else 0, most, work.exchange.id))
    if not activity.alone and not options.must_be("quota_refund", "never"):
        falls.append(ANY_FALL)
    return moves, falls


def units_of(work: SpendWork, unit: Unit) -> tuple[int, int]:
    """Return the fewest and most units of a work, were it done, by one of `UNITS`."""
    brief, other = unit
    if not work.spend or not work.body:
        return (0, UNBOUNDED)
    if work.spend not in WORDED:
        return (1, 1) if other == "one" else (1, UNBOUNDED)
    if work.spend == BRIEFS and brief == "request":
        return (1, 1)
    words = work.body.get("keywords")
    if work.created is not None:
        return work.created, work.created
    if work.spend == BRIEFS:  # those asked for, where the answer lists none (U50, U54, U65)
        return asked_units(work.body)
    return 0, len(words) if isinstance(words, list) else UNBOUNDED


def asked_units(body: object) -> tuple[int, int]:
    """Count the keywords that a call for briefs asks for; repetitions may count once."""
    words = [] if not isinstance(body, dict) else body.get("keywords") or body.get("keyword_ids") or [""]
    if not isinstance(words, list):
        return (1, UNBOUNDED)
    return len({str(word).strip().casefold() for word in words}), len(words)
