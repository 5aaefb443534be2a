"""What a trace lets be measured: retry delays, resets, the longest Idempotency-Key, job durations, statuses.

A length that never changes is an interval: each pair of exchanges bounds it from above or below. What is
random is described: the range seen, or a lognormal fit to durations that polling censors. Lengths are in the
deployment's own time (business time).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ranksim.core.clock import DISTANT_FUTURE, SECOND, WEEK, Micros, week_start
from ranksim.core.contract.assumptions import Statuses
from ranksim.core.contract.quantities import Distribution
from ranksim.core.service.operations import OPERATIONS
from ranksim.judge.conformance.calibrate.exclusions import default_calls
from ranksim.judge.conformance.calibrate.job_lifetimes import job_durations
from ranksim.judge.conformance.history.fields import instant_or_none
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import Observation, ReceivedAttempt
from ranksim.judge.conformance.rate.clocked import Arcs, clock_arcs, open_phases
from ranksim.judge.conformance.rate.ledger import steady
from ranksim.judge.conformance.rate.stated import edge_arcs
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.webhooks.failure_runs import outcome


@dataclass(frozen=True, slots=True)
class Measure:
    """A quantity between `low` and `high` (µs, or a count), with the exchanges that bound it.

    `high` is None where nothing bounds it from above. `count` is how many observations were used; `fit`
    describes what is random; `number` is the U number, `account` whose it is where that matters.
    """

    name: str
    number: int
    low: int
    high: int | None
    unit: str = "µs"
    exchanges: tuple[str, ...] = ()
    count: int = 1
    fit: Distribution | None = None
    account: str = ""

    @property
    def exact(self) -> bool:
        """Whether both bounds are one number."""
        return self.low == self.high


def measures(history: History, options: Options) -> Iterator[Measure]:
    """Return what can be measured, in the order of the assumptions."""
    yield from _longest_key(history)
    yield from _week_offset(history)
    yield from _retry_delays(history, options)
    for kind, low, high, count, fit in job_durations(history):
        yield Measure(f"job duration {kind}", 60, low, high, count=count, fit=fit)


# Bounds


@dataclass(slots=True)
class Bounds:
    """An interval that narrows, and what narrowed it."""

    low: int = 0
    high: int = DISTANT_FUTURE
    low_by: tuple[str, ...] = ()
    high_by: tuple[str, ...] = ()
    count: int = 0

    def least(self, value: int, *by: str) -> None:
        """The quantity is at least `value`."""
        self.count += 1
        if value > self.low:
            self.low, self.low_by = value, by

    def most(self, value: int, *by: str) -> None:
        """The quantity is at most `value`."""
        self.count += 1
        if value < self.high:
            self.high, self.high_by = value, by

    def measure(self, name: str, number: int, unit: str = "µs", account: str = "") -> Iterator[Measure]:
        """Return the measure, if anything is known and nothing contradicts itself."""
        if self.count and self.low <= self.high:
            by = tuple(dict.fromkeys((*self.low_by, *self.high_by)))
            high = None if self.high == DISTANT_FUTURE else self.high
            yield Measure(name, number, self.low, high, unit, by, self.count, account=account)


def _longest_key(history: History) -> Iterator[Measure]:
    """Idempotency-Keys that were taken, and refused as invalid, bound the longest allowed (U32)."""
    bounds = Bounds()
    for exchange in history.as_judged():
        key = exchange.idempotency_key
        if key is None or exchange.lost or not exchange.key:
            continue
        if exchange.code == "idempotency_key_invalid" and len(key) > 1:
            bounds.most(len(key) - 1, exchange.id)
        elif exchange.ok and exchange.method == "POST":
            bounds.least(len(key), exchange.id)
    if bounds.high < DISTANT_FUTURE:
        yield from bounds.measure("idempotency_key_max", 32, "characters")


# Calendar, and the clock


def _week_offset(history: History) -> Iterator[Measure]:
    """When weekly allowances reset, relative to Monday 00:00 UTC (U52)."""
    stated: dict[int, str] = {}
    for exchange in history.by_operation("account.usage"):
        metrics = exchange.data.get("metrics") if isinstance(exchange.data, dict) else None
        for metric in metrics if isinstance(metrics, list) else ():
            if isinstance(metric, dict) and metric.get("period") == "week":
                resets = instant_or_none(metric.get("resets_at"))
                if resets is not None:
                    after = resets - week_start(resets, 0)
                    stated.setdefault(after if after <= WEEK // 2 else after - WEEK, exchange.id)
    if len(stated) == 1:
        ((offset, by),) = stated.items()
        yield Measure("week_offset", 52, offset, offset, exchanges=(by,))


def phases(history: History, options: Options, left: tuple[Any, ...]) -> Iterator[Measure]:
    """Return the phase of clock windows, in µs after a whole window of the deployment's clock, if it has one.

    All keys and classes are taken together; where the deployment's clock is unknown, or the windows of keys
    stand apart, nothing is said.
    """
    if left != ("clock",) or not steady(history.run) or not history.run.offset.bounded:
        return
    joined: Arcs | None = None
    length = options.facts.rate_window // history.run.traffic_rate
    for calls in default_calls(history, options):
        arcs = clock_arcs(calls).joined(edge_arcs(calls))
        joined = arcs if joined is None else joined.joined(arcs)
    if joined is None or history.run.traffic_rate != 1:
        return
    match open_phases(joined, length):
        case [(low, high)]:
            pass
        case [(0, high), (begin, end)] if end >= length:  # across the end of a window
            low = begin - length
        case _:
            return
    low, high = low + history.run.offset.low, high + history.run.offset.high
    turns = (low + SECOND) // length * length  # so that it is stated as near to zero as it may be
    yield Measure("window phase", 1, low - turns, high - turns, count=len(joined.low))


# Retries


def _retry_delays(history: History, options: Options) -> Iterator[Measure]:
    """The range of each retry delay, from the failure of the attempt before (S90, U67)."""
    if not history.run.rate:
        return
    gaps: dict[int, list[tuple[Micros, Micros, str]]] = defaultdict(list)
    for earlier, later in _retries(history.arrived):
        answer = outcome(earlier, options.facts.webhook_timeout)
        if answer.acknowledged is False:
            least = (later.received - answer.at) * history.run.rate
            most = (later.received - earlier.received) * history.run.rate
            gaps[earlier.attempt].append((least, most, later.name))
    for attempt, waits in sorted(gaps.items()):
        least, most = min(low for low, _, _ in waits), max(high for _, high, _ in waits)
        yield Measure(f"retry delay {attempt}", 67, least, most, count=len(waits), exchanges=(waits[0][2],))
    if gaps:
        yield _jitter(gaps, options)


def _jitter(gaps: dict[int, list[tuple[Micros, Micros, str]]], options: Options) -> Measure:
    """By how many percent delays vary: at least what no network explains, at most what was seen."""
    least = most = 0
    for attempt, waits in gaps.items():
        if attempt <= len(options.facts.webhook_delays):
            delay = options.facts.webhook_delays[attempt - 1]
            for low, high, _ in waits:
                nearest = 0 if low <= delay <= high else min(abs(low - delay), abs(high - delay))
                least = max(least, (100 * max(0, nearest - 5 * SECOND)) // delay)
                most = max(most, -(-100 * max(abs(low - delay), abs(high - delay)) // delay))
    return Measure(
        "retry jitter", 67, least, most, unit="percent", count=sum(len(waits) for waits in gaps.values())
    )


def _retries(arrived: Iterable[ReceivedAttempt]) -> Iterator[tuple[ReceivedAttempt, ReceivedAttempt]]:
    """Pairs of attempts with consecutive numbers of one delivery."""
    last: dict[tuple[str, str], ReceivedAttempt] = {}
    for later in arrived:
        before = last.get((later.endpoint, later.event))
        if before is not None and later.attempt == before.attempt + 1:
            yield before, later
        last[later.endpoint, later.event] = later


# Statuses


@dataclass(frozen=True, slots=True)
class Shown:
    """The status of a code or case (U12-U24, U40, U84, U104).

    `seen` counts each status, `example` is the first exchange.
    """

    name: str
    number: str
    default: int
    seen: dict[int, int]
    example: str

    @property
    def status(self) -> int | None:
        """The status, where it was always the same."""
        return next(iter(self.seen)) if len(self.seen) == 1 else None


def statuses(history: History, options: Options) -> Iterator[Shown]:
    """Return the status of each code or case that the trace shows, in the order of the policy."""
    counts: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    examples: dict[str, str] = {}
    jobs: set[str] = set()
    for exchange in history.as_judged():
        name = _case(exchange, jobs)
        if name in Statuses.model_fields:
            counts[name][exchange.status] += 1
            examples.setdefault(name, exchange.id)
    for name, about in Statuses.model_fields.items():
        if name in counts:
            number = (about.description or "").partition(":")[0]
            yield Shown(name, number, options.default_status(name), dict(counts[name]), examples[name])


def _case(exchange: Observation, jobs: set[str]) -> str:
    """Name the code, or the case of a success, that an exchange shows; "" for none."""
    if exchange.lost or exchange.surface != "rest":
        return ""
    if exchange.code:
        return exchange.code
    if exchange.method == "OPTIONS":
        return "preflight"
    operation = OPERATIONS.get(exchange.operation)
    if operation is None or not exchange.ok or exchange.replayed:
        return ""
    if exchange.dry_run and operation.spends:
        return "dry_run"
    if exchange.operation == "jobs.create":
        return _job(exchange, jobs)
    if exchange.operation == "webhooks.test":
        return "test_accepted"
    if operation.method == "DELETE":
        return "deleted"
    return "created" if exchange.operation.endswith(".create") else ""


def _job(exchange: Observation, jobs: set[str]) -> str:
    """A job that an earlier reply named was joined; with an Idempotency-Key it may be a replay instead."""
    job = exchange.data.get("id") if isinstance(exchange.data, dict) else None
    if not isinstance(job, str):
        return ""
    if job not in jobs:
        jobs.add(job)
        return "job_accepted"
    return "" if exchange.idempotency_key is not None else "job_joined"
