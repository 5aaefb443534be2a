"""Calls and webhooks that see no socket: an httpx transport into a world, and receivers mounted on URLs."""

from __future__ import annotations

import asyncio
import inspect
import logging
import ssl
from collections.abc import Callable
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import httpx

from ranksim.clock import SECOND
from ranksim.facade.app import Dropped
from ranksim.facade.sender import HttpSender
from ranksim.receiver.receiver import Receiver
from ranksim.service.calls import Answer, Attempt
from ranksim.serving.control_auth import LOOPBACK
from ranksim.serving.loop_thread import LoopThread

log = logging.getLogger("ranksim.testing")

CALLER = ("127.0.0.1", 50_000)
"""The address that calls without a socket seem to come from."""

App: TypeAlias = Callable[..., Any]
"""An ASGI or a WSGI application."""


class Transport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """An httpx transport, for `Client` and `AsyncClient` alike, into an ASGI app that lives on another loop.

    Answers are read to their end before they are handed on, so a stream without end wants a server.
    `closed` is called when a client that uses it is closed.
    """

    def __init__(self, app: App, thread: LoopThread, closed: Callable[[], None] | None = None) -> None:
        self._asgi = httpx.ASGITransport(app, client=CALLER)
        self._thread = thread
        self._closed = closed

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request of a `Client`."""
        return self._thread.call(self._answer(request, request.read()))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request of an `AsyncClient`, whatever loop it runs on."""
        return await self._thread.call_async(self._answer(request, await request.aread()))

    def close(self) -> None:
        """Call what the owner wants called."""
        if self._closed is not None:
            self._closed()

    async def aclose(self) -> None:
        """Call what the owner wants called."""
        self.close()

    async def _answer(self, request: httpx.Request, content: bytes) -> httpx.Response:
        try:
            return await _read_answer(self._asgi, request.method, request.url, request.headers, content)
        except Dropped:
            raise httpx.RemoteProtocolError("the connection was dropped", request=request) from None


class Mounts:
    """A sender that knows the programs behind URLs: a `Receiver`, an ASGI app, or a WSGI app in a thread.

    The longest URL that an endpoint's begins with decides. What is mounted nowhere is sent over the network
    if it is at a loopback address, or if `network` allows it. `waits` tells whether the delay of a mounted
    `Receiver` takes wall time; where it does not, one beyond the limit is a timeout at once.
    """

    def __init__(self, *, network: bool = False, waits: Callable[[], bool] = lambda: True) -> None:
        self.network = network
        self.waits = waits
        self.apps: dict[str, Receiver | App] = {}
        # The system's authorities take long to read, and say nothing about this machine.
        self._http = HttpSender(tls=None if network else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    async def send(self, attempt: Attempt, timeout_s: float) -> Answer:
        """Let the program behind the attempt's URL answer it."""
        found = [url for url in self.apps if _below(url, attempt.url)]
        if not found:
            if self.network or urlsplit(attempt.url).hostname in LOOPBACK:
                return await self._http.send(attempt, timeout_s)
            return Answer(None, "nothing is mounted at this URL, and it is not on this machine")
        app = self.apps[max(found, key=len)]
        if isinstance(app, Receiver):
            return await self._received(app, attempt, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                return Answer(await _posted(app, attempt))
        except TimeoutError:
            return Answer(None, "timeout", round(timeout_s * SECOND))

    def listens_at(self, port: int) -> None:
        """Send no webhook to a port of this machine, at which the world itself listens."""
        self._http.own_ports.add(port)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def _received(self, receiver: Receiver, attempt: Attempt, timeout_s: float) -> Answer:
        url = httpx.URL(attempt.url)
        headers = {name.lower(): text for name, text in attempt.headers.items()}
        came = receiver.accept("POST", url.path, url.query.decode(), headers, attempt.body)
        limit = round(timeout_s * SECOND)
        late = came.step.status is None or came.step.delay > limit
        taken = limit if late else came.step.delay
        if taken and self.waits():
            await asyncio.sleep(taken / SECOND)
        receiver.answered(came, None if late else came.step.status)
        return Answer(None, "timeout", taken) if late else Answer(came.step.status, None, taken)


async def _posted(app: App, attempt: Attempt) -> int:
    """POST an attempt to an app and give the status; 500 when the app raises."""
    url, headers = httpx.URL(attempt.url), httpx.Headers(dict(attempt.headers))
    try:
        if inspect.iscoroutinefunction(app) or inspect.iscoroutinefunction(type(app).__call__):
            asgi = httpx.ASGITransport(app, client=CALLER)
            return (await _read_answer(asgi, "POST", url, headers, attempt.body)).status_code
        wsgi = httpx.WSGITransport(app, remote_addr=CALLER[0])
        request = httpx.Request("POST", url, headers=headers, content=attempt.body)
        return await asyncio.to_thread(_status, wsgi, request)
    except Exception:
        log.exception("the app mounted at %s failed", attempt.url)
        return 500


def _status(transport: httpx.WSGITransport, request: httpx.Request) -> int:
    response = transport.handle_request(request)
    response.read()
    response.close()
    return response.status_code


async def _read_answer(
    transport: httpx.ASGITransport, method: str, url: httpx.URL, headers: httpx.Headers, content: bytes
) -> httpx.Response:
    """Let an ASGI app answer, and read the answer to its end."""
    response = await transport.handle_async_request(
        httpx.Request(method, url, headers=headers, content=content)
    )
    body = b"".join([part async for part in response.stream])  # type: ignore[union-attr]  # of an ASGI app: async
    return httpx.Response(response.status_code, headers=response.headers, stream=httpx.ByteStream(body))


def _below(mounted: str, url: str) -> bool:
    """Return whether a URL is the mounted one or goes on from it, its scheme in whatever case."""
    mounted, url = urlsplit(mounted).geturl(), urlsplit(url).geturl()
    rest = url.removeprefix(mounted)
    return url.startswith(mounted) and (not rest or mounted.endswith("/") or rest[0] in "/?#")
