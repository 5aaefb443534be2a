"""Judge webhook attempts one by one, and what they say together (S18-S20, S40, S41, S74-S86).

The receiver is ours: what it got and answered is known. What never came may be lost, so that an absence alone
proves nothing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ranksim.core.clock import SECOND, Micros, format_millis
from ranksim.core.contract.facts import EVENT_TYPES, JOB_EVENT_TYPES
from ranksim.core.contract.views import TEST_EVENT, EventJobView
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Observation, ReceivedAttempt, job_name
from ranksim.judge.conformance.verdict.rule import RAW, Breach, Cause, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Tally
from ranksim.judge.conformance.webhooks.completeness import (
    attempts_by_event,
    job_of,
    jobs_in,
    shows_jobs,
    tests_of,
)
from ranksim.judge.conformance.webhooks.endpoints import (
    ENDPOINT_FIELDS,
    ObservedEndpoint,
    Owner,
    WebhookJudge,
    WebhookLog,
    attempt_evidence,
)
from ranksim.judge.conformance.webhooks.views import (
    VIEW_RULES,
    judge_listed,
    judge_reason,
    judge_shown_secrets,
)

SIGNATURE = "webhook.signature"
FRESH = "webhook.fresh"
HEADERS = "webhook.headers"
BODY = "webhook.body"
OUTCOME = "webhook.outcome"
EVENT = "webhook.event"
TYPES = "webhook.types"
SCOPE = "webhook.scope"

ATTEMPTS = ("first attempt", "retry", "test")
"""The kinds of attempts that a sender may make in different places of its code. A test's retry is a test: it
tells nothing of how the retries of other events are made."""

RULES = declare(
    Rule(
        SIGNATURE,
        "Every attempt is signed over t and the raw body",
        (74, 78, 84, 85),
        ways=(
            Breach(74, "the signature does not verify ({})", "{}", ATTEMPTS),
            Breach(41, "a test event is not signed", "test"),
            Breach(84, "the signed string has no t", "first attempt"),
            Breach(84, "a body is signed and sent otherwise", "first attempt"),
            Breach(85, "the digest is another, or in capitals", "first attempt"),
        ),
        attempt=("Service-Signature", RAW),
    ),
    Rule(
        FRESH,
        "The signature's t is the time of the attempt",
        (78, 86),
        (68, 77),
        exercise="webhooks-long",
        ways=(Breach(78, "t is not the time of the attempt ({})", "{}", ATTEMPTS),),
        attempt=("Service-Signature",),
        follows=(Cause(SIGNATURE, "t is part of what is signed"),),
    ),
    Rule(
        HEADERS,
        "An attempt carries its event's id and type, and its number",
        (77, 79, 80, 81),
        ways=(
            Breach(77, "the body is no application/json ({})", "{}", ATTEMPTS),
            Breach(80, "Service-Event-Type is missing ({})", "{}", ATTEMPTS),
            Breach(81, "Service-Delivery-Attempt is missing ({})", "{}", ATTEMPTS),
        ),
        attempt=(
            "Content-Type",
            "Service-Event-Id",
            "Service-Event-Type",
            "Service-Delivery-Attempt",
            "Service-Signature",
        ),
    ),
    Rule(
        BODY,
        "A body has id, type, created_at and the job's six fields",
        (82, 83),
        ways=(Breach(82, "a body of {} lacks a field", "{}", JOB_EVENT_TYPES),),
        attempt=("id", "type", "created_at", "data", RAW),
    ),
    Rule(
        OUTCOME,
        "job.completed tells of a job done, job.failed of an error",
        (75, 76),
        (39,),
        ways=(Breach(76, "{} tells of another outcome", "{}", JOB_EVENT_TYPES),),
        attempt=("type", "data.job.status", "data.job.error_detail"),
        essential={
            "job[.]completed": "no job.completed arrived whose job was read",
            "job[.]failed": "no job.failed arrived whose job was read",
        },
    ),
    Rule(
        EVENT,
        "The end of a job is one event, with one id on all attempts",
        (79, 93),
        (68, 74),
        ways=(
            Breach(79, "a retry has another event id", "retries"),
            Breach(79, "two endpoints get different ids of one event", "two endpoints"),
        ),
        attempt=("id", "type", "data.job.id"),
        follows=(Cause(HEADERS, "what is missing names no event"),),
    ),
    Rule(
        TYPES,
        "An endpoint gets the types that it lists, or all of them",
        (18, 19),
        (72,),
        ways=(Breach(19, "an endpoint that does not list {} gets it", "{} not listed", JOB_EVENT_TYPES),),
        attempt=("type",),
    ),
    Rule(
        SCOPE,
        "An endpoint gets events of its account, and of its domain if bound",
        (20,),
        ways=(
            Breach(20, "a bound endpoint gets events of another domain", "another domain's"),
            Breach(20, "an endpoint gets events of another account", "another account's"),
        ),
        attempt=("data.job.domain_id",),
    ),
    *VIEW_RULES,
    exercise="webhooks",
    looks_at=ENDPOINT_FIELDS,
    needs=(Requirement.RECEIVER, Requirement.SPENDING, Requirement.JOB_END),
)

SIGNED = re.compile(r"t=[0-9]+,v1=[0-9a-f]{64}(,|$)")
JOB_FIELDS = EventJobView.__required_keys__
"""What the job of an event has (S82)."""

ON_THE_WAY = 30 * SECOND
"""How long after it was signed an attempt may arrive: a sender waits 10 s (S88), and may be slow to begin."""

APART = 5 * SECOND
"""How far the clock of what signs may be from the clock of what answers calls."""


@dataclass
class AttemptJudge(WebhookJudge):
    """Judges every attempt that arrived, each event, and what the deployment lists of them.

    What came to a path that no endpoint is known to have shows nothing: it may be anybody's.
    """

    tally: Tally = field(default_factory=lambda: Tally(RULES))
    job_names: set[str] = field(default_factory=set)
    """The names of the jobs that the API showed."""
    owners: dict[tuple[str, str], str] = field(default_factory=dict)
    """The account that created a job, by its environment and its id, unless that is a number, which may name
    a job of each."""
    tests: Mapping[str, Observation] = field(init=False)
    """The calls that asked for a test, by its event."""

    def wants(self, like: Observation) -> bool:
        """What shows endpoints, attempts or jobs."""
        return shows_jobs(like) or WebhookLog.wants(like)

    def see(self, seen: Observation) -> None:
        """Log an exchange, and the jobs that it shows."""
        for job in jobs_in(seen):
            self.job_names.add(job_name(job))
            if seen.operation == "jobs.create" and not job["id"].isdecimal():
                self.owners[seen.environment, job["id"]] = seen.account
        super().see(seen)

    def conclude(self) -> None:
        """Judge what came, and what is listed and shown of it."""
        arrivals, endpoints, self.tests = self.log.arrived, self.ledger.endpoints, tests_of(self.log.calls)
        came = [arrived for arrived in arrivals if arrived.endpoint in endpoints]
        events = attempts_by_event(arrivals)
        for arrived in came:
            first = events[arrived.event][0] if arrived.event else arrived
            test = arrived.event in self.tests
            kind = "test" if test else "retry" if arrived.attempt > 1 else "first attempt"
            self._judge_attempt(arrived, kind)
            self._judge_age(arrived, first, kind)
            self._judge_target(arrived)
        self._note_unsent(came)
        judge_listed(came, self.ledger, self.tally)
        for attempts in events.values():
            self._judge_event(attempts)
        self._judge_jobs(came)
        self._judge_accounts(arrivals)
        for endpoint in endpoints.values():
            judge_reason(endpoint, self.run.exclusive, self.tally)
        judge_shown_secrets(self.log.calls, endpoints, self.tally)

    def _check(self, rule: str, holds: bool, says: str, arrived: ReceivedAttempt, case: str | None) -> None:
        self.tally.check(rule, holds, attempt_evidence(says, arrived), case=case)

    # One attempt

    def _judge_attempt(self, arrived: ReceivedAttempt, kind: str) -> None:
        signature = arrived.headers.get("service-signature", "")
        apart = None if arrived.t is None else abs(arrived.t * SECOND - arrived.received)
        tolerated = self.options.facts.signature_tolerance - ON_THE_WAY
        if arrived.valid is None:
            self.tally.open(SIGNATURE, "the receiver did not know the endpoint's secret")
        elif not arrived.valid and apart is not None and apart > tolerated:
            self.tally.open(SIGNATURE, "the receiver may have refused it for its age alone")  # S86
        else:
            signed = arrived.valid and SIGNED.match(signature) is not None
            says = f"signature {signature[:24]!r}… does not verify over the raw body"
            says += f": {arrived.problem}" if arrived.problem else ""
            self._check(SIGNATURE, signed, says, arrived, kind)
        content = arrived.headers.get("content-type", "").partition(";")[0].strip().lower()
        present = {
            "Content-Type: application/json": content == "application/json",
            "Service-Signature": bool(signature),
            "Service-Event-Id": bool(arrived.event),
            "Service-Event-Type": bool(arrived.type),
            "Service-Delivery-Attempt": arrived.attempt >= 1,
        }
        lacking = [name for name, there in present.items() if not there]
        says = f"an attempt came without {', '.join(lacking)}"
        self._check(HEADERS, not lacking, says, arrived, kind)
        self._judge_body(arrived)

    def _judge_body(self, arrived: ReceivedAttempt) -> None:
        """A body says what its headers say; of a test's payload no more is shown (S82, U72)."""
        wrong = _wrong_fields(arrived)
        if wrong:  # the case is "" of an attempt without a type
            says = f"a body came with wrong or missing {', '.join(sorted(wrong))}"
            self.tally.broke(BODY, attempt_evidence(says, arrived), case=arrived.type)
            return
        self.tally.held(BODY, case=arrived.type, by=(arrived.name,))
        if arrived.type in JOB_EVENT_TYPES:
            job = job_of(arrived)
            failed, reason = arrived.type == "job.failed", job["error_detail"]
            fits = bool(reason) == failed and (job["status"] == "done") != failed
            says = f"{arrived.type} tells of a job {job['status']!r} with error_detail {reason!r}"
            self._check(OUTCOME, fits, says, arrived, arrived.type)

    def _judge_age(self, arrived: ReceivedAttempt, first: ReceivedAttempt, kind: str) -> None:
        """t is the time at which the attempt was made, or the event's first one (S78, S86, U68).

        Necessary: an attempt is signed before it arrives, not long before, and t is of the deployment's
        clock, which may run at another pace than the trace's. Which of the two clocks signs is not stated;
        what business time was is known only where a note says.
        """
        run, tally = self.run, self.tally
        if arrived.t is None:
            return
        if not run.offset.bounded or run.rate == 0:
            tally.open(FRESH, "the deployment's clock is not known, or changed its pace")
            return
        signed = arrived.t * SECOND
        if _may_sign(signed, _clocks(arrived.received, run)):
            tally.held(FRESH, case=kind, by=(arrived.name,))
            return
        if run.rate != 1 and any(pace.business is None for pace in run.paces):
            tally.open(FRESH, "the deployment's business time is not known")
            return
        apart = format_millis(abs(arrived.received - signed) // SECOND * SECOND)
        evidence = attempt_evidence(f"attempt {arrived.attempt} was signed {apart} off its arrival", arrived)
        late = _clocks(arrived.received, run, self.options.facts.signature_tolerance // max(1, run.rate))
        own = arrived.attempt == 1 or arrived.t != first.t
        if own and _may_sign(signed, late):
            tally.open(FRESH, "it was signed a while before it came, as where many wait to be sent")
            return
        of_first = arrived.attempt > 1 and _may_be_of_first(signed, first, run)
        pinned = not of_first or not self.options.may_be("signature_time", "first")
        self.tally.breaks_or_differs(68, "attempt", "first", evidence, FRESH, kind, pinned=pinned)

    def _judge_target(self, arrived: ReceivedAttempt) -> None:
        """An arrival needs some setting of its endpoint that takes its type and its domain.

        A type that is not of today's may be a test's, whose name is assumed (U72).
        """
        endpoint = self.ledger.endpoints[arrived.endpoint]
        test = arrived.event in self.tests or arrived.type == TEST_EVENT
        # the event of a retry may be from before the trace, and so from before another setting
        if test or not self.run.exclusive or (arrived.attempt > 1 and endpoint.created is None):
            return
        takes = endpoint.may_take(arrived.type)
        if takes is not None:
            says = f"endpoint {arrived.endpoint} does not list {arrived.type}, and got it"
            if takes or arrived.type in EVENT_TYPES:
                self._check(TYPES, takes, says, arrived, None if takes else f"{arrived.type} not listed")
            else:
                self.tally.open(TYPES, "an unknown type came, which may be a test's")
        domain = job_of(arrived).get("domain_id")
        reaches = endpoint.may_reach(domain) if isinstance(domain, str) else None
        if reaches is not None:
            says = f"endpoint {arrived.endpoint} is bound to another domain than {domain}"
            self._check(SCOPE, reaches, says, arrived, None if reaches else "another domain's")

    def _note_unsent(self, came: Sequence[ReceivedAttempt]) -> None:
        """Note the events that an endpoint would have got if its types, domain or account had not counted."""
        if not self.run.exclusive:
            return
        endpoints = self.ledger.endpoints
        received = dict[tuple[Owner, str, str | None], ReceivedAttempt]()
        for arrived in came:
            if arrived.type in EVENT_TYPES and arrived.event not in self.tests:
                domain = job_of(arrived).get("domain_id")
                owner = endpoints[arrived.endpoint].owner
                received[owner, arrived.type, domain if isinstance(domain, str) else None] = arrived
        for endpoint in endpoints.values():
            if endpoint.created is None or not self.ledger.steady(endpoint):
                continue
            for (owner, event_type, domain), arrived in received.items():
                barrier = _only_barrier(endpoint, owner, event_type, domain)
                if barrier is not None and arrived.received > endpoint.created.received:
                    self.tally.covers(*barrier, (endpoint.created.id, arrived.name))

    # Several

    def _judge_event(self, attempts: Sequence[ReceivedAttempt]) -> None:
        """All attempts under one event id are of one thing; a body that changes between them excludes U68."""
        first = attempts[0]
        for other in attempts[1:]:
            case = "retries" if other.endpoint == first.endpoint else "two endpoints"
            if (other.type, job_of(other).get("id")) != (first.type, job_of(first).get("id")):
                says = f"event {first.event} came as {first.type} and again as {other.type} of another thing"
                self.tally.broke(EVENT, attempt_evidence(says, other), case=case)
                continue
            self.tally.held(EVENT, case=case, by=(first.name, other.name))
            if other.digest != first.digest and other.endpoint == first.endpoint:
                evidence = attempt_evidence("the body of a retry differs", other)
                self.tally.differs(68, "body byte-identical", "body changes", evidence)

    def _judge_jobs(self, came: Sequence[ReceivedAttempt]) -> None:
        """A job ends once, so an endpoint gets its end under one event id (E9).

        Only a job that the API shows counts: a test may name an invented one (U72).
        """
        firsts: dict[tuple[str, str], ReceivedAttempt] = {}
        for arrived in came:
            job = job_name(job_of(arrived))
            if (
                arrived.type not in JOB_EVENT_TYPES
                or job not in self.job_names
                or arrived.event in self.tests
            ):
                continue
            first = firsts.setdefault((arrived.endpoint, job), arrived)
            same = first.event == arrived.event
            says = f"job {job} ended once and came as events {first.event} and {arrived.event}"
            evidence = attempt_evidence(says, first, arrived)
            self.tally.check(EVENT, same, evidence, case=None if first is arrived else "retries")

    def _judge_accounts(self, arrivals: Sequence[ReceivedAttempt]) -> None:
        """A job that one account's key created is no business of another account's endpoint.

        Accounts count where the header names them; without names two keys may share one.
        """
        named = {key.account for key in self.run.header.keys.values() if key.account}
        for arrived in arrivals:
            endpoint = self.ledger.endpoints.get(arrived.endpoint)
            if endpoint is None:
                continue
            environment, account = endpoint.owner
            owner = self.owners.get((environment, str(job_of(arrived).get("id"))))
            if owner is not None and named.issuperset((account, owner)):
                says = f"endpoint {arrived.endpoint} of {account} got an event about a job of {owner}"
                own = account == owner
                self._check(SCOPE, own, says, arrived, None if own else "another account's")


def _wrong_fields(arrived: ReceivedAttempt) -> set[str]:
    """Return which fields of a body are missing or misshapen, or contradict a header."""
    body = arrived.body if isinstance(arrived.body, dict) else {}
    headers = {"id": arrived.event, "type": arrived.type}
    wrong = {name for name, header in headers.items() if body.get(name, header) != header}
    if arrived.type in EVENT_TYPES:
        wrong |= {name for name in ("id", "type", "created_at") if not isinstance(body.get(name), str)}
    elif not isinstance(arrived.body, dict):
        wrong.add("JSON object")
    if arrived.type in JOB_EVENT_TYPES:
        wrong |= {f"data.job.{name}" for name in JOB_FIELDS - job_of(arrived).keys()}
    return wrong


def _may_sign(t: Micros, spans: Sequence[tuple[Micros, Micros]]) -> bool:
    return any(low <= t <= high for low, high in spans)


def _may_be_of_first(t: Micros, first: ReceivedAttempt, run: ObservedRun) -> bool:
    """Return whether t may be of an event's first attempt (U68); where that was lost, of any one before."""
    spans = _clocks(first.received, run)
    return _may_sign(t, spans) or (first.attempt > 1 and any(t <= high for _, high in spans))


def _clocks(came: Micros, run: ObservedRun, way: Micros = ON_THE_WAY) -> list[tuple[Micros, Micros]]:
    """Return what t may be of an attempt that came at an instant: by the clock of calls, and of business.

    `way` is how long it may have been under way since it was signed.
    """
    low, high = run.offset.low - SECOND - APART, run.offset.high + APART
    spans = [(came - way + low, came + high)]
    for pace in run.paces:
        if pace.business is not None:
            then = pace.business + (came - pace.t) * pace.rate
            spans.append((then - way * pace.rate + min(0, low), then + max(0, high)))
    return spans


def _only_barrier(
    endpoint: ObservedEndpoint, owner: Owner, event_type: str, domain: str | None
) -> tuple[str, str] | None:
    """Return the rule and the case that alone keep an event from an endpoint; None for none or several."""
    takes = endpoint.may_take(event_type)
    if owner != endpoint.owner:
        of_all_domains = "" in {setting.domain for setting in endpoint.settings}
        return (SCOPE, "another account's") if takes and of_all_domains else None
    reaches = None if domain is None else endpoint.may_reach(domain)
    if reaches and takes is False:
        return TYPES, f"{event_type} not listed"
    return (SCOPE, "another domain's") if reaches is False and takes else None
