"""What else a test is aimed at: a world on a port, behind a transport, as an app; a real deployment."""

from __future__ import annotations

import unittest
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Self

from ranksim.core.errors import BadInput
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.twin import Twin
from ranksim.twin.receiver.receiver import Receiver
from ranksim.twin.serving.control_auth import names_of, new_token
from ranksim.twin.serving.listener import Listener
from ranksim.twin.testing.world import World, headers_with_key

if TYPE_CHECKING:
    import httpx


class Server(World):
    """One fake deployment at `url`, a free port of this machine, for any HTTP client; else as `World`.

    Receivers listen on free ports too; `mount` still works, without a socket.
    """

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0, **settings: Any) -> None:
        self._host, self._port = host, port
        super().__init__(**settings)
        self._settings["host"] = host  # for forks; a port is another's

    def _begin(self) -> None:
        super()._begin()
        self._listener = Listener(self.app, self._host, self._port)
        self.thread.call(self._listener.open())
        self.url = self._listener.url
        self._mounts.listens_at(self._listener.port)

    def _names(self) -> Collection[str]:
        return names_of(self._host)

    def _end(self) -> None:
        self.thread.call(self._listener.close())
        super()._end()

    def _connection(self) -> dict[str, Any]:
        return {}

    def _attach(self, receiver: Receiver) -> None:
        receiver.start()


def transport(**settings: Any) -> httpx.BaseTransport:
    """An httpx transport into a world of its own, which ends when the client is closed."""
    from ranksim.twin.facade.httpx_transport import Transport

    world = World(**settings)
    return Transport(world.app, world.thread, closed=world.close)


def asgi_app(
    *,
    strict_query: bool = True,
    strict_body: bool = True,
    control_token: str | None = None,
    **settings: Any,
) -> Facade:
    """An ASGI app of a world of its own, which runs on the loop of whoever calls it.

    Time is moved over HTTP, under /_ranksim, by who sends the `token` of the app: `control_token`, a new one
    by default and none if it is "". `strict_query` and `strict_body` are those of a `World`, `settings` those
    of `Twin`.
    """
    token = new_token() if control_token is None else control_token
    return Facade(Twin(**settings), token=token or None, strict_query=strict_query, strict_body=strict_body)


class NeedsControl(unittest.SkipTest):
    """A test wants what a real deployment does not let it do; raised in a test it skips the test."""


class Deployment:
    """A real deployment at a base URL, with a key; a test that wants control of it is skipped."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url.rstrip("/")
        self.key = self.sandbox_key = key
        self._clients: list[httpx.Client] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if hasattr(World, name) or name in ("clock", "jobs", "requests", "twin", "app"):
            raise NeedsControl(f"{name}: {self.url} is a real deployment, not under control of a test")
        raise AttributeError(name)

    def close(self) -> None:
        """Close the clients."""
        for client in self._clients:
            client.close()

    def base_url(self, environment: str = "production") -> str:
        """Where /v1 begins; a deployment is one environment."""
        return self.url

    def client(self, who: str | None = None, environment: str = "production", **options: Any) -> httpx.Client:
        """A client whose paths begin with /v1. `options` are those of `httpx.Client`."""
        import httpx

        client = httpx.Client(**self._options(who, options))
        self._clients.append(client)
        return client

    def async_client(
        self, who: str | None = None, environment: str = "production", **options: Any
    ) -> httpx.AsyncClient:
        """The same for asyncio; close it yourself."""
        import httpx

        return httpx.AsyncClient(**self._options(who, options))

    def _options(self, who: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
        return {**options, "base_url": self.url, "headers": headers_with_key(who or self.key, options)}


def open_target(target: str = "inproc", key: str = "", **settings: Any) -> World | Deployment:
    """Open what RANKSIM_TARGET names: "inproc" a World, "server" a Server, a URL a Deployment.

    `settings` are those of a World; a deployment has its own. Raises BadInput.
    """
    if target == "inproc":
        return World(**settings)
    if target == "server":
        return Server(**settings)
    if not target.startswith(("http://", "https://")):
        raise BadInput(f"RANKSIM_TARGET: expected inproc, server or a URL, found {target!r}")
    if not key:
        raise BadInput("RANKSIM_KEY: expected an API key of the deployment that RANKSIM_TARGET names")
    return Deployment(target, key)
