"""Worlds: under any policy a service with a key of every purpose, each as it is called."""

from __future__ import annotations

from typing import get_args

import pytest

from ranksim.bridges.rehearsal import START, rehearse
from ranksim.bridges.rehearsal_worlds import compact, make_world
from ranksim.core.callers.target import Purpose
from ranksim.core.contract.policy import CATALOGUES, Policy
from ranksim.core.service.calls import Call
from ranksim.core.service.service import Service
from ranksim.judge.profiles import profile


def data(service: Service, token: str, operation: str, environment: str = "production") -> object:
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
