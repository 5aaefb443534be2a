"""A share or a chance, from how many of some trials hit.

`chance` is for trials that are independent: replications, customers of a fleet. It is exact, so it covers at
least as often as it says, and more often where hits are few. Source: C. J. Clopper and E. S. Pearson, "The
use of confidence or fiducial limits illustrated in the case of the binomial", Biometrika 26, 1934.

`clustered` is for trials that share a world, as the calls of a replication do: only worlds are independent.
It asks how many independent trials would have been as uncertain, and is exact for that number; hits that come
in bursts are more skewed than that, so on each side the farther end of it and of a mean's is given. Source:
E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small expected number of positive
counts estimated from survey data", Survey Methodology 24(2), 1998, p. 193-201.
It fails where hits come in bursts so rare that no replication shows one: then nothing tells of bursts, and
trials are taken to be independent. What one world decides as a whole is to be counted by worlds, by `chance`.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist

from ranksim.inference.distributions import beta_below, beta_quantile, student_t
from ranksim.inference.estimate import LEVEL, Estimate, farther
from ranksim.inference.means import estimate


def chance(hits: float, trials: float, level: float = LEVEL) -> Estimate:
    """Estimate a chance from a count of independent trials, with the interval of Clopper and Pearson."""
    if not trials:
        return Estimate(None, None, None)
    return Estimate(hits / trials, *clopper_pearson(hits, trials, level))


def clustered(hits: Sequence[float], trials: Sequence[float], level: float = LEVEL) -> Estimate:
    """Estimate the share of trials that hit, from the hits and trials of independent replications.

    The share is that of all trials together; replications without trials are left out. One replication has no
    interval, as it does not tell how replications differ. Where all show the same share between 0 and 1, up
    to `unseen` of them may differ, by at least one trial. No end is 0 or 1 where any trial hit, or missed:
    the replications in which one did leave a `least_mean`.
    """
    pairs = [(hit, of) for hit, of in zip(hits, trials, strict=True) if of]
    count, total = len(pairs), math.fsum(of for _, of in pairs)
    if not pairs:
        return Estimate(None, None, None)
    share = math.fsum(hit for hit, _ in pairs) / total
    if count == 1:
        return Estimate(share, None, None)
    if not 0 < share < 1:
        return Estimate(share, *clopper_pearson(share * total, total, level))
    spread = math.fsum((hit - share * of) ** 2 for hit, of in pairs) * count / (count - 1) / total**2
    if spread <= 1e-24:  # all alike, but for rounding
        slack = unseen(count, level) * count / total
        return Estimate(share, max(0.0, share - slack), min(1.0, share + slack))
    effective = share * (1 - share) / spread / wider(count, level)
    scaled = Estimate(share, *clopper_pearson(share * effective, effective, level))
    # What each replication adds to a ratio of means: W. G. Cochran, "Sampling Techniques", 3rd edition, 6.4.
    usual = estimate([share + (hit - share * of) * count / total for hit, of in pairs], level)
    _, low, high = farther(scaled, usual)
    if low is None or high is None:
        return Estimate(share, None, None)
    least = least_mean([hit for hit, _ in pairs], level) * count / total
    most = 1 - least_mean([of - hit for hit, of in pairs], level) * count / total
    return Estimate(share, max(least, low), min(most, high))


def least_mean(counts: Sequence[float], level: float = LEVEL) -> float:
    """The low end of the chance that a count >= 0 is 1 or more, which their mean is not below.

    It is above 0 where any count is 1 or more, and too high with a chance of at most (1 - level) / 2.
    """
    return clopper_pearson(sum(count >= 1 for count in counts), len(counts), level)[0]


def unseen(count: int, level: float = LEVEL) -> float:
    """The largest share of replications that may differ although `count` of them all agree."""
    return -math.expm1(math.log((1 - level) / 2) / count)


def wider(count: int, level: float = LEVEL) -> float:
    """By how much a variance counts for more that is itself known from `count` values: (t / z)²."""
    p = 0.5 + level / 2
    return (student_t(p, count - 1) / NormalDist().inv_cdf(p)) ** 2


LARGE = 10_000
"""Hits and misses from which on the ends are those of the normal distribution, to 1 % of the width."""


def clopper_pearson(hits: float, trials: float, level: float) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson of a share; hits and trials need not be whole."""
    error, misses = (1 - level) / 2, trials - hits
    if min(hits, misses) > LARGE:
        share = hits / trials
        half = NormalDist().inv_cdf(1 - error) * math.sqrt(share * (1 - share) / trials)
        return share - half, share + half
    low = beta_quantile(error, hits, misses + 1) if hits > 0 else 0.0
    high = beta_quantile(1 - error, hits + 1, misses) if misses > 0 else 1.0
    return low, high


def tail(n: int, k: int, p: float, *, at_most: bool) -> float:
    """The chance of at most (or at least) `k` successes in `n` trials that each succeed with chance `p`."""
    if at_most:
        return 1.0 if k >= n else 0.0 if k < 0 else beta_below(1 - p, n - k, k + 1)
    return 1.0 if k <= 0 else 0.0 if k > n else beta_below(p, k, n - k + 1)
