"""How often an interval covers the truth, measured.

A cell of the table is a procedure, a truth, and a source of data. `draw(random, repetitions, n)` gives a
matrix: a row for each repetition, a column for each replication. A procedure takes one row, as a list, and
gives what ends in a low and a high end (an `Estimate`, or a pair). A sequential procedure is given as many
values as it may ever ask for, and reads as far as it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, int], Matrix]
Procedure = Callable[[list[float]], Sequence[float | None]]

REPETITIONS = 1000
KEPT = (0.93, 0.975)
"""A nominal 95 % is kept when it covers so often."""


class Cover(NamedTuple):
    """What became of the intervals of one cell."""

    covered: int
    below: int
    """Intervals that lie wholly below the truth."""
    above: int
    of: int
    width: float
    """The mean width; an interval without one of its ends is left out of it, and reaches without limit."""

    @property
    def share(self) -> float:
        """The share of intervals that hold the truth."""
        return self.covered / self.of


def coverage(
    procedure: Procedure, truth: float, draw: Draw, n: int, repetitions: int = REPETITIONS, seed: int = 1
) -> Cover:
    """Measure how often the intervals of a procedure at `n` replications hold the truth."""
    rows = draw(np.random.default_rng(seed), repetitions, n)
    return covers([procedure(row.tolist()) for row in rows], truth)


def covers(intervals: Sequence[Sequence[Any]], truth: float) -> Cover:
    """Count the intervals that hold the truth; the last two of each are its ends, None for no limit."""
    truth = float(truth)
    slack = 1e-12 * abs(truth)  # sums in another order are not another number
    ends = [(interval[-2], interval[-1]) for interval in intervals]
    below = sum(high is not None and high < truth - slack for _, high in ends)
    above = sum(low is not None and low > truth + slack for low, _ in ends)
    widths = [high - low for low, high in ends if low is not None and high is not None]
    width = float(np.mean(widths)) if widths else float("inf")
    return Cover(len(ends) - below - above, below, above, len(ends), width)
