"""A proxy that passes calls on as they are and writes them down: an application's own traffic as a trace.

Each connection of a client has one of its own to the upstream. Bytes are passed on as they come; only the
Host of a request is the upstream's, which would refuse another. What is written down is read from these bytes
beside, so that nothing waits for it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import struct
import zlib
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ranksim.core.callers.steps import Send
from ranksim.core.clock import Micros
from ranksim.core.files import write_file
from ranksim.core.service.routes import offered
from ranksim.core.trace import Header, TraceKey
from ranksim.judge.load.framing import TO_THE_END, UNSEEN, Framer, Head, StreamPiece
from ranksim.judge.load.merging import HEADER
from ranksim.judge.load.recorder import PartRecorder

READ = 1 << 16
MOST_BODY = 1 << 20
"""Bytes of a body that are written down; of a larger one it is said that it was not recorded."""

TARGET = "production"

NAMES = r"api[-_]?key|^key$|^sig$|token|secret|passw|signature|auth(?!enticate$)|session|cookie|credential"
CREDENTIAL = re.compile(f"(?i){NAMES}")
"""What is in the names of headers and parameters that are not written down; Authorization names the key."""

IN_BODIES = r"[\w-]*(?:api[-_]?key|token|secret|passw|signature|auth|session|credential)[\w-]*"
CREDENTIAL_FIELD = re.compile(rf'(?i)("(?!\w*secret")(?:{IN_BODIES})"\s*:\s*")(?:[^"\\]|\\.)*(?=")')
CREDENTIAL_CUT = re.compile(rf'(?i)("(?:{IN_BODIES})"\s*:\s*")(?:[^"\\]|\\.)*\\?\Z')
CREDENTIAL_PAIR = re.compile(rf"(?i)((?:^|[?&])(?:{IN_BODIES})=)[^&\s]*")
CREDENTIAL_PART = re.compile(rf'(?i)(;\s*name="(?:{IN_BODIES})"(?:.*\r\n)+?\r\n)(?s:.)*?(?=\r\n--|\Z)')
HIDDEN = r"\1hidden"
"""Fields of JSON, and of forms, whose values are not written down either."""


@dataclass(slots=True)
class Body:
    """A body as far as it is written down."""

    parts: bytearray = field(default_factory=bytearray)
    is_whole: bool = True

    def add(self, payload: bytes) -> None:
        """Take in what came."""
        if len(self.parts) + len(payload) > MOST_BODY:
            self.is_whole = False
            self.parts.clear()
        elif self.is_whole:
            self.parts += payload

    def text(self, encoding: str) -> str | None:
        """Return it as text; None where it is too large, or encoded as we do not read."""
        raw: bytes | None = bytes(self.parts)
        if encoding and raw:
            raw = _decoded(raw, encoding)
        return None if raw is None or not self.is_whole else raw.decode("utf-8", "replace")


def _decoded(raw: bytes, encoding: str) -> bytes | None:
    if encoding.lower() not in ("gzip", "x-gzip", "deflate"):
        return None
    with suppress(zlib.error):
        decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either header
        text = decoder.decompress(raw, MOST_BODY)
        return None if decoder.unconsumed_tail else text
    return None


@dataclass(slots=True)
class CallUnderWay:
    """A call that was passed on, until its reply ended."""

    head: Head
    sent: Micros
    body: Body = field(default_factory=Body)
    id: str = ""
    reply: Head | None = None
    answer: Body = field(default_factory=Body)

    @property
    def method(self) -> str:
        """The method of the request."""
        return self.head.first.split(" ")[0]


class KeyNames:
    """The names of keys, by their tokens, which are written nowhere: key-1, key-2, … as they come."""

    def __init__(self, directory: Path, header: Header, recorder: PartRecorder) -> None:
        self._directory, self._header, self._recorder = directory, header, recorder
        self._tokens: dict[str, str] = {}
        self._keys: dict[str, TraceKey] = dict(header.keys)  # those of before, whose tokens nobody has
        self._write()

    def name_of(self, authorization: str, environment: str) -> str | None:
        """Return the name of a call's key; None for a call without one."""
        token = authorization.partition(" ")[2].strip() or authorization
        if not token:
            return None
        if token not in self._tokens:
            self._recorder.hide(token)
            self._tokens[token] = f"key-{len(self._keys) + 1}"
            self._keys[self._tokens[token]] = TraceKey(environment=environment)
            self._write()
        return self._tokens[token]

    def owned(self, key: str, account: str) -> None:
        """Note whose a key is, as a reply told."""
        if self._keys[key].account != account:
            self._keys[key] = self._keys[key].model_copy(update={"account": account})
            self._write()

    def _write(self) -> None:
        header = self._header.model_copy(update={"keys": self._keys})
        write_file(self._directory / HEADER, json.dumps(header.model_dump(mode="json")))


class RecordingProxy:
    """Stands between a client and `upstream`; `keys` and `recorder` write down what passes.

    `tls` is how an https upstream is verified, `patience_s` how long connecting may take. `count` are the
    calls that were answered, `failures` those that were not.
    """

    def __init__(
        self, upstream: str, keys: KeyNames, recorder: PartRecorder, tls: SSLContext | None = None,
        patience_s: float = 30.0,
    ) -> None:  # fmt: skip
        parts = urlsplit(upstream)
        self._host, self._base = parts.hostname or "", parts.path.rstrip("/")
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._netloc = parts.netloc.rpartition("@")[2]
        self._tls = tls if parts.scheme == "https" else None
        self._keys, self._recorder, self._patience_s = keys, recorder, patience_s
        self.count = self.failures = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what a client sends over one connection, and what is answered, until either ends it."""
        with suppress(asyncio.CancelledError, ConnectionError):  # as recording ends, which the trace notes
            await self._serve(reader, writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            opening = asyncio.open_connection(self._host, self._port, ssl=self._tls, limit=READ)
            up_reader, up_writer = await asyncio.wait_for(opening, self._patience_s)
        except (OSError, TimeoutError) as error:
            self.failures += 1
            self._recorder.note("the upstream cannot be reached", why=str(error) or type(error).__name__)
            text = b"ranksim record: the upstream cannot be reached\n"
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nConnection: close\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(text), text))
            writer.write_eof()
            while await reader.read(READ):  # a close on unread bytes is a reset: the answer would be lost
                pass
            await _closed(writer)
            return
        connection = _Connection(self, self._keys, self._recorder)
        passing = [
            asyncio.ensure_future(self._pass(reader, up_writer, connection.requested, connection.rest)),
            asyncio.ensure_future(self._pass(up_reader, writer, connection.replied)),
        ]
        try:
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            if connection.is_under_way and reader.exception() is None:  # all is sent, and may be answered
                await asyncio.wait(passing[1:])
        finally:
            for task in passing:
                task.cancel()
            connection.closed(reader, up_reader)  # before it waits, which the end of recording cuts short
            await asyncio.gather(*passing, return_exceptions=True)
            await _closed(up_writer, is_reset=reader.exception() is not None)
            await _closed(writer, is_reset=up_reader.exception() is not None)

    async def _pass(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, see: Any, rest: Any = bytes
    ) -> None:
        with suppress(ConnectionError):
            while data := await source.read(READ):
                for part in see(data):
                    sink.write(part)
                await sink.drain()
            sink.write(rest())
            if sink.can_write_eof():
                sink.write_eof()

    def described(self, call: CallUnderWay) -> dict[str, Any]:
        """Return what a trace says of a request."""
        method, target, *_ = call.head.first.split(" ")
        url = urlsplit(target)
        environment = "sandbox" if "/sandbox/" in url.path else TARGET
        operation, _ = route_of(method, url.path)
        return {
            "target": TARGET, "environment": environment, "method": method, "path": url.path,
            "api_key": self._keys.name_of(call.head.get("authorization"), environment) or None,
            "account": "", "client": "recorded", "operations": [operation] if operation else [],
            "surface": "graphql" if url.path.endswith("/graphql") else "rest",
            "query": without_credentials(dict(parse_qsl(url.query, keep_blank_values=True))),
            "request_headers": without_credentials(call.head.joined()),
            "body": hide_credentials(call.body.text(call.head.get("content-encoding"))),
        }  # fmt: skip

    def addressed(self, raw: bytes) -> bytes:
        """Return a request's head with the upstream's Host, and below its base path."""
        first, *lines = raw.split(b"\n")
        if self._base:
            method, space, rest = first.partition(b" ")
            first = method + space + self._base.encode() + rest
        own = b"Host: " + self._netloc.encode()
        lines = [
            own + b"\r" * line.endswith(b"\r") if line[:5].lower() == b"host:" else line for line in lines
        ]
        return b"\n".join((first, *lines))


def hide_credentials(text: str | None) -> str | None:
    """Return a body without the values of fields whose names say that they let somebody in.

    Fields that end in "secret", as those of webhooks, get a digest when they are written down.
    """
    if not text:
        return text
    text = CREDENTIAL_CUT.sub(HIDDEN, CREDENTIAL_FIELD.sub(HIDDEN, text))
    return text if text[:1] in "{[" else CREDENTIAL_PAIR.sub(HIDDEN, CREDENTIAL_PART.sub(HIDDEN, text))


def without_credentials(named: dict[str, str]) -> dict[str, str]:
    """Return headers or parameters without what lets somebody in, as names say, those in URLs too."""
    harmless = {name: value for name, value in named.items() if not CREDENTIAL.search(name)}
    return {name: CREDENTIAL_PAIR.sub(HIDDEN, value) for name, value in harmless.items()}


def route_of(method: str, path: str) -> tuple[str, dict[str, str]]:
    """Return the operation of a REST path and its parameters; "" for another path."""
    rest = path.partition("/v1/")[2]
    methods, values = offered(rest.rstrip("/")) if rest else ({}, {})
    return (methods[method], dict(values)) if method in methods else ("", {})


class _Connection:
    """What is seen of one connection: its calls in order, each written down as it ends."""

    def __init__(self, proxy: RecordingProxy, keys: KeyNames, recorder: PartRecorder) -> None:
        self._proxy, self._keys, self._recorder = proxy, keys, recorder
        self._calls: deque[CallUnderWay] = deque()
        self._asking: CallUnderWay | None = None
        self._requests, self._replies = Framer(self._request_length), Framer(self._reply_length)
        self._is_seen = True

    @property
    def is_under_way(self) -> bool:
        """Whether a call waits for its reply, or what passes is not seen."""
        return bool(self._calls) or not self._is_seen

    def rest(self) -> bytes:
        """Return what a client that ended had sent of a piece, which is passed on unseen."""
        text = self._requests.rest()
        self._is_seen = self._is_seen and not text
        return text

    def requested(self, data: bytes) -> list[bytes]:
        """Return what is to be sent upstream for what a client sent."""
        return self._seen(self._requests, data, self._ask)

    def replied(self, data: bytes) -> list[bytes]:
        """Return what is to be sent to the client for what the upstream sent: just that."""
        self._seen(self._replies, data, self._answer)
        return [data]

    def _seen(self, framer: Framer, data: bytes, note: Any) -> list[bytes]:
        if not self._is_seen:
            return [framer.rest() + data]
        passed: list[bytes] = []
        try:
            for piece in framer.feed(data):
                passed.append(note(piece))
        except ValueError:  # NotHttp among them
            self._is_seen = False
            self._recorder.note("a connection is passed on unseen: it is no HTTP/1.1")
            passed.append(framer.rest())
        return [part for part in passed if part]

    def _ask(self, piece: StreamPiece) -> bytes:
        if piece.kind == "head":
            if self._asking is None and not piece.raw.strip():
                return piece.raw
            return self._proxy.addressed(piece.raw)
        if self._asking is not None:
            self._asking.body.add(piece.payload)
            if piece.kind == "end":
                self._write_request(self._asking)
                self._asking = None
        return piece.raw

    def _request_length(self, raw: bytes) -> int | None:
        head = Head.parse(raw)
        self._asking = CallUnderWay(head, self._recorder.clock.now())
        self._calls.append(self._asking)
        return head.length or 0

    def _write_request(self, call: CallUnderWay) -> None:
        if not call.id:
            described = self._proxy.described(call)
            call.id = self._recorder.began(
                Send(next(iter(described["operations"]), "")), call.sent, described
            )

    def _reply_length(self, raw: bytes) -> int | None:
        head = Head.parse(raw)
        status = int(head.first.split(" ")[1])
        if not self._calls or (100 <= status < 200 and status != 101):
            return None
        call = self._calls[0]
        call.reply = head
        if status == 101 or (call.method == "CONNECT" and status < 300):
            self._is_seen = False
            return UNSEEN
        if call.method == "HEAD" or status in (204, 304):
            return 0
        return TO_THE_END if head.length is None else head.length

    def _answer(self, piece: StreamPiece) -> bytes:
        if self._calls and self._calls[0].reply is not None:
            call = self._calls[0]
            call.answer.add(piece.payload)
            if piece.kind == "end":
                self._ended(self._calls.popleft())
        return b""

    def _ended(self, call: CallUnderWay, error: str | None = None) -> None:
        """Write down what came of a call."""
        self._write_request(call)
        if call.reply is None:
            self._proxy.failures += 1
            self._recorder.ended(call.id, error=error or "no reply came")
            return
        self._proxy.count += 1
        text = hide_credentials(call.answer.text(call.reply.get("content-encoding")))
        status = int(call.reply.first.split(" ")[1])
        self._recorder.ended(
            call.id, self._recorder.clock.now(), status=status,
            headers=without_credentials(call.reply.joined()), response=text, error=error,
        )  # fmt: skip
        self._learn(call, status, text)

    def _learn(self, call: CallUnderWay, status: int, text: str | None) -> None:
        """Take the account of a key from what GET /v1/account answered."""
        path = urlsplit(call.head.first.split(" ")[1]).path
        if call.method != "GET" or status != 200 or not path.endswith("/v1/account") or not text:
            return
        key = self._keys.name_of(call.head.get("authorization"), TARGET)
        with suppress(ValueError, TypeError, KeyError):
            account = json.loads(text)["data"]["id"]
            if key is not None and isinstance(account, str):
                self._keys.owned(key, account)

    def closed(self, client: asyncio.StreamReader, upstream: asyncio.StreamReader) -> None:
        """Write down what was under way as the connection closed."""
        error = "recording ended"
        for name, end in (("client", client), ("upstream", upstream)):
            if end.exception() is not None or end.at_eof():
                error = f"the {name} {'reset' if end.exception() is not None else 'closed'} the connection"
        is_complete = upstream.at_eof() and self._replies.ends_with_connection
        for call in self._calls:
            self._ended(call, None if is_complete and call.reply is not None else error)
            is_complete = False
        self._calls.clear()


async def _closed(writer: asyncio.StreamWriter, *, is_reset: bool = False) -> None:
    """Close a connection, by a reset where its other side was."""
    if is_reset:
        linger = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.close()
    with suppress(Exception):
        await writer.wait_closed()
