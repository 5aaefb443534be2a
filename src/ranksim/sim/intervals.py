"""Confidence intervals, warm-up and stopping rules, without SciPy.

Replications are independent, so the mean of one number from each has a Student-t interval. Within one long
run neighbours are dependent: `batch_means` and `mser5` are for that.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
"""The confidence level of every interval that does not say otherwise."""

BATCH = 5
"""Observations that MSER-5 averages before it looks."""


class Estimate(NamedTuple):
    """A mean and its confidence interval; all None of nothing, no interval from one value."""

    mean: float | None
    low: float | None
    high: float | None


def estimate(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """Return the mean of independent values and its Student-t interval at `level`."""
    if not values:
        return Estimate(None, None, None)
    mean = fmean(values)
    if len(values) < 2:
        return Estimate(mean, None, None)
    half = half_width(values, level)
    return Estimate(mean, mean - half, mean + half)


def half_width(values: Sequence[float], level: float = LEVEL) -> float:
    """Return half the width of the Student-t interval of the mean of two or more independent values."""
    if len(values) < 2:
        return math.inf
    return student_t(0.5 + level / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))


def relative_half_width(values: Sequence[float], level: float = LEVEL) -> float:
    """Return the half width as a share of the mean: 0 when all values agree, inf from one value or mean 0."""
    half = half_width(values, level)
    if half == 0:
        return 0.0
    mean = abs(fmean(values)) if values else 0.0
    return half / mean if mean else math.inf


def is_precise(values: Sequence[float], relative: float, level: float = LEVEL) -> bool:
    """Return whether the mean is known to within a share `relative` of itself: the rule to stop by.

    Asked after each replication, as in the sequential procedure of A. M. Law and W. D. Kelton, "Simulation
    Modeling and Analysis", chapter 9: the half width may be at most relative / (1 + relative) of the
    mean, so that the error is at most `relative` of the true mean.
    """
    return relative_half_width(values, level) <= relative / (1 + relative)


@lru_cache(maxsize=4096)
def student_t(p: float, freedom: int) -> float:
    """Return the quantile of Student's t at `p` in (0, 1) with a whole number of degrees of freedom >= 1.

    The distribution has a finite series for whole degrees of freedom; it is inverted by halving the angle.
    Raises ValueError outside these ranges. Source: M. Abramowitz and I. A. Stegun, "Handbook of Mathematical
    Functions", 26.7.3 and 26.7.4.
    """
    if not 0 < p < 1 or freedom < 1:
        raise ValueError(f"no quantile of Student's t at {p} with {freedom} degrees of freedom")
    if p < 0.5:
        return -student_t(1 - p, freedom)
    low, high = 0.0, math.pi / 2
    for _ in range(64):
        angle = (low + high) / 2
        if _within(angle, freedom) < 2 * p - 1:
            low = angle
        else:
            high = angle
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """The probability that |T| is at most sqrt(freedom) * tan(angle)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def mser5(series: Sequence[float]) -> int:
    """Return how many observations to drop from the start of a run, by MSER-5.

    Averages of five are truncated where the standard error of the rest, taken as a plain mean, is smallest;
    no more than half is dropped. 0 for fewer than ten observations. Sources: K. P. White, "An effective
    truncation heuristic for bias reduction in simulation output", Simulation 69(6), 1997; K. P. White,
    M. J. Cobb and S. C. Spratt, "A comparison of five steady-state truncation heuristics", WSC 2000.
    """
    batches = len(series) // BATCH
    if batches < 2:
        return 0
    means = np.asarray(series[: batches * BATCH], dtype=np.float64).reshape(batches, BATCH).mean(axis=1)
    errors = [float(means[cut:].var()) / (batches - cut) for cut in range(batches // 2 + 1)]
    return errors.index(min(errors)) * BATCH


def batch_means(series: Sequence[float], batches: int = 20, level: float = LEVEL) -> Estimate:
    """Estimate the mean of one long run of dependent observations from the means of equal batches.

    The oldest observations that do not fill the batches are left out. Raises ValueError for fewer than two
    batches, or fewer observations than batches. Source: L. Schmeiser, "Batch size effects in the analysis of
    simulation output", Operations Research 30(3), 1982.
    """
    size = len(series) // batches if batches >= 2 else 0
    if size < 1:
        raise ValueError(f"{len(series)} observations do not fill {batches} batches; give at least two")
    rows = np.asarray(series[-size * batches :], dtype=np.float64).reshape(batches, size)
    return estimate([float(mean) for mean in rows.mean(axis=1)], level)
