"""An ASGI app behind a socket of the running event loop."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from ranksim.core.errors import BadInput
from ranksim.core.extras import missing

if TYPE_CHECKING:
    from ranksim.twin.serving.limits import Limits


UNHEARD = logging.Logger("ranksim.closed", logging.CRITICAL + 1)
"""Who says nothing."""


class ClosingApp:
    """An app whose requests are cancelled without a word once it is `closing`."""

    def __init__(self, app: Any) -> None:
        self._app, self.closing = app, False
        if hasattr(app, "unreadable"):
            self.unreadable = app.unreadable

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if not self.closing:  # it is no error then, also where the client had hung up before
                raise


class Listener:
    """An ASGI app behind a socket of the running loop, served by uvicorn; closes in a moment.

    `port` 0 takes a free one. Nothing global is touched: no signals, no logging set up.
    """

    def __init__(
        self, app: Any, host: str = "127.0.0.1", port: int = 0, limits: Limits | None = None
    ) -> None:
        self._app, self._limits = ClosingApp(app), limits
        self._socket = bind_socket(host, port)
        self.host = host
        self.port: int = self._socket.getsockname()[1]

    @property
    def url(self) -> str:
        """Where it listens, without a slash at the end."""
        return url_of(self.host, self.port)

    async def open(self) -> Self:
        """Begin to accept connections."""
        try:
            import uvicorn

            from ranksim.twin.serving.uvicorn_config import configured
        except ModuleNotFoundError as error:
            raise missing(f"serving HTTP needs {error.name}", "server") from None
        config = configured(self._app, self._limits, lifespan="off")
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup(sockets=[self._socket])
        return self

    async def close(self) -> None:
        """Stop accepting, drop every connection and cancel what is being answered."""
        self._app.closing = True
        state, loop = self._server.server_state, asyncio.get_running_loop()
        with suppress(NotImplementedError):  # where the loop is not one of selectors
            for listening in (
                listening_socket for server in self._server.servers for listening_socket in server.sockets
            ):
                loop.remove_reader(listening)
        for _ in range(3):
            await asyncio.sleep(0)  # asyncio loses what it has accepted in the turn before a server is closed
        for server in self._server.servers:
            server.close()
        for connection in list(state.connections):
            if connection.transport is not None:
                connection.transport.abort()
            cycle = getattr(connection, "cycle", None)
            if cycle is not None:
                cycle.logger = UNHEARD  # that a request is cancelled is no error of the app's
        tasks = list(state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def url_of(host: str, port: int) -> str:
    """Write where a socket listens, without a slash at the end; IPv6 addresses stand in brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def bind_socket(host: str, port: int) -> socket.socket:
    """A listening socket's beginnings: bound, so that its port is known. Raises BadInput."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # With the protocol named asyncio sends small packets at once, instead of 40 ms later.
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise BadInput(f"{host}: no address to listen at ({error.strerror}); try 127.0.0.1") from None
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError as error:
        made.close()
        better = "an address of this machine" if error.errno == errno.EADDRNOTAVAIL else "another port"
        raise BadInput(f"{host}:{port}: cannot listen there ({error.strerror}); try {better}") from None
    return made
