"""Differences of pairs by what they are differences of, and gains with their intervals."""

import math
import random
from statistics import correlation, variance

import pytest
import scipy

from ranksim.inference.differences import PairedDifference, compared, excess
from ranksim.inference.gains import estimate_gain
from ranksim.inference.kinds import Kind, MetricSample, interval
from ranksim.inference.means import estimate
from ranksim.inference.shares import unseen

from .covering import covering

NOTHING = PairedDifference(None, None, None, None, None, None, None, None, 0, 0, False)


def test_amounts_have_students_interval_of_their_pairs() -> None:
    first, second = [5.0, 9.0, 7.5, 8.0], [4.0, 7.0, 7.0, 5.0]
    answer = compared(MetricSample("mean", first), MetricSample("mean", second))
    expected = estimate([a - b for a, b in zip(first, second, strict=True)])
    assert (answer.difference, answer.low, answer.high) == expected
    assert (answer.b, answer.a, answer.pairs) == (7.375, 5.75, 4)


def test_replications_without_a_value_are_left_out() -> None:
    first, second = [5.0, None, 7.5, 8.0], [4.0, 7.0, None, 5.0, 6.0]
    answer = compared(MetricSample("mean", first), MetricSample("mean", second))
    assert (answer.b, answer.a, answer.pairs) == (6.5, 4.5, 2)
    assert compared(MetricSample("mean", [None]), MetricSample("mean", [1.0])) == NOTHING
    trials = compared(MetricSample("share", [0.5, 0.0], [4, 0]), MetricSample("share", [0.25, 0.5], [4, 4]))
    assert (trials.b, trials.a, trials.pairs) == (0.5, 0.25, 1)


def test_counts_that_agree_in_all_pairs_may_still_differ() -> None:
    values = [float(n) for n in range(10)]
    answer = compared(MetricSample("count", values), MetricSample("count", values))
    assert (answer.difference, answer.gain) == (0.0, None)
    assert answer.low == pytest.approx(-(answer.high or 0))
    assert answer.high == pytest.approx(3.6889 * math.sqrt(2) / 10 / math.sqrt(2), rel=1e-4)


def test_amounts_that_agree_in_all_pairs_have_no_interval() -> None:
    answer = compared(MetricSample("mean", [1.0, 2.0]), MetricSample("mean", [1.0, 2.0]))
    assert (answer.difference, answer.low, answer.high, answer.gain) == (0.0, None, None, None)


@pytest.mark.parametrize("kind", ["count", "amount", "share"])
def test_what_differs_by_the_same_in_all_pairs_has_no_interval_whatever_it_is(kind: Kind) -> None:
    """Of five pairs up to half of others may differ, and nothing says by how much."""
    trials = [1000.0] * 5 if kind == "share" else None
    scale = 1000 if kind == "share" else 1
    first, second = ([(n + i) / scale for i in range(5)] for n in (900, 748))
    answer = compared(MetricSample(kind, second, trials), MetricSample(kind, first, trials))
    assert (answer.difference, answer.low, answer.high) == (pytest.approx(-152 / scale), None, None)


def mean_pairs(*differences: float, drawn: bool = True) -> PairedDifference:
    """What pairs with these differences show."""
    nothing = [0.0] * len(differences)
    return compared(
        MetricSample("mean", differences, drawn=drawn), MetricSample("mean", nothing, drawn=drawn)
    )


def test_a_difference_is_sure_by_its_interval_or_by_the_signs_of_its_pairs() -> None:
    for count, sure in ((5, False), (6, True)):
        far = mean_pairs(*[1.0] * (count - 1), 40.0)
        assert far.low is not None
        assert far.low < 0  # else the interval alone would decide
        assert (far.agreeing, far.sure) == (count, sure)
        assert mean_pairs(*[-1.0] * (count - 1), -40.0).sure == sure
    assert mean_pairs(9.0, 10.0, 11.0).sure
    for unlike in ((1.0,) * 7 + (40.0, -0.5), (1.0,) * 7 + (40.0, 0.0)):
        assert (mean_pairs(*unlike).agreeing, mean_pairs(*unlike).sure) == (8, False)
    others = MetricSample("mean", [0.0] * 6)
    for level, sure in ((0.96, True), (0.97, False)):
        assert compared(MetricSample("mean", [1.0] * 5 + [40.0]), others, level).sure == sure


def test_what_differs_by_the_same_in_several_pairs_is_sure_and_a_single_pair_where_nothing_is_drawn() -> None:
    assert mean_pairs(3.0, 3.0)[3:5] == (None, None)
    assert mean_pairs(3.0, 3.0)[-3:] == (2, 2, True)
    thirds = mean_pairs(0.1 + 0.2, 0.3, 0.3)  # the same but for rounding
    assert (thirds.low, thirds.high, thirds.sure) == (None, None, True)
    assert mean_pairs(3.0)[-3:] == (1, 1, False)
    assert mean_pairs(3.0, 3.0, drawn=False)[-3:] == (1, 1, True)
    assert not mean_pairs(0.0, 0.0).sure
    assert not mean_pairs(0.0, drawn=False).sure


def test_counts_that_differ_much_have_students_interval() -> None:
    source = random.Random(3)
    differences = [float(round(source.gauss(3, 40))) for _ in range(60)]
    student, answer = estimate(differences), excess(differences)
    assert (answer.mean, answer.low, answer.high) == pytest.approx(student, rel=0.08, abs=0.8)


def test_no_difference_is_farther_than_both_sides_leave_possible() -> None:
    """More than all of a time cannot be won, nor a wait fall by more than there was."""
    some, none = [1.0, 0.9, 0.95, 0.2, 0.1], [0.0] * 5
    b, a = MetricSample("fraction", some), MetricSample("fraction", none)
    assert (compared(b, a).low, compared(b, a).high) == (0.0, 1.0)
    assert (compared(a, b).low, compared(a, b).high) == (-1.0, 0.0)
    waits = compared(MetricSample("quantile", some), MetricSample("quantile", none))
    assert waits.low == 0.0


@pytest.mark.parametrize("count", [5, 10])
def test_planted_differences_of_waits_are_covered(count: int) -> None:
    """200 worlds whose waits are exponential, all longer by 100 s to 140 s, most by less."""
    source, covered = random.Random(15), 0
    for _ in range(200):
        first = [source.expovariate(1 / 300) for _ in range(count)]
        second = [wait + 100 + min(40, source.expovariate(1 / 10)) for wait in first]
        answer = compared(MetricSample("amount", second), MetricSample("amount", first))
        assert answer.low is not None
        assert answer.high is not None
        assert answer.low > 0
        covered += answer.low <= 110 - 10 * math.exp(-4) <= answer.high
    assert covered >= scipy.stats.binom.ppf(0.01, 200, 0.95)


def test_shares_are_those_of_all_trials() -> None:
    first = MetricSample("share", [0.5, 0.1], [10, 30])
    second = MetricSample("share", [0.2, 0.1], [10, 30])
    answer = compared(first, second)
    assert (answer.b, answer.a) == pytest.approx((8 / 40, 5 / 40))
    assert answer.difference == pytest.approx(3 / 40)
    assert interval(first).mean == answer.b


def test_shares_of_as_many_trials_differ_as_their_hits_do() -> None:
    one, two = [3, 4, 2, 5, 3, 3], [2, 4, 2, 3, 3, 2]
    answer = compared(
        MetricSample("share", [n / 40 for n in one], [40] * 6),
        MetricSample("share", [n / 40 for n in two], [40] * 6),
    )
    hits = excess([float(a - b) for a, b in zip(one, two, strict=True)])
    assert (answer.difference, answer.low, answer.high) == pytest.approx(
        [end / 40 for end in hits if end is not None]
    )


@pytest.mark.parametrize("rate", [0.01, 0.1, 1.0])
def test_rare_differences_are_covered(rate: float) -> None:
    source = random.Random(11)

    def draw() -> list[float]:
        """A refuses what B does, and now and then one more."""
        return [float(sum(source.random() < rate / 20 for _ in range(20))) for _ in range(20)]

    assert covering(excess, draw, rate, tries=300) >= 0.93 * 300


# Kinds


@pytest.mark.parametrize("kind", ["mean", "fraction", "quantile"])
def test_amounts_that_all_agree_have_no_interval(kind: Kind) -> None:
    assert interval(MetricSample(kind, [0.5, None, 0.5])) == (0.5, None, None)


def test_fractions_stay_between_0_and_1() -> None:
    answer = interval(MetricSample("fraction", [0.9, 1.0, 1.0]))
    assert answer.high == 1.0
    assert interval(MetricSample("fraction", [0.1, 0.0, 0.0])).low == 0.0


@pytest.mark.parametrize("kind", ["amount", "quantile"])
def test_waits_and_costs_do_not_fall_below_0(kind: Kind) -> None:
    """Of 0s, 0s, 0s, 1s and 40s the interval of the mean begins below 0; of a margin it may."""
    values = [0.0, 0.0, 0.0, 1.0, 40.0]
    free, cut = interval(MetricSample("mean", values)), interval(MetricSample(kind, values))
    assert free.low is not None
    assert free.low < 0
    assert cut == (free.mean, 0.0, free.high)


def test_counts_and_shares_that_agree_have_an_interval() -> None:
    assert interval(MetricSample("count", [7.0] * 4)).high == pytest.approx(7 + unseen(4))
    assert interval(MetricSample("share", [1 / 3] * 4, [3] * 4)).high == pytest.approx(1 / 3 + unseen(4) / 3)


# Gains


def test_a_gain_is_its_definition() -> None:
    first, second = [5.0, 9.0, 7.5, 8.0], [4.0, 7.0, 7.0, 5.0]
    differences = [a - b for a, b in zip(first, second, strict=True)]
    value = (variance(first) + variance(second)) / variance(differences)
    answer = estimate_gain(first, second)
    assert answer.mean == pytest.approx(value)
    assert answer.low is not None
    assert answer.high is not None
    assert 0.5 <= answer.low < value < answer.high


def test_a_normal_gain_has_at_least_pitmans_interval() -> None:
    source = random.Random(4)
    shared = [source.gauss(0, 3) for _ in range(12)]
    first, second = [x + source.gauss(0, 1) for x in shared], [x + source.gauss(0, 1) for x in shared]
    sums, differences = ([a + sign * b for a, b in zip(first, second, strict=True)] for sign in (1, -1))
    # The ratios at which sums and differences, so scaled, are not shown to be uncorrelated any more.
    t = scipy.stats.t.ppf(0.975, 10)
    answer = estimate_gain(first, second)
    for end in (answer.low, answer.high):
        assert end is not None
        scale = math.sqrt(2 * end - 1)  # what brings both to one variance, were this the gain
        one = [s / scale + d for s, d in zip(sums, differences, strict=True)]
        other = [s / scale - d for s, d in zip(sums, differences, strict=True)]
        r = correlation(one, other)
        assert abs(r) * math.sqrt(10 / (1 - r * r)) >= t * (1 - 1e-9)


def test_a_gain_needs_three_pairs_and_something_that_varies() -> None:
    assert estimate_gain([1.0, 2.0], [1.0, 3.0]) == (pytest.approx(5.0), None, None)
    assert estimate_gain([1.0, 2.0, 4.0], [1.0, 2.0, 4.0]) == (None, None, None)
    assert estimate_gain([1.0], [2.0]) == (None, None, None)
    assert estimate_gain([1.0, 2.0, 4.0], [-1.0, -2.0, -4.0]) == (0.5, None, None)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1.0, 0.0, 0.0, 0.0], [2 / 3, 0.0, 0.0, 0.0], 13),  # without the first 0, but for rounding
        ([0.0, 0.0, 3e11 / 7], [0.0, 0.0, 1e11 / 7], 2.5),
        ([5.0, 3.0, 4.0, 6.0], [5.0, 3.0, 4.0, 5.0], 31 / 3),
    ],
)
def test_a_gain_that_a_single_pair_makes_has_no_interval(
    first: list[float], second: list[float], expected: float
) -> None:
    assert estimate_gain(first, second) == (pytest.approx(expected), None, None)


def test_a_pair_far_from_the_others_leaves_their_differences() -> None:
    answer = estimate_gain([0.0, 0.0, 1.0, 2.0, 1e9], [0.0, 1.0, 1.0, 3.5, 1e9])
    assert answer.mean is not None
    assert answer.low is not None
    assert answer.high is not None
    assert 0.5 <= answer.low < answer.mean < answer.high


def test_differences_that_vary_by_rounding_have_no_gain() -> None:
    assert estimate_gain([0.0, 0.1, 0.0], [0.2, 0.1 + 0.2, 0.2]) == (None, None, None)


@pytest.mark.parametrize("count", [5, 20])
def test_gains_of_normal_pairs_are_covered(count: int) -> None:
    source, covered = random.Random(8), 0
    for _ in range(400):
        shared = [source.gauss(0, 3) for _ in range(count)]
        first, second = [x + source.gauss(0, 1) for x in shared], [x + source.gauss(0, 1) for x in shared]
        _, low, high = estimate_gain(first, second)
        assert low is not None
        assert high is not None
        covered += low <= 10 <= high
    assert covered >= 0.93 * 400
