"""Whether, and by how much, a share differs between two looks at the same trials."""

import math
from collections.abc import Callable
from statistics import NormalDist

from ranksim.inference.estimate import Estimate
from ranksim.inference.shares import tail


def paired_difference(gained: int, lost: int, of: int, level: float) -> Estimate:
    """Estimate by how much a share differs between two conditions that each of `of` trials is put under.

    `gained` trials hit under the second condition alone, `lost` under the first alone. The score interval
    inverts a test that estimates the nuisance share under each difference asked about, so it has a width
    where no trial was seen to differ: then ±z²/(n + z²), about 3.8/n at 95 %. Trials are independent of each
    other. All None of no trials. Source: T. Tango, "Equivalence test and confidence interval for the
    difference in proportions for the paired-sample design", Statistics in Medicine 17, 1998, pages 891-908.
    """
    if not of:
        return Estimate(None, None, None)
    difference, z = (gained - lost) / of, NormalDist().inv_cdf(0.5 + level / 2)

    def score(delta: float) -> float:
        return _score(gained, lost, of, delta)

    low = _root(lambda delta: score(delta) >= z, -1.0, difference)
    high = _root(lambda delta: score(delta) > -z, difference, 1.0)
    return Estimate(difference, low, high)


def is_gain(gained: int, lost: int, error: float) -> bool:
    """Return whether pairs that differ show, but for `error`, that `gained` of them are no luck.

    Were it luck each would be gained or lost with the same chance; pairs that agree say nothing. Exact, of
    independent pairs. Source: Q. McNemar, "Note on the sampling error of the difference between correlated
    proportions or percentages", Psychometrika 12, 1947, p. 153-157, by the binomial distribution.
    """
    return tail(gained + lost, gained, 0.5, at_most=False) <= error


def fewest_gained(error: float) -> int:
    """Return how many pairs must be gained, and none lost, for `is_gain`."""
    return math.ceil(-math.log2(error))


def _score(gained: int, lost: int, of: int, delta: float) -> float:
    """The score statistic for a true difference `delta`, which falls as `delta` grows."""
    # The likeliest share of `lost` trials under `delta` is the larger root of a quadratic.
    a, b = 2 * of, (2 * of - gained + lost) * delta - gained - lost
    c = -lost * delta * (1 - delta)
    share = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    spread = of * (2 * share + delta * (1 - delta))
    off = gained - lost - of * delta
    if spread <= 0:
        return 0.0 if off == 0 else math.copysign(math.inf, off)
    return off / math.sqrt(spread)


def _root(below: Callable[[float], bool], low: float, high: float) -> float:
    """The point between `low` and `high` at which a condition stops to hold, by halving."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return high
