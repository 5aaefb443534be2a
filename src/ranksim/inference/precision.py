"""When a mean is known well enough: the rule to stop by."""

import math
from collections.abc import Sequence
from statistics import fmean

from ranksim.inference.estimate import LEVEL
from ranksim.inference.means import half_width


def relative_half_width(values: Sequence[float], level: float = LEVEL) -> float:
    """Return the half width as a share of the mean: 0 when all values agree, inf from one value or mean 0."""
    half = half_width(values, level)
    if half == 0:
        return 0.0
    mean = abs(fmean(values)) if values else 0.0
    return half / mean if mean else math.inf


def is_precise(values: Sequence[float], relative: float, level: float = LEVEL) -> bool:
    """Return whether the mean is known to within a share `relative` of itself: the rule to stop by.

    Asked after each replication, as in the sequential procedure of A. M. Law and W. D. Kelton, "Simulation
    Modeling and Analysis", chapter 9: the half width may be at most relative / (1 + relative) of the
    mean, so that the error is at most `relative` of the true mean.
    """
    return relative_half_width(values, level) <= relative / (1 + relative)
