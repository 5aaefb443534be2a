"""uvicorn's HTTP/1.1 connection, with limits that keep bad clients from holding memory or connections."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Protocol, runtime_checkable

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ranksim.serving.asgi import Header

MOST_HEADERS = 65_536
"""Bytes that a request's line and headers may take."""

TOO_LARGE = f"The request line and headers are larger than {MOST_HEADERS} bytes."

REQUEST_SECONDS = 30.0
"""How long a request may take to arrive, its body included."""


@runtime_checkable
class RefusesUnreadable(Protocol):
    """An app that has an answer of its own for what is no HTTP request."""

    def unreadable(self, caller: str, detail: str) -> tuple[int, list[Header], bytes]:
        """Return the status, headers and body of that answer for a caller's address."""


class Connection(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 connection, which bounds headers in size and requests in time.

    What is no HTTP at all is refused with a complete problem body, then the connection is closed. In the
    scope the app finds `ranksim.respond`, which sends a whole response at once, and `ranksim.abort`, which
    drops the connection.
    """

    _heading = False
    """Whether a request's line and headers are on their way."""
    _chunk = 0
    """Bytes that are being read."""
    _first = 0
    """Bytes of the chunk in which the request began, which earlier ones may share."""
    _arrived = 0
    """Bytes read since the chunk in which the request began."""
    _left = 0
    """How much is still to come of the body of a request that asked for an upgrade."""
    _waiting: asyncio.TimerHandle | None = None
    _problem = "The request is not well-formed HTTP/1.1."

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Give the first request its time."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._unwait()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and count what it has not made headers of."""
        self._unset_keepalive_if_required()
        if self._left:
            data = self._take_body(data)
        self._chunk = len(data)
        self._arrived += self._chunk
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
            return
        except HttpParserError:
            self.send_400_response(self._problem)
            return
        if self._heading and self._arrived > MOST_HEADERS and not self.transport.is_closing():
            self.send_400_response(TOO_LARGE)

    def shutdown(self) -> None:
        """End a stream without end, since the server shuts down; other answers are finished."""
        super().shutdown()
        if self.scope is not None and "ranksim.stop" in self.scope:
            self.scope["ranksim.stop"]()  # type: ignore[typeddict-item]  # our own

    def on_message_begin(self) -> None:
        """Begin to count, and let the app close the connection."""
        super().on_message_begin()
        self._heading, self._first, self._arrived = True, self._chunk, 0
        self.scope["ranksim.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]  # our own
        if self._waiting is None:
            self._wait()

    def on_headers_complete(self) -> None:
        """Check what came as a whole, and begin to answer."""
        self._heading = False
        if self._first + self._arrived > MOST_HEADERS:
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > MOST_HEADERS:
                self._problem = TOO_LARGE
                raise HttpParserError(TOO_LARGE)
        super().on_headers_complete()
        respond = partial(_respond, self.cycle)
        self.scope["ranksim.respond"] = respond  # type: ignore[typeddict-unknown-key]  # our own

    def on_message_complete(self) -> None:
        """Note the end of a body; the parser thinks that a request for an upgrade has none."""
        if self.parser.should_upgrade():
            headers = dict(self.headers)
            if b"transfer-encoding" in headers:
                self._problem = "A request with chunked transfer coding cannot ask for an upgrade."
                raise HttpParserError(self._problem)
            self._left = int(headers.get(b"content-length", b"0"))
        if not self._left:
            self._unwait()
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read."""
        cycle, app = self.cycle, self.config.app
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started or self.pipeline:
                self.transport.close()
                return
        if not isinstance(app, RefusesUnreadable):
            super().send_400_response(msg)
            return
        status, headers, body = app.unreadable(self.client[0] if self.client else "", msg)
        lines = [STATUS_LINE[status], *(b"%b: %b\r\n" % header for header in headers)]
        self.transport.write(b"".join([*lines, b"connection: close\r\n\r\n", body]))
        self.transport.close()

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Continue in HTTP/1.1 though the client offers another protocol, as Java's does (RFC 9110, 7.8)."""
        self.parser = HttpRequestParser(self)
        if rest:
            self.data_received(rest)

    def _take_body(self, data: bytes) -> bytes:
        """Consume what belongs to a body that the parser does not see, and return the rest."""
        part, rest = data[: self._left], data[self._left :]
        self._left -= len(part)
        self.on_body(part)
        if not self._left:
            self._unwait()
            super().on_message_complete()
        return rest

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(REQUEST_SECONDS, self._give_up)

    def _unwait(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        """End a request that does not arrive; one whose headers are here is told so."""
        self._waiting = None
        if self.transport.is_closing():
            return
        if self._heading or self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self.send_400_response(f"The request did not arrive within {REQUEST_SECONDS:.0f} s.")


async def _respond(cycle: RequestResponseCycle, status: int, headers: list[Header], body: bytes) -> None:
    """Send a whole response in one write; its headers are ours and need no inspection."""
    if cycle.flow.write_paused and not cycle.disconnected:
        await cycle.flow.drain()
    if cycle.disconnected:
        return
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    parts = [STATUS_LINE[status]]
    for name, value in headers:
        if name == b"connection":
            cycle.keep_alive = False
        else:
            parts += (name, b": ", value, b"\r\n")
    if not cycle.keep_alive:
        parts.append(b"connection: close\r\n")
    parts += (b"\r\n", body)
    cycle.transport.write(b"".join(parts))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()


def configured(app: Any, **settings: Any) -> uvicorn.Config:
    """Configure uvicorn for an app of ours; `settings` are uvicorn's."""
    usual: dict[str, Any] = {
        "http": Connection,
        "ws": "none",
        "interface": "asgi3",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "date_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": 5,
    }
    return uvicorn.Config(app, **usual | settings)
