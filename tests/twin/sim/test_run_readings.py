"""Which assumptions a run hangs on, against a run under every option of every one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.kit.options import changing

import ranksim as rs
from ranksim.twin.sim.expectations import judge_expectations

SCENARIOS = Path(__file__).parents[3] / "scenarios"

NIGHT = """
start: 2026-03-01
length: 1d
accounts: {acme: {plan: agency, portfolio: {domains: 30, keywords: 3}}}
clients: {night: {kind: schedule, account: acme, job: rank_run, at: "02:00"}}
"""


def under(scenario: rs.Scenario, assumptions: dict[str, Any]) -> rs.Result:
    policy = scenario.policy.model_dump(mode="json")["assumptions"] | assumptions
    return rs.run(scenario.replace(policy={"assumptions": policy}))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["monday-reset", "two-keys-one-quota", "past-due-account", "month-end-holds"]
)
def test_what_changes_expectations_is_found_by_trying_all(name: str) -> None:
    scenario = rs.Scenario.load(SCENARIOS / f"{name}.yaml")

    def held(assumptions: dict[str, Any]) -> list[bool]:
        return [found.passed for found in judge_expectations(scenario.expect, under(scenario, assumptions))]

    result = rs.run(scenario, assumptions=True)
    assert result.readings.verdict == "all expectations hold"
    assert result.readings.changing() == changing(held)


@pytest.mark.slow
def test_what_changes_a_run_without_expectations_is_found_by_trying_all() -> None:
    scenario = rs.Scenario.parse(NIGHT)

    def came_of(assumptions: dict[str, Any]) -> list[float | None]:
        result = under(scenario, assumptions)
        names = ("calls.total", "refusals.total", "jobs.rank_run.done")
        return [result.metric(name).mean for name in names]

    readings = rs.run(scenario, assumptions=True).readings
    assert readings.verdict == (
        "Jobs done: 30. Too early for a rate limit: 10 calls. Nearest its limit: slots of acme, 90 of 160,000"
    )
    assert readings.changing() == changing(came_of)


@pytest.mark.slow
def test_expectations_of_a_metric_are_told_apart() -> None:
    scenario = rs.Scenario.parse(NIGHT + 'expect: ["refusals.total >= 11", "refusals.total <= 10"]')
    readings = rs.run(scenario, assumptions=True).readings
    assert readings.verdict == "1 of 2 expectations failed: refusals.total (at least 11)"
    assert "sliding_counter" in readings.changing()["assumptions.window"]


@pytest.mark.slow
def test_a_result_tells_its_readings_wherever_it_is_told() -> None:
    scenario = rs.Scenario.parse(NIGHT + 'expect: ["jobs.rank_run.done == 30"]')
    plain, result = rs.run(scenario), rs.run(scenario, assumptions=True)
    assert (plain.readings.tried, "This holds" in plain.summary()) == ((), False)
    sentence = "This holds under 3 of 5 readings of U1, how the 60 s window of a key and class runs"
    assert sentence in result.summary()
    assert "1 of 1 expectation failed: jobs.rank_run.done" in result.summary()
    assert "readings of <a" in result.page(plots=False)
    document = json.loads(result.to_json())
    assert any(note.startswith(sentence) for note in document["notes"])
    assert {row["reading"] for row in document["tables"]["readings"] if row["assumption"] == "U1"} >= {"gcra"}
    assert "readings" not in json.loads(plain.to_json())["tables"]
