"""Comparison of two points, replication by replication, on common random numbers.

Of amounts and durations, Student's interval of the differences of pairs (A. M. Law and W. D. Kelton,
"Simulation Modeling and Analysis", the paired-t method). Differences of counts and of shares are rare where
two inputs are nearly alike, and pairs then agree by luck: how much more often A than B, and B than A, are two
counts, each with its interval (`counts`), and the difference combines them by how they vary together. Of few
pairs that all differ a mean's interval can reach farther; on each side the farther end is given.
Sources: R. G. Newcombe, "Improved confidence intervals for the difference between binomial proportions based
on paired data", Statistics in Medicine 17, 1998, p. 2635-2650 (method 10); G. Y. Zou and A. Donner,
"Construction of confidence limits about effect measures", Statistics in Medicine 27, 2008, p. 1693-1702.

All assume independent pairs. Amounts that agree in every pair have no interval, and counts that do are taken
to differ, if ever, by one at a time.
"""

import math
from collections.abc import Sequence
from statistics import StatisticsError, correlation, fmean
from typing import NamedTuple

from ranksim.inference.counts import scaled_poisson
from ranksim.inference.estimate import LEVEL, Estimate, farther
from ranksim.inference.gains import estimate_gain
from ranksim.inference.kinds import MetricSample, interval
from ranksim.inference.means import estimate


class PairedDifference(NamedTuple):
    """B minus A: both means, the difference and the gain with their intervals, and how many pairs.

    All but `pairs` is None of nothing; see `gains` for what a gain is, None where differences do not vary.
    """

    a: float | None
    b: float | None
    difference: float | None
    low: float | None
    high: float | None
    gain: float | None
    gain_low: float | None
    gain_high: float | None
    pairs: int


def compared(b: MetricSample, a: MetricSample, level: float = LEVEL) -> PairedDifference:
    """Compare a metric of B with A's; replications where either has no value are left out."""
    if not b.drawn and not a.drawn:
        b, a = b.first(), a.first()
    b, a = _paired(b, a)
    if not b.values:
        return PairedDifference(None, None, None, None, None, None, None, None, 0)
    values, others = b.observed, a.observed
    won = estimate_gain(values, others, level)
    if b.kind == "share" and b.trials is not None and a.trials is not None:
        (hits, of), (other_hits, other_of) = b.hits, a.hits
        return PairedDifference(*_shares(hits, of, other_hits, other_of, level), *won, len(values))
    pairs = [value - other for value, other in zip(values, others, strict=True)]
    difference = excess(pairs, level) if b.kind == "count" else interval(MetricSample("mean", pairs), level)
    return PairedDifference(fmean(others), fmean(values), *difference, *won, len(values))


def _paired(first: MetricSample, second: MetricSample) -> tuple[MetricSample, MetricSample]:
    """The replications in which both have a value, and trials where it is a share of them."""
    sides = [
        [
            value if of is None or of else None
            for value, of in zip(s.values, s.trials or [None] * len(s.values), strict=True)
        ]
        for s in (first, second)
    ]
    kept = [i for i, (a, b) in enumerate(zip(*sides, strict=False)) if a is not None and b is not None]

    def only(sample: MetricSample) -> MetricSample:
        trials = None if sample.trials is None else [sample.trials[i] for i in kept]
        return MetricSample(sample.kind, [sample.values[i] for i in kept], trials)

    return only(first), only(second)


def _shares(
    hits: Sequence[float],
    of: Sequence[float],
    other_hits: Sequence[float],
    other_of: Sequence[float],
    level: float,
) -> tuple[float, float, float, float | None, float | None]:
    """Both shares of all trials, and their difference with its interval.

    A share of all trials is a ratio of means; what a replication adds to it is what its hits are above the
    share of its trials (W. G. Cochran, "Sampling Techniques", 3rd edition, 1977, 6.4). With as many trials in
    each replication that is its hits.
    """
    share, other_share = math.fsum(hits) / math.fsum(of), math.fsum(other_hits) / math.fsum(other_of)
    size, other_size = fmean(of), fmean(other_of)
    excesses = [
        (hit - share * (trials - size))
        - (other - other_share * (other_trials - other_size)) * size / other_size
        for hit, trials, other, other_trials in zip(hits, of, other_hits, other_of, strict=True)
    ]
    _, low, high = excess(excesses, level)
    if low is None or high is None:
        return other_share, share, share - other_share, None, None
    return other_share, share, share - other_share, max(-1.0, low / size), min(1.0, high / size)


def excess(differences: Sequence[float], level: float = LEVEL) -> Estimate:
    """Estimate the mean difference of two counts from those of pairs."""
    more, less = [max(0.0, d) for d in differences], [max(0.0, -d) for d in differences]
    above, below = scaled_poisson(more, level), scaled_poisson(less, level)
    usual = estimate(differences, level)
    if usual.mean is None or usual.low is None:
        return usual
    mean = usual.mean
    try:
        shared = correlation(more, less)
    except StatisticsError:  # one of the two never varies
        shared = 0.0
    low = _combined(_reach(above, -1), _reach(below, 1), shared)
    high = _combined(_reach(above, 1), _reach(below, -1), shared)
    return farther(Estimate(mean, mean - low, mean + high), usual)


def _reach(difference: Estimate, side: int) -> float:
    """How far an interval lies below (-1) or above (1) what it is about."""
    end = difference.low if side < 0 else difference.high
    return 0.0 if end is None or difference.mean is None else abs(end - difference.mean)


def _combined(first: float, other: float, shared: float) -> float:
    return math.sqrt(max(0.0, first**2 + other**2 - 2 * shared * first * other))
