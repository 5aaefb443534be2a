"""Lengths and failures, fitted to those that were seen, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import Any

from ranksim.core.clock import Micros, format_duration
from ranksim.inference.estimate import Estimate
from ranksim.inference.means import estimate
from ranksim.inference.shares import chance

FEWEST = 20
"""Lengths from which on something is fitted to them."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A lognormal length and the share of `count` that failed, with 95 % intervals.

    `median` is that of the length (µs), `sigma` the standard deviation of its logarithm. The interval of the
    median is Student's, of the mean of the logarithms; that of the failures is exact (Clopper and Pearson).
    """

    count: int
    median: Estimate
    sigma: float
    failed: Estimate

    @property
    def distribution(self) -> Any:
        """The length as files have it."""
        length = format_duration(round(self.median.mean or 0))
        return {"lognormal": {"median": length, "sigma": round(self.sigma, 4)}} if self.sigma else length


def fit_each(
    lengths: Mapping[str, Sequence[Micros]], failures: Mapping[str, int], counts: Mapping[str, int]
) -> dict[str, Fitted]:
    """Fit what has `FEWEST` lengths (µs), by name; `failures` are how many of its `counts` failed."""
    return {
        name: _fitted([max(1, length) for length in each], failures.get(name, 0), counts[name])
        for name, each in lengths.items()
        if len(each) >= FEWEST
    }


def _fitted(lengths: Sequence[Micros], failures: int, count: int) -> Fitted:
    logs = [math.log(length) for length in lengths]
    middle = Estimate(*(None if end is None else math.exp(end) for end in estimate(logs)))
    spread = stdev(logs) if max(lengths) - min(lengths) > 1 else 0.0
    return Fitted(count, middle, spread, chance(failures, count))
