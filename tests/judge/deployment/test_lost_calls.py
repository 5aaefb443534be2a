"""Resolving lost calls: what took effect is replayed, what did not is done now, and each is tried once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ranksim.bridges.rehearsal import START, Rehearsal
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.callers.steps import Pause, Program, Send
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND
from ranksim.judge.deployment.cleanup import Unknown, resolve_lost
from ranksim.judge.deployment.discovery import Reach, explore

POST = Send("domains.create", "main", body={"host": "lost.example.com"}, idempotency_key="k-1")


def world() -> tuple[Rehearsal, Reach]:
    service, target = make_world(seed=2)
    rehearsal = Rehearsal(service, target)
    reach: Reach = rehearsal.alone(explore(target))
    rehearsal.trace.exchanges.clear()
    return rehearsal, reach


@pytest.mark.fact("S47")
def test_what_took_effect_is_replayed() -> None:
    rehearsal, reach = world()

    def program() -> Program:
        yield replace(POST, lose=True)
        yield Pause(SECOND)

    rehearsal.together([program()], rehearsal.now + MINUTE)
    assert [one.send for one in rehearsal.unknown] == [replace(POST, lose=True)]
    rehearsal.alone(resolve_lost(reach, rehearsal.unknown))
    lost, again, *reads = rehearsal.trace.exchanges
    assert (lost.status, again.status) == (None, 201)
    assert again.response_headers["idempotent-replayed"] == "true"
    assert again.body == lost.body
    assert [one.operations[0] for one in reads] == ["jobs.list", "scans.list", "account.usage", "slots.get"]


def test_what_never_arrived_is_done_now() -> None:
    rehearsal, reach = world()
    rehearsal.alone(resolve_lost(reach, [Unknown(POST, "x9"), Unknown(POST, "x10")]))
    posts = [one for one in rehearsal.trace.exchanges if one.method == "POST"]
    assert [one.status for one in posts] == [201]
    assert "idempotent-replayed" not in posts[0].response_headers
    assert json.loads(posts[0].response)["data"]["host"] == "lost.example.com"


def test_nothing_lost_nothing_sent() -> None:
    rehearsal, reach = world()
    rehearsal.alone(resolve_lost(reach, []))
    rehearsal.alone(resolve_lost(reach, [Unknown(replace(POST, idempotency_key=None))]))
    assert rehearsal.trace.exchanges == []


def test_what_a_key_may_not_read_is_left_alone() -> None:
    rehearsal, reach = world()
    body = {"domain_id": reach.keys["scoped"].domain_id, "name": "lost"}
    send = Send("labels.create", "scoped", body=body, idempotency_key="k-2")
    rehearsal.alone(resolve_lost(reach, [Unknown(send)]))
    assert [one.operations[0] for one in rehearsal.trace.exchanges] == [
        "labels.create",
        "jobs.list",
        "scans.list",
    ]


def test_a_twin_in_flight_is_waited_for() -> None:
    rehearsal, reach = world()

    def program() -> Program:
        yield replace(POST, lose=True)

    rehearsal.together([program()], rehearsal.now + 2 * MILLISECOND)
    rehearsal.alone(resolve_lost(reach, rehearsal.unknown))
    answers: list[Any] = [one.status for one in rehearsal.trace.exchanges if one.method == "POST"]
    assert answers[-1] == 201
    assert rehearsal.now > START
