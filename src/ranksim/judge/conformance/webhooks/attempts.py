"""Judge webhook attempts one by one, and what they say together (S18-S20, S40, S41, S74-S86).

The receiver is ours: what it got and answered is known. What never came may be lost, so that an absence alone
proves nothing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ranksim.core.clock import DISTANT_FUTURE, SECOND, Micros, format_millis
from ranksim.core.contract.facts import EVENT_TYPES, JOB_EVENT_TYPES
from ranksim.core.contract.views import TEST_EVENT, EventJobView
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Observation, ReceivedAttempt, job_name
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import ANY, Breach, Cause, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally
from ranksim.judge.conformance.webhooks.completeness import job_of, jobs_in, shows_jobs, tests_of
from ranksim.judge.conformance.webhooks.endpoints import (
    ENDPOINT_FIELDS,
    EndpointHistory,
    Listing,
    ObservedEndpoint,
    Owner,
    WebhookLog,
    secret_of,
)

SIGNATURE = "webhook.signature"
FRESH = "webhook.fresh"
HEADERS = "webhook.headers"
BODY = "webhook.body"
OUTCOME = "webhook.outcome"
EVENT = "webhook.event"
TYPES = "webhook.types"
SCOPE = "webhook.scope"
LISTED = "webhook.listed"
SECRET = "webhook.secret_once"
REASON = "webhook.disabled_reason"

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
        attempt=("Service-Signature",),
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
        attempt=("id", "type", "created_at", "data"),
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
    Rule(
        LISTED,
        "webhook-deliveries tells each attempt's status as answered",
        (40,),
        (75,),
        ways=(Breach(40, "a {} is listed as another status", "{}", ("2xx", "3xx", "4xx", "5xx")),),
        needs=(Requirement.DELIVERY_LIST,),
    ),
    Rule(
        SECRET,
        "A signing secret is told at creation only",
        (21,),
        (73,),
        ways=(
            Breach(21, "the secret is shown when the endpoint is read", "webhooks.get"),
            Breach(21, "the secret is shown in the list", "webhooks.list"),
            Breach(21, "the secret is shown after a PATCH", "webhooks.update"),
        ),
    ),
    Rule(
        REASON,
        "A disabled endpoint shows the reason",
        (22,),
        (73,),
        exercise="webhooks-long",
        ways=(Breach(22, "a disabled endpoint shows no reason"),),
        needs=(Requirement.ENDPOINT_LIST,),
    ),
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
class AttemptJudge:
    """Judges every attempt that arrived, each event, and what the deployment lists of them.

    What came to a path that no endpoint is known to have shows nothing: it may be anybody's.
    """

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    log: WebhookLog = field(default_factory=WebhookLog)
    job_names: set[str] = field(default_factory=set)
    """The names of the jobs that the API showed."""
    owners: dict[tuple[str, str], str] = field(default_factory=dict)
    """The account that created a job, by its environment and its id, unless that is a number, which may name
    a job of each."""

    def wants(self, like: Observation) -> bool:
        """What shows endpoints, attempts or jobs."""
        return shows_jobs(like) or WebhookLog.wants(like)

    def see(self, seen: Observation) -> None:
        """Log an exchange, and the jobs that it shows."""
        for job in jobs_in(seen):
            self.job_names.add(job_name(job))
            if seen.operation == "jobs.create" and not job["id"].isdecimal():
                self.owners[seen.environment, job["id"]] = seen.account
        self.log.add(seen)

    def see_attempt(self, attempt: ReceivedAttempt) -> None:
        """Log an attempt that arrived."""
        self.log.arrived.append(attempt)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """At the end, judge what came: which endpoints there were, and what is listed, may be shown late."""
        if watermark < DISTANT_FUTURE:
            return
        options, tally, arrivals = self.options, self.tally, self.log.arrived
        ledger = EndpointHistory.of(self.log, run, options)
        tests = tests_of(self.log.calls)
        came = [arrived for arrived in arrivals if arrived.endpoint in ledger.endpoints]
        events: dict[str, list[ReceivedAttempt]] = defaultdict(list)
        for arrived in arrivals:
            if arrived.event:
                events[arrived.event].append(arrived)
        for arrived in came:
            first = events[arrived.event][0] if arrived.event else arrived
            test = arrived.event in tests
            kind = "test" if test else "retry" if arrived.attempt > 1 else "first attempt"
            _judge_attempt(arrived, kind, options, tally)
            _judge_age(arrived, first, kind, run, options, tally)
            _judge_target(arrived, ledger, tests, tally)
        _note_unsent(came, ledger, tests, tally)
        _judge_listed(came, ledger.listed, options, tally)
        for attempts in events.values():
            _judge_event(attempts, tally)
        _judge_jobs(self.job_names, came, tests, tally)
        _judge_accounts(self.owners, arrivals, ledger.endpoints, run, tally)
        for endpoint in ledger.endpoints.values():
            _judge_reason(endpoint, run.exclusive, tally)
        _judge_shown_secrets(self.log.calls, ledger.endpoints, tally)


# One attempt


def _judge_attempt(arrived: ReceivedAttempt, kind: str, options: Options, tally: Tally) -> None:
    signature = arrived.headers.get("service-signature", "")
    if arrived.valid and SIGNED.match(signature):
        tally.held(SIGNATURE, case=kind, by=(arrived.name,))
    elif arrived.valid is None:
        tally.open(SIGNATURE, "the receiver did not know the endpoint's secret")
    elif not arrived.valid and _looks_old(arrived, options):
        tally.open(SIGNATURE, "the receiver may have refused it for its age alone")
    else:
        says = f"signature {signature[:24]!r}… does not verify over the raw body"
        tally.broke(SIGNATURE, _evidence(says, arrived), case=kind)
    content = arrived.headers.get("content-type", "").partition(";")[0].strip().lower()
    lacking = [
        name
        for name, there in (
            ("Content-Type: application/json", content == "application/json"),
            ("Service-Signature", bool(signature)),
            ("Service-Event-Id", bool(arrived.event)),
            ("Service-Event-Type", bool(arrived.type)),
            ("Service-Delivery-Attempt", arrived.attempt >= 1),
        )
        if not there
    ]
    if lacking:
        tally.broke(HEADERS, _evidence(f"an attempt came without {', '.join(lacking)}", arrived), case=kind)
    else:
        tally.held(HEADERS, case=kind, by=(arrived.name,))
    _judge_body(arrived, tally)


def _looks_old(arrived: ReceivedAttempt, options: Options) -> bool:
    """Whether a receiver that minds the age of a signature may have refused it for that (S86)."""
    tolerance = options.facts.signature_tolerance - ON_THE_WAY
    return arrived.t is not None and abs(arrived.t * SECOND - arrived.received) > tolerance


def _judge_body(arrived: ReceivedAttempt, tally: Tally) -> None:
    """A body says what its headers say; of a test's payload no more is shown (S82, U72)."""
    body = arrived.body if isinstance(arrived.body, dict) else {}
    data = body.get("data")
    wrong = [
        name
        for name, header in (("id", arrived.event), ("type", arrived.type))
        if body.get(name, header) != header
    ]
    if arrived.type in EVENT_TYPES:
        wrong += [name for name in ("id", "type", "created_at") if not isinstance(body.get(name), str)]
    elif not isinstance(arrived.body, dict):
        wrong.append("JSON object")
    if arrived.type in JOB_EVENT_TYPES:
        job = data.get("job") if isinstance(data, dict) else None
        wrong += [f"data.job.{name}" for name in JOB_FIELDS if not isinstance(job, dict) or name not in job]
    if wrong:
        says = f"a body came with wrong or missing {', '.join(sorted(set(wrong)))}"
        tally.broke(BODY, _evidence(says, arrived), case=arrived.type)
        return
    tally.held(BODY, case=arrived.type, by=(arrived.name,))
    if arrived.type in JOB_EVENT_TYPES:
        job_told = job_of(arrived)
        failed, reason = arrived.type == "job.failed", job_told["error_detail"]
        fits = bool(reason) == failed and (job_told["status"] == "done") != failed
        says = f"{arrived.type} tells of a job {job_told['status']!r} with error_detail {reason!r}"
        _tell(OUTCOME, fits, says, arrived, tally, arrived.type)


def _judge_age(
    arrived: ReceivedAttempt,
    first: ReceivedAttempt,
    kind: str,
    run: ObservedRun,
    options: Options,
    tally: Tally,
) -> None:
    """t is the time at which the attempt was made, or the event's first one (S78, S86, U68).

    Necessary: an attempt is signed before it arrives, not long before, and t is of the deployment's clock,
    which may run at another pace than the trace's. Which of the two clocks signs is not stated; what business
    time was is known only where a note says.
    """
    if arrived.t is None:
        return
    if not run.offset.known or run.rate == 0:
        tally.open(FRESH, "the deployment's clock is not known, or changed its pace")
        return
    signed = arrived.t * SECOND
    if _in_any(_clocks(arrived.received, run), signed):
        tally.held(FRESH, case=kind, by=(arrived.name,))
        return
    if run.rate != 1 and any(pace.business is None for pace in run.paces):
        tally.open(FRESH, "the deployment's business time is not known")
        return
    apart = format_millis(abs(arrived.received - signed) // SECOND * SECOND)
    says = f"attempt {arrived.attempt} was signed {apart} off its arrival"
    late = _clocks(arrived.received, run, options.facts.signature_tolerance // max(1, run.rate))
    own = arrived.attempt == 1 or arrived.t != first.t
    if own and _in_any(late, signed):
        tally.open(FRESH, "it was signed a while before it came, as where many wait to be sent")
        return
    of_first = arrived.attempt > 1 and _signed_at_first(signed, first, run)
    if of_first and "first" in options.candidates("signature_time"):
        tally.differs(68, "attempt", "first", _evidence(says, arrived))
    else:
        tally.broke(FRESH, _evidence(says, arrived), case=kind)


def _in_any(spans: Sequence[tuple[Micros, Micros]], instant: Micros) -> bool:
    return any(low <= instant <= high for low, high in spans)


def _signed_at_first(signed: Micros, first: ReceivedAttempt, run: ObservedRun) -> bool:
    """Return whether t may be of an event's first attempt (U68); where that was lost, of any one before."""
    spans = _clocks(first.received, run)
    return _in_any(spans, signed) or (first.attempt > 1 and any(signed <= high for _, high in spans))


def _clocks(came: Micros, run: ObservedRun, way: Micros = ON_THE_WAY) -> list[tuple[Micros, Micros]]:
    """Return what t may be of an attempt that came at an instant: by the clock of calls, and of business.

    `way` is how long it may have been under way since it was signed.
    """
    low, high = run.offset.low - SECOND - APART, run.offset.high + APART
    spans = [(came - way + low, came + high)]
    for pace in run.paces:
        if pace.business is None:
            continue
        then = pace.business + (came - pace.t) * pace.rate
        spans.append((then - way * pace.rate + min(0, low), then + max(0, high)))
    return spans


def _judge_target(
    arrived: ReceivedAttempt, ledger: EndpointHistory, tests: Mapping[str, Observation], tally: Tally
) -> None:
    """An arrival needs some setting of its endpoint that takes its type and its domain.

    A type that is not of today's may be a test's, whose name is assumed (U72).
    """
    endpoint = ledger.endpoints[arrived.endpoint]
    takes = endpoint.may_take(arrived.type)
    test = arrived.event in tests or arrived.type == TEST_EVENT
    if arrived.attempt > 1 and endpoint.created is None:
        return  # its event is from before the trace, perhaps, and so from before another setting
    if takes is not None and not test and ledger.exclusive:
        says = f"endpoint {arrived.endpoint} does not list {arrived.type}, and got it"
        if takes or arrived.type in EVENT_TYPES:
            _tell(TYPES, takes, says, arrived, tally, None if takes else f"{arrived.type} not listed")
        else:
            tally.open(TYPES, "an unknown type came, which may be a test's")
    domain = job_of(arrived).get("domain_id")
    reaches = endpoint.may_reach(domain) if isinstance(domain, str) and not test else None
    if reaches is not None and ledger.exclusive:
        says = f"endpoint {arrived.endpoint} is bound to another domain than {domain}"
        _tell(SCOPE, reaches, says, arrived, tally, None if reaches else "another domain's")


def _note_unsent(
    came: Sequence[ReceivedAttempt], ledger: EndpointHistory, tests: Mapping[str, Observation], tally: Tally
) -> None:
    """Note the events that an endpoint would have got if its types, domain or account had not counted."""
    if not ledger.exclusive:
        return
    received = dict[tuple[Owner, str, str | None], ReceivedAttempt]()
    for arrived in came:
        if arrived.type in EVENT_TYPES and arrived.event not in tests:
            domain = job_of(arrived).get("domain_id")
            owner = ledger.endpoints[arrived.endpoint].owner
            received[owner, arrived.type, domain if isinstance(domain, str) else None] = arrived
    for endpoint in ledger.endpoints.values():
        if endpoint.created is None or not ledger.steady(endpoint):
            continue
        for (owner, event_type, domain), arrived in received.items():
            barrier = _only_barrier(endpoint, owner, event_type, domain)
            if barrier is not None and arrived.received > endpoint.created.received:
                tally.covers(*barrier, (endpoint.created.id, arrived.name))


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


def _judge_listed(came: Sequence[ReceivedAttempt], listed: Listing, options: Options, tally: Tally) -> None:
    """What was answered well within the time limit is listed with that status.

    An answer near the limit may have come too late (S88), so only one that took less than half of it counts;
    so does only an attempt that came once, as a sender may make one again (S93).
    """
    times = Counter(arrived.key for arrived in came)
    for arrived in came:
        attempt = listed.attempts.get(arrived.key)
        if attempt is None or arrived.answered is None or arrived.status is None or times[arrived.key] > 1:
            continue
        if arrived.answered - arrived.received > options.facts.webhook_timeout // 2:
            tally.open(LISTED, "the answer took long, so that the sender may have given up")
        elif attempt.status is None:
            tally.open(LISTED, "the sender lists no answer: it was on its way, or was lost")
        elif attempt.status == arrived.status:
            tally.held(LISTED, case=f"{arrived.status // 100}xx", by=(attempt.seen.id, arrived.name))
        else:
            says = (
                f"attempt {arrived.attempt} was answered {arrived.status} and is listed as {attempt.status}"
            )
            evidence = Evidence(says, (attempt.seen.id,), (arrived.name,), arrived.endpoint, arrived.received)
            tally.broke(LISTED, evidence, case=f"{arrived.status // 100}xx")


# Several


def _judge_event(attempts: Sequence[ReceivedAttempt], tally: Tally) -> None:
    """All attempts under one event id are of one thing; a body that changes between them excludes U68."""
    first = attempts[0]
    for other in attempts[1:]:
        case = "retries" if other.endpoint == first.endpoint else "two endpoints"
        if (other.type, job_of(other).get("id")) != (first.type, job_of(first).get("id")):
            says = f"event {first.event} came as {first.type} and again as {other.type} of another thing"
            tally.broke(EVENT, _evidence(says, other), case=case)
            continue
        tally.held(EVENT, case=case, by=(first.name, other.name))
        if other.digest != first.digest and other.endpoint == first.endpoint:
            evidence = _evidence("the body of a retry differs", other)
            tally.differs(68, "body byte-identical", "body changes", evidence)


def _judge_jobs(
    real: set[str], came: Sequence[ReceivedAttempt], tests: Mapping[str, Observation], tally: Tally
) -> None:
    """A job ends once, so an endpoint gets its end under one event id (E9).

    Only a job that the API shows counts: a test may name an invented one (U72).
    """
    firsts: dict[tuple[str, str], ReceivedAttempt] = {}
    for arrived in came:
        job = job_name(job_of(arrived))
        if arrived.type not in JOB_EVENT_TYPES or job not in real:
            continue
        if arrived.event in tests:
            continue
        first = firsts.setdefault((arrived.endpoint, job), arrived)
        if first.event == arrived.event:
            tally.held(EVENT, case=None if first is arrived else "retries", by=(first.name, arrived.name))
        else:
            says = f"job {job} ended once and came as events {first.event} and {arrived.event}"
            pair = (first.name, arrived.name)
            evidence = Evidence(says, (), pair, arrived.endpoint, arrived.received)
            tally.broke(EVENT, evidence, case="retries")


def _judge_accounts(
    owners: Mapping[tuple[str, str], str],
    arrivals: Sequence[ReceivedAttempt],
    endpoints: dict[str, ObservedEndpoint],
    run: ObservedRun,
    tally: Tally,
) -> None:
    """A job that one account's key created is no business of another account's endpoint."""
    for arrived in arrivals:
        endpoint = endpoints.get(arrived.endpoint)
        if endpoint is None:
            continue
        environment, account = endpoint.owner
        owner = owners.get((environment, str(job_of(arrived).get("id"))))
        if owner is not None and _named(run, account, owner):
            says = f"endpoint {arrived.endpoint} of {account} got an event about a job of {owner}"
            own = account == owner
            _tell(SCOPE, own, says, arrived, tally, None if own else "another account's")


def _named(run: ObservedRun, *accounts: str) -> bool:
    """Whether the header names these accounts; without names two keys may share one."""
    named = {key.account for key in run.header.keys.values() if key.account}
    return named.issuperset(accounts)


# Of endpoints


def _judge_shown_secrets(
    calls: Sequence[Observation], endpoints: Mapping[str, ObservedEndpoint], tally: Tally
) -> None:
    """No reading shows the secret that the creation showed (S21); another text may be a masked one."""
    for seen in calls:
        if seen.operation not in ("webhooks.get", "webhooks.list", "webhooks.update"):
            continue
        for thing in ([seen.data] if isinstance(seen.data, dict) else seen.items or ()) if seen.ok else ():
            secret = secret_of(thing) if isinstance(thing, dict) else None
            endpoint = endpoints.get(str(thing.get("id"))) if isinstance(thing, dict) else None
            if not secret:
                tally.held(SECRET, case=seen.operation, by=(seen.id,))
            elif endpoint is None or endpoint.secret != secret or endpoint.created is None:
                tally.open(SECRET, "a secret is shown that may be masked")
            else:
                says = f"{seen.id} shows the secret of {endpoint.id} again"
                evidence = Evidence(says, (endpoint.created.id, seen.id), (), endpoint.id, seen.sent)
                tally.broke(SECRET, evidence, case=seen.operation)


def _judge_reason(endpoint: ObservedEndpoint, exclusive: bool, tally: Tally) -> None:
    """An endpoint that was disabled by its failures shows why; where, is assumed (S22, U73).

    An endpoint that a call may have disabled breaks nothing, with a reason or without.
    """
    for setting in endpoint.settings:
        if setting.enabled is not False:
            continue
        by_failures = (
            exclusive
            and endpoint.settings[0].enabled is True
            and setting.seen.received <= endpoint.untouched_until
        )
        says = f"{setting.seen.id} shows endpoint {endpoint.id} disabled, without a reason"
        evidence = Evidence(says, (setting.seen.id,), (), endpoint.id, setting.seen.sent)
        if setting.reason:
            tally.held(REASON, case=ANY if by_failures else None, by=(setting.seen.id,))
        elif setting.reason is None:
            tally.differs(73, "disabled_reason", "no such field", evidence)
        elif by_failures:
            tally.broke(REASON, evidence)


# Small readings


def _evidence(says: str, arrived: ReceivedAttempt) -> Evidence:
    return Evidence(says, (), (arrived.name,), arrived.endpoint, arrived.received)


def _tell(
    rule: str, holds: bool, says: str, arrived: ReceivedAttempt, tally: Tally, case: str | None
) -> None:
    tally.check(rule, holds, _evidence(says, arrived), case=case)
