"""Student's t, without SciPy."""

import math
from functools import lru_cache


@lru_cache(maxsize=4096)
def student_t(p: float, freedom: int) -> float:
    """Return the quantile of Student's t at `p` in (0, 1) with a whole number of degrees of freedom >= 1.

    The distribution has a finite series for whole degrees of freedom; it is inverted by halving the angle.
    Raises ValueError outside these ranges. Source: M. Abramowitz and I. A. Stegun, "Handbook of Mathematical
    Functions", 26.7.3 and 26.7.4.
    """
    if not 0 < p < 1 or freedom < 1:
        raise ValueError(f"no quantile of Student's t at {p} with {freedom} degrees of freedom")
    if p < 0.5:
        return -student_t(1 - p, freedom)
    low, high = 0.0, math.pi / 2
    for _ in range(64):
        angle = (low + high) / 2
        if _within(angle, freedom) < 2 * p - 1:
            low = angle
        else:
            high = angle
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """The probability that |T| is at most sqrt(freedom) * tan(angle)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
