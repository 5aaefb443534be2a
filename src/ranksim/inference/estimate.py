"""An estimate with its interval."""

from typing import NamedTuple

LEVEL = 0.95
"""The confidence level of every interval that does not say otherwise."""


class Estimate(NamedTuple):
    """A mean and its confidence interval; all None of nothing, no interval from one value."""

    mean: float | None
    low: float | None
    high: float | None


def farther(first: Estimate, other: Estimate) -> Estimate:
    """Return one estimate, with the farther end of both on each side where both have ends."""
    if first.low is None or first.high is None or other.low is None or other.high is None:
        return first
    return Estimate(first.mean, min(first.low, other.low), max(first.high, other.high))
