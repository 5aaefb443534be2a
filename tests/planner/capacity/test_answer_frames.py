"""Answers of capacity as frames: instants, durations and dollars, and integers where they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ranksim as rs
from ranksim.core.clock import HOUR, MINUTE, SECOND
from ranksim.core.contract.quantities import Distribution
from ranksim.core.money import MICRO_USD
from ranksim.planner.capacity.largest import largest
from ranksim.planner.capacity.outage import Outage, outage_cost
from ranksim.planner.capacity.plan_fit import fit
from ranksim.planner.capacity.portfolio import Portfolio
from ranksim.planner.capacity.queueing import Peak
from ranksim.planner.capacity.slots import Churn, slot_use
from ranksim.planner.capacity.sync import Sync, sync_time
from ranksim.planner.capacity.workers import workers_needed

pytest.importorskip("pandas")

TAKES = Distribution(kind="constant", durations=(MINUTE,), sigma=0.0)

ANSWERS: dict[str, Callable[[], Any]] = {
    "slots": lambda: slot_use(Churn(keywords=10, adds=1.0), 100, start="2026-03-01", days=2),
    "sync": lambda: sync_time(Sync(keywords=300)),
    "outage": lambda: outage_cost(Outage(HOUR, MINUTE, law="regular")),
    "portfolio": lambda: largest(Portfolio(pairings=4), "pro"),
    "workers": lambda: workers_needed({"crawl": Peak(4, TAKES, over=0)}, replications=0),
    "fit": lambda: fit(Portfolio(domains=2, keywords=10)),
}


def test_the_days_of_slots_are_datetimes() -> None:
    answer = ANSWERS["slots"]()
    frame = answer.frame()
    assert str(frame["t"].dtype.tz) == "UTC"
    assert frame["t"][0].isoformat() == "2026-03-02T00:00:00+00:00"
    assert answer.frame(integers=True)["t"][0] == answer.days[0].t
    assert {column: frame[column].dtype.kind for column in frame if frame[column].dtype.kind not in "fi"} == {
        "t": "M"
    }


def test_the_times_of_a_sync_are_timedeltas() -> None:
    answer = ANSWERS["sync"]()
    assert [round(span.total_seconds() * SECOND) for span in answer.frame()["time"]] == [
        row["time"] for row in answer.rows()
    ]


def test_what_a_limit_is_of_tells_the_unit_of_its_row() -> None:
    answer = ANSWERS["portfolio"]()
    frame = answer.frame().set_index("name")
    ceiling = next(room.limit for room in answer.limits if room.limit.quantity == "money")
    slots = next(room.limit for room in answer.limits if room.limit.name == "keyword slots")
    assert frame.loc[ceiling.name, "there"] == ceiling.there / MICRO_USD
    assert frame.loc[ceiling.name, "need"] == ceiling.need / MICRO_USD
    assert frame.loc["keyword slots", "there"] == slots.there


def test_the_prices_of_plans_are_dollars() -> None:
    answer = ANSWERS["fit"]()
    dear = answer.frame().set_index("plan")["plan_price_usd"]
    assert dear["pro"] == 129
    assert (
        answer.frame("answer", integers=True).set_index("plan")["plan_price_uusd"]["pro"] == 129 * MICRO_USD
    )
    ceiling = answer.frame("limits").query("plan == 'pro' and quantity == 'money'")
    assert list(ceiling["there"]) == [90]


@pytest.mark.parametrize("question", ANSWERS)
def test_every_answer_is_a_frame_with_a_row_a_row(question: str) -> None:
    answer = ANSWERS[question]()
    for name, rows in answer.tables.items():
        assert len(answer.frame(name)) == len(answer.frame(name, integers=True)) == len(rows) > 0
    with pytest.raises(rs.BadInput, match="frame: expected one of answer"):
        answer.frame("answers")
