"""The interval of a share."""

import math
from statistics import NormalDist


def wilson(hits: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Return the Wilson interval of a share at a confidence level (E. B. Wilson, JASA 22, 1927)."""
    share, z = hits / trials, NormalDist().inv_cdf(0.5 + level / 2)
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return max(0.0, middle - half), min(1.0, middle + half)
