"""How often something happens in a replication, on average.

The interval is that of a Poisson number, exact for any count (F. Garwood, "Fiducial limits for the Poisson
distribution", Biometrika 28, 1936, p. 437-442), scaled by how much more or less than a Poisson number the
counts of replications vary (R. W. M. Wedderburn, "Quasi-likelihood functions, generalized linear models, and
the Gauss-Newton method", Biometrika 61, 1974): as many independent events as would be as uncertain. It is
Student's where events are many, skewed and above 0 where they are few. Counts that come in bursts are more
skewed than that, so on each side the farther end of it and of a mean's (`means`) is given.

It assumes independent replications. It fails where events come in bursts so rare that no replication shows
one: what was never seen is taken to come one at a time, unless it is said how many come `together`.
A count is never taken to be exact because all replications agree: `unseen` of them may differ, by one or
more. What is exact is what the input states (a limit, a capacity, a moment), which has no interval.
"""

from collections.abc import Sequence
from statistics import NormalDist, fmean, variance

from ranksim.inference.distributions import gamma_quantile
from ranksim.inference.estimate import LEVEL, Estimate, farther
from ranksim.inference.means import estimate
from ranksim.inference.shares import LARGE, least_mean, unseen, wider


def counted(values: Sequence[float], level: float = LEVEL, *, together: float = 1.0) -> Estimate:
    """Estimate the mean of counts >= 0, one of each replication; no interval from a single one.

    `together` is how many come at once at most, where none came in any replication. Of whole counts the low
    end is 0 only there: replications that have any leave a `least_mean`.
    """
    estimated = farther(scaled_poisson(values, level, together=together), estimate(values, level))
    if estimated.low is None:
        return estimated
    return estimated._replace(low=max(least_mean(values, level), estimated.low))


def scaled_poisson(values: Sequence[float], level: float = LEVEL, *, together: float = 1.0) -> Estimate:
    """Estimate the mean of counts as `counted`, without what it adds for those more skewed than Poisson's."""
    if not values:
        return Estimate(None, None, None)
    mean, count = fmean(values), len(values)
    if count == 1:
        return Estimate(mean, None, None)
    if not any(values):
        return Estimate(0.0, 0.0, poisson_interval(0, level)[1] * together / count)
    if (spread := variance(values)) == 0:
        slack = unseen(count, level) * together
        return Estimate(mean, max(0.0, mean - slack), mean + slack)
    dispersion = spread / mean * wider(count, level)
    low, high = (end * dispersion / count for end in poisson_interval(count * mean / dispersion, level))
    return Estimate(mean, low, high)


def poisson_interval(events: float, level: float = LEVEL) -> tuple[float, float]:
    """Return Garwood's interval of the mean of a Poisson number that came to `events`, whole or not."""
    error = (1 - level) / 2
    if events > LARGE:
        half = NormalDist().inv_cdf(1 - error) * events**0.5
        return events - half, events + half
    return gamma_quantile(error, events) if events > 0 else 0.0, gamma_quantile(1 - error, events + 1)
