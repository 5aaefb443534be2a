"""A quantile of independent values."""

import math
from collections.abc import Sequence

from ranksim.inference.estimate import Estimate
from ranksim.inference.shares import tail


def quantile(values: Sequence[float], q: float, level: float) -> Estimate:
    """Estimate a quantile of independent values, with the interval that order statistics give.

    The interval assumes nothing of the distribution; its ends are None where there are too few values for
    them. Source: H. A. David and H. N. Nagaraja, "Order Statistics", 3rd edition, 7.1.
    """
    ordered = sorted(values)
    n, error = len(ordered), (1 - level) / 2
    if not n:
        return Estimate(None, None, None)
    below = max((k for k in range(n) if tail(n, k, q, at_most=True) <= error), default=None)
    above = min((k for k in range(n) if tail(n, k + 1, q, at_most=False) <= error), default=None)
    return Estimate(
        ordered[max(0, math.ceil(q * n) - 1)],
        None if below is None else ordered[below],
        None if above is None else ordered[above],
    )
