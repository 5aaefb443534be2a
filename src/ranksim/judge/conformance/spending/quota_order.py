"""Whether some order of all calls explains what a metered allowance shows (S35, S63; U54, U106)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ranksim.judge.conformance.spending.activity import SpendWork
from ranksim.judge.conformance.spending.audit import AccountAudit
from ranksim.judge.conformance.spending.columns import Calls, ColumnMove, ColumnReading, CounterColumns
from ranksim.judge.conformance.spending.consumers import Consumers, Unit, units_of
from ranksim.judge.conformance.spending.statements import MeterStatement

USED: Final = CounterColumns(("used",))


def unexplained(
    audit: AccountAudit,
    statements: Sequence[MeterStatement],
    consumers: Consumers,
    units: Sequence[Unit],
    dry: Sequence[SpendWork] = (),
) -> tuple[list[Calls], bool]:
    """Return what no order of works, and of dry runs as if they were such, explains by any of these units."""
    stated = [m for m in statements if m.ends is not None]
    readings = [ColumnReading(m.low, m.high, ((m.used, m.used),), m.ends or 0, m.exchange.id) for m in stated]
    periods = {m.period for m in stated if m.period}
    period = periods.pop() if len(periods) == 1 else ""
    variants = (_moves((*audit.activity.works, *dry), consumers, unit) for unit in units)
    return USED.unexplained(readings, variants, lambda at, ends: audit.clock.in_period(at, ends, period))


def _moves(works: Iterable[SpendWork], consumers: Consumers, unit: Unit) -> list[ColumnMove]:
    """Return how works move the allowance by a unit."""
    moves = []
    for work in works:
        if work.spend in consumers.possible:
            least, most = units_of(work, unit)
            surely = least if work.sure and work.spend in consumers.sure else 0
            moves.append(ColumnMove(work.low, work.high, ((surely, most),), work.exchange.id))
    return moves
