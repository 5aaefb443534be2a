"""Judge jobs as they are told: kinds, states, and that an end is an end (S13-S16).

What polls, lists, creations and events tell of one job is ordered by the client's clock: what was asked for
after another telling had come shows a later state. A creation may be a replay, of which nobody can tell what
it shows (E6), so that it only ever is the earlier of two; so is an event.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ranksim.clock import DISTANT_FUTURE, SECOND, Micros
from ranksim.conformance.history.fields import moment
from ranksim.conformance.history.history import ObservedRun
from ranksim.conformance.history.observation import Json, Observation, ReceivedAttempt, job_name
from ranksim.conformance.verdict.options import Options
from ranksim.conformance.verdict.verdicts import Evidence, Rule, Tally
from ranksim.contract.facts import JOB_EVENT_TYPES, JobKind

KINDS = "job.kinds"
PROGRESS = "job.progress"
FINAL = "job.final"
REASON = "job.reason"
FINISHED = "job.finished"
WRONG_KIND = "job.wrong_kind"

RULES = (
    Rule(KINDS, "A job's kind is one of four, and what was asked for", (14, 34), (), "everyday"),
    Rule(PROGRESS, "A job moves forward: queued, running, then done or failed", (15, 16), (39,), "everyday"),
    Rule(FINAL, "A job that has ended does not change", (15, 16), (43,), "everyday"),
    Rule(
        REASON, "error_detail gives the reason of an error ending, and only then", (13, 15), (39,), "everyday"
    ),
    Rule(FINISHED, "A job that has ended says when", (13, 17), (39, 43), "everyday"),
    Rule(WRONG_KIND, "A job is found under its own kind only", (16,), (44,), "scope"),
)

STATES = ("queued", "running", "done", "failed")
RANK = {"queued": 0, "running": 1, "done": 2, "failed": 2}
ENDED = ("done", "failed")
KIND_NAMES = frozenset(map(str, JobKind))
Name: TypeAlias = tuple[str, str, str]
"""Environment, account and name of a job."""

LASTING = ("finished_at", "error_detail", "kind", "domain_id")
"""What of a job is settled once it has ended."""


@dataclass(frozen=True, slots=True)
class JobStatement:
    """What a reply or an event told of a job; it was true at some moment of [since, until].

    `since` is DISTANT_FUTURE where the telling may be older than its call, so that nothing comes before it.
    """

    job: Mapping[str, Json]
    since: Micros
    until: Micros
    source: Observation | ReceivedAttempt

    @property
    def rank(self) -> int:
        """How far the job had come, -1 for a state that is not of the four assumed."""
        return RANK.get(str(self.job.get("status")), -1)


@dataclass
class JobJudge:
    """Judges every job that was created, polled, listed or told of by an event."""

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    told: dict[Name, list[JobStatement]] = field(default_factory=lambda: defaultdict(list))
    not_found: list[Observation] = field(default_factory=list)
    """Reads of jobs that were refused."""
    events: list[ReceivedAttempt] = field(default_factory=list)

    def wants(self, like: Observation) -> bool:
        """What tells of jobs."""
        return like.operation in ("jobs.create", "jobs.get", "jobs.list")

    def see(self, seen: Observation) -> None:
        """Judge what it tells of each job, and keep it to be compared."""
        if seen.ok and seen.surface == "rest" and not seen.dry_run:
            for job in _jobs_of(seen):
                _judge_one(seen, job, self.tally)
                since = DISTANT_FUTURE if seen.operation == "jobs.create" else seen.sent
                name = (seen.environment, seen.account, job_name(job))
                _add(self.told[name], job, since, seen.received, seen)
        elif seen.operation == "jobs.get" and 400 <= seen.status <= 499 and seen.status not in (401, 429):
            self.not_found.append(seen)

    def see_attempt(self, attempt: ReceivedAttempt) -> None:
        """Keep what tells of a job's end."""
        if attempt.type in JOB_EVENT_TYPES:
            self.events.append(attempt)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """At the end, compare what was told of each job."""
        if watermark < DISTANT_FUTURE:
            return
        for (*_, job_id), tellings in self.told.items():
            kind = next((str(one.job["kind"]) for one in tellings if _own_kind(one)), None)
            if kind is not None:
                _judge_kinds(job_id, kind, tellings, self.tally)
        _judge_refused_kinds(self.not_found, self.told, self.tally)
        _add_events(self.events, self.told)
        for (*_, job_id), tellings in self.told.items():
            _judge_order(job_id, tellings, self.tally)
        self.told.clear()


def _add(
    tellings: list[JobStatement],
    job: Mapping[str, Json],
    since: Micros,
    until: Micros,
    source: Observation | ReceivedAttempt,
) -> None:
    """Add what is compared of a job; mostly it is what was told before."""
    kept: Mapping[str, Json] = {name: job[name] for name in ("status", *LASTING) if name in job}
    if tellings and tellings[-1].job == kept:
        kept = tellings[-1].job
    tellings.append(JobStatement(kept, since, until, source))


def _jobs_of(seen: Observation) -> Iterator[dict[str, Json]]:
    for job in [seen.data] if isinstance(seen.data, dict) else seen.items or ():
        if isinstance(job, dict) and isinstance(job.get("id"), str):
            yield job


def _add_events(events: Sequence[ReceivedAttempt], told: Mapping[Name, list[JobStatement]]) -> None:
    """Add what events tell of jobs that the API told of, too: true by the time they came.

    A name that jobs of two accounts have tells nothing.
    """
    shared = Counter(job for *_, job in told)
    known = {job: tellings for (*_, job), tellings in told.items() if shared[job] == 1}
    for arrived in events:
        job = arrived.body.get("data", {}) if isinstance(arrived.body, dict) else None
        job = job.get("job") if isinstance(job, dict) else None
        if isinstance(job, dict) and job_name(job) in known:
            _add(known[job_name(job)], job, DISTANT_FUTURE, arrived.received, arrived)


# One telling


def _judge_one(seen: Observation, job: dict[str, Json], tally: Tally) -> None:
    kind, status, reason = job.get("kind"), job.get("status"), job.get("error_detail")
    if str(kind) not in KIND_NAMES:
        _check(KINDS, False, f"{seen.id} shows a job of kind {kind}", (seen,), job["id"], tally)
    elif seen.operation == "jobs.create" and isinstance(seen.body, dict):
        asked = seen.body.get("kind")
        says = f"{seen.id} asked for a job of kind {asked} and shows kind {kind}"
        _check(KINDS, kind == asked, says, (seen,), job["id"], tally)
    else:
        tally.held(KINDS)
    if status not in STATES:
        found = Evidence(f"{seen.id} shows status {status!r}", (seen.id,), about=job["id"], at=seen.sent)
        tally.differs(39, ", ".join(STATES), repr(status), found)
    else:
        says = f"{seen.id} shows a job {status} with error_detail {reason!r}"
        _check(REASON, bool(reason) == (status == "failed"), says, (seen,), job["id"], tally)
    finished = job.get("finished_at")
    if status in ENDED or (status == "error" and reason):  # another name of an error ending (U39)
        says = f"{seen.id} shows a job {status} with finished_at {finished!r}"
        _check(FINISHED, isinstance(finished, str) and finished != "", says, (seen,), job["id"], tally)
    elif status in STATES and finished is not None:
        says = f"{seen.id} shows a job {status} with finished_at {finished!r}"
        tally.differs(43, "null", repr(finished), Evidence(says, (seen.id,), about=job["id"], at=seen.sent))


# Kinds


def _own_kind(told: JobStatement) -> bool:
    """Whether a telling shows the job's kind without having been asked for one."""
    source = told.source
    return (
        isinstance(source, Observation)
        and source.operation != "jobs.get"
        and str(told.job.get("kind")) in KIND_NAMES
    )


def _judge_kinds(job_id: str, kind: str, tellings: Sequence[JobStatement], tally: Tally) -> None:
    """Under another kind a job is not shown (U44), and surely not as one of that kind."""
    for told in tellings:
        source = told.source
        asked = source.parameters.get("kind") if isinstance(source, Observation) else None
        if not isinstance(source, Observation) or asked is None or asked == kind:
            continue
        says = f"{source.id} asked for a {asked} and was shown {job_id}, a {kind}"
        if told.job.get("kind") == asked:
            _check(WRONG_KIND, False, f"{says}, as a {asked}", (source,), job_id, tally)
        else:
            found = Evidence(says, (source.id,), about=job_id, at=source.sent)
            tally.differs(44, "404", str(source.status), found)


def _judge_refused_kinds(
    refused: Sequence[Observation], told: Mapping[Name, Sequence[JobStatement]], tally: Tally
) -> None:
    for seen in refused:
        asked = seen.parameters.get("kind")
        tellings = told.get((seen.environment, seen.account, seen.parameters.get("id", "")), ())
        kinds = {str(one.job.get("kind")) for one in tellings}
        if kinds and asked not in kinds:
            tally.held(WRONG_KIND)


# Several tellings


def _judge_order(job_id: str, tellings: Sequence[JobStatement], tally: Tally) -> None:
    """Compare each telling with the one that came last, and had come furthest, before it was asked for.

    Necessary: the deployment's state at the later call follows its state at the earlier one.
    """
    by_end = sorted(tellings, key=lambda told: told.until)
    at = 0
    known: JobStatement | None = None
    for told in sorted(tellings, key=lambda told: told.since):
        if told.since == DISTANT_FUTURE:
            break
        while at < len(by_end) and by_end[at].until < told.since:
            if known is None or by_end[at].rank >= known.rank:
                known = by_end[at]
            at += 1
        if known is not None:
            _judge_pair(job_id, known, told, tally)


def _judge_pair(job_id: str, one: JobStatement, other: JobStatement, tally: Tally) -> None:
    before, after = one.job.get("status"), other.job.get("status")
    pair = (one.source, other.source)
    if one.rank < 0 or other.rank < 0:
        tally.open(PROGRESS, "a status that is not of the four assumed")
    elif before in ENDED and after != before:
        _check(PROGRESS, False, f"the job was {before} and then {after}", pair, job_id, tally)
    elif other.rank < one.rank:
        tally.differs(39, ", ".join(STATES), f"{after} after {before}", _evidence("", pair, job_id))
    else:
        tally.held(PROGRESS)
    if before not in ENDED or after != before:
        return
    changed = [name for name in LASTING if _differ(one, other, name)]
    says = f"the job had ended, and then its {' and '.join(changed)} changed" if changed else ""
    _check(FINAL, not changed, says, pair, job_id, tally)


def _differ(one: JobStatement, other: JobStatement, name: str) -> bool:
    """Return whether a field differs; an instant may be written to the second or finer."""
    if name not in one.job or name not in other.job:
        return False
    before, after = one.job[name], other.job[name]
    if (first := moment(before)) is not None and (second := moment(after)) is not None:
        return abs(first - second) >= SECOND
    return bool(before != after)


def _evidence(says: str, sources: Sequence[Observation | ReceivedAttempt], job_id: str) -> Evidence:
    last = sources[-1]
    return Evidence(
        says or "the job went back",
        tuple(source.id for source in sources if isinstance(source, Observation)),
        tuple(
            f"{source.event}/{source.attempt}" for source in sources if isinstance(source, ReceivedAttempt)
        ),
        job_id,
        last.sent if isinstance(last, Observation) else last.received,
    )


def _check(
    rule: str,
    holds: bool,
    says: str,
    sources: Sequence[Observation | ReceivedAttempt],
    job_id: str,
    tally: Tally,
) -> None:
    if holds:
        tally.held(rule)
    else:
        tally.broke(rule, _evidence(says, sources, job_id))
