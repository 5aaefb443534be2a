"""Quantiles of independent values and their intervals, against SciPy."""

import random

import pytest
import scipy

from ranksim.inference.quantiles import quantile, rank_of


@pytest.mark.parametrize("count", [1, 2, 3, 100, 200, 300, 375, 3600])
def test_a_rank_is_the_least_that_holds_the_share(count: int) -> None:
    for thousandths in range(1001):
        expected = max(1, -(-thousandths * count // 1000))
        assert rank_of(thousandths / 1000, count) == expected, (
            thousandths
        )  # 0.07 · 100 is more than 7 in floats


def test_a_quantile_lies_at_its_rank() -> None:
    values = [float(n) for n in range(1, 101)]
    assert quantile(values, 0.07, 0.95).mean == 7


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_the_interval_of_a_quantile_is_that_of_the_order_statistics(q: float) -> None:
    draws = random.Random(7)
    values = [draws.gauss(0, 1) for _ in range(100)]
    oracle = scipy.stats.quantile_test(values, p=q).confidence_interval(0.95)
    estimate = quantile(values, q, 0.95)
    assert (estimate.low, estimate.high) == (oracle.low, oracle.high)


def test_the_ends_of_a_quantile_that_too_few_values_leave_open() -> None:
    values = [float(value) for value in range(10)]
    assert quantile(values, 0.95, 0.95) == (9.0, 7.0, None)
    assert quantile([], 0.5, 0.95) == (None, None, None)
