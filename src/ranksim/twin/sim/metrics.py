"""The scalar numbers of a replication, by name: `refusals.total`, `jobs.crawl.wait.p95`, `slots.acme.used`.

A name is a family, then what it is about (which may itself contain dots), then a field.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal

from ranksim.core.contract.facts import JobKind
from ranksim.core.service.errors import TEXTS
from ranksim.inference.kinds import Kind, MetricSample
from ranksim.twin.sim.histogram import Histogram
from ranksim.twin.sim.statistics import Replication

Unit = Literal["count", "share", "duration", "instant", "money"]
Scalars = dict[str, float | None]

LOST = ("lost_exhausted", "lost_cancelled", "lost_suppressed")
"""In which ways events of an endpoint never arrive: tried in vain, cancelled, never sent."""

OUTCOMES = ("ok", "granted", "dry_run", "joined", "refused", "replayed", "limited", "error")
REFUSING = ("refused", "limited", "error")
"""Outcomes of calls that did not get what they wanted."""

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}
TIMES = ("mean", *QUANTILES)

CALLS = ("total", "accepted", *OUTCOMES)
DELIVERIES = (
    "events",
    "sent",
    "failed",
    "acknowledged",
    "lost",
    "lost_exhausted",
    "lost_cancelled",
    "lost_suppressed",
    "pending",
    "duplicates",
    "disabled",
)
JOBS = ("queued", "started", "done", "failed", "joined", "max_waiting", "mean_waiting", "utilisation")

NAMED = {
    "clients": ("NAME", (*CALLS, "refusals", "unanswered", *(f"response_time.{time}" for time in TIMES))),
    "endpoints": ("NAME", (*DELIVERIES, "disabled_at", *(f"delay.{time}" for time in TIMES))),
    "slots": ("ACCOUNT", ("max_used", "used", "active", "held")),
    "spend": ("ACCOUNT", ("max", "spent", "settled", "reserved")),
    "invoice": ("ACCOUNT", ("total", "YYYY-MM")),
    "meters": ("ACCOUNT.METRIC", ("used", "max")),
    "windows": ("ACCOUNT.KEY.CLASS", ("admitted", "refused")),
}
"""Families whose names depend on the scenario: what the name is about, and the fields."""

MONTH = re.compile(r"[.][0-9]{4}-(0[1-9]|1[0-2])$")
"""The field of an invoice that stands in NAMED as YYYY-MM."""


def unit_of(metric: str) -> Unit:
    """Return the unit of a metric: a count, a share, a duration (µs), an instant (µs) or money (µUSD)."""
    if metric.startswith(("spend.", "invoice.")):
        return "money"
    if metric.endswith(".disabled_at"):
        return "instant"
    if metric.endswith((".utilisation", ".share")):
        return "share"
    *_, before, field = ("", *metric.split("."))
    return "duration" if before in ("wait", "delay", "response_time") and field in TIMES else "count"


def kind_of(metric: str) -> Kind:
    """Return what a metric is to `inference`, which chooses its interval by that."""
    unit, field = unit_of(metric), metric.rpartition(".")[2]
    match unit:
        case "share":
            return "fraction" if trials_of(metric) is None else "share"
        case "count":
            return "amount" if field == "mean_waiting" else "count"
        case "duration":
            return "quantile" if field in QUANTILES else "amount"
        case "money":
            return "amount"
        case "instant":
            return "mean"


def trials_of(metric: str) -> str | None:
    """Return the metric that counts the trials of which this one is the share; None of a share of time."""
    return "calls.total" if metric == "refusals.share" else None


def values_of(found: Sequence[Scalars], metric: str) -> list[float | None]:
    """Return a metric of replications by their scalars: None where nothing was observed, a count then 0."""
    missing = 0.0 if unit_of(metric) in ("count", "money") else None
    return [one.get(metric, missing) for one in found]


def sample_of(found: Sequence[Scalars], metric: str) -> MetricSample:
    """Return a metric of replications, by their scalars, with what its interval goes by."""
    trials = trials_of(metric)
    return MetricSample(
        kind_of(metric), values_of(found, metric), None if trials is None else values_of(found, trials)
    )


def scalars(replication: Replication) -> Scalars:
    """Return every scalar metric of a replication; None where nothing was observed."""
    found: Scalars = {}
    found.update(_calls(replication.calls))
    found.update(_network(replication.network))
    found.update(_jobs(replication))
    found.update(_deliveries(replication.endpoints))
    found.update(_levels(replication.series))
    found.update(_invoices(replication.invoices))
    return found


def check_name(metric: str) -> None:
    """Raise ValueError when no scenario could have a metric of this name."""
    family, _, rest = metric.partition(".")
    if family in NAMED:
        about, fields = NAMED[family]
        rest = MONTH.sub(".YYYY-MM", rest) if family == "invoice" else rest
        if any(rest.endswith(f".{field}") and len(rest) > len(field) + 1 for field in fields):
            return
        raise ValueError(f"no metric {metric!r}; write {family}.{about} and one of {', '.join(fields)}")
    if metric not in always():
        raise ValueError(unknown(metric, always()))


@cache
def always() -> frozenset[str]:
    """The metrics that every scenario has."""
    nothing = Replication(0, 0, 0, [], {}, [], {}, {})
    return frozenset(scalars(nothing))


def named(accounts: Iterable[str], clients: Iterable[str], endpoints: Iterable[str]) -> Iterator[str]:
    """Yield the metrics about accounts, clients and endpoints of these names."""
    accounts = tuple(accounts)
    about = {"clients": tuple(clients), "endpoints": tuple(endpoints)}
    for family, (what, fields) in NAMED.items():
        if what in ("NAME", "ACCOUNT"):
            for name in about.get(family, accounts):
                yield from (f"{family}.{name}.{field}" for field in fields if field != "YYYY-MM")


def unknown(metric: str, known: Collection[str]) -> str:
    """Return a sentence: there is no such metric, and what exists."""
    close = get_close_matches(metric, known, n=3)
    if close:
        return f"no metric {metric!r}; did you mean {' or '.join(repr(name) for name in close)}?"
    families = sorted({name.partition(".")[0] for name in known} | set(NAMED))
    return f"no metric {metric!r}; metrics begin with one of {', '.join(families)}"


def _calls(rows: list[dict[str, Any]]) -> Iterator[tuple[str, float | None]]:
    clients = sorted({row["client"] for row in rows})
    counts = dict.fromkeys((f"calls.{field}" for field in CALLS), 0)
    counts |= dict.fromkeys((f"refusals.{code}" for code in ("total", *TEXTS)), 0)
    for client in clients:
        counts |= dict.fromkeys((f"clients.{client}.{field}" for field in (*CALLS, "refusals")), 0)
    for row in rows:
        client, outcome, count = row["client"], row["outcome"], row["count"]
        accepted = "refusals" if outcome in REFUSING else "accepted"
        names = [f"calls.{outcome}", f"clients.{client}.{outcome}", f"clients.{client}.{accepted}"]
        names += ["calls.total", f"clients.{client}.total"]
        names += (
            ["refusals.total", f"refusals.{row['code']}"] if accepted == "refusals" else ["calls.accepted"]
        )
        for name in names:
            counts[name] = counts.get(name, 0) + count
    yield from counts.items()
    calls = counts["calls.total"]
    yield "refusals.share", counts["refusals.total"] / calls if calls else 0.0


def _network(rows: dict[str, dict[str, Any]]) -> Iterator[tuple[str, float | None]]:
    for client, row in rows.items():
        yield f"clients.{client}.unanswered", row["unanswered"]
        yield from _times(f"clients.{client}.response_time", row["response_time"])


def _jobs(replication: Replication) -> Iterator[tuple[str, float | None]]:
    length = replication.end - replication.start
    for kind in JobKind:
        jobs = replication.jobs.get(kind, {})
        for field in ("queued", "started", "done", "failed", "joined", "max_waiting"):
            yield f"jobs.{kind}.{field}", jobs.get(field, 0)
        yield f"jobs.{kind}.mean_waiting", jobs["waiting"] / length if jobs and length else 0.0
        yield f"jobs.{kind}.utilisation", utilisation(jobs)
        yield from _times(f"jobs.{kind}.wait", jobs.get("wait"))


def utilisation(jobs: dict[str, Any]) -> float | None:
    """The share of a pool's workers that were busy on average; None without a pool, or an unlimited one."""
    return jobs["busy"] / jobs["offered"] if jobs and jobs["offered"] else None


def _times(name: str, plain: dict[str, Any] | None) -> Iterator[tuple[str, float | None]]:
    histogram = Histogram.from_plain(plain) if plain else Histogram()
    yield f"{name}.mean", histogram.mean
    for label, q in QUANTILES.items():
        yield f"{name}.{label}", histogram.quantile(q)


def _deliveries(rows: list[dict[str, Any]]) -> Iterator[tuple[str, float | None]]:
    total = dict.fromkeys(DELIVERIES, 0)
    delay = Histogram()
    for row in rows:
        counts = {
            **{field: row[field] for field in DELIVERIES if field in row},
            "sent": sum(attempt["sent"] for attempt in row["attempts"]),
            "failed": sum(attempt["failed"] for attempt in row["attempts"]),
            "lost": sum(row[field] for field in LOST),
        }
        name = f"endpoints.{row['endpoint']}"
        for field in DELIVERIES:
            yield f"{name}.{field}", counts[field]
            total[field] += counts[field]
        yield f"{name}.disabled_at", row["disablings"][0][0] if row["disablings"] else None
        yield from _times(f"{name}.delay", row["delay"])
        delay.merge(Histogram.from_plain(row["delay"]))
    for field in DELIVERIES:
        yield f"deliveries.{field}", total[field]
    yield from _times("deliveries.delay", delay.to_plain())


def _levels(series: dict[str, list[dict[str, Any]]]) -> Iterator[tuple[str, float | None]]:
    for row in series.get("slots", ()):
        yield f"slots.{row['account']}.max_used", row["peak"]
        for field in ("used", "active", "held"):
            yield f"slots.{row['account']}.{field}", last(row[field])
    for row in series.get("spend", ()):
        yield f"spend.{row['account']}.max", row["peak"]
        for field in ("spent", "settled", "reserved"):
            yield f"spend.{row['account']}.{field}", last(row[f"{field}_uusd"])
    for row in series.get("meters", ()):
        yield f"meters.{row['account']}.{row['metric']}.max", row["peak"]
        yield f"meters.{row['account']}.{row['metric']}.used", last(row["used"])
    for row in series.get("windows", ()):
        name = f"windows.{row['account']}.{row['key']}.{row['rate_class']}"
        for field in ("admitted", "refused"):
            yield f"{name}.{field}", sum(row[field])


def _invoices(rows: list[dict[str, Any]]) -> Iterator[tuple[str, float | None]]:
    paid: dict[str, list[int | None]] = {}
    for row in rows:
        yield f"invoice.{row['account']}.{row['month']}", row["uusd"]
        paid.setdefault(row["account"], []).append(row["uusd"])
    for account, months in paid.items():
        known = [one for one in months if one is not None]
        yield f"invoice.{account}.total", sum(known) if len(known) == len(months) else None


def last(values: list[int]) -> int | None:
    """The newest sample, or None."""
    return values[-1] if values else None
