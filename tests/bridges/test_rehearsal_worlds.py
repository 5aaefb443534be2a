"""Worlds: under any policy a service with a key of every purpose, each as it is called."""

from __future__ import annotations

from json import dumps
from typing import Any, get_args

import pytest

from ranksim.bridges.rehearsal import START, rehearse
from ranksim.bridges.rehearsal_worlds import compact, make_world, mirrored_target
from ranksim.core.callers.target import Purpose
from ranksim.core.contract.policy import CATALOGUES, Policy
from ranksim.core.service.calls import Call
from ranksim.core.service.service import Service
from ranksim.judge.profiles import profile
from ranksim.twin.sim.opening import open_world
from ranksim.twin.sim.scenario import Scenario


def data(service: Service, token: str, operation: str, environment: str = "production") -> Any:
    reply = service.handle(Call(operation, token, environment=environment), START).reply
    assert reply.body is not None
    return reply.body["data"]


POLICIES = {
    "compact": None,
    **{name: Policy().replace(catalogue=name) for name in CATALOGUES},
    **{
        window: compact().replace(assumptions={"window": window})
        for window in ("clock", "sliding_log", "sliding_counter", "gcra")
    },
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_every_key_is_what_it_is_called(policy: Policy | None) -> None:
    service, target = make_world(policy, seed=5)
    keys = target.keys
    assert {key.purpose for key in keys.values()} == set(get_args(Purpose))
    assert keys["main"].account == keys["second"].account == keys["scoped"].account
    assert len({key.account for key in keys.values()}) == 5
    assert len(data(service, keys["scoped"].token, "domains.list")) == 1
    assert data(service, keys["test"].token, "domains.list", "sandbox")
    statuses = {
        name: data(service, keys[name].token, "account.get")["status"] for name in ("main", "late", "tight")
    }
    assert statuses == {"main": "active", "late": "past_due", "tight": "active"}
    for name, left in (("late", 0), ("tight", 2)):
        slots = data(service, keys[name].token, "slots.get")
        assert slots["available"] == left


def test_the_account_past_due_has_nothing_left() -> None:
    service, target = make_world()
    account = service.state.accounts[target.keys["late"].account]
    service.advance(START)
    assert account.books.settled + account.books.reserved >= account.books.ceiling
    used = {name: meter.limit - meter.used for name, meter in account.meters.items()}
    assert used["keyword_brief_refreshes"] == used["rank_runs"] == 0
    cooling = account.cooldowns[f"{account.domains[0]}/crawl"]
    assert cooling.since + cooling.length > START + 600_000_000


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_profile_runs_under_any_policy(policy: Policy | None) -> None:
    service, target = make_world(policy, seed=5)
    trace = rehearse(profile("ladder"), service, target, users=3, duration=60_000_000)
    assert len(trace.exchanges) > 200


def test_a_twins_target_has_the_keys_and_domains_that_it_has_a_place_for() -> None:
    world = Scenario.model_validate_json(
        dumps(
            {
                "scenario": 1,
                "start": "2026-03-02T09:00:00Z",
                "length": "1h",
                "accounts": {
                    "acme": {
                        "plan": "agency",
                        "keys": ["main", {"name": "scoped", "domain": "b.example.com"}],
                        "portfolio": {"domains": ["a.example.com", "b.example.com"]},
                    }
                },
                "receivers": {"hook": {"account": "acme", "url": "https://hooks.example.com/x"}},
            }
        )
    )
    service, (_, target) = Service(Policy(), 1), make_world(seed=5)
    actors = open_world(service, world)
    hosts = {"dom_1": "b.example.com", "dom_2": "c.example.com"}
    real = target.model_copy(update={"use_domains": ("dom_1", "dom_2", "dom_3"), "failing_domain": "dom_1"})
    twin = mirrored_target(real, service, actors, hosts)
    domain = actors["acme"].hosts["b.example.com"]
    assert set(twin.keys) == {"main", "scoped"}
    assert (twin.keys["scoped"].purpose, twin.keys["scoped"].domain_id) == ("scoped", domain)
    assert (twin.use_domains, twin.failing_domain) == ((domain,), domain)
    listed = data(service, twin.token("main") or "", "webhooks.list")
    assert [hook["url"] for hook in listed] == ["https://hooks.example.com/x"]
