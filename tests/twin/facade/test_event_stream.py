"""The stream of events: over a socket as clients read it, and message by message where that is clearer."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from tests.kit.stage import LoopClock

from ranksim.core.clock import HOUR, instant
from ranksim.core.contract.policy import Policy
from ranksim.twin.facade import event_stream
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.logged_event import AnsweredCall
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.listener import Listener, bind_socket
from ranksim.twin.serving.uvicorn_config import configured

START = instant("2026-03-04T10:00:00Z")

POLICY = Policy().replace(catalogue={"job_durations": {"crawl": "20m"}})


def make() -> Twin:
    return Twin(POLICY, clock="manual", start=START, sender=Scripted())


@asynccontextmanager
async def serving(twin: Twin) -> AsyncIterator[httpx.AsyncClient]:
    listener = await Listener(Facade(twin)).open()
    headers = {"authorization": f"Bearer {twin.keys['production']}"}
    try:
        async with httpx.AsyncClient(base_url=listener.url, headers=headers, timeout=600) as client:
            yield client
    finally:
        await listener.close()
        await twin.close()


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 600))


class Events:
    """What a stream says, event by event; comments apart."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.comments: list[str] = []

    async def next(self) -> dict[str, Any]:
        event: dict[str, Any] = {}
        async for line in self._lines:
            if line.startswith(":"):
                self.comments.append(line)
            elif line:
                name, _, text = line.partition(": ")
                event[name] = text
            elif event:
                return event | {"data": json.loads(event["data"])}
        raise EOFError

    async def until(self, kind: str) -> list[dict[str, Any]]:
        seen = [await self.next()]
        while seen[-1]["event"] != kind:
            seen.append(await self.next())
        return seen


@asynccontextmanager
async def following(client: httpx.AsyncClient, **more: Any) -> AsyncIterator[Events]:
    async with client.stream("GET", "/_ranksim/events", **more) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        yield Events(response.aiter_lines())


async def begin_job(client: httpx.AsyncClient) -> str:
    await client.post("/v1/webhooks", json={"url": "https://hooks.example"})
    domain = (await client.post("/v1/domains", json={"host": "a.example"})).json()["data"]["id"]
    job = await client.post("/v1/jobs", json={"kind": "crawl", "domain_id": domain})
    return str(job.json()["data"]["id"])


def test_what_happens_is_followed_over_a_socket() -> None:
    async def story() -> None:
        twin = make()
        async with serving(twin) as client:
            earlier = await begin_job(client)
            async with following(client) as stream:
                await client.post("/_ranksim/clock/advance", json={"by": "1h"})
                seen = await stream.until("clock.advanced")
                assert [event["event"] for event in seen] == [
                    "job.done", "cost.settled", "delivery.queued",
                    "attempt.sent", "attempt.answered", "clock.advanced",
                ]  # fmt: skip
                assert seen[0]["data"] == list(twin.event_log)[-6].to_dict()
                assert (seen[0]["data"]["job_id"], seen[0]["data"]["at"]) == (earlier, "2026-03-04T10:20:00Z")
                assert [int(event["id"]) for event in seen] == [one.seq for one in twin.event_log][-6:]
                assert stream.comments == [f": world {twin.world_id}"]
            async with following(client, headers={"last-event-id": seen[0]["id"]}) as stream:
                again = await stream.until("clock.advanced")
                assert again == seen[1:]
            async with following(client, params={"after": 0}) as stream:
                assert (await stream.next())["id"] == "1"

    run(story)


def test_what_is_not_remembered_is_said_to_be_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ranksim.twin.facade.event_log.KEPT", 2)

    async def story() -> None:
        twin = make()
        async with serving(twin) as client:
            await begin_job(client)
            await twin.advance(by=HOUR)
            async with following(client, params={"after": 1}) as stream:
                missed = await stream.next()
                assert (missed["event"], missed["data"]) == ("missed", twin.event_log.last - 3)
                assert (await stream.next())["id"] == str(twin.event_log.last - 1)

    run(story)


CALL = AnsweredCall(
    START, 1, "rest", "production", "GET", "/v1/jobs", ("jobs.list",), "", "", 200, "", 0, "ok", "", (), 1
)


def test_who_wants_few_is_sent_all_that_is_remembered_and_then_the_last_of_each_portion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_stream, "PACE_SECONDS", 0)
    monkeypatch.setattr(event_stream, "TOGETHER", 2)

    async def story() -> None:
        twin, wire = make(), Wire()
        log = twin.event_log
        for _ in range(5):
            log.add(CALL)
        beginning = 0, wire.scope, wire.receive, wire.send
        streaming = asyncio.create_task(event_stream.stream_events(twin, *beginning, most=1))
        said = [await wire.said() for _ in range(5)][2:]
        assert [numbers(one) for one in said] == [[1, 2], [3, 4], [5]]
        for _ in range(3):
            log.add(CALL)
        assert await wire.said() == "event: missed\ndata: 2\n\n"
        assert numbers(await wire.said()) == [8]
        wire.left.set()
        await streaming

    run(story)


def test_what_one_click_makes_is_not_missed_after_a_quiet_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "PACE_SECONDS", 0)

    async def story() -> None:
        twin, wire, clock = make(), Wire(), LoopClock()
        log = twin.event_log
        log.add(CALL)
        streaming = asyncio.create_task(
            event_stream.stream_events(twin, 0, wire.scope, wire.receive, wire.send, 400)
        )
        assert numbers([await wire.said() for _ in range(3)][2]) == [1]
        for _ in range(300):
            log.add(CALL)
        assert numbers(await wire.said()) == list(range(2, 302))
        for _ in range(300):
            log.add(CALL)
        assert await wire.said() == "event: missed\ndata: 201\n\n"  # of 400 in a second 301 were sent
        assert numbers(await wire.said()) == list(range(503, 602))
        clock.now += 1
        for _ in range(400):
            log.add(CALL)
        assert numbers(await wire.said()) == list(range(602, 1002))
        wire.left.set()
        await streaming

    run(story)


def numbers(said: str) -> list[int]:
    return [int(line.removeprefix("id: ")) for line in said.splitlines() if line.startswith("id: ")]


def test_numbers_of_an_earlier_process_do_not_hold_the_stream_up() -> None:
    async def story() -> None:
        twin = make()
        async with serving(twin) as client, following(client, headers={"last-event-id": "9999"}) as stream:
            await client.post("/_ranksim/reset")
            assert (await stream.next())["data"]["world_id"] == twin.world_id

    run(story)


def test_a_server_that_stops_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        twin = make()
        listener = bind_socket("127.0.0.1", 0)
        server = uvicorn.Server(configured(Facade(twin), lifespan="on", timeout_graceful_shutdown=None))
        serving = asyncio.create_task(server._serve([listener]))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        # httpcore waits and tries again while nobody listens yet
        transport = httpx.AsyncHTTPTransport(retries=10)
        async with httpx.AsyncClient(base_url=url, transport=transport, timeout=600) as client:
            async with following(client) as stream:
                server.should_exit = True
                with pytest.raises(EOFError):
                    await stream.next()
            await serving

    run(story)


# Message by message


class Wire:
    """The two ends of one ASGI request."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.left = asyncio.Event()
        self.scope: dict[str, Any] = {"method": "GET"}

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self.sent.put(message)

    async def said(self) -> str:
        return str((await self.sent.get()).get("body", b"").decode())


def test_a_silent_stream_shows_that_it_is_alive_and_ends_when_nobody_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0)

    async def story() -> None:
        twin, wire = make(), Wire()
        streaming = asyncio.create_task(
            event_stream.stream_events(twin, None, wire.scope, wire.receive, wire.send)
        )
        assert [await wire.said() for _ in range(3)] == ["", f": world {twin.world_id}\n\n", ": alive\n\n"]
        wire.left.set()
        await streaming
        last = [await wire.sent.get() for _ in range(wire.sent.qsize())][-1]
        assert last == {"type": "http.response.body", "body": b""}

    run(story)


def test_a_head_gets_no_stream() -> None:
    async def story() -> None:
        twin, wire = make(), Wire()
        wire.scope["method"] = "HEAD"
        await event_stream.stream_events(twin, None, wire.scope, wire.receive, wire.send)
        assert wire.sent.qsize() == 2

    run(story)


@pytest.mark.parametrize("last", ["9" * 5_000, "none", "-1"])
def test_a_last_event_id_that_is_no_number_is_ignored(last: str) -> None:
    async def story() -> None:
        async with serving(make()) as client:
            assert (await client.head("/_ranksim/events", headers={"last-event-id": last})).status_code == 200

    run(story)
