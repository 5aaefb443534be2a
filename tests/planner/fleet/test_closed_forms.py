"""Fleets against what can be worked out by hand: steady streams exactly, random ones within four sigmas."""

import math
from typing import Any

import numpy as np
import pytest

from ranksim.core.clock import DAY, HOUR, MINUTE, WEEK, instant
from ranksim.core.contract.policy import Policy
from ranksim.planner.fleet.engine import simulate_fleet
from ranksim.planner.fleet.population import Population
from ranksim.planner.fleet.results import NEVER_HAPPENED, FleetResult
from ranksim.planner.fleet.rows import ACTIVITIES

MONDAY = instant("2026-03-02T00:00:00Z")

FAST = {"facts": {"rates": {"expensive": 1000}}}


def fleet(
    usage: dict[str, Any],
    *,
    accounts: int = 5,
    length: int = WEEK,
    plan: str = "pro",
    policy: dict[str, Any] | None = None,
    log: int = 0,
    run: dict[str, Any] | None = None,
    **segment: Any,
) -> FleetResult:
    """Run customers of one kind on one plan from a Monday on, steady unless said otherwise."""
    population = Population.model_validate(
        {
            "accounts": accounts,
            "start": MONDAY,
            "length": length,
            "segments": {"some": {"plans": plan, "usage": usage, "arrivals": "steady"} | segment},
        }
        | (run or {})
    )
    return simulate_fleet(population, Policy().replace(**(policy or {})), seed=7, log=log)


# Exactly


@pytest.mark.fact("S63")
@pytest.mark.parametrize("limit", [0, 1, 50, 139, 140, 200])
def test_a_quota_of_l_refuses_what_passes_l(limit: int) -> None:
    quotas = {"keyword_brief_refreshes": {"limit": limit}}
    policy = {"catalogue": {"plans": {"pro": {"quotas": quotas}}}}
    result = fleet({"keyword_briefs": 20}, policy=policy)
    assert (result.accounts["calls"] == 140).all()
    assert (result.accounts["quota_exhausted"] == max(0, 140 - limit)).all()
    assert (result.accounts["keyword_brief_refreshes_peak"] == min(140, limit)).all()
    assert (result.accounts["keyword_brief_refreshes_wanted"] == 140).all()
    packs = max(0, math.ceil((140 - limit) / 50))
    assert (result.accounts["brief_pack_needed"] == packs).all()
    covered = fleet({"keyword_briefs": 20}, policy=policy, plans={"pro": {"add_ons": {"brief_pack": packs}}})
    assert not covered.accounts["quota_exhausted"].any(), "what is needed is enough"


@pytest.mark.fact("S109")
def test_a_quota_blocks_until_the_week_ends() -> None:
    """20 a day, 72 minutes apart: the 51st comes within the third day, and all until Monday is blocked."""
    result = fleet({"keyword_briefs": 20}, length=2 * WEEK, log=5 * 280)
    for row in range(5):
        times = result.log["at"][result.log["account"] == row]
        account = result.accounts[row]
        assert account["first_blocked"] == times[50]
        blocked = (MONDAY + WEEK - times[50]) + (MONDAY + 2 * WEEK - times[190])
        assert account["blocked"] == account["blocked_quota_exhausted"] == blocked


@pytest.mark.fact("S104")
@pytest.mark.parametrize("limit", [1, 3, 4, 9])
def test_a_clock_window_refuses_what_passes_its_limit(limit: int) -> None:
    """Four an hour, every quarter: each hour refuses all but the first `limit`."""
    policy = {
        "facts": {"rates": {"read": limit}, "rate_window": "1h"},
        "assumptions": {"window": "clock"},
    }
    result = fleet({"read": 96}, policy=policy)
    hours = 7 * 24
    assert (result.accounts["rate_limited"] == max(0, 4 - limit) * hours).all()
    if limit < 4:
        # From the first refused quarter to the hour's end, as Retry-After tells it, in whole seconds.
        part = (result.accounts["first_blocked"] - MONDAY) % HOUR
        rest = -(-(HOUR - part) // 1_000_000) * 1_000_000
        expected = hours * rest
        # The last hour's block is cut where the run ends.
        assert (np.abs(result.accounts["blocked"] - expected) <= hours * 1_000_000).all()


@pytest.mark.fact("S65", "U46")
def test_a_cooldown_lets_every_second_run_pass() -> None:
    """A run each half hour, a cooldown of an hour, which is over on the instant: every second is refused."""
    policy = {"catalogue": {"job_durations": {"rank_run": "1m"}}}
    result = fleet({"rank_run": 48}, policy=policy, portfolio={"keywords": 1})
    assert (result.accounts["cooldown_active"] == 7 * 24).all()
    assert (result.accounts["admitted"] == 7 * 24).all()


@pytest.mark.fact("U45")
def test_runs_under_way_are_joined() -> None:
    """A run each half hour that takes 70 minutes: one starts, two join it, then the next starts."""
    policy = {
        "catalogue": {
            "job_durations": {"rank_run": "70m"},
            "plans": {"pro": {"cooldowns": {"rank_run": "0s"}}},
        }
    }
    result = fleet({"rank_run": 48}, length=3 * DAY, policy=policy, portfolio={"keywords": 1})
    assert result.operations()[0]["granted"] == 5 * 48
    assert result.operations()[0]["joined"] == 5 * 96


@pytest.mark.fact("S62", "U48")
@pytest.mark.parametrize(("gate", "runs"), [("at_ceiling", 4), ("would_exceed", 3)])
def test_a_ceiling_of_c_pays_for_c_over_c(gate: str, runs: int) -> None:
    """A run of 100 keywords costs 0.04 USD: 0.14 USD pay for 4 runs, or 3 where none may pass it."""
    policy = {
        "assumptions": {"cost_gate": gate, "month": "calendar"},
        "catalogue": {"plans": {"pro": {"cost_ceiling": "0.14 USD"}}},
    }
    result = fleet({"rank_run": 2}, policy=policy, portfolio={"keywords": 100})
    assert (result.accounts["cost_cap_reached"] == 14 - runs).all()
    assert (result.accounts["spend"] == runs * 40_000).all()
    assert (result.accounts["spend_peak"] == runs * 40_000).all()
    assert (result.by_month["blocked"] == MONDAY + WEEK - result.accounts["first_blocked"]).all()


@pytest.mark.fact("S64", "S26")
def test_slots_fill_up_and_stay_held() -> None:
    """100 keywords on 2 devices take 200 of 500; 10 more at a time take 20: 15 additions fit."""
    policy = {"catalogue": {"plans": {"starter": {"slot_limit": 500}}}}
    portfolio = {"keywords": 100, "engine_devices": 2}
    result = fleet({"keywords": 5}, plan="starter", policy=policy, portfolio=portfolio)
    assert (result.accounts["slot_limit_exceeded"] == 35 - 15).all()
    assert (result.accounts["slots_peak"] == 500).all()
    assert (result.accounts["slots_wanted"] == 520).all()
    assert (result.accounts["upgradable"] == 20).all()
    both = fleet(
        {"remove_keywords": 5}, plan="starter", policy=policy | {"assumptions": {"month": "calendar"}},
        portfolio=portfolio, length=3 * DAY,
    )  # fmt: skip
    assert (both.books["held"] == 200).all(), "all are gone, and held to the end of the month"
    assert (both.books["active"] == 0).all()


def test_a_portfolio_is_cut_to_the_plan() -> None:
    portfolio = {"domains": 3, "keywords": 400, "engine_devices": 3}
    result = fleet({"rank_run": 1}, plan="starter", portfolio=portfolio)
    assert (result.books["active"] == 500).all(), "two devices of three, 250 keywords of 1200"
    assert (result.accounts["slots_wanted"] == 3 * 400 * 3).all()


@pytest.mark.fact("S60", "S61")
def test_what_no_time_heals_blocks_until_the_end_and_apart() -> None:
    result = fleet({"ai_scan": 3}, plan="starter")
    assert (result.accounts["entitlement_required"] == 21).all()
    assert (result.accounts["first_blocked"] == NEVER_HAPPENED).all()
    assert (result.accounts["blocked"] == 0).all()
    late = fleet({"ai_scan": 3}, plan="starter", past_due=1)
    assert (late.accounts["entitlement_required"] == 21).all(), "check 1 comes first"
    due = fleet({"rank_run": 3}, past_due=1)
    assert (due.accounts["subscription_inactive"] == 21).all()
    assert (due.accounts["blocked_subscription_inactive"] > 6 * DAY).all()


def test_who_is_told_comes_back_when_the_week_begins() -> None:
    always = {"quota_exhausted": {"retry": 1, "tries": 3}, "backlog": 1000}
    result = fleet(
        {"keyword_briefs": 20}, length=2 * WEEK, log=10_000, after_refusal=always, accounts=1, policy=FAST
    )
    again = result.log[result.log["tries"] > 1]
    # 90 of the first week come back on Monday and 50 of them pass: all of the second week are refused.
    assert again["at"].tolist() == [MONDAY + WEEK] * 90
    assert again["number"].tolist() == list(range(50, 140))
    assert (again["outcome"] == 0).sum() == 50
    assert result.tallies["given_up"].tolist() == [40 + 140]


def test_the_backlog_is_the_most_that_is_kept_in_mind() -> None:
    some = {"quota_exhausted": {"retry": 1, "tries": 3}, "backlog": 7}
    result = fleet(
        {"keyword_briefs": 20}, length=2 * WEEK, log=10_000, after_refusal=some, accounts=1, policy=FAST
    )
    assert (result.log["tries"] > 1).sum() == 7


# Within four sigmas


def close(found: float, expected: float, sigma: float) -> bool:
    return abs(found - expected) < 4 * sigma


def poisson_excess(mean: float, limit: int) -> float:
    """The mean number by which a Poisson number passes a limit."""
    weight, below = math.exp(-mean), 0.0
    for n in range(limit):
        below += (limit - n) * weight
        weight *= mean / (n + 1)
    return mean - limit + below


@pytest.mark.parametrize(("rate", "limit"), [(48, 1), (96, 4), (240, 8)])
def test_a_clock_window_against_poisson_arrivals(rate: int, limit: int) -> None:
    policy = {"facts": {"rates": {"read": limit}, "rate_window": "1h"}, "assumptions": {"window": "clock"}}
    result = fleet({"read": rate}, accounts=200, policy=policy, arrivals="poisson")
    windows = 200 * 7 * 24
    expected = poisson_excess(rate / 24, limit)
    found = result.scalars()["refusals.rate_limited"] / windows
    assert close(found, expected, math.sqrt(rate / 24 / windows))


def test_poisson_arrivals_have_mean_and_variance_alike() -> None:
    calls = fleet({"read": 10, "write": 4}, accounts=2_000, arrivals="poisson").accounts["calls"]
    assert close(calls.mean(), 98, math.sqrt(98 / 2_000))
    assert close(calls.var(), 98, 98 * math.sqrt(2 / 2_000))


@pytest.mark.slow
def test_rare_calls_are_as_rare_as_said() -> None:
    """One call in 10,000 days, so that most customers make none: steady or at random, 0.0365 of each."""
    for arrivals in ("steady", "poisson"):
        result = fleet({"write": 1e-4}, accounts=20_000, length=365 * DAY, arrivals=arrivals)
        assert close(result.accounts["calls"].sum(), 730, math.sqrt(730)), arrivals


def test_activities_come_as_often_as_said() -> None:
    usage = {activity: 1 + index for index, activity in enumerate(ACTIVITIES)}
    counts = fleet(usage, accounts=300, arrivals="poisson").counts.sum(axis=(0, 2))
    for activity, found in zip(ACTIVITIES, counts, strict=True):
        expected = usage[activity] * 300 * 7
        assert close(found, expected, math.sqrt(expected)), activity


def test_usage_follows_the_hours_and_days_of_the_customers() -> None:
    hours = (0.0,) * 8 + (1.0,) * 4 + (3.0,) * 4 + (0.0,) * 8
    days = (1.0,) * 5 + (0.0,) * 2
    calendar = {"hours": hours, "days": days, "zones": {-5 * HOUR: 1.0}}
    result = fleet({"read": 200}, accounts=50, log=10**6, calendar=calendar, arrivals="poisson")
    local = result.log["at"] - 5 * HOUR
    at_hours = np.bincount(local // HOUR % 24, minlength=24)
    assert at_hours[:8].sum() == at_hours[16:].sum() == 0
    total = int(at_hours.sum())
    morning = int(at_hours[8:12].sum())
    assert close(morning, total / 4, math.sqrt(total * 3 / 16))
    assert set(((local // DAY + 3) % 7).tolist()) == set(range(5))
    assert close(total, 200 * 7 * 50, math.sqrt(200 * 7 * 50)), "the week's average stays what was said"


def test_growth_churn_and_joining() -> None:
    run = {"growth": 1.0, "churn": 0.5, "joins": 0.25}
    result = fleet({"read": 10}, accounts=4_000, length=60 * DAY, run=run, arrivals="poisson")
    customers = result.customers
    old = customers[customers["joins"] == MONDAY]
    assert close(len(old), 3_000, math.sqrt(4_000 * 3 / 16))
    left = (old["leaves"] < MONDAY + 30 * DAY).mean()
    assert close(left, 0.5, math.sqrt(0.25 / len(old)))
    grown = fleet({"read": 10}, accounts=500, length=60 * DAY, run={"growth": 1.0}, log=10**6)
    day = (grown.log["at"] - MONDAY) // DAY
    first, second = (day < 30).sum(), (day >= 30).sum()
    assert second / first == pytest.approx(2.0, rel=0.01)


def test_rates_are_spread_as_said() -> None:
    spread = {"read": {"lognormal": {"median": 50.0, "sigma": 0.5}}}
    calls = fleet(spread, accounts=4_000, length=WEEK).accounts["calls"] / 7
    assert np.median(calls) == pytest.approx(50, rel=0.05)
    assert np.log(np.maximum(calls, 1)).std() == pytest.approx(0.5, rel=0.05)
    tail = {"read": {"pareto": {"least": 10.0, "shape": 1.5, "most": 10_000.0}}}
    calls = fleet(tail, accounts=4_000, length=WEEK).accounts["calls"] / 7
    assert (calls > 40).mean() == pytest.approx((10 / 40) ** 1.5, rel=0.1)


def test_backing_off_waits_below_twice_as_long_each_time() -> None:
    react = {"retry": 1, "wait": "backoff", "tries": 6, "first": "10m", "most": "30m"}
    result = fleet(
        {"ai_scan": 1}, plan="starter", accounts=300, log=10**5, after_refusal={"entitlement_required": react}
    )
    log = np.sort(result.log, order=["account", "number", "tries"])
    assert log["tries"].max() == 6
    waits = np.diff(log["at"])[log["tries"][1:] > 1]
    after = log["tries"][1:][log["tries"][1:] > 1] - 1
    for tries, ceiling in ((1, 10), (2, 20), (3, 30), (4, 30), (5, 30)):
        some = waits[after == tries]
        assert 0 < some.min() <= some.max() <= ceiling * MINUTE
        assert some.mean() == pytest.approx(ceiling * MINUTE / 2, rel=0.1)
