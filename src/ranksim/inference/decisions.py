"""Whether a mean lies above a value or below it, by what is known of the quantity; undecided is an answer.

| quantity | decided by |
|---|---|
| independent trials: events over replications, accounts of a fleet | `evidence.of_chance` |
| a share of calls or jobs that share a world | `share_above`: the same of both, of hits - bound * trials |
| in [0, 1]: fractions of a time | `evidence.of_mean`, and `skewed` |
| from 0: counts, times | that it is more: `evidence.of_mean`; both: `skewed` |
| any other: money | `skewed` |

`evidence` assumes nothing of how values are distributed, nor of what calls in a world have to do with each
other: a replication is one value. No bound on the mean of a quantity without limits is like that (R. R.
Bahadur and L. J. Savage, "The nonexistence of certain statistical procedures in nonparametric problems",
Annals of Mathematical Statistics 27, 1956). `skewed` is Student's t freed of the skewness that is seen, from
`first_stage` replications on. It can be fooled by a kind of replication that is rarer than one in
twenty and much larger than the others. Replications that all agree say only how rare others are; these are
taken to be no further off than the larger of the value and the bound, and a count by one at the least.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from ranksim.inference import evidence
from ranksim.inference.distributions import student_t
from ranksim.inference.skewed import agree, corrected_t

Range = Literal["fraction", "count", "from 0", "any"]
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

    A quarter is for `skewed`, spent (`spent`) from `stage` replications on.
    """
    now = 0.0 if count < stage else spent(total / 4, count, before if before >= stage else 0, most)
    return Allowed(total * 3 / 4, now, total)


def above(values: Sequence[float], at: float, kind: Range, error: Allowed) -> bool | None:
    """Return whether the mean of independent values lies above `at` (True) or below; None if undecided."""
    if not values:
        return None
    if kind != "any":
        most = 1.0 if kind == "fraction" else float("inf")
        decided = evidence.of_mean(values, at, most).decided(error.ever)
        if decided is not None or (kind == "fraction" and agree(values)):
            return decided
    if error.now <= 0 or len(values) < 2:
        return None
    if agree(values):
        return _agreed(values[0], len(values), at, 1.0 if kind == "count" else 0.0, error.ever)
    return _by_t(values, at, error.now)


def share_above(hits: Sequence[float], trials: Sequence[float], at: float, error: Allowed) -> bool | None:
    """Return whether the share of all trials that hit lies above `at` (True) or below; None if undecided.

    `hits` and `trials` > 0 are those of independent replications. The share is a ratio of means, and lies
    above `at` where the mean of hits - at * trials lies above 0 (E. C. Fieller, "Some problems in interval
    estimation", Journal of the Royal Statistical Society B 16, 1954). That is not the mean of the
    replications' shares, in which a busy replication counts as much as a calm one. It is assumed that no
    replication has more trials than the busiest by more than that has more than the calmest.
    """
    if not hits:
        return None
    most = 2 * max(trials) - min(trials)
    values = [at + (hit - at * of) / most for hit, of in zip(hits, trials, strict=True)]  # in [0, 1]
    decided = evidence.of_mean(values, at).decided(error.ever)
    alike = agree([hit / of for hit, of in zip(hits, trials, strict=True)])
    if decided is not None or alike or error.now <= 0 or len(values) < 2:
        return decided
    return _by_t(values, at, error.now)


def _by_t(values: Sequence[float], at: float, error: float) -> bool | None:
    """Decide by Student's t freed of skewness, of values that do not all agree."""
    t, needed = corrected_t(values, at), student_t(1 - error, len(values) - 1)
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


# What a search for a value that meets a condition pays for looking often and at many values

GROWTH = 1.25
"""How many times as many replications there are at the next look."""

RARE = 0.05
"""How often a kind of replication may occur that a decision on an unbounded mean need not have seen."""


def error_of_value(level: float, values: int) -> float:
    """Return the error that each value is allowed, for a bisection of so many values to have 1 - `level`.

    It is shared out evenly over the values that a search can come to (Bonferroni): those of a bisection for
    the first that is shown to hold, and of another, among those below, for the last that is shown to fail.
    """
    tried = 2 + 2 * math.ceil(math.log2(max(2, values)))
    return (1 - level) / min(tried, values)


def first_stage(level: float) -> int:
    """Return how many replications show every kind that one in twenty is of: 72 at 95 %.

    They do but for half the error, which leaves as much for what they are used for. Source: S. S. Wilks,
    "Determination of sample sizes for setting tolerance limits", Annals of Mathematical Statistics 12, 1941.
    """
    return math.ceil(math.log((1 - level) / 2) / math.log(1 - RARE))


def looks(least: int, most: int, stage: int) -> list[int]:
    """Return the numbers of replications after which a value is looked at, `stage` among them if in reach."""
    counts = [max(2, least)]
    while counts[-1] < most:
        following = math.ceil(GROWTH * counts[-1])
        counts.append(min(stage if counts[-1] < stage < following else following, most))
    return counts


def spent(error: float, count: int, before: int, most: int) -> float:
    """Return the part of `error` that a look after `count` replications may spend, `before` at the last one.

    It is spent as the replications come in, so that the early looks, where a t statistic is least to be
    trusted, get little. Sources: K. K. G. Lan and D. L. DeMets, "Discrete sequential boundaries for clinical
    trials", Biometrika 70(3), 1983; K. Kim and D. L. DeMets, Biometrika 74(1), 1987 (their power of 1).
    """
    return error * (count - before) / most
