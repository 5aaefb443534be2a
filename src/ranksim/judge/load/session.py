"""One user's HTTP connections: a `Send` becomes a request, and both ends of it are written down.

Connections are those of the standard library: nothing is sent twice, no redirect is followed, certificates
are verified, and it is known whether a call that failed had been sent. Under Locust its sockets are gevent's.
A call has one deadline: a timeout of a socket is for each read alone, which a byte a second, or interim
replies without end (100 Continue), would outlast.
"""

from __future__ import annotations

import http.client
import io
import json
import select
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode, urlsplit

from ranksim.core.callers.http import effect_of, encode_body, headers_of, method_of, path_of
from ranksim.core.callers.steps import Received, Send
from ranksim.core.callers.target import Target
from ranksim.core.clock import DISTANT_FUTURE, SECOND, Micros
from ranksim.core.errors import BadInput
from ranksim.judge.load.recorder import PartRecorder

LOST_ON_PURPOSE = "lost on purpose"
"""The error of a call whose reply a program did not wait for: no failure of the deployment."""

LARGEST_REPLY = 8 << 20
"""Bytes, with all that comes before the body; a longer reply counts as lost."""

OWN_HEADERS = {"Accept": "application/json", "User-Agent": "ranksim-load"}

MOST_SELECTED = 1024
"""The number from which on select() does not take a file."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """The instant (µs) by which a call must be through, of a clock that tells `now`."""

    now: Callable[[], Micros]
    instant: Micros

    @classmethod
    def of(cls, now: Callable[[], Micros], timeout: float, until: Micros = DISTANT_FUTURE) -> Deadline:
        """Return the one that is so many seconds from now, and no later than an instant."""
        return cls(now, min(until, now() + round(timeout * SECOND)))

    def left(self) -> float:
        """Return the seconds that are left. Raises TimeoutError where none are."""
        left = (self.instant - self.now()) / SECOND
        if left <= 0:
            raise TimeoutError
        return left


class _ReplyStream(io.RawIOBase):
    """What comes over a socket until a call's deadline, and no more of it than a reply may have."""

    def __init__(self, sock: socket.socket, deadline: Deadline, largest: int) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._deadline = deadline
        self._largest = self._room = largest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._deadline.left())
        count = self._raw.readinto(buffer)
        self._room -= count or 0
        if self._room < 0:
            raise http.client.HTTPException(f"a reply of more than {self._largest} bytes")
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """A reply that is read until a deadline."""

    def __init__(
        self, sock: socket.socket, *args: Any, deadline: Deadline, largest: int, **options: Any
    ) -> None:
        super().__init__(sock, *args, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_ReplyStream(sock, deadline, largest))


def bound(connection: http.client.HTTPConnection, deadline: Deadline, largest: int) -> None:
    """Have the next request of an open connection sent and its reply read, of so many bytes, by a deadline.

    Either raises TimeoutError where it is not; the reply raises HTTPException where it is too long.
    """
    connection.response_class = partial(  # type: ignore[assignment]  # a factory does; typeshed knows classes
        _Response, deadline=deadline, largest=largest
    )
    connection.sock.settimeout(deadline.left())


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What came of a call: `received` is what the program is told; `error` is "" when a reply was seen."""

    received: Received
    error: str = ""
    length: int = 0


class Session:
    """Makes the calls of one user, one at a time. Close it at the end.

    `on_reply` is called with every JSON reply that was seen, as text. `timeout` is how long a call may take
    in all, in seconds, from its request to the last byte of its reply, and before it a connection. `until` is
    the instant of the recorder's clock (µs) after which no call is under way. `tls` verifies certificates, by
    default as the system does.
    """

    def __init__(
        self,
        target: Target,
        recorder: PartRecorder,
        *,
        client: str = "",
        timeout: float = 60.0,
        until: Micros = DISTANT_FUTURE,
        on_reply: Callable[[str], None] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.target = target
        self.recorder = recorder
        self.client = client
        self.timeout = timeout
        self.until = until
        self.on_reply = on_reply
        self.tls = tls or ssl.create_default_context()
        self._connections: dict[tuple[str, str], http.client.HTTPConnection] = {}

    def perform(self, send: Send) -> CallOutcome:
        """Make a call. Raises BadInput when the target has no such environment."""
        request, clock = _Request.of(send, self.target), self.recorder.clock
        try:
            connection = self._connected(request.base, Deadline.of(clock.now, self.timeout, self.until))
        except (OSError, ValueError, http.client.HTTPException) as broken:
            return self._not_sent(send, request, _described(broken))
        sent, deadline = clock.now(), Deadline.of(clock.now, self.timeout, self.until)
        name = self.recorder.began(send, sent, request.described(self.client))
        reply, error, effect = None, "stopped before a reply was seen", "unknown"
        try:
            reply = _round_trip(connection, request, deadline, listening=not send.lose)
            error = LOST_ON_PURPOSE
        except _UnsendableError as broken:
            error, effect = f"not sent: {broken}", "none"
        except (OSError, ValueError, http.client.HTTPException) as broken:
            error = _described(broken)
        finally:
            if reply is None:
                self._drop(request.base)
                self.recorder.ended(name, effect=effect, error=error)
        if reply is None:
            return CallOutcome(Received(0, None, {}, sent, clock.now(), error), error)
        return self._seen(send, request, name, sent, reply)

    def close(self) -> None:
        """Close all connections."""
        for base in list(self._connections):
            self._drop(base)

    def _seen(self, send: Send, request: _Request, name: str, sent: Micros, reply: _Reply) -> CallOutcome:
        body = _json(reply.text)
        if self.on_reply is not None and body is not None:
            self.on_reply(reply.text)
        self.recorder.ended(
            name,
            reply.received,
            status=reply.status,
            headers=reply.headers,
            response=reply.text,
            effect=effect_of(send, request.method, reply.status, body),
        )
        lower = {header.lower(): value for header, value in reply.headers.items()}
        return CallOutcome(Received(reply.status, body, lower, sent, reply.received), "", len(reply.text))

    def _not_sent(self, send: Send, request: _Request, why: str) -> CallOutcome:
        now = self.recorder.clock.now()
        name = self.recorder.began(send, now, request.described(self.client))
        self.recorder.ended(name, effect="none", error=f"not sent: {why}")
        return CallOutcome(Received(0, None, {}, now, now, why), f"not sent: {why}")

    def _connected(self, base: tuple[str, str], deadline: Deadline) -> http.client.HTTPConnection:
        """A connection that the other side has not closed as yet."""
        left = deadline.left()
        kept = self._connections.get(base)
        if kept is not None and kept.sock is not None and not is_readable(kept.sock):
            return kept
        self._drop(base)
        scheme, place = base
        connection = (
            http.client.HTTPSConnection(place, timeout=left, context=self.tls)
            if scheme == "https"
            else http.client.HTTPConnection(place, timeout=left)
        )
        connection.connect()
        self._connections[base] = connection
        return connection

    def _drop(self, base: tuple[str, str]) -> None:
        connection = self._connections.pop(base, None)
        if connection is not None:
            connection.close()


class _UnsendableError(Exception):
    """A call that cannot be put into a request; not a byte of it was sent."""


@dataclass(frozen=True, slots=True)
class _Reply:
    """A reply that was seen as a whole."""

    status: int
    headers: dict[str, str]
    text: str
    received: Micros


def _round_trip(
    connection: http.client.HTTPConnection, request: _Request, deadline: Deadline, *, listening: bool
) -> _Reply | None:
    """Send a request and read its reply to its end, or none where nobody listens.

    Raises TimeoutError, and HTTPException for a reply that is cut short or too long.
    """
    bound(connection, deadline, LARGEST_REPLY)
    try:
        connection.request(request.method, request.below, request.body, request.headers)
    except ValueError as error:
        raise _UnsendableError(str(error)) from None
    if not listening:
        return None
    response = connection.getresponse()
    if response.length is not None and response.length > LARGEST_REPLY:  # room is made for it at once
        raise http.client.HTTPException(f"a reply of more than {LARGEST_REPLY} bytes")
    raw = response.read()
    received = deadline.now()
    return _Reply(response.status, _joined(response.getheaders()), raw.decode(errors="replace"), received)


@dataclass(frozen=True, slots=True)
class _Request:
    """A `Send` as it goes over the wire, and what the trace says of it."""

    send: Send
    environment: str
    account: str
    base: tuple[str, str]
    below: str
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes | None

    @classmethod
    def of(cls, send: Send, target: Target) -> _Request:
        environment = send.environment or target.environment_of(send.key)
        if environment not in target.environments:
            environments = ", ".join(target.environments)
            raise BadInput(
                f"{send.operation}: the target has no environment {environment!r}; it has {environments}"
            )
        path, url = "/graphql", target.graphql_url(environment)
        if send.surface != "graphql":
            path = path_of(send)
            url = target.environments[environment] + path
        query = {name: str(value) for name, value in send.query.items()}
        parts = urlsplit(url)
        query_text = "&".join(filter(None, (parts.query, urlencode(query))))
        body, key, token = encode_body(send), target.keys.get(send.key), target.token(send.key)
        authorization = {} if token is None else {"Authorization": f"Bearer {token}"}
        return cls(
            send=send,
            environment=environment,
            account="" if key is None else key.account,
            base=(parts.scheme, parts.netloc),
            below=(parts.path or "/") + (f"?{query_text}" if query_text else ""),
            method=method_of(send),
            path=path,
            query=query,
            headers=OWN_HEADERS | authorization | headers_of(send, body),
            body=body,
        )

    def described(self, client: str) -> dict[str, Any]:
        """What the trace says of the call."""
        return {
            "target": self.environment,
            "environment": self.environment,
            "api_key": self.send.key or None,
            "account": self.account,
            "client": client,
            "surface": "rest" if self.method == "OPTIONS" else self.send.surface,
            "operations": [self.send.operation] if self.send.operation and self.method != "OPTIONS" else [],
            "method": self.method,
            "path": self.path,
            "query": self.query,
            "request_headers": self.headers,
            "body": "" if self.body is None else self.body.decode(errors="replace"),
        }


def refused(outcome: CallOutcome) -> bool:
    """Whether the deployment refused in the way it promises: a 4xx with a JSON object."""
    received = outcome.received
    return 400 <= received.status <= 499 and isinstance(received.body, dict)


def is_readable(sock: Any) -> bool:
    """Whether something stands to be read before anything was asked: the end, or what nobody wants."""
    try:
        if sock.fileno() < MOST_SELECTED:
            return bool(select.select([sock], [], [], 0)[0])  # under gevent much cheaper than poll
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    except (OSError, ValueError):
        return True


def _joined(headers: list[tuple[str, str]]) -> dict[str, str]:
    """Headers by name; one that came several times has its values joined by commas."""
    joined: dict[str, str] = {}
    for name, value in headers:
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


ERRORS = (
    (TimeoutError, "timeout"),
    (socket.gaierror, "host not found"),
    (ConnectionRefusedError, "connection refused"),
    (http.client.RemoteDisconnected, "connection closed without a reply"),
    ((ConnectionResetError, BrokenPipeError), "connection reset"),
    (http.client.IncompleteRead, "reply cut short"),
)
"""What may happen to a connection, the first that fits."""


def _described(error: Exception) -> str:
    general = " ".join(f"{type(error).__name__}: {error}".split())
    return next((words for kinds, words in ERRORS if isinstance(error, kinds)), general)
