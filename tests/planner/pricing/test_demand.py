"""Who leaves: the shares that stay, in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksim.core.errors import BadInput
from ranksim.planner.pricing.demand import Demand, demand_of

SHARES = st.integers(0, 100).map(lambda percent: Fraction(percent, 100))
BILLS = st.integers(0, 5_000).map(lambda cents: cents * 10_000)


@given(price=SHARES, refused=SHARES, bills=st.lists(st.tuples(BILLS, BILLS, st.booleans()), min_size=1))
def test_the_share_that_stays(price: Fraction, refused: Fraction, bills: list[tuple[int, int, bool]]) -> None:
    expected = [
        max(Fraction(0), 1 - (price * (Fraction(after, before) - 1) if before else 0))
        * (1 - (refused if newly else 0))
        for after, before, newly in bills
    ]
    demand = Demand(float(price), float(refused))
    after, before, newly = (np.array(column) for column in zip(*bills, strict=True))
    assert demand.stay(after, before, newly).tolist() == pytest.approx([*map(float, expected)])
    alone = [float(demand.stay(*bill)) for bill in bills]
    assert alone == pytest.approx([*map(float, expected)])


def test_what_is_assumed_is_told() -> None:
    said = "Nobody is assumed to leave, or to buy another plan, because of a price or a refusal."
    assert demand_of(None).sentence == Demand().sentence == said
    assert Demand(price=0.4, refused=0.25).sentence == (
        "Assumed, not measured: of customers whose bill rises by a tenth 4 % leave (and as many come where "
        "it falls), and 25 % of those refused in a way that they never were; nobody buys another plan."
    )

    assert Demand(price=2).sentence == (
        "Assumed, not measured: of customers whose bill rises by a tenth 20 % leave (and as many come where "
        "it falls), and none of those refused in a way that they never were; nobody buys another plan."
    )


@pytest.mark.parametrize(
    ("price", "refused", "flag"),
    [
        (-0.1, 0.0, "price: expected a ratio from 0 to 10"),
        (11, 0.0, "price: expected a ratio"),
        ("40%", 0.0, "price: expected a ratio from 0 to 10, such as 0.4 for 40 %, found '40%'"),
        (0.0, "5%", "refused: expected a share between 0 and 1, found '5%'"),
        (0.0, 1.5, "refused: expected a share between 0 and 1"),
    ],
)
def test_shares_are_shares(price: Any, refused: Any, flag: str) -> None:
    with pytest.raises(BadInput, match=f"^{flag}"):
        Demand(price, refused)
