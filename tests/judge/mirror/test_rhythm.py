"""Clients that call as often, and at the hours, that were seen."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ranksim as rs
from ranksim.core.clock import DAY, HOUR, SECOND, duration
from ranksim.core.contract.located import Located
from ranksim.inference.estimate import Estimate
from ranksim.judge.mirror.rhythm import DAYTIME, FEWEST_CALLS, FEWEST_IN_RHYTHM, caller

WORLDS = 200
FIRST = 7_300
MIX = {"domains.list": 1}


DAYS = 14


def planted(seed: int, daily: float, by_day: float, together: float = 1) -> list[int]:
    """Instants of calls by chance, in clusters of a mean size: so many a day, of which a share in daytime."""
    draw = random.Random(seed)
    at, instants = 0.0, []
    most = daily / together / DAY * 2 * max(by_day, 1 - by_day)
    while (at := at + draw.expovariate(most)) < DAYS * DAY:
        share = by_day if at % DAY // HOUR in DAYTIME else 1 - by_day
        if draw.random() < share / max(by_day, 1 - by_day):
            instants.append(int(at))
            while draw.random() > 1 / together:
                instants.append(instants[-1])
    return instants


def _within(found: Estimate | None, truth: float) -> bool:
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return found.low <= truth <= found.high


@pytest.mark.slow
def test_planted_rates_and_hours_are_within_their_intervals_in_95_of_100_worlds() -> None:
    rates = shares = 0
    for seed in range(FIRST, FIRST + WORLDS):
        draw = random.Random(-seed)
        daily, by_day = draw.uniform(15, 60), draw.uniform(0.3, 0.9)
        seen = caller("acme", None, MIX, planted(seed, daily, by_day), (0, DAYS * DAY))
        assert seen is not None
        rates += _within(seen.daily, daily)
        shares += _within(seen.daytime, by_day)
    print(f"within their intervals, from seed {FIRST}: {rates} rates, {shares} shares of {WORLDS}")
    assert rates >= 181
    assert shares >= 181


@pytest.mark.slow
def test_a_rate_of_calls_in_clusters_is_within_its_interval_in_95_of_100_worlds() -> None:
    rates = 0
    truths, rated = [], []
    for seed in range(FIRST, FIRST + WORLDS):
        daily = random.Random(-seed).uniform(5, 15)
        seen = caller("acme", None, MIX, planted(seed, daily, 0.5, together=6), (0, DAYS * DAY))
        assert seen is not None
        rates += _within(seen.daily, daily)
        truths.append(daily)
        rated.append(seen.daily.mean or 0)
    print(f"within their intervals, from seed {FIRST}: {rates} rates of clusters of {WORLDS}")
    assert rates >= 181
    assert abs(sum(rated) / sum(truths) - 1) < 0.05


def test_the_quiet_before_and_after_counts_and_clusters_are_said() -> None:
    instants = [day * DAY + number for day in (4, 6, 7, 9) for number in range(8)]
    seen = caller("acme", None, MIX, instants, (0, 16 * DAY))
    assert seen is not None
    assert seen.daily.mean == 2.0
    assert duration(seen.client["every"]) == DAY // 2
    assert "; about 8.0 at once there, one at a time here" in seen.sentence("acme-crawl")
    alone = caller("acme", None, MIX, [number * DAY for number in range(30)], (0, 29 * DAY))
    assert alone is not None
    assert (alone.daily.mean, "at once" in alone.sentence("acme-crawl")) == (1.0, False)


@given(st.integers(0, 10_000), st.floats(20, 60), st.floats(0.1, 0.9))
def test_the_client_calls_as_often_and_at_the_same_hours(seed: int, daily: float, by_day: float) -> None:
    instants = planted(seed, daily, by_day)
    seen = caller("acme", "main", MIX, instants, (0, DAYS * DAY))
    assert seen is not None
    hours = seen.client["rhythm"]["hours"]
    assert abs(sum(hours) - 24) < 0.1
    share = sum(at % DAY // HOUR in DAYTIME for at in instants) / len(instants)
    assert abs(sum(hours[hour] for hour in DAYTIME) / 24 - share) < 0.1
    assert abs(DAY / duration(seen.client["every"]) / (seen.daily.mean or 0) - 1) < 0.01
    again = rs.Scenario.read(Located("planted", {
            "start": "2026-03-02T00:00:00Z", "length": "14d", "seed": seed,
            "accounts": {"acme": {"plan": "agency", "keys": ["main"], "portfolio": {"domains": 1}}},
            "clients": {"again": seen.client},
        }, {}))  # fmt: skip
    calls = rs.run(again).metric("calls.total").mean or 0
    assert abs(calls - 14 * daily) < 6 * (14 * daily) ** 0.5 + 6 * len(instants) ** 0.5


@pytest.mark.parametrize("instants", [[], [7] * 30, list(range(FEWEST_CALLS - 1))])
def test_too_few_calls_or_one_instant_are_no_rate(instants: list[int]) -> None:
    assert caller("acme", None, MIX, instants, (0, DAY)) is None


def test_hours_are_not_looked_at_in_a_short_recording() -> None:
    minutely = [60 * SECOND * number for number in range(FEWEST_IN_RHYTHM)]
    assert {late - early for early, late in pairwise(minutely)} == {60 * SECOND}
    seen = caller("acme", None, MIX, minutely, (minutely[0], minutely[-1]))
    assert seen is not None
    assert "rhythm" not in seen.client
    assert seen.client["every"] == "1m"
    assert "between" not in seen.sentence("acme-crawl")
