"""Resolving lost calls: what took effect is replayed, what did not is done now, and each is tried once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ranksim.callers.discovery import Reach, explore
from ranksim.callers.lost_calls import Unknown, resolve
from ranksim.callers.steps import Pause, Program, Send
from ranksim.clock import MILLISECOND, MINUTE, SECOND
from ranksim.sim.rehearsal_loop import START, Stage
from ranksim.sim.rehearsal_worlds import make_world

POST = Send("domains.create", "main", body={"host": "lost.example.com"}, idempotency_key="k-1")


def world() -> tuple[Stage, Reach]:
    service, target = make_world(seed=2)
    stage = Stage(service, target)
    reach: Reach = stage.alone(explore(target))
    stage.trace.exchanges.clear()
    return stage, reach


@pytest.mark.fact("S47")
def test_what_took_effect_is_replayed() -> None:
    stage, reach = world()

    def program() -> Program:
        yield replace(POST, lose=True)
        yield Pause(SECOND)

    stage.together([program()], stage.now + MINUTE)
    assert [one.send for one in stage.unknown] == [replace(POST, lose=True)]
    stage.alone(resolve(reach, stage.unknown))
    lost, again, *reads = stage.trace.exchanges
    assert (lost.status, again.status) == (None, 201)
    assert again.response_headers["idempotent-replayed"] == "true"
    assert again.body == lost.body
    assert [one.operations[0] for one in reads] == ["jobs.list", "scans.list", "account.usage", "slots.get"]


def test_what_never_arrived_is_done_now() -> None:
    stage, reach = world()
    stage.alone(resolve(reach, [Unknown(POST, "x9"), Unknown(POST, "x10")]))
    posts = [one for one in stage.trace.exchanges if one.method == "POST"]
    assert [one.status for one in posts] == [201]
    assert "idempotent-replayed" not in posts[0].response_headers
    assert json.loads(posts[0].response)["data"]["host"] == "lost.example.com"


def test_nothing_lost_nothing_sent() -> None:
    stage, reach = world()
    stage.alone(resolve(reach, []))
    stage.alone(resolve(reach, [Unknown(replace(POST, idempotency_key=None))]))
    assert stage.trace.exchanges == []


def test_what_a_key_may_not_read_is_left_alone() -> None:
    stage, reach = world()
    body = {"domain_id": reach.keys["scoped"].domain_id, "name": "lost"}
    send = Send("labels.create", "scoped", body=body, idempotency_key="k-2")
    stage.alone(resolve(reach, [Unknown(send)]))
    assert [one.operations[0] for one in stage.trace.exchanges] == [
        "labels.create",
        "jobs.list",
        "scans.list",
    ]


def test_a_twin_in_flight_is_waited_for() -> None:
    stage, reach = world()

    def program() -> Program:
        yield replace(POST, lose=True)

    stage.together([program()], stage.now + 2 * MILLISECOND)
    stage.alone(resolve(reach, stage.unknown))
    answers: list[Any] = [one.status for one in stage.trace.exchanges if one.method == "POST"]
    assert answers[-1] == 201
    assert stage.now > START
