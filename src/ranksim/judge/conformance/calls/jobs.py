"""Judge what is shown of jobs: kinds, states, and that an end is an end (S13-S16).

What polls, lists, creations and events state of one job is ordered by the client's clock: what was asked for
after another statement had come shows a later state. A creation may be a replay, and nobody knows which state
a replay shows (E6), so that a creation only ever is the earlier of two; so is an event.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ranksim.core.clock import DAY, DISTANT_FUTURE, SECOND, Micros
from ranksim.core.contract.facts import JOB_EVENT_TYPES, JobKind
from ranksim.judge.conformance.history.fields import (
    STATES,
    event_job,
    identified,
    instant_or_none,
    sent_body,
    state_of,
    thing_of,
)
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Json, Observation, ReceivedAttempt, job_name
from ranksim.judge.conformance.judge import Judge, evidence_of
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import ANY, Breach, Cause, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

KINDS = "job.kinds"
PROGRESS = "job.progress"
FINAL = "job.final"
REASON = "job.reason"
FINISHED = "job.finished"
WRONG_KIND = "job.wrong_kind"

JOB_KINDS = tuple(JobKind)

SAME_RESOURCE = Cause("resource.fields", "the same resource, read for what its fields say")

RULES = declare(
    Rule(
        KINDS,
        "A job's kind is one of four, and what was asked for",
        (14, 34),
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
        ways=(
            Breach(15, "a queued job tells an error", "queued"),
            Breach(15, "a running job tells an error", "running"),
            Breach(15, "a job that is done tells an error", "done"),
            Breach(15, "a job that failed tells no reason", "failed"),
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

Owner: TypeAlias = tuple[str, str]
"""Environment and account."""

LASTING = ("finished_at", "error_detail", "kind", "domain_id")
"""What of a job is settled once it has ended."""

FORGOTTEN = 3 * DAY
"""Business time without a word of a job after which it is forgotten, as if a trace began."""


@dataclass(frozen=True, slots=True)
class JobStatement:
    """What an exchange or a delivery stated of a job, true at some moment of [since, until].

    `since` is DISTANT_FUTURE where the statement may be older than its call, so that nothing comes before it.
    `kind_asked_for` is the kind that the call asked for, None where it named none.
    """

    job: Mapping[str, Json]
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
        return RANK.get(state_of(self.job), -1)


Pair: TypeAlias = tuple[JobStatement | None, JobStatement | None]
"""What had come last and furthest before an instant, by replies alone, and with what events stated."""


@dataclass(slots=True)
class ObservedJob:
    """What is remembered of one job of one account: what later statements are compared with.

    `number` is its place in the order of the first statements.
    """

    number: int
    waiting: list[JobStatement] = field(default_factory=list)
    """What had not come yet when the last statement was asked for."""
    heard: int = 0
    """How many events of its name were taken in."""
    furthest: Pair = (None, None)
    kind: str | None = None
    """The job's kind, as first stated to a call that asked for none."""
    kinds: tuple[str, ...] = ()
    """All kinds that were stated of the job."""
    asked_for: list[JobStatement] = field(default_factory=list)
    """What was stated to calls that asked for a kind, until the job's own is known."""
    pending: list[JobStatement] = field(default_factory=list)
    """What was not compared yet, in order of sending."""


@dataclass(slots=True)
class JobsOfName:
    """The jobs of one name: each account may have one."""

    busy: Micros
    """When a job of the name was last asked for or stated."""
    jobs: dict[Owner, ObservedJob] = field(default_factory=dict)
    events: list[JobStatement] = field(default_factory=list)
    doubtful: list[tuple[Pair, JobStatement]] = field(default_factory=list)
    """What an event alone contradicts, or bears out, of a name that other accounts may have, too."""
    refused: list[tuple[Owner, str | None]] = field(default_factory=list)
    """Whose reads of it were refused, and the kind that they asked for."""


@dataclass
class JobJudge(Judge):
    """Judges every job that was created, polled, listed or named by an event."""

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    names: dict[str, JobsOfName] = field(default_factory=dict)
    fresh: dict[tuple[str, Owner], ObservedJob] = field(default_factory=dict)
    """The jobs that have something pending."""
    count: int = 0
    """How many jobs were stated."""
    swept: Micros = 0
    """The watermark at which jobs were last forgotten."""

    def wants(self, like: Observation) -> bool:
        """What states jobs."""
        return like.operation in ("jobs.create", "jobs.get", "jobs.list")

    def see(self, seen: Observation) -> None:
        """Judge what a reply states of each job, and keep the statement to be compared."""
        owner = (seen.environment, seen.account)
        if seen.ok and seen.surface == "rest" and not seen.dry_run:
            for job in identified(seen):
                self._judge_one(seen, job)
                self._add(owner, job, seen)
        elif seen.ok and seen.surface == "graphql" and seen.operation == "jobs.create" and not seen.dry_run:
            self._judge_kind_over_graphql(seen)
        elif seen.operation == "jobs.get" and 400 <= seen.status <= 499 and seen.status not in (401, 429):
            named = self._named(seen.parameters.get("id", ""), seen.sent)
            named.refused.append((owner, seen.parameters.get("kind")))

    def see_attempt(self, attempt: ReceivedAttempt) -> None:
        """Keep what states a job's end."""
        job = event_job(attempt.body) if attempt.type in JOB_EVENT_TYPES else None
        if job is not None:
            named = self._named(job_name(job), attempt.received)
            kept = _kept(job, named.events[-1] if named.events else None)
            name, came = attempt.name, attempt.received
            named.events.append(JobStatement(kept, DISTANT_FUTURE, came, came, delivery=name))

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Compare what was asked for before the watermark; forget jobs that were not stated for long."""
        for place, job in sorted(self.fresh.items(), key=lambda item: item[1].number):
            self._compare(place[0], job, watermark)
            if not job.pending:
                del self.fresh[place]
        span = FORGOTTEN // max(1, run.rate)
        if watermark - self.swept < span // 24:
            return
        self.swept = watermark
        for name in [name for name, named in self.names.items() if named.busy + span < watermark]:
            self._conclude(name, self.names.pop(name))

    def _named(self, name: str, busy: Micros) -> JobsOfName:
        named = self.names.setdefault(name, JobsOfName(busy))
        named.busy = max(named.busy, busy)
        return named

    def _add(self, owner: Owner, job: Mapping[str, Json], seen: Observation) -> None:
        """Add what a reply stated of a job."""
        name = job_name(job)
        named = self._named(name, seen.sent)
        if owner not in named.jobs:
            named.jobs[owner] = ObservedJob(self.count)
            self.count += 1
        observed = named.jobs[owner]
        since = DISTANT_FUTURE if seen.operation == "jobs.create" else seen.sent
        kept = _kept(job, observed.waiting[-1] if observed.waiting else observed.furthest[0])
        asked_for = seen.parameters.get("kind")
        statement = JobStatement(kept, since, seen.received, seen.sent, seen.id, "", asked_for, seen.status)
        observed.waiting.append(statement)
        if since != DISTANT_FUTURE:
            observed.pending.append(statement)
            self.fresh[name, owner] = observed
        kind = str(job.get("kind"))
        if kind not in observed.kinds:
            observed.kinds += (kind,)
        if observed.kind is None and seen.operation != "jobs.get" and kind in JOB_KINDS:
            observed.kind = kind
        if asked_for is not None:
            observed.asked_for.append(statement)
        if observed.kind is not None and observed.asked_for:
            for statement in observed.asked_for:
                self._judge_kind(name, observed.kind, statement)
            observed.asked_for.clear()

    # One statement

    def _check(
        self, rule: str, holds: bool, says: str, seen: Observation, job_id: str, case: str = ANY
    ) -> None:
        self.tally.check(rule, holds, evidence_of(says, seen, about=job_id), case=case)

    def _judge_kind_over_graphql(self, seen: Observation) -> None:
        """Over GraphQL a reply shows what was asked for, the kind perhaps in capitals."""
        requested, made = sent_body(seen).get("kind"), thing_of(seen)
        kind, job_id = made.get("kind"), made.get("id")
        if isinstance(requested, str) and isinstance(kind, str) and isinstance(job_id, str):
            says = f"{seen.id} asked for a job of kind {requested} and shows kind {kind}"
            self._check(KINDS, kind.lower() == requested, says, seen, job_id, f"{requested} asked for")

    def _judge_one(self, seen: Observation, job: dict[str, Json]) -> None:
        kind, status, reason = job.get("kind"), job.get("status"), job.get("error_detail")
        name, state, finished = job["id"], state_of(job), job.get("finished_at")
        if str(kind) not in JOB_KINDS:
            self._check(KINDS, False, f"{seen.id} shows a job of kind {kind}", seen, name)
        elif seen.operation == "jobs.create" and isinstance(seen.body, dict):
            requested = seen.body.get("kind")
            says = f"{seen.id} asked for a job of kind {requested} and shows kind {kind}"
            self._check(KINDS, kind == requested, says, seen, name, f"{requested} asked for")
        else:
            self.tally.held(KINDS, case=None)
        if status not in STATES:
            evidence = evidence_of(f"{seen.id} shows status {status!r}", seen, about=name)
            self.tally.differs(39, ", ".join(STATES), repr(status), evidence)
        if state:
            says = f"{seen.id} shows a job {status} with error_detail {reason!r}"
            self._check(REASON, bool(reason) == (state == "failed"), says, seen, name, state)
        says = f"{seen.id} shows a job {status} with finished_at {finished!r}"
        if state in ENDED:
            self._check(FINISHED, isinstance(finished, str) and finished != "", says, seen, name, state)
        elif state and finished is not None:
            self.tally.differs(43, "null", repr(finished), evidence_of(says, seen, about=name))

    def _judge_kind(self, job_id: str, kind: str, statement: JobStatement) -> None:
        """Under another kind a job is not shown (U44), and surely not as one of that kind."""
        asked_for = statement.kind_asked_for
        if asked_for == kind:
            return
        says = f"{statement.exchange} asked for a {asked_for} and was shown {job_id}, a {kind}"
        if statement.job.get("kind") == asked_for:
            self.tally.broke(WRONG_KIND, _evidence(f"{says}, as a {asked_for}", job_id, statement))
        else:
            self.tally.differs(44, "404", str(statement.status), _evidence(says, job_id, statement))

    # Several statements

    def _compare(self, job_id: str, job: ObservedJob, watermark: Micros) -> None:
        """Compare each statement with that which came last, and had come furthest, before its call was sent.

        Necessary: the state at the later call follows that at the earlier one. A name may turn out to be that
        of another account's job, too: what an event alone states waits.
        """
        named = self.names[job_id]
        due = [later for later in job.pending if later.since < watermark]
        job.pending = job.pending[len(due) :]
        for later in due:
            heard = named.events[job.heard :]
            come = [early for early in (*job.waiting, *heard) if early.until < later.since]
            if come:
                job.heard += sum(early.until < later.since for early in heard)
                job.waiting = [early for early in job.waiting if early.until >= later.since]
                for early in sorted(come, key=lambda early: early.until):
                    job.furthest = _further(job.furthest, early)
            replied, heard_too = job.furthest
            if replied is not heard_too:
                named.doubtful.append((job.furthest, later))
            elif replied is not None:
                self._judge_pair(job_id, replied, later)

    def _conclude(self, job_id: str, named: JobsOfName) -> None:
        """Judge what waited for more statements of a name.

        Events of a name that jobs of two accounts have show nothing.
        """
        for owner, kind in named.refused:
            job = named.jobs.get(owner)
            if job is not None and kind not in job.kinds:
                self.tally.held(WRONG_KIND)
        for (replied, heard), later in named.doubtful:
            earlier = heard if len(named.jobs) == 1 else replied
            if earlier is not None:
                self._judge_pair(job_id, earlier, later)

    def _judge_pair(self, job_id: str, earlier: JobStatement, later: JobStatement) -> None:
        before, after = state_of(earlier.job), state_of(later.job)
        back = _evidence("the job went back", job_id, earlier, later)
        if earlier.rank < 0 or later.rank < 0:
            self.tally.open(PROGRESS, "a status that is none of the four (U39)")
        elif before in ENDED and after != before:
            self.tally.broke(
                PROGRESS, replace(back, says=f"the job was {before} and then {after}"), case=before
            )
        elif later.rank < earlier.rank:
            self.tally.differs(39, ", ".join(STATES), f"{after} after {before}", back)
        else:
            self.tally.held(PROGRESS, case=before if before in ENDED else None, by=back.exchanges)
        if before in ENDED and after == before:
            changed = " and ".join(name for name in LASTING if _differ(earlier, later, name))
            ended = replace(back, says=f"the job had ended, and then its {changed} changed")
            self.tally.check(FINAL, not changed, ended, case=before)


def _kept(job: Mapping[str, Json], before: JobStatement | None) -> Mapping[str, Json]:
    """Return what is compared of a job; mostly what was stated before."""
    kept = {name: job[name] for name in ("status", *LASTING) if name in job}
    return before.job if before is not None and before.job == kept else kept


def _further(furthest: Pair, early: JobStatement) -> Pair:
    """Return what is known with a further statement; an event counts with the events alone."""
    replied, heard = furthest
    if heard is None or early.rank >= heard.rank:
        heard = early
    if early.exchange and (replied is None or early.rank >= replied.rank):
        replied = early
    return replied, heard


def _differ(earlier: JobStatement, later: JobStatement, name: str) -> bool:
    """Return whether a field differs; an instant may be written to the second or finer."""
    if name not in earlier.job or name not in later.job:
        return False
    before, after = earlier.job[name], later.job[name]
    if (first := instant_or_none(before)) is not None and (second := instant_or_none(after)) is not None:
        return abs(first - second) >= SECOND
    return bool(before != after)


def _evidence(says: str, job_id: str, *statements: JobStatement) -> Evidence:
    exchanges = tuple(statement.exchange for statement in statements if statement.exchange)
    deliveries = tuple(statement.delivery for statement in statements if statement.delivery)
    return Evidence(says, exchanges, deliveries, job_id, statements[-1].at)
