"""Where messages begin and end, however the bytes of a connection are cut."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksim.judge.load.framing import CHUNKED, MOST_HEAD, TO_THE_END, Framer, Head, NotHttp, StreamPiece

BODIES = st.binary(max_size=300)
MESSAGES = st.lists(
    st.tuples(BODIES, st.booleans(), st.lists(st.integers(1, 100), max_size=5)), min_size=1, max_size=4
)


def written(body: bytes, chunked: bool, sizes: list[int]) -> bytes:
    """A request as a client writes it, by a library that nobody here wrote."""
    connection = h11.Connection(h11.CLIENT)
    length = ("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(len(body)))
    request = h11.Request(method="POST", target="/v1/domains", headers=[("Host", "a.example"), length])
    parts = [connection.send(request) or b""]
    rest = body
    for size in [*sizes, len(body)]:
        part, rest = rest[:size], rest[size:]
        if part:
            parts.append(connection.send(h11.Data(data=part)) or b"")
    return b"".join([*parts, connection.send(h11.EndOfMessage()) or b""])


def length_of(raw: bytes) -> int | None:
    return Head.parse(raw).length or 0


@given(MESSAGES, st.lists(st.integers(1, 200), max_size=20))
def test_pieces_are_the_bytes_and_their_payload_the_bodies(
    messages: list[tuple[bytes, bool, list[int]]], cuts: list[int]
) -> None:
    stream = b"".join(written(*message) for message in messages)
    framer, pieces, rest = Framer(length_of), list[StreamPiece](), stream
    for size in [*cuts, len(stream)]:
        part, rest = rest[:size], rest[size:]
        pieces += framer.feed(part)
    assert b"".join(piece.raw for piece in pieces) == stream
    bodies, body = [], b""
    for piece in pieces:
        body += piece.payload
        if piece.kind == "end":
            bodies.append(body)
            body = b""
    assert bodies == [body for body, _, _ in messages]
    assert framer.rest() == b""


def test_a_body_without_a_length_ends_with_its_connection() -> None:
    framer = Framer(lambda raw: TO_THE_END)
    pieces = [*framer.feed(b"HTTP/1.1 200 OK\r\n\r\nab"), *framer.feed(b"cd")]
    assert [(piece.kind, piece.payload) for piece in pieces] == [
        ("head", b""),
        ("body", b"ab"),
        ("body", b"cd"),
    ]
    assert framer.ends_with_connection


@pytest.mark.parametrize(
    "stream",
    [
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"x" * (MOST_HEAD + 1),
    ],
    ids=["tls", "header", "length", "chunk", "endless"],
)
def test_what_is_no_http_is_said_to_be_none(stream: bytes) -> None:
    with pytest.raises(NotHttp):
        list(Framer(length_of).feed(stream))


def test_headers_keep_their_names_and_order() -> None:
    head = Head.parse(b"GET /v1/x HTTP/1.1\r\nB: 1\r\na:2\r\nB:  3 \r\n\r\n")
    assert (head.first, head.joined(), head.get("b")) == (
        "GET /v1/x HTTP/1.1",
        {"B": "1, 3", "a": "2"},
        "1, 3",
    )
    assert head.length is None
    assert Head.parse(b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n").length == CHUNKED
