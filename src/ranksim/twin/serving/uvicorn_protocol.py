"""uvicorn's HTTP/1.1 connection, with limits that keep bad clients from holding memory or connections."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any, NoReturn

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ranksim.twin.serving.asgi import Message, Receive
from ranksim.twin.serving.chunked import ChunkedBody, MalformedChunks
from ranksim.twin.serving.end_timer import EndTimer
from ranksim.twin.serving.limits import Limits
from ranksim.twin.serving.responses import Answering, RefusesUnreadable, busy, respond

MOST_HEADERS = 65_536
"""Bytes that a request's line and headers may take."""

TOO_LARGE = f"The request line and headers are larger than {MOST_HEADERS} bytes."

END = b"\r\n\r\n"
"""Where a head ends."""

MALFORMED = "The request is not well-formed HTTP/1.1."

HOST = re.compile(rb"[A-Za-z0-9._~%!$&'()*+,;=:\[\]-]*")
"""What may stand in a Host header: names, addresses, a port."""

REQUEST_SECONDS = 30.0
"""How long a request may take to arrive, its body included."""

STALLED_SECONDS = 30.0
"""How long a client may leave what is written to it unread, all of it, before the connection is dropped."""

LINGER_SECONDS = 2.0
"""How long a connection whose answer is written may still be read from before it is closed."""

MOST_LINGERING = 1_048_576
"""Bytes that are read and dropped meanwhile."""

MOST_SMALL = 65_536
"""Bytes of a body that may always be on their way."""


class Connection(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 connection, which bounds headers in size and requests in time.

    What arrives is cut where a head ends and where a body ends, and handed on piece by piece, so that how the
    network cut it makes no difference. The parser sees heads and bodies of known length; chunks are taken
    apart here, so that a trailer never becomes a header.

    What is no HTTP at all is refused with a complete problem body, when what came before it is answered, then
    the connection is closed. In the scope the app finds `ranksim.respond`, which sends a whole response at
    once, and `ranksim.abort`, which drops the connection.
    """

    _head = 0
    """Bytes of the head that is on its way."""
    _ending = b""
    """The last three bytes of a head of which only a part has come."""
    _left = 0
    """How much is still to come of a body of known length."""
    _unparsed = False
    """Whether that body is of a request for an upgrade, which the parser takes for one without a body."""
    _chunks: ChunkedBody | None = None
    """The body that is on its way in chunks."""
    _arriving = False
    """Whether a request is waited for that must be here in time."""
    _end_timer: EndTimer
    """When this connection ends unless something comes; no time while it is answered."""
    _problem = MALFORMED
    _refused = False
    """Whether this connection ends with a refusal; nothing more is read of it."""
    _later: tuple[bytes, int] = (b"", 0)
    """What came behind a request that is not answered yet, and where it goes on there: unread until it is."""
    _stalled: asyncio.TimerHandle | None = None
    _held = 0
    """Bytes of the body that is on its way."""
    _lingering = -1
    """Bytes that may still be read and dropped after the last answer; -1 before it."""

    def __init__(self, *given: Any, limits: Limits | None = None, **more: Any) -> None:
        super().__init__(*given, **more)
        self._limits = limits or Limits()

    def connection_made(self, transport: Any) -> None:
        """Give the first request its time."""
        super().connection_made(transport)
        self._end_timer = EndTimer(self.loop, self._end)
        self._arriving = True
        self._end_timer.set(REQUEST_SECONDS)
        most = self._limits.connections
        if most is not None and len(self.connections) > most:
            self._write_busy(f"There are {most} connections, and no more are taken")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        self._end_timer.cancel()
        self._let_go()
        self.resume_writing()
        self._later = (b"", 0)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read heads and bodies, one after the other, and none before the request ahead of it is answered."""
        if self._lingering >= 0:
            self._lingering -= len(data)
            if self._lingering < 0:
                self.transport.close()
            return
        before, at = self._later
        if before:
            self._later = (before[at:] + data, 0)
            self.flow.pause_reading()
        else:
            self._read(data, 0)

    def _read(self, data: bytes, at: int) -> None:
        size = len(data)
        try:
            while at < size and not self._refused:
                if self._chunks is not None:
                    at = self._read_chunks(self._chunks, data, at)
                    if at < size and self._chunks is not None:  # others have their turn
                        self._later = (data, at)
                        self.flow.pause_reading()
                        self.loop.call_soon(self._read_later)
                        break
                elif self._left:
                    at = self._read_body(data, at)
                elif self.cycle is None or self.cycle.response_complete:
                    at = self._read_head(data, at)
                else:
                    self._later = (data, at)
                    self.flow.pause_reading()
                    return
        except (HttpParserError, MalformedChunks) as error:
            self.send_400_response(str(error) if isinstance(error, MalformedChunks) else self._problem)
            return
        if not self._arriving and (self._head or self._left or self._chunks is not None):
            self._arriving = True
            self._end_timer.set(REQUEST_SECONDS)

    def shutdown(self) -> None:
        """End a stream without end, since the server shuts down; other answers are finished."""
        super().shutdown()
        scope: Any = self.scope
        if scope is not None and "ranksim.stop" in scope:
            scope["ranksim.stop"]()

    def on_headers_complete(self) -> None:
        """Check the head, note how its body will come, and begin to answer."""
        hosts, chunked, length = [], False, b""
        for name, value in self.headers:
            if name == b"host":
                hosts.append(value)
            elif name == b"transfer-encoding":
                chunked = True
            elif name == b"content-length":
                length = value
        if len(hosts) != 1 and (hosts or self.parser.get_http_version() == "1.1"):
            self._refuse(f"The request has {len(hosts) or 'no'} Host headers; HTTP/1.1 wants one.")
        if hosts and HOST.fullmatch(hosts[0]) is None:
            self._refuse("The Host header names no host.")
        super().on_headers_complete()
        answering: Any = self.cycle
        answering.transport = Answering(self.transport.write, self.transport.is_closing, self._linger)
        scope: Any = self.scope
        scope["ranksim.abort"] = self._abort
        scope["ranksim.respond"] = partial(respond, self.cycle)
        if chunked:
            self._chunks = ChunkedBody(MOST_HEADERS - self._head, TOO_LARGE)
            cycle: Any = self.cycle
            cycle.receive = partial(self._receive, cycle, cycle.receive)
        elif length:
            self._left, self._unparsed = int(length), self.parser.should_upgrade()
        self._head = 0

    def on_body(self, body: bytes) -> None:
        """Count what is on its way, and refuse what does not fit."""
        cycle = self.cycle
        if cycle.response_complete:
            return
        self._held += len(body)
        self._limits.arrived += len(body)
        if self._held > MOST_SMALL and self._limits.arrived > self._limits.arriving:
            self._refused = True
            self._let_go()
            cycle.disconnected = True
            cycle.body = bytearray()
            cycle.message_event.set()
            self._write_busy(
                f"Bodies of {self._limits.arriving} bytes are on their way, and no more are taken"
            )
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        """Note the end of a request; the parser thinks that one for an upgrade has no body."""
        if self._left or self._chunks is not None:
            return
        self._arriving, self._end_timer.due = False, None
        self._let_go()
        cycle = self.cycle
        if cycle.response_complete:
            self._end_timer.set(self.timeout_keep_alive)
        else:
            cycle.more_body = False
            cycle.message_event.set()

    def on_response_complete(self) -> None:
        """Read on behind the request that was answered, or refuse its body, which nobody read."""
        self._let_go_of_the_cycle()
        if self._refused:
            self._write_refusal()
            return
        if self.transport.is_closing() or self._lingering >= 0:
            return
        self.flow.resume_reading()
        if not self._arriving:
            self._end_timer.set(self.timeout_keep_alive)
        self._read_later()

    def _read_later(self) -> None:
        """Read on in what came, unless that was done already."""
        data, at = self._later
        if data and not self.transport.is_closing() and self._lingering < 0:
            self._later = (b"", 0)
            self.flow.resume_reading()
            self._read(data, at)

    def _abort(self) -> None:
        """Drop the connection, as a broken network does; that nothing was answered is no error then."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        self.transport.abort()

    def _let_go_of_the_cycle(self) -> None:
        """Drop what refers from a request to itself, or the garbage collector would have to find it."""
        scope: Any = self.scope
        scope.pop("ranksim.respond", None)
        vars(self.cycle).pop("receive", None)

    def pause_writing(self) -> None:
        """Give a client that does not read its time."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_SECONDS, self._drop_stalled, self._unread())

    def resume_writing(self) -> None:
        """Note that it reads."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    def _drop_stalled(self, before: int) -> None:
        """Drop a connection of which nothing was read; one that is read slowly has its time anew."""
        if self._unread() < before:
            self._stalled = self.loop.call_later(STALLED_SECONDS, self._drop_stalled, self._unread())
        else:
            self.transport.abort()

    def _unread(self) -> int:
        return self.transport.get_write_buffer_size()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read; an app that answers without reading it has answered first."""
        self._problem, self._refused, self._end_timer.due = msg, True, None
        self.flow.pause_reading()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if self._chunks is not None and not cycle.response_started:
                cycle.message_event.set()
                return
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.close()
                return
        self._write_refusal()

    def _let_go(self) -> None:
        """Count a body no longer that is complete, or never will be."""
        self._limits.arrived -= self._held
        self._held = 0

    def _write_busy(self, why: str) -> None:
        """Refuse for want of room, and close; this is no answer of the service."""
        self._refused = True
        self.transport.write(busy(why))
        self.transport.close()

    def _write_refusal(self) -> None:
        if self.transport.is_closing() or self._lingering >= 0:
            return
        app = self.config.app
        if not isinstance(app, RefusesUnreadable):
            super().send_400_response(self._problem)
            return
        status, headers, body = app.unreadable(self.client[0] if self.client else "", self._problem)
        lines = [STATUS_LINE[status], *(b"%b: %b\r\n" % header for header in headers)]
        self.transport.write(b"".join([*lines, b"connection: close\r\n\r\n", body]))
        self._linger()

    def _linger(self) -> None:
        """Close once the client has, or soon: a reset would cut what it still reads (RFC 9112, 9.6)."""
        if self.transport.is_closing() or self._lingering >= 0:
            return
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.write_eof()
        self._lingering, self._later, self._arriving = MOST_LINGERING, (b"", 0), False
        self.flow.resume_reading()
        self._end_timer.set(LINGER_SECONDS)

    async def _receive(self, cycle: RequestResponseCycle, receive: Receive) -> Message:
        """Hand the app the next piece of a body in chunks, or refuse one that is broken."""
        while self._chunks is not None and self._later[0] and not self._refused:
            await asyncio.sleep(0)  # what came is read before more is, a part in each turn
        message: Message = await receive()
        if self._refused and not cycle.response_complete:
            cycle.disconnected = True
            self._write_refusal()
            return {"type": "http.disconnect"}
        return message

    def _read_head(self, data: bytes, at: int) -> int:
        """Hand the parser what belongs to a head; return where that ends."""
        stop = 0
        if self._ending:
            place = (self._ending + data[at : at + 3]).find(END)
            stop = 0 if place < 0 else at - len(self._ending) + place + len(END)
        if not stop:
            place = data.find(END, at)
            stop = 0 if place < 0 else place + len(END)
        piece = data[at : stop or len(data)]
        room = MOST_HEADERS - self._head
        self._head += len(piece)
        if len(piece) > room:
            self.parser.feed_data(piece[:room])  # which may be malformed, and is told so however it was cut
            self._refuse(TOO_LARGE)
        self._ending = b"" if stop else (self._ending + piece)[-3:]
        upgrade = False
        try:
            self.parser.feed_data(piece)
        except HttpParserUpgrade:
            upgrade = True
        if stop and (upgrade or self._chunks is not None):
            self.parser = _parser(self)  # the one there was waits for chunks, or for another protocol
        return at + len(piece)

    def _read_body(self, data: bytes, at: int) -> int:
        """Consume what belongs to a body of known length; return where that ends."""
        part = data[at : at + self._left]
        self._left -= len(part)
        if not self._unparsed:
            self.parser.feed_data(part)
            return at + len(part)
        self.on_body(part)
        if not self._left:
            self._unparsed = False
            self.on_message_complete()
        return at + len(part)

    def _read_chunks(self, chunks: ChunkedBody, data: bytes, at: int) -> int:
        """Consume what belongs to a body in chunks; return where that ends."""
        part, at = chunks.feed(data, at)
        if part:
            self.on_body(part)
        if chunks.ended:
            self._chunks = None
            self.on_message_complete()
        return at

    def _refuse(self, problem: str) -> NoReturn:
        self._problem = problem
        raise HttpParserError(problem)

    def _end(self) -> None:
        """End what is due; a request whose headers are here and whose body does not arrive is told so."""
        waits = self.cycle is not None and not self.cycle.response_complete
        if not self._arriving or self._head or not waits:
            self.transport.close()
        elif not self.transport.is_closing():
            self.send_400_response(f"The request did not arrive within {REQUEST_SECONDS:.0f} s.")


def _parser(connection: Connection) -> HttpRequestParser:
    """Make a parser, as uvicorn does."""
    parser = HttpRequestParser(connection)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
