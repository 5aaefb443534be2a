"""Embedding: worlds without sockets, servers on ports, their clocks, receivers, accounts and copies."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from ranksim.core.clock import HOUR, MINUTE, instant, iso
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.testing import (
    START,
    Deployment,
    NeedsControl,
    NotSettled,
    Receiver,
    Server,
    World,
    asgi_app,
    open_target,
    transport,
)
from ranksim.twin.facade.httpx_transport import Transport
from ranksim.twin.serving.loop_thread import LoopThread

Kind = type[World]
TARGETS = pytest.mark.parametrize("kind", [World, Server], ids=["world", "server"])
SCHEDULE = [0, 1, 6, 36, 156, 516]
"""The minutes of the six attempts after the failure (S90)."""


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody connect or listen; an event loop's own pair of sockets is no connection."""

    def refuse(*_: object) -> None:
        raise AssertionError("a socket was used")

    for name in ("connect", "connect_ex", "bind", "listen", "accept"):
        monkeypatch.setattr(socket.socket, name, refuse)


def domain_of(world: World, host: str = "example.com", **options: Any) -> str:
    reply = world.client(**options).post("/v1/domains", json={"host": host})
    assert reply.status_code == 201, reply.text
    return str(reply.json()["data"]["id"])


def job_of(world: World, kind: str = "crawl") -> str:
    body = {"kind": kind, "domain_id": domain_of(world)}
    reply = world.client().post("/v1/jobs", json=body)
    assert reply.status_code == 202, reply.text
    return str(reply.json()["data"]["id"])


def minutes(receiver: Receiver) -> list[int]:
    """The minutes after the world's start at which attempts came."""
    return [(came.received - instant(START)) // MINUTE for came in receiver.requests]


# Calling


@TARGETS
def test_a_client_calls_both_environments_with_their_keys(kind: Kind) -> None:
    with kind() as world:
        domain_of(world, "live.example")
        domain_of(world, "test.example", environment="sandbox")
        hosts = [
            [one["host"] for one in world.client(environment=environment).get("/v1/domains").json()["data"]]
            for environment in ("production", "sandbox")
        ]
        assert hosts == [["live.example"], ["test.example"]]
        assert world.client(world.sandbox_key).get("/v1/domains").status_code == 401
        with pytest.raises(BadInput, match=r"^environment: expected production or sandbox"):
            world.client(environment="staging")


@TARGETS
def test_an_async_client_calls_from_a_loop_of_its_own(kind: Kind) -> None:
    async def calls(world: World) -> list[int]:
        async with world.async_client() as client:
            replies = await asyncio.gather(*(client.get("/v1/domains") for _ in range(5)))
            advance = await world.clock.advance_async("1h")
            assert advance.now == instant(START) + HOUR
        return [reply.status_code for reply in replies]

    with kind() as world:
        assert asyncio.run(calls(world)) == [200] * 5


@pytest.mark.usefixtures("no_sockets")
def test_a_world_opens_no_socket() -> None:
    with World() as world:
        receiver = world.receiver(500, 200)
        world.subscribe(receiver)
        world.jobs.fail(job_of(world))
        world.clock.advance("1m")
        assert [came.status for came in receiver.requests] == [500, 200]
    with httpx.Client(transport=transport(), base_url="http://any.test") as client:
        assert client.get("/v1/webhook-events").status_code == 200


def test_a_transport_has_a_world_of_its_own_that_ends_with_the_client() -> None:
    before = set(threading.enumerate())
    with httpx.Client(transport=transport(seed=5), base_url="http://any.test") as client:
        assert len(set(threading.enumerate()) - before) == 1
        reply = client.get("/v1/domains", headers={"X-Request-Id": "mine"})
        assert (reply.status_code, reply.headers["X-Request-Id"]) == (401, "mine")
    assert set(threading.enumerate()) <= before


def test_an_asgi_app_runs_on_the_loop_of_its_caller() -> None:
    async def call() -> int:
        inner = httpx.ASGITransport(asgi_app(clock="manual"))
        async with httpx.AsyncClient(transport=inner, base_url="http://any.test") as client:
            return (await client.get("/v1/webhook-events")).status_code

    before = set(threading.enumerate())
    assert asyncio.run(call()) == 200
    assert set(threading.enumerate()) <= before


@pytest.mark.fact("U84", "U100")
@pytest.mark.parametrize(
    ("settings", "statuses"),
    [
        ({}, [422, 422]),
        ({"strict_query": True, "strict_body": True}, [422, 422]),
        ({"strict_query": False}, [200, 422]),
        ({"strict_body": False}, [422, 201]),
    ],
    ids=str,
)
def test_typos_in_queries_and_bodies_are_found_unless_they_are_to_be_ignored(
    settings: dict[str, bool], statuses: list[int]
) -> None:
    query, body = "/v1/webhook-events?hots=a", {"host": "a.example", "lable": "x"}

    async def alone() -> int:
        inner = httpx.ASGITransport(asgi_app(clock="manual", empty=False, **settings))
        async with httpx.AsyncClient(transport=inner, base_url="http://any.test") as client:
            return (await client.get(query)).status_code

    assert asyncio.run(alone()) == statuses[0]
    with httpx.Client(transport=transport(**settings), base_url="http://any.test") as client:
        assert client.get(query).status_code == statuses[0]
    for kind in (World, Server):
        with kind(**settings) as world, world.fork() as other:
            for client in (world.client(), other.client()):
                answers = client.get(query), client.post("/v1/domains", json=body)
                assert [one.status_code for one in answers] == statuses


SOON = httpx.Timeout(None, read=0.01)


@TARGETS
@pytest.mark.fact("S48", "U92")
def test_an_answer_that_is_late_after_its_effect_holds_its_idempotency_key(kind: Kind) -> None:
    once: dict[str, Any] = {"json": {"host": "a.example"}, "headers": {"Idempotency-Key": "1"}}
    with kind() as world:
        world.faults.add("domains.create", latency_after="1h", times=1)
        with pytest.raises(httpx.ReadTimeout):
            world.client(timeout=SOON).post("/v1/domains", **once)
        client = world.client()
        assert [one["host"] for one in client.get("/v1/domains").json()["data"]] == ["a.example"]
        again = client.post("/v1/domains", **once)
        assert (again.status_code, again.json()["code"]) == (409, "idempotency_in_progress")
        assert {name for name, count in world.faults.list()[0]["effects"].items() if count} == {"delayed"}


def test_restoring_goes_back_to_the_fault_rules_of_then_and_forgets_requests() -> None:
    with World() as world:
        client = world.client()
        kept = world.faults.add("labels.list", error_rate=1)
        assert client.get("/v1/labels").status_code == 500
        before = world.snapshot()
        assert client.get("/v1/labels").status_code == 500
        world.faults.remove(kept["id"])
        world.faults.add("domains.list", error_rate=1)
        with world.fork() as other:
            assert [one["operation"] for one in other.faults.list()] == ["domains.list"]
        world.restore(before)
        assert [(one["id"], one["seen"]) for one in world.faults.list()] == [(kept["id"], 1)]
        assert world.requests.search() == []
        assert client.get("/v1/domains").status_code == 200
        assert world.faults.add("jobs.list", error_rate=1)["id"] == "fault_2"
        world.requests.assert_made(times=1)
        world.requests.clear()
        world.requests.assert_made(times=0)


def test_going_on_in_a_copy_keeps_the_requests_and_the_fault_rules() -> None:
    with World() as world:
        world.faults.add("labels.list", error_rate=1)
        world.client().get("/v1/labels")
        world.control().post("/fork", json={"name": "before"})
        assert world.requests.count() == 1
        assert len(world.faults.list()) == 1
        world.control().post("/snapshots/before/restore")
        assert (world.requests.count(), len(world.faults.list())) == (0, 1)


@pytest.mark.parametrize("began", [False, True], ids=["before any spend", "after some"])
def test_what_is_written_into_a_snapshot_as_used_is_used(began: bool) -> None:
    with World() as world:
        client = world.client()
        if began:
            domain = client.post("/v1/domains", json={"host": "a.example"}).json()["data"]["id"]
            client.post("/v1/keyword-briefs", json={"domain_id": domain, "keywords": ["a"]})
        saved = json.loads(world.snapshot())
        account = saved["state"]["accounts"][world.twin.service.state.keys[world.key].account]
        account["books"]["settled"] = 89_900_000
        account["meters"]["keyword_brief_refreshes"]["used"] = 49
        world.restore(json.dumps(saved).encode())
        usage = client.get("/v1/account/usage").json()["data"]
        assert usage["cost"]["settled"] == "89.90"
        used = {one["metric"]: one["used"] for one in usage["metrics"]}
        assert used["keyword_brief_refreshes"] == 49


def test_a_snapshot_with_other_fault_rules_than_there_are_is_refused() -> None:
    with World() as world:
        kept = world.faults.add("labels.list", error_rate=1)
        for faults in ([], {"made": "many", "rules": []}, {"made": 1, "rules": [{"id": "fault_1"}]}):
            wrong = json.dumps(json.loads(world.snapshot()) | {"faults": faults}).encode()
            with pytest.raises(BadInput, match=r"^snapshot: expected fault rules"):
                world.restore(wrong)
        assert [one["id"] for one in world.faults.list()] == [kept["id"]]


@TARGETS
def test_a_client_that_waits_for_too_long_gives_up(kind: Kind, capfd: pytest.CaptureFixture[str]) -> None:
    async def gives_up(world: World) -> None:
        async with world.async_client(timeout=SOON) as client:
            with pytest.raises(httpx.ReadTimeout):
                await client.get("/v1/domains")

    with kind() as world:
        world.faults.add("domains.list", latency="1h")
        with pytest.raises(httpx.ReadTimeout):
            world.client(timeout=SOON).get("/v1/domains")
        asyncio.run(gives_up(world))
        assert world.faults.list()[0]["seen"] == 2
    assert capfd.readouterr().err == ""  # a request that a closed world cuts off is no error


def test_what_a_client_gave_up_on_goes_on() -> None:
    went_on = threading.Event()
    thread = LoopThread()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await gate.wait()
        went_on.set()

    async def made() -> asyncio.Event:
        return asyncio.Event()

    gate = thread.call(made())
    client = httpx.Client(transport=Transport(app, thread), base_url="http://any.test", timeout=SOON)
    with client, pytest.raises(httpx.ReadTimeout):
        client.get("/")
    assert not went_on.is_set()
    thread.run(gate.set)
    assert went_on.wait(60)
    thread.stop()


@TARGETS
def test_faults_and_limits_are_set_in_python(kind: Kind) -> None:
    with kind() as world:
        rule = world.faults.add("domains.*", error_rate=1, times=1)
        answers = [world.client().get("/v1/domains").status_code for _ in range(2)]
        assert answers == [500, 200]
        (found,) = world.faults.list()
        assert (found["id"], found["seen"], found["effects"]["failed"]) == (rule["id"], 1, 1)
        world.faults.remove(rule["id"])
        world.faults.add(drop_before_rate=1)
        with pytest.raises(httpx.RemoteProtocolError):
            world.client().get("/v1/domains")
        world.faults.clear()
        assert world.faults.list() == []
        with pytest.raises(BadInput, match=r"^fault: error_rate: expected at most 1"):
            world.faults.add(error_rate=2)

        world.limits.off("cooldown", "rate")
        assert [name for name, on in world.limits.shown().items() if not on] == ["rate", "cooldown"]
        domain = domain_of(world)
        body = {"kind": "crawl", "domain_id": domain}
        assert [world.client().post("/v1/jobs", json=body).status_code for _ in range(30)] == [202] * 30
        world.limits.on()
        assert (world.plans["pro"].slot_limit, list(world.plans)[-1]) == (5_000, "agency")
        assert all(world.limits.shown().values())
        assert world.client().post("/v1/jobs", json=body).json()["code"] == "cooldown_active"


def test_aiohttp_calls_a_server() -> None:
    aiohttp = pytest.importorskip("aiohttp", reason="aiohttp is not installed")

    async def plan(server: Server) -> str:
        headers = {"Authorization": f"Bearer {server.key}"}
        async with (
            aiohttp.ClientSession(server.url, headers=headers) as session,
            session.get("/v1/account") as answer,
        ):
            return str((await answer.json())["data"]["plan"])

    with Server() as server:
        assert asyncio.run(plan(server)) == "pro"


def test_a_world_says_what_it_is() -> None:
    with World() as world:
        world.client().get("/v1/domains")
        assert repr(world) == "<World http://ranksim.test, clock 2026-03-02T09:00:00Z>"
        assert repr(world.requests.search()) == "[<request 1 (GET /v1/domains, answered 200)>]"
    assert repr(world).endswith(", closed>")
    stands = "clock 2026-03-02T09:00:00Z (manual)\nnothing is due\nno endpoint, so no webhook is sent\n"
    assert world.told().startswith(f"{stands}the last 1 of 1 requests:")


def test_a_blocking_call_from_the_worlds_own_loop_is_refused_not_stuck() -> None:
    with World() as world:

        async def call() -> None:
            world.client().get("/v1/domains")

        with pytest.raises(RuntimeError, match=r"^a blocking call from the thread"):
            world.thread.call(call())


@TARGETS
def test_any_number_side_by_side(kind: Kind) -> None:
    worlds = [kind(seed=seed) for seed in range(4)]
    for number, world in enumerate(worlds):
        for index in range(number):
            domain_of(world, f"{index}.example")
    counts = [len(world.client().get("/v1/domains").json()["data"]) for world in worlds]
    worlds[0].clock.advance("1h")
    times = {str(world.clock) for world in worlds[1:]}
    for world in worlds:
        world.close()
    assert counts == list(range(4))
    assert times == {START}
    assert len({world.key for world in worlds}) == 4


def test_a_closed_world_says_so() -> None:
    with World() as world:
        client = httpx.Client(transport=world.transport(), base_url=world.url)
    with pytest.raises(RuntimeError, match=r"^ranksim world: is closed"):
        client.get("/v1/domains")
    with pytest.raises(RuntimeError, match=r"is closed"):
        asyncio.run(world.clock.advance_async("1m"))


@TARGETS
def test_closing_twice_is_fine_and_leaves_no_thread(kind: Kind) -> None:
    before = set(threading.enumerate())
    world = kind()
    world.receiver()
    world.close()
    world.close()
    assert set(threading.enumerate()) <= before


def test_a_server_that_cannot_start_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with Server() as server:
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(BadInput, match=rf"^127.0.0.1:{port}: cannot listen"):
            Server(port=port)
        assert len(set(threading.enumerate()) - before) == 1


def test_a_fork_of_a_server_listens_where_that_does() -> None:
    with Server(host="127.0.0.2") as server, server.fork() as other:
        assert other.url.startswith("http://127.0.0.2:")
        assert other.url != server.url


def test_the_same_seed_gives_the_same_bytes() -> None:
    def told(seed: int) -> tuple[str, str, bytes]:
        with World(seed=seed, signature_clock="virtual") as world:
            receiver = world.receiver()
            endpoint = world.subscribe(receiver)
            world.jobs.finish(job_of(world))
            (came,) = receiver.requests
            return world.key, endpoint["secret"], came.signature.encode() + came.body

    assert told(1) == told(1)
    assert told(1) != told(2)


# Time


@TARGETS
@pytest.mark.fact("S90", "E22", "S79", "S81", "U67", "U68")
def test_the_whole_retry_timeline_is_delivered_and_verifies(kind: Kind) -> None:
    import stripe

    with kind() as world:
        receiver = world.receiver(500)
        endpoint = world.subscribe(receiver)
        world.jobs.fail(job_of(world), "the crawler was blocked")
        world.clock.advance("8h36m")
        assert minutes(receiver) == SCHEDULE
        assert [came.attempt for came in receiver.requests] == [1, 2, 3, 4, 5, 6]
        assert len({came.event_id for came in receiver.requests}) == 1
        assert len({came.body for came in receiver.requests}) == 1
        for came in receiver.requests:
            assert came.valid
            stripe.WebhookSignature.verify_header(
                came.body.decode(), came.signature, endpoint["secret"], tolerance=300
            )
        world.clock.advance("24h")
        assert len(receiver.requests) == 6


@pytest.mark.parametrize(
    ("how", "passed"),
    [
        ({"by": "36m"}, 36 * MINUTE),
        ({"by": timedelta(hours=1, minutes=1)}, 61 * MINUTE),
        ({"by": "5us"}, 5),
        ({"to": "2026-03-02T10:00:00Z"}, HOUR),
        ({"to": instant(START) + 7}, 7),
        ({"meter": "keyword_brief_refreshes"}, instant("2026-03-09T00:00:00Z") - instant(START)),
    ],
    ids=str,
)
def test_time_moves_as_far_as_it_is_told(how: dict[str, Any], passed: int) -> None:
    with World() as world:
        advance = world.clock.advance(**how)
        assert advance.settled
        assert world.clock.now - instant(START) == passed
        assert str(world.clock) == iso(instant(START) + passed)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"by": "-1m"},
        {"by": "soon"},
        {"by": 60},
        {"by": 1.5},
        {"to": "2026-01-01T00:00:00Z"},
        {"to": "noon"},
    ],
    ids=str,
)
def test_time_does_not_move_otherwise(how: dict[str, Any]) -> None:
    with World() as world:
        with pytest.raises(BadInput, match=r"^clock: "):
            world.clock.advance(**how)
        assert str(world.clock) == START


def test_time_moves_until_something_is_so() -> None:
    with World() as world:
        endpoint = world.subscribe(world.receiver(500))["id"]
        job = job_of(world)
        assert world.clock.advance(job=job).met
        finished = world.client().get(f"/v1/jobs/crawl/{job}").json()["data"]["finished_at"]
        assert str(world.clock) == finished
        assert world.clock.next().now == instant(finished) + MINUTE  # the first retry
        for _ in range(18):
            assert world.client().post(f"/v1/webhooks/{endpoint}/test").status_code == 202
        assert world.clock.advance(endpoint=endpoint).met
        assert world.client().get(f"/v1/webhooks/{endpoint}").json()["data"]["enabled"] is False


def test_a_receiver_without_an_answer_is_an_error_not_a_wait() -> None:
    with Server() as world:
        receiver = world.receiver("timeout")
        endpoint = world.subscribe(receiver)
        world.client().post(f"/v1/webhooks/{endpoint['id']}/test")
        with pytest.raises(NotSettled, match=rf"attempt 1 of evt_\d+ to {receiver.url}/hooks$"):
            world.clock.settle(timeout=0.1)
        assert str(world.clock) == START


@pytest.mark.fact("S88", "E24")
@pytest.mark.parametrize(
    ("step", "shown"),
    [
        ("200+9s", (200, None, 9000)),
        ("200+11s", (None, "timeout", 10_000)),
        ("timeout", (None, "timeout", 10_000)),
    ],
)
def test_delays_take_no_time_without_sockets(step: str, shown: tuple[int | None, str | None, int]) -> None:
    with World() as world:
        receiver = world.receiver(step)
        endpoint = world.subscribe(receiver)
        world.client().post(f"/v1/webhooks/{endpoint['id']}/test")
        world.clock.settle()
        (seen,) = world.client().get("/v1/webhook-deliveries").json()["data"]
        assert (seen["status_code"], seen["error"], seen["duration_ms"]) == shown
        assert receiver.requests[0].status == shown[0]


# Receiving


def starlette_app(answer: Callable[[bytes, str], int]) -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def hook(request: Request) -> Response:
        body = await request.body()
        return Response(status_code=answer(body, request.headers["Service-Signature"]))

    return Starlette(routes=[Route("/hooks", hook, methods=["POST"])])


def wsgi_app(answer: Callable[[bytes, str], int]) -> Any:
    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read()
        start_response(f"{answer(body, environ['HTTP_SERVICE_SIGNATURE'])} ", [])
        return [b"some text"]

    return app


@TARGETS
@pytest.mark.parametrize("framework", [starlette_app, wsgi_app])
def test_a_stock_receiver_with_stripes_verifier_takes_every_attempt(
    kind: Kind, framework: Callable[[Callable[[bytes, str], int]], Any]
) -> None:
    import stripe

    came: list[str] = []

    def answer(body: bytes, signature: str) -> int:
        stripe.WebhookSignature.verify_header(body.decode(), signature, secret, tolerance=300)
        came.append(str(world.clock))
        return 200 if len(came) == 6 else 503

    with kind() as world:
        world.mount("https://consumer.test", framework(answer))
        secret = world.subscribe("https://consumer.test/hooks")["secret"]
        world.jobs.fail(job_of(world))
        world.clock.advance("8h36m")
        assert came == [iso(instant(START) + minute * MINUTE) for minute in SCHEDULE]
        seen = world.client().get("/v1/webhook-deliveries").json()["data"]
        assert [one["status_code"] for one in seen] == [503] * 5 + [200]


def test_a_receiver_may_call_the_api_while_time_is_moved() -> None:
    seen: list[str] = []

    def answer(body: bytes, signature: str) -> int:
        seen.append(world.client().get(f"/v1/jobs/crawl/{job}").json()["data"]["status"])
        return 200

    with World() as world:
        world.mount("https://consumer.test", wsgi_app(answer))
        world.subscribe("https://consumer.test/hooks")
        job = job_of(world)
        world.clock.advance("1h")
        assert seen == ["done"]


def test_a_receiver_that_raises_is_a_500(caplog: pytest.LogCaptureFixture) -> None:
    def answer(body: bytes, signature: str) -> int:
        raise ZeroDivisionError("oops")

    with World() as world:
        for url, framework in (("https://a.test", starlette_app), ("https://b.test", wsgi_app)):
            world.mount(url, framework(answer))
            endpoint = world.subscribe(f"{url}/hooks")
            world.client().post(f"/v1/webhooks/{endpoint['id']}/test")
        world.clock.settle()
        seen = world.client().get("/v1/webhook-deliveries").json()["data"]
    assert [one["status_code"] for one in seen] == [500, 500]
    assert caplog.text.count("ZeroDivisionError: oops") == 2


def test_the_longest_mounted_url_decides_and_nothing_else_leaves_the_machine() -> None:
    with World() as world:
        outer, inner = Receiver(), Receiver()
        world.mount("https://consumer.test", outer)
        world.mount("https://consumer.test/in", inner)
        for place in ("test/in", "test/in/hooks", "test/inside", "test?in=1", "test.example/in"):
            endpoint = world.subscribe(f"https://consumer.{place}")
            world.client().post(f"/v1/webhooks/{endpoint['id']}/test")
        world.clock.settle()
        seen = world.client().get("/v1/webhook-deliveries").json()["data"]
    assert [came.path for came in inner.requests] == ["/in", "/in/hooks"]
    assert [(came.path, came.query) for came in outer.requests] == [("/inside", ""), ("/", "in=1")]
    assert [one["error"] for one in seen] == [None] * 4 + [
        "nothing is mounted at this URL, and it is not on this machine"
    ]


def test_a_refused_subscription_says_why() -> None:
    with World() as world, pytest.raises(BadInput, match=r"^webhook endpoint: 422 .*event_types"):
        world.subscribe(world.receiver(), event_types=["job.sulked"])


# What the API does not offer


@TARGETS
def test_accounts_keys_and_plans(kind: Kind) -> None:
    with kind() as world:
        acme = world.account("acme", plan="starter", environment="sandbox", status="past_due")
        client = world.client(acme)
        shown = client.get("/v1/account").json()["data"]
        assert (shown["id"], shown["plan"], shown["status"]) == (acme.id, "starter", "past_due")
        world.administer("change_plan", account=acme.id, plan="pro")
        assert client.get("/v1/account").json()["data"]["plan"] == "pro"
        second = world.administer("issue_key", account=acme.id, name="second")
        assert world.client(second, "sandbox").get("/v1/domains").status_code == 200
        world.administer("withdraw_key", token=second)
        assert world.client(second, "sandbox").get("/v1/domains").status_code == 401
        with pytest.raises(BadInput, match=r"^plan: expected one of"):
            world.account("other", plan="platinum")


def test_an_account_has_its_anchor_by_text_or_number() -> None:
    with World() as world:
        for anchor in ("2026-01-31T09:00:00Z", instant("2026-01-31T09:00:00Z")):
            client = world.client(world.account("acme", anchor=anchor))
            shown = client.get("/v1/account").json()["data"]
            assert (shown["period_start"], shown["period_end"]) == (
                "2026-02-28T09:00:00Z",
                "2026-03-31T09:00:00Z",
            )
        with pytest.raises(BadInput, match=r"^anchor: 'soon' is not an ISO 8601 instant"):
            world.account("acme", anchor="soon")


def test_time_moves_to_whole_microseconds() -> None:
    said = r"^clock: expected text with its unit, or a whole number"
    instant: Any = 1e18
    with World() as world, pytest.raises(BadInput, match=said):
        world.clock.advance(to=instant)


def test_jobs_end_as_told() -> None:
    with World() as world:
        job = job_of(world)
        world.jobs.fail(job, "no such host")
        shown = world.client().get(f"/v1/jobs/crawl/{job}").json()["data"]
        assert (shown["status"], shown["error_detail"]) == ("failed", "no such host")
        with pytest.raises(BadInput, match=r"has ended already, failed"):
            world.jobs.finish(job)
        with pytest.raises(BadInput, match=r"^job: there is none"):
            world.jobs.finish("job_x")


# Worlds


@TARGETS
def test_go_back_fork_and_begin_anew(kind: Kind) -> None:
    def hosts(of: World) -> list[str]:
        return [one["host"] for one in of.client().get("/v1/domains").json()["data"]]

    with kind() as world:
        domain_of(world, "one.example")
        receiver = Receiver()
        world.mount("https://consumer.test", receiver)
        endpoint = world.subscribe("https://consumer.test/hooks")["id"]
        saved = world.snapshot()
        domain_of(world, "two.example")
        world.clock.advance("1h")
        with world.fork() as other:
            domain_of(other, "three.example")
            other.clock.advance("1h")
            other.client().post(f"/v1/webhooks/{endpoint}/test")
            other.clock.settle()
            assert [came.path for came in receiver.requests] == ["/hooks"]
            assert hosts(other) == ["one.example", "two.example", "three.example"]
            assert other.clock.now - world.clock.now == HOUR
        assert hosts(world) == ["one.example", "two.example"]
        world.restore(saved)
        assert (hosts(world), str(world.clock)) == (["one.example"], START)
        world.reset()
        assert world.requests.count() == 0
        assert hosts(world) == []


# Targets


GIVEN_HEADERS = (
    {"authorization": "Bearer other", "X-Request-Id": "mine"},
    [("authorization", "Bearer other"), ("X-Request-Id", "mine")],
    httpx.Headers({"AUTHORIZATION": "Bearer other", "X-Request-Id": "mine"}),
)


@pytest.mark.parametrize("given", GIVEN_HEADERS, ids=lambda given: type(given).__name__)
def test_headers_of_a_client_take_the_place_of_its_own(deployment: Deployment, given: Any) -> None:
    with World() as world:
        for client in (world.client(headers=given), deployment.client(headers=given)):
            assert client.headers.get_list("authorization") == ["Bearer other"]
            assert client.get("/v1/domains").headers["X-Request-Id"] == "mine"
        assert world.client(headers=None).get("/v1/domains").status_code == 200


@pytest.mark.parametrize(("target", "kind"), [("inproc", World), ("server", Server)])
def test_a_target_is_opened(target: str, kind: Kind) -> None:
    with open_target(target, plan="starter", policy=Policy()) as world:
        assert type(world) is kind
        assert world.client().get("/v1/account").json()["data"]["plan"] == "starter"


@pytest.mark.parametrize(
    ("target", "key", "message"),
    [
        ("local", "", "RANKSIM_TARGET: expected inproc, server or a URL, found 'local'"),
        ("https://api.example", "", "RANKSIM_KEY: expected an API key"),
    ],
)
def test_a_wrong_target_is_refused(target: str, key: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        open_target(target, key)


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    """A real deployment, as far as one can tell."""
    with Server() as server, Deployment(server.url + "/", server.key) as deployment:
        yield deployment


def test_a_deployment_is_called_but_not_controlled(deployment: Deployment) -> None:
    assert deployment.client().get("/v1/domains").status_code == 200
    assert deployment.client("wrong").get("/v1/domains").status_code == 401

    async def call() -> int:
        async with deployment.async_client() as client:
            return (await client.get("/v1/domains")).status_code

    assert asyncio.run(call()) == 200
    for name in ("clock", "jobs", "requests", "account", "receiver", "snapshot", "twin"):
        with pytest.raises(NeedsControl, match=rf"^{name}: http://.* is a real deployment"):
            getattr(deployment, name)
    with pytest.raises(AttributeError):
        _ = deployment.clocks


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"job": "job_1", "endpoint": "whk_1"}, "clock: expected a job or an endpoint, not both"),
        ({"to": "2026-03-03T00:00:00Z", "meter": "research_lookups"}, "clock: a meter says how far to go; "),
        ({"by": "1h", "meter": "research_lookups"}, "clock: a meter says how far to go; "),
        ({"by": "1h", "account": "acc_1"}, "clock: account says whose meter is meant; "),
    ],
)
def test_an_advance_that_says_too_much_is_refused(more: dict[str, Any], message: str) -> None:
    with World() as world, pytest.raises(BadInput, match=f"^{message}"):
        world.clock.advance(**more)


def test_a_failing_assertion_names_what_came_near() -> None:
    with World() as world:
        client = world.client()
        client.post("/v1/domains", json={"host": "a.example"})
        client.get("/v1/domains")
        world.requests.assert_made(operation="domains.create", body={"host": "a.example"}, times=1)
        assert world.requests.count(path="/v1/domains") == 2
        with pytest.raises(AssertionError) as failed:
            world.requests.assert_made(operation="domains.create", body={"host": "b.example"})
    message = str(failed.value)
    assert message.startswith("expected at least 1 with operation 'domains.create'")
    assert "request 1 (POST /v1/domains, answered 201) differs in body.host" in message
    assert "expected 'b.example', found 'a.example'" in message


def test_a_server_that_ends_says_nothing_of_clients_that_gave_up(caplog: pytest.LogCaptureFixture) -> None:
    with Server() as server:
        server.faults.add("*", latency="60s")
        with pytest.raises(httpx.ReadTimeout):
            server.client(timeout=0.2).get("/v1/account")
    assert caplog.records == []


def test_a_clock_is_a_sleep_and_other_clocks_follow_it() -> None:
    with World() as world:
        came: list[str] = []
        world.clock.follow(lambda instant: came.append(instant.isoformat()))
        world.clock.sleep(90.5)
        asyncio.run(world.clock.sleep_async(1))
        world.clock.next()
        assert came == [
            "2026-03-02T09:00:00+00:00",
            "2026-03-02T09:01:30.500000+00:00",
            "2026-03-02T09:01:31.500000+00:00",
            "2026-03-02T09:01:31.500000+00:00",
        ]


FOLLOWING = """
from datetime import UTC, datetime
from {package} import {travel}
from ranksim.testing import World
with World() as world, {travel}({options}) as traveller:
    world.clock.follow(traveller.move_to)
    world.clock.advance("36h")
    print(datetime.now(UTC).isoformat(), world.client().get("/v1/account").headers["date"])
"""


@pytest.mark.parametrize(
    ("package", "travel", "options"),
    [("time_machine", "travel", "0, tick=False"), ("freezegun", "freeze_time", "real_asyncio=True")],
)
def test_a_clock_of_tests_follows_the_worlds(package: str, travel: str, options: str) -> None:
    """In a process of its own, as the time of all of it stands still."""
    pytest.importorskip(package)
    script = FOLLOWING.format(package=package, travel=travel, options=options)
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout == "2026-03-03T21:00:00+00:00 Tue, 03 Mar 2026 21:00:00 GMT\n"


def test_handles_say_what_they_are() -> None:
    with World(seed=1) as world:
        receiver = world.receiver(200)
        world.subscribe(receiver)
        client = world.client()
        domain = client.post("/v1/domains", json={"host": "a.example"}).json()["data"]["id"]
        job = client.post("/v1/jobs", json={"kind": "crawl", "domain_id": domain}).json()["data"]["id"]
        world.faults.add("labels.*", error_rate=1)
        world.limits.off("rate")
        assert repr(world.clock) == "<Clock 2026-03-02T09:00:00Z, manual>"
        assert repr(world.jobs) == f"<Jobs: 1, under way: {job}>"
        assert repr(world.faults) == "<Faults: fault_1 of labels.*>"
        assert repr(world.limits) == "<Limits: off: rate>"
        assert repr(world.requests) == "<Requests: 3 in the journal>"
        assert repr(receiver) == "<Receiver: no request>"
        advance = world.clock.advance(job=job)
        assert repr(advance).startswith(f"<Advance to {world.clock}: ")
        assert ", the condition came true>" in repr(advance)
        assert repr(receiver) == "<Receiver: 1 verified>"
