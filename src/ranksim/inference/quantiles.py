"""Quantiles: of independent values, and of all that many replications observed.

Three things are called the 95th percentile of waits over replications, and differ:

- the quantile of a metric *over replications* (`quantile`): what one replication in twenty exceeds. Its
  values are independent, and the interval is exact;
- a replication's quantile *on average* (`means.estimate` of the replications' quantiles): what a run like
  these shows in the mean. Of short runs it lies off the quantile of all waits, by design and not by chance,
  however many there are;
- the quantile *of all waits* of such runs (`pooled`): what one wait in twenty exceeds. In runs that leave
  out their warm-up it is the quantile in the long run.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from ranksim.inference.estimate import LEVEL, Estimate
from ranksim.inference.means import estimate
from ranksim.inference.shares import tail

Counted = Sequence[tuple[float, int]]
"""What one replication observed: values in ascending order, each with how often it was seen."""


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
    below = max((k for k in range(n) if tail(n, k, q, at_most=True) <= error), default=None)
    above = min((k for k in range(n) if tail(n, k + 1, q, at_most=False) <= error), default=None)
    return Estimate(
        ordered[rank_of(q, n) - 1],
        None if below is None else ordered[below],
        None if above is None else ordered[above],
    )


def pooled(runs: Sequence[Counted], q: float, level: float = LEVEL) -> Estimate:
    """Estimate a quantile of all values of independent replications, whose own values depend on each other.

    A value can be the quantile unless replications show that more, or fewer, than a share `q` of all lie at
    or below it: by how many they do is a number of each replication, whose mean is 0 at the quantile, and
    has the interval of a mean (`means`). Nothing is assumed of the dependence within a replication, or of
    the distribution. An end is None where even independent values would be too few for it; both are with a
    single replication. Sources: R. S. Woodruff, "Confidence intervals for medians and other position
    measures", JASA 47, 1952 (the interval of the share, turned); S. Asmussen and P. W. Glynn, "Stochastic
    Simulation", 2007, III.4, and M. K. Nakayama, "Confidence intervals for quantiles using sectioning when
    applying variance-reduction techniques", ACM TOMACS 24(4), 2014 (replications as sections; of skewed
    waits sectioning covers less than this). It fails where fewer than about ten replications show the tail,
    as p99 of runs with a hundred waits.
    """
    runs = [run for run in runs if run]
    values = [[value for value, _ in run] for run in runs]
    ranks = [[0, *accumulate(times for _, times in run)] for run in runs]
    places = sorted({value for run in values for value in run})
    whole, error = sum(rank[-1] for rank in ranks), (1 - level) / 2
    if not whole:
        return Estimate(None, None, None)

    def below(place: float) -> list[int]:
        return [rank[bisect_right(value, place)] for value, rank in zip(values, ranks, strict=True)]

    def excess(place: float) -> Estimate:
        return estimate([b - q * rank[-1] for b, rank in zip(below(place), ranks, strict=True)], level)

    def first(holds: Callable[[float], bool]) -> float | None:
        index = bisect_left(places, True, key=holds)
        return places[index] if index < len(places) else None

    value = first(lambda place: sum(below(place)) >= rank_of(q, whole))
    if len(runs) < 2:
        return Estimate(value, None, None)
    low = first(lambda place: (excess(place).high or 0.0) >= 0)
    high = first(lambda place: (excess(place).low or 0.0) > 0)
    return Estimate(value, low if (1 - q) ** whole <= error else None, high if q**whole <= error else None)
