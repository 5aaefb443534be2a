"""Judge jobs as they are told: kinds, states, and that an end is an end (S13-S16).

What polls, lists, creations and events tell of one job is ordered by the client's clock: what was asked for
after another telling had come shows a later state. A creation may be a replay, of which nobody can tell what
it shows (E6), so that it only ever is the earlier of two; so is an event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ranksim.core.clock import DAY, DISTANT_FUTURE, SECOND, Micros
from ranksim.core.contract.facts import JOB_EVENT_TYPES, JobKind
from ranksim.judge.conformance.history.fields import STATES, body_of, moment, state_of, thing_of
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Json, Observation, ReceivedAttempt, job_name
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import ANY, Breach, Cause, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

KINDS = "job.kinds"
PROGRESS = "job.progress"
FINAL = "job.final"
REASON = "job.reason"
FINISHED = "job.finished"
WRONG_KIND = "job.wrong_kind"

JOB_KINDS = tuple(sorted(JobKind))

SAME_RESOURCE = Cause("resource.fields", "the same resource, read for what its fields say")

RULES = declare(
    Rule(
        KINDS,
        "A job's kind is one of four, and what was asked for",
        (14, 34),
        cases=tuple(f"{kind} asked for" for kind in JobKind),
        ways=(
            Breach(14, "a job asked for as {} is of another kind", "{} asked for", JOB_KINDS),
            Breach(34, "POST jobs of kind {} shows another", "{} asked for", JOB_KINDS),
        ),
        follows=(SAME_RESOURCE,),
    ),
    Rule(
        PROGRESS,
        "A job moves forward: queued, running, then done or failed",
        (15, 16),
        (39,),
        ways=(
            Breach(15, "a job that is done runs again", "done"),
            Breach(15, "a job that failed runs again", "failed"),
        ),
    ),
    Rule(
        FINAL,
        "A job that has ended does not change",
        (15, 16),
        (43,),
        ways=(
            Breach(16, "a job that is done changes", "done"),
            Breach(16, "a job that failed changes", "failed"),
        ),
        follows=(Cause(PROGRESS, "a job that goes back changes after its end"),),
        needs=(Requirement.JOB_END,),
    ),
    Rule(
        REASON,
        "error_detail gives the reason of an error ending, and only then",
        (13, 15),
        (39,),
        cases=("queued", "running", "done", "failed"),
        ways=(
            Breach(15, "a job that failed tells no reason", "failed"),
            Breach(15, "a job that is done tells an error", "done"),
            Breach(15, "a running job tells an error", "running"),
            Breach(15, "a queued job tells an error", "queued"),
        ),
        follows=(SAME_RESOURCE,),
        essential={"failed": "no job failed"},
        needs=(Requirement.JOB_END,),
    ),
    Rule(
        FINISHED,
        "A job that has ended says when",
        (13, 17),
        (39, 43),
        ways=(
            Breach(13, "a job that is done has no finished_at", "done"),
            Breach(13, "a job that failed has no finished_at", "failed"),
        ),
        follows=(SAME_RESOURCE,),
        needs=(Requirement.JOB_END,),
    ),
    Rule(
        WRONG_KIND,
        "A job is found under its own kind only",
        (16,),
        (44,),
        exercise="scope",
        ways=(Breach(16, "a job is found under another kind"),),
    ),
    exercise="everyday",
    looks_at=(">kind", "data.id", "data.kind", "data.status", "data.error_detail", "data.finished_at"),
    needs=(Requirement.SPENDING, Requirement.FAILING_DOMAIN),
)

RANK = {"queued": 0, "running": 1, "done": 2, "failed": 2}
ENDED = ("done", "failed")
KIND_NAMES = frozenset(map(str, JobKind))
Owner: TypeAlias = tuple[str, str]
"""Environment and account."""

LASTING = ("finished_at", "error_detail", "kind", "domain_id")
"""What of a job is settled once it has ended."""


FORGOTTEN = 3 * DAY
"""Business time without a word of a job after which it is forgotten, as if a trace began."""


@dataclass(frozen=True, slots=True)
class JobStatement:
    """What an exchange or a delivery told of a job; it was true at some moment of [since, until].

    `since` is DISTANT_FUTURE where the telling may be older than its call, so that nothing comes before it.
    `asked` is the kind that the call asked for, None where it named none.
    """

    job: Mapping[str, Json]
    since: Micros
    until: Micros
    at: Micros
    exchange: str = ""
    delivery: str = ""
    asked: str | None = None
    status: int = 0

    @property
    def rank(self) -> int:
        """How far the job had come, -1 for a state that is none of the four."""
        return RANK.get(state_of(self.job), -1)


Pair: TypeAlias = tuple[JobStatement | None, JobStatement | None]
"""What had come last and furthest before an instant, by replies alone, and with what events told."""


@dataclass(slots=True)
class ObservedJob:
    """What is remembered of one job of one account: what later tellings are compared with.

    `number` is its place in the order of the first tellings.
    """

    number: int
    waiting: list[JobStatement] = field(default_factory=list)
    """What had not come yet when the last telling was asked for."""
    heard: int = 0
    """How many events of its name were taken in."""
    known: Pair = (None, None)
    kind: str | None = None
    """Its kind, as first told without having been asked for one."""
    kinds: tuple[str, ...] = ()
    """All kinds that were told of it."""
    asked: list[JobStatement] = field(default_factory=list)
    """What was told to calls that asked for a kind, until its own is known."""
    pending: list[JobStatement] = field(default_factory=list)
    """What was not compared yet, in order of sending."""


@dataclass(slots=True)
class JobsOfName:
    """The jobs of one name: each account may have one."""

    busy: Micros
    """When it was last asked for or told of."""
    jobs: dict[Owner, ObservedJob] = field(default_factory=dict)
    events: list[JobStatement] = field(default_factory=list)
    doubtful: list[tuple[Pair, JobStatement]] = field(default_factory=list)
    """What an event alone contradicts, or bears out, of a name that other accounts may have, too."""
    refused: list[tuple[Owner, str | None]] = field(default_factory=list)
    """Whose reads of it were refused, and the kind that they asked for."""


@dataclass
class JobJudge:
    """Judges every job that was created, polled, listed or told of by an event."""

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    told: dict[str, JobsOfName] = field(default_factory=dict)
    fresh: dict[tuple[str, Owner], ObservedJob] = field(default_factory=dict)
    """The jobs that have something pending."""
    count: int = 0
    """How many jobs were told of."""
    swept: Micros = 0
    """The watermark at which jobs were last forgotten."""

    def wants(self, like: Observation) -> bool:
        """What tells of jobs."""
        return like.operation in ("jobs.create", "jobs.get", "jobs.list")

    def see(self, seen: Observation) -> None:
        """Judge what it tells of each job, and keep it to be compared."""
        owner = (seen.environment, seen.account)
        if seen.ok and seen.surface == "rest" and not seen.dry_run:
            for job in _jobs_of(seen):
                _judge_one(seen, job, self.tally)
                self._add(owner, job, seen)
        elif seen.ok and seen.surface == "graphql" and seen.operation == "jobs.create" and not seen.dry_run:
            _judge_kind(seen, self.tally)
        elif seen.operation == "jobs.get" and 400 <= seen.status <= 499 and seen.status not in (401, 429):
            named = self._named(seen.parameters.get("id", ""), seen.sent)
            named.refused.append((owner, seen.parameters.get("kind")))

    def see_attempt(self, attempt: ReceivedAttempt) -> None:
        """Keep what tells of a job's end."""
        if attempt.type in JOB_EVENT_TYPES:
            job = attempt.body.get("data", {}) if isinstance(attempt.body, dict) else None
            job = job.get("job") if isinstance(job, dict) else None
            if isinstance(job, dict):
                named = self._named(job_name(job), attempt.received)
                kept = _kept(job, named.events[-1] if named.events else None)
                name, came = f"{attempt.event}/{attempt.attempt}", attempt.received
                named.events.append(JobStatement(kept, DISTANT_FUTURE, came, came, delivery=name))

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Compare what was asked for before the watermark; forget jobs of which nothing was told for long."""
        for place, job in sorted(self.fresh.items(), key=lambda item: item[1].number):
            _compare(place[0], self.told[place[0]], job, watermark, self.tally)
            if not job.pending:
                del self.fresh[place]
        span = FORGOTTEN // max(1, run.rate)
        if watermark - self.swept < span // 24:
            return
        self.swept = watermark
        for name in [name for name, named in self.told.items() if named.busy + span < watermark]:
            _conclude(name, self.told.pop(name), self.tally)

    def _named(self, name: str, busy: Micros) -> JobsOfName:
        named = self.told.get(name)
        if named is None:
            named = self.told[name] = JobsOfName(busy)
        named.busy = max(named.busy, busy)
        return named

    def _add(self, owner: Owner, job: Mapping[str, Json], seen: Observation) -> None:
        """Add what a reply told of a job."""
        name = job_name(job)
        named = self._named(name, seen.sent)
        if owner not in named.jobs:
            named.jobs[owner] = ObservedJob(self.count)
            self.count += 1
        known = named.jobs[owner]
        since = DISTANT_FUTURE if seen.operation == "jobs.create" else seen.sent
        kept = _kept(job, known.waiting[-1] if known.waiting else known.known[0])
        asked = seen.parameters.get("kind")
        told = JobStatement(kept, since, seen.received, seen.sent, seen.id, "", asked, seen.status)
        known.waiting.append(told)
        if since != DISTANT_FUTURE:
            known.pending.append(told)
            self.fresh[name, owner] = known
        kind = str(job.get("kind"))
        if kind not in known.kinds:
            known.kinds += (kind,)
        if known.kind is None and seen.operation != "jobs.get" and kind in KIND_NAMES:
            known.kind = kind
        if asked is not None:
            known.asked.append(told)
        if known.kind is not None and known.asked:
            _judge_kinds(name, known.kind, known.asked, self.tally)
            known.asked.clear()


def _kept(job: Mapping[str, Json], before: JobStatement | None) -> Mapping[str, Json]:
    """Return what is compared of a job; mostly it is what was told before."""
    kept = {name: job[name] for name in ("status", *LASTING) if name in job}
    return before.job if before is not None and before.job == kept else kept


def _jobs_of(seen: Observation) -> Iterator[dict[str, Json]]:
    for job in [seen.data] if isinstance(seen.data, dict) else seen.items or ():
        if isinstance(job, dict) and isinstance(job.get("id"), str):
            yield job


# One telling


def _judge_kind(seen: Observation, tally: Tally) -> None:
    """Over GraphQL a reply shows what was asked for, the kind perhaps in capitals."""
    asked, made = body_of(seen).get("kind"), thing_of(seen)
    kind, job_id = made.get("kind"), made.get("id")
    if isinstance(asked, str) and isinstance(kind, str) and isinstance(job_id, str):
        says = f"{seen.id} asked for a job of kind {asked} and shows kind {kind}"
        _check(KINDS, kind.lower() == asked, says, seen, job_id, tally, f"{asked} asked for")


def _judge_one(seen: Observation, job: dict[str, Json], tally: Tally) -> None:
    kind, status, reason = job.get("kind"), job.get("status"), job.get("error_detail")
    if str(kind) not in KIND_NAMES:
        _check(KINDS, False, f"{seen.id} shows a job of kind {kind}", seen, job["id"], tally)
    elif seen.operation == "jobs.create" and isinstance(seen.body, dict):
        asked = seen.body.get("kind")
        says = f"{seen.id} asked for a job of kind {asked} and shows kind {kind}"
        _check(KINDS, kind == asked, says, seen, job["id"], tally, f"{asked} asked for")
    else:
        tally.held(KINDS, case=None)
    if status not in STATES:
        found = Evidence(f"{seen.id} shows status {status!r}", (seen.id,), about=job["id"], at=seen.sent)
        tally.differs(39, ", ".join(STATES), repr(status), found)
    state = state_of(job)
    if state:
        says = f"{seen.id} shows a job {status} with error_detail {reason!r}"
        _check(REASON, bool(reason) == (state == "failed"), says, seen, job["id"], tally, state)
    finished = job.get("finished_at")
    if state in ENDED:
        says = f"{seen.id} shows a job {status} with finished_at {finished!r}"
        _check(FINISHED, isinstance(finished, str) and finished != "", says, seen, job["id"], tally, state)
    elif state and finished is not None:
        says = f"{seen.id} shows a job {status} with finished_at {finished!r}"
        tally.differs(43, "null", repr(finished), Evidence(says, (seen.id,), about=job["id"], at=seen.sent))


# Kinds


def _judge_kinds(job_id: str, kind: str, tellings: Sequence[JobStatement], tally: Tally) -> None:
    """Under another kind a job is not shown (U44), and surely not as one of that kind."""
    for told in tellings:
        if told.asked == kind:
            continue
        says = f"{told.exchange} asked for a {told.asked} and was shown {job_id}, a {kind}"
        if told.job.get("kind") == told.asked:
            _check_pair(WRONG_KIND, False, f"{says}, as a {told.asked}", (told,), job_id, tally)
        else:
            found = Evidence(says, (told.exchange,), about=job_id, at=told.at)
            tally.differs(44, "404", str(told.status), found)


# Several tellings


def _compare(job_id: str, named: JobsOfName, job: ObservedJob, watermark: Micros, tally: Tally) -> None:
    """Compare each telling with the one that came last, and had come furthest, before it was asked for.

    Necessary: the state at the later call follows that at the earlier one. A name may turn out to be that of
    another account's job, too: what an event alone tells of it waits.
    """
    due = [told for told in job.pending if told.since < watermark]
    job.pending = job.pending[len(due) :]
    for told in due:
        heard = named.events[job.heard :]
        come = [early for early in (*job.waiting, *heard) if early.until < told.since]
        if come:
            job.heard += sum(early.until < told.since for early in heard)
            job.waiting = [early for early in job.waiting if early.until >= told.since]
            for early in sorted(come, key=lambda early: early.until):
                job.known = _further(job.known, early)
        replied, heard_too = job.known
        if replied is not heard_too:
            named.doubtful.append((job.known, told))
        elif replied is not None:
            _judge_pair(job_id, replied, told, tally)


def _further(known: Pair, early: JobStatement) -> Pair:
    """Return what is known when one more telling had come; an event counts with the events alone."""
    replied, told = known
    if told is None or early.rank >= told.rank:
        told = early
    if early.exchange and (replied is None or early.rank >= replied.rank):
        replied = early
    return replied, told


def _conclude(job_id: str, named: JobsOfName, tally: Tally) -> None:
    """Judge what waited for more to be told of a name.

    Events of a name that jobs of two accounts have tell nothing.
    """
    for owner, asked in named.refused:
        job = named.jobs.get(owner)
        if job is not None and asked not in job.kinds:
            tally.held(WRONG_KIND)
    for (replied, told), later in named.doubtful:
        known = told if len(named.jobs) == 1 else replied
        if known is not None:
            _judge_pair(job_id, known, later, tally)


def _judge_pair(job_id: str, one: JobStatement, other: JobStatement, tally: Tally) -> None:
    before, after = state_of(one.job), state_of(other.job)
    pair = (one, other)
    if one.rank < 0 or other.rank < 0:
        tally.open(PROGRESS, "a status that is none of the four (U39)")
    elif before in ENDED and after != before:
        says = f"the job was {before} and then {after}"
        _check_pair(PROGRESS, False, says, pair, job_id, tally, before)
    elif other.rank < one.rank:
        tally.differs(39, ", ".join(STATES), f"{after} after {before}", _evidence("", pair, job_id))
    else:
        ended = before if before in ENDED else None
        tally.held(PROGRESS, case=ended, by=_evidence("", pair, job_id).exchanges)
    if before not in ENDED or after != before:
        return
    changed = [name for name in LASTING if _differ(one, other, name)]
    says = f"the job had ended, and then its {' and '.join(changed)} changed" if changed else ""
    _check_pair(FINAL, not changed, says, pair, job_id, tally, before)


def _differ(one: JobStatement, other: JobStatement, name: str) -> bool:
    """Return whether a field differs; an instant may be written to the second or finer."""
    if name not in one.job or name not in other.job:
        return False
    before, after = one.job[name], other.job[name]
    if (first := moment(before)) is not None and (second := moment(after)) is not None:
        return abs(first - second) >= SECOND
    return bool(before != after)


def _evidence(says: str, tellings: Sequence[JobStatement], job_id: str) -> Evidence:
    return Evidence(
        says or "the job went back",
        tuple(told.exchange for told in tellings if told.exchange),
        tuple(told.delivery for told in tellings if told.delivery),
        job_id,
        tellings[-1].at,
    )


def _check_pair(
    rule: str,
    holds: bool,
    says: str,
    tellings: Sequence[JobStatement],
    job_id: str,
    tally: Tally,
    case: str = ANY,
) -> None:
    tally.check(rule, holds, _evidence(says, tellings, job_id), case=case)


def _check(
    rule: str, holds: bool, says: str, seen: Observation, job_id: str, tally: Tally, case: str = ANY
) -> None:
    tally.check(rule, holds, Evidence(says, (seen.id,), about=job_id, at=seen.sent), case=case)
