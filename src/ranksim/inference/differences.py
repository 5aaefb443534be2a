"""Comparison of two points, replication by replication, on common random numbers.

Of amounts and durations, the interval of a mean (`means`) of the differences of pairs, which are independent
even where their sides are not (A. M. Law, "Simulation Modeling and Analysis", ch. 10, paired t).
Differences of counts and of shares are rare where two inputs are nearly alike, and pairs then agree by luck:
how much more often A than B, and B than A, are two counts, each with its interval (`counts`), and the
difference combines them by how they vary together. Of few pairs that all differ a mean's interval can reach
farther; on each side the farther end is given.
Sources: R. G. Newcombe, "Improved confidence intervals for the difference between binomial proportions based
on paired data", Statistics in Medicine 17, 1998, p. 2635-2650 (method 10); G. Y. Zou and A. Donner,
"Construction of confidence limits about effect measures", Statistics in Medicine 27, 2008, p. 1693-1702.

No end lies beyond what the intervals of both sides leave possible, which end at 0, and of shares at 1: one
that cannot be is moved to one that can.

All assume independent pairs. A difference that is the same in every pair, and not 0, has no interval, be it
of counts or of money: by how much other pairs would differ is not in the data. Counts that are equal in every
pair are taken to differ, if ever, by one at a time, and amounts that are have no interval.

Whether A and B surely differ is decided by `compared` alone. They do, if by more than 0, where nothing is
drawn; by the same in every pair of two or more, which is a fact of these; where the interval excludes 0; and
where so many pairs all differ the same way as chance would lead to in at most 1 - level of cases: 6 at 95 %.
Source of this sign test: W. J. Dixon and A. M. Mood, "The statistical sign test", Journal of the American
Statistical Association 41, 1946, p. 557-566.
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

    `agreeing` is in how many pairs the difference has its sign, and `sure` whether the two surely
    differ. Numbers of nothing are None; see `gains` for what a gain is, None where differences do not vary.
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
    agreeing: int
    sure: bool


def compared(b: MetricSample, a: MetricSample, level: float = LEVEL) -> PairedDifference:
    """Compare a metric of B with A's; replications where either has no value are left out."""
    drawn = b.drawn or a.drawn
    if not drawn:
        b, a = b.first(), a.first()
    b, a = _paired(b, a)
    if not b.values:
        return PairedDifference(None, None, None, None, None, None, None, None, 0, 0, False)
    values, others = b.observed, a.observed
    pairs = [value - other for value, other in zip(values, others, strict=True)]
    if b.kind == "share" and b.trials is not None and a.trials is not None:
        difference = _shares(*b.hits, *a.hits, level)
    else:
        of_pairs = MetricSample("mean", pairs)
        difference = excess(pairs, level) if b.kind == "count" else interval(of_pairs, level)
    of_b, of_a = interval(b, level), interval(a, level)
    apart = _possible(difference, of_b, of_a)
    agreeing = sum(pair * (apart.mean or 0.0) > 0 for pair in pairs)
    return PairedDifference(
        *(of_a.mean, of_b.mean, *apart, *estimate_gain(values, others, level), len(pairs), agreeing),
        bool(apart.mean) and (not drawn or _is_no_chance(apart, len(pairs), agreeing, level)),
    )


def _is_no_chance(difference: Estimate, pairs: int, agreeing: int, level: float) -> bool:
    """Whether a drawn difference is no chance; of two pairs or more only equal ones have no interval."""
    if difference.low is None or difference.high is None:
        return pairs > 1
    apart = not difference.low <= 0 <= difference.high
    return apart or (agreeing == pairs and 2.0 ** (1 - pairs) <= 1 - level)


def _possible(difference: Estimate, b: Estimate, a: Estimate) -> Estimate:
    """A difference without what the intervals of both sides leave no room for."""
    mean, low, high = difference
    if low is None or high is None or math.isclose(low, high):  # the same in all pairs, but for rounding
        return Estimate(mean, None, None)
    (b_low, b_high), (a_low, a_high) = _ends(b), _ends(a)
    return Estimate(mean, max(low, b_low - a_high), min(high, b_high - a_low))


def _ends(of: Estimate) -> tuple[float, float]:
    """The ends of an interval, or its mean twice where there are none."""
    mean = of.mean or 0.0
    return mean if of.low is None else of.low, mean if of.high is None else of.high


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
) -> Estimate:
    """Estimate the difference of the shares of all trials.

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
        return Estimate(share - other_share, None, None)
    return Estimate(share - other_share, low / size, high / size)


def excess(differences: Sequence[float], level: float = LEVEL) -> Estimate:
    """Estimate the mean difference of two counts from those of pairs; no interval if all are one, but 0."""
    more, less = [max(0.0, d) for d in differences], [max(0.0, -d) for d in differences]
    above, below = scaled_poisson(more, level), scaled_poisson(less, level)
    usual = estimate(differences, level)
    if usual.mean is None or usual.low is None:
        return usual
    mean = usual.mean
    if mean and usual.low == usual.high:
        return Estimate(mean, None, None)
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
