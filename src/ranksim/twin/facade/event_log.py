"""What happened in a deployment, in order: every call and every effect, the latest of them remembered."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import Any

from ranksim.core.clock import Micros
from ranksim.core.service.calls import Attempt
from ranksim.core.service.events import AttemptAnswered, AttemptMade, CallGranted, JobQueued, ServiceEvent
from ranksim.twin.facade.logged_event import (
    Entry,
    GrantedJob,
    LoggedEvent,
    Noted,
    ReportedAttempt,
    SentAttempt,
)

KEPT = 10_000
"""How many entries are remembered."""

OF_AN_ADVANCE = frozenset({
    "call.granted", "job.done", "job.failed", "attempt.sent", "attempt.answered", "endpoint.disabled",
    "clock.set", "world.began", "world.undone", "timeline.acted",
})  # fmt: skip
"""What the answer to an advance lists of all that happened meanwhile."""


class EventLog:
    """What happened, numbered from 1, oldest first; the last `KEPT` are remembered."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(8)
        """Tells it from the log of an earlier process, whose numbers mean other events."""
        self.last = 0
        """The number of the last one."""
        self._gathered: list[LoggedEvent] | None = None
        self._kept: deque[Entry] = deque(maxlen=KEPT)
        self._waiting: set[asyncio.Future[None]] = set()

    def __iter__(self) -> Iterator[LoggedEvent]:
        """Iterate over what is remembered."""
        return iter(self.since(0))

    def add(self, entry: Entry) -> None:
        """Add one, and wake whoever waits."""
        self.last += 1
        self._kept.append(entry)
        if self._gathered is not None:
            self._gathered.append(LoggedEvent(self.last, entry))
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    def note(self, at: Micros, what: str, details: dict[str, Any]) -> None:
        """Add what the facade did itself; `details` as JSON shows them."""
        self.add(Noted(at, what, details))

    def observe(self, events: Iterable[ServiceEvent], attempt: Attempt | None = None) -> None:
        """Add what became true in a step; where an `attempt` was answered, which one."""
        queued: JobQueued | None = None
        for event in events:
            if isinstance(event, AttemptMade):
                continue  # what is sent is added as it goes out, with all that it says
            if isinstance(event, JobQueued):
                queued = event
                self.add(event)
            elif isinstance(event, CallGranted) and event.operation == "jobs.create" and queued is not None:
                self.add(GrantedJob(event.at, event, queued))
            elif isinstance(event, AttemptAnswered):
                if attempt is not None:
                    self.add(ReportedAttempt(event.at, event, attempt))
            else:
                self.add(event)

    @property
    def gathers(self) -> bool:
        """Whether an advance is under way, which gathers what happens."""
        return self._gathered is not None

    def gather(self) -> None:
        """Begin to gather what happens, however much it is."""
        self._gathered = []

    def gathered(self) -> list[LoggedEvent]:
        """End gathering, and return what an advance tells of."""
        happened, self._gathered = self._gathered or [], None
        return [event for event in happened if event.what in OF_AN_ADVANCE]

    async def wait(self, number: int) -> None:
        """Wait until something has happened after a number."""
        while self.last <= number:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(waiting)
            try:
                await waiting
            finally:
                self._waiting.discard(waiting)

    def since(self, number: int, most: int = KEPT) -> list[LoggedEvent]:
        """Return what happened after a number and is remembered, the last `most`."""
        newest = list(islice(reversed(self._kept), min(self.last - number, most)))
        return list(map(LoggedEvent, count(self.last - len(newest) + 1), reversed(newest)))

    def sent(self, endpoint: str, event: str, number: int) -> Attempt | None:
        """Return the latest attempt of a number to deliver an event to an endpoint, if it is remembered."""
        for entry in reversed(self._kept):
            if isinstance(entry, SentAttempt):
                attempt = entry.attempt
                if (attempt.endpoint, attempt.event, attempt.number) == (endpoint, event, number):
                    return attempt
        return None
