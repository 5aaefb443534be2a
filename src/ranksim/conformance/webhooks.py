"""Judge webhook attempts one by one, and what they say together (S18-S20, S40, S41, S74-S86).

The receiver is ours: what it got and answered is known. What never came may be lost, so that an absence alone
proves nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from ranksim.clock import SECOND
from ranksim.conformance.endpoints import Endpoint, Listing, endpoints, listing
from ranksim.conformance.history import Arrived, History, Json
from ranksim.conformance.options import Options
from ranksim.conformance.verdicts import Evidence, Rule, Tally
from ranksim.contract.facts import EVENT_TYPES
from ranksim.rules.webhooks import TEST_EVENT

SIGNATURE = "webhook.signature"
FRESH = "webhook.fresh"
HEADERS = "webhook.headers"
BODY = "webhook.body"
OUTCOME = "webhook.outcome"
EVENT = "webhook.event"
TYPES = "webhook.types"
SCOPE = "webhook.scope"
LISTED = "webhook.listed"
TEST = "webhook.test"
REASON = "webhook.disabled_reason"

RULES = (
    Rule(SIGNATURE, "Every attempt is signed over t and the raw body", (74, 78, 84, 85), (), "webhooks"),
    Rule(FRESH, "The signature's t is the time of the attempt", (78, 86), (68, 77), "webhooks-long"),
    Rule(
        HEADERS,
        "An attempt carries its event's id and type, and its number",
        (77, 79, 80, 81),
        (),
        "webhooks",
    ),
    Rule(BODY, "A body has id, type, created_at and the job's six fields", (82, 83), (), "webhooks"),
    Rule(OUTCOME, "job.completed tells of a job done, job.failed of an error", (75, 76), (39,), "webhooks"),
    Rule(EVENT, "The end of a job is one event, with one id on all attempts", (79, 93), (68, 74), "webhooks"),
    Rule(TYPES, "An endpoint gets the types that it lists, or all of them", (18, 19), (72,), "webhooks"),
    Rule(SCOPE, "An endpoint gets events of its account, and of its domain if bound", (20,), (), "webhooks"),
    Rule(LISTED, "webhook-deliveries tells each attempt's status as answered", (40,), (75,), "webhooks"),
    Rule(TEST, "A test event arrives as any other", (41,), (72,), "webhooks"),
    Rule(REASON, "A disabled endpoint shows the reason", (22,), (73,), "webhooks-long"),
)

SIGNED = re.compile(r"t=[0-9]+,v1=[0-9a-f]{64}")
JOB_FIELDS = frozenset({"id", "kind", "status", "domain_id", "error_detail", "finished_at"})

SLACK = 10 * SECOND
"""How long an attempt may be on its way after it was signed: as long as a sender waits (S88)."""


def judge(history: History, options: Options, tally: Tally) -> None:
    """Judge every attempt that arrived, each event, and what the deployment lists of them."""
    known, listed = endpoints(history), listing(history)
    events: dict[str, list[Arrived]] = defaultdict(list)
    for arrived in history.arrived:
        _judge_attempt(arrived, tally)
        _judge_age(arrived, history, options, tally)
        _judge_target(arrived, known.get(arrived.endpoint), tally)
        _judge_listed(arrived, listed, options, tally)
        if arrived.event:
            events[arrived.event].append(arrived)
    for attempts in events.values():
        _judge_event(attempts, tally)
    _judge_jobs(history, tally)
    _judge_accounts(history, known, tally)
    _judge_tests(history, known, events, tally)
    for endpoint in known.values():
        _judge_reason(endpoint, tally)


# One attempt


def _judge_attempt(arrived: Arrived, tally: Tally) -> None:
    signature = arrived.headers.get("service-signature", "")
    if arrived.valid is None:
        tally.open(SIGNATURE, "the receiver did not know the endpoint's secret")
    else:
        says = f"signature {signature[:24]!r}… does not verify over the raw body"
        _tell(SIGNATURE, arrived.valid and SIGNED.fullmatch(signature) is not None, says, arrived, tally)
    kind = arrived.headers.get("content-type", "").partition(";")[0].strip()
    lacking = [
        name
        for name, there in (
            ("Content-Type: application/json", kind == "application/json"),
            ("Service-Signature", bool(signature)),
            ("Service-Event-Id", bool(arrived.event)),
            ("Service-Event-Type", bool(arrived.type)),
            ("Service-Delivery-Attempt", arrived.attempt >= 1),
        )
        if not there
    ]
    _tell(HEADERS, not lacking, f"an attempt came without {', '.join(lacking)}", arrived, tally)
    _judge_body(arrived, tally)


def _judge_body(arrived: Arrived, tally: Tally) -> None:
    body = arrived.body if isinstance(arrived.body, dict) else {}
    data = body.get("data")
    wrong = [
        name
        for name, fits in (
            ("id", body.get("id") == arrived.event),
            ("type", body.get("type") == arrived.type),
            ("created_at", isinstance(body.get("created_at"), str)),
            ("data", isinstance(data, dict)),
        )
        if not fits
    ]
    job = data.get("job") if isinstance(data, dict) else None
    if arrived.type in EVENT_TYPES:
        wrong += [f"data.job.{name}" for name in JOB_FIELDS if not isinstance(job, dict) or name not in job]
    _tell(BODY, not wrong, f"a body came with wrong or missing {', '.join(sorted(wrong))}", arrived, tally)
    if arrived.type in EVENT_TYPES and isinstance(job, dict) and "error_detail" in job:
        failed = arrived.type == "job.failed"
        says = (
            f"{arrived.type} tells of a job {job.get('status')!r} with error_detail {job['error_detail']!r}"
        )
        fits = isinstance(job["error_detail"], str) == failed and (job.get("status") == "done") != failed
        _tell(OUTCOME, fits, says, arrived, tally)


def _judge_age(arrived: Arrived, history: History, options: Options, tally: Tally) -> None:
    """t is not in the future, nor older than the tolerance plus the time on the way (S86, U68, U77).

    Necessary: the attempt was signed before it arrived; the deployment's clock stands in `history.offset`.
    """
    if arrived.t is None:
        return
    if not history.offset.known or history.rate != 1:
        tally.open(FRESH, "the deployment's clock is not known, or runs at another pace")
        return
    signed = arrived.t * SECOND
    latest = arrived.received + history.offset.high
    oldest = arrived.received + history.offset.low - options.facts.signature_tolerance - SLACK - SECOND
    says = f"attempt {arrived.attempt} was signed {abs(latest - signed) // SECOND} s away from its arrival"
    if oldest <= signed <= latest:
        tally.held(FRESH)
    elif signed < oldest and arrived.attempt > 1 and "first" in options.candidates("signature_time"):
        tally.differs(68, "attempt", "first", _evidence(says, arrived))
    else:
        tally.broke(FRESH, _evidence(says, arrived))


def _judge_target(arrived: Arrived, endpoint: Endpoint | None, tally: Tally) -> None:
    """An arrival needs some setting of its endpoint that takes its type and its domain."""
    if endpoint is None:
        return
    takes = endpoint.may_take(arrived.type)
    if arrived.type != TEST_EVENT and takes is not None:
        says = f"endpoint {arrived.endpoint} does not list {arrived.type}, and got it"
        _tell(TYPES, takes, says, arrived, tally)
    domain = _job(arrived).get("domain_id")
    reaches = endpoint.may_reach(domain) if isinstance(domain, str) else None
    if reaches is not None:
        says = f"endpoint {arrived.endpoint} is bound to another domain than {domain}"
        _tell(SCOPE, reaches, says, arrived, tally)


def _judge_listed(arrived: Arrived, listed: Listing, options: Options, tally: Tally) -> None:
    """What was answered well within the time limit is listed with that status.

    An answer near the limit may have come too late (S88), so only one that took less than half of it counts.
    """
    told = listed.attempts.get((arrived.endpoint, arrived.event, arrived.attempt))
    if told is None or arrived.answered is None or arrived.status is None:
        return
    if arrived.answered - arrived.received > options.facts.webhook_timeout // 2:
        tally.open(LISTED, "the answer took long, so that the sender may have given up")
    elif told.status is None:
        tally.open(LISTED, "the sender lists no answer: it was on its way, or was lost")
    else:
        says = f"attempt {arrived.attempt} was answered {arrived.status} and is listed as {told.status}"
        found = Evidence(says, (told.seen.id,), (_name(arrived),), arrived.endpoint, arrived.received)
        tally.check(LISTED, told.status == arrived.status, found)


# Several


def _judge_event(attempts: Sequence[Arrived], tally: Tally) -> None:
    """All attempts under one event id tell of one thing; a body that changes between them excludes U68."""
    first = attempts[0]
    for other in attempts[1:]:
        same = (other.type, _job(other).get("id")) == (first.type, _job(first).get("id"))
        says = f"event {first.event} came as {first.type} and again as {other.type} of another thing"
        _tell(EVENT, same, says, other, tally)
        if same and other.digest != first.digest and other.endpoint == first.endpoint:
            tally.differs(
                68, "body byte-identical", "body changes", _evidence("the body of a retry differs", other)
            )


def _judge_jobs(history: History, tally: Tally) -> None:
    """A job ends once, so an endpoint is told of it under one event id (E9)."""
    told: dict[tuple[str, str], Arrived] = {}
    for arrived in history.arrived:
        job = _job(arrived).get("id")
        if arrived.type not in EVENT_TYPES or not isinstance(job, str):
            continue
        first = told.setdefault((arrived.endpoint, job), arrived)
        if first.event == arrived.event:
            tally.held(EVENT)
        else:
            says = f"job {job} ended once and came as events {first.event} and {arrived.event}"
            pair = (_name(first), _name(arrived))
            tally.broke(EVENT, Evidence(says, (), pair, arrived.endpoint, arrived.received))


def _judge_accounts(history: History, known: dict[str, Endpoint], tally: Tally) -> None:
    """A job that one account's key created is no business of another account's endpoint."""
    owners = {
        seen.data["id"]: seen.account
        for seen in history.by_operation("jobs.create")
        if seen.ok and isinstance(seen.data, dict) and isinstance(seen.data.get("id"), str)
    }
    for arrived in history.arrived:
        endpoint, owner = known.get(arrived.endpoint), owners.get(str(_job(arrived).get("id")))
        if endpoint is not None and owner is not None and _named(history, endpoint.account, owner):
            says = f"endpoint {arrived.endpoint} of {endpoint.account} got an event about a job of {owner}"
            _tell(SCOPE, endpoint.account == owner, says, arrived, tally)


def _named(history: History, *accounts: str) -> bool:
    """Whether the header names these accounts; without names two keys may share one."""
    named = {key.account for key in history.header.keys.values() if key.account}
    return named.issuperset(accounts)


def _judge_tests(
    history: History, known: dict[str, Endpoint], events: dict[str, list[Arrived]], tally: Tally
) -> None:
    for seen in history.by_operation("webhooks.test"):
        event = seen.data.get("event_id") if seen.ok and isinstance(seen.data, dict) else None
        if not isinstance(event, str):
            continue
        came = events.get(event)
        if came is None:
            tally.open(TEST, "the test event did not arrive; it may be lost, or late")
            continue
        target = seen.parameters.get("id")
        says = f"the test of {target} came to {came[0].endpoint}"
        found = Evidence(says, (seen.id,), (_name(came[0]),), came[0].endpoint, came[0].received)
        tally.check(TEST, came[0].endpoint == target or came[0].endpoint not in known, found)


def _judge_reason(endpoint: Endpoint, tally: Tally) -> None:
    for setting in endpoint.settings:
        if setting.enabled is False:
            says = f"{setting.seen.id} shows endpoint {endpoint.id} disabled, without a reason"
            found = Evidence(says, (setting.seen.id,), (), endpoint.id, setting.seen.sent)
            if setting.reason is not None:
                tally.held(REASON)
            elif endpoint.untouched:
                tally.broke(REASON, found)


# Small readings


def _job(arrived: Arrived) -> dict[str, Json]:
    data = arrived.body.get("data") if isinstance(arrived.body, dict) else None
    job = data.get("job") if isinstance(data, dict) else None
    return job if isinstance(job, dict) else {}


def _name(arrived: Arrived) -> str:
    return f"{arrived.event}/{arrived.attempt}"


def _evidence(says: str, arrived: Arrived) -> Evidence:
    return Evidence(says, (), (_name(arrived),), arrived.endpoint, arrived.received)


def _tell(rule: str, holds: bool, says: str, arrived: Arrived, tally: Tally) -> None:
    tally.check(rule, holds, _evidence(says, arrived))
