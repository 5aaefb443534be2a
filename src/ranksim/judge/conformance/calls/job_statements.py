"""What is stated of a job, in replies and events; in what two statements of its end differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ranksim.core.clock import SECOND, Micros
from ranksim.judge.conformance.history.fields import instant_or_none
from ranksim.judge.conformance.history.observation import Json
from ranksim.judge.conformance.verdict.verdicts import Evidence

RANK = {"queued": 0, "running": 1, "done": 2, "failed": 2}
ENDED = ("done", "failed")

LASTING = ("finished_at", "error_detail", "kind", "domain_id")
"""What of a job is settled once it has ended."""


@dataclass(frozen=True, slots=True)
class JobStatement:
    """What an exchange or a delivery stated of a job, true at some moment of [since, until].

    `since` is DISTANT_FUTURE where the statement may be older than its call, so that nothing comes before it.
    `kind_asked_for` is the kind that the call asked for, None where it named none.
    """

    job: Mapping[str, Json]
    state: str
    since: Micros
    until: Micros
    at: Micros
    exchange: str = ""
    delivery: str = ""
    kind_asked_for: str | None = None
    status: int = 0

    @property
    def rank(self) -> int:
        """How far the job had come, -1 for a state that is none of the four."""
        return RANK.get(self.state, -1)


ByRank: TypeAlias = dict[int, JobStatement]
"""The statement of each rank that says most, of these the first to come."""


def compared_fields(job: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return what is compared of a job."""
    return {name: job[name] for name in ("status", *LASTING) if name in job}


def add_statement(statements: ByRank, statement: JobStatement) -> None:
    """Keep a statement where none of its rank said as much before, or where that was another end."""
    before = statements.get(statement.rank)
    if before is not None and not differing(before, statement):
        statement = min(before, statement, key=lambda stated: (-len(stated.job), stated.until))
    statements[statement.rank] = statement


def furthest_before(later: JobStatement, statements: Iterable[JobStatement]) -> JobStatement | None:
    """Return what had come furthest before a statement; another end, where it shows one."""
    come = [early for early in statements if early.until < later.since or differing(early, later)]
    return max(come, key=lambda early: early.rank, default=None)


def differing(end: JobStatement, other: JobStatement) -> list[str]:
    """Return in what two ends differ."""
    if end.job == other.job or end.state not in ENDED or other.state not in ENDED:
        return []
    names = ["status"] if end.state != other.state else []
    return [*names, *(name for name in LASTING if _differ(end, other, name))]


def _differ(earlier: JobStatement, later: JobStatement, name: str) -> bool:
    """Return whether a field differs; an instant may be written to the second or finer."""
    if name not in earlier.job or name not in later.job:
        return False
    before, after = earlier.job[name], later.job[name]
    if (first := instant_or_none(before)) is not None and (second := instant_or_none(after)) is not None:
        return abs(first - second) >= SECOND
    return bool(before != after)


def statement_evidence(says: str, job_id: str, *statements: JobStatement) -> Evidence:
    """Return evidence that points at what stated something of a job, and is dated by the last statement."""
    exchanges = tuple(statement.exchange for statement in statements if statement.exchange)
    deliveries = tuple(statement.delivery for statement in statements if statement.delivery)
    return Evidence(says, exchanges, deliveries, job_id, statements[-1].at)
