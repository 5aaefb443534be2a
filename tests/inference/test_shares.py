"""Shares, counts and their distributions against SciPy's, and what luck must not make exact."""

import random

import pytest
import scipy

from ranksim.inference.counts import counted, poisson_interval
from ranksim.inference.distributions import beta_below, beta_quantile, gamma_below, gamma_quantile
from ranksim.inference.estimate import Estimate
from ranksim.inference.means import estimate
from ranksim.inference.shares import chance, clustered, tail, unseen

from .covering import covering

SHAPES = (0.5, 1, 3.3, 30, 500, 1e4)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("p", [1e-6, 0.025, 0.5, 0.975, 1 - 1e-6])
def test_the_gamma_distribution_is_that_of_scipy(p: float, shape: float) -> None:
    found = gamma_quantile(p, shape)
    assert found == pytest.approx(scipy.stats.gamma.ppf(p, shape), rel=1e-9)
    assert gamma_below(found, shape) == pytest.approx(p, rel=1e-6)


@pytest.mark.parametrize("a", SHAPES)
@pytest.mark.parametrize("b", [0.5, 1, 7, 1000, 1e5])
@pytest.mark.parametrize("p", [1e-6, 0.025, 0.5, 0.975, 1 - 1e-6])
def test_the_beta_distribution_is_that_of_scipy(p: float, a: float, b: float) -> None:
    found = beta_quantile(p, a, b)
    assert found == pytest.approx(scipy.stats.beta.ppf(p, a, b), rel=1e-8)
    assert beta_below(found, a, b) == pytest.approx(scipy.stats.beta.cdf(found, a, b), rel=1e-8)


@pytest.mark.parametrize("x", [-1.0, 0.0, 1.0, 2.0])
def test_nothing_lies_outside_the_unit_interval(x: float) -> None:
    assert beta_below(x, 2, 3) == (1.0 if x >= 1 else 0.0)
    assert gamma_below(min(x, 0.0), 2) == 0.0


@pytest.mark.parametrize(("hits", "trials"), [(0, 3000), (0, 1), (3, 10), (10, 10), (1, 1000), (480, 1000)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_the_interval_of_a_chance_is_that_of_scipy(hits: int, trials: int, level: float) -> None:
    expected = scipy.stats.binomtest(hits, trials).proportion_ci(level, method="exact")
    assert chance(hits, trials, level) == pytest.approx((hits / trials, expected.low, expected.high))


@pytest.mark.parametrize("k", [-1, 0, 3, 29, 30, 31])
@pytest.mark.parametrize("p", [0.001, 0.3, 0.999])
def test_tails_are_those_of_scipy(k: int, p: float) -> None:
    assert tail(30, k, p, at_most=True) == pytest.approx(scipy.stats.binom.cdf(k, 30, p), rel=1e-9)
    assert tail(30, k, p, at_most=False) == pytest.approx(scipy.stats.binom.sf(k - 1, 30, p), rel=1e-9)


@pytest.mark.parametrize("events", [0, 1, 7, 250])
def test_the_interval_of_a_poisson_number_is_garwoods(events: int) -> None:
    low, high = poisson_interval(events, 0.95)
    assert low == pytest.approx(scipy.stats.chi2.ppf(0.025, 2 * events) / 2 if events else 0.0)
    assert high == pytest.approx(scipy.stats.chi2.ppf(0.975, 2 * events + 2) / 2)


# What luck must not make exact


def test_none_of_3000_calls_has_an_upper_bound() -> None:
    found = clustered([0] * 10, [300] * 10)
    assert found == (0.0, 0.0, pytest.approx(scipy.stats.binomtest(0, 3000).proportion_ci().high))
    assert clustered([300] * 10, [300] * 10) == (1.0, pytest.approx(1 - (found.high or 0)), 1.0)


@pytest.mark.parametrize(
    ("hits", "of"),
    [
        ([80, 85, 84, 88, 99], [100] * 5),
        ([99, 98, 97, 99, 90], [100] * 5),
        ([1, 2, 3, 40, 9], [100] * 5),
        ([5, 0, 0], [5, 5, 5]),
        ([3, 4, 9, 1, 12, 2], [4, 5, 300, 2, 14, 3]),
    ],
)
def test_a_share_of_which_there_were_hits_and_misses_ends_before_0_and_1(
    hits: list[int], of: list[int]
) -> None:
    _, low, high = clustered(hits, of)
    assert low is not None
    assert high is not None
    assert 0 < low < high < 1
    misses = [trials - hit for hit, trials in zip(hits, of, strict=True)]
    assert clustered(misses, of)[1:] == pytest.approx((1 - high, 1 - low), rel=1e-9)


def test_five_replications_that_all_have_misses_leave_room_for_them() -> None:
    # With 97.5 % confidence more than 0.025 ** (1 / 5) of all have one miss or more, of 100 trials.
    assert clustered([80, 85, 84, 88, 99], [100] * 5).high == pytest.approx(1 - 0.025**0.2 / 100)
    assert counted([1, 1, 1, 1, 30]).low == pytest.approx(0.025**0.2)


def test_counts_below_1_are_no_whole_events() -> None:
    assert counted([0.5] * 5).low == 0.0


def test_nothing_in_any_replication_has_an_upper_bound() -> None:
    assert counted([0.0] * 200) == (0.0, 0.0, pytest.approx(3.6889 / 200, rel=1e-4))
    assert counted([0.0] * 200, together=18).high == pytest.approx(18 * 3.6889 / 200, rel=1e-4)


def test_agreement_is_not_exact() -> None:
    assert unseen(10) == pytest.approx(scipy.stats.binomtest(0, 10).proportion_ci().high)
    assert counted([93.0] * 10) == pytest.approx((93, 93 - unseen(10), 93 + unseen(10)))
    assert clustered([3] * 10, [30] * 10) == pytest.approx(
        (0.1, 0.1 - unseen(10) / 30, 0.1 + unseen(10) / 30)
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (counted([]), Estimate(None, None, None)),
        (counted([4.0]), Estimate(4.0, None, None)),
        (clustered([], []), Estimate(None, None, None)),
        (clustered([0, 0], [0, 0]), Estimate(None, None, None)),
        (clustered([2, 0], [8, 0]), Estimate(0.25, None, None)),
        (chance(0, 0), Estimate(None, None, None)),
    ],
)
def test_an_interval_needs_two_replications(found: Estimate, expected: Estimate) -> None:
    assert found == expected


# What they come to where much was counted


def test_calls_that_share_a_world_do_not_count_as_independent() -> None:
    apart = clustered([30] * 5 + [31] * 5, [300] * 10)
    bursts = clustered([0] * 5 + [61] * 5, [300] * 10)
    assert bursts.mean == apart.mean
    assert _width(bursts) > 10 * _width(apart)


def test_many_counts_have_students_interval() -> None:
    source = random.Random(2)
    values = [source.gauss(1e6, 1000) for _ in range(20)]
    assert counted(values) == pytest.approx(estimate(values), rel=1e-4)
    shares = [value / 2e6 for value in values]
    assert clustered(values, [2e6] * 20) == pytest.approx(estimate(shares), rel=1e-4)


@pytest.mark.parametrize("mean", [0.02, 0.3, 4.0])
def test_rare_counts_are_covered(mean: float) -> None:
    source = random.Random(7)

    def draw() -> list[float]:
        """A binomial number of 50 trials, which is Poisson's but for little, ten times."""
        return [float(sum(source.random() < mean / 50 for _ in range(50))) for _ in range(10)]

    assert covering(counted, draw, mean, tries=400) >= 0.93 * 400


def _width(found: Estimate) -> float:
    assert found.low is not None
    assert found.high is not None
    return found.high - found.low
