"""What a connection of ours writes: a whole response at once, and what it refuses by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from ranksim.twin.serving.asgi import Header


@dataclass(slots=True)
class Answering:
    """What an answer is written to: the transport, which closes as a connection of ours does."""

    write: Callable[[bytes], None]
    is_closing: Callable[[], bool]
    close: Callable[[], None]


@runtime_checkable
class RefusesUnreadable(Protocol):
    """An app that has an answer of its own for what is no HTTP request."""

    def unreadable(self, caller: str, detail: str) -> tuple[int, list[Header], bytes]:
        """Return the status, headers and body of that answer for a caller's address."""


def busy(why: str) -> bytes:
    """Write the refusal of what there is no room for."""
    problem = {
        "type": "about:blank",
        "title": "Service Unavailable",
        "status": 503,
        "detail": f"{why} now.",
    }
    body = json.dumps(problem).encode()
    return (
        STATUS_LINE[503] + b"content-type: application/problem+json\r\nretry-after: 1\r\n"
        b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body)
    )


async def respond(cycle: RequestResponseCycle, status: int, headers: list[Header], body: bytes) -> None:
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
