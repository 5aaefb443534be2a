"""Intervals against SciPy, MSER-5 on series whose answer is known, and the rule to stop by."""

import math
import random

import numpy as np
import pytest
import scipy

from ranksim.inference.distributions import student_t
from ranksim.inference.estimate import Estimate
from ranksim.inference.kinds import MetricSample
from ranksim.inference.means import estimate, one_more
from ranksim.inference.precision import FIRST_STAGE, is_precise, relative_half_width
from ranksim.inference.skewed import skewed, unskewed
from ranksim.inference.warm_up import most_dropped, mser5, welch


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 6, 7, 9, 10, 19, 29, 30, 99, 100, 999, 1000])
@pytest.mark.parametrize("p", [0.005, 0.025, 0.1, 0.5, 0.6, 0.9, 0.95, 0.975, 0.995, 0.9995])
def test_student_t_is_that_of_scipy(p: float, freedom: int) -> None:
    assert student_t(p, freedom) == pytest.approx(scipy.stats.t.ppf(p, freedom), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("p", "freedom"), [(0.0, 3), (1.0, 3), (1.5, 3), (0.9, 0)])
def test_student_t_refuses_what_has_no_quantile(p: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        student_t(p, freedom)


def test_the_interval_of_values_without_skewness_is_that_of_scipy() -> None:
    values = [3.0, 4.5, 4.75, 5.25, 5.5, 7.0]
    expected = scipy.stats.t.interval(
        0.9, len(values) - 1, loc=np.mean(values), scale=scipy.stats.sem(values)
    )
    assert estimate(values, 0.9) == pytest.approx((np.mean(values), *expected))


@pytest.mark.parametrize("level", [0.8, 0.95, 0.98])
@pytest.mark.parametrize(
    "values", [[0.1, 0.2, 0.4, 0.5, 9.0], [3.0, 5.0, 4.0, 7.5, 6.25, 4.5], [1.0, 1.0, 2.0]]
)
def test_the_farther_end_is_where_halls_transformation_reaches_students_quantile(
    values: list[float], level: float
) -> None:
    mean, low, high = estimate(values, level)
    assert low is not None
    assert high is not None
    student = scipy.stats.t.interval(
        level, len(values) - 1, loc=np.mean(values), scale=scipy.stats.sem(values)
    )
    assert low == pytest.approx(student[0])  # skewed to the right: only the upper end moves
    assert high > student[1]
    n, skewness = len(values), scipy.stats.skew(values, bias=False)
    t = (mean - high) / scipy.stats.sem(values)
    transformed = t + skewness * t**2 / (3 * n**0.5) + skewness**2 * t**3 / (27 * n) + skewness / (6 * n**0.5)
    assert transformed == pytest.approx(scipy.stats.t.ppf((1 - level) / 2, n - 1))


def test_the_interval_of_mirrored_values_is_mirrored() -> None:
    values = [0.1, 0.2, 0.4, 0.5, 9.0]
    mean, low, high = estimate(values)
    assert mean is not None
    assert low is not None
    assert high is not None
    assert estimate([-value for value in values]) == pytest.approx((-mean, -high, -low))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], Estimate(None, None, None)),
        ([7.0], Estimate(7.0, None, None)),
        ([0.1, 0.1, 0.1], Estimate(0.1, 0.1, 0.1)),
    ],
)
def test_an_interval_needs_two_values(values: list[float], expected: Estimate) -> None:
    assert estimate(values) == expected


def test_half_the_intervals_at_half_confidence_hold_the_mean() -> None:
    source = random.Random(5)
    hits = 0
    for _ in range(2000):
        drawn = estimate([source.gauss(10, 3) for _ in range(6)], 0.5)
        assert drawn.low is not None
        assert drawn.high is not None
        hits += drawn.low <= 10 <= drawn.high
    assert 900 < hits < 1100


@pytest.mark.parametrize(
    ("values", "relative", "enough"),
    [
        ([], 0.5, False),
        ([100.0] * 29, 0.5, False),  # the first stage is 30
        ([100.0] * 30, 0.01, True),
        ([0.0] * 1000, 0.01, False),  # no share of nothing
        ([-1.0, 1.0] * 15, 10.0, False),
        ([99.0, 101.0] * 14, 0.5, False),
        ([99.0, 101.0] * 15, 0.0037, False),  # half width 0.380 % of the mean: above 0.0037 / 1.0037
        ([99.0, 101.0] * 15, 0.0039, True),  # and below 0.0039 / 1.0039
    ],
)
def test_the_rule_to_stop_by(values: list[float], relative: float, enough: bool) -> None:
    assert FIRST_STAGE == 30
    assert is_precise(MetricSample("mean", values), relative) is enough


def test_relative_half_width() -> None:
    values = [90.0, 110.0, 100.0]
    mean, low, high = estimate(values)
    assert mean is not None
    assert low is not None
    assert high is not None
    assert relative_half_width(MetricSample("mean", values)) == pytest.approx((high - mean) / mean)
    assert relative_half_width(MetricSample("mean", [1.0])) == math.inf


def test_precision_of_a_share_is_that_of_all_trials() -> None:
    """The shares of replications scatter by the few calls of most; the share of all calls is well known."""
    sample = MetricSample("share", [0.0, 1.0, 0.1] * 20, [1.0, 1.0, 1000.0] * 20)
    assert not is_precise(MetricSample("mean", sample.values), 0.1)
    assert is_precise(sample, 0.1)
    uneven = MetricSample("share", [0.5] * 58 + [0.9, 0.1], [1.0] * 58 + [1000.0] * 2)
    assert is_precise(MetricSample("mean", uneven.values), 0.1)
    assert not is_precise(uneven, 0.1)


def test_mser5_drops_a_start_that_differs() -> None:
    noise = random.Random(1)
    warm = [50 - i for i in range(40)]
    steady = [10 + noise.uniform(-1, 1) for _ in range(400)]
    assert 30 <= mser5([*warm, *steady]) <= 50


@pytest.mark.parametrize(
    ("series", "dropped"),
    [
        ([], 0),
        ([9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 0),
        ([1.0] * 50, 0),
        ([9.0] * 5 + [1.0, 2.0] * 20, 5),
        ([9.0] * 6 + [1.0, 2.0] * 20, 10),
        ([1.0] * 40 + [9.0] * 10, 0),
    ],
)
def test_mser5_on_known_series(series: list[float], dropped: int) -> None:
    assert mser5(series) == dropped


@pytest.mark.parametrize("away", [-8.0, 8.0])
def test_welch_drops_a_start_that_differs(away: float) -> None:
    noise = random.Random(2)
    runs = [[10 + away * (i < 40) + noise.uniform(-1, 1) for i in range(400)] for _ in range(10)]
    assert 40 <= welch(runs) <= 80  # the moving average reaches 40 to either side
    assert welch([[value - away * (i < 40) for i, value in enumerate(run)] for run in runs]) < 10


def test_welch_drops_no_more_than_half() -> None:
    noise = random.Random(4)
    runs = [[i + noise.uniform(-1, 1) for i in range(103)] for _ in range(10)]
    assert welch(runs) == most_dropped(103) == 50
    assert welch(runs[:1]) == welch([run[:9] for run in runs]) == 0


def test_mser5_is_its_definition() -> None:
    source = random.Random(3)
    series = [100 / (1 + i) + source.random() for i in range(103)]
    means = [sum(series[5 * k : 5 * k + 5]) / 5 for k in range(20)]

    def statistic(cut: int) -> float:
        rest = means[cut:]
        mean = sum(rest) / len(rest)
        return sum((x - mean) ** 2 for x in rest) / len(rest) ** 2

    assert mser5(series) == 5 * min(range(11), key=statistic)


@pytest.mark.parametrize("a", [0.0, 1e-7, 0.01, -0.2, 0.6])
@pytest.mark.parametrize("t", [-4.0, -0.5, 0.0, 1.9, 12.0])
def test_skewness_is_put_back_as_it_was_taken(t: float, a: float) -> None:
    assert skewed(unskewed(t, a), a) == pytest.approx(t, abs=1e-4)


def test_the_interval_holds_one_more_value() -> None:
    """Of six values drawn alike the last lies in the interval of the others in about 19 of 20 cases."""
    draw, held = random.Random(5), 0
    for _ in range(1000):
        *values, last = (draw.gauss(0.5, 0.02) for _ in range(6))
        _, low, high = one_more(values)
        assert low is not None
        assert high is not None
        held += low <= last <= high
    assert 940 <= held <= 985
