"""The tables of a result: rows of plain values, means over replications with an interval low to high.

What is counted has the interval of a count, a share of calls that of a share (`inference.kinds`), neither
exact because replications agree. Levels of sampled series have at each moment the interval that a metric of
them has at the end.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from statistics import fmean
from typing import Any, NamedTuple

from ranksim.core.contract.facts import JobKind
from ranksim.inference.counts import counted
from ranksim.inference.estimate import Estimate
from ranksim.inference.kinds import MetricSample, interval
from ranksim.inference.shares import clustered
from ranksim.twin.sim.hours import DAYS, HOURS, OF_HOURS, by_day, by_hour
from ranksim.twin.sim.metric_families import (
    ENDPOINTS,
    FAMILIES,
    LEVELS,
    LOST,
    QUANTILES,
    REFUSING,
    Fields,
    derived_fields,
    last,
    with_histogram,
)
from ranksim.twin.sim.metrics import job_row, metric_of, scalars
from ranksim.twin.sim.replication import Replication
from ranksim.twin.sim.series import SERIES

Row = dict[str, Any]
Rows = list[Row]
Key = tuple[Any, ...]
Counts = list[dict[Key, float]]
"""One dict for each replication."""


class _Run(NamedTuple):
    """What tables are made of."""

    replications: Sequence[Replication]
    level: float
    remarks: Iterable[str] = ()
    fixed: Collection[str] = ()

    def counts(self, key: Callable[[Row], Key | None], of: str = "calls") -> Counts:
        """Sum the calls of each replication, or its rows `of` more; those whose key is None are left out."""
        counts: Counts = []
        for replication in self.replications:
            sums: dict[Key, float] = {}
            for row in getattr(replication, of):
                which = key(row)
                if which is not None:
                    sums[which] = sums.get(which, 0) + row["count"]
            counts.append(sums)
        return counts

    def each(self, counts: Counts) -> Iterator[tuple[Key, Estimate]]:
        """Estimate the mean count of each key, sorted; a replication without the key counts 0."""
        for key in sorted({key for sums in counts for key in sums}):
            yield key, counted([sums.get(key, 0) for sums in counts], self.level)

    def has(self, field: str) -> bool:
        """Return whether replications have anything in a field."""
        return any(getattr(replication, field) for replication in self.replications)

    def by_endpoint(self) -> Iterator[tuple[str, Rows]]:
        """Yield each endpoint's rows over the replications, sorted by its name."""
        endpoints: dict[str, Rows] = {}
        for replication in self.replications:
            for row in replication.endpoints:
                endpoints.setdefault(row["endpoint"], []).append(row)
        yield from sorted(endpoints.items())

    def estimates(self, fields: Fields, rows: Sequence[Mapping[str, Any]]) -> Iterator[Estimate]:
        """Estimate fields of a family, each by the rows that replications have of it."""
        values = [dict(derived_fields(fields, row)) for row in rows]
        for field, metric in fields.items():
            yield interval(MetricSample(metric.kind, [value[field] for value in values]), self.level)


class Table(NamedTuple):
    """What makes the rows of a table, and its columns."""

    rows: Callable[[_Run], Iterator[Key]]
    columns: tuple[str, ...]


ENDS = ("low", "high")


def _ends(*columns: str) -> tuple[str, ...]:
    """Return each column with the two ends of its interval."""
    return tuple(f"{column}{end}" for column in columns for end in ("", "_low", "_high"))


def _of(fields: Fields, *names: str) -> Fields:
    return {name: fields[name] for name in names}


JOBS = _of(
    FAMILIES["jobs"],
    *("queued", "started", "done", "failed", "joined", "wait.mean", "wait.p50", "wait.p95", "wait.p99"),
    *("utilisation", "mean_waiting", "max_waiting"),
)
EVENTS = _of(
    ENDPOINTS,
    *("events", "acknowledged", "lost", *LOST, "pending", "duplicates", "disabled", "disabled_at"),
)
ATTEMPTS = ("sent", "acknowledged", "failed")
QUOTAS = (
    ("slots", _of(LEVELS["slots"], "used", "max_used"), "limit"),
    ("meters", _of(LEVELS["meters"], "used", "max"), "limit"),
    ("spend", _of(LEVELS["spend"], "spent", "max"), "ceiling_uusd"),
)
"""Series with a limit, their fields at the end and at most, and the column of the limit."""


# Calls


def _totals(run: _Run) -> Iterator[Key]:
    """The few numbers to see first; of jobs, events and provider cost where there are any."""
    values = [scalars(replication) for replication in run.replications]

    def sums(*names: str) -> list[float]:
        return [sum(value.get(name) or 0 for name in names) for value in values]

    def total(what: str, *names: str) -> Key:
        _, unit, kind, *_ = metric_of(names[0])
        return what, unit, *interval(MetricSample(kind, sums(*names)), run.level)

    yield total("calls", "calls.total")
    if any(sums("calls.total")):
        yield "refused", "share", *clustered(sums("refusals.total"), sums("calls.total"), run.level)
    if run.has("jobs"):
        yield total("jobs_done", *(f"jobs.{kind}.done" for kind in JobKind))
    if run.has("endpoints"):
        yield total("events", "deliveries.events")
    if any(sums("deliveries.lost")):
        yield total("lost", "deliveries.lost")
    spend = [row for replication in run.replications for row in replication.series.get("spend", ())]
    if accounts := sorted({row["account"] for row in spend}):
        yield total("provider_cost", *(f"spend.{account}.max" for account in accounts))


def _calls(*columns: str, of: str = "calls") -> Table:
    def rows(run: _Run) -> Iterator[Key]:
        for key, count in run.each(run.counts(lambda row: tuple(row[column] for column in columns), of)):
            yield *key, *count

    return Table(rows, (*columns, "count", *ENDS))


def _refusals(*columns: str, of: tuple[str, ...] = ()) -> Table:
    """Refused calls by columns, and their share of the calls with the same last columns, or of all refused.

    The last columns of which it is a share are `of`.
    """

    def refusal(row: Row) -> Key | None:
        return tuple(row[column] for column in columns) if row["outcome"] in REFUSING else None

    def trial(row: Row) -> Key | None:
        return tuple(row[column] for column in of) if of or row["outcome"] in REFUSING else None

    def rows(run: _Run) -> Iterator[Key]:
        refused, trials = run.counts(refusal), run.counts(trial)
        for key, count in run.each(refused):
            hits = [counts.get(key, 0) for counts in refused]
            among = [counts.get(key[len(columns) - len(of) :], 0) for counts in trials]
            yield *key, *count, *clustered(hits, among, run.level)

    return Table(rows, (*columns, "count", *ENDS, *_ends("share")))


# Series


def _levels(run: _Run) -> Iterator[Key]:
    for table, fields, limit in QUOTAS:
        by_name: dict[Key, Rows] = {}
        for replication in run.replications[:1] if f"{table}." in run.fixed else run.replications:
            for series in replication.series.get(table, ()):
                by_name.setdefault((series["account"], series.get("metric", table)), []).append(series)
        unit = next(iter(fields.values())).unit
        for (account, resource), rows in sorted(by_name.items()):
            limits = MetricSample("amount", [last(series[limit]) for series in rows])
            ends = chain.from_iterable(run.estimates(fields, rows))
            yield account, resource, unit, *ends, interval(limits, run.level).mean


def _series(table: str) -> Table:
    labels, columns, measured, _, kind = SERIES[table]

    def rows(run: _Run) -> Iterator[Key]:
        by_name: dict[Key, dict[int, list[tuple[float, ...]]]] = {}
        drawn, at = f"{table}." not in run.fixed, columns.index(measured)

        @cache  # levels stay for many samples, and replications change places
        def ends(levels: tuple[float, ...]) -> tuple[float | None, ...]:
            return interval(MetricSample(kind, levels, drawn=drawn), run.level)[1:]

        for replication in run.replications:
            for series in replication.series.get(table, ()):
                samples = by_name.setdefault(tuple(series[label] for label in labels), {})
                values = zip(*(series[column] for column in columns), strict=True)
                for t, sample in zip(series["t"], values, strict=True):
                    samples.setdefault(t, []).append(sample)
        for names, samples in sorted(by_name.items()):
            for t, sampled in sorted(samples.items()):
                means = [None if None in values else fmean(values) for values in zip(*sampled, strict=True)]
                yield t, *names, *means, *ends(tuple(sorted(sample[at] for sample in sampled)))

    return Table(rows, ("t", *labels, *columns, *ENDS))


def _by_hour(table: str) -> Table:
    return Table(lambda run: by_hour(run.replications, table), HOURS[table])


def _by_day(table: str) -> Table:
    return Table(lambda run: by_day(run.replications, table, run.level), DAYS[table])


# Jobs and deliveries


def _jobs(run: _Run) -> Iterator[Key]:
    for kind in dict.fromkeys(kind for replication in run.replications for kind in replication.jobs):
        rows = [job_row(replication, kind) for replication in run.replications if kind in replication.jobs]
        yield kind, *chain.from_iterable(run.estimates(JOBS, rows))


def _by_number(attempts: Sequence[Rows], level: float) -> Iterator[Key]:
    """Yield each number that attempts of replications have, and how many were sent and came to what."""
    for number in sorted({row["attempt"] for rows in attempts for row in rows}):
        counts = (
            counted([sum(row[field] for row in rows if row["attempt"] == number) for rows in attempts], level)
            for field in ATTEMPTS
        )
        yield number, *chain.from_iterable(counts)


def _attempts(run: _Run) -> Iterator[Key]:
    together = [
        [attempt for row in replication.endpoints for attempt in row["attempts"]]
        for replication in run.replications
    ]
    return _by_number(together, run.level)


def _deliveries(run: _Run) -> Iterator[Key]:
    for endpoint, rows in run.by_endpoint():
        for row in _by_number([row["attempts"] for row in rows], run.level):
            yield endpoint, *row


def _answers(run: _Run) -> Iterator[Key]:
    for endpoint, rows in run.by_endpoint():
        for answer in sorted({answer for row in rows for answer in row["answers"]}):
            yield endpoint, answer, *counted([row["answers"].get(answer, 0) for row in rows], run.level)


def _delays(run: _Run) -> Iterator[Key]:
    delays = {q: f"delay.{field}" for field, q in QUANTILES.items()}
    for endpoint, plain in run.by_endpoint():
        rows = [with_histogram(row, "delay") for row in plain]
        if any(row["delay"].count for row in rows):
            quantiles = run.estimates(_of(ENDPOINTS, *delays.values()), rows)
            for q, quantile in zip(delays, quantiles, strict=True):
                yield endpoint, q, *quantile


def _endpoints(run: _Run) -> Iterator[Key]:
    for endpoint, rows in run.by_endpoint():
        *counts, disabled_at = run.estimates(EVENTS, rows)
        # An instant stays whole: the mean of the first disablings, where there were any.
        instants = (None if end is None else round(end) for end in disabled_at)
        reason = next((row["disablings"][0][1] for row in rows if row["disablings"]), None)
        share = sum(bool(row["disablings"]) for row in rows) / len(rows)
        yield endpoint, rows[0]["account"], *chain.from_iterable(counts), *instants, share, reason


def _delivering(run: _Run) -> Iterator[Key]:
    for endpoint, rows in run.by_endpoint():
        stretches: dict[int, list[Sequence[float]]] = {}
        for row in rows:
            for t, *counts in row["stretches"]:
                stretches.setdefault(t, []).append(counts)
        for t, several in sorted(stretches.items()):
            good, bad, delays, lost = zip(*several, strict=True)
            observed = [delay for delay in delays if delay is not None]
            longest = fmean(observed) if observed else None
            yield t, endpoint, sum(good) / len(rows), sum(bad) / len(rows), longest, sum(lost) / len(rows)


def _spans(column: str) -> Table:
    def rows(run: _Run) -> Iterator[Key]:
        for endpoint, several in run.by_endpoint():
            spans = Counter((begin, end) for row in several for begin, end in row[column])
            yield from ((endpoint, *span, number / len(several)) for span, number in sorted(spans.items()))

    return Table(rows, ("endpoint", "t", "until", "share"))


def _notes(run: _Run) -> Iterator[Key]:
    yield from ((None, remark, 1) for remark in run.remarks)
    for index, replication in enumerate(run.replications):
        yield from ((index, text, count) for text, count in replication.notes.items())


# The tables


def _columns(fields: Fields, main: str) -> tuple[str, ...]:
    """Return the columns of fields with their intervals; the ends of the `main` one are `low` and `high`."""
    plain = dict(zip(_ends(main), (main, *ENDS), strict=True))
    columns = _ends(*(field.replace(".", "_") for field in fields))
    return tuple(plain.get(column, column) for column in columns)


TABLES = {
    "totals": Table(_totals, ("what", "unit", "value", *ENDS)),
    "operations": _calls("operation", "outcome", "status"),
    "codes": _refusals("check", "code"),
    "levels": Table(_levels, ("account", "resource", "unit", *_ends("last", "highest"), "limit")),
    "calls": _calls("client", "operation", "outcome", "status"),
    "refusals": _refusals("code", "check", "client", "operation", of=("client", "operation")),
    "given_up": _calls("client", "operation", "tries", of="given_up"),
    **{table: _series(table) for table in SERIES},
    **{f"{table}_by_hour": _by_hour(table) for table in HOURS},
    **{f"{table}_by_day": _by_day(table) for table in DAYS},
    "jobs": Table(_jobs, ("kind", *_columns(JOBS, "wait_mean"))),
    "attempts": Table(_attempts, ("attempt", *_ends(*ATTEMPTS))),
    "deliveries": Table(
        _deliveries, ("endpoint", "attempt", "sent", *ENDS, *_ends("acknowledged", "failed"))
    ),
    "answers": Table(_answers, ("endpoint", "answer", "count", *ENDS)),
    "delays": Table(_delays, ("endpoint", "quantile", "delay", *ENDS)),
    "endpoints": Table(
        _endpoints, ("endpoint", "account", *_columns(EVENTS, "lost"), "disabled_in", "reason")
    ),
    "delivering": Table(_delivering, ("t", "endpoint", "acknowledged", "failed", "delay", "lost")),
    "outages": _spans("outages"),
    "disabled": _spans("disabled_spans"),
    "notes": Table(_notes, ("replication", "text", "count")),
}
"""The tables of a result, in their order; times are µs, money is µUSD (`_uusd`, or where the `unit` says so).

`low` and `high` are about the column before them; in a series about its `measured` one. Quantiles of waits
and of delays are those of a replication, on average, as those of metrics are.
`…_by_hour` is of runs longer than ten days: the median and the middle 80 % of what days of all runs have
at most in an hour, or of delays of events; `…_by_day` the most of each day, in the hour `at`.
`operations`, `codes` and `attempts` are of all clients and endpoints together, `levels` how full each
allowance was at the end and at most, and a code's share one of all refusals. A stretch of `delivering` has
the attempts made in it, and of the events that came in it the longest delay and how many were lost; one
without any is left out. `disabled` are the spans in which failures had disabled an endpoint. The `share` of
such a span, or of an outage, is of the replications that have it, and `disabled_in` the share of those in
which failures disabled an endpoint at all.
"""

COLUMNS = {name: table.columns for name, table in TABLES.items()}

WORDS = ("what", "unit", "account", "resource")
"""The columns of a table with a `unit` that have none themselves."""

ENDS_OF = {
    "spend": "money",
    **dict.fromkeys(("jobs", "delays", "delivering_by_hour", "delivering_by_day"), "duration"),
}
"""What `low` and `high`, and quantiles by hour, are in tables where they are no counts."""


def quantities(table: str) -> dict[str, str]:
    """Return what the columns of a table are that are instants, durations or money, by name."""
    quantities = {}
    for column in COLUMNS[table]:
        if column.endswith("_uusd"):
            quantities[column] = "money"
        elif column in ("t", "at", "until", *_ends("disabled_at")):
            quantities[column] = "instant"
        elif column in ("delay", "length") or column.startswith("wait_"):
            quantities[column] = "duration"
        elif column in (*ENDS, *OF_HOURS) and table in ENDS_OF:
            quantities[column] = ENDS_OF[table]
    return quantities


def quantities_in_files(table: str) -> dict[str, str]:
    """Return the same by names in files, and which columns are whole that have means in other tables."""
    names = names_of_money(table, integers=True)
    plain = dict.fromkeys(WHOLE.get(table, ()), "whole")
    return plain | {names.get(column, column): of for column, of in quantities(table).items()}


WHOLE = {"notes": ("count",), "windows_by_hour": OF_HOURS, "queues_by_hour": OF_HOURS}


def names_of_money(table: str, *, integers: bool) -> dict[str, str]:
    """Return names in frames and files of columns of money whose own say no unit, in µUSD or dollars."""
    unit = "uusd" if integers else "usd"
    of_money = (column for column, quantity in quantities(table).items() if quantity == "money")
    return {column: f"{column}_{unit}" for column in of_money if not column.endswith("_uusd")}


def in_files(table: str, rows: Rows) -> dict[str, list[Any]]:
    """Return a table as its columns, by their names in files."""
    names = names_of_money(table, integers=True)
    return {names.get(column, column): [row[column] for row in rows] for column in COLUMNS[table]}


def build(
    replications: Sequence[Replication],
    level: float,
    remarks: Iterable[str] = (),
    fixed: Collection[str] = (),
) -> dict[str, Rows]:
    """Return every table, by name, in the order of TABLES.

    `fixed` is how metrics begin of which nothing is drawn: one replication tells all, and has no interval.
    """
    run = _Run(replications[:1] if "" in fixed else replications, level, remarks, fixed)
    return {
        name: [dict(zip(table.columns, row, strict=True)) for row in table.rows(run)]
        for name, table in TABLES.items()
    }
