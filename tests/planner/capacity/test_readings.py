"""Which assumptions the answers of planners hang on, against every option of every one, asked anew."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from tests.kit.options import OPTIONS, changing
from tests.planner.capacity.drawn_scenarios import scenarios

import ranksim as rs
from ranksim.core.clock import MINUTE
from ranksim.planner.capacity.plan_fit import fit
from ranksim.planner.capacity.portfolio import Portfolio
from ranksim.planner.capacity.sync import Sync, SyncTime, sync_time
from ranksim.planner.capacity.workers_world import workers_of_scenario


def under(scenario: rs.Scenario, assumptions: dict[str, Any]) -> rs.Scenario:
    return scenario.replace(policy={"assumptions": assumptions})


THIRTY = Portfolio(domains=30, keywords=300, pairings=4)


@pytest.mark.slow
@pytest.mark.fact("U1", "U46")
def test_a_plan_fits_under_three_of_five_windows_and_spread_over_three_minutes_under_all() -> None:
    answer = fit(THIRTY)
    assert answer.readings.changing() == {
        "assumptions.window": ("sliding_counter", "gcra"),
        "assumptions.cooldown_scope": ("account",),
    }
    assert answer.notes[1].startswith("This holds under 3 of 5 readings of U1, how the 60 s window")
    assert "under sliding_counter and gcra no plan fits. To observe it, send 1, 19" in answer.notes[1]
    assert "1 of 2 readings of U46" in answer.notes[2]
    assert answer.notes[3] == "Started over 3m it holds under all readings of U1."
    assert answer.notes[4].startswith("Started at one instant, 30 rank runs meet 10 refusals")
    assert answer.notes[5] == "3 others leave the verdict as it is: U4, U47, U59."
    for spread, enough in (("3m", True), ("1m", False)):
        verdicts = {
            fit(THIRTY, rs.Policy().replace(assumptions={"window": window}), spread=spread).verdict
            for window in OPTIONS["window"]
        }
        assert (verdicts == {answer.verdict}) is enough, (spread, verdicts)


WORLD = """
start: 2026-03-01
length: 3d
accounts: {acme: {plan: agency, portfolio: {domains: 30, keywords: 3}}}
clients:
  night: {kind: schedule, account: acme, job: rank_run, at: "02:00", dry_run_first: DRY}
  CRAWLS
expect: ["jobs.rank_run.done >= 90"]
"""
CRAWLS = "crawls: {kind: schedule, account: acme, job: crawl, at: '05:00', spread: 10m}"


@pytest.mark.slow
@pytest.mark.fact("U46")
@pytest.mark.parametrize(("dry", "crawls"), [("false", ""), ("true", ""), ("false", CRAWLS)])
def test_what_changes_which_plan_fits_is_what_changes_a_world(dry: str, crawls: str) -> None:
    done = ', "jobs.crawl.done >= 90"]' if crawls else "]"
    scenario = rs.Scenario.parse(
        WORLD.replace("DRY", dry).replace("CRAWLS", crawls).replace('90"]', '90"' + done)
    )
    seen, planned = rs.run(scenario, assumptions=True).readings, fit(scenario, growth=1).readings
    assert seen.verdict == "all expectations hold"
    assert planned.changing() == seen.changing()
    assert ("assumptions.cooldown_from" in planned.changing()) is bool(crawls)


def test_nothing_is_said_to_mend_what_no_spread_does() -> None:
    refused = fit(domains=1, growth=1, keywords=10, crawls=1, pages=2_000)
    assert refused.readings.changing() == {"assumptions.cap": ("refuse",)}
    assert refused.readings.remedy == ""
    nothing = fit(domains=5, keywords=100_000)
    assert (nothing.verdict, nothing.readings.deciding) == ("no plan fits", ())


def test_an_answer_has_its_readings_as_a_table() -> None:
    answer = fit(THIRTY)
    rows = answer.tables["readings"]
    assert [row["verdict"] for row in rows[:5]] == [
        *["the plan agency fits, and at ×2 it does too"] * 3,
        *["no plan fits"] * 2,
    ]
    assert answer.frame("readings")["holds"].tolist()[:5] == [True, True, True, False, False]


@pytest.mark.slow
@settings(max_examples=2)
@given(scenarios())
def test_what_changes_which_plan_fits_is_found_by_trying_all(scenario: rs.Scenario) -> None:
    assert fit(scenario).readings.changing() == changing(
        lambda assumptions: fit(under(scenario, assumptions)).verdict
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "sync",
    [
        Sync(30_000, batch=100),
        Sync(2_000, batch=10, others=10),
        Sync(40, others=19),
        Sync(500, others=60),
        Sync(30, batch=1, removals=130),
    ],
)
def test_what_changes_a_sync_is_found_by_trying_all(sync: Sync) -> None:
    def best(assumptions: dict[str, Any]) -> object:
        try:
            answer = sync_time(sync, rs.Policy().replace(assumptions=assumptions))
        except rs.BadInput:
            return None
        return answer.best.time

    assert set(sync_time(sync).readings.changing()) == set(changing(best))


def test_a_sync_says_what_its_time_hangs_on() -> None:
    answer: SyncTime = sync_time(Sync(30_000, batch=100))
    assert answer.readings.changing() == {
        "assumptions.window": ("sliding_counter", "gcra"),
        "assumptions.tracking_class": ("expensive",),
    }
    assert "under gcra they take 1m30s without refusals" in answer.notes[0]


OWN = """
start: 2026-03-01
length: 1d
accounts: {acme: {plan: agency, portfolio: {domains: 30, keywords: 3}}}
clients: {night: {kind: schedule, account: acme, job: rank_run, at: "02:00"}}
pools: {rank_run: {capacity: 1, duration: {constant: 4m}}}
"""


@pytest.mark.slow
def test_what_changes_the_workers_is_found_by_trying_all() -> None:
    scenario = rs.Scenario.parse(OWN)

    def needed(assumptions: dict[str, Any]) -> str:
        try:
            return workers_of_scenario(
                under(scenario, assumptions), within=5 * MINUTE, replications=2
            ).verdict
        except rs.BadInput:
            return "no job is started"

    answer = workers_of_scenario(scenario, within=5 * MINUTE, replications=2, assumptions=True)
    found = answer.readings.changing()
    assert found == changing(needed)
    assert {"assumptions.window", "assumptions.cooldown_scope"} <= set(found)
    assert workers_of_scenario(scenario, within=5 * MINUTE, replications=2).readings.tried == ()
