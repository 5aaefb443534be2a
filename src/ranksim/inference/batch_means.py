"""Differences of the means of two series in time, whose neighbouring values resemble each other.

Each series is cut into equal batches; their means are nearly independent where a batch is long against how
far values remember each other. What the batches still show of it (the correlation of neighbours, if positive)
widens the interval, as it does the variance of a mean of an autoregressive series of first order. Sources:
A. M. Law and W. D. Kelton, "Simulation Modeling and Analysis", batch means; B. L. Welch, "The generalization
of 'Student's' problem when several different population variances are involved", Biometrika 34, 1947.

Assumes each series steady. It says nothing of what moves both, such as a machine that was busier in one.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, variance

from ranksim.inference.distributions import student_t
from ranksim.inference.estimate import LEVEL, Estimate

BATCHES = 20
"""Batches of a series: more would be too short, fewer say too little of how they vary."""

LEAST = 5
"""Values that a batch has at least."""


def mean_difference(
    first: Sequence[float], second: Sequence[float], level: float = LEVEL, least: int = LEAST
) -> Estimate:
    """Return the mean of the second series less that of the first, with its interval at `level`.

    A batch has at least so many values: 1 will do where none depends on its neighbours. There is no interval
    where a series has too few values for two batches, and no mean where it has none.
    """
    if not first or not second:
        return Estimate(None, None, None)
    difference = fmean(second) - fmean(first)
    sides = [_batches(series, least) for series in (first, second)]
    if any(len(means) < 2 for means in sides):
        return Estimate(difference, None, None)
    errors = [_squared_error(means) for means in sides]
    squared = sum(errors)
    if not squared:
        return Estimate(difference, difference, difference)
    freedom = squared**2 / sum(
        error**2 / (len(means) - 1) for error, means in zip(errors, sides, strict=True)
    )
    reach = student_t(0.5 + level / 2, math.floor(freedom)) * math.sqrt(squared)
    return Estimate(difference, difference - reach, difference + reach)


def _batches(series: Sequence[float], least: int) -> list[float]:
    """Return the means of equal batches; what is left over at the start belongs to none."""
    count = min(BATCHES, len(series) // least)
    if not count:
        return []
    size = len(series) // count
    start = len(series) - size * count
    return [fmean(series[start + size * batch : start + size * (batch + 1)]) for batch in range(count)]


def _squared_error(means: Sequence[float]) -> float:
    """Return the variance of the mean of all batches."""
    mean, spread = fmean(means), variance(means)
    if not spread:
        return 0.0
    together = sum((a - mean) * (b - mean) for a, b in pairwise(means))
    memory = min(max(together / ((len(means) - 1) * spread), 0.0), 0.9)
    return spread / len(means) * (1 + memory) / (1 - memory)
