"""What happened, as one record: a number, and what came of the service, of the facade, or of a trace.

The page, the stream, the terminal and the reports of failed tests render this record. It keeps what came as
it is, and is described only once somebody reads it: while nobody does, a call costs one small tuple.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeAlias, get_args

from ranksim.core.clock import MILLISECOND, Micros, iso
from ranksim.core.service.calls import Attempt
from ranksim.core.service.events import (
    AttemptAnswered,
    CallGranted,
    CostReserved,
    CostSettled,
    EndpointDisabled,
    JobEnded,
    JobQueued,
    PeriodTurned,
    ServiceEvent,
    WindowRefused,
)
from ranksim.core.service.spend_decision import usd

LONGEST_TEXT = 300
"""Characters of a path, and of a query, that are remembered with a call; the journal has all of them."""

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

WORDS: dict[type, str] = {
    kind: re.sub(r"(?<=.)([A-Z])", r".\1", kind.__name__).lower() for kind in get_args(ServiceEvent)
} | {
    WindowRefused: "call.limited",
    AnsweredCall: "call",
    GrantedJob: "call.granted",
    SentAttempt: "attempt.sent",
    ReportedAttempt: "attempt.answered",
}
"""What an entry is called: `JobQueued` is "job.queued"; `JobEnded` and `Noted` have words of their own."""


class LoggedEvent(NamedTuple):
    """One thing that happened: its number, and what came."""

    seq: int
    entry: Entry

    @property
    def at(self) -> Micros:
        """The instant, in µs."""
        return self.entry.at

    @property
    def what(self) -> str:
        """A word such as "job.done"."""
        return word_of(self.entry)

    @property
    def details(self) -> dict[str, Any]:
        """What there is to say besides, as JSON shows it."""
        return _details(self.entry)

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON shows it."""
        return {"seq": self.seq, "at": iso(self.at), "what": self.what, **self.details}

    def __repr__(self) -> str:
        return f"LoggedEvent(seq={self.seq}, at={self.at}, what={self.what!r}, details={self.details})"


def word_of(entry: Entry) -> str:
    """Return what an entry is called."""
    if isinstance(entry, Noted):
        return entry.what
    return f"job.{entry.outcome}" if isinstance(entry, JobEnded) else WORDS[type(entry)]


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
