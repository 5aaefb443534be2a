"""What a search for a value that meets a condition pays for looking often and at many values."""

import math

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
