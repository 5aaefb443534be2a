"""What a test is aimed at: a world of its own, or a real deployment."""

from __future__ import annotations

import unittest
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from ranksim.core.errors import BadInput
from ranksim.twin.testing.world import Server, World, headers_of

if TYPE_CHECKING:
    import httpx


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
        return {**options, "base_url": self.url, "headers": headers_of(who or self.key, options)}


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
