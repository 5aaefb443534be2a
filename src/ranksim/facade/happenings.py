"""What happens in a world, in order, and what comes of an advance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ranksim.clock import Micros, iso
from ranksim.errors import BadInput
from ranksim.service.calls import Attempt
from ranksim.service.state import Job


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
