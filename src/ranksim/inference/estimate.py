"""An estimate with its interval."""

from typing import NamedTuple

LEVEL = 0.95
"""The confidence level of every interval that does not say otherwise."""


class Estimate(NamedTuple):
    """A mean and its confidence interval; all None of nothing, no interval from one value."""

    mean: float | None
    low: float | None
    high: float | None
