"""What happened in a deployment, in order, as the control API shows it: every call and every effect.

What comes is kept as it is, and described only once somebody reads it: while nobody does, a call costs one
small record and an append.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from ranksim.core.clock import MILLISECOND, Micros, iso
from ranksim.core.service.calls import Attempt
from ranksim.core.service.events import (
    AttemptAnswered,
    AttemptMade,
    CallGranted,
    CallJoined,
    CallRefused,
    CostReserved,
    CostSettled,
    DeliveryCancelled,
    DeliveryQueued,
    DeliverySuppressed,
    EndpointDisabled,
    EndpointEnabled,
    JobEnded,
    JobQueued,
    JobStarted,
    PeriodTurned,
    ServiceEvent,
    SlotsFreed,
    SlotsHeld,
    SlotsTaken,
    UnitsUsed,
    WindowRefused,
)
from ranksim.core.service.spend_decision import usd

KEPT = 10_000
"""How many entries are remembered."""

LONGEST_TEXT = 300
"""Characters of a path, and of a query, that are remembered with a call; the journal has all of them."""

WORDS: dict[type, str] = {
    CallGranted: "call.granted",
    CallRefused: "call.refused",
    CallJoined: "call.joined",
    WindowRefused: "call.limited",
    PeriodTurned: "period.turned",
    UnitsUsed: "units.used",
    CostReserved: "cost.reserved",
    CostSettled: "cost.settled",
    SlotsTaken: "slots.taken",
    SlotsHeld: "slots.held",
    SlotsFreed: "slots.freed",
    JobQueued: "job.queued",
    JobStarted: "job.started",
    DeliveryQueued: "delivery.queued",
    DeliveryCancelled: "delivery.cancelled",
    DeliverySuppressed: "delivery.suppressed",
    EndpointDisabled: "endpoint.disabled",
    EndpointEnabled: "endpoint.enabled",
}
"""What an event of the service is called, where its members say all of it."""

OF_AN_ADVANCE = frozenset({
    "call.granted", "job.done", "job.failed", "attempt.sent", "attempt.answered", "endpoint.disabled",
    "clock.set", "world.began", "world.undone",
})  # fmt: skip
"""What the answer to an advance lists of all that happened meanwhile."""

NAMES = {
    "account": "account_id",
    "domain": "domain_id",
    "job": "job_id",
    "endpoint": "endpoint_id",
    "delivery": "delivery_id",
    "event": "event_id",
}
"""Members of events that are ids, and what JSON calls them."""


class AnsweredCall(NamedTuple):
    """A request to the service was answered, or dropped: one line about it.

    `number` is that of its exchange in the journal of requests, 0 where none was recorded; `key` the name of
    a usable key; `status` 0 where it was dropped before its effect. `code`, `check`, `outcome` and
    `rate_class` are those of `service.calls.Reply`, of a GraphQL request of its first field that was refused.
    `faults` are the rules that befell it. `took` is wall time in µs, delays of faults included. `query` is as
    it was sent; `dropped` "before" or "after" the effect, or "".
    """

    at: Micros
    number: int
    surface: str
    environment: str
    method: str
    path: str
    operations: tuple[str, ...]
    account: str
    key: str
    status: int
    code: str
    check: int
    outcome: str
    rate_class: str
    faults: tuple[str, ...]
    took: int
    query: str = ""
    dropped: str = ""

    @property
    def failed(self) -> bool:
        """Whether it was refused or lost; over GraphQL the status does not say so."""
        refused = self.code != "" and self.outcome != "dry_run"
        return refused or self.dropped != "" or not 0 < self.status < 400


class GrantedJob(NamedTuple):
    """A call of jobs.create was granted, and the job that it made."""

    at: Micros
    granted: CallGranted
    queued: JobQueued


class SentAttempt(NamedTuple):
    """A webhook attempt went out."""

    at: Micros
    attempt: Attempt


class ReportedAttempt(NamedTuple):
    """A webhook attempt was answered, or was not, and which one it is."""

    at: Micros
    answered: AttemptAnswered
    attempt: Attempt


class Noted(NamedTuple):
    """What the facade did itself, under a word such as "clock.set"."""

    at: Micros
    what: str
    details: dict[str, Any]


Entry: TypeAlias = ServiceEvent | AnsweredCall | GrantedJob | SentAttempt | ReportedAttempt | Noted


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
        self.id = secrets.token_hex(8)
        """Tells it from the log of an earlier process, whose numbers mean other events."""
        self.last = 0
        """The number of the last one."""
        self._gathered: list[tuple[int, Entry]] | None = None
        self._kept: deque[Entry] = deque(maxlen=KEPT)
        self._waiting: set[asyncio.Future[None]] = set()

    def __iter__(self) -> Iterator[LoggedEvent]:
        """Iterate over what is remembered."""
        return (logged(*one) for one in self.since(0))

    def add(self, entry: Entry) -> None:
        """Add one, and wake whoever waits."""
        self.last += 1
        self._kept.append(entry)
        if self._gathered is not None:
            self._gathered.append((self.last, entry))
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
        found, self._gathered = self._gathered or [], None
        told = (logged(seq, entry) for seq, entry in found if _word(entry) in OF_AN_ADVANCE)
        return list(told)

    async def wait(self, number: int) -> None:
        """Wait until something has happened after a number."""
        while self.last <= number:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(waiting)
            try:
                await waiting
            finally:
                self._waiting.discard(waiting)

    def since(self, number: int, most: int = KEPT) -> list[tuple[int, Entry]]:
        """Return what happened after a number and is remembered, the last `most`, each with its number."""
        newest = list(islice(reversed(self._kept), min(self.last - number, most)))
        return list(enumerate(reversed(newest), self.last - len(newest) + 1))

    def sent(self, endpoint: str, event: str, number: int) -> Attempt | None:
        """Return the latest attempt of a number to deliver an event to an endpoint, if it is remembered."""
        for entry in reversed(self._kept):
            if isinstance(entry, SentAttempt):
                attempt = entry.attempt
                if (attempt.endpoint, attempt.event, attempt.number) == (endpoint, event, number):
                    return attempt
        return None

    async def after(self, number: int) -> list[LoggedEvent]:
        """Wait until something has happened after a number, and return all of it that is remembered."""
        await self.wait(number)
        return [logged(*one) for one in self.since(number)]


def logged(seq: int, entry: Entry) -> LoggedEvent:
    """Describe an entry."""
    return LoggedEvent(seq, entry.at, _word(entry), _details(entry))


def _word(entry: Entry) -> str:
    match entry:
        case AnsweredCall():
            return "call"
        case Noted():
            return entry.what
        case JobEnded():
            return f"job.{entry.outcome}"
        case GrantedJob():
            return "call.granted"
        case SentAttempt():
            return "attempt.sent"
        case ReportedAttempt():
            return "attempt.answered"
    return WORDS[type(entry)]


def _details(entry: Entry) -> dict[str, Any]:
    match entry:
        case AnsweredCall():
            return call_details(entry)
        case Noted():
            return entry.details
        case JobEnded():
            return {
                "job_id": entry.job,
                "kind": entry.kind,
                "domain_id": entry.domain,
                "account_id": entry.account,
                "error_detail": entry.error,
            }
        case GrantedJob(_, granted, queued):
            made = {"job_id": queued.job, "kind": queued.kind, "domain_id": queued.domain}
            return {"operation": granted.operation, "account_id": granted.account} | made
        case SentAttempt():
            return attempt_details(entry.attempt)
        case ReportedAttempt(_, answered, attempt):
            due = answered.next_attempt_at
            return attempt_details(attempt) | {
                "status_code": answered.status_code,
                "error": answered.error,
                "next_attempt_at": None if due is None else iso(due),
            }
        case CostReserved():
            return {"account_id": entry.account, "amount": f"{usd(entry.amount)} USD"}
        case CostSettled():
            amount, released = f"{usd(entry.amount)} USD", f"{usd(entry.released)} USD"
            return {"account_id": entry.account, "amount": amount, "released": released}
        case PeriodTurned():
            return {"account_id": entry.account, "metric": entry.metric, "ends": iso(entry.ends)}
        case EndpointDisabled():
            return {"endpoint_id": entry.endpoint, "account_id": entry.account, "reason": entry.reason}
    details: dict[str, Any] = entry._asdict()
    del details["at"]
    return {NAMES.get(name, name): value for name, value in details.items()}


def call_details(call: AnsweredCall) -> dict[str, Any]:
    """Return a call as JSON shows it."""
    return {
        "number": call.number or None,
        "surface": call.surface,
        "environment": call.environment,
        "method": call.method,
        "path": call.path,
        "query": call.query or None,
        "operations": list(call.operations),
        "account_id": call.account or None,
        "key": call.key or None,
        "status": call.status or None,
        "dropped": call.dropped or None,
        "code": call.code or None,
        "check": call.check or None,
        "outcome": call.outcome,
        "rate_class": call.rate_class or None,
        "faults": list(call.faults),
        "ms": call.took / MILLISECOND,
    }


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
