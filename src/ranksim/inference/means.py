"""The mean of independent values, as one number from each replication is."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from ranksim.inference.estimate import LEVEL, Estimate
from ranksim.inference.student import student_t


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
