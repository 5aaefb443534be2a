"""The series that a replication samples: their columns, and the rows that they become."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from ranksim.core.clock import Micros
from ranksim.core.service.state import State

COLUMNS = {
    "windows": ("admitted", "refused", "remaining", "fullest", "limit", "length"),
    "queues": ("running", "waiting", "workers"),
    "meters": ("used", "limit"),
    "slots": ("active", "held", "used", "limit", "refused"),
    "spend": ("settled_uusd", "reserved_uusd", "spent_uusd", "ceiling_uusd"),
}
"""The columns of each sampled series, beside its names and t.

A window's `fullest` is the most calls that it held since the sample before, by what its replies told, of the
`limit` at that time; `length` is its own (µs). A queue's `running` and `waiting` are the most jobs since the
sample before; `workers` is None where they are without limit, and before a first job. Of slots, `refused` are
the calls since the sample before that found too few of them.
"""

LABELS = {
    "windows": ("account", "key", "rate_class"),
    "queues": ("kind",),
    "meters": ("account", "metric"),
    "slots": ("account",),
    "spend": ("account",),
}
"""What names a series."""

PEAKS = {"windows": "refused", "queues": "waiting", "meters": "used", "slots": "used", "spend": "spent_uusd"}
"""The column whose highest sample is kept as the series' `peak`."""


@dataclass(slots=True)
class _Series:
    """One sampled series: lists by column, and the highest sample of the column that PEAKS names."""

    columns: dict[str, list[int | None]]
    peak: int = 0


class SampledSeries:
    """What was sampled of a service, by table and by what names a series there."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[tuple[Hashable, ...], _Series]] = {table: {} for table in COLUMNS}

    def add(
        self,
        table: str,
        which: tuple[Hashable, ...],
        now: Micros,
        row: tuple[int | None, ...],
        watched: int,
        keep: bool,
    ) -> None:
        """Add a sample at `now`, of which `watched` may be the peak; without `keep` for the peak alone."""
        series = self._tables[table].get(which)
        if series is None:
            empty: dict[str, list[int | None]] = {column: [] for column in ("t", *COLUMNS[table])}
            series = self._tables[table][which] = _Series(empty)
        series.peak = max(series.peak, watched)
        if keep:
            for values, value in zip(series.columns.values(), (now, *row), strict=True):
                values.append(value)

    def clear(self) -> None:
        """Drop every sample."""
        for table in self._tables.values():
            table.clear()

    def rows(self, state: State, kinds: Container[Hashable]) -> dict[str, list[dict[str, Any]]]:
        """Return each table's series under their names, sorted; queues of these kinds of job alone."""
        return {table: self._rows(table, state, kinds) for table in COLUMNS}

    def _rows(self, table: str, state: State, kinds: Container[Hashable]) -> list[dict[str, Any]]:
        accounts = account_names(state)
        rows: list[dict[str, Any]] = []
        for (first, *rest), series in self._tables[table].items():
            if table == "queues":
                if first not in kinds:
                    continue
                names = [str(first)]
            elif table == "windows":
                key = state.keys[str(first)]
                names = [accounts[key.account], key.name, *map(str, rest)]
            else:
                names = [accounts[str(first)], *map(str, rest)]
            labels = dict(zip(LABELS[table], names, strict=True))
            rows.append({**labels, "peak": series.peak, **series.columns})
        return sorted(rows, key=lambda row: [str(row[label]) for label in LABELS[table]])


def account_names(state: State) -> dict[str, str]:
    """Return the name of each account id, or the id itself where names repeat."""
    return unique({account.id: account.name for account in state.accounts.values()})


def unique(names: Mapping[str, str]) -> dict[str, str]:
    """Keep the names that occur once; where several share one, each goes by its id."""
    times = Counter(names.values())
    return {which: name if times[name] == 1 else which for which, name in names.items()}
