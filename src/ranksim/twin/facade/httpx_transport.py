"""HTTP without a socket: an httpx transport into a world, and deliveries posted to apps in this process."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterator

import httpx

from ranksim.core.service.calls import Attempt
from ranksim.twin.facade.answering import Dropped
from ranksim.twin.serving.asgi import App
from ranksim.twin.serving.loop_thread import LoopThread

log = logging.getLogger("ranksim.testing")

CALLER = ("127.0.0.1", 50_000)
"""The address that calls without a socket seem to come from."""


NO_RESPONSE = "Server disconnected without sending a response."
TORN = "peer closed connection without sending complete message body (received {} bytes, expected {})"
"""What httpx says of connections that close, with a socket."""


class TornBody(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The part of a body of `length` bytes that came before the connection closed."""

    def __init__(self, part: bytes, length: int) -> None:
        self._part, self._length = part, length

    def __iter__(self) -> Iterator[bytes]:
        if self._part:
            yield self._part
        if len(self._part) < self._length:
            raise httpx.RemoteProtocolError(TORN.format(len(self._part), self._length))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self:
            yield part


class Transport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """An httpx transport, for `Client` and `AsyncClient` alike, into an ASGI app that lives on another loop.

    Answers are read to their end before they are handed on, so a stream without end wants a server. A client
    whose time for reading is over gives up, and what it asked for goes on, as behind a socket.
    `closed` is called when a client that uses it is closed.
    """

    def __init__(self, app: App, thread: LoopThread, closed: Callable[[], None] | None = None) -> None:
        self._asgi = httpx.ASGITransport(app, client=CALLER)
        self._thread = thread
        self._closed = closed

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request of a `Client`."""
        try:
            return self._thread.call(self._answer(request, request.read()), _patience(request))
        except TimeoutError:
            raise httpx.ReadTimeout("the answer took too long", request=request) from None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request of an `AsyncClient`, whatever loop it runs on."""
        answering = asyncio.ensure_future(
            self._thread.call_async(self._answer(request, await request.aread()))
        )
        done, _ = await asyncio.wait({answering}, timeout=_patience(request))
        if not done:
            answering.add_done_callback(lambda task: task.cancelled() or task.exception())
            raise httpx.ReadTimeout("the answer took too long", request=request)
        return answering.result()

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
        except Dropped as dropped:
            if dropped.part is None:
                raise httpx.RemoteProtocolError(NO_RESPONSE, request=request) from None
            status, headers, body = dropped.part
            length = 0 if request.method == "HEAD" else int(dict(headers).get(b"content-length", 0))
            return httpx.Response(status, headers=headers, stream=TornBody(body, length))


def _patience(request: httpx.Request) -> float | None:
    """Return for how many seconds a client waits for an answer to begin; None for ever."""
    patience: float | None = request.extensions.get("timeout", {}).get("read")
    return patience


async def post_to_app(app: App, attempt: Attempt) -> int:
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
    assert isinstance(response.stream, httpx.AsyncByteStream), "ASGI apps answer in parts"
    body = b"".join([part async for part in response.stream])
    return httpx.Response(response.status_code, headers=response.headers, stream=httpx.ByteStream(body))
