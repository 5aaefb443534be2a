"""How recorded jobs ended, as far as a recording tells: its notes, reads of jobs, and webhook deliveries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ranksim.core.clock import Micros, instant
from ranksim.core.records import parsed_object
from ranksim.core.service.jobs import DONE, FAILED
from ranksim.core.trace import Trace
from ranksim.planner.fleet.recorded import in_proportion

JOB_READS = ("jobs.get", "jobs.list")
"""The operations whose replies show jobs."""


class JobEnding(NamedTuple):
    """When a job ended (µs), whether it failed, and its cost and estimate (µUSD), 0 where nobody says.

    `at` is None where it had not ended yet when the recording did.
    """

    at: Micros | None
    failed: bool
    cost: int = 0
    estimate: int = 0

    def cost_of(self, estimate: int) -> int | None:
        """Return what a job of another estimate costs, in proportion to this one; None for just that."""
        if self.at is None or self.failed or not self.estimate:
            return None
        return in_proportion(estimate, self.cost, self.estimate)


def endings_of(trace: Trace) -> Iterator[tuple[str, JobEnding]]:
    """Yield the endings that deliveries and notes of a trace tell, with the ids of the jobs."""
    for delivery in trace.deliveries:
        data = (parsed_object(delivery.body) or {}).get("data")
        if isinstance(data, dict):
            yield from endings_in(data.get("job"))
    for note in trace.notes:
        extra = note.model_extra or {}
        if isinstance(which := extra.get("job"), str):
            at, cost, estimate = (_integer(extra.get(name)) for name in ("finished_at", "cost", "estimate"))
            yield which, JobEnding(at, extra.get("failed") is True, cost or 0, estimate or 0)


def endings_in(data: Any) -> Iterator[tuple[str, JobEnding]]:
    """Yield the endings of a job as the API shows it, or of a list of jobs."""
    for job in data if isinstance(data, list) else [data]:
        if isinstance(job, dict) and isinstance(job.get("id"), str) and job.get("status") in (DONE, FAILED):
            at = _instant_in(job, "finished_at")
            if at is not None:
                yield job["id"], JobEnding(at, job["status"] == FAILED)


def began_at(answer: Mapping[str, Any]) -> Micros | None:
    """Return when the job of a reply was created, None where it does not say."""
    data = answer.get("data")
    return _instant_in(data, "created_at") if isinstance(data, dict) else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _instant_in(view: Mapping[str, Any], name: str) -> Micros | None:
    try:
        return instant(str(view.get(name)))
    except ValueError:
        return None
