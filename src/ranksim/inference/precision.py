"""When a mean is known well enough: the rule to stop by.

After a first stage one looks again and again, and stops as soon as the interval is narrow enough: the
sequential procedure of Y. S. Chow and H. Robbins, "On the asymptotic theory of fixed-width sequential
confidence intervals for the mean", Annals of Mathematical Statistics 36, 1965, in the relative form of A. M.
Law and W. D. Kelton, "Simulation Modeling and Analysis", chapter 9. One stops where the spread happens to
look small, so that the interval holds the mean less often than it says; the shorter the first stage, the
less. Of mean waits of M/M/2 and M/M/1 (skewness 2) it held it, of 95 %, in 86 to 88 % of cases after a first
stage of 2, in 91 to 93 % after 10, in 93 to 94 % after 20 and in 93 to 96 % after 30.
"""

import math

from ranksim.inference.estimate import LEVEL
from ranksim.inference.kinds import MetricSample, interval

FIRST_STAGE = 30
"""How many replications there are before precision is asked for."""


def relative_half_width(sample: MetricSample, level: float = LEVEL) -> float:
    """Return how far the farther end of a metric's interval lies from its mean, as a share of the mean.

    inf from one value, or of a mean of 0; 0 of an amount that never varies.
    """
    mean, low, high = interval(sample, level)
    if not mean:
        return math.inf
    if low is None or high is None:
        return 0.0 if len(sample.observed) > 1 else math.inf
    return max(mean - low, high - mean) / abs(mean)


def is_precise(sample: MetricSample, relative: float, level: float = LEVEL) -> bool:
    """Return whether a metric is known to within a share `relative` of itself: the rule to stop by.

    Of what is not drawn at once, of all else from `FIRST_STAGE` values on: the half width may be at most
    relative / (1 + relative) of the mean, so that the error is at most `relative` of the true mean. What has
    always been 0 is never known so.
    """
    if not sample.drawn:
        return bool(sample.observed)
    enough = len(sample.observed) >= FIRST_STAGE
    return enough and relative_half_width(sample, level) <= relative / (1 + relative)
