"""Comparison of two points, replication by replication, on common random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, variance
from typing import Any

from ranksim.inference.means import estimate


def compared(first: Sequence[float | None], second: Sequence[float | None], level: float) -> dict[str, Any]:
    """Compare a metric of two points: the means, their difference with its interval, and the gain.

    `gain` is how many times the variance of the difference would be larger with independent random numbers:
    so many times more replications would give the same interval. None where the difference does not vary.
    Replications where either has no value are left out.
    """
    pairs = [(a, b) for a, b in zip(first, second, strict=False) if a is not None and b is not None]
    differences = [a - b for a, b in pairs]
    difference, low, high = estimate(differences, level)
    gain = None
    if len(pairs) > 1 and (spread := variance(differences)) > 0:
        gain = (variance([a for a, _ in pairs]) + variance([b for _, b in pairs])) / spread
    return {
        "first_mean": fmean(a for a, _ in pairs) if pairs else None,
        "second_mean": fmean(b for _, b in pairs) if pairs else None,
        "difference": difference,
        "low": low,
        "high": high,
        "gain": gain,
        "pairs": len(pairs),
    }
