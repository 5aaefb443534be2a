"""A share or a chance, from a count of independent trials."""

import math
from collections.abc import Callable
from functools import cache
from statistics import NormalDist

from ranksim.inference.estimate import Estimate


def wilson(hits: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Return the Wilson interval of a share at a confidence level (E. B. Wilson, JASA 22, 1927)."""
    share, z = hits / trials, NormalDist().inv_cdf(0.5 + level / 2)
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return max(0.0, middle - half), min(1.0, middle + half)


def chance(events: int, of: int, level: float) -> Estimate:
    """Estimate a chance from a count of independent trials, with the exact interval.

    Source: C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits", Biometrika 26, 1934.
    """
    if not of:
        return Estimate(None, None, None)
    error = (1 - level) / 2
    low = 0.0 if events == 0 else _solved(lambda p: tail(of, events, p, at_most=False) > error)
    high = 1.0 if events == of else _solved(lambda p: tail(of, events, p, at_most=True) <= error)
    return Estimate(events / of, low, high)


def tail(n: int, k: int, p: float, *, at_most: bool) -> float:
    """The chance of at most (or at least) `k` successes in `n` trials that each succeed with chance `p`."""
    first, last = (0, k) if at_most else (k, n)
    if last - first > n // 2:  # the other side has fewer terms
        return 1.0 - tail(n, last + 1 if at_most else first - 1, p, at_most=not at_most)
    return math.fsum(_mass(n, i, p) for i in range(first, last + 1))


def _mass(n: int, k: int, p: float) -> float:
    if p <= 0 or p >= 1:
        return float(k == (0 if p <= 0 else n))
    return math.exp(_log_choose(n, k) + k * math.log(p) + (n - k) * math.log1p(-p))


@cache
def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _solved(is_above: Callable[[float], bool]) -> float:
    """The chance at which a condition becomes true, by halving [0, 1]."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return high
