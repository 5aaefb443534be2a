"""The series that a replication samples: each declared once, and the rows that they become."""

from collections import Counter
from collections.abc import Container, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ranksim.core.clock import Micros
from ranksim.core.service.state import State
from ranksim.inference.kinds import Kind


class Series(NamedTuple):
    """What names a series, and its sampled columns beside t.

    Tables have the interval of the `measured` column, by its `kind` as that of a metric; the highest sample
    of the `peak` column is kept.
    """

    labels: tuple[str, ...]
    columns: tuple[str, ...]
    measured: str
    peak: str
    kind: Kind = "count"


SERIES = {
    "windows": Series(
        ("account", "key", "rate_class"),
        ("admitted", "refused", "remaining", "fullest", "limit", "length"),
        measured="fullest",
        peak="refused",
    ),
    "queues": Series(("kind",), ("running", "waiting", "workers"), measured="waiting", peak="waiting"),
    "meters": Series(("account", "metric"), ("used", "limit"), measured="used", peak="used"),
    "slots": Series(
        ("account",), ("active", "held", "used", "limit", "refused"), measured="used", peak="used"
    ),
    "spend": Series(
        ("account",),
        ("settled_uusd", "reserved_uusd", "spent_uusd", "ceiling_uusd"),
        measured="spent_uusd",
        peak="spent_uusd",
        kind="amount",
    ),
}
"""The sampled series.

A window's `fullest` is the most calls that it held since the sample before, by what its replies told, of the
`limit` at that time; `length` is its own (µs). A queue's `running` and `waiting` are the most jobs since the
sample before; `workers` is None where they are without limit, and before a first job. Of slots, `refused` are
the calls since the sample before that found too few of them.
"""

PEAKS = {table: series.columns.index(series.peak) for table, series in SERIES.items()}


@dataclass(slots=True)
class _Samples:
    """One sampled series: lists by column, and the highest sample of its peak column."""

    columns: dict[str, list[int | None]]
    peak: int = 0


class SampledSeries:
    """What was sampled of a service, by table and by what names a series there."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[tuple[Hashable, ...], _Samples]] = {table: {} for table in SERIES}

    def add(
        self, table: str, which: tuple[Hashable, ...], now: Micros, row: tuple[int | None, ...], keep: bool
    ) -> None:
        """Add a sample at `now`; without `keep` for the peak alone."""
        series = self._tables[table].get(which)
        if series is None:
            empty: dict[str, list[int | None]] = {column: [] for column in ("t", *SERIES[table].columns)}
            series = self._tables[table][which] = _Samples(empty)
        series.peak = max(series.peak, row[PEAKS[table]] or 0)
        if keep:
            for values, value in zip(series.columns.values(), (now, *row), strict=True):
                values.append(value)

    def clear(self) -> None:
        """Drop every sample."""
        for table in self._tables.values():
            table.clear()

    def rows(self, state: State, kinds: Container[Hashable]) -> dict[str, list[dict[str, Any]]]:
        """Return each table's series under their names, sorted; queues of these kinds of job alone."""
        return {table: self._rows(table, state, kinds) for table in SERIES}

    def _rows(self, table: str, state: State, kinds: Container[Hashable]) -> list[dict[str, Any]]:
        accounts = account_names(state)
        rows: list[dict[str, Any]] = []
        for which, series in self._tables[table].items():
            if table != "queues" or which[0] in kinds:
                labels = dict(
                    zip(SERIES[table].labels, series_names(state, accounts, table, which), strict=True)
                )
                rows.append({**labels, "peak": series.peak, **series.columns})
        return sorted(rows, key=lambda row: [str(row[label]) for label in SERIES[table].labels])


def series_names(
    state: State, names: Mapping[str, str], table: str, which: tuple[Hashable, ...]
) -> tuple[str, ...]:
    """Return the labels of a series by what names it in the service; `names` are those of ids.

    The ids are of accounts and, for series that are not sampled, of endpoints.
    """
    first, *rest = map(str, which)
    if table == "queues":
        return (first,)
    if table == "windows":
        key = state.keys[first]
        return names[key.account], key.name, *rest
    return names[first], *rest


def account_names(state: State) -> dict[str, str]:
    """Return the name of each account id, or the id itself where names repeat."""
    return unique({account.id: account.name for account in state.accounts.values()})


def unique(names: Mapping[str, str]) -> dict[str, str]:
    """Keep the names that occur once; where several share one, each goes by its id."""
    times = Counter(names.values())
    return {which: name if times[name] == 1 else which for which, name in names.items()}
