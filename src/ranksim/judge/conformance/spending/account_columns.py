"""An account's allowances, cost and slots as columns: how calls move them, and what is shown of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ranksim.core.clock import DISTANT_FUTURE, Micros
from ranksim.judge.conformance.possible import ModelCall
from ranksim.judge.conformance.spending.activity import JOBS
from ranksim.judge.conformance.spending.audit import AccountAudit
from ranksim.judge.conformance.spending.columns import (
    ANYTHING,
    Balance,
    Contradictions,
    CounterColumns,
    Range,
    moving,
    showing,
)
from ranksim.judge.conformance.spending.counter_bounds import UNBOUNDED, Increment, Interval
from ranksim.judge.conformance.spending.slot_bounds import SlotBounds
from ranksim.judge.conformance.spending.statements import (
    CUT,
    CostStatement,
    CounterStatement,
    MeterStatement,
    SlotStatement,
)

# Allowances

UNITS_USED: Final = CounterColumns(("used",))


def units_used(
    audit: AccountAudit, statements: Sequence[MeterStatement], variants: Iterable[Sequence[Increment]]
) -> Contradictions:
    """Return what no order of works explains, by any of these ways in which they move what is used."""
    stated = [m for m in statements if m.ends is not None]
    periods = {m.period for m in stated if m.period}
    period = periods.pop() if len(periods) == 1 else ""
    readings = _by_end((m, showing(m, ((m.used, m.used),), m.exchange.id)) for m in stated)
    columns = ([moving(m, ((m.least, m.most),), m.id) for m in moves] for moves in variants)
    return UNITS_USED.unexplained(readings, columns, lambda at, ends: audit.clock.in_period(at, ends, period))


def _by_end(
    readings: Iterable[tuple[CounterStatement | CostStatement, ModelCall]],
) -> Mapping[Micros, Sequence[ModelCall]]:
    """Return readings by the end of the period that they state."""
    by_end: dict[Micros, list[ModelCall]] = defaultdict(list)
    for stated, reading in readings:
        by_end[stated.ends or 0].append(reading)
    return by_end


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
    if not any(c.reserved for c in statements) and not options.must_be("cost_timing", "reserve"):
        return Contradictions([])
    both = any(map(_counts_both, statements)) or options.must_be("spent_counts", "settled_and_reserved")
    readings = _by_end((c, _cost_shown(c, both=both)) for c in statements if c.ends is not None)
    moves = [
        moving(work, ((0, 0) if work.spend in JOBS else ANYTHING, ANYTHING), work.exchange.id)
        for work in activity.works
    ]
    dry_runs = ((Interval(dry.sent, dry.received), dry.id) for dry in activity.dry_runs)
    moves += [
        moving(span, (ANYTHING, ANYTHING), name)
        for span, name in (*((change, "") for change in activity.changes), *dry_runs)
    ]
    return COST.unexplained(readings, [moves], lambda at, ends: audit.clock.in_period(at, ends, "month"))


def _counts_both(cost: CostStatement) -> bool:
    """Return whether a reading shows that what is reserved counts as spent (U96)."""
    if cost.spent is None or cost.settled is None or cost.reserved is None:
        return False
    return abs(cost.spent - cost.settled - cost.reserved) <= cost.apart < cost.reserved


def _cost_shown(cost: CostStatement, *, both: bool) -> ModelCall:
    """Return a reading as far as rounding lets it tell; of what is spent, if `both` columns count."""
    columns = _near(cost.settled, cost.blur), _near(cost.reserved, cost.apart - CUT)
    together = _near(cost.spent, cost.apart) if both else None
    return showing(cost, columns, cost.exchange.id, together)


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
    readings = []
    for slots in stated:
        kept = slots.held if held and slots.exchange.operation == "slots.get" else None
        columns = (slots.used, slots.used), None if kept is None else (kept, kept)
        readings.append((slots, showing(slots, columns, slots.exchange.id)))
    moves = []
    for work in tracked.works():
        moves.append(moving(work, (tracked.counted(work), (-tracked.revived(work), 0)), work.exchange.id))
    for removal in activity.removals:
        span = Interval(removal.sent, removal.received if removal.ok else DISTANT_FUTURE)
        moves.append(moving(span, ((0, 0), tracked.kept(removal)), removal.id))
    removals = {(removal.sent, removal.received) for removal in activity.removals}
    moves += [
        moving(change, ((0, 0), anything), "")
        for change in activity.changes
        if (change.low, change.high) not in removals
    ]
    return SLOTS_USED.unexplained(
        _by_end(readings), [moves], lambda at, ends: audit.clock.in_period(at, ends, "month")
    )
