"""Beta, gamma and Student's t, without SciPy: what exact intervals of shares, counts and means are made of.

The first two are continued fractions or series that settle within a few dozen terms up to shapes of some
thousands; the number of terms grows with the root of the shape. Sources: NIST Digital Library of Mathematical
Functions, 8.17.22 (beta), 8.11.4 and 8.9.2 (gamma); I. J. Thompson and A. R. Barnett, "Coulomb and Bessel
functions of complex arguments and order", Journal of Computational Physics 64, 1986 (the modified Lentz
method).
"""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache

_ENOUGH = 1e-15
_TINY = 1e-300


def beta_below(x: float, a: float, b: float) -> float:
    """The chance that a beta number with shapes `a`, `b` > 0 is at most `x`."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    mass = math.exp(_log_beta_mass(x, a, b))
    if x > (a + 1) / (a + b + 2):  # the fraction of the other side settles sooner
        return 1.0 - mass / b * _fraction(_beta_parts(1 - x, b, a))
    return mass / a * _fraction(_beta_parts(x, a, b))


def gamma_below(x: float, shape: float) -> float:
    """The chance that a gamma number with `shape` > 0 and scale 1 is at most `x`."""
    if x <= 0:
        return 0.0
    mass = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x > shape + 1:
        return 1.0 - mass / (x + 1 - shape) * _fraction(_gamma_parts(x, shape))
    term = total = 1 / shape
    k = shape
    while term > _ENOUGH * total:
        k += 1
        term *= x / k
        total += term
    return mass * total


@lru_cache(maxsize=4096)
def beta_quantile(p: float, a: float, b: float) -> float:
    """The quantile at `p` in (0, 1) of the beta distribution with shapes `a`, `b` > 0."""

    def density(x: float) -> float:
        return math.exp(_log_beta_mass(x, a, b)) / (x * (1 - x))

    return _solved(lambda x: beta_below(x, a, b), density, p, a / (a + b), 1.0)


@lru_cache(maxsize=4096)
def gamma_quantile(p: float, shape: float) -> float:
    """The quantile at `p` in (0, 1) of the gamma distribution with `shape` > 0 and scale 1."""

    def density(x: float) -> float:
        return math.exp((shape - 1) * math.log(x) - x - math.lgamma(shape))

    high = shape + 1
    while gamma_below(high, shape) < p:
        high *= 2
    return _solved(lambda x: gamma_below(x, shape), density, p, min(shape, high / 2), high)


def _log_beta_mass(x: float, a: float, b: float) -> float:
    """The logarithm of x^a (1 − x)^b / B(a, b)."""
    constant = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return constant + a * math.log(x) + b * math.log1p(-x)


def _beta_parts(x: float, a: float, b: float) -> Iterator[float]:
    """The partial numerators of DLMF 8.17.22; its denominators are 1."""
    m = 0
    while True:
        yield -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        m += 1
        yield m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))


def _gamma_parts(x: float, shape: float) -> Iterator[float]:
    """The partial numerators of DLMF 8.9.2, brought to denominators of 1."""
    k = 1
    while True:
        yield -k * (k - shape) / ((x + 2 * k - 1 - shape) * (x + 2 * k + 1 - shape))
        k += 1


def _fraction(parts: Iterator[float]) -> float:
    """1 / (1 + p1 / (1 + p2 / (1 + …))), by the modified Lentz method."""
    value = above = 1.0
    below = 0.0
    for part in parts:
        above = 1 + part / above or _TINY
        below = 1 / (1 + part * below or _TINY)
        factor = above * below
        value *= factor
        if abs(factor - 1) < _ENOUGH:
            break
    return 1 / value


def _solved(
    below: Callable[[float], float], density: Callable[[float], float], p: float, start: float, high: float
) -> float:
    """Where a distribution on (0, high) reaches `p`: by Newton's steps, halving where one would leave."""
    low, x = 0.0, start
    for _ in range(200):
        miss = below(x) - p
        low, high = (low, x) if miss > 0 else (x, high)
        slope = density(x)
        ahead = x - miss / slope if slope > 0 else -1.0
        if not low < ahead < high:
            ahead = (low + high) / 2
        if abs(ahead - x) <= 1e-14 * x:
            break
        x = ahead
    return x


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
