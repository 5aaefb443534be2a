"""A scenario's clients as a load profile: played against the rulebook over a network."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ranksim.bridges.rehearsal import rehearse
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.callers.steps import Pause, Program, Send, Spawn
from ranksim.core.callers.target import Target
from ranksim.core.clock import MINUTE, SECOND
from ranksim.core.errors import BadInput
from ranksim.core.trace import Exchange, Trace
from ranksim.judge.deployment.budget import Budget, guarded
from ranksim.judge.deployment.discovery import KeyReach, Reach
from ranksim.judge.profiles.profile import Profile
from ranksim.judge.profiles.scenario_clients import key_for, scenario_clients
from ranksim.twin.sim.scenario import Scenario

SHOP = """
name: shop
start: 2026-03-01T00:00:00Z
length: 10m
accounts:
  shop: {plan: pro, portfolio: {domains: 2, lists: 2, keywords: 5, labels: 1, competitors: 1}}
clients:
  stream:
    {kind: caller, account: shop, every: 2s, arrivals: poisson, mix: {positions.list: 3, labels.create: 1}}
  sync: {kind: keyword_sync, account: shop, every: 1m, share: 0.5, first: memory, keywords: 4}
  people: {kind: app_users, account: shop, every: 1s, mix: {domains.list: 1}}
"""


def rehearsed(profile: Profile, **options: Any) -> Trace:
    service, target = make_world(seed=3)
    return rehearse(profile, service, target, seed=3, **options)


def calls(trace: Trace, operation: str) -> list[Exchange]:
    return [one for one in trace.exchanges if operation in one.operations]


def test_each_user_plays_one_client_on_what_all_of_them_made() -> None:
    profile = scenario_clients(Scenario.parse(SHOP))
    assert (profile.name, profile.users, profile.duration) == ("shop", 2, 10 * MINUTE)
    trace = rehearsed(profile, users=3, duration=2 * MINUTE)
    created = [one for one in calls(trace, "domains.create") if one.status == 201]
    assert len(created) == 6
    hosts = {json.loads(one.body)["host"] for one in created}
    assert len(hosts) == 2
    assert all(host.startswith("ranksim-3-own-shop-") for host in hosts)
    owned = {json.loads(one.response)["data"]["id"] for one in created}
    assert len(owned) == 2
    read = calls(trace, "positions.list")
    assert {one.query["domain_id"] for one in read} == owned
    assert 60 < len(read) < 120  # two users, three quarters of a call every 2 s
    assert calls(trace, "keywords.delete")
    names = {json.loads(one.body)["name"].rpartition(" ")[0] for one in calls(trace, "labels.create")}
    assert names == {"label", "ranksim-3-stream", "ranksim-3-stream-1"}


def test_further_portfolios_are_made_too() -> None:
    further = SHOP.replace("competitors: 1}}", "competitors: 1}, further: [{domains: 3, keywords: 7}]}")
    trace = rehearsed(scenario_clients(Scenario.parse(further)), users=1, duration=MINUTE)
    created = [one for one in calls(trace, "domains.create") if one.status == 201]
    assert len({json.loads(one.body)["host"] for one in created}) == 2 + 3


def test_a_schedule_of_hosts_starts_jobs_of_those_that_stand_for_them() -> None:
    nightly = (
        "  big: {kind: schedule, account: shop, job: rank_run, every: 1h, domains: [site2.shop.example]}\n"
    )
    profile = scenario_clients(Scenario.parse(SHOP + nightly), ["big"])
    trace = rehearsed(profile, users=1, duration=MINUTE)
    _, second = [json.loads(one.response)["data"]["id"] for one in calls(trace, "domains.create")]
    assert [json.loads(one.body)["domain_id"] for one in calls(trace, "jobs.create")] == [second]


def test_the_same_seed_calls_the_same() -> None:
    profile = scenario_clients(Scenario.parse(SHOP))
    first, again = (rehearsed(profile, duration=MINUTE) for _ in range(2))
    assert first.exchanges == again.exchanges


def test_a_scenario_without_a_client_that_could_call_is_refused() -> None:
    nobody = (
        SHOP.replace("  stream:", "  other:").split("  other:")[0] + "  people:" + SHOP.split("people:")[1]
    )
    with pytest.raises(BadInput, match=r"^shop: no client of it can call a deployment"):
        scenario_clients(Scenario.parse(nobody))


def test_keys_go_by_account_and_key_then_account_then_the_main_one() -> None:
    target = Target.simple("http://127.0.0.1:9", "rk_1")
    names = ("main", "shop", "shop.web", "club")
    keys = {name: KeyReach(name, "production", "full", usable=name != "club") for name in names}
    reach = Reach(target, keys, "main")
    found = [
        key_for(reach, *which) for which in (("shop", "web"), ("shop", "app"), ("club", None), ("x", "y"))
    ]
    assert found == ["shop.web", "shop", "main", "main"]


def test_what_a_program_begins_beside_itself_is_held_to_the_budget_too() -> None:
    def spender() -> Program:
        yield Send("jobs.create", body={"kind": "crawl", "domain_id": "d"})

    def program() -> Program:
        yield Spawn(spender())
        yield Pause(SECOND)

    running = guarded(program(), Budget(dry_run_only=True))
    step = next(running)
    assert isinstance(step, Spawn)
    sent = next(step.program)
    assert isinstance(sent, Send)
    assert sent.body == {"kind": "crawl", "domain_id": "d", "dry_run": True}
    assert running.send(None) == Pause(SECOND)


def test_one_client_may_be_chosen() -> None:
    scenario = Scenario.parse(SHOP)
    able = scenario_clients(scenario)
    first = able.aim.partition(": ")[2].partition(",")[0].rstrip(".")
    one = scenario_clients(scenario, [first])
    assert (one.users, one.aim) == (1, f"The clients of {one.name}: {first}.")
    with pytest.raises(
        BadInput, match=r"no client 'nobody' of it can call a deployment; its clients that can"
    ):
        scenario_clients(scenario, ["nobody"])
