"""The tables of a result: rows of plain values, means over replications with an interval low to high.

What is counted has the interval of a count, a share of calls that of a share (`inference.kinds`), neither
exact because replications agree. The bands of sampled series are those of a mean at each moment; they have no
width where all replications show one level, as at the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any

from ranksim.core.contract.facts import JobKind
from ranksim.inference.counts import counted
from ranksim.inference.estimate import Estimate
from ranksim.inference.kinds import Kind, MetricSample, interval
from ranksim.inference.means import estimate
from ranksim.inference.shares import clustered
from ranksim.twin.sim.histogram import Histogram
from ranksim.twin.sim.metrics import LOST, REFUSING, kind_of, last, scalars, unit_of, utilisation
from ranksim.twin.sim.series import COLUMNS as SERIES
from ranksim.twin.sim.series import LABELS
from ranksim.twin.sim.statistics import Replication

Row = dict[str, Any]
Rows = list[Row]
Key = tuple[Any, ...]
Counts = list[dict[Key, float]]
"""One dict for each replication."""


def _ends(*columns: str) -> tuple[str, ...]:
    """Each column with the two ends of its interval."""
    return tuple(f"{column}{end}" for column in columns for end in ("", "_low", "_high"))


JOBS = ("queued", "started", "done", "failed", "joined")
ATTEMPTS = ("sent", "acknowledged", "failed")
EVENTS = ("events", "acknowledged")
LATER = (*LOST, "pending", "duplicates", "disabled")

COLUMNS = {
    "totals": ("what", "unit", "value", "low", "high"),
    "operations": ("operation", "outcome", "status", "count", "low", "high"),
    "codes": ("check", "code", "count", "low", "high", *_ends("share")),
    "levels": ("account", "resource", "unit", *_ends("last", "highest"), "limit"),
    "calls": ("client", "operation", "outcome", "status", "count", "low", "high"),
    "refusals": ("code", "check", "client", "operation", "count", "low", "high", *_ends("share")),
    "windows": ("t", *LABELS["windows"], *SERIES["windows"], "low", "high"),
    "queues": ("t", *LABELS["queues"], *SERIES["queues"], "low", "high"),
    "meters": ("t", *LABELS["meters"], *SERIES["meters"], "low", "high"),
    "slots": ("t", *LABELS["slots"], *SERIES["slots"], "low", "high"),
    "spend": ("t", *LABELS["spend"], *SERIES["spend"], "low", "high"),
    "jobs": (
        "kind",
        *_ends(*JOBS),
        "wait_mean",
        "low",
        "high",
        *_ends("wait_p50", "wait_p95", "wait_p99", "utilisation", "mean_waiting", "max_waiting"),
    ),
    "attempts": ("attempt", *_ends(*ATTEMPTS)),
    "deliveries": ("endpoint", "attempt", "sent", "low", "high", *_ends("acknowledged", "failed")),
    "answers": ("endpoint", "answer", "count", "low", "high"),
    "delays": ("endpoint", "quantile", "delay", "low", "high"),
    "endpoints": (
        "endpoint",
        "account",
        *_ends(*EVENTS),
        "lost",
        "low",
        "high",
        *_ends(*LATER, "disabled_at"),
        "reason",
    ),
    "delivering": ("t", "endpoint", "acknowledged", "failed", "delay", "lost"),
    "outages": ("endpoint", "t", "until", "share"),
    "disabled": ("endpoint", "t", "until", "share"),
    "notes": ("replication", "text", "count"),
}
"""The columns of each table; times are µs, money is µUSD (`_uusd`, or where the `unit` says so).

`low` and `high` are about the column before them; in a series about the one that MEASURED names. Quantiles of
waits and of delays are those of a replication, on average, as those of metrics are.
`operations`, `codes` and `attempts` are of all clients and endpoints together, `levels` how full each
allowance was at the end and at most, and a code's share one of all refusals. A stretch of `delivering` has
the attempts made in it, and of the events that came in it the longest delay and how many were lost; one
without any is left out. `disabled` are the spans in which failures had disabled an endpoint. The `share` of
such a span, or of an outage, is of the replications that have it.
"""

WORDS = ("what", "unit", "account", "resource")
"""The columns of a table with a `unit` that have none themselves."""

MEASURED = {
    "windows": "fullest",
    "queues": "waiting",
    "meters": "used",
    "slots": "used",
    "spend": "spent_uusd",
}
"""The column of a series that `low` and `high` are about."""


def quantities(table: str) -> dict[str, str]:
    """Return what the columns of a table are that are instants, durations or money, by name."""
    found = {name: "money" for name in COLUMNS[table] if name.endswith("_uusd")}
    found |= {name: "instant" for name in COLUMNS[table] if name in ("t", "until", *_ends("disabled_at"))}
    spans = ("delay", "length")
    found |= {name: "duration" for name in COLUMNS[table] if name in spans or name.startswith("wait_")}
    of_measured = {"spend": "money", "jobs": "duration", "delays": "duration"}.get(table)
    return found | ({"low": of_measured, "high": of_measured} if of_measured else {})


DELAYS = (0.5, 0.9, 0.95, 0.99, 1.0)


def build(
    replications: Sequence[Replication],
    level: float,
    remarks: Iterable[str] = (),
    fixed: Collection[str] = (),
) -> dict[str, Rows]:
    """Build every table, by name, in the order of COLUMNS.

    `fixed` is how metrics begin of which nothing is drawn: one replication tells all, and has no interval.
    """
    if "" in fixed:
        replications = replications[:1]
    return {
        "totals": _totals(replications, level),
        "operations": _operations(replications, level),
        "codes": _codes(replications, level),
        "levels": _levels(replications, level, fixed),
        "calls": _calls(replications, level),
        "refusals": _refusals(replications, level),
        **{table: _series(table, replications, level) for table in SERIES},
        "jobs": _jobs(replications, level),
        "attempts": _attempts(replications, level),
        "deliveries": _deliveries(replications, level),
        "answers": _answers(replications, level),
        "delays": _delays(replications, level),
        "endpoints": _endpoints(replications, level),
        "delivering": _delivering(replications),
        "outages": _spans("outages", "outages", replications),
        "disabled": _spans("disabled", "disabled_spans", replications),
        "notes": _notes(replications, remarks),
    }


def _row(table: str, *values: Any) -> Row:
    return dict(zip(COLUMNS[table], values, strict=True))


# All together


def _totals(replications: Sequence[Replication], level: float) -> Rows:
    """The few numbers to see first; of jobs, events and provider cost where there are any."""
    seen = [scalars(replication) for replication in replications]

    def total(what: str, *names: str) -> Row:
        kind, unit = kind_of(names[0]), unit_of(names[0])
        values = [sum(found.get(name) or 0 for name in names) for found in seen]
        return _row("totals", what, unit, *_mean(values, level, kind))

    calls, refused = ([found[name] or 0 for found in seen] for name in ("calls.total", "refusals.total"))
    rows = [total("calls", "calls.total")]
    if any(calls):
        rows.append(_row("totals", "refused", "share", *clustered(refused, calls, level)))
    if any(replication.jobs for replication in replications):
        rows.append(total("jobs_done", *(f"jobs.{kind}.done" for kind in JobKind)))
    if any(replication.endpoints for replication in replications):
        rows.append(total("events", "deliveries.events"))
        if any(found["deliveries.lost"] for found in seen):
            rows.append(total("lost", "deliveries.lost"))
    accounts = {row["account"] for replication in replications for row in replication.series.get("spend", ())}
    if accounts:
        rows.append(total("provider_cost", *(f"spend.{account}.max" for account in sorted(accounts))))
    return rows


def _operations(replications: Sequence[Replication], level: float) -> Rows:
    counts = _count(replications, lambda row: (row["operation"], row["outcome"], row["status"]))
    return [_row("operations", *key, *count) for key, count in _each(counts, level)]


def _codes(replications: Sequence[Replication], level: float) -> Rows:
    refused = _count(
        replications, lambda row: (row["check"], row["code"]) if row["outcome"] in REFUSING else None
    )
    together = [sum(found.values()) for found in refused]
    return [
        _row("codes", *key, *count, *clustered([found.get(key, 0) for found in refused], together, level))
        for key, count in _each(refused, level)
    ]


def _levels(replications: Sequence[Replication], level: float, fixed: Collection[str] = ()) -> Rows:
    rows = []
    for table, unit in (("slots", "count"), ("meters", "count"), ("spend", "money")):
        kind: Kind = "count" if unit == "count" else "amount"
        limit = "ceiling_uusd" if table == "spend" else "limit"
        found: dict[Key, Rows] = {}
        for replication in replications[:1] if f"{table}." in fixed else replications:
            for series in replication.series.get(table, ()):
                found.setdefault((series["account"], series.get("metric", table)), []).append(series)
        for (account, resource), several in sorted(found.items()):
            ends = _mean((last(series[MEASURED[table]]) for series in several), level, kind)
            highest = _mean((series["peak"] for series in several), level, kind)
            most = _mean((last(series[limit]) for series in several), level).mean
            rows.append(_row("levels", account, resource, unit, *ends, *highest, most))
    return rows


# Calls


def _count(replications: Sequence[Replication], key: Callable[[Row], Key | None]) -> Counts:
    """Sum the call counts of each replication by a key; rows of which it is None are left out."""
    counts: Counts = []
    for replication in replications:
        found: dict[Key, float] = {}
        for row in replication.calls:
            which = key(row)
            if which is not None:
                found[which] = found.get(which, 0) + row["count"]
        counts.append(found)
    return counts


def _each(counts: Counts, level: float) -> list[tuple[Key, Estimate]]:
    """Estimate the mean count of each key, sorted; a replication without the key counts 0."""
    keys = sorted({key for found in counts for key in found})
    return [(key, counted([found.get(key, 0) for found in counts], level)) for key in keys]


def _calls(replications: Sequence[Replication], level: float) -> Rows:
    counts = _count(
        replications, lambda row: (row["client"], row["operation"], row["outcome"], row["status"])
    )
    return [_row("calls", *key, *count) for key, count in _each(counts, level)]


def _refusals(replications: Sequence[Replication], level: float) -> Rows:
    def refusal(row: Row) -> Key | None:
        if row["outcome"] not in REFUSING:
            return None
        return row["code"], row["check"], row["client"], row["operation"]

    calls = _count(replications, lambda row: (row["client"], row["operation"]))
    refused = _count(replications, refusal)
    rows = []
    for key, count in _each(refused, level):
        hits, trials = [found.get(key, 0) for found in refused], [found.get(key[2:], 0) for found in calls]
        rows.append(_row("refusals", *key, *count, *clustered(hits, trials, level)))
    return rows


# Series


def _series(table: str, replications: Sequence[Replication], level: float) -> Rows:
    labels, columns = LABELS[table], SERIES[table]
    measured = columns.index(MEASURED[table])
    found: dict[Key, dict[int, list[tuple[float, ...]]]] = {}
    for replication in replications:
        for series in replication.series.get(table, ()):
            samples = found.setdefault(tuple(series[label] for label in labels), {})
            values = zip(*(series[column] for column in columns), strict=True)
            for t, sample in zip(series["t"], values, strict=True):
                samples.setdefault(t, []).append(sample)
    rows = []
    for names, samples in sorted(found.items()):
        for t, sampled in sorted(samples.items()):
            means = [None if None in values else fmean(values) for values in zip(*sampled, strict=True)]
            _, low, high = estimate([values[measured] for values in sampled], level)
            low = None if low is None else max(0.0, low)
            rows.append(_row(table, t, *names, *means, low, high))
    return rows


# Jobs


def _mean(values: Iterable[float | None], level: float, kind: Kind = "amount") -> Estimate:
    """Estimate the mean of what was observed."""
    return interval(MetricSample(kind, list(values)), level)


def _quantile(histograms: Sequence[Histogram], q: float, level: float) -> Estimate:
    """Estimate the mean of a replication's quantile, as that of the metric of its name."""
    return _mean((histogram.quantile(q) for histogram in histograms), level, "quantile")


def _jobs(replications: Sequence[Replication], level: float) -> Rows:
    kinds = dict.fromkeys(kind for replication in replications for kind in replication.jobs)
    rows = []
    for kind in kinds:
        found = [(r.jobs[kind], r.end - r.start) for r in replications if kind in r.jobs]
        jobs = [job for job, _ in found]
        waits = [Histogram.from_plain(job["wait"]) for job in jobs]
        rows.append(
            _row(
                "jobs",
                kind,
                *(end for field in JOBS for end in counted([job[field] for job in jobs], level)),
                *_mean((wait.mean for wait in waits), level),
                *(end for q in (0.5, 0.95, 0.99) for end in _quantile(waits, q, level)),
                *_mean((utilisation(job) for job in jobs), level, "fraction"),
                *_mean((job["waiting"] / length for job, length in found if length), level),
                *counted([job["max_waiting"] for job in jobs], level),
            )
        )
    return rows


# Deliveries


def _by_endpoint(replications: Sequence[Replication]) -> dict[str, Rows]:
    """Collect each endpoint's rows over the replications, sorted by its name."""
    found: dict[str, Rows] = {}
    for replication in replications:
        for row in replication.endpoints:
            found.setdefault(row["endpoint"], []).append(row)
    return dict(sorted(found.items()))


def _attempts(replications: Sequence[Replication], level: float) -> Rows:
    of_all = [[attempt for row in one.endpoints for attempt in row["attempts"]] for one in replications]
    return [_row("attempts", *row) for row in _by_number(of_all, level)]


def _deliveries(replications: Sequence[Replication], level: float) -> Rows:
    return [
        _row("deliveries", endpoint, *row)
        for endpoint, found in _by_endpoint(replications).items()
        for row in _by_number([row["attempts"] for row in found], level)
    ]


def _by_number(attempts: Sequence[Rows], level: float) -> Iterator[tuple[float | None, ...]]:
    """Give each number that attempts of replications have, and how many were sent and came to what."""
    for number in sorted({one["attempt"] for found in attempts for one in found}):
        counts = (
            counted(
                [sum(one[field] for one in found if one["attempt"] == number) for found in attempts], level
            )
            for field in ATTEMPTS
        )
        yield number, *(end for count in counts for end in count)


def _answers(replications: Sequence[Replication], level: float) -> Rows:
    return [
        _row("answers", endpoint, answer, *counted([row["answers"].get(answer, 0) for row in found], level))
        for endpoint, found in _by_endpoint(replications).items()
        for answer in sorted({answer for row in found for answer in row["answers"]})
    ]


def _delays(replications: Sequence[Replication], level: float) -> Rows:
    rows = []
    for endpoint, found in _by_endpoint(replications).items():
        delays = [Histogram.from_plain(row["delay"]) for row in found]
        if any(delay.count for delay in delays):
            for q in DELAYS:
                rows.append(_row("delays", endpoint, q, *_quantile(delays, q, level)))
    return rows


def _endpoints(replications: Sequence[Replication], level: float) -> Rows:
    rows = []
    for endpoint, found in _by_endpoint(replications).items():

        def many(*fields: str, of: Rows = found) -> Estimate:
            return counted([sum(row[field] for field in fields) for row in of], level)

        first = [row["disablings"][0] for row in found if row["disablings"]]
        # An instant stays whole: the mean of the first disablings, where there were any.
        disabled = _mean((t for t, _ in first), level, "mean")
        rows.append(
            _row(
                "endpoints",
                endpoint,
                found[0]["account"],
                *(end for field in EVENTS for end in many(field)),
                *many(*LOST),
                *(end for field in LATER for end in many(field)),
                *(None if end is None else round(end) for end in disabled),
                first[0][1] if first else None,
            )
        )
    return rows


def _delivering(replications: Sequence[Replication]) -> Rows:
    rows = []
    for endpoint, found in _by_endpoint(replications).items():
        stretches: dict[int, list[Sequence[float]]] = {}
        for row in found:
            for t, *counted_in in row["stretches"]:
                stretches.setdefault(t, []).append(counted_in)
        for t, seen in sorted(stretches.items()):
            good, bad, delays, lost = zip(*seen, strict=True)
            sums = (sum(values) / len(found) for values in (good, bad))
            known = [delay for delay in delays if delay is not None]
            longest = fmean(known) if known else None
            rows.append(_row("delivering", t, endpoint, *sums, longest, sum(lost) / len(found)))
    return rows


def _spans(table: str, field: str, replications: Sequence[Replication]) -> Rows:
    rows = []
    for endpoint, found in _by_endpoint(replications).items():
        seen = Counter((begin, end) for row in found for begin, end in row[field])
        rows += [_row(table, endpoint, *when, n / len(found)) for when, n in sorted(seen.items())]
    return rows


def _notes(replications: Sequence[Replication], remarks: Iterable[str]) -> Rows:
    rows = [_row("notes", None, remark, 1) for remark in remarks]
    for index, replication in enumerate(replications):
        rows += [_row("notes", index, text, count) for text, count in replication.notes.items()]
    return rows
