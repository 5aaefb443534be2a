"""Quantiles of independent values against SciPy, and of all that replications observed; their intervals."""

import random

import numpy as np
import pytest
import scipy

from ranksim.inference.means import estimate
from ranksim.inference.quantiles import Counted, pooled, quantile, rank_of


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
    assert pooled([[(value, 1) for value in values]], 0.07).mean == 7


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


def runs(seed: int, sizes: list[int]) -> list[Counted]:
    """Whole numbers that depend on each other within a run."""
    draws = np.random.default_rng(seed)
    found = [
        np.unique(draws.geometric(0.02 + 0.1 * draws.random(), size), return_counts=True) for size in sizes
    ]
    return [list(zip(values.tolist(), times.tolist(), strict=True)) for values, times in found]


def spread(run: Counted) -> list[float]:
    return [value for value, times in run for _ in range(times)]


@pytest.mark.parametrize("q", [0.3, 0.5, 0.95])
@pytest.mark.parametrize("sizes", [[50, 70, 90, 40, 60, 80], [100] * 12])
def test_the_interval_holds_what_replications_do_not_contradict(q: float, sizes: list[int]) -> None:
    seen = runs(7, sizes)
    value, low, high = pooled(seen, q)
    every = sorted(x for run in seen for x in spread(run))
    assert value == every[int(np.ceil(q * len(every))) - 1]
    not_shown_less, shown_more = [], []
    for place in sorted(set(every)):
        excess = [sum(x <= place for x in spread(run)) - q * len(spread(run)) for run in seen]
        _, from_, to = estimate(excess)
        assert from_ is not None
        assert to is not None
        not_shown_less += [place] if to >= 0 else []
        shown_more += [place] if from_ > 0 else []
    assert (low, high) == (min(not_shown_less), min(shown_more))
    assert low < value < high


def test_too_few_values_have_no_end() -> None:
    few = runs(3, [8] * 6)
    assert pooled(few, 0.99).high is None  # 48 values: even of independent ones 0.99⁴⁸ = 62 % are all below
    assert pooled(few, 0.99).low is not None
    assert pooled(few, 0.01).low is None
    assert None not in pooled(few, 0.5)


def test_one_replication_has_no_interval_and_nothing_no_quantile() -> None:
    assert pooled([[(3, 2), (5, 1), (9, 1)]], 0.5) == (3, None, None)
    assert pooled([[(3, 2), (5, 1), (9, 1)], []], 0.75) == (5, None, None)
    assert pooled([], 0.5) == pooled([[], []], 0.5) == (None, None, None)
