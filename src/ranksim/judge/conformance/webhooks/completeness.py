"""Judge that events are sent: the end of a job to every endpoint that takes it, and tests (S41, S75, S93).

An event that never came may be lost on its way; the deployment's own list of attempts, read whole and late
enough, tells what was never sent.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ranksim.core.clock import format_millis
from ranksim.core.contract.facts import JOB_EVENT_TYPES, JobKind
from ranksim.judge.conformance.history.fields import event_job, identified, state_of
from ranksim.judge.conformance.history.observation import Json, Observation, ReceivedAttempt, job_name
from ranksim.judge.conformance.judge import evidence_of
from ranksim.judge.conformance.verdict.rule import Breach, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Tally
from ranksim.judge.conformance.webhooks.endpoints import (
    ENDPOINT_FIELDS,
    GRACE,
    ObservedEndpoint,
    Owner,
    WebhookJudge,
    WebhookLog,
    attempt_evidence,
)

TEST = "webhook.test"
SENT = "webhook.sent"

RULES = declare(
    Rule(
        TEST,
        "A test event arrives as any other",
        (41,),
        (72, 75),
        ways=(Breach(41, "a test event is never sent"),),
    ),
    Rule(
        SENT,
        "The end of a job is sent to every endpoint that takes it",
        (75, 76, 93),
        (75,),
        cases=(
            *(f"{kind} {status}" for kind in JobKind for status in ("done", "failed")),
            *(f"{event_type} to an endpoint of all types" for event_type in JOB_EVENT_TYPES),
        ),
        ways=(
            Breach(76, "a {} that is done is told to nobody", "{} done", tuple(sorted(JobKind))),
            Breach(76, "a {} that failed is told to nobody", "{} failed", tuple(sorted(JobKind))),
            Breach(
                18,
                "an endpoint that takes all types gets only some",
                "job.failed to an endpoint of all types",
            ),
            Breach(93, "the end of a job is never sent", "crawl done"),
        ),
        needs=(Requirement.FAILING_DOMAIN,),
    ),
    exercise="webhooks",
    looks_at=ENDPOINT_FIELDS,
    needs=(Requirement.RECEIVER, Requirement.SPENDING, Requirement.JOB_END),
)


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that was started in the trace and shown as ended, and the two exchanges."""

    job: dict[str, Json]
    created: Observation
    showing: Observation

    @property
    def name(self) -> str:
        """The name of the job."""
        return job_name(self.job)

    @property
    def case(self) -> str:
        """The case of its end."""
        return f"{self.job.get('kind')} {state_of(self.job)}"

    @property
    def case_of_all_types(self) -> str:
        """The case of its end at an endpoint that takes all types (S18)."""
        return f"{ENDED[state_of(self.job)]} to an endpoint of all types"


ENDED = {"done": "job.completed", "failed": "job.failed"}
"""The event of each end (S76, U39)."""


@dataclass
class CompletenessJudge(WebhookJudge):
    """Judges every test that was accepted, and every job that ended, at every endpoint that took it."""

    tally: Tally = field(default_factory=lambda: Tally(RULES))
    created: dict[tuple[Owner, str], Observation] = field(default_factory=dict)
    """Calls that began a job, by its account and name."""
    ended: dict[tuple[Owner, str], EndedJob] = field(default_factory=dict)
    """The jobs that the run created and showed as ended, by account and name."""
    first: dict[tuple[str, str], Observation] = field(default_factory=dict)
    """The first call for a job under an Idempotency-Key, answered or not, by environment and key."""

    def wants(self, like: Observation) -> bool:
        """What shows endpoints, attempts or jobs."""
        return like.operation == "jobs.create" or shows_jobs(like) or WebhookLog.wants(like)

    def see(self, seen: Observation) -> None:
        """Log an exchange, and the ends of jobs that it shows."""
        if seen.operation == "jobs.create" and seen.idempotency_key is not None:
            key = seen.environment, seen.idempotency_key
            self.first[key] = min(self.first.get(key, seen), seen, key=lambda call: call.sent)
        for job in jobs_in(seen):
            name = (seen.environment, seen.account), job_name(job)
            if seen.operation == "jobs.create" and not seen.old and state_of(job) not in ENDED:
                self.created.setdefault(name, seen)
            elif state_of(job) in ENDED and name in self.created and name not in self.ended:
                self.ended[name] = EndedJob(job, self.created[name], seen)
        super().see(seen)

    def conclude(self) -> None:
        """Find what never came."""
        events, tests = attempts_by_event(self.log.arrived), tests_of(self.log.calls)
        for event, seen in tests.items():
            self._judge_test(event, seen, events.get(event))
        self._judge_sent(events, tests)

    # Tests

    def _judge_test(self, event: str, seen: Observation, came: Sequence[ReceivedAttempt] | None) -> None:
        """A test that was accepted arrives at its endpoint, or is listed as attempted.

        One that neither arrived nor is listed well after was never sent, unless its endpoint was shut.
        """
        target, listed = seen.parameters.get("id", ""), self.ledger.listed
        if came is not None:
            says = f"the test of {target} came to {came[0].endpoint}"
            evidence = attempt_evidence(says, came[0], exchanges=(seen.id,))
            right = came[0].endpoint == target or came[0].endpoint not in self.ledger.endpoints
            self.tally.check(TEST, right, evidence)
            return
        reading, endpoint = None, self.ledger.endpoints.get(target)
        if endpoint is not None and self.ledger.steady(endpoint) and not seen.old:
            reading = listed.complete(endpoint.owner, seen.sent, seen.received + GRACE)
        if reading is None or any(named == event for _, named, _ in listed.attempts):
            self.tally.open(TEST, "the test event did not arrive; it may be lost, or late")
        else:
            says = f"the test event {event} neither arrived nor is listed {format_millis(GRACE)} later"
            self.tally.broke(TEST, evidence_of(says, seen, about=target))

    # Ends of jobs

    def _judge_sent(
        self, events: Mapping[str, Sequence[ReceivedAttempt]], tests: Mapping[str, Observation]
    ) -> None:
        """The end of a job comes to every endpoint that surely took it, or is listed as attempted there.

        Necessary: the endpoint was made before the job, left alone and never disabled. The list names events,
        not jobs, so an event that came nowhere may be any job's: as many jobs as it lists such may be lost.
        """
        ends: dict[Owner, list[EndedJob]] = defaultdict(list)
        for (owner, _), end in self.ended.items():
            # a later call under the same Idempotency-Key may get the reply of the first
            key = owner[0], end.created.idempotency_key or ""
            ends[owner].append(replace(end, created=self.first.get(key, end.created)))
        events_of_jobs = _events_of_jobs(events)
        listed = {(endpoint, event) for endpoint, event, _ in self.ledger.listed.attempts}
        unknown = Counter(
            endpoint for endpoint, event in listed if event not in events and event not in tests
        )
        for endpoint in self.ledger.endpoints.values():
            missing: list[EndedJob] = []
            for end in self._due(endpoint, ends.get(endpoint.owner, ())):
                named = events_of_jobs.get(end.name, {})
                if endpoint.id in named:
                    by = end.created.id, end.showing.id
                    self.tally.held(SENT, case=end.case, by=by)
                    if not endpoint.settings[0].types:
                        self.tally.covers(SENT, end.case_of_all_types, by)
                elif not listed.isdisjoint((endpoint.id, event) for event in named.values()):
                    self.tally.open(SENT, "it is listed and did not arrive: it was lost")
                else:
                    missing.append(end)
            if missing:
                self._judge_missing(endpoint, missing, unknown[endpoint.id], events_of_jobs)

    def _due(self, endpoint: ObservedEndpoint, ends: Sequence[EndedJob]) -> list[EndedJob]:
        """Return the ended jobs whose end an endpoint surely took: it was there before them, and steady."""
        created, setting = endpoint.created, next(iter(endpoint.settings), None)
        if created is None or setting is None or not self.ledger.steady(endpoint):
            return []
        if setting.types is None or setting.domain is None:
            return []
        return [
            end
            for end in ends
            if end.created.sent > created.received
            and (not setting.types or ENDED[state_of(end.job)] in setting.types)
            and setting.domain in ("", end.job.get("domain_id"))
        ]

    def _judge_missing(
        self,
        endpoint: ObservedEndpoint,
        missing: Sequence[EndedJob],
        unknown: int,
        events_of_jobs: Mapping[str, Mapping[str, str]],
    ) -> None:
        """Report events that others alone got as lost by the types of an endpoint, where it takes all."""
        complete = self.ledger.listed.complete
        sure = [
            end for end in missing if complete(endpoint.owner, end.created.sent, end.showing.received + GRACE)
        ]
        if len(sure) <= unknown:
            self.tally.open(SENT, "it did not arrive; it may be lost, or late", len(missing))
            return
        end = sure[0]
        says = (
            f"{len(sure)} jobs ended, {end.job['id']} first, and their events neither came to {endpoint.id} "
            f"nor are listed there {format_millis(GRACE)} later, where {unknown} events are of unknown jobs"
        )
        assert endpoint.created is not None
        evidence = evidence_of(says, endpoint.created, end.showing, about=endpoint.id)
        to_others = not endpoint.settings[0].types and end.name in events_of_jobs
        self.tally.broke(SENT, evidence, case=end.case_of_all_types if to_others else end.case)


def _events_of_jobs(events: Mapping[str, Sequence[ReceivedAttempt]]) -> dict[str, dict[str, str]]:
    """Return the event of each job that came to each endpoint, by the job's name and the endpoint."""
    events_of_jobs: dict[str, dict[str, str]] = defaultdict(dict)
    for event, attempts in events.items():
        for arrived in attempts:
            events_of_jobs[job_name(job_of(arrived))][arrived.endpoint] = event
    return events_of_jobs


# Readings of exchanges and attempts


def attempts_by_event(arrivals: Iterable[ReceivedAttempt]) -> dict[str, list[ReceivedAttempt]]:
    """Return the attempts that name an event, by it."""
    events: dict[str, list[ReceivedAttempt]] = defaultdict(list)
    for arrived in arrivals:
        if arrived.event:
            events[arrived.event].append(arrived)
    return events


def tests_of(calls: Iterable[Observation]) -> dict[str, Observation]:
    """Return the events that were asked for as tests (S41), with the call."""
    return {
        seen.data["event_id"]: seen
        for seen in calls
        if seen.operation == "webhooks.test"
        and seen.ok
        and isinstance(seen.data, dict)
        and isinstance(seen.data.get("event_id"), str)
    }


def shows_jobs(like: Observation) -> bool:
    """Return whether exchanges of this likeness show jobs."""
    return like.operation in ("jobs.create", "jobs.get", "jobs.list") and like.ok and not like.dry_run


def jobs_in(seen: Observation) -> Iterator[dict[str, Json]]:
    """Return each job that a reply of the API shows."""
    return identified(seen) if shows_jobs(seen) else iter(())


def job_of(arrived: ReceivedAttempt) -> dict[str, Json]:
    """Return the job of an attempt's event, or {}."""
    return event_job(arrived.body) or {}
