"""Faults as production has them: what a client meets on the wire, in process and over a socket."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import pytest

from ranksim.core.callers.fault_rules import BUNDLES, BundleScope, FaultRule, rules_of
from ranksim.core.contract.located import Located, validate
from ranksim.core.errors import BadInput
from ranksim.testing import Server, World
from ranksim.twin.facade.faults import Faults


@pytest.fixture(params=[World, Server], ids=["in process", "over a socket"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with request.param(seed=1) as made:
        yield made


def hosts(world: World) -> list[str]:
    return [domain["host"] for domain in world.client().get("/v1/domains").json()["data"]]


@pytest.mark.parametrize(
    ("fault", "status", "kind", "text", "made"),
    [
        ({"status": 502, "body": "html"}, 502, "text/html; charset=utf-8", "<h1>502 Bad Gateway</h1>", False),
        ({"status": 503}, 503, "application/problem+json", '"title":"Service Unavailable"', False),
        ({"status": 599, "body": "empty"}, 599, None, "", False),
        ({"status": 204, "body": "html"}, 204, None, "", False),
        ({"status": 204, "after_effect": True}, 204, None, "", True),
        ({"status": 304, "text": "oops"}, 304, None, "", False),
        ({"status": 504, "after_effect": True, "body": "html"}, 504, "text/html; charset=utf-8", "504", True),
        ({"text": "oops", "headers": {"Content-Type": "text/plain"}}, 201, "text/plain", "oops", True),
        ({"headers": {"X-Request-Id": "other"}}, 201, "application/json", '"a.example"', True),
    ],
    ids=["gateway", "problem", "empty", "204", "late 204", "304", "late gateway", "text", "header"],
)
def test_an_answer_is_another_before_or_after_the_effect(
    world: World, fault: dict[str, Any], status: int, kind: str | None, text: str, made: bool
) -> None:
    world.faults.add("domains.create", **fault)
    answer = world.client().post("/v1/domains", json={"host": "a.example"})
    assert (answer.status_code, answer.headers.get("content-type")) == (status, kind)
    assert text in answer.text
    if status in (204, 304):
        assert answer.content == b""
        assert {"content-length", "transfer-encoding"}.isdisjoint(answer.headers)
    assert answer.headers["ranksim-fault"] == "fault_1"
    assert hosts(world) == (["a.example"] if made else [])


def test_a_cut_body_is_whole_http_and_half_json(world: World) -> None:
    whole = world.client().get("/v1/account").content
    world.faults.add("account.get", body="cut")
    answer = world.client().get("/v1/account")
    assert answer.status_code == 200
    assert answer.content == whole[: len(answer.content)]
    with pytest.raises(json.JSONDecodeError):
        answer.json()


def test_retry_after_comes_in_both_forms_and_absurd(world: World) -> None:
    world.faults.add("account.get", status=503, retry_after="30s", times=1)
    world.faults.add("slots.get", status=503, retry_after="90s", retry_after_form="date")
    world.faults.add("domains.list", status=429, headers={"Retry-After": "-1"})
    client = world.client()
    assert client.get("/v1/account").headers["retry-after"] == "30"
    dated = client.get("/v1/slots").headers
    ahead = parsedate_to_datetime(dated["retry-after"]) - parsedate_to_datetime(dated["date"])
    assert ahead.total_seconds() == 90
    assert client.get("/v1/domains").headers["retry-after"] == "-1"
    assert client.get("/v1/account").status_code == 200


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_connection_closes_before_during_and_after_the_answer(world: World, when: str) -> None:
    """With the same error in process as over a socket; of an answer that is torn a half can be read."""
    shares: dict[str, Any] = {f"drop_{when}_rate": 1}
    world.faults.add("domains.create", **shares)
    status, length, half = 0, 0, b""

    def ask() -> None:
        nonlocal status, length, half
        with world.client().stream("POST", "/v1/domains", json={"host": "a.example"}) as answer:
            status, length = answer.status_code, int(answer.headers["content-length"])
            for part in answer.iter_raw():
                half += part

    with pytest.raises(httpx.RemoteProtocolError) as caught:
        ask()
    assert caught.value.request.url.path == "/v1/domains"
    if when == "during":
        assert (status, len(half)) == (201, length // 2)
        says = f"peer closed connection without sending complete message body (received {len(half)} bytes, "
        assert str(caught.value) == f"{says}expected {length})"
    else:
        assert (status, str(caught.value)) == (0, "Server disconnected without sending a response.")
    assert hosts(world) == ([] if when == "before" else ["a.example"])
    calls = [one.to_dict() for one in world.twin.event_log if one.what == "call"]
    [event] = [one for one in calls if one["dropped"]]
    assert (event["dropped"], event["status"]) == (when, None if when == "before" else 201)


def test_a_body_that_is_torn_fails_whoever_reads_it_whole(world: World) -> None:
    world.faults.add(drop_during_rate=1)
    with pytest.raises(httpx.RemoteProtocolError, match="received 73 bytes, expected 147"):
        world.client().post("/v1/domains", json={"host": "ab.example"})

    async def ask() -> None:
        async with world.async_client() as client:
            assert (await client.head("/v1/domains")).status_code == 200
        async with world.async_client() as client:  # not on the connection that is about to close
            await client.get("/v1/domains")

    with pytest.raises(httpx.RemoteProtocolError, match="peer closed connection"):
        asyncio.run(ask())


def test_a_call_under_way_is_in_progress_for_another_of_its_key() -> None:
    """A retry that comes while the first call is not answered yet meets 409 (U92)."""
    with Server(seed=1) as server:
        server.faults.add("domains.create", latency_after="1s", times=1)
        once: dict[str, Any] = {"json": {"host": "a.example"}, "headers": {"Idempotency-Key": "1"}}
        answers = []

        def ask() -> None:
            with server.client() as client:
                answers.append(client.post("/v1/domains", **once))

        first = threading.Thread(target=ask)
        first.start()
        while not hosts(server):
            pass
        again = server.client().post("/v1/domains", **once)
        assert (again.status_code, again.json()["code"]) == (409, "idempotency_in_progress")
        first.join()
        assert answers[0].status_code == 201


def test_a_body_comes_slowly(world: World) -> None:
    world.faults.add("account.get", bytes_per_second=2_000)
    answer = world.client().get("/v1/account")
    assert answer.json()["data"]["id"]
    [rule] = world.faults.list()
    assert rule["effects"]["slowed"] == 1


def test_a_rule_befalls_its_path_for_its_time() -> None:
    with World(seed=1) as world:
        job = world.client().post("/v1/domains", json={"host": "a.example"}).json()["data"]["id"]
        world.faults.add(path="/v1/domains/*", status=503, lasts="10m")
        client = world.client()
        assert client.get("/v1/domains").status_code == 200
        assert client.get(f"/v1/domains/{job}").status_code == 503
        assert world.faults.list()[0]["until"] == "2026-03-02T09:10:00Z"
        saved = world.snapshot()
        world.clock.advance("10m")
        assert client.get(f"/v1/domains/{job}").status_code == 200
        world.restore(saved)
        assert client.get(f"/v1/domains/{job}").status_code == 503


@pytest.mark.parametrize(
    ("delivery", "count", "verified"),
    [("twice", 2, [True, True]), ("tampered", 1, [False]), ("old_signature", 1, [False])],
)
def test_a_webhook_attempt_comes_twice_tampered_or_signed_long_ago(
    world: World, delivery: Any, count: int, verified: list[bool]
) -> None:
    receiver = world.receiver(200)
    world.subscribe(receiver)
    world.faults.add("delivery", delivery=delivery, times=1)
    domain = world.client().post("/v1/domains", json={"host": "a.example"}).json()["data"]["id"]
    job = world.client().post("/v1/jobs", json={"kind": "crawl", "domain_id": domain}).json()["data"]["id"]
    world.jobs.finish(job)
    world.clock.advance("1s")
    assert len(receiver.requests) == count
    assert [one.valid for one in receiver.requests] == verified
    assert all(json.loads(one.body)["type"] == "job.completed" for one in receiver.requests)
    [event] = [one.to_dict() for one in world.twin.event_log if one.what == "delivery.altered"]
    assert (event["what_came"], event["faults"]) == (delivery, ["fault_1"])


def test_attempts_come_out_of_order() -> None:
    with World(seed=1) as world:
        receiver = world.receiver(200)
        world.subscribe(receiver)
        domains = [
            world.client().post("/v1/domains", json={"host": f"{name}.example"}).json()["data"]["id"]
            for name in "ab"
        ]
        started = [
            world.client().post("/v1/jobs", json={"kind": "crawl", "domain_id": one}).json()["data"]["id"]
            for one in domains
        ]
        world.faults.add("delivery", delivery="out_of_order", times=1)
        for job in started:
            world.jobs.finish(job)
        world.clock.advance("1s")
        came = [json.loads(one.body)["data"]["job"]["id"] for one in receiver.requests]
        assert came == started[::-1]


@pytest.mark.parametrize("name", BUNDLES)
def test_a_bundle_is_rules_of_its_scope(name: Any) -> None:
    with World(seed=1) as world:
        rules = world.faults.bundle(name, "jobs.*", lasts="10m")
        assert [rule["operation"] for rule in rules] == ["jobs.*"] * len(BUNDLES[name])
        assert world.faults.list() == rules
        over_http = world.control().post(f"/faults/bundles/{name}", json={"path": "/v1/jobs*"})
        assert over_http.status_code == 201
        assert {rule["path"] for rule in over_http.json()["data"]} == {"/v1/jobs*"}
    with pytest.raises(BadInput, match="did you mean 'overloaded'"):
        rules_of("overload", BundleScope())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "give at least one of latency"),
        ({"body": "cut", "text": "x"}, "body and text both say what the body is"),
        ({"delivery": "twice"}, "write operation: delivery"),
        ({"operation": "delivery", "status": 500}, "a webhook attempt takes latency and delivery alone"),
        ({"drop_before_rate": 0.6, "drop_during_rate": 0.6}, "together are at most 1"),
        ({"status": 100}, "status"),
        ({"headers": {"X": "\u20ac"}}, "'X' is no header that can be sent"),
        ({"headers": {"X": "a\r\nY: b"}}, "'X' is no header that can be sent"),
        ({"headers": {"X: Y": "a"}}, "'X: Y' is no header that can be sent"),
        ({"lasts": "0s", "error_rate": 1}, "lasts is a time"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        validate(FaultRule, Located("fault", given, {}))


def test_rules_of_a_former_file_are_read() -> None:
    """As a state file of an earlier version holds them."""
    former = {
        "made": 3,
        "rules": [
            {
                "id": "fault_3", "operation": "jobs.*", "key": None, "environment": None, "latency": None,
                "error_rate": 0.5, "drop_before_rate": 0.0, "drop_after_rate": 0.0, "times": None, "seen": 7,
                "effects": {"delayed": 0, "failed": 4, "dropped": 0},
            }
        ],
    }  # fmt: skip
    faults = Faults(1)
    faults.resume(former)
    assert faults.active["fault_3"].effects["failed"] == 4
    again = Faults(1)
    again.resume(faults.saved())
    assert again.saved() == faults.saved()
