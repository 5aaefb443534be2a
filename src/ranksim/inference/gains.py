"""How much comparing on common random numbers gains: by what it divides the variance of a difference.

The gain is (var A + var B) / var D, with D = A − B, and so at least 1/2: so many times more replications that
are independent would give the same interval. Its interval is the wider, end by end, of two:

- exact where pairs are normal: with S = A + B the gain is (1 + var S / var D) / 2, as var S + var D is twice
  var A + var B, and the ratio of two variances that are correlated has an exact interval (E. J. G. Pitman, "A
  note on normal correlation", Biometrika 31, 1939, p. 9-12; W. A. Morgan, the same volume, p. 13-19);
- whatever the distribution, where pairs are many: the jackknife of the gain's logarithm with Student's t
  (R. G. Miller, "The jackknife: a review", Biometrika 61, 1974, section 3).

It assumes independent pairs. Of pairs that are much skewed, as mean waits or log-normal ones, it covers less
than it says: a 95 % interval 82 to 94 %. Where a single pair makes all that differs, nothing tells how far
the gain may be off.
"""

import math
from collections.abc import Sequence
from statistics import correlation, fmean, variance

from ranksim.inference.distributions import student_t
from ranksim.inference.estimate import LEVEL, Estimate

CANCELLED = 1e-6
"""What is left of a sum by subtraction, as a share of it, is not exact where it is less than this."""

ROUNDING = 1e-12
"""Differences that vary by less than this share of what they are taken of do so by rounding."""


def estimate_gain(first: Sequence[float], second: Sequence[float], level: float = LEVEL) -> Estimate:
    """Estimate the gain from pairs; all None where their differences do not vary but by rounding.

    There is no interval below three pairs, and where one pair alone makes the differences vary.
    """
    sums = [a + b for a, b in zip(first, second, strict=True)]
    differences = [a - b for a, b in zip(first, second, strict=True)]
    count = len(differences)
    if count < 2 or max(differences) - min(differences) <= ROUNDING * max(map(abs, (*first, *second))):
        return Estimate(None, None, None)
    below = variance(differences)
    value = (variance(first) + variance(second)) / below
    if count < 3 or not variance(sums) or (spread := _jackknife(first, second, differences, level)) is None:
        return Estimate(value, None, None)
    ratio = variance(sums) / below
    factor = _pitman(correlation(sums, differences), count, level)
    low, high = (1 + ratio / factor) / 2, (1 + ratio * factor) / 2
    return Estimate(value, max(0.5, min(low, value / spread)), max(high, value * spread))


def _pitman(shared: float, count: int, level: float) -> float:
    """By what the ratio of two normal variances, whose numbers are so correlated, may be off."""
    t = student_t(0.5 + level / 2, count - 2)
    middle = 1 + 2 * max(0.0, 1 - shared**2) * t * t / (count - 2)
    return middle + math.sqrt(middle**2 - 1)


def _jackknife(
    first: Sequence[float], second: Sequence[float], differences: Sequence[float], level: float
) -> float | None:
    """By what the gain may be off, whatever the distribution; None where a single pair makes all of it."""
    ones, twos, belows = (_without_each(values) for values in (first, second, differences))
    if min(belows) <= 0:
        return None
    logs = [math.log((a + b) / below) for a, b, below in zip(ones, twos, belows, strict=True)]
    count, middle = len(logs), fmean(logs)
    error = math.sqrt(math.fsum((log - middle) ** 2 for log in logs) * (count - 1) / count)
    return math.exp(min(700.0, student_t(0.5 + level / 2, count - 1) * error))


def _without_each(values: Sequence[float]) -> list[float]:
    """The variance of three values or more without each of them in turn."""
    count, mean = len(values), fmean(values)
    squares = [(value - mean) ** 2 for value in values]
    total = math.fsum(squares)
    if not total:
        return [0.0] * count
    left = [total - square * count / (count - 1) for square in squares]
    # Where one value makes nearly all of it, a difference does not tell what is left.
    return [
        rest / (count - 2) if rest > CANCELLED * total else variance([*values[:at], *values[at + 1 :]])
        for at, rest in enumerate(left)
    ]
