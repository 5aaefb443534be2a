"""An account's allowances, cost and slots as columns: how calls move them, and what is shown of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ranksim.core.clock import DISTANT_FUTURE
from ranksim.judge.conformance.spending.activity import JOBS
from ranksim.judge.conformance.spending.audit import AccountAudit
from ranksim.judge.conformance.spending.columns import (
    ANYTHING,
    Balance,
    ColumnMove,
    ColumnReading,
    Contradictions,
    CounterColumns,
    Range,
)
from ranksim.judge.conformance.spending.counter_bounds import UNBOUNDED, Increment
from ranksim.judge.conformance.spending.slot_bounds import SlotBounds
from ranksim.judge.conformance.spending.statements import CUT, CostStatement, MeterStatement, SlotStatement

# Allowances

UNITS_USED: Final = CounterColumns(("used",))


def units_used(
    audit: AccountAudit, statements: Sequence[MeterStatement], variants: Iterable[Sequence[Increment]]
) -> Contradictions:
    """Return what no order of works explains, by any of these ways in which they move what is used."""
    stated = [m for m in statements if m.ends is not None]
    readings = [ColumnReading(m.low, m.high, ((m.used, m.used),), m.ends or 0, m.exchange.id) for m in stated]
    periods = {m.period for m in stated if m.period}
    period = periods.pop() if len(periods) == 1 else ""
    columns = ([ColumnMove(m.low, m.high, ((m.least, m.most),), m.id) for m in moves] for moves in variants)
    return UNITS_USED.unexplained(readings, columns, lambda at, ends: audit.clock.in_period(at, ends, period))


# Cost


def _settling(balance: Balance) -> Balance:
    """Let what is reserved be settled, at any amount, or released; what scans commit may settle by itself."""
    (settled, _), (_, reserved) = balance
    return (settled, UNBOUNDED), (0, reserved)


COST: Final = CounterColumns(("µUSD settled", "µUSD reserved"), _settling)


def month_spend(audit: AccountAudit, statements: Sequence[CostStatement]) -> Contradictions:
    """Return what no order explains of the cost of an account that reserves (U49); nothing of any other.

    What work reserves and comes to is not known; that
    additions, dry runs and other writes are free, other rules judge.
    """
    activity, options = audit.activity, audit.options
    pinned = options.candidates("cost_timing") == ("reserve",)
    if not pinned and not any(c.reserved for c in statements):
        return Contradictions([])
    both = options.candidates("spent_counts") == ("settled_and_reserved",) or any(
        map(_counts_both, statements)
    )
    readings = [_cost_shown(c, both=both) for c in statements if c.ends is not None]
    moves = [
        ColumnMove(
            work.low,
            work.high,
            ((0, 0) if work.spend in JOBS else ANYTHING, ANYTHING),
            work.exchange.id,
        )
        for work in activity.works
    ]
    moves += [ColumnMove(change.low, change.high, (ANYTHING, ANYTHING), "") for change in activity.changes]
    moves += [ColumnMove(dry.sent, dry.received, (ANYTHING, ANYTHING), dry.id) for dry in activity.dry_runs]
    return COST.unexplained(readings, [moves], lambda at, ends: audit.clock.in_period(at, ends, "month"))


def _counts_both(cost: CostStatement) -> bool:
    """Return whether a reading shows that what is reserved counts as spent (U96)."""
    if cost.spent is None or cost.settled is None or cost.reserved is None:
        return False
    return abs(cost.spent - cost.settled - cost.reserved) <= cost.apart < cost.reserved


def _cost_shown(cost: CostStatement, *, both: bool) -> ColumnReading:
    """Return a reading as far as rounding lets it tell; of what is spent, if `both` columns count."""
    columns = _near(cost.settled, cost.blur), _near(cost.reserved, cost.apart - CUT)
    together = _near(cost.spent, cost.apart) if both else None
    return ColumnReading(cost.low, cost.high, columns, cost.ends or 0, cost.exchange.id, together)


def _near(amount: int | None, blur: int) -> Range | None:
    return None if amount is None else (max(0, amount - blur), amount + blur)


# Slots

SLOTS_USED: Final = CounterColumns(("slots used", "slots held"))


def slots_used(
    audit: AccountAudit, stated: Sequence[SlotStatement], tracked: SlotBounds, *, held: bool
) -> Contradictions:
    """Return what no order explains of used slots, and of held ones if `held`.

    Nothing where scans were changed, which may add and free any. What is held is taken up again by additions
    that may (U63), and only removals add to it; other writes may do both.
    """
    activity, anything = audit.activity, (-UNBOUNDED, UNBOUNDED)
    if tracked.patches:
        return Contradictions([])
    kept = [slots.held if held and slots.exchange.operation == "slots.get" else None for slots in stated]
    readings = [
        ColumnReading(
            slots.low,
            slots.high,
            ((slots.used, slots.used), None if holds is None else (holds, holds)),
            slots.ends or 0,
            slots.exchange.id,
        )
        for slots, holds in zip(stated, kept, strict=True)
    ]
    moves = []
    for work in tracked.works():
        by = tracked.counted(work), (-tracked.revived(work), 0)
        moves.append(ColumnMove(work.low, work.high, by, work.exchange.id))
    for removal in activity.removals:
        over = removal.received if removal.ok else DISTANT_FUTURE
        moves.append(ColumnMove(removal.sent, over, ((0, 0), tracked.kept(removal)), removal.id))
    removals = {(removal.sent, removal.received) for removal in activity.removals}
    moves += [
        ColumnMove(change.low, change.high, ((0, 0), anything), "")
        for change in activity.changes
        if (change.low, change.high) not in removals
    ]
    return SLOTS_USED.unexplained(
        readings, [moves], lambda at, ends: audit.clock.in_period(at, ends, "month")
    )
