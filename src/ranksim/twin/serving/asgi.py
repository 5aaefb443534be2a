"""What an ASGI app and its server say to each other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Header: TypeAlias = tuple[bytes, bytes]

App: TypeAlias = Callable[..., Any]
"""An ASGI or a WSGI application."""


class Gone(Exception):
    """The client went away before its request was complete."""


async def hung_up(receive: Receive) -> None:
    """Wait until the client has gone away; of a request that was read to its end nothing else can come."""
    while (await receive())["type"] != "http.disconnect":
        pass
