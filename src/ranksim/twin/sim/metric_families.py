"""The families of metrics: each field declared once.

A field has words, a unit, the kind that chooses its interval, and how it is derived from a row of a
replication. Names, values and sentences (`metrics`) and columns of tables (`tables`) are read from here.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from ranksim.core.service.errors import TEXTS
from ranksim.inference.kinds import Kind
from ranksim.twin.sim.histogram import Histogram

Unit = Literal["count", "share", "duration", "instant", "money"]
"""Durations are µs, instants µs since the epoch, money µUSD."""

Row = Mapping[str, Any]


class Metric(NamedTuple):
    """A field of a family.

    In its words `*` is where a plural ends and `~` where a sentence has its verb; a field without a verb is a
    noun. It is `derived` from the family's row of a replication; without that it is the row's own field.
    A share of things that were counted names the metric of its `trials`.
    """

    words: str
    unit: Unit = "count"
    kind: Kind = "count"
    derived: Callable[[Row], float | None] | None = None
    trials: str | None = None


Fields = Mapping[str, Metric]


def derived_fields(fields: Fields, row: Row) -> Iterator[tuple[str, float | None]]:
    """Yield each of the fields with its value in a row of a replication."""
    for field, metric in fields.items():
        yield field, row[field] if metric.derived is None else metric.derived(row)


def last(values: Sequence[int]) -> int | None:
    """Return the newest sample, or None."""
    return values[-1] if values else None


MONEY: tuple[Unit, Kind] = ("money", "amount")
PEAK = itemgetter("peak")


def _sum(*columns: str) -> Callable[[Row], int]:
    return lambda row: sum(row[column] for column in columns)


def _last(column: str) -> Callable[[Row], int | None]:
    return lambda row: last(row[column])


def _over_samples(column: str) -> Callable[[Row], int]:
    return lambda row: sum(row[column])


def _over_attempts(column: str) -> Callable[[Row], int]:
    return lambda row: sum(attempt[column] for attempt in row["attempts"])


def _quantile(column: str, q: float) -> Callable[[Row], float | None]:
    return lambda row: row[column].quantile(q)


QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}
MEASURES = {"p50": "median", "max": "longest"}
"""Quantiles with a name of their own; another is a percentile."""


def _times(column: str, singular: str, plural: str, of: str) -> dict[str, Metric]:
    """Return the mean and the quantiles of a column of durations, which is a histogram in the row."""
    times = {
        f"{column}.mean": Metric(f"mean {singular} {of}", "duration", "amount", lambda row: row[column].mean)
    }
    for field, q in QUANTILES.items():
        measure = MEASURES.get(field)
        words = f"{measure} {singular} {of}" if measure else f"{field[1:]}th percentile of {plural} {of}"
        times[f"{column}.{field}"] = Metric(words, "duration", "quantile", _quantile(column, q))
    return times


def with_histogram(row: Row, column: str) -> Row:
    """Return a row of a replication with a column of durations as a histogram."""
    return {**row, column: Histogram.from_plain(row[column])}


LOST = ("lost_exhausted", "lost_cancelled", "lost_suppressed")
"""In which ways events of an endpoint never arrive: tried in vain, cancelled, never sent."""

OUTCOMES = ("ok", "granted", "dry_run", "joined", "refused", "replayed", "limited", "error")
REFUSING = ("refused", "limited", "error")
"""Outcomes of calls that did not get what they wanted."""

CALLS = {
    "total": Metric("call*{of} ~ made", derived=_sum(*OUTCOMES)),
    "accepted": Metric("call*{of} ~ accepted", derived=_sum(*(o for o in OUTCOMES if o not in REFUSING))),
    "ok": Metric("call*{of} ~ answered"),
    "granted": Metric("call*{of} ~ granted"),
    "dry_run": Metric("dry run*{of} ~ made"),
    "joined": Metric("call*{of} ~ joined to a job under way"),
    "refused": Metric("call*{of} ~ refused by a check"),
    "replayed": Metric("call*{of} ~ answered as once before"),
    "limited": Metric("call*{of} ~ rate limited"),
    "error": Metric("call*{of} ~ answered with an error"),
    "given_up": Metric("call*{of} ~ given up as rate limited"),
}
"""Of a row that counts calls by outcome, and those whose last try the rate limit refused."""

CLIENT_CALLS = {**CALLS, "refusals": Metric("call*{of} ~ refused", derived=_sum(*REFUSING))}

NETWORK = {
    "unanswered": Metric("call*{of} ~ not answered"),
    **_times("response_time", "response time", "response times", "of {name}"),
}
"""Of clients that call over a network."""

JOBS = {
    "queued": Metric("{name} job* ~ queued"),
    "started": Metric("{name} job* ~ started"),
    "done": Metric("{name} job* ~ done"),
    "failed": Metric("{name} job* failed"),
    "joined": Metric("call* ~ joined to {name} jobs under way"),
    "max_waiting": Metric("{name} job* waited at once at most"),
    "mean_waiting": Metric(
        "mean number of {name} jobs that wait",
        kind="amount",
        derived=lambda row: row["waiting"] / row["length"] if row["length"] else 0.0,
    ),
    "utilisation": Metric(
        "share of the time that {name} workers are busy",
        "share",
        "fraction",
        # None without a pool, or with an unlimited one
        lambda row: row["busy"] / row["offered"] if row["offered"] else None,
    ),
}
WAITS = _times("wait", "wait", "waits", "of {name} jobs")

DELIVERIES = {
    "events": Metric("event* ~ meant for {name}"),
    "sent": Metric("attempt* ~ made at {name}", derived=_over_attempts("sent")),
    "failed": Metric("attempt* at {name} failed", derived=_over_attempts("failed")),
    "acknowledged": Metric("event* ~ acknowledged by {name}"),
    "lost": Metric("event* for {name} ~ lost", derived=_sum(*LOST)),
    "lost_exhausted": Metric("event* for {name} ~ lost after the last attempt"),
    "lost_cancelled": Metric("event* for {name} ~ lost as it was disabled"),
    "lost_suppressed": Metric("event* for {name} ~ never sent as it was disabled"),
    "pending": Metric("event* for {name} ~ still to be sent"),
    "duplicates": Metric("event* ~ sent to {name} twice"),
    "disabled": Metric("disabling* of {name}"),
}
DELAYS = _times("delay", "delay", "delays", "of events for {name}")

ENDPOINTS = {
    **DELIVERIES,
    "disabled_at": Metric(
        "first disabling of {name}",
        "instant",
        "mean",
        lambda row: row["disablings"][0][0] if row["disablings"] else None,
    ),
    **DELAYS,
}

LEVELS: dict[str, Fields] = {
    "slots": {
        "max_used": Metric("slot* of {name} ~ used at most", derived=PEAK),
        "used": Metric("slot* of {name} ~ used at the end", derived=_last("used")),
        "active": Metric("slot* of {name} ~ active at the end", derived=_last("active")),
        "held": Metric("slot* of {name} ~ held at the end", derived=_last("held")),
    },
    "spend": {
        "max": Metric("highest provider cost of {name} in a month", *MONEY, PEAK),
        "spent": Metric("provider cost of {name} in the last month", *MONEY, _last("spent_uusd")),
        "settled": Metric("settled provider cost of {name} in the last month", *MONEY, _last("settled_uusd")),
        "reserved": Metric("reserved provider cost of {name} at the end", *MONEY, _last("reserved_uusd")),
    },
    "meters": {
        "used": Metric("{resource} of {name} ~ used at the end", derived=_last("used")),
        "max": Metric("{resource} of {name} ~ used at most", derived=PEAK),
    },
    "windows": {
        "admitted": Metric("{resource} call* of {name} ~ admitted", derived=_over_samples("admitted")),
        "refused": Metric("{resource} call* of {name} ~ rate limited", derived=_over_samples("refused")),
    },
}
"""Of sampled series."""

FAMILIES: dict[str, Fields] = {
    "calls": CALLS,
    "clients": {**CLIENT_CALLS, **NETWORK},
    "refusals": {
        "total": Metric("call* ~ refused"),
        "share": Metric(
            "share of calls that are refused",
            "share",
            "share",
            lambda row: row["total"] / row["calls"] if row["calls"] else 0.0,
            trials="calls.total",
        ),
        **dict.fromkeys(TEXTS, Metric("call* ~ refused with {field}")),
    },
    "jobs": {**JOBS, **WAITS},
    "deliveries": {**DELIVERIES, **DELAYS},
    "endpoints": ENDPOINTS,
    "invoice": {
        "total": Metric("invoices of {name} in all", *MONEY),
        "YYYY-MM": Metric("invoice of {name} for {field}", *MONEY),
    },
    **LEVELS,
}

ABOUT = {
    "clients": "NAME",
    "endpoints": "NAME",
    "slots": "ACCOUNT",
    "spend": "ACCOUNT",
    "invoice": "ACCOUNT",
    "meters": "ACCOUNT.METRIC",
    "windows": "ACCOUNT.KEY.CLASS",
}
"""Families whose names depend on the scenario, and what these names are about."""

MONTH = re.compile(r"[.]([0-9]{4}-(?:0[1-9]|1[0-2]))$")
"""The field of an invoice that is declared as YYYY-MM."""
