"""Student's t of a mean whose values are skewed, as waits and money are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

AGREE = 1e-9
"""Values whose spread is a smaller share of their size than this are taken to agree, but for rounding."""


def agree(values: Sequence[float]) -> bool:
    """Return whether values are the same but for rounding."""
    return max(values) - min(values) <= AGREE * max(abs(value) for value in values)


def corrected_t(values: Sequence[float], at: float) -> float:
    """Return the t statistic of independent values against a mean `at`, freed of what skewness does to it.

    The cubic transformation of P. Hall, "On the removal of skewness by transformation", Journal of the Royal
    Statistical Society B 54(1), 1992, which is increasing, as that of N. J. Johnson (JASA 73, 1978) is not.
    Values must not all agree. It corrects for the skewness that is seen; what is so rare that
    it was not drawn cannot be corrected for.
    """
    n, mean, spread = len(values), fmean(values), stdev(values)
    t = math.sqrt(n) * (mean - at) / spread
    lean = fmean(((value - mean) / spread) ** 3 for value in values) / math.sqrt(n)
    return t + lean * t**2 / 3 + lean**2 * t**3 / 27 + lean / 6
