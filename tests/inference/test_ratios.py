"""Changes in per cent of what was before, from pairs."""

import random
from collections.abc import Sequence
from statistics import fmean, stdev

import pytest

from ranksim.inference.estimate import Estimate
from ranksim.inference.kinds import MetricSample
from ranksim.inference.ratios import relative_change

from .covering import covering


def test_what_is_0_in_every_replication_is_less_by_all_of_it() -> None:
    change = relative_change(MetricSample("amount", [0.0] * 20), MetricSample("amount", list(range(1, 21))))
    assert change == (-1.0, None, None)


def test_what_is_as_much_in_proportion_has_a_sure_change_however_much_both_vary() -> None:
    before = [5.0, 9.0, 7.5, 8.0]
    change = relative_change(
        MetricSample("amount", [1.5 * x for x in before]), MetricSample("amount", before)
    )
    assert change == (0.5, None, None)


def test_amounts_have_the_interval_of_the_delta_method() -> None:
    draws = random.Random(1)
    a = [draws.gauss(10, 1) for _ in range(40)]
    b = [0.3 * x + draws.gauss(1, 0.2) for x in a]
    mean, low, high = relative_change(MetricSample("amount", b), MetricSample("amount", a))
    ratio = fmean(b) / fmean(a)
    error = stdev(y - ratio * x for x, y in zip(a, b, strict=True)) / 40**0.5 / fmean(a)
    assert mean == pytest.approx(ratio - 1)
    assert low is not None
    assert high is not None
    assert (high - low) / 2 == pytest.approx(2.023 * error, rel=0.05)


def test_shares_are_those_of_all_trials_and_what_has_no_value_is_left_out() -> None:
    b = MetricSample("share", [0.5, 0.2, None], [10, 30, 5])
    a = MetricSample("share", [0.5, 0.5, 0.1], [20, 20, 0])
    assert relative_change(b, a).mean == pytest.approx(11 / 40 / 0.5 - 1)
    assert relative_change(b, MetricSample("share", [0.0, 0.0], [5, 5])) == (None, None, None)
    assert relative_change(MetricSample("mean", []), MetricSample("mean", [])) == (None, None, None)


@pytest.mark.parametrize("replications", [5, 20])
def test_intervals_of_waits_that_vary_together_cover(replications: int) -> None:
    """B is a tenth of A and something of its own, both skewed."""
    draws = random.Random(replications)

    def pair() -> list[float]:
        first = [draws.gammavariate(4, 1) for _ in range(replications)]
        return [*first, *(0.1 * x + draws.gammavariate(4, 0.05) for x in first)]

    def change(both: Sequence[float]) -> Estimate:
        a, b = both[:replications], both[replications:]
        return relative_change(MetricSample("amount", b), MetricSample("amount", a))

    share = covering(change, pair, 0.6 / 4 - 1, tries=1000) / 1000
    assert share >= 0.93, share
