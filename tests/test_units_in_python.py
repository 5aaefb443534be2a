"""Durations and money in Python: whole µs and µUSD, or text with a unit; other numbers are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import ranksim as rs
from ranksim.core.clock import HOUR
from ranksim.judge.load.options import LoadOptions, length_of
from ranksim.planner.capacity.outage import Outage
from ranksim.planner.capacity.plan_fit import fit
from ranksim.planner.capacity.portfolio import Portfolio
from ranksim.planner.capacity.slots import Churn, slot_use
from ranksim.planner.capacity.sync import Sync
from ranksim.twin.testing.clock import length_micros

PRO = rs.Policy().catalogue.plans["pro"]


def plan(**changes: Any) -> rs.Plan:
    return rs.Plan(**{**PRO.model_dump(), **changes})


def test_a_mistake_in_a_model_is_the_sentence_that_yaml_gets() -> None:
    for wrong, message in (
        ({"price": "15"}, "Plan: price: write an amount such as '15 USD', found '15'"),
        ({"price": 1.5}, "Plan: price: write an amount such as '1.5 USD', found 1.5"),
        ({"cooldowns": {"crawl": 1.5}}, "Plan: cooldowns.crawl: write a duration such as '1h30m'"),
        ({"prize": "15 USD"}, "Plan: prize: no such field; did you mean 'price'?"),
    ):
        with pytest.raises(rs.BadInput, match=f"^{re.escape(message)}"):
            plan(**wrong)
    with pytest.raises(
        rs.BadInput, match=r"^Policy: assumptions\.windw: no such field; did you mean 'window'"
    ):
        rs.Policy(assumptions={"windw": "gcra"})
    with pytest.raises(rs.BadInput, match=r"^Population: accounts: is missing; add it"):
        rs.Population()


def test_a_model_within_a_file_is_told_by_its_line() -> None:
    text = "catalogue:\n  plans:\n    pro: {price: 15}\n"
    with pytest.raises(rs.BadInput, match=r"policy\.yaml:3: catalogue\.plans\.pro\.price: write an amount"):
        rs.Policy.parse(text, where="policy.yaml")


@pytest.mark.parametrize("bare", [1.5, True, None])
@pytest.mark.parametrize(
    ("what", "make"),
    [
        ("run_every", lambda given: Portfolio(run_every=given)),
        ("latency", lambda given: Sync(keywords=10, latency=given)),
        ("length", lambda given: Outage(given, "1m")),
        ("start", lambda given: slot_use(Churn(keywords=10, adds=1.0), 100, start=given)),
    ],
)
def test_a_number_without_a_unit_is_no_duration(
    what: str, make: Callable[[Any], object], bare: object
) -> None:
    message = f"^{what}: expected text with its unit, or a whole number of µs, found {bare!r}$"
    with pytest.raises(rs.BadInput, match=message):
        make(bare)


@pytest.mark.parametrize("bare", [60, 1.5, True, None, np.int64(60)])
@pytest.mark.parametrize(("what", "read"), [("length", length_of), ("clock", length_micros)])
def test_what_runs_is_not_told_how_long_by_a_plain_number(
    what: str, read: Callable[[Any], int], bare: object
) -> None:
    message = f"{what}: expected a duration with its unit, such as '60s' or '1h30m', found {bare!r}"
    with pytest.raises(rs.BadInput, match=f"^{re.escape(message)}$"):
        read(bare)


def test_nor_is_one_an_amount_of_money(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKSIM_KEY", "k")
    with pytest.raises(rs.BadInput, match=r"^--spend-cap: write an amount such as '15 USD', found 1\.5"):
        LoadOptions.from_arguments("http://127.0.0.1:9", "", "", 1.5, False, None).target()
    with pytest.raises(rs.BadInput, match=r"^spread: expected text with its unit"):
        fit(Portfolio(), spread=1.5)


def test_text_timedeltas_and_whole_microseconds_are() -> None:
    assert Portfolio(run_every="12h").run_every == Portfolio(run_every=12 * HOUR).run_every == 12 * HOUR
    assert Portfolio(run_every=np.int64(HOUR)).run_every == HOUR
    assert length_micros(timedelta(hours=1)) == length_of("1h") == length_of(timedelta(hours=1)) == HOUR
    assert length_micros(0) == 0


def test_whole_numbers_of_numpy_are_python_s_in_a_question() -> None:
    assert type(Churn(keywords=np.int64(10)).keywords) is int
