"""Faults of a scenario where it is served: from the start, by its timeline, over resets and restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ranksim as rs
from ranksim.cli import app
from ranksim.core.clock import HOUR, MINUTE, instant
from ranksim.core.errors import BadInput
from ranksim.testing import World
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.cli import _banner
from ranksim.twin.facade.journal.write_ahead import attach
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.testing.beginning import beginning_of, origin_of

NINE = instant("2026-03-02T09:00:00Z")

SCENARIO = """\
scenario: 1
start: 2026-03-02T09:00:00Z
length: 2d
accounts:
  acme: {plan: starter, portfolio: {domains: 2, keywords: 10}}
faults:
  - {operation: account.get, status: 503, retry_after: 30s, times: 2, lasts: 30m}
  - {bundle: flaky-gateway, operation: "jobs.*"}
timeline:
  - {at: 1h, do: fault, operation: account.get, status: 502, body: html, key: abc}
  - {at: 90m, do: fault, bundle: overloaded, lasts: 10m}
  - {at: 2h, do: clear_faults}
"""

NOTE = "Its faults act where it is served (ranksim serve), and in no simulation."

FIRST = ["account.get", "jobs.*", "jobs.*", "jobs.*"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "world.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


def operations(world: World) -> list[str]:
    return [rule["operation"] for rule in world.faults.list()]


def test_they_befall_requests_from_the_start_and_as_the_timeline_says(path: Path) -> None:
    with World.of(path) as world:
        answer = world.client().get("/v1/account")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
        assert world.faults.list()[0]["until"] == "2026-03-02T09:30:00Z"
        [acted] = world.clock.advance("1h").shown()["happened"]
        assert {name: acted[name] for name in acted if name not in ("seq", "at")} == {
            "what": "timeline.acted",
            "do": "fault",
            "operation": "account.get",
            "status": 502,
            "body": "html",
        }, "a key is no one's business"
        assert operations(world) == [*FIRST, "account.get"]
        world.clock.advance("30m")
        assert operations(world) == [*FIRST, "account.get", "*", "*"]
        world.clock.advance("30m")
        assert operations(world) == []
        assert world.client().get("/v1/account").status_code == 200
        world.reset()
        assert operations(world) == FIRST
        assert world.client().get("/v1/account").status_code == 503


@pytest.mark.parametrize("names", ["name", "token"])
def test_a_key_goes_by_its_name_or_its_token(names: str, path: Path) -> None:
    accounts = "  acme: {plan: starter, keys: [{name: app, token: token-of-app}, {name: batch}]}\n"
    whom = {"name": "app", "token": "token-of-app"}[names]
    faults = f"faults:\n  - {{operation: account.get, status: 503, key: {whom}}}\n"
    head = SCENARIO.partition("  acme")[0]
    path.write_text(head + accounts + faults, encoding="utf-8")
    with World.of(path) as world:
        tokens = {key.name: token for token, key in world.twin.service.state.keys.items()}
        world.faults.add("slots.get", status=502, key=whom)
        world.faults.bundle("bad-deploy", "domains.list", key=whom)
        world.control().post("/faults", json={"operation": "graphql", "status": 504, "key": whom})

        def statuses(token: str) -> list[int]:
            head = {"Authorization": f"Bearer {token}"}
            with world.client(headers=head) as client:
                gets = [client.get(f"/v1/{name}").status_code for name in ("account", "slots")]
                return [*gets, client.post("/graphql", json={"query": "{account{plan}}"}).status_code]

        assert statuses(tokens["app"]) == [503, 502, 504]
        assert statuses(tokens["batch"]) == [200, 200, 200]
        assert {rule["key"] for rule in world.faults.list()} == {whom}


def test_the_banner_counts_those_that_are_in_force(path: Path) -> None:
    with World.of(path) as world:
        facade = Facade(world.twin)
        assert "  faults       4 rules in force\n" in _banner(facade, "http://a", "", None)
        world.faults.clear()
        assert "faults" not in _banner(facade, "http://a", "", None)


def test_what_acts_at_the_very_start_stays_after_a_reset(tmp_path: Path) -> None:
    path = tmp_path / "world.yaml"
    path.write_text(SCENARIO.replace("at: 1h", "at: 0s"), encoding="utf-8")
    with World.of(path) as world:
        assert operations(world) == [*FIRST, "account.get"]
        world.reset()
        assert operations(world) == [*FIRST, "account.get"]


@pytest.mark.parametrize(
    ("until", "in_force"),
    [
        ("09:29", ["account.get", "jobs.*", "jobs.*", "jobs.*"]),
        ("09:30", ["jobs.*", "jobs.*", "jobs.*"]),
        ("10:00", ["jobs.*", "jobs.*", "jobs.*", "account.get"]),
        ("10:35", ["jobs.*", "jobs.*", "jobs.*", "account.get", "*", "*"]),
        ("10:40", ["jobs.*", "jobs.*", "jobs.*", "account.get"]),
        ("11:00", []),
    ],
)
def test_a_world_that_is_simulated_first_has_those_that_are_in_force_then(
    path: Path, until: str, in_force: list[str]
) -> None:
    with World.of(path, until=f"2026-03-02T{until}:00Z") as world:
        assert operations(world) == in_force


def test_a_restart_goes_on_with_them(path: Path, tmp_path: Path) -> None:
    """From the state file alone, which says what a reset returns to."""
    wall = [0]
    settings: dict[str, Any] = {"sender": Scripted(), "clock": "real", "read_wall": lambda: wall[0]}
    first = Twin(**beginning_of(path), read_origin=origin_of, **settings)
    log = attach(first, tmp_path / "state.db")
    wall[0] = 65 * MINUTE
    first.work(first.now())
    log.close()
    again = Twin(read_origin=origin_of, **settings)
    attach(again, tmp_path / "state.db").close()
    assert again.faults.saved() == first.faults.saved()
    assert list(again.faults.active) == [f"fault_{number}" for number in range(1, 6)]
    again.reset()
    assert [active.rule.operation for active in again.faults.active.values()] == FIRST
    assert again.faults.active["fault_1"].until == NINE + HOUR // 2


def test_an_export_states_those_that_are_in_force_with_what_remains_of_them(path: Path) -> None:
    with World.of(path) as world:
        world.client().get("/v1/account")
        world.clock.advance("10m")
        stated = world.control().get("/state", params={"as": "scenario"}).json()
        assert stated["faults"][0] == {
            "operation": "account.get", "status": 503, "retry_after": "30s", "times": 1, "lasts": "20m",
        }  # fmt: skip
        before = world.faults.list()
        world.control().post("/state", content=json.dumps(stated)).raise_for_status()
        for rule, former in zip(world.faults.list(), before, strict=True):
            same = {name for name in rule if name not in ("times", "lasts", "seen", "effects")}
            assert {name: rule[name] for name in same} == {name: former[name] for name in same}  # type: ignore[literal-required]


QUESTIONS = {
    "capacity slots": ["--adds", "1"],
    "capacity sync": [],
    "capacity workers": ["--replications", "2"],
    "capacity outage": ["--length", "1h"],
    "capacity fit": [],
    "capacity portfolio": [],
    "price compare": ["--set", "policy.catalogue.plans.starter.price=20 USD"],
    "price pareto": ["--vary", "plans.starter.price=20 USD, 30 USD", "--replications", "2"],
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_about_a_scenario_says_that_they_do_not_act(question: str, path: Path) -> None:
    words = [*question.split(), *QUESTIONS[question], "--scenario", str(path)]
    path.write_text(SCENARIO.partition("timeline:")[0], encoding="utf-8")
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert " ".join(result.output.split()).count(NOTE) == 1


def test_a_study_of_a_scenario_says_that_they_do_not_act(path: Path) -> None:
    plan = {"scenario.accounts.acme.plan": "pro"}
    study = rs.Study.of(Scenario.load(path), variants={"pro": plan}, replications=2)
    assert study.run().notes.count(NOTE) == 1


def test_a_simulation_says_that_they_do_not_act(path: Path) -> None:
    scenario = Scenario.load(path)
    assert NOTE in rs.run(scenario).frame("notes")["text"].tolist()
    without = scenario.model_copy(update={"timeline": (), "faults": ()})
    assert NOTE not in rs.run(without).frame("notes")["text"].tolist()


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("status: 503", "stats: 503", "7: faults[0].stats: no such field; did you mean 'status'?"),
        ("flaky-gateway", "flaky", "8: faults[1].bundle: expected one of flaky-gateway, overloaded"),
        (
            "account.get, status: 502",
            "jobs.crate, status: 502",
            "10: timeline[0].operation: no such operation",
        ),
        (
            "overloaded",
            "overloaded, status: 500",
            "11: timeline[1]: a bundle says its rules itself; give bundle",
        ),
        ('"jobs.*"', "delivery", "8: faults[1]: flaky-gateway: a webhook attempt takes latency and delivery"),
        ("status: 503, retry_after: 30s, ", "", "7: faults[0]: give at least one of latency"),
        ("clear_faults", "clear_fault", "12: timeline[2]: expected do to be one of"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_stands(before: str, after: str, says: str) -> None:
    assert before in SCENARIO
    with pytest.raises(BadInput) as caught:
        Scenario.parse(SCENARIO.replace(before, after), "world.yaml")
    assert str(caught.value).startswith(f"world.yaml:{says}")
    assert "\n" not in str(caught.value)
