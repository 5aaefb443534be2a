"""What happened in a deployment, in order, as the control API shows it: a reader of the service's events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ranksim.clock import Micros, iso
from ranksim.service.calls import Attempt
from ranksim.service.events import (
    AttemptAnswered,
    CallGranted,
    EndpointDisabled,
    JobEnded,
    JobQueued,
    ServiceEvent,
)

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

    def observe(self, events: Iterable[ServiceEvent], attempt: Attempt | None = None) -> None:
        """Note what became true in a step; where an `attempt` was answered, which one."""
        queued: JobQueued | None = None
        for event in events:
            match event:
                case JobQueued():
                    queued = event
                case CallGranted():
                    self.note(event.at, "call.granted", **_granted_details(event, queued))
                case JobEnded():
                    self.note(
                        event.at,
                        f"job.{event.outcome}",
                        job_id=event.job,
                        kind=event.kind,
                        domain_id=event.domain,
                        account_id=event.account,
                        error_detail=event.error,
                    )
                case AttemptAnswered() if attempt is not None:
                    due = event.next_attempt_at
                    self.note(
                        event.at,
                        "attempt.answered",
                        **attempt_details(attempt),
                        status_code=event.status_code,
                        error=event.error,
                        next_attempt_at=None if due is None else iso(due),
                    )
                case EndpointDisabled(by_account=False):
                    self.note(
                        event.at,
                        "endpoint.disabled",
                        endpoint_id=event.endpoint,
                        account_id=event.account,
                        reason=event.reason,
                    )

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


def _granted_details(event: CallGranted, queued: JobQueued | None) -> dict[str, Any]:
    """Return a granted call as JSON shows it, with the job that jobs.create made."""
    details = {"operation": event.operation, "account_id": event.account}
    if event.operation == "jobs.create" and queued is not None:
        details |= {"job_id": queued.job, "kind": queued.kind, "domain_id": queued.domain}
    return details
