"""A simulated run on the page: the state at an instant is that of a world that was run up to there."""

import json
from pathlib import Path

import pytest

from ranksim.core.clock import HOUR, MINUTE
from ranksim.core.service.calls import Call
from ranksim.core.service.service import Service
from ranksim.twin.sim.runner import replication_seed
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.world import World
from ranksim.twin.view import simulated
from ranksim.twin.view.simulated import SimulatedRun, StateHistory


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return Scenario.load(Path("scenarios/quickstart.yaml")).replace(length="3d", timeline=[], expect=[])


@pytest.fixture(scope="module")
def run(scenario: Scenario) -> SimulatedRun:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(simulated, "INPUTS", 20)
        patched.setattr(simulated, "MOST_SAVED", 8)
        return SimulatedRun(scenario, seed=5)


def world_at(scenario: Scenario, instant: int) -> Service:
    """Run the same replication from its start up to an instant, that of it included."""
    world = World(scenario, seed=replication_seed(5, 0))
    world.env.run(until=instant - scenario.start + 1)
    world.service.advance(instant)
    return world.service


def saved(service: Service) -> object:
    return json.loads(service.save())


def test_states_at_instants_in_any_order_are_those_of_a_world_run_up_to_there(
    scenario: Scenario, run: SimulatedRun
) -> None:
    history = run._history
    assert len(history._inputs) > 200
    assert 2 <= len(history._saved) <= 8
    calls = [
        at for at, (method, _) in zip(history._instants, history._inputs, strict=True) if method == "handle"
    ]
    middle = calls[len(calls) // 2]
    for instant in (
        scenario.start + HOUR,
        middle - 1,
        middle,
        calls[3],
        scenario.end - 1,
        scenario.start + 5 * HOUR,
    ):
        assert saved(history.at(instant)) == saved(world_at(scenario, instant)), instant


def test_the_page_is_told_events_and_state_of_an_instant(scenario: Scenario, run: SimulatedRun) -> None:
    told = run.overview()["recording"]
    assert (told["first"], told["last"], told["states"]) == (scenario.start, scenario.end, True)
    early, late = run.until(scenario.start + HOUR), run.until(scenario.end)
    assert 0 < early["count"] < late["count"] == told["events"]
    assert early["state"]["now"] == "2026-01-05T01:00:00Z"
    assert early["state"]["count_of_jobs"] <= late["state"]["count_of_jobs"]
    (account, *_) = late["state"]["accounts"]
    assert {"slots", "cost", "quotas", "cooldowns", "keys"} <= account.keys()


def test_before_the_start_there_is_the_state_of_the_start(scenario: Scenario, run: SimulatedRun) -> None:
    assert run.until(scenario.start - MINUTE)["state"]["count_of_jobs"] == 0
    assert run.until(scenario.start - MINUTE)["count"] == 0


def test_a_history_keeps_no_more_states_than_it_may(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated, "MOST_SAVED", 4)
    monkeypatch.setattr(simulated, "INPUTS", 2)
    history = StateHistory(Service(scenario.policy, seed=1), scenario.policy)
    for number in range(200):
        history.service.handle(Call("account.get"), scenario.start + number)
    assert len(history._saved) <= 4
    assert history.at(scenario.start + 150).save() != b""


def test_the_state_after_changes_of_a_timeline_is_that_of_a_world(scenario: Scenario) -> None:
    account = next(iter(scenario.accounts))
    changes = [
        {"at": "1d", "do": "set_add_on", "account": account, "add_on": "brief_pack", "count": 2},
        {"at": "1d", "do": "set", "path": "policy.catalogue.plans.agency.slot_limit", "value": 77},
        {"at": "2d", "do": "change_plan", "account": account, "plan": "agency"},
    ]
    changing = scenario.replace(timeline=changes)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(simulated, "INPUTS", 20)
        history = SimulatedRun(changing, seed=5)._history
    for hours in (71, 12, 25, 49):
        instant = scenario.start + hours * HOUR
        assert saved(history.at(instant)) == saved(world_at(changing, instant))
    assert history.at(scenario.end - 1).policy.catalogue.plans["agency"].slot_limit == 77
