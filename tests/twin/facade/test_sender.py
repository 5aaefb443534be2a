"""Sending attempts over real sockets: exact bytes, no redirects, ten seconds, TLS, many at once."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from tests.kit.stage import LoopClock

from ranksim.core.service.calls import Answer, Attempt
from ranksim.twin.facade import http_sender as sending
from ranksim.twin.facade.http_sender import CheckedAddresses, HttpSender
from ranksim.twin.facade.sender import Scripted

if TYPE_CHECKING:
    import trustme

BODY = '{"id":"evt_1","text":"ä \\u00e9"}'.encode()

HEADERS = {
    "Content-Type": "application/json",
    "Service-Signature": "t=1,v1=abc",
    "Service-Event-Id": "evt_1",
    "Service-Event-Type": "job.completed",
    "Service-Delivery-Attempt": "3",
}


def attempt(url: str, endpoint: str = "whk_1", number: int = 1) -> Attempt:
    return Attempt(number, number, endpoint, "acc_1", url, "evt_1", "job.completed", 3, HEADERS, BODY)


class Receiver:
    """A bare TCP server: what came over it, and what it does with each connection."""

    def __init__(self, answer: bytes | None, tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self.tls = tls
        self.heard: list[bytes] = []
        self.connections = 0
        self.open = self.most = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            while True:
                heading = await reader.readuntil(b"\r\n\r\n")
                length = int(heading.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                self.heard.append(heading + await reader.readexactly(length))
                if self.answer is None:
                    await reader.read()  # says nothing until the sender hangs up
                    return
                writer.write(self.answer)
                await writer.drain()
                if b"content-length" not in self.answer.lower():
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()
            await asyncio.sleep(0)
            writer.transport.abort()  # what the sender has not read by now, nobody will
            self.open -= 1

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        port = server.sockets[0].getsockname()[1]
        try:
            yield f"{'https' if self.tls else 'http'}://127.0.0.1:{port}/hooks?a=1&b=%20"
        finally:
            server.close()
            for _ in range(10):
                await asyncio.sleep(0)  # what was accepted last begins to be served
            while self.open:  # the sender has hung up before, so each connection is about to end
                await asyncio.sleep(0)
            await asyncio.sleep(0)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def using(**options: object) -> AsyncIterator[HttpSender]:
    sender = HttpSender(**options)
    try:
        yield sender
    finally:
        await sender.close()


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())


async def turns() -> None:
    """Let the loop do all that is ready."""
    for _ in range(20):
        await asyncio.sleep(0)


async def answered(receiver: Receiver, timeout_s: float = 600.0, **options: object) -> Answer:
    async with receiver.listening() as url, using(**options) as sender:
        return await sender.send(attempt(url), timeout_s)


@pytest.mark.fact("S77", "S78", "S79", "S80", "S81", "U68")
def test_exactly_the_given_bytes_and_headers_are_sent() -> None:
    receiver = Receiver(OK)
    answer = asyncio.run(answered(receiver))
    assert (answer.status, answer.error) == (200, None)
    assert answer.duration > 0
    (heard,) = receiver.heard
    heading, _, body = heard.partition(b"\r\n\r\n")
    assert body == BODY
    line, *headers = heading.decode().split("\r\n")
    assert line == "POST /hooks?a=1&b=%20 HTTP/1.1"
    sent = dict(header.split(": ", 1) for header in headers)
    assert sent.items() >= HEADERS.items()
    assert set(sent) - set(HEADERS) == {"Host", "User-Agent", "Accept", "Content-Length"}
    assert sent["Host"].startswith("127.0.0.1:")


@pytest.mark.fact("S87")
@pytest.mark.parametrize("status", [200, 201, 204, 299, 400, 404, 410, 429, 500, 503])
def test_the_status_is_the_answer(status: int) -> None:
    receiver = Receiver(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status)
    assert asyncio.run(answered(receiver)).status == status


@pytest.mark.fact("S89")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int) -> None:
    async def story() -> None:
        elsewhere = Receiver(OK)
        async with elsewhere.listening() as url:
            moved = b"HTTP/1.1 %d Moved\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % (status, url.encode())
            assert (await answered(Receiver(moved))).status == status
        assert elsewhere.heard == []

    run(story)


@pytest.mark.fact("S88")
def test_no_answer_in_time_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        clock, receiver = LoopClock(), Receiver(None)
        monkeypatch.setattr(sending, "time", clock)
        async with receiver.listening() as url, using() as sender:
            sent = asyncio.ensure_future(sender.send(attempt(url), 10))
            while not receiver.heard:
                await asyncio.sleep(0)
            clock.now += 9
            await turns()
            assert not sent.done()
            clock.now += 1
            assert await sent == Answer(None, "timeout", 10_000_000)

    run(story)


def test_a_status_counts_even_if_the_body_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        clock, reading = LoopClock(), asyncio.Event()

        async def read(response: object) -> None:
            reading.set()
            await original(response)

        original = sending._read
        monkeypatch.setattr(sending, "_read", read)
        receiver = Receiver(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegin")
        async with receiver.listening() as url, using() as sender:
            sent = asyncio.ensure_future(sender.send(attempt(url), 10))
            await reading.wait()
            clock.now += 10
            assert (await sent).status == 200

    run(story)


def test_an_endless_body_is_not_read_to_its_end() -> None:
    receiver = Receiver(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 200_000)
    assert asyncio.run(answered(receiver)).status == 200


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"nonsense\r\n\r\n", "connection closed without an answer"),
        (b"HTTP/1.1 200 OK\r\nX: ", "connection closed without an answer"),
        (b" ", "connection closed without an answer"),
    ],
)
def test_what_is_no_answer_is_told(answer: bytes, error: str) -> None:
    given = asyncio.run(answered(Receiver(answer)))
    assert (given.status, given.error) == (None, error)


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://127.0.0.1:1/", "connection refused"),
        ("http://[::1]:1/", "connection"),
        ("http://no-such-host.invalid/", "host not found"),
        ("http://a..b/", "host not found"),
    ],
)
def test_where_nobody_listens(url: str, error: str) -> None:
    async def story() -> None:
        async with using() as sender:
            answer = await sender.send(attempt(url), 600)
            assert answer.status is None
            assert error in (answer.error or "")

    run(story)


# TLS


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    import trustme

    return trustme.CA()


def server_side(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    return context


@pytest.mark.parametrize(
    ("trusted", "name", "status", "error"),
    [
        (True, "127.0.0.1", 200, None),
        (True, "other.example", None, "TLS certificate refused: IP address mismatch"),
        (False, "127.0.0.1", None, "TLS certificate refused: unable to get local issuer certificate"),
    ],
)
def test_certificates_are_verified(
    authority: trustme.CA, trusted: bool, name: str, status: int | None, error: str | None
) -> None:
    client = ssl.create_default_context()
    if trusted:
        authority.configure_trust(client)
    receiver = Receiver(OK, server_side(authority, name))
    answer = asyncio.run(answered(receiver, tls=client))
    assert answer.status == status
    assert (answer.error or "").startswith(error or "")
    assert len(receiver.heard) == (1 if status else 0)


def test_plain_http_where_tls_is_expected_is_told() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(OK)
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(plain, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with using() as sender:
            answer = await sender.send(attempt(f"https://127.0.0.1:{port}/"), 600)
            assert (answer.status, answer.error) == (None, "TLS handshake failed")
        server.close()

    run(story)


# Many


def test_connections_are_used_again() -> None:
    async def story() -> None:
        receiver = Receiver(OK)
        async with receiver.listening() as url, using() as sender:
            for _ in range(3):
                assert (await sender.send(attempt(url), 600)).status == 200
        assert (len(receiver.heard), receiver.connections) == (3, 1)

    run(story)


@pytest.mark.slow
def test_one_slow_receiver_delays_none_of_three_hundred() -> None:
    async def story() -> None:
        slow, quick = Receiver(None), Receiver(OK)
        async with slow.listening() as silent, quick.listening() as url, using() as sender:
            stuck = [asyncio.ensure_future(sender.send(attempt(silent, "slow"), 600)) for _ in range(100)]
            answers = await asyncio.gather(*(sender.send(attempt(url, f"whk_{n}"), 600) for n in range(300)))
            assert {answer.status for answer in answers} == {200}
            assert not any(one.done() for one in stuck)
            for one in stuck:
                one.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)

    run(story)


def test_attempts_to_one_endpoint_take_turns_and_the_wait_is_not_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "MOST_AT_ONCE", 2)

    async def story() -> None:
        clock, receiver = LoopClock(), Receiver(None)
        async with receiver.listening() as url, using() as sender:
            sent = [asyncio.ensure_future(sender.send(attempt(url), 10)) for _ in range(6)]
            for turn in (2, 4, 6):
                while len(receiver.heard) < turn and not all(one.done() for one in sent):
                    await asyncio.sleep(0)
                clock.now += 10
            answers = await asyncio.gather(*sent)
        assert [answer.error for answer in answers] == ["timeout"] * 6
        assert (receiver.connections, receiver.most) == (6, 2)

    run(story)


# The guard of private networks


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "10.0.0.1", "169.254.169.254", "[::1]", "192.168.1.1"]
)
def test_private_addresses_can_be_refused(host: str) -> None:
    async def story() -> None:
        async with using(receivers="public") as sender:
            answer = await sender.send(attempt(f"http://{host}:9/"), 10)
            assert answer.status is None
            assert "not a public address" in (answer.error or "")

    run(story)


def test_the_address_that_was_checked_is_the_one_connected_to() -> None:
    async def story() -> None:
        guard, connected = CheckedAddresses(lambda address, port: None), []

        class Inner:
            async def connect_tcp(self, host: str, port: int, *rest: object) -> None:
                connected.append((host, port))

        guard._inner = Inner()
        await guard.connect_tcp("93.184.216.34", 443)
        assert connected == [("93.184.216.34", 443)]

    run(story)


# Without sockets


def test_a_scripted_sender_answers_at_once() -> None:
    async def story() -> None:
        scripted = Scripted(lambda one: 503 if one.number == 3 else Answer(None, "timeout"))
        assert await scripted.send(attempt("https://a.example"), 10) == Answer(503)
        assert [one.url for one in scripted.sent] == ["https://a.example"]
        await scripted.close()
        assert await Scripted().send(attempt("https://a.example"), 10) == Answer(200)

    run(story)
