"""Where a request ends and what belongs to it: trailers, chunk extensions, Host; however it is cut."""

import asyncio
import json
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.kit.stage import LoopClock

from ranksim.twin.facade.app import MIB
from ranksim.twin.serving import uvicorn_protocol
from ranksim.twin.serving.chunked import LINES_AT_ONCE, ChunkedBody

from .test_abuse import memory_below, post, response, run, victim
from .wire import answered, key

BODY = b'{"host": "trailer.example.com"}'
JSON = b"Content-Type: application/json"
CHUNKED = b"Transfer-Encoding: chunked"


def talk(parts: Sequence[bytes]) -> bytes:
    """What a new world answers to these segments, each read by itself; a full stop where it hangs up."""
    wrote, closed = asyncio.run(answered(parts))
    return wrote + (b"." if closed else b"")


KEY = key()


def chunked(*parts: bytes, trailers: bytes = b"", extension: bytes = b"") -> bytes:
    """A body in chunks."""
    chunks = b"".join(b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in parts)
    return chunks + b"0\r\n" + trailers + b"\r\n"


def request(method: bytes, path: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    return (
        b"\r\n".join([b"%b %b HTTP/1.1" % (method, path), b"Host: 127.0.0.1", *headers]) + b"\r\n\r\n" + body
    )


AUTH = b"Authorization: Bearer " + KEY
CREATE = b"POST", b"/v1/domains"
TRAILERS = {
    "a key": (
        request(*CREATE, JSON, CHUNKED, body=chunked(BODY, trailers=AUTH + b"\r\nX-Request-Id: t\r\n")),
        401,
    ),
    "no key": (
        request(*CREATE, JSON, CHUNKED, AUTH, body=chunked(BODY, trailers=b"Authorization: Bearer no\r\n")),
        201,
    ),
    "an origin": (
        request(
            b"POST", b"/_ranksim/reset", JSON, CHUNKED, b"Origin: http://evil.example",
            body=chunked(b"{}", trailers=b"Origin: http://127.0.0.1\r\n"),
        ),
        403,
    ),
    "a host": (request(*CREATE, JSON, CHUNKED, AUTH, body=chunked(BODY, trailers=b"Host: b\r\n")), 201),
    "a length": (
        request(*CREATE, JSON, CHUNKED, AUTH, body=chunked(BODY, trailers=b"Content-Length: 3\r\n")),
        201,
    ),
}  # fmt: skip


@pytest.mark.parametrize("cut", ["whole", "two", "bytes"])
@pytest.mark.parametrize("name", TRAILERS)
def test_a_trailer_is_no_header(name: str, cut: str) -> None:
    sent, status = TRAILERS[name]
    last = sent.rindex(b"0\r\n")
    parts = {"whole": [sent], "two": [sent[:last], sent[last:]], "bytes": [bytes([byte]) for byte in sent]}[
        cut
    ]
    said = talk(parts)
    assert said.startswith(b"HTTP/1.1 %d " % status)
    assert b"x-request-id: t\r\n" not in said


def test_a_trailer_is_no_header_of_the_next_request_either() -> None:
    first = request(*CREATE, JSON, CHUNKED, body=chunked(BODY, trailers=AUTH + b"\r\n"))
    said = talk([first + request(b"GET", b"/v1/domains")])
    assert said.count(b"HTTP/1.1 401 ") == 2


BESIDE = {
    "trailers": (b"0\r\n", b"X-Trailer: " + b"y" * 8_000 + b"\r\n"),
    "one endless trailer": (b"0\r\nX-Trailer: ", b"y" * 8_000),
    "an endless extension": (b"2;", b"y" * 8_000),
    "extensions": (b"", b"1;x=" + b"y" * 8_000 + b"\r\nx\r\n"),
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_stands_beside_a_body_is_bounded_as_headers_are(name: str) -> None:
    begin, more = BESIDE[name]

    async def story() -> None:
        async with victim() as it:
            heading = post(it, b"/v1/domains", JSON, CHUNKED)
            with memory_below(25 * MIB):
                status, headers, body = await it.answer(heading, begin, *[more] * 4_000)  # 32 MB
            assert status in (0, 400)
            if status:
                assert "headers are larger than 65536 bytes" in json.loads(body)["detail"]
                assert headers["connection"] == "close"
            await it.check()

    run(story)


@pytest.mark.parametrize(("size", "status"), [(65_536, 201), (65_537, 400)])
@pytest.mark.parametrize("cut", [100_000, 60_000, 1_000])
def test_head_and_trailers_together_may_be_as_large_as_headers(size: int, status: int, cut: int) -> None:
    bare = request(*CREATE, JSON, CHUNKED, AUTH, b"X-Pad: ")
    head = request(*CREATE, JSON, CHUNKED, AUTH, b"X-Pad: " + b"p" * (300 - len(bare)))
    trailer = b"X: " + b"y" * (size - len(head) - 7) + b"\r\n"
    sent = head + chunked(BODY, trailers=trailer)
    parts = [sent[at : at + cut] for at in range(0, len(sent), cut)]
    assert talk(parts).startswith(b"HTTP/1.1 %d " % status)


def test_trailers_that_never_end_are_waited_for_no_longer_than_allowed() -> None:
    async def story() -> None:
        async with victim() as it:
            clock = LoopClock()
            reader, writer = await it.open()
            writer.write(post(it, b"/v1/domains", JSON, CHUNKED) + b"0\r\nX-Trailer: 1\r\n")
            await it.check()
            clock.now += uvicorn_protocol.REQUEST_SECONDS
            status, headers, body = await response(reader, writer)
            assert (status, headers["connection"]) == (400, "close")
            assert "did not arrive within 30 s" in json.loads(body)["detail"]

    run(story)


HOSTS = {
    "none": (b"GET /v1/domains HTTP/1.1\r\n", 400),
    "two": (b"GET /v1/domains HTTP/1.1\r\nHost: a\r\nHost: b\r\n", 400),
    "the same twice": (b"GET /v1/domains HTTP/1.1\r\nHost: a\r\nhost: a\r\n", 400),
    "two in HTTP/1.0": (b"GET /v1/domains HTTP/1.0\r\nHost: a\r\nHost: b\r\n", 400),
    "two words": (b"GET /v1/domains HTTP/1.1\r\nHost: a b\r\n", 400),
    "a path": (b"GET /v1/domains HTTP/1.1\r\nHost: a/b\r\n", 400),
    "none in HTTP/1.0": (b"GET /v1/domains HTTP/1.0\r\n", 200),
    "an empty one": (b"GET /v1/domains HTTP/1.1\r\nHost:\r\n", 200),
    "an address": (b"GET /v1/domains HTTP/1.1\r\nHost: [::1]:8080\r\n", 200),
}


@pytest.mark.parametrize("name", HOSTS)
def test_a_request_names_one_host(name: str) -> None:
    head, status = HOSTS[name]
    said = talk([head + AUTH + b"\r\n\r\n"])
    assert said.startswith(b"HTTP/1.1 %d " % status)
    if status == 400:
        assert b"Host header" in said
        assert said.endswith(b"}.")


@pytest.mark.parametrize("cut", [10**9, 65_536, 1_000])
def test_small_chunks_are_read_a_part_in_each_turn(cut: int) -> None:
    content = b'{"y":"' + b"x" * 20_000 + b'"}'
    sent = request(*CREATE, JSON, CHUNKED, AUTH, body=chunked(*(bytes([one]) for one in content)))
    body = ChunkedBody(0, "")
    part, _ = body.feed(sent, sent.index(b"\r\n\r\n") + 4)
    assert (len(part), body.ended) == (LINES_AT_ONCE // 2, False)
    parts = [sent[at : at + cut] for at in range(0, len(sent), cut)]
    behind = request(b"GET", b"/v1/account")
    said = talk([*parts[:-1], parts[-1] + behind])
    assert said.startswith(b"HTTP/1.1 422 ")
    assert said.count(b"HTTP/1.1 401 ") == 1


MALFORMED = {
    "no size": b"\r\n{}\r\n0\r\n\r\n",
    "a sign": b"+2\r\n{}\r\n0\r\n\r\n",
    "0x": b"0x2\r\n{}\r\n0\r\n\r\n",
    "17 digits": b"00000000000000002\r\n{}\r\n0\r\n\r\n",
    "a space after the size": b"2 \r\n{}\r\n0\r\n\r\n",
    "a bare line feed": b"2\n{}\r\n0\r\n\r\n",
    "a bare line feed after data": b"2\r\n{}\n0\r\n\r\n",
    "a bare carriage return": b"2;\r \r\n{}\r\n0\r\n\r\n",
    "too long": b"2\r\n{}}\r\n0\r\n\r\n",
    "NUL in an extension": b"2;\x00\r\n{}\r\n0\r\n\r\n",
    "a trailer without a colon": b"2\r\n{}\r\n0\r\ntrailer\r\n\r\n",
    "a folded trailer": b"2\r\n{}\r\n0\r\nA: b\r\n c\r\n\r\n",
    "NUL in a trailer": b"2\r\n{}\r\n0\r\nA: \x00\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_chunk_is_refused(name: str) -> None:
    said = talk([request(*CREATE, JSON, AUTH, CHUNKED, body=MALFORMED[name])])
    assert said.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in said
    assert said.endswith(b".")


UPGRADE = b"Connection: Upgrade", b"Upgrade: h2c"
SHAPES = [
    request(b"GET", b"/v1/domains", AUTH),
    request(b"GET", b"/v1/domains", b"X-Empty:", AUTH),
    b"\r\n\r\n" + request(b"OPTIONS", b"/v1/domains"),
    request(*CREATE, JSON, AUTH, b"Content-Length: %d" % len(BODY), body=BODY),
    request(*CREATE, JSON, AUTH, CHUNKED, body=chunked(BODY[:7], BODY[7:], extension=b' ;a="b"')),
    request(*CREATE, JSON, AUTH, CHUNKED, *UPGRADE, body=chunked(BODY)),
    request(*CREATE, JSON, AUTH, b"Content-Length: %d" % len(BODY), *UPGRADE, body=BODY),
    request(b"GET", b"/v1/domains", AUTH, CHUNKED, body=chunked(b"abc", trailers=b"A: b\r\n")),
    *(sent for sent, _ in TRAILERS.values()),
]  # fmt: skip
ENDS = [
    b"",
    b"GET\r\n\r\n",
    b"GET /v1/domains HTTP/1.1\r\n\r\n",
    request(b"GET", b"/v1/domains", AUTH, b"Connection: close"),
    *(request(*CREATE, JSON, AUTH, CHUNKED, body=body) for body in MALFORMED.values()),
    request(b"GET", b"/v1/domains", AUTH, CHUNKED, body=MALFORMED["too long"]),
]


@given(st.lists(st.sampled_from(SHAPES), max_size=3), st.sampled_from(ENDS), st.data())
@example([SHAPES[0]], ENDS[1], None)
def test_the_answer_does_not_depend_on_how_the_bytes_were_cut(
    shapes: list[bytes], end: bytes, data: st.DataObject | None
) -> None:
    sent = b"".join(shapes) + end
    cuts = [] if data is None else data.draw(st.lists(st.integers(0, len(sent)), max_size=8))
    edges = [0, *sorted(cuts), len(sent)]
    if data is None:
        edges = list(range(len(sent) + 1))
    parts = [sent[one:two] for one, two in pairwise(edges) if one < two]
    assert talk(parts) == talk([sent])


BROKEN = b"\x00 no request\r\n\r\n"
CUT_SHORT = {
    "a body that nobody reads": (
        request(b"POST", b"/docs", b"Connection: close", b"Content-Length: 300000"),
        b"x" * 300_000,
    ),
    "HTTP/1.0 and more behind": (b"GET /docs HTTP/1.0\r\n\r\n", b"x" * 300_000),
    "a broken request behind": (request(b"GET", b"/openapi.json"), BROKEN * 10_000),
    "it closes, and more behind": (request(b"GET", b"/openapi.json", b"Connection: close"), BROKEN * 10_000),
}


@pytest.mark.parametrize("name", CUT_SHORT)
def test_a_long_answer_is_whole_where_the_connection_closes_with_input_that_nobody_reads(name: str) -> None:
    heading, more = CUT_SHORT[name]

    async def story() -> None:
        async with victim() as it:
            loop = asyncio.get_running_loop()
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)  # so it is read in many turns
                client.setblocking(False)
                await loop.sock_connect(client, ("127.0.0.1", it.listener.port))
                await loop.sock_sendall(client, heading)
                sending = loop.create_task(loop.sock_sendall(client, more))
                wrote = b""
                while piece := await loop.sock_recv(client, 65_536):
                    wrote += piece
                await asyncio.gather(sending, return_exceptions=True)
            head, _, body = wrote.partition(b"\r\n\r\n")
            [length] = re.findall(rb"content-length: (\d+)", head)
            assert head.startswith(b"HTTP/1.1 200 ") or b" 405 " in head
            assert len(body) >= int(length) > 200

    run(story)


def test_a_client_that_stays_after_the_last_answer_is_hung_up_on_soon() -> None:
    async def story() -> None:
        async with victim() as it:
            clock = LoopClock()
            reader, writer = await it.open()
            writer.write(b"GET /v1/domains HTTP/1.0\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 401 ")
            server = await it.taken()
            writer.write(b"x")  # and does not hang up
            clock.now += uvicorn_protocol.LINGER_SECONDS
            while not server.transport.is_closing():
                await asyncio.sleep(0)

    run(story)


def test_a_client_that_goes_on_sending_after_the_last_answer_is_hung_up_on() -> None:
    async def story() -> None:
        async with victim() as it:
            reader, writer = await it.open()
            writer.write(b"GET /v1/domains HTTP/1.0\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 401 ")
            server = await it.taken()
            with suppress(ConnectionError):
                for _ in range(10_000):
                    writer.write(b"x" * 65_536)
                    await writer.drain()
            assert server.transport.is_closing()

    run(story)
