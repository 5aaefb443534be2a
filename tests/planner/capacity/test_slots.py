"""Slot use under churn: by hand, by the exact distribution, and as simulated accounts show it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ranksim as rs
from ranksim.cli import app
from ranksim.core.clock import DAY, instant
from ranksim.core.errors import BadInput
from ranksim.planner.capacity.slots import Churn, SlotChange, month_lengths, slot_use
from ranksim.planner.capacity.slots_world import simulate_slot_use

MARCH = instant("2026-03-01T00:00:00Z")


def poisson_above(n: int, mean: float) -> float:
    return 1 - math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(n + 1))


@pytest.mark.fact("S26", "S27", "E17", "U63")
@pytest.mark.parametrize(
    ("day", "used", "refused_by"),
    [
        (1, 4040, 0),  # 1,000 × 4 slots, and ten fresh words
        (24, 4960, 0),
        (25, 5000, 0),  # 250 fresh words: full
        (26, 5000, 1),
        (31, 5000, 1),  # 1,250 tracked or held, 310 of them held
        (32, 3800, 1),  # the holds are gone: 940 words, and ten fresh ones
        (33, 3840, 1),
    ],
)
def test_ten_words_in_and_out_a_day(day: int, used: int, refused_by: float) -> None:
    answer = slot_use(Churn(1000, 2, 2, adds=10, removals=10, law="fixed"), 5000, start=MARCH, days=40)
    found = answer.days[day - 1]
    assert (found.used_mean, found.used_p5, found.used_p95, found.refused_by) == (
        used,
        used,
        used,
        refused_by,
    )
    assert answer.room == 250


@pytest.mark.parametrize("day", [20, 24, 25, 26, 30])
def test_the_chance_is_that_of_too_many_fresh_words(day: int) -> None:
    answer = slot_use(Churn(1000, 2, 2, adds=10), 5000, start=MARCH, days=31)
    assert answer.days[day - 1].refused_by == pytest.approx(poisson_above(250, 10 * day), abs=1e-9)


@pytest.mark.fact("E18")
def test_removals_free_nothing_within_the_month() -> None:
    still = slot_use(Churn(200, adds=3), 300, start=MARCH, days=31)
    churning = slot_use(Churn(200, adds=3, removals=6), 300, start=MARCH, days=31)
    assert [day.refused_by for day in still.days] == [day.refused_by for day in churning.days]


def test_removals_tell_in_the_next_month() -> None:
    still = slot_use(Churn(200, adds=3), 320, start=MARCH, days=40)
    churning = slot_use(Churn(200, adds=3, removals=3), 320, start=MARCH, days=40)
    assert still.days[39].refused_by > churning.days[39].refused_by + 0.3
    assert churning.days[31].used_mean == pytest.approx(203, abs=0.5)


def test_there_are_never_fewer_words_than_none() -> None:
    last = slot_use(Churn(2, removals=5), 10, start=MARCH, days=40).days[-1]
    assert (last.used_mean, last.used_p50, last.used_p95) == (pytest.approx(0), 0, 0)


def test_far_more_additions_than_fit_fill_the_slots_and_no_more() -> None:
    day = slot_use(Churn(10, adds=100), 20, start=MARCH, days=5).days[4]
    assert (day.used_mean, day.refused_by) == (pytest.approx(20), pytest.approx(1))


@pytest.mark.fact("E20")
def test_months_have_the_lengths_of_the_account() -> None:
    assert list(month_lengths(instant("2026-01-31T09:30:00Z"), 60)) == [28, 31, 30]


def test_simulated_accounts_agree_with_the_fixed_law_to_the_slot() -> None:
    churn = Churn(40, 2, 2, adds=3, removals=2, law="fixed")
    answer = simulate_slot_use(churn, 480, start=MARCH, days=40, replications=1)
    for day in answer.days:
        assert day.observed_used is not None
        assert day.observed_refused is not None
        assert day.observed_used.mean == day.used_mean, day
        assert day.observed_refused.mean == day.refused_by, day


@pytest.mark.slow
def test_simulated_accounts_agree_with_the_poisson_law() -> None:
    churn = Churn(50, 2, 1, adds=3, removals=2)
    answer = simulate_slot_use(churn, 270, start=MARCH, days=55, replications=200, seed=5)
    outside = 0
    for row in answer.rows():
        outside += not row["observed_refused_low"] - 1e-9 <= row["refused_by"] <= row["observed_refused_high"]
        assert row["observed_used"] == pytest.approx(row["used_mean"], rel=0.03)
    assert outside <= 3  # of 55 intervals of 95 %, on correlated days
    assert 0.2 < answer.days[54].refused_by < 0.99


@pytest.mark.parametrize(
    ("churn", "limit", "message"),
    [
        ({"keywords": -1}, 100, "keywords: expected 0 to 10000000, found -1"),
        ({"keywords": 1, "pairings": 0}, 100, "pairings: expected 1 or more, found 0"),
        (
            {"keywords": 1, "adds": float("nan")},
            100,
            "adds: expected words a day, from 0 to 100000, found nan",
        ),
        ({"keywords": 1, "adds": 1.5, "law": "fixed"}, 100, "adds: expected a whole number with law fixed"),
        ({"keywords": 26, "pairings": 4}, 100, "at most 25, which is 100 slots at 4 each, found 26"),
        (
            {"keywords": 25, "pairings": 4, "held": 1, "beside": 3},
            100,
            "at most 24, which is 100 slots beside 1 that are held and 3 of words of other sizes at 4 each",
        ),
    ],
)
def test_bad_input(churn: dict[str, Any], limit: int, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        slot_use(Churn(**churn), limit)


def test_it_draws_the_limit_and_what_was_observed() -> None:
    churn = Churn(40, adds=3)
    ax = simulate_slot_use(churn, 100, start=MARCH, days=10, replications=3).plot()
    assert (ax.get_ylabel(), len(ax.containers)) == ("slots used, held ones too", 1)
    assert {"limit", "mean; band: 5 to 95 %"} <= {text.get_text() for text in ax.texts}


def test_it_draws_a_single_world_without_interval_and_a_portfolio_that_is_full() -> None:
    ax = simulate_slot_use(Churn(100), 100, start=MARCH, days=2, replications=1).plot()
    assert ax.get_ylim() == (99.95, 100.12)
    assert ax.lines[-1].get_ydata().tolist() == [100, 100]


def test_rows_are_plain() -> None:
    row = slot_use(Churn(40), 100, start=MARCH, days=1).rows()[0]
    assert row["t"] == MARCH + DAY


OTHERS = (
    SlotChange(MARCH + 2 * DAY, 30, 30),
    SlotChange(MARCH + 9 * DAY, 50, 20),
    SlotChange(MARCH + 33 * DAY, 30, 30),
)
"""Slots that something else takes: 110 to come, of which 30 stay beyond the month."""


def test_what_else_an_account_adds_takes_slots_to_the_end_of_the_month() -> None:
    answer = slot_use(Churn(40, 2, 2, adds=1, law="fixed"), 480, start=MARCH, days=40, others=OTHERS)
    used = [day.used_mean for day in answer.days]
    assert (answer.to_come, answer.room) == (80, (480 - 160 - 80) // 4)
    assert (used[1], used[2], used[9], used[30]) == (168, 172 + 30, 200 + 80, 284 + 80)
    assert (used[31], used[33]) == (288 + 30, 296 + 60)  # from 1 April on what was removed is free
    assert [day.refused_by for day in answer.days] == [0] * 40


@pytest.mark.parametrize("limit", [480, 364, 363, 300])
def test_simulated_accounts_agree_on_what_else_is_added(limit: int) -> None:
    churn = Churn(40, 2, 2, adds=1, law="fixed")
    answer = simulate_slot_use(churn, limit, start=MARCH, days=40, replications=1, others=OTHERS)
    for day in answer.days:
        assert day.observed_used is not None
        assert day.observed_refused is not None
        assert day.observed_refused.mean == day.refused_by, day
        if not day.refused_by:
            assert day.observed_used.mean == day.used_mean, day
        assert day.used_mean <= limit


def test_what_else_is_added_may_not_fit() -> None:
    """The day is told on which nothing is refused but what others add; then the slots are full."""
    answer = slot_use(Churn(40, adds=0), 60, start=MARCH, days=20, others=OTHERS)
    assert [day.refused_by for day in answer.days] == [0, 0, *[1] * 18]
    assert (answer.room, answer.days[1].used_mean, answer.days[19].used_mean) == (0, 40, 60)


@pytest.mark.parametrize("limit", [190, 184, 60])
def test_words_of_other_sizes_take_slots_in_every_month(limit: int) -> None:
    """3 slots stay beside 10 words of 4, and 3 are held in March; a word comes and one goes each day."""
    churn = Churn(10, 2, 2, adds=1, removals=1, law="fixed", held=3, beside=3)
    answer = simulate_slot_use(churn, limit, start=MARCH, days=40, replications=1)
    used = [day.used_mean for day in answer.days]
    assert (used[0], answer.room) == (3 + 3 + 44, (limit - 6) // 4 - 10)
    for day in answer.days:
        assert day.observed_used is not None
        assert day.observed_refused is not None
        assert (day.observed_used.mean, day.observed_refused.mean) == (day.used_mean, day.refused_by), day


FULL = """\
start: 2026-01-01T00:00:00Z
length: 31d
accounts:
  us:
    plan: pro
    portfolio: {domains: [a.example], keywords: 4501}
    further: [{domains: [b.example], keywords: 4, scans: [{engine_devices: [google/desktop, google/mobile],
      geographies: [US, GB]}]}]
clients:
  sync: {kind: keyword_sync, account: us, every: month, day: 5, at: "08:00", share: 0.10731}
"""
"""4,517 slots; a sync replaces 483 words of 1 slot and 0 of 4: with those all 5,000 are taken."""


@pytest.mark.parametrize(("slots", "refused"), [(5_000, 0), (4_999, 1)])
def test_slots_of_words_that_differ_are_those_of_the_world(tmp_path: Path, slots: int, refused: int) -> None:
    scenario = rs.Scenario.parse(FULL).changed({"policy.catalogue.plans.pro.slot_limit": slots})
    path = tmp_path / "scenario.yaml"
    path.write_text(FULL, encoding="utf-8")
    command = ["capacity", "slots", "--scenario", str(path), "--adds", "0", "--limit", str(slots), "--json"]
    days = json.loads(CliRunner().invoke(app, command).stdout)["tables"]["answer"]
    assert [day["used_mean"] for day in days] == [4_517] * 4 + [slots] * 27
    assert [day["refused_by"] for day in days] == [0] * 4 + [refused] * 27
    assert rs.run(scenario).metric("refusals.slot_limit_exceeded").mean == refused
