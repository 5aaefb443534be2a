"""By how much B is more than A as a share of A, of pairs on common random numbers.

A ratio of two means moves with both, so its interval is not that of the difference over a mean that is taken
for sure: of each replication counts how far B lies above the ratio times A (W. G. Cochran, "Sampling
Techniques", 3rd edition, 1977, 6.4, the linearised ratio; the delta method). It assumes independent pairs,
and a mean of A that is several times its standard error.
"""

from itertools import repeat
from statistics import fmean

from ranksim.inference.estimate import LEVEL, Estimate
from ranksim.inference.kinds import MetricSample, interval


def relative_change(b: MetricSample, a: MetricSample, level: float = LEVEL) -> Estimate:
    """Return B / A − 1 with its interval; None where there is nothing, or A is 0 on average."""
    pairs = [
        (value * of, of, other * other_of, other_of)
        for value, of, other, other_of in zip(
            b.values, b.trials or repeat(1.0), a.values, a.trials or repeat(1.0), strict=False
        )
        if value is not None and other is not None and of and other_of
    ]
    sums = [fmean(column) for column in zip(*pairs, strict=True)]
    if not pairs or not sums[2]:
        return Estimate(None, None, None)
    mean, other_mean = sums[0] / sums[1], sums[2] / sums[3]
    ratio = mean / other_mean
    above = [
        (hits - mean * of) / (sums[1] * other_mean) - ratio * (others - other_mean * other_of) / sums[2]
        for hits, of, others, other_of in pairs
    ]
    _, low, high = interval(MetricSample("mean", above), level)
    change = ratio - 1
    return Estimate(change, None if low is None else change + low, None if high is None else change + high)
