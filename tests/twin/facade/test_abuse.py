"""Bad clients get a clear refusal or a closed connection; memory stays bounded and the service alive."""

import asyncio
import gc
import json
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import pytest
from tests.kit.stage import LoopClock

from ranksim.core.clock import instant
from ranksim.twin.facade.app import MIB, Facade
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving import uvicorn_config, uvicorn_protocol
from ranksim.twin.serving.limits import Limits
from ranksim.twin.serving.listener import Listener


class Victim:
    """A served twin, spoken to byte by byte."""

    def __init__(self, twin: Twin, listener: Listener) -> None:
        self.twin, self.listener = twin, listener
        self.key = twin.keys["production"].encode()
        self.writers: list[asyncio.StreamWriter] = []

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect; what the story leaves open is closed when it ends, however it ends."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        self.writers.append(writer)
        return reader, writer

    async def taken(self) -> Any:
        """The server's side of the one connection there is, which can be fed piece by piece."""
        while not self.listener._server.server_state.connections:
            await asyncio.sleep(0)
        (connection,) = self.listener._server.server_state.connections
        return connection

    async def answer(self, *parts: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send these bytes, and give the one response, read until the server closes or it is complete."""
        reader, writer = await self.open()
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
        except ConnectionError:
            pass  # refused before all was sent; the answer may be here all the same
        return await response(reader, writer)

    async def check(self) -> None:
        """The service is alive: it answers a good request on a new connection."""
        status, _, body = await self.answer(
            b"GET /v1/domains HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %b\r\n\r\n"
            % self.key
        )
        assert (status, json.loads(body)["data"]) == (200, [])

    async def hangs_up(self, *readers: asyncio.StreamReader) -> bool:
        """Whether the server closes all of these without a word while it goes on to answer others."""
        for _ in range(50):
            await self.check()
            if all(map(gone, readers)):
                return True
        return False


def gone(reader: asyncio.StreamReader) -> bool:
    """Whether the server has closed a connection, on which it said nothing more."""
    return reader.at_eof() or isinstance(reader.exception(), ConnectionError)


async def response(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[int, dict[str, str], bytes]:
    try:
        heading = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in heading[1:])}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return int(heading[0].split()[1]), headers, body
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0, {}, b""
    finally:
        writer.close()


@asynccontextmanager
async def victim(limits: Limits | None = None) -> AsyncIterator[Victim]:
    twin = Twin(clock="manual", start=instant("2026-03-04T10:00:00Z"), sender=Scripted())
    listener = await Listener(Facade(twin), limits=limits).open()
    it = Victim(twin, listener)
    try:
        yield it
    finally:
        for writer in it.writers:
            writer.transport.abort()
        await listener.close()
        await twin.close()


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    """Fail when what is allocated meanwhile, by server and client together, peaks above `limit` bytes."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())


def post(victim: Victim, path: bytes = b"/v1/domains", *headers: bytes) -> bytes:
    lines = [b"POST %b HTTP/1.1" % path, b"Host: x", b"Authorization: Bearer %b" % victim.key, *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


GARBAGE = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS handshake
    b"HELO example.com\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /v1/domains HTTP/9.9\r\n\r\n",
    b"\x00" * 100,
    b"GET /v1/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /v1/domains HTTP/1.1\r\nHost: x\r\nBroken header\r\n\r\n",
    b"GET /v1/domains HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
    b"POST /v1/domains HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/domains HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST /v1/domains HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0",
    b"POST /v1/domains HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/domains HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_what_is_no_http_is_refused_or_hung_up_on(garbage: bytes) -> None:
    async def story() -> None:
        async with victim() as it:
            status, headers, body = await it.answer(garbage)
            assert status in (0, 400, 401, 404)
            if status:
                assert headers["x-request-id"]
                assert {"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"} <= set(headers)
                assert json.loads(body)["request_id"] == headers["x-request-id"]
            await it.check()

    run(story)


def test_the_refusal_of_garbage_says_what_it_is() -> None:
    async def story() -> None:
        async with victim() as it:
            status, headers, body = await it.answer(GARBAGE[6])
            problem = json.loads(body)
            assert (status, problem["code"], headers["content-type"]) == (
                400,
                "invalid_request",
                "application/problem+json",
            )
            assert problem["detail"] == "The request is not well-formed HTTP/1.1."
            assert headers["connection"] == "close"

    run(story)


def test_garbage_is_rate_limited_like_any_stranger() -> None:
    async def story() -> None:
        async with victim() as it:
            _, headers, _ = await it.answer(GARBAGE[6])
            assert headers["ratelimit-remaining"] == "599"
            status, headers, _ = await it.answer(b"GET /v1/domains HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (status, headers["ratelimit-remaining"]) == (401, "598")

    run(story)


def test_a_flood_of_headers_is_refused() -> None:
    async def story() -> None:
        async with victim() as it:
            heading = b"GET /v1/domains HTTP/1.1\r\nHost: x\r\n"
            floods = [
                [heading, *(b"X-%d: %b\r\n" % (n, b"y" * 1000) for n in range(100)), b"\r\n"],
                [heading, b"X: " + b"y" * 10 * MIB],
                [heading, *(b"X-%d: y\r\n" % n for n in range(20_000))],
                [b"GET /v1/domains?" + b"y" * 10 * MIB],
            ]
            for flood in floods:
                with memory_below(25 * MIB):
                    status, _, body = await it.answer(*flood)
                assert status in (0, 400)
                if status:
                    assert "headers are larger than 65536 bytes" in json.loads(body)["detail"]
                await it.check()

    run(story)


@pytest.mark.parametrize("cut", [1, 60_000, 100_000])
def test_headers_are_measured_however_they_are_cut(cut: int) -> None:
    large = b"".join(b"X-%d: %b\r\n" % (n, b"y" * 1000) for n in range(100))

    async def story() -> None:
        async with victim() as it:
            reader, writer = await it.open()
            taken = await it.taken()
            heading = b"GET /v1/domains HTTP/1.1\r\nHost: x\r\n" + large + b"\r\n"
            for part in (heading[:cut], heading[cut:]):
                taken.data_received(part)
            status, _, body = await response(reader, writer)
            assert status == 400
            assert "headers are larger than 65536 bytes" in json.loads(body)["detail"]

    run(story)


def test_what_comes_before_headers_does_not_count_as_theirs() -> None:
    async def story() -> None:
        async with victim() as it:
            reader, writer = await it.open()
            taken = await it.taken()
            first = post(it, b"/v1/nothing", b"Content-Length: 65000") + b"x" * 65_000
            second = b"OPTIONS / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 1000
            for part in (first + second, b"\r\n\r\n"):
                taken.data_received(part)
            assert [(await response(reader, writer))[0] for _ in range(2)] == [404, 204]

    run(story)


def test_headers_that_never_end_are_waited_for_no_longer_than_allowed() -> None:
    async def story() -> None:
        async with victim() as it:
            clock = LoopClock()
            connections = [await it.open() for _ in range(100)]
            for number, (_, writer) in enumerate(connections):
                writer.write(b"GET /v1/domains HTTP/1.1\r\n"[:number])
            await it.check()
            clock.now += uvicorn_protocol.REQUEST_SECONDS - 0.1
            await it.check()
            assert not any(gone(reader) for reader, _ in connections)
            clock.now += 0.2
            assert await it.hangs_up(*(reader for reader, _ in connections))

    run(story)


def test_a_second_request_that_never_ends_is_hung_up_on_too() -> None:
    async def story() -> None:
        async with victim() as it:
            clock = LoopClock()
            reader, writer = await it.open()
            writer.write(b"OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"GET /v1/dom")
            await it.check()
            clock.now += uvicorn_protocol.REQUEST_SECONDS
            assert await it.hangs_up(reader)

    run(story)


@pytest.mark.parametrize("then", [b"", b"\r\n", b"0123456789"], ids=["nothing", "a blank line", "a body"])
def test_an_idle_connection_ends_whatever_came_last(then: bytes) -> None:
    """Neither a blank line nor the body of a request that was answered without it keeps one open for good."""

    async def story() -> None:
        async with victim() as it:
            clock = LoopClock()
            reader, writer = await it.open()
            length = b"Content-Length: 10\r\n" if len(then) == 10 else b""
            writer.write(b"POST /_ranksim/nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n%b\r\n" % length)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 404 ")
            await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            writer.write(then)
            await it.check()
            seconds = uvicorn_protocol.REQUEST_SECONDS if then == b"\r\n" else uvicorn_config.IDLE_SECONDS
            clock.now += seconds - 0.1
            await it.check()
            assert not gone(reader)
            clock.now += 0.2
            assert await it.hangs_up(reader)

    run(story)


def test_a_body_that_never_comes_is_waited_for_no_longer_than_allowed() -> None:
    async def story() -> None:
        async with victim() as it:
            clock = LoopClock()
            reader, writer = await it.open()
            writer.write(post(it, b"/v1/domains", b"Content-Length: 10") + b"{")
            await it.check()
            clock.now += uvicorn_protocol.REQUEST_SECONDS
            status, headers, body = await response(reader, writer)
            assert (status, headers["connection"]) == (400, "close")
            assert "did not arrive within 30 s" in json.loads(body)["detail"]
            await it.check()

    run(story)


def test_a_client_that_leaves_in_the_middle_changes_nothing() -> None:
    async def story() -> None:
        async with victim() as it:
            _, writer = await it.open()
            writer.write(post(it, b"/v1/domains", b"Content-Length: 10") + b"{")
            await writer.drain()
            writer.close()
            await it.check()

    run(story)


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("path", ["/v1/domains", "/graphql", "/v1/nothing"])
def test_a_body_of_a_hundred_megabytes_is_refused_unread(declared: bool, path: str) -> None:
    async def story() -> None:
        async with victim() as it:
            chunk = b"x" * 65_536
            size = 100 * MIB
            if declared:
                parts = [
                    post(it, path.encode(), b"Content-Length: %d" % size),
                    *[chunk] * (size // len(chunk)),
                ]
            else:
                framed = b"%x\r\n%b\r\n" % (len(chunk), chunk)
                parts = [
                    post(it, path.encode(), b"Transfer-Encoding: chunked"),
                    *[framed] * (size // len(chunk)),
                ]
            with memory_below(25 * MIB):
                status, *_ = await it.answer(*parts)
            assert status in (0, 404 if "nothing" in path else 413)
            await it.check()

    run(story)


def test_a_body_that_is_only_too_large_hears_so_and_the_connection_goes_on() -> None:
    async def story() -> None:
        async with victim() as it:
            base, auth = it.listener.url, {"authorization": f"Bearer {it.key.decode()}"}
            async with httpx.AsyncClient(base_url=base, headers=auth, timeout=600) as client:
                for content in (b"x" * 5 * MIB, b"x" * (MIB + 1)):
                    sent = {"content-type": "application/json"}
                    refused = await client.post("/v1/domains", content=content, headers=sent)
                    assert refused.status_code == 413
                    assert "connection" not in refused.headers
                    assert (await client.get("/v1/domains")).status_code == 200

    run(story)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"host": ' + b"[" * 150 + b"]" * 150 + b"}",
        b'{"host": ' + b"9" * 500_000 + b"}",
        b'{"host": 1e' + b"9" * 500_000 + b"}",
        b'{"host": "' + b"\\u0000" * 50_000 + b'"}',
        b'{"host": "a.example", ' + b", ".join(b'"k%d": 1' % n for n in range(50_000)) + b"}",
        b'{"host": "\xed\xa0\x80"}',
        b'{"host": "\xc0\xaf"}',
    ],
)
def test_hostile_json_gets_an_answer(body: bytes) -> None:
    async def story() -> None:
        async with victim() as it:
            headers = (
                b"Content-Type: application/json",
                b"Content-Length: %d" % len(body),
                b"Idempotency-Key: k",
            )
            heading = post(it, b"/v1/domains", *headers)
            status, _, answer = await it.answer(heading, body)
            assert status in (201, 400, 413, 422)
            assert json.loads(answer)

    run(story)


@pytest.mark.parametrize(
    "header",
    [
        b"Authorization: Bearer \xff\xfe",
        b"Authorization: Bearer " + b"x" * 60_000,
        b"X-Request-Id: \xff",
        b"X-Request-Id: " + b"x" * 300,
        b"Idempotency-Key: \xff\xfe",
        b"Idempotency-Key: ",
        b"Idempotency-Key: " + b"k" * 256,
        b"Content-Type: application/json; charset=\xff",
        b"Content-Encoding: \xff",
        b"Expect: 100-continue",
    ],
)
def test_strange_headers_get_an_answer(header: bytes) -> None:
    async def story() -> None:
        async with victim() as it:
            body = b'{"host": "a.example"}'
            heading = post(it, b"/v1/domains", b"Content-Length: %d" % len(body), header)
            status, headers, _ = await it.answer(heading, body)
            assert status in (100, 400, 401, 415)
            assert status == 100 or headers["x-request-id"].isascii()
            await it.check()

    run(story)


@pytest.mark.parametrize(
    "offer",
    [b"Upgrade: websocket\r\nConnection: Upgrade", b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings"],
)
@pytest.mark.parametrize("cut", [0, 1, 10, None])
def test_an_offer_of_another_protocol_is_ignored_and_the_body_read(offer: bytes, cut: int | None) -> None:
    async def story() -> None:
        async with victim() as it:
            body = b'{"host": "a.example"}'
            headers = (b"Content-Type: application/json", b"Content-Length: %d" % len(body), offer)
            heading = post(it, b"/v1/domains", *headers)
            reader, writer = await it.open()
            if cut is None:
                writer.write((heading + body) * 2)
            else:
                writer.write(heading + body[:cut])
                connections = it.listener._server.server_state.connections
                while not any(connection._left for connection in connections):  # until it has read so far
                    await asyncio.sleep(0)
                writer.write(body[cut:] + heading + body)
            for _ in range(2):
                line = await reader.readuntil(b"\r\n\r\n")
                assert line.startswith(b"HTTP/1.1 201 ")
                length = int(line.partition(b"content-length: ")[2].partition(b"\r\n")[0])
                assert json.loads(await reader.readexactly(length))["data"]["host"] == "a.example"

    run(story)


def test_many_requests_on_one_connection_are_answered_in_order() -> None:
    async def story() -> None:
        async with victim() as it:
            reader, writer = await it.open()
            for number in range(200):
                writer.write(b"OPTIONS / HTTP/1.1\r\nHost: x\r\nX-Request-Id: n%d\r\n\r\n" % number)
            for number in range(200):
                heading = await reader.readuntil(b"\r\n\r\n")
                assert b"x-request-id: n%d\r\n" % number in heading

    run(story)


def test_what_is_piped_behind_an_unanswered_request_waits_unread() -> None:
    async def story() -> None:
        async with victim() as it:
            it.twin.requests = None  # the journal, which has bounds of its own
            _, writer = await it.open()
            connection = await it.taken()
            with memory_below(12 * MIB):
                writer.write(b"OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n" * 100_000)
                while not connection.flow.write_paused:
                    await asyncio.sleep(0)
                await it.check()
            assert len(connection._later[0]) <= 2 * 262_144

    run(story)


def test_behind_a_stream_nothing_piles_up() -> None:
    async def story() -> None:
        async with victim() as it:
            _, writer = await it.open()
            writer.write(b"GET /_ranksim/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            connection = await it.taken()
            with memory_below(12 * MIB):
                for _ in range(100):
                    writer.write(b"OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n" * 1_000)
                    await it.check()
            assert len(connection._later[0]) <= 2 * 262_144

    run(story)


def test_a_client_that_reads_nothing_is_dropped_in_time() -> None:
    async def story() -> None:
        async with victim() as it:
            clock = LoopClock()
            _, writer = await it.open()
            connection = await it.taken()
            writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
            while not connection.flow.write_paused:
                await asyncio.sleep(0)
            await it.check()
            assert not connection.transport.is_closing()
            clock.now += uvicorn_protocol.STALLED_SECONDS
            await it.check()
            assert connection.transport.is_closing()

    run(story)


def test_connections_beyond_the_limit_are_told_so_and_there_is_room_when_one_ends() -> None:
    async def story() -> None:
        async with victim(Limits(connections=2)) as it:
            first, second = await it.open(), await it.open()
            while len(it.listener._server.server_state.connections) < 2:
                await asyncio.sleep(0)
            status, headers, body = await response(*await it.open())
            assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
            assert json.loads(body)["detail"] == "There are 2 connections, and no more are taken now."
            first[1].write(b"OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await first[0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 ")
            second[1].close()
            while len(it.listener._server.server_state.connections) > 1:
                await asyncio.sleep(0)
            await it.check()

    run(story)


def test_half_sent_bodies_are_bounded_together_and_small_ones_are_always_taken() -> None:
    async def story() -> None:
        limits = Limits(arriving=MIB)
        async with victim(limits) as it:
            heading = post(it, b"/v1/domains", b"Content-Type: application/json", b"Content-Length: 1000000")
            for _ in range(3):
                _, writer = await it.open()
                writer.write(heading + b"x" * 300_000)
                await writer.drain()
            while limits.arrived < 900_000:
                await asyncio.sleep(0)
            status, _, body = await it.answer(heading, b"x" * 300_000)
            assert (status, json.loads(body)["status"]) == (503, 503)
            small = b'{"host": "no host"}'
            heading = post(
                it, b"/v1/domains", b"Content-Type: application/json", b"Content-Length: %d" % len(small)
            )
            assert (await it.answer(heading, small))[0] == 422
            assert limits.arrived == 900_000
            for writer in it.writers:
                writer.close()
            while limits.arrived:
                await asyncio.sleep(0)
            await it.check()

    run(story)


def test_a_client_that_does_not_read_holds_nobody_up() -> None:
    async def story() -> None:
        async with victim() as it:
            _, writer = await it.open()
            one = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
            writer.write(one * 500)
            await it.check()

    run(story)


def test_a_request_leaves_nothing_for_the_garbage_collector_and_little_to_look_at() -> None:
    """What refers to itself stays until a collection, which holds everybody up, longer the more there is.

    What is kept and forgotten in turn is counted by none, and looked at all at once: up to a whole journal.
    """

    async def story() -> None:
        async with victim() as it:
            body = b'{"host": "no host"}'
            json_ = b"Content-Type: application/json"
            sent = [
                b"GET /v1/domains HTTP/1.1\r\nHost: x\r\n\r\n",
                post(it, b"/v1/domains", json_, b"Content-Length: %d" % len(body)) + body,
                post(it, b"/v1/domains", json_, b"Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n",
                b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
            ]
            reader, writer = await it.open()

            async def asked() -> None:
                for request in sent:
                    writer.write(request)
                    head = await reader.readuntil(b"\r\n\r\n")
                    await reader.readexactly(
                        int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
                    )

            await asked()
            gc.collect()
            gc.disable()
            try:
                for _ in range(25):
                    await asked()
                journaled = 25 * 3
                assert len(gc.get_objects(generation=0)) < 5 * journaled
                assert gc.collect() < 25  # what there is once and at random, not of each request
            finally:
                gc.enable()

    run(story)
