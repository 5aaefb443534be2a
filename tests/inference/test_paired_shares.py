"""The score interval of a paired difference of shares: its closed forms, its symmetry, and that it covers."""

from __future__ import annotations

import math
from functools import cache

import pytest
import scipy

from ranksim.inference.estimate import Estimate
from ranksim.inference.paired_shares import fewest_gained, is_gain, paired_difference

Z = 1.959963984540054


def test_nothing_seen_to_differ_is_not_certain() -> None:
    half = Z * Z / (1000 + Z * Z)
    assert paired_difference(0, 0, 1000, 0.95) == pytest.approx((0, -half, half))


def test_everything_differs() -> None:
    assert paired_difference(80, 0, 80, 0.95) == pytest.approx((1, (80 - Z * Z) / (80 + Z * Z), 1))


def test_no_trials_say_nothing() -> None:
    assert paired_difference(0, 0, 0, 0.95) == Estimate(None, None, None)


@pytest.mark.parametrize(("gained", "lost", "of"), [(5, 0, 50), (3, 1, 44), (20, 30, 400), (1, 0, 9)])
def test_the_other_way_round(gained: int, lost: int, of: int) -> None:
    difference, low, high = paired_difference(gained, lost, of, 0.9)
    assert paired_difference(lost, gained, of, 0.9) == pytest.approx((-difference, -high, -low))
    assert -1 <= low < difference < high <= 1


def test_many_trials_have_the_interval_of_a_mean() -> None:
    gained, lost, of = 3000, 1000, 100_000
    difference = (gained - lost) / of
    half = Z * math.sqrt(((gained + lost) / of - difference**2) / of)
    assert paired_difference(gained, lost, of, 0.95) == pytest.approx(
        (difference, difference - half, difference + half), rel=0.02
    )


@pytest.mark.parametrize(
    ("of", "gains", "loses"),
    [
        (20, 0.01, 0.001), (20, 0.3, 0.1), (50, 0.05, 0.05), (50, 0.5, 0.2), (200, 0.001, 0.0001),
        (200, 0.02, 0.02),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_it_covers(of: int, gains: float, loses: float) -> None:
    """Exactly, over all outcomes: at least 94.5 % of the time where 95 % was asked for."""
    interval = cache(paired_difference)
    covered = 0.0
    for gained in range(of + 1):
        for lost in range(of + 1 - gained):
            chance = _multinomial(of, gained, lost, gains, loses)
            if chance < 1e-9:
                continue
            _, low, high = interval(gained, lost, of, 0.95)
            covered += chance * ((low or 0.0) <= gains - loses <= (high or 0.0))
    assert covered >= 0.945


def _multinomial(of: int, gained: int, lost: int, gains: float, loses: float) -> float:
    same = of - gained - lost
    ways = math.lgamma(of + 1) - sum(math.lgamma(count + 1) for count in (gained, lost, same))
    log = gained * math.log(gains) + lost * math.log(loses) + same * math.log1p(-gains - loses)
    return math.exp(ways + log)


def test_a_gain_is_no_luck_where_a_coin_would_seldom_show_it() -> None:
    assert [fewest_gained(error) for error in (0.05, 0.01, 0.5**7)] == [5, 7, 7]
    assert (is_gain(4, 0, 0.05), is_gain(5, 0, 0.05)) == (False, True)
    assert (is_gain(7, 2, 0.05), is_gain(8, 2, 0.06)) == (False, True)
    for gained, lost in ((3, 9), (9, 3), (12, 1)):
        oracle = scipy.stats.binomtest(gained, gained + lost, 0.5, alternative="greater").pvalue
        assert is_gain(gained, lost, oracle * 1.001)
        assert not is_gain(gained, lost, oracle * 0.999)
    assert not is_gain(0, 0, 0.05)
