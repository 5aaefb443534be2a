"""What happens, as a stream of server-sent events (HTML standard, section 9.2)."""

from __future__ import annotations

import asyncio
import json

from ranksim.facade.event_log import EventLog, LoggedEvent
from ranksim.facade.twin import Twin
from ranksim.serving.asgi import Header, Receive, Scope, Send, hung_up

HEARTBEAT_SECONDS = 15.0
"""How long a stream may be silent before a comment shows that it is alive."""

HEADERS: list[Header] = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
]


async def stream(twin: Twin, after: int | None, scope: Scope, receive: Receive, send: Send) -> None:
    """Send everything that happens after number `after` (None: from now on) until somebody hangs up.

    Where some are not remembered any more, an event "missed" says how many.
    """
    now = twin.event_log.last
    last = now if after is None or after > now else after
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    if scope["method"] == "HEAD":
        await send({"type": "http.response.body", "body": b""})
        return
    await _part(send, f": world {twin.world_id}\n\n")
    leaving = asyncio.create_task(hung_up(receive))
    scope["ranksim.stop"] = leaving.cancel  # a server that shuts down calls it
    try:
        while not leaving.done():
            happened = await _next(twin.event_log, last, leaving)
            await _part(send, _missed(last, happened) + "".join(map(_event, happened)) or ": alive\n\n")
            last = happened[-1].seq if happened else last
    finally:
        leaving.cancel()
    await send({"type": "http.response.body", "body": b""})


async def _next(log: EventLog, last: int, leaving: asyncio.Task[None]) -> list[LoggedEvent]:
    """Wait for what happens next; nothing once the client is leaving or a heartbeat is due."""
    coming = asyncio.create_task(log.after(last))
    await asyncio.wait({leaving, coming}, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    if coming.done():
        return coming.result()
    coming.cancel()
    return []


def _missed(last: int, happened: list[LoggedEvent]) -> str:
    missing = happened[0].seq - last - 1 if happened else 0
    return f"event: missed\ndata: {missing}\n\n" if missing else ""


def _event(event: LoggedEvent) -> str:
    data = json.dumps(event.shown(), ensure_ascii=False)
    return f"id: {event.seq}\nevent: {event.what}\ndata: {data}\n\n"


async def _part(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
