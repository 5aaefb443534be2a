"""Student's t of a mean whose values are skewed, as waits and money are.

The cubic transformation of P. Hall, "On the removal of skewness by transformation", Journal of the Royal
Statistical Society B 54(1), 1992, and its inverse. It is increasing, as that of N. J. Johnson (JASA 73,
1978) is not. It corrects for the skewness that is seen; what is so rare that it was not drawn cannot be
corrected for.
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

AGREE = 1e-9
"""Values whose spread is a smaller share of their size than this are taken to agree, but for rounding."""

NEGLIGIBLE = 1e-6
"""A coefficient of the transformation below which it moves nothing by as much as can be told."""


def agree(values: Sequence[float]) -> bool:
    """Return whether values are the same but for rounding."""
    return max(values) - min(values) <= AGREE * max(abs(value) for value in values)


def corrected_t(values: Sequence[float], at: float) -> float:
    """Return the t statistic of independent values, not all of which agree, against a mean `at`, unskewed."""
    n, mean, spread = len(values), fmean(values), stdev(values)
    skewness = fmean(((value - mean) / spread) ** 3 for value in values)
    return unskewed(math.sqrt(n) * (mean - at) / spread, skewness / (6 * math.sqrt(n)))


def unskewed(t: float, a: float) -> float:
    """Return what of a t statistic is left without the skewness of n values, which is 6a√n."""
    return t + 2 * a * t**2 + 4 * a**2 * t**3 / 3 + a


def skewed(x: float, a: float) -> float:
    """Return the t statistic of which `unskewed` makes x."""
    if abs(a) < NEGLIGIBLE:
        return x
    return (math.cbrt(1 + 6 * a * (x - a)) - 1) / (2 * a)
