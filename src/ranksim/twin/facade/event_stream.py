"""What happens, as a stream of server-sent events (HTML standard, section 9.2)."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import Field
from pydantic_core import to_json

from ranksim.core.contract.quantities import Frozen
from ranksim.twin.facade.event_log import KEPT, EventLog
from ranksim.twin.facade.logged_event import LoggedEvent
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.asgi import Header, Receive, Scope, Send, hung_up

HEARTBEAT_SECONDS = 15.0
"""How long a stream may be silent before a comment shows that it is alive."""

PACE_SECONDS = 0.25
"""How often a stream that wants at most so many events a second is sent some."""

TOGETHER = 500
"""How many events are written at once, so that others are answered meanwhile."""

HEADERS: list[Header] = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
]


class EventsQuery(Frozen):
    """From where on: after a number, 0 for all that is remembered; by default from now on.

    With `most`, at most so many a second are sent, in portions, and what is more is told as missed.
    """

    after: Annotated[int, Field(ge=0)] | None = None
    most: Annotated[int, Field(ge=1, le=100_000)] | None = None


async def stream_events(
    twin: Twin, after: int | None, scope: Scope, receive: Receive, send: Send, most: int | None = None
) -> None:
    """Send everything that happens after number `after` (None: from now on) until somebody hangs up.

    Where some are not remembered any more, or are more than `most` a second, an event "missed" says how many.
    What was not sent of a second's `most` may come at once: a click that moves the clock makes hundreds.
    """
    log = twin.event_log
    last = log.last if after is None or after > log.last else after
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    if scope["method"] == "HEAD":
        await send({"type": "http.response.body", "body": b""})
        return
    await _part(send, f": world {twin.world_id}\n\n".encode())
    leaving = asyncio.create_task(hung_up(receive))
    scope["ranksim.stop"] = leaving.cancel  # a server that shuts down calls it
    loop = asyncio.get_running_loop()
    allowed, at = float(KEPT), loop.time()  # what is remembered comes first, all of it
    try:
        while not leaving.done():
            await _more(log, last, leaving)
            if most is not None:
                allowed, at = max(allowed, min(most, allowed + most * (loop.time() - at))), loop.time()
            happened = log.since(last, KEPT if most is None else max(1, int(allowed)))
            await _part(send, _missed(last, happened) or (b"" if happened else b": alive\n\n"))
            for begin in range(0, len(happened), TOGETHER):
                await _part(send, b"".join(map(_event, happened[begin : begin + TOGETHER])))
            last = happened[-1].seq if happened else last
            if most is not None and happened:
                allowed = max(0, min(most, allowed) - len(happened))
                await asyncio.wait({leaving}, timeout=PACE_SECONDS)
    finally:
        leaving.cancel()
    await send({"type": "http.response.body", "body": b""})


async def _more(log: EventLog, last: int, leaving: asyncio.Task[None]) -> None:
    """Wait for what happens next, until the client is leaving or a heartbeat is due."""
    coming = asyncio.create_task(log.wait(last))
    await asyncio.wait({leaving, coming}, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    coming.cancel()


def _missed(last: int, happened: list[LoggedEvent]) -> bytes:
    missing = happened[0].seq - last - 1 if happened else 0
    return b"event: missed\ndata: %d\n\n" % missing if missing else b""


def _event(event: LoggedEvent) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.what.encode(), to_json(event.to_dict()))


async def _part(send: Send, body: bytes) -> None:
    if body:
        await send({"type": "http.response.body", "body": body, "more_body": True})
