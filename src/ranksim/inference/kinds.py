"""What a metric is tells which interval its mean over replications has: the choice, once.

| kind | what | interval |
|---|---|---|
| count | how often, or how many: whole numbers from 0 | `counts.counted` |
| share | of trials that were counted: calls, jobs; customers | `shares.clustered`; `shares.chance` |
| fraction | of a time or an amount, in [0, 1] | as a mean, cut to [0, 1] |
| amount | an amount or a duration, from 0: money paid, waits, over time | `means.estimate`, cut at 0 |
| quantile | a quantile, or an extreme, of the durations of each replication | the same of these |
| mean | what may be below 0: margins, differences; instants | `means.estimate` |

A count over a time that is the same in every replication is a rate but for a factor, and has the interval of
a count. Counts and shares that all agree still have an interval of some width (`counts`, `shares`). An amount
that is the same in every replication has none: how much another replication could differ is not in the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from ranksim.inference.counts import counted
from ranksim.inference.estimate import LEVEL, Estimate
from ranksim.inference.means import estimate
from ranksim.inference.shares import chance, clustered

Kind = Literal["count", "share", "fraction", "amount", "quantile", "mean"]


class MetricSample(NamedTuple):
    """A metric of each replication, None where nothing was observed.

    `trials` is of how many each value of a share is the share, and `independent` whether these have nothing
    to do with each other even within a replication, as the customers of a fleet. Where nothing is `drawn` one
    replication tells all, and no number has an interval.
    """

    kind: Kind
    values: Sequence[float | None]
    trials: Sequence[float | None] | None = None
    independent: bool = False
    drawn: bool = True

    def first(self) -> MetricSample:
        """The first replication alone."""
        return self._replace(values=self.values[:1], trials=None if self.trials is None else self.trials[:1])

    @property
    def observed(self) -> list[float]:
        """The values that there are."""
        return [value for value in self.values if value is not None]

    @property
    def hits(self) -> tuple[list[float], list[float]]:
        """How many trials of a share hit, and how many there were, of each replication that has trials."""
        pairs = [
            (value, of)
            for value, of in zip(self.values, self.trials or (), strict=True)
            if value is not None and of
        ]
        # Where both are whole, so is their product, which a share kept as a float blurs.
        return [_rounded(value * of) for value, of in pairs], [of for _, of in pairs]


def interval(sample: MetricSample, level: float = LEVEL) -> Estimate:
    """Estimate the mean of a metric over replications by its kind; a share is that of all trials together."""
    if not sample.drawn:
        sample = sample.first()
    if sample.kind == "share" and sample.trials is not None:
        hits, trials = sample.hits
        return chance(sum(hits), sum(trials), level) if sample.independent else clustered(hits, trials, level)
    values = sample.observed
    if sample.kind == "count":
        return counted(values, level)
    estimated = estimate(values, level)
    if estimated.low == estimated.high:
        return Estimate(estimated.mean, None, None)
    if sample.kind == "mean" or estimated.low is None or estimated.high is None:
        return estimated
    # An end that cannot be is moved to one that can: that costs no coverage.
    most = 1.0 if sample.kind in ("share", "fraction") else math.inf
    return Estimate(estimated.mean, max(0.0, estimated.low), min(most, estimated.high))


def _rounded(number: float) -> float:
    return float(round(number)) if abs(number - round(number)) < 1e-6 else number
