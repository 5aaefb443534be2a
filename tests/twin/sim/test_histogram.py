"""Quantiles against NumPy, of few distinct values exactly, and merging."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksim.twin.sim.histogram import EXACT, Histogram, bucket_of, middle_of

QUANTILES = (0.0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 1.0)


def of(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


def draws() -> dict[str, list[int]]:
    source = np.random.default_rng(7)
    return {
        "exponential": source.exponential(250_000, 5000).astype(int).tolist(),
        "lognormal": source.lognormal(17, 3, 5000).astype(int).tolist(),
        "small": source.integers(0, 200, 5000).tolist(),
        "one": [1_234_567],
    }


@pytest.mark.parametrize("name", draws())
@pytest.mark.parametrize("q", QUANTILES)
def test_a_quantile_is_that_of_numpy_within_half_a_percent(name: str, q: float) -> None:
    values = draws()[name]
    assert of(values).quantile(q) == pytest.approx(np.quantile(values, q, method="inverted_cdf"), rel=0.004)


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=EXACT), st.integers(0, 2**40))
def test_few_distinct_values_are_counted_exactly(values: list[int], bound: int) -> None:
    counted = of(values * 3)
    for q in QUANTILES:
        assert counted.quantile(q) == np.quantile(values, q, method="inverted_cdf")
    assert counted.within(bound) == 3 * sum(value <= bound for value in values)


def test_many_distinct_values_are_counted_by_bucket() -> None:
    longest = 10_000_000
    counted = of([longest + value for value in range(EXACT + 1)])
    assert not counted.exact
    assert len(counted.times) == 1
    assert counted.within(longest) == counted.count


def test_a_quantile_lies_at_its_rank() -> None:
    assert of(list(range(1, 101))).quantile(0.07) == 7  # 0.07 · 100 is more than 7 in floats


@given(st.integers(0, 2**60))
def test_a_bucket_is_within_one_percent_of_what_it_counts(value: int) -> None:
    assert abs(middle_of(bucket_of(value)) - value) <= value / 256
    assert bucket_of(value) <= bucket_of(value + 1) <= bucket_of(value) + 1


@pytest.mark.parametrize("sizes", [(EXACT, 1), (EXACT // 2, EXACT), (EXACT + 1, EXACT + 1), (3, EXACT + 1)])
def test_merging_many_is_adding_all(sizes: tuple[int, int]) -> None:
    left, right = (
        [10_000_000 + 97 * at * (side + 1) for at in range(size)] for side, size in enumerate(sizes)
    )
    merged = of(left)
    merged.merge(of(right))
    assert merged.to_plain() == of(left + right).to_plain()


@given(st.lists(st.integers(0, 2**50)), st.lists(st.integers(0, 2**50)))
def test_merging_is_adding_all(left: list[int], right: list[int]) -> None:
    merged = of(left)
    merged.merge(of(right))
    assert merged.to_plain() == of(left + right).to_plain()
    assert merged.count == len(left) + len(right)


@pytest.mark.slow
@given(st.lists(st.integers(0, 2**50), min_size=1))
def test_mean_and_extremes_are_exact(values: list[int]) -> None:
    histogram = of(values)
    assert histogram.mean == sum(values) / len(values)
    assert (histogram.low, histogram.high) == (min(values), max(values))
    assert (histogram.quantile(0), histogram.quantile(1)) == (min(values), max(values))


def test_nothing_has_no_quantile() -> None:
    assert Histogram().quantile(0.5) is None
    assert Histogram().mean is None


def test_plain_data_reads_back_through_json() -> None:
    plain = of([0, 5, 5, 1_000_000, 3_600_000_000]).to_plain()
    back = Histogram.from_plain(json.loads(json.dumps(plain)))
    assert back.to_plain() == plain
    assert back.count == 5


def test_what_cannot_be_counted_is_refused() -> None:
    with pytest.raises(ValueError, match="from 0, not -1"):
        Histogram().add(-1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        Histogram().quantile(1.5)
