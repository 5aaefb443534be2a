"""The hours of a long run: how full a rate window was, how many jobs there were, how late events arrived.

They are kept as what a figure of a year shows: how many days had how much at most by hour of the day, on
weekdays and at weekends, and when each day's most was; of events how many were how late, within 1 %, by the
hour in which they came. A day that had nothing is not kept. Hours and days are those of UTC; the first and
the last count whole where a run has a part of them. A year of a series is 365 triples, and at most 8,760
counts where no two days are alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ranksim.core.clock import DAY, DISTANT_FUTURE, HOUR, Micros, weekday
from ranksim.inference.kinds import Kind, MetricSample, interval
from ranksim.inference.quantiles import rank_of
from ranksim.twin.sim.histogram import bucket_of, middle_of
from ranksim.twin.sim.replication import Replication
from ranksim.twin.sim.series import SERIES

LONG = 10 * DAY
"""Hours are kept of runs that are longer."""

SATURDAY = 5

EVENTS = "delivering"
"""The table of which events are counted and not the days that had so much."""

LABELS = {"windows": SERIES["windows"].labels, "queues": SERIES["queues"].labels, EVENTS: ("endpoint",)}

MEASURED = {"windows": ("fullest", "refused"), "queues": ("jobs",), EVENTS: ("delay", "lost")}
"""What is kept: the most, and beside it how often something happened in all."""

KINDS: dict[str, Kind] = {"windows": "count", "queues": "count", EVENTS: "quantile"}
"""What the most of a day is, which says the interval of its mean."""

OF_HOURS = ("median", "p10", "p90")
HOURS = {table: (*labels, "days", "hour", *OF_HOURS) for table, labels in LABELS.items()}
DAYS = {
    table: ("t", *LABELS[table], "at", columns[0], "low", "high", *columns[1:])
    for table, columns in MEASURED.items()
}
"""The columns of the tables by hour and by day."""

Names = tuple[Any, ...]
Which = tuple[Hashable, ...]
"""What names a series in the service."""


@dataclass(slots=True)
class _Kept:
    """What is kept of a series: days by (at a weekend, hour of the day), how much; the most of each day."""

    profile: dict[tuple[bool, int], Counter[int]] = field(default_factory=dict)
    days: dict[int, list[Any]] = field(default_factory=dict)


class Hours:
    """Keeps the hours of a run from `start` on; of one that is not LONG nothing, and none is ever `due`."""

    def __init__(self, start: Micros, length: Micros) -> None:
        self._long = length > LONG
        self.reset(start)

    def reset(self, now: Micros) -> None:
        """Drop all hours before `now`."""
        self._began = now
        self._hour = now // HOUR
        self._under_way: dict[tuple[str, Which], list[int]] = {}
        self._kept: dict[tuple[str, Which], _Kept] = {}

    @property
    def due(self) -> Micros:
        """When the hour under way is over."""
        return (self._hour + 1) * HOUR if self._long else DISTANT_FUTURE

    def observe(self, table: str, which: Which, most: int, more: int = 0) -> None:
        """Observe in the hour under way so much of a series, and how often something more happened."""
        if self._long and (most > 0 or more):
            highest = self._under_way.setdefault((table, which), [0, 0])
            highest[0] = max(highest[0], most)
            highest[1] += more

    def close(self) -> None:
        """End the hour under way."""
        for which, (most, more) in self._under_way.items():
            self._keep(which, self._hour * HOUR, most, most, more)
        self._under_way.clear()
        self._hour += 1

    def event(self, which: Hashable, came: Micros, delay: Micros | None) -> None:
        """Keep so late (µs) an event arrived, by when it came; None for one that was lost."""
        if self._long:
            at = max(came, self._began) // HOUR * HOUR
            rounded = None if delay is None else middle_of(bucket_of(delay))
            self._keep((EVENTS, (which,)), at, rounded, delay, delay is None)

    def _keep(
        self, which: tuple[str, Which], at: Micros, counted: int | None, most: int | None, more: int
    ) -> None:
        kept = self._kept.setdefault(which, _Kept())
        if counted is not None:
            cell = weekday(at) >= SATURDAY, at % DAY // HOUR
            kept.profile.setdefault(cell, Counter())[counted] += 1
        day = kept.days.setdefault(at // DAY, [at, most, 0])
        if most is not None and (day[1] is None or most > day[1]):
            day[:2] = at, most
        day[2] += more

    def rows(self, named: Callable[[str, Any], Names]) -> dict[str, list[dict[str, Any]]]:
        """Return what was kept as plain data; `named` gives the labels of a series by what names it here.

        A row has `profile`, rows of whether at a weekend, hour, most and how many days had that, and `days`,
        rows of the hour that had the day's most, that, and how often something more happened. The profile of
        events has how many were so late, and their most is None where none arrived.
        """
        rows: dict[str, list[dict[str, Any]]] = {}
        for (table, which), kept in self._kept.items():
            profile = [
                [int(weekend), hour, most, days]
                for (weekend, hour), counts in sorted(kept.profile.items())
                for most, days in sorted(counts.items())
            ]
            labels = dict(zip(LABELS[table], named(table, which), strict=True))
            days = [day for _, day in sorted(kept.days.items())]
            rows.setdefault(table, []).append({**labels, "profile": profile, "days": days})
        return {table: sorted(of, key=lambda row: [*row.values()][:-2]) for table, of in sorted(rows.items())}


# The tables


def by_hour(replications: Sequence[Replication], table: str) -> Iterator[Names]:
    """Yield what days of replications have at each hour: the median, and the middle 80 % of days.

    `days` are all, weekdays, or Saturdays and Sundays. Delays are those of events, None of an hour without.
    """
    there = Counter(cell for replication in replications for cell in _cells(replication))
    for names, rows in _series(replications, table):
        counts: dict[tuple[bool, int], Counter[int]] = {}
        for row in rows:
            for weekend, hour, most, days in row["profile"]:
                counts.setdefault((bool(weekend), hour), Counter())[most] += days
        for days, among in (("all", (False, True)), ("weekdays", (False,)), ("weekend", (True,))):
            for hour in range(24):
                values = sum((counts.get((weekend, hour), Counter()) for weekend in among), Counter[int]())
                number = sum(there[weekend, hour] for weekend in among)
                if table == EVENTS:
                    number = sum(values.values())
                quantiles = (_quantile(values, number, q) if number else None for q in (0.5, 0.1, 0.9))
                yield *names, days, hour, *quantiles


def _cells(replication: Replication) -> Iterator[tuple[bool, int]]:
    for hour in range(replication.start // HOUR, -(-replication.end // HOUR)):
        yield weekday(hour * HOUR) >= SATURDAY, hour % 24


def _quantile(counts: Mapping[int, int], number: int, q: float) -> int:
    """The quantile of so many values, of which those that are not counted are 0."""
    rank = rank_of(q, number) - (number - sum(counts.values()))
    for value, days in sorted(counts.items()):
        if rank <= 0:
            break
        rank -= days
        if rank <= 0:
            return value
    return 0


def by_day(replications: Sequence[Replication], table: str, level: float) -> Iterator[Names]:
    """Yield the most of each day, its mean over replications with an interval.

    `at` is the hour that has it in most replications, None for a day without any. Replications of which no
    event of a day arrived tell nothing of how late it came; where that is so of all the delay is None.
    """
    absent = None, None if table == EVENTS else 0, 0
    for names, rows in _series(replications, table):
        of_days = [{at // DAY: (at, *more) for at, *more in row["days"]} for row in rows]
        none: list[dict[int, Names]] = [{}] * (len(replications) - len(rows))
        for day in range(replications[0].start // DAY, -(-replications[0].end // DAY)):
            of_day = [days.get(day, absent) for days in (*of_days, *none)]
            hours = Counter(sorted(at for at, most, _ in of_day if at is not None and most is not None))
            at = hours.most_common(1)[0][0] if hours else None
            most = [most for _, most, _ in of_day if most is not None]
            further = [fmean(value[2] for value in of_day)] * (len(MEASURED[table]) - 1)
            started = max(day * DAY, replications[0].start)
            yield started, *names, at, *interval(MetricSample(KINDS[table], most), level), *further


def _series(replications: Sequence[Replication], table: str) -> Iterator[tuple[Names, list[dict[str, Any]]]]:
    """Yield the names of each series and its rows over the replications."""
    series: dict[Names, list[dict[str, Any]]] = {}
    for replication in replications:
        for row in replication.hours.get(table, ()):
            series.setdefault(tuple(row[label] for label in LABELS[table]), []).append(row)
    yield from sorted(series.items())
