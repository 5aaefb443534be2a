"""What happens in a world, in order, and what comes of an advance."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ranksim.clock import Micros, iso
from ranksim.errors import BadInput
from ranksim.service.calls import Attempt
from ranksim.service.state import Job

KEPT = 10_000
"""How many happenings are remembered."""


class AdvanceUnderWay(BadInput):
    """The clock is being advanced already."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened, in order: `what` is a word such as "job.done", `at` in µs."""

    seq: int
    at: Micros
    what: str
    details: dict[str, Any]

    def shown(self) -> dict[str, Any]:
        """Give it as JSON shows it."""
        return {"seq": self.seq, "at": iso(self.at), "what": self.what, **self.details}


class Happenings:
    """What happened, numbered from 1, oldest first; the last `KEPT` are remembered."""

    def __init__(self) -> None:
        self.last = 0
        """The number of the last one."""
        self.gathered: list[Happening] | None = None
        """All that happens during an advance; None while there is none."""
        self._kept: deque[Happening] = deque(maxlen=KEPT)
        self._waiting: set[asyncio.Future[None]] = set()

    def __iter__(self) -> Iterator[Happening]:
        """Go through what is remembered."""
        return iter(self._kept)

    def note(self, at: Micros, what: str, **details: Any) -> None:
        """Add one, and tell whoever waits."""
        self.last += 1
        happening = Happening(self.last, at, what, details)
        self._kept.append(happening)
        if self.gathered is not None:
            self.gathered.append(happening)
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def after(self, number: int) -> list[Happening]:
        """Wait until something has happened after a number, and give all of it that is still remembered."""
        while self.last <= number:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(waiting)
            try:
                await waiting
            finally:
                self._waiting.discard(waiting)
        return list(self._kept)[number - self.last :]


@dataclass(frozen=True, slots=True)
class Advance:
    """What came of an advance.

    When it could not settle the clock stands at `now`, attempts `waiting` for their answers; to resume,
    advance to `target` or until the same condition. `met` tells whether the condition came true, if there
    was one.
    """

    settled: bool
    now: Micros
    target: Micros
    met: bool | None
    happened: list[Happening]
    waiting: list[Attempt]

    def shown(self) -> dict[str, Any]:
        """Give it as JSON shows it."""
        return {
            "settled": self.settled,
            "now": iso(self.now),
            "target": iso(self.target),
            "met": self.met,
            "happened": [happening.shown() for happening in self.happened],
            "waiting": [told(attempt) for attempt in self.waiting],
        }


def told(attempt: Attempt) -> dict[str, Any]:
    """Give an attempt as JSON shows it."""
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


def told_job(job: Job) -> dict[str, Any]:
    """Give a job that ended as JSON shows it."""
    return {
        "job_id": job.id,
        "kind": job.kind,
        "domain_id": job.domain,
        "account_id": job.account,
        "error_detail": job.error_detail,
    }
