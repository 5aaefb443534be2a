"""Judge what is shown of jobs: kinds, states, and that an end is an end (S13-S16).

What polls, lists, creations and events state of one job is ordered by the client's clock: what was asked for
after another statement had come shows a later state. A creation may be a replay, and nobody knows which state
a replay shows (E6), so that a creation only ever is the earlier of two; so is an event. Two ends are the
same, whichever came first. No more can be told: where each two statements may be right, all that show no end
may have come before all that do; and a job that is queued again is another reading of its states (U39).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ranksim.core.clock import DAY, DISTANT_FUTURE, Micros
from ranksim.core.contract.facts import JOB_EVENT_TYPES, JobKind
from ranksim.judge.conformance.calls.job_statements import (
    ENDED,
    ByRank,
    JobStatement,
    add_statement,
    compared_fields,
    differing,
    furthest_before,
    statement_evidence,
)
from ranksim.judge.conformance.history.fields import (
    STATES,
    event_job,
    identified,
    sent_body,
    state_of,
    thing_of,
)
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Json, Observation, ReceivedAttempt, job_name
from ranksim.judge.conformance.judge import Judge, evidence_of
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import ANY, Breach, Cause, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Tally

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

Owner: TypeAlias = tuple[str, str]
"""Environment and account."""

FORGOTTEN = 3 * DAY
"""Business time without a word of a job after which it is forgotten, as if a trace began."""


Pair: TypeAlias = tuple[JobStatement | None, JobStatement | None]
"""What a statement is compared with, by replies alone, and with what events stated."""


@dataclass(slots=True)
class ObservedJob:
    """What is remembered of one job of one account: what later statements are compared with."""

    replied: ByRank = field(default_factory=dict)
    kind: str | None = None
    """The job's kind, as first stated to a call that asked for none."""
    kinds: tuple[str, ...] = ()
    """All kinds that were stated of the job."""
    asked_for: list[JobStatement] = field(default_factory=list)
    """What was stated to calls that asked for a kind, until the job's own is known."""
    furthest: tuple[float, Observation] | None = None
    """The most progress that was shown while it ran, and the first reply that did."""


@dataclass(slots=True)
class JobsOfName:
    """The jobs of one name, each account's; `busy` is when one was last asked for or stated."""

    busy: Micros
    jobs: dict[Owner, ObservedJob] = field(default_factory=dict)
    events: ByRank = field(default_factory=dict)
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
    swept: Micros = 0
    """The watermark at which jobs were last forgotten."""

    def wants(self, like: Observation) -> bool:
        """What states jobs."""
        return like.operation in ("jobs.create", "jobs.get", "jobs.list")

    def see(self, seen: Observation) -> None:
        """Judge what a reply states of each job, by itself and beside what was stated before."""
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
            came, last = attempt.received, DISTANT_FUTURE
            statement = JobStatement(
                compared_fields(job), state_of(job), last, came, came, delivery=attempt.name
            )
            add_statement(named.events, statement)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Forget jobs that were not stated for long."""
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
        observed = named.jobs.setdefault(owner, ObservedJob())
        since = DISTANT_FUTURE if seen.operation == "jobs.create" else seen.sent
        asked_for = seen.parameters.get("kind")
        statement = JobStatement(
            compared_fields(job),
            state_of(job),
            since,
            seen.received,
            seen.sent,
            seen.id,
            "",
            asked_for,
            seen.status,
        )
        if since != DISTANT_FUTURE:
            self._compare(name, named, observed, statement)
            self._note_progress(observed, job, seen)
        add_statement(observed.replied, statement)
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

    def _note_progress(self, observed: ObservedJob, job: Mapping[str, Json], seen: Observation) -> None:
        """Progress that is less at a later look, while the job goes on, is none that grows (U42)."""
        progress, before = job.get("progress"), observed.furthest
        if isinstance(progress, bool) or not isinstance(progress, int | float) or state_of(job) in ENDED:
            return
        if before is not None and before[1].received < seen.sent and progress < before[0]:
            says = f"{seen.id} shows progress {progress}, and {before[1].id} had shown {before[0]}"
            evidence = evidence_of(says, before[1], seen, about=str(job.get("id")))
            self.tally.differs(42, "progress grows", "it falls", evidence)
        if before is None or progress > before[0]:
            observed.furthest = progress, seen

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
            self.tally.broke(WRONG_KIND, statement_evidence(f"{says}, as a {asked_for}", job_id, statement))
        else:
            self.tally.differs(44, "404", str(statement.status), statement_evidence(says, job_id, statement))

    # Several statements

    def _compare(self, job_id: str, named: JobsOfName, job: ObservedJob, later: JobStatement) -> None:
        """Compare a statement with what had come furthest before its call was sent, and with other ends.

        Necessary: the state at the later call follows that at the earlier one. A name may turn out to be that
        of another account's job, too: what an event alone states waits.
        """
        replied = heard_too = furthest_before(later, job.replied.values())
        if named.events:
            heard_too = furthest_before(later, [*job.replied.values(), *named.events.values()])
        if replied is not heard_too:
            named.doubtful.append(((replied, heard_too), later))
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
        before, after = earlier.state, later.state
        ordered = earlier.until < later.since
        back = statement_evidence("the job went back", job_id, earlier, later)
        if earlier.rank < 0 or later.rank < 0:
            self.tally.open(PROGRESS, "a status that is none of the four (U39)")
        elif before in ENDED and after != before:
            says = f"the job was {before} and {'then ' if ordered else 'also '}{after}"
            self.tally.broke(PROGRESS, replace(back, says=says), case=before)
        elif later.rank < earlier.rank:
            self.tally.differs(39, ", ".join(STATES), f"{after} after {before}", back)
        elif ordered:
            self.tally.held(PROGRESS, case=before if before in ENDED else None, by=back.exchanges)
        if before in ENDED and after == before:
            changed = " and ".join(differing(earlier, later))
            says = f"then its {changed} changed" if ordered else f"two statements of that differ in {changed}"
            ended = replace(back, says=f"the job had ended, and {says}")
            self.tally.check(FINAL, not changed, ended, case=before)
