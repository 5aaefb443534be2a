"""Grids of values between two ends."""

from typing import Any

import pytest

from ranksim.planner.study.scale import Scale


@pytest.mark.parametrize(
    ("ends", "values"),
    [
        ((1, 4), [1, 2, 3, 4]),
        ((1, 8, 3), [1, 4, 7, 8]),
        ((0.5, 0.8, 0.2), [0.5, 0.7, 0.8]),
        ((0.5, 0.8, 0.1), [0.5, 0.6, 0.7, 0.8]),
        ((0, 1, 0.5), [0.0, 0.5, 1.0]),
        (("80 USD", "81 USD", "0.5 USD"), ["80 USD", "80.5 USD", "81 USD"]),
        (("30s", "2m", "30s"), ["30s", "1m", "1m30s", "2m"]),
    ],
)
def test_values(ends: tuple[Any, ...], values: list[Any]) -> None:
    scale = Scale.between(*ends)
    assert [scale.value(index) for index in range(scale.count)] == values


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ((4, 1), "lower value first"),
        ((1, 1), "lower value first"),
        ((1, "2 USD"), "two numbers, amounts or durations"),
        (("1h", "2 USD"), "two numbers, amounts or durations"),
        (("one", "two"), "numbers, amounts or durations"),
        ((None, 2), "two numbers"),
        ((True, False), "numbers"),
        ((1, 4, 0), "step: expected more than nothing"),
        (("1h", "2h", 5), "durations"),
    ],
)
def test_what_is_no_grid(ends: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Scale.between(*ends)


@pytest.mark.parametrize(
    ("ends", "values"),
    [
        ((1, 3), [1, 1, 2, 3, 3]),
        ((0.0, 1.0), [0.0, 0.25, 0.5, 0.75, 0.99]),
        (("1 USD", "2 USD"), ["1 USD", "1.25 USD", "1.5 USD", "1.75 USD", "1.99 USD"]),
    ],
)
def test_shares_of_the_way(ends: tuple[Any, ...], values: list[Any]) -> None:
    scale = Scale.between(*ends)
    assert [scale.at(share) for share in (0.0, 0.25, 0.5, 0.75, 0.99)] == values
