"""Stakes that a bounded mean or a chance lies to one side of a value, however often one looks.

A gambler bets on each value that the mean is more (or less) than `at`, at odds that are fair if it is
exactly that. If it is not more, the stake grows to 1/error, ever, with a chance of at most `error` (Ville's
inequality): one may look after each value and stop when one likes. Nothing is assumed of the values but that
they lie in [0, 1], come from independent replications and have one mean; a rare value that has not been
seen yet is allowed for. The stake is spread over bets of several sizes: half of it on the boldest, which is
what a run of equal values pays for, the rest evenly on smaller ones.

Source: I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by betting", Journal of
the Royal Statistical Society B 86(1), 2024: section 4 (the capital process), appendix B (diversified bets).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SIZES = np.array([0.5**step for step in range(8)])
"""The sizes of the bets, as shares of the boldest one that cannot lose more than the stake."""

SPREAD = np.array([0.5] + [0.5 / 7] * 7)
"""How much of the stake is on the bet of each size."""

BOLDEST = 1 - 1e-9


class Stakes(NamedTuple):
    """Natural logarithms of what the stakes have grown to: that the mean is more, and that it is less."""

    more: float
    less: float

    def decided(self, error: float) -> bool | None:
        """Return whether the mean is more; None where neither is shown with that chance of an error."""
        needed = -math.log(error)
        return True if self.more >= needed else False if self.less >= needed else None


def of_mean(values: Sequence[float], at: float, most: float = 1.0) -> Stakes:
    """Weigh independent values in [0, most] against a mean `at`; `most` may be inf.

    Values without upper limit can show that their mean is more, never that it is less: a larger may come.
    """
    sample = np.asarray(values, dtype=np.float64)
    return _weighed(sample, np.ones(len(sample)), at, most)


def of_chance(hits: float, of: float, at: float) -> Stakes:
    """Weigh `hits` among `of` independent trials against a chance `at`."""
    return _weighed(np.array([0.0, 1.0]), np.array([of - hits, hits], dtype=np.float64), at, 1.0)


def _weighed(values: NDArray[np.float64], times: NDArray[np.float64], at: float, most: float) -> Stakes:
    """Weigh values, each of which was seen so many `times`."""
    if not 0 < at < most:  # where a mean cannot be beyond it, one other value shows that it is not there
        others = bool(((values != at) & (times > 0)).any())
        more = math.inf if at < 0 or (at == 0 and others) else -math.inf
        less = math.inf if at > most or (at == most and others) else -math.inf
        return Stakes(more, less)
    away = values - at
    grown = [
        times @ np.log1p(np.outer(sign * away, SIZES * BOLDEST / room))
        for sign, room in ((1, at), (-1, most - at))
    ]
    return Stakes(*(float(np.logaddexp.reduce(logs + np.log(SPREAD))) for logs in grown))
