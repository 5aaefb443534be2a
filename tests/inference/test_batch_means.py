"""Differences of series in time: how often their intervals hold, and what they assume."""

import math
import random

import pytest

from ranksim.inference.batch_means import mean_difference
from ranksim.inference.estimate import Estimate


def remembering(draw: random.Random, length: int, memory: float) -> list[float]:
    """A series of variance 1 whose values remember the one before."""
    value, fresh = draw.gauss(0, 1), math.sqrt(1 - memory**2)
    series = []
    for _ in range(length):
        value = memory * value + fresh * draw.gauss(0, 1)
        series.append(value)
    return series


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9])
def test_an_interval_holds_the_difference_of_series_that_remember(memory: float) -> None:
    """95 % of them; a plain interval of a series with memory 0.9 holds it in four of ten cases."""
    draw, held = random.Random(11), 0
    for _ in range(300):
        first, second = (remembering(draw, 800, memory) for _ in range(2))
        _, low, high = mean_difference(first, [0.3 + value for value in second])
        assert low is not None
        assert high is not None
        held += low <= 0.3 <= high
    assert held >= 270, f"{held} of 300"


def test_series_that_are_short_have_no_interval() -> None:
    assert mean_difference([], [1.0]) == Estimate(None, None, None)
    assert mean_difference([1.0] * 9, [2.0] * 30) == Estimate(1.0, None, None)
    assert mean_difference([1.0] * 30, [3.0] * 30) == Estimate(2.0, 2.0, 2.0)


def test_without_memory_it_is_welchs_interval_of_the_batches() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    first = [float(value) for batch in range(20) for value in [(-1) ** batch * (batch + 1)] * 5]
    second = [2.0 + value * 3 for value in first]
    batches = [[series[5 * at] for at in range(20)] for series in (second, first)]
    expected = scipy_stats.ttest_ind(*batches, equal_var=False).confidence_interval(0.95)
    _, low, high = mean_difference(first, second)
    # degrees of freedom are rounded down, to a whole number
    assert (low, high) == pytest.approx((expected.low, expected.high), rel=0.01)


def test_values_without_memory_are_batches_of_their_own() -> None:
    first, second = [1.0, 2.0, 3.0], [4.0, 6.0, 8.0]
    assert mean_difference(first, second) == Estimate(4.0, None, None)
    difference, low, high = mean_difference(first, second, least=1)
    # Welch: the error is sqrt(1 / 3 + 4 / 3), with 2.94 degrees of freedom, of which 2 are taken.
    assert difference == 4.0
    assert (low, high) == pytest.approx((4 - 4.302653 * math.sqrt(5 / 3), 4 + 4.302653 * math.sqrt(5 / 3)))
