"""Whether a mean lies above a value or below it, by what is known of the quantity; undecided is an answer.

| quantity | decided by |
|---|---|
| independent trials: events over replications, accounts of a fleet | `evidence.of_chance` |
| in [0, 1]: shares of calls or jobs that share a world | `evidence.of_mean`, and `skewed` |
| from 0: counts, times | that it is more: `evidence.of_mean`; both: `skewed` |
| any other: money | `skewed` |

`evidence` assumes nothing of how values are distributed, nor of what calls in a world have to do with each
other: a replication is one value. No bound on the mean of a quantity without limits is like that (R. R.
Bahadur and L. J. Savage, "The nonexistence of certain statistical procedures in nonparametric problems",
Annals of Mathematical Statistics 27, 1956). `skewed` is Student's t freed of the skewness that is seen, from
`search.first_stage` replications on. It can be fooled by a kind of replication that is rarer than one in
twenty and much larger than the others. Replications that all agree say only how rare others are; these are
taken to be no further off than the larger of the value and the bound, and a count by one at the least.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ranksim.inference import evidence
from ranksim.inference.search import spent
from ranksim.inference.skewed import agree, corrected_t
from ranksim.inference.student import student_t

Range = Literal["share", "count", "from 0", "any"]
"""What is known of the values: in [0, 1], whole numbers from 0, numbers from 0, or nothing."""


class Allowed(NamedTuple):
    """The chances of an error: over all looks together by `evidence`, and at this one look by `skewed`.

    `total` is that of both, over all looks.
    """

    ever: float
    now: float
    total: float


def allowed(total: float, count: int, before: int, most: int, stage: int) -> Allowed:
    """Share out the error of a value to a look after `count` replications, `before` at the last one.

    A quarter is for `skewed`, spent (`search.spent`) from `stage` replications on.
    """
    now = 0.0 if count < stage else spent(total / 4, count, before if before >= stage else 0, most)
    return Allowed(total * 3 / 4, now, total)


def above(values: Sequence[float], at: float, kind: Range, error: Allowed) -> bool | None:
    """Return whether the mean of independent values lies above `at` (True) or below; None if undecided."""
    if not values:
        return None
    if kind != "any":
        most = 1.0 if kind == "share" else float("inf")
        decided = evidence.of_mean(values, at, most).decided(error.ever)
        if decided is not None or (kind == "share" and agree(values)):
            return decided
    if error.now <= 0 or len(values) < 2:
        return None
    if agree(values):
        return _agreed(values[0], len(values), at, 1.0 if kind == "count" else 0.0, error.ever)
    t, needed = corrected_t(values, at), student_t(1 - error.now, len(values) - 1)
    return True if t > needed else False if t < -needed else None


def _agreed(value: float, count: int, at: float, least: float, error: float) -> bool | None:
    """What so many equal values say, if others are no further off than the larger of value and bound.

    Others have a chance of at most 1 - error^(1/count), or one would have been seen: C. J. Clopper and
    E. S. Pearson, Biometrika 26, 1934, of no event.
    """
    others = 1 - error ** (1 / count)
    if abs(value - at) <= others * max(least, abs(value), abs(at)):
        return None
    return value > at
