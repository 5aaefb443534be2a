"""How long jobs take: observations that polling censors, and the lognormal distribution that fits them best.

Durations are from acceptance, in the deployment's time: what a catalogue calls job durations when no worker
is short.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import NormalDist

from ranksim.core.clock import DISTANT_FUTURE, Micros
from ranksim.core.contract.quantities import Distribution
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.job_lives import Span, lives

FEWEST = 5
"""Jobs of a kind from which on a distribution is fitted."""

WIDEST = 4
"""How many times the least median the largest may be: where polls show less, many distributions fit."""

NORMAL = NormalDist()


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
