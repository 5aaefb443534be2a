"""Quantiles of independent values, such as a metric's over replications, or margins of a fleet's customers.

Two things are called the 95th percentile of waits over replications, and differ:

- the quantile of a metric *over replications* (`quantile`): what one replication in twenty exceeds. Its
  values are independent, and the interval is exact;
- a replication's quantile *on average* (`means.estimate` of the replications' quantiles): what a run like
  these shows in the mean. Of short runs it lies off the quantile in the long run, by design and not by
  chance, however many there are.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from ranksim.inference.estimate import Estimate
from ranksim.inference.shares import tail


def rank_of(q: float, count: int) -> int:
    """Return which of `count` > 0 values in ascending order is the quantile at `q`, counted from 1.

    It is the least that a share `q` of all do not exceed. A product that is whole but for rounding is whole.
    """
    return max(1, math.ceil(round(q * count, 6)))


def quantile(values: Sequence[float], q: float, level: float) -> Estimate:
    """Estimate a quantile of independent values, with the interval that order statistics give.

    The interval assumes nothing of the distribution; its ends are None where there are too few values for
    them. Source: H. A. David and H. N. Nagaraja, "Order Statistics", 3rd edition, 7.1.
    """
    ordered = sorted(values)
    n, error = len(ordered), (1 - level) / 2
    if not n:
        return Estimate(None, None, None)
    below = bisect_right(range(n), error, key=lambda k: tail(n, k, q, at_most=True)) - 1
    above = bisect_left(range(n), -error, key=lambda k: -tail(n, k + 1, q, at_most=False))
    return Estimate(
        ordered[rank_of(q, n) - 1],
        None if below < 0 else ordered[below],
        None if above == n else ordered[above],
    )
