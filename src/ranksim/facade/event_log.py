"""What happened in a deployment, in order, as the control API shows it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ranksim.clock import Micros, iso
from ranksim.service.calls import Attempt
from ranksim.service.state import Job

KEPT = 10_000
"""How many entries are remembered."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One thing that happened, in order: `what` is a word such as "job.done", `at` in µs."""

    seq: int
    at: Micros
    what: str
    details: dict[str, Any]

    def shown(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return {"seq": self.seq, "at": iso(self.at), "what": self.what, **self.details}


class EventLog:
    """What happened, numbered from 1, oldest first; the last `KEPT` are remembered."""

    def __init__(self) -> None:
        self.last = 0
        """The number of the last one."""
        self.gathered: list[LoggedEvent] | None = None
        """All that happens during an advance; None while there is none."""
        self._kept: deque[LoggedEvent] = deque(maxlen=KEPT)
        self._waiting: set[asyncio.Future[None]] = set()

    def __iter__(self) -> Iterator[LoggedEvent]:
        """Iterate over what is remembered."""
        return iter(self._kept)

    def note(self, at: Micros, what: str, **details: Any) -> None:
        """Add one, and wake whoever waits."""
        self.last += 1
        event = LoggedEvent(self.last, at, what, details)
        self._kept.append(event)
        if self.gathered is not None:
            self.gathered.append(event)
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def after(self, number: int) -> list[LoggedEvent]:
        """Wait until something has happened after a number, and return all of it that is remembered."""
        while self.last <= number:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(waiting)
            try:
                await waiting
            finally:
                self._waiting.discard(waiting)
        return list(self._kept)[number - self.last :]


def attempt_details(attempt: Attempt) -> dict[str, Any]:
    """Return an attempt as JSON shows it."""
    return {
        "attempt_id": attempt.attempt,
        "delivery_id": attempt.delivery,
        "endpoint_id": attempt.endpoint,
        "account_id": attempt.account,
        "url": attempt.url,
        "event_id": attempt.event,
        "event_type": attempt.event_type,
        "attempt": attempt.number,
    }


def job_details(job: Job) -> dict[str, Any]:
    """Return a job that ended as JSON shows it."""
    return {
        "job_id": job.id,
        "kind": job.kind,
        "domain_id": job.domain,
        "account_id": job.account,
        "error_detail": job.error_detail,
    }
