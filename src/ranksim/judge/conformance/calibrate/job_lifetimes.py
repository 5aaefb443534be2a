"""How long jobs take: observations that polling censors, and the lognormal distribution that fits them best.

A job that one poll saw unfinished and the next one finished ended between the two. Where replies tell
`finished_at` and the deployment's clock is known, the end lies in a narrower interval. Durations are from
acceptance, in the deployment's time: what a catalogue calls job durations when no worker is short.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, SECOND, Micros
from ranksim.core.contract.quantities import Distribution
from ranksim.judge.conformance.history.fields import instant_or_none
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.observation import Observation, job_name

FEWEST = 5
"""Jobs of a kind from which on a distribution is fitted."""

WIDEST = 4
"""How many times the least median the largest may be: where polls show less, many distributions fit."""

NORMAL = NormalDist()

Span = tuple[Micros, Micros]


@dataclass(slots=True)
class Life:
    """One job: accepted and ended within intervals of the trace's clock; `outcome` is "" until it ended."""

    kind: str
    accepted: Span
    alive: Micros = DISTANT_PAST
    ended: Micros = DISTANT_FUTURE
    finished: Span = (DISTANT_PAST, DISTANT_FUTURE)
    outcome: str = ""
    lasted: Span = (0, DISTANT_FUTURE)
    """How long it took by the deployment's own clock, which needs no offset to the trace's."""

    @property
    def end(self) -> Span:
        """When the job ended, as far as polls show."""
        return max(self.alive, self.finished[0], self.accepted[0]), min(self.ended, self.finished[1])


def job_durations(history: History) -> Iterator[tuple[str, Micros, Micros, int, Distribution | None]]:
    """Return for each kind: bounds of the median duration (µs), how many jobs, a fit where enough."""
    if not history.run.rate:
        return
    by_kind: dict[str, list[Span]] = defaultdict(list)
    for life in lives(history).values():
        low, high = life.end[0] - life.accepted[1], life.end[1] - life.accepted[0]
        if high < DISTANT_FUTURE // 2:
            low, high = max(0, low) * history.run.rate, max(1, high) * history.run.rate
            closer = max(low, life.lasted[0]), min(high, life.lasted[1])
            by_kind[life.kind].append(closer if closer[0] <= closer[1] else (low, high))
    for kind, spans in sorted(by_kind.items()):
        low, high = median_bounds(spans)
        sharp = len(spans) >= FEWEST and high <= WIDEST * low
        yield kind, low, high, len(spans), fit_lognormal(spans) if sharp else None


def lives(history: History) -> dict[str, Life]:
    """Return what is known of each job that was accepted in the trace, by its name."""
    by_name: dict[str, Life] = {}
    for exchange in history.as_judged():
        if exchange.lost or not exchange.ok:
            continue
        if exchange.operation == "jobs.create" and not exchange.dry_run and not exchange.replayed:
            _accept(exchange, by_name)
        elif exchange.operation == "jobs.get" and isinstance(exchange.data, dict):
            _poll(exchange, exchange.data, by_name, history)
        elif exchange.operation == "jobs.list" and isinstance(exchange.items, list):
            for item in exchange.items:
                if isinstance(item, dict):
                    _poll(exchange, item, by_name, history)
    return by_name


def _accept(exchange: Observation, lives: dict[str, Life]) -> None:
    job = exchange.data if isinstance(exchange.data, dict) else {}
    if isinstance(job.get("id"), str):
        life = lives.setdefault(job_name(job), Life(str(job.get("kind")), (exchange.sent, exchange.received)))
        life.accepted = (life.accepted[0], min(life.accepted[1], exchange.received))


def _poll(exchange: Observation, item: dict[str, Any], lives: dict[str, Life], history: History) -> None:
    life = lives.get(job_name(item))
    if life is None:
        return
    finished = instant_or_none(item.get("finished_at"))
    outcome = job_ending(item)
    if not outcome:
        life.alive = max(life.alive, exchange.sent)
    else:
        life.ended, life.outcome = min(life.ended, exchange.received), outcome
        created = instant_or_none(item.get("created_at"))
        if created is not None and finished is not None:
            early, late = (0 if t % SECOND else SECOND for t in (created, finished))
            life.lasted = finished - created - early, max(1, finished - created + late)
        if (
            finished is not None
            and history.run.offset.bounded
            and history.run.rate == 1
            and not history.run.paces
        ):
            slack = 0 if finished % SECOND else SECOND  # written in whole seconds, or by chance
            life.finished = (
                finished - history.run.offset.high - slack,
                finished - history.run.offset.low + slack,
            )


def job_ending(job: Mapping[str, Any]) -> str:
    """Return how a job ended, "done" or "failed", "" while it has not; only `done` is a stated name (U39)."""
    status = str(job.get("status")).lower()
    if status == "done":
        return "done"
    over = status in ("failed", "error") or job.get("error_detail") or job.get("finished_at")
    return "failed" if over else ""


# Statistics


def median_bounds(spans: Sequence[Span]) -> Span:
    """Bounds of the median: order statistics of the ends that hold it in 95 of 100 samples."""
    lows, highs = sorted(low for low, _ in spans), sorted(high for _, high in spans)
    count = len(spans)
    reach = 1.96 * math.sqrt(count) / 2
    first, last = max(0, math.floor(count / 2 - reach)), min(count - 1, math.ceil(count / 2 + reach))
    return lows[first], highs[last]


def fit_lognormal(spans: Sequence[Span]) -> Distribution:
    """Fit a lognormal to censored durations by expectation and maximization."""
    logs = [(math.log(max(1, low)), math.log(max(2, high))) for low, high in spans]
    centres = [(low + high) / 2 for low, high in logs]
    mean = sum(centres) / len(centres)
    sigma = max(0.01, math.sqrt(sum((centre - mean) ** 2 for centre in centres) / len(centres)))
    for _ in range(200):
        moments = [_moments(low, high, mean, sigma) for low, high in logs]
        before = mean, sigma
        mean = sum(first for first, _ in moments) / len(moments)
        variance = sum(second for _, second in moments) / len(moments) - mean**2
        sigma = max(0.001, math.sqrt(max(0.0, variance)))
        if abs(mean - before[0]) + abs(sigma - before[1]) < 1e-7:
            break
    return Distribution(kind="lognormal", durations=(round(math.exp(mean)),), sigma=round(sigma, 3))


def _moments(low: float, high: float, mean: float, sigma: float) -> tuple[float, float]:
    """The first two moments of a normal variable that lies in [low, high]."""
    a, b = (low - mean) / sigma, (high - mean) / sigma
    inside = NORMAL.cdf(b) - NORMAL.cdf(a)
    if inside < 1e-12:  # the whole interval lies in a tail: its end that is nearest
        nearest = low if a > 0 else high
        return nearest, nearest**2
    first = (NORMAL.pdf(a) - NORMAL.pdf(b)) / inside
    second = 1 + (a * NORMAL.pdf(a) - b * NORMAL.pdf(b)) / inside
    value = mean + sigma * first
    return value, mean**2 + 2 * mean * sigma * first + sigma**2 * second
