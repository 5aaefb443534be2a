"""The scalar numbers of a replication, by name: `refusals.total`, `jobs.crawl.wait.p95`, `slots.acme.used`.

A name is a family, what it is about (which may itself contain dots) and a field: see `metric_families`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cache

from ranksim.core.clock import Micros, duration
from ranksim.core.contract.facts import JobKind
from ranksim.inference.kinds import MetricSample
from ranksim.twin.sim import metric_families as families
from ranksim.twin.sim.histogram import Histogram
from ranksim.twin.sim.metric_families import Metric, Row, Unit, derived_fields, with_histogram
from ranksim.twin.sim.replication import Replication
from ranksim.twin.sim.series import SERIES

Scalars = dict[str, float | None]

WITHIN = ".wait.within."
"""In the name of a metric: the share of a kind's jobs that started within a duration of being queued.

No replication lists it, as there is one for each duration: it is computed where it is asked for.
"""

# Names


def within_of(metric: str) -> tuple[str, Micros]:
    """Return what `jobs.KIND.wait.within.DURATION` is about: `jobs.KIND` and the bound (µs).

    Raises ValueError for another name.
    """
    jobs, _, bound = metric.partition(WITHIN)
    check_name(f"{jobs}.wait.p50")
    try:
        return jobs, duration(bound)
    except ValueError:
        raise ValueError(f"no metric {metric!r}; write {jobs}{WITHIN}DURATION, such as 5m") from None


def _declared(metric: str) -> tuple[str, Metric | None]:
    """Return what a metric is about, "" if nothing, and its declaration; None where there is none."""
    if WITHIN in metric:
        jobs, _, bound = metric.partition(WITHIN)
        words = f"share of {{name}} jobs that wait {bound} at most"
        return jobs.partition(".")[2], Metric(words, "share", "share", trials=f"{jobs}.queued")
    family, _, rest = metric.partition(".")
    fields = families.FAMILIES.get(family, {})
    name, _, field = (families.MONTH.sub(".YYYY-MM", rest) if family == "invoice" else rest).rpartition(".")
    inner, _, column = name.rpartition(".")
    times = fields.get(f"{column}.{field}")
    return (name, fields.get(field)) if times is None else (inner, times)


def metric_of(metric: str) -> Metric:
    """Return the declaration of a metric; one that has none is as the first of its family, else a count."""
    of_family = families.FAMILIES.get(metric.partition(".")[0], {})
    return _declared(metric)[1] or next(iter(of_family.values()), Metric(metric))


def unit_of(metric: str) -> Unit:
    """Return the unit of a metric."""
    return metric_of(metric).unit


def check_name(metric: str) -> None:
    """Raise ValueError when no scenario could have a metric of this name."""
    if WITHIN in metric:
        within_of(metric)
        return
    family = metric.partition(".")[0]
    if family not in families.ABOUT:
        if metric not in always():
            raise ValueError(unknown(metric, always()))
        return
    name, declared = _declared(metric)
    if declared is None or not name:
        fields = ", ".join(families.FAMILIES[family])
        raise ValueError(f"no metric {metric!r}; write {family}.{families.ABOUT[family]} and one of {fields}")


@cache
def always() -> frozenset[str]:
    """Return the metrics that every scenario has."""
    return frozenset(scalars(Replication(0, 0, 0, [], {}, [], {}, {})))


def metrics_named(accounts: Iterable[str], clients: Iterable[str], endpoints: Iterable[str]) -> Iterator[str]:
    """Yield the metrics about accounts, clients and endpoints of these names."""
    accounts = tuple(accounts)
    names = {"clients": tuple(clients), "endpoints": tuple(endpoints)}
    for family, about in families.ABOUT.items():
        if about in ("NAME", "ACCOUNT"):
            for name in names.get(family, accounts):
                yield from (
                    f"{family}.{name}.{field}" for field in families.FAMILIES[family] if field != "YYYY-MM"
                )


def unknown(metric: str, names: Collection[str]) -> str:
    """Return a sentence: there is no such metric, and what exists."""
    if metric.startswith("jobs.") and "within" in metric:
        return f"no metric {metric!r}; write jobs.KIND{WITHIN}DURATION, such as jobs.rank_run{WITHIN}5m"
    close = get_close_matches(metric, names, n=3)
    if close:
        return f"no metric {metric!r}; did you mean {' or '.join(repr(name) for name in close)}?"
    begin = sorted({name.partition(".")[0] for name in names} | set(families.ABOUT))
    return f"no metric {metric!r}; metrics begin with one of {', '.join(begin)}"


# Words


def label(metric: str, value: str = "") -> str:
    """Return the name of a metric in words, as it stands below its value: events for four lost."""
    return _inflected(_words(metric), value).replace("~ ", "")


def statement(metric: str, value: str) -> str:
    """Return what a metric and its value say: 1 call was refused, the longest wait of crawl jobs was 41m."""
    words = _words(metric)
    if "*" not in words and "~" not in words:
        return f"the {words} was {value}"
    return f"{value} {_inflected(words, value)}".replace("~", "was" if value == "1" else "were")


def _inflected(words: str, value: str) -> str:
    return words.replace("*", "" if value == "1" else "s")


def _words(metric: str) -> str:
    """Return the words of a metric with what it is about; one that is not declared is its name."""
    name, declared = _declared(metric)
    if declared is None:
        return metric
    family, field = metric.partition(".")[0], metric.rpartition(".")[2]
    whose, _, resource = name.rpartition(".")
    if family in ("meters", "windows"):
        name = whose.rpartition(".")[2]  # of a window its key, without the account
    of = f" of {name}" if name else ""
    return declared.words.format(name=name or "receivers", of=of, resource=resource, field=field)


# Values


def scalars(replication: Replication) -> Scalars:
    """Return every scalar metric of a replication; None where nothing was observed."""
    return {
        f"{prefix}.{field}": value
        for values in (_calls, _jobs, _deliveries, _levels, _invoices)
        for prefix, of in values(replication)
        for field, value in of
    }


Values = Iterator[tuple[str, Iterable[tuple[str, float | None]]]]
"""Families with what they are about, and the fields of each."""


def _calls(replication: Replication) -> Values:
    by_client: dict[str, Counter[str]] = {}
    refusals: Counter[str] = Counter()
    for row in replication.calls:
        by_client.setdefault(row["client"], Counter())[row["outcome"]] += row["count"]
        if row["outcome"] in families.REFUSING:
            refusals["total"] += row["count"]
            refusals[row["code"]] += row["count"]
        refusals["calls"] += row["count"]
    for row in replication.given_up:
        by_client.setdefault(row["client"], Counter())["given_up"] += row["count"]
    together = Counter[str]()
    for client, counts in by_client.items():
        together += counts
        yield f"clients.{client}", derived_fields(families.CLIENT_CALLS, counts)
    yield "calls", derived_fields(families.CALLS, together)
    yield "refusals", derived_fields(families.FAMILIES["refusals"], refusals)
    for client, row in replication.network.items():
        yield f"clients.{client}", derived_fields(families.NETWORK, with_histogram(row, "response_time"))


NO_JOBS = {
    **dict.fromkeys(families.JOBS, 0),
    "busy": 0,
    "offered": 0,
    "waiting": 0,
    "wait": Histogram().to_plain(),
}
"""The row of a kind of job of which there were none."""


def _jobs(replication: Replication) -> Values:
    for kind in JobKind:
        yield f"jobs.{kind}", derived_fields(families.FAMILIES["jobs"], job_row(replication, kind))


def job_row(replication: Replication, kind: str) -> Row:
    """Return the row of a kind of job from which its metrics are derived."""
    length = replication.end - replication.start
    return with_histogram({**replication.jobs.get(kind, NO_JOBS), "length": length}, "wait")


def _deliveries(replication: Replication) -> Values:
    total: dict[str, float] = dict.fromkeys(families.DELIVERIES, 0)
    delay = Histogram()
    for plain in replication.endpoints:
        row = with_histogram(plain, "delay")
        delay.merge(row["delay"])
        values = dict(derived_fields(families.ENDPOINTS, row))
        for field in families.DELIVERIES:
            total[field] += values[field] or 0
        yield f"endpoints.{row['endpoint']}", values.items()
    yield "deliveries", total.items()
    yield "deliveries", derived_fields(families.DELAYS, {"delay": delay})


def _levels(replication: Replication) -> Values:
    for family, fields in families.LEVELS.items():
        for row in replication.series.get(family, ()):
            name = ".".join(row[column] for column in SERIES[family].labels)
            yield f"{family}.{name}", derived_fields(fields, row)


def _invoices(replication: Replication) -> Values:
    paid: dict[str, list[int | None]] = {}
    for row in replication.invoices:
        yield f"invoice.{row['account']}", [(row["month"], row["uusd"])]
        paid.setdefault(row["account"], []).append(row["uusd"])
    for account, months in paid.items():
        priced = [uusd for uusd in months if uusd is not None]
        yield f"invoice.{account}", [("total", sum(priced) if len(priced) == len(months) else None)]


def share_within(waits: Histogram, queued: float, bound: Micros) -> float | None:
    """Return the share of jobs queued that started within `bound`; one that has not started by then is late.

    Of more than 512 distinct waits those that share a bucket with the bound, up to 0.8 % longer, count as
    within. None where no job was queued.
    """
    queued = max(queued, waits.count)
    return waits.within(bound) / queued if queued else None


def with_share(replications: Sequence[Replication], plain: Sequence[Scalars], metric: str) -> list[Scalars]:
    """Return the scalars of replications, with a metric that is computed where it is asked for."""
    if WITHIN not in metric:
        return list(plain)
    jobs, bound = within_of(metric)
    rows = [job_row(replication, jobs.partition(".")[2]) for replication in replications]
    return [
        values | {metric: share_within(row["wait"], row["queued"], bound)}
        for values, row in zip(plain, rows, strict=True)
    ]


def values_of(replications: Sequence[Scalars], metric: str) -> list[float | None]:
    """Return a metric of replications by their scalars: None where nothing was observed, a count then 0."""
    missing = 0.0 if unit_of(metric) in ("count", "money") else None
    return [values.get(metric, missing) for values in replications]


def sample_of(replications: Sequence[Scalars], metric: str) -> MetricSample:
    """Return a metric of replications, by their scalars, with what its interval goes by."""
    _, _, kind, _, trials = metric_of(metric)
    of = None if trials is None else values_of(replications, trials)
    return MetricSample(kind, values_of(replications, metric), of)
