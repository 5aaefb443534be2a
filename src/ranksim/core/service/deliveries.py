"""Webhooks: endpoints, events, deliveries and attempts (S18-S22, S39-S42, S75-S93).

An event makes one delivery for each endpoint that takes it. A delivery waits (`Endpoint.waiting`), is out
(`State.attempts_out`), and is forgotten once it succeeded, ran out of attempts or was cancelled.
"""

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from ranksim.core.clock import MILLISECOND, SECOND, Micros, iso
from ranksim.core.contract import views
from ranksim.core.contract.facts import EVENT_TYPES
from ranksim.core.contract.views import TEST_EVENT
from ranksim.core.draws import Purpose, below, bits, entity
from ranksim.core.rules.access import sees
from ranksim.core.rules.webhooks import JITTER, acknowledged, headers, matches, payload, retry_at
from ranksim.core.service.bodies import Expecting, Flag, Id, RequestBody, validate_body
from ranksim.core.service.calls import Answer, Attempt, Reply
from ranksim.core.service.context import ATTEMPT_DUE, Context, Request
from ranksim.core.service.errors import problem
from ranksim.core.service.events import (
    AttemptAnswered,
    AttemptMade,
    DeliveryCancelled,
    DeliveryQueued,
    DeliverySuppressed,
    EndpointDisabled,
    EndpointEnabled,
)
from ranksim.core.service.replies import collection, filters_of, nothing, paged, single
from ranksim.core.service.resolve import domain_for, list_owned, record_for
from ranksim.core.service.state import Account, AttemptRecord, Delivery, Endpoint, Event, Job, State

DESCRIPTIONS = {
    "job.completed": "A rank run, crawl, site-optimization analysis or AI-visibility scan finished well.",
    "job.failed": "One of those jobs ended in an error; data.job.error_detail gives the reason.",
}
"""What GET /v1/webhook-events says of each type (S75, S76, U78)."""

BY_THE_ACCOUNT = "disabled by the account"

_FORGET = 1_000
"""Records are forgotten so many at a time: taking the oldest from a list costs by its length."""


# Bodies


_PORT = "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
URL = rf"^[Hh][Tt][Tt][Pp][Ss]?://([A-Za-z0-9.-]{{1,253}}|\[::1\])(:({_PORT}))?([/?#][!-~\u00a1-\ud7ff]*)?$"
"""What an endpoint's URL looks like (U73): a scheme in any case (RFC 3986, 3.1), a host name or address
as long as DNS has them, perhaps a port, and no blanks."""


def _url(text: str) -> str:
    if not re.fullmatch(URL, text):
        raise ValueError
    return text


Url = Annotated[str, AfterValidator(_url), Expecting("an http or https URL")]
EventType = Annotated[
    str,
    StringConstraints(pattern=f"^({'|'.join(map(re.escape, EVENT_TYPES))})$"),
    Expecting(f"one of {', '.join(EVENT_TYPES)}"),
]
"""Unknown types are refused, and so is that of the test event (U76)."""
EventTypes = Annotated[list[EventType], Field(max_length=100)]


class EndpointBody(RequestBody):
    """POST webhooks."""

    url: Url
    event_types: EventTypes = Field(default_factory=list)
    domain_id: Id | None = None
    enabled: Flag = True


class EndpointPatch(RequestBody):
    """PATCH a webhook endpoint."""

    url: Url = ""
    event_types: EventTypes = Field(default_factory=list)
    domain_id: Id | None = None
    enabled: Flag = True


# Endpoints


def create_endpoint(ctx: Context, request: Request) -> Reply:
    """POST /v1/webhooks: the only reply that shows the secret (S21, E32, U73)."""
    fields = validate_body(EndpointBody, ctx.policy, request.call.body)
    if isinstance(fields, Reply):
        return fields
    refusal = _refuse_domain(ctx, request, fields.domain_id)
    if refusal is not None:
        return refusal
    state = ctx.state
    number = state.new_id("whk")
    endpoint = Endpoint(
        id=number,
        account=request.account.id,
        url=fields.url,
        event_types=list(fields.event_types),
        domain=fields.domain_id,
        secret=_secret(state.seed, number),
        created_at=request.now,
    )
    if not fields.enabled:
        disable(ctx, endpoint, BY_THE_ACCOUNT, request.now)
    state.endpoints[endpoint.id] = endpoint
    request.account.endpoints.append(endpoint.id)
    view: views.WebhookCreatedView = {**_endpoint(endpoint), "secret": endpoint.secret}
    return single(view, ctx.policy.statuses.created)


def list_endpoints(ctx: Context, request: Request) -> Reply:
    """GET /v1/webhooks: the endpoints that the key may see (U97), filtered by domain_id (U110)."""
    return list_owned(ctx, request, ctx.state.endpoints, request.account.endpoints, _endpoint)


def get_endpoint(ctx: Context, request: Request) -> Reply:
    """GET /v1/webhooks/{id}."""
    endpoint = _find(ctx, request)
    return endpoint if isinstance(endpoint, Reply) else single(_endpoint(endpoint))


def update_endpoint(ctx: Context, request: Request) -> Reply:
    """PATCH /v1/webhooks/{id}: merges what is sent; `enabled` enables or disables (U70, U84, U98)."""
    fields = validate_body(EndpointPatch, ctx.policy, request.call.body)
    if isinstance(fields, Reply):
        return fields
    endpoint = _find(ctx, request)
    if isinstance(endpoint, Reply):
        return endpoint
    sent = fields.model_fields_set
    if "domain_id" in sent:
        refusal = _refuse_domain(ctx, request, fields.domain_id)
        if refusal is not None:
            return refusal
        endpoint.domain = fields.domain_id
    if "url" in sent:
        endpoint.url = fields.url
    if "event_types" in sent:
        endpoint.event_types = list(fields.event_types)
    if "enabled" in sent and fields.enabled and not endpoint.enabled:
        enable(ctx, endpoint, request.now)
    elif "enabled" in sent and not fields.enabled and endpoint.enabled:
        disable(ctx, endpoint, BY_THE_ACCOUNT, request.now)
    return single(_endpoint(endpoint))


def delete_endpoint(ctx: Context, request: Request) -> Reply:
    """DELETE /v1/webhooks/{id}: what waits for it is cancelled (U84)."""
    endpoint = _find(ctx, request)
    if isinstance(endpoint, Reply):
        return endpoint
    remove_endpoint(ctx, endpoint, request.now)
    return nothing(ctx.policy.statuses.deleted)


def test_endpoint(ctx: Context, request: Request) -> Reply:
    """POST /v1/webhooks/{id}/test: a test event on the normal path, listed or not (S41, U72, E30)."""
    endpoint = _find(ctx, request)
    if isinstance(endpoint, Reply):
        return endpoint
    if not endpoint.enabled:
        detail = f"Endpoint {endpoint.id} is disabled: {endpoint.disabled_reason}."
        return problem(ctx.policy, "endpoint_disabled", detail)
    event = _emit(ctx, TEST_EVENT, request.account, endpoint.domain, {"test": True}, [endpoint], request.now)
    body: views.TestEventView = {
        "event_id": event.id,
        "type": event.type,
        "endpoint_id": endpoint.id,
        "created_at": iso(event.created_at),
    }
    return single(body, ctx.policy.statuses.test_accepted)


def list_event_types(ctx: Context, request: Request) -> Reply:
    """GET /v1/webhook-events: the types that exist, for anybody (S39, U78)."""
    types: list[views.EventTypeView] = [
        {"type": name, "description": DESCRIPTIONS[name]} for name in EVENT_TYPES
    ]
    return collection(types if request.reads else None, None)


def list_deliveries(ctx: Context, request: Request) -> Reply:
    """GET /v1/webhook-deliveries: recent attempts, oldest first (S40, U75, U109)."""
    records = ctx.state.attempts
    horizon = request.now - ctx.policy.assumptions.deliveries_retention

    filters = filters_of(request, "endpoint_id", "event_id")

    def keep(number: int) -> bool:
        record = records[number]
        return (
            record.created_at > horizon
            and sees(request.scope, record.domain)
            and filters.get("endpoint_id", record.endpoint) == record.endpoint
            and filters.get("event_id", record.event) == record.event
        )

    return paged(
        ctx, request, request.account.attempts, filters, keep, lambda number: show_attempt(records[number])
    )


def _find(ctx: Context, request: Request) -> Endpoint | Reply:
    return record_for(ctx, request, ctx.state.endpoints, request.call.path["id"], "webhook endpoint")


def _refuse_domain(ctx: Context, request: Request, domain_id: str | None) -> Reply | None:
    """Refuse an endpoint for what the key may not bind it to (S71, U13, U14)."""
    if domain_id is None:
        if request.scope is None:
            return None
        detail = "A key that is bound to one domain cannot have account-wide endpoints."
        return problem(ctx.policy, "forbidden", detail)
    domain = domain_for(ctx, request, domain_id)
    return domain if isinstance(domain, Reply) else None


def _endpoint(endpoint: Endpoint) -> views.WebhookView:
    return {
        "id": endpoint.id,
        "url": endpoint.url,
        "event_types": list(endpoint.event_types),
        "domain_id": endpoint.domain,
        "enabled": endpoint.enabled,
        "disabled_reason": endpoint.disabled_reason,
        "created_at": iso(endpoint.created_at),
    }


def show_attempt(record: AttemptRecord) -> views.DeliveryAttemptView:
    """Return an attempt that was answered, or not in time, as the API shows it (U75)."""
    return {
        "id": f"att_{record.number:010d}",
        "endpoint_id": record.endpoint,
        "event_id": record.event,
        "event_type": record.event_type,
        "attempt": record.attempt,
        "status_code": record.status_code,
        "error": record.error,
        "duration_ms": record.duration // MILLISECOND,
        "next_attempt_at": None if record.next_attempt_at is None else iso(record.next_attempt_at),
        "created_at": iso(record.created_at),
    }


def _secret(seed: int, endpoint: str) -> str:
    words = (bits(seed, entity(endpoint), index, Purpose.SECRET) for index in range(4))
    return "whsec_" + "".join(f"{word:016x}" for word in words)


# Events


def emit_job_event(ctx: Context, job: Job, now: Micros) -> None:
    """Send job.completed or job.failed of a finished job to every endpoint that takes it (S76, E28, U74).

    Without such an endpoint there is no event. That a disabled endpoint is not sent it is told by
    DeliverySuppressed.
    """
    event_type = "job.completed" if job.status == "done" else "job.failed"
    account = ctx.state.accounts[job.account]
    for endpoint in map(ctx.state.endpoints.__getitem__, account.endpoints):
        if not endpoint.enabled and matches(
            True, endpoint.event_types, endpoint.domain, event_type, job.domain
        ):
            by_account = endpoint.disabled_reason == BY_THE_ACCOUNT
            ctx.events.append(
                DeliverySuppressed(now, account.id, endpoint.id, job.domain, job.id, by_account)
            )
    takers = takers_of(ctx.state, account, event_type, job.domain)
    if not takers:
        return
    assert job.finished_at is not None, "an event tells of a job that has ended"
    view: views.EventJobView = {
        "id": job.id,
        "kind": job.kind,
        "status": job.status,
        "domain_id": job.domain,
        "error_detail": job.error_detail,
        "finished_at": iso(job.finished_at),
    }
    _emit(ctx, event_type, account, job.domain, {"job": view}, takers, now)


def takers_of(state: State, account: Account, event_type: str, domain: str) -> list[Endpoint]:
    """Return the endpoints of an account that take an event of a type about a domain (S76)."""
    return [
        endpoint
        for endpoint in map(state.endpoints.__getitem__, account.endpoints)
        if matches(endpoint.enabled, endpoint.event_types, endpoint.domain, event_type, domain)
    ]


def _emit(
    ctx: Context,
    event_type: str,
    account: Account,
    domain: str | None,
    data: views.JobEventDataView | views.TestEventDataView,
    endpoints: Iterable[Endpoint],
    now: Micros,
) -> Event:
    state = ctx.state
    event_id = state.new_id("evt")
    body = payload(event_id, event_type, now, data)
    event = state.events[event_id] = Event(event_id, event_type, account.id, domain, now, body)
    for endpoint in endpoints:
        deliver(ctx, event, endpoint, now)
    return event


def deliver(ctx: Context, event: Event, endpoint: Endpoint, now: Micros) -> None:
    """Begin to deliver an event to an endpoint; its first attempt is due at once (S76)."""
    delivery = Delivery(ctx.state.next_serial(), event.id, endpoint.id, now)
    ctx.state.deliveries[delivery.number] = delivery
    event.open += 1
    ctx.events.append(DeliveryQueued(now, event.account, endpoint.id, delivery.number, event.id))
    _wait(ctx, endpoint, delivery, now)


# Attempts


def attempt_due(ctx: Context, delivery_number: str, now: Micros) -> None:
    """Make the attempt that the agenda says is due, as a task for the driver.

    The agenda may be stale: a delivery that was cancelled, or waits for its endpoint to be enabled, is left.
    """
    state = ctx.state
    delivery = state.deliveries.get(int(delivery_number))
    if delivery is None or delivery.out:
        return
    endpoint = state.endpoints[delivery.endpoint]
    if not endpoint.enabled or endpoint.waiting[delivery.number] > now:
        return
    del endpoint.waiting[delivery.number]
    delivery.out = state.next_serial()
    state.attempts_out[delivery.out] = delivery.number
    task = _task(ctx, endpoint, delivery, now)
    ctx.tasks.append(task)
    ctx.events.append(
        AttemptMade(now, endpoint.account, endpoint.id, delivery.number, task.attempt, task.number)
    )


def attempted(ctx: Context, attempt: int, answer: Answer, now: Micros) -> None:
    """Take in the answer to an attempt: count it, try again or be done, and record it (S87-S92).

    Answers count in the order they arrive (E25). Raises KeyError for an attempt that is not out.
    """
    state, facts, assumptions = ctx.state, ctx.policy.facts, ctx.policy.assumptions
    delivery = state.deliveries[state.attempts_out.pop(attempt)]
    delivery.out = 0
    delivery.made += 1
    endpoint = state.endpoints.get(delivery.endpoint)
    success = acknowledged(answer.status, answer.duration, facts)
    outcome, due = "acknowledged", None
    if not success:
        if delivery.first_failed_at is None:
            delivery.first_failed_at = now
        draw = _jitter(ctx, delivery)
        due = retry_at(delivery.made, now, delivery.first_failed_at, draw, facts, assumptions)
        outcome = "exhausted" if due is None else "retried"
    before = len(ctx.events)
    if endpoint is not None:
        _count(ctx, endpoint, success, due is None, now)
    if due is not None and (endpoint is None or delivery.number <= endpoint.cancelled):
        outcome, due = "cancelled", None
    record = _record(ctx, delivery, endpoint, answer, due, now)
    ctx.events.insert(  # before what follows from it
        before,
        AttemptAnswered(
            now,
            record.account,
            delivery.endpoint,
            delivery.number,
            attempt,
            delivery.made,
            outcome,
            record.status_code,
            record.error,
            due,
        ),
    )
    if endpoint is None or due is None:
        _finish(state, delivery)
    else:
        _wait(ctx, endpoint, delivery, due)


def send_again(ctx: Context, now: Micros) -> None:
    """Hand out again every attempt that is out, under its own number, as after a restart (S93)."""
    state = ctx.state
    for attempt, number in list(state.attempts_out.items()):
        delivery = state.deliveries[number]
        endpoint = state.endpoints.get(delivery.endpoint)
        if endpoint is None:
            attempted(ctx, attempt, Answer(None, "endpoint deleted"), now)
        else:
            ctx.tasks.append(_task(ctx, endpoint, delivery, now))


def disable(ctx: Context, endpoint: Endpoint, reason: str, now: Micros) -> None:
    """Disable an endpoint and cancel its retries, or pause them (S22, S91, U69, U98, E27)."""
    endpoint.enabled = False
    endpoint.disabled_reason = reason
    endpoint.disabled_at = now
    by_account = reason == BY_THE_ACCOUNT
    ctx.events.append(EndpointDisabled(now, endpoint.account, endpoint.id, reason, by_account))
    if ctx.policy.assumptions.on_disable == "cancel":
        _cancel(ctx, endpoint, now)


def enable(ctx: Context, endpoint: Endpoint, now: Micros) -> None:
    """Enable an endpoint again; paused retries that are overdue become due now (U69, U70)."""
    endpoint.enabled = True
    endpoint.disabled_reason = None
    endpoint.disabled_at = None
    ctx.events.append(EndpointEnabled(now, endpoint.account, endpoint.id))
    if ctx.policy.assumptions.count_on_enable == "zero":
        endpoint.failures = 0
    overdue = sorted((due, number) for number, due in endpoint.waiting.items() if due <= now)
    for _, number in overdue:
        _wait(ctx, endpoint, ctx.state.deliveries[number], now)


def remove_endpoint(ctx: Context, endpoint: Endpoint, now: Micros) -> None:
    """Forget an endpoint and cancel what waits for it; an attempt that is out is still recorded."""
    _cancel(ctx, endpoint, now)
    del ctx.state.endpoints[endpoint.id]
    ctx.state.accounts[endpoint.account].endpoints.remove(endpoint.id)


def _task(ctx: Context, endpoint: Endpoint, delivery: Delivery, now: Micros) -> Attempt:
    event = ctx.state.events[delivery.event]
    body = event.body.encode()
    number = delivery.made + 1
    signed_at = now
    if ctx.policy.assumptions.signature_time == "first":
        delivery.first_signed_at = now if delivery.first_signed_at is None else delivery.first_signed_at
        signed_at = delivery.first_signed_at
    return Attempt(
        attempt=delivery.out,
        delivery=delivery.number,
        endpoint=endpoint.id,
        account=endpoint.account,
        url=endpoint.url,
        event=event.id,
        event_type=event.type,
        number=number,
        headers=headers(endpoint.secret, signed_at // SECOND, body, event.id, event.type, number),
        body=body,
    )


def _count(ctx: Context, endpoint: Endpoint, success: bool, exhausted: bool, now: Micros) -> None:
    """Keep the run of failures, and disable at its limit (S91, S92, U66, E26)."""
    if success:
        endpoint.failures = 0
        return
    if exhausted or ctx.policy.assumptions.failure_counted == "attempt":
        endpoint.failures += 1
    if endpoint.enabled and endpoint.failures >= ctx.policy.facts.webhook_disable_after:
        disable(ctx, endpoint, f"{endpoint.failures} consecutive failed deliveries", now)


def _record(
    ctx: Context,
    delivery: Delivery,
    endpoint: Endpoint | None,
    answer: Answer,
    due: Micros | None,
    now: Micros,
) -> AttemptRecord:
    """Note an attempt for GET /v1/webhook-deliveries, and forget what is older than the retention (U75)."""
    state = ctx.state
    event = state.events[delivery.event]
    late = answer.duration > ctx.policy.facts.webhook_timeout
    record = AttemptRecord(
        number=state.next_serial(),
        account=event.account,
        endpoint=delivery.endpoint,
        domain=None if endpoint is None else endpoint.domain,
        event=event.id,
        event_type=event.type,
        attempt=delivery.made,
        created_at=now,
        status_code=None if late else answer.status,
        error=answer.error or ("timeout" if late else None),
        duration=answer.duration,
        next_attempt_at=due,
    )
    state.attempts[record.number] = record
    numbers = state.accounts[event.account].attempts
    numbers.append(record.number)
    horizon = now - ctx.policy.assumptions.deliveries_retention
    if len(numbers) > _FORGET and state.attempts[numbers[_FORGET]].created_at <= horizon:
        for number in numbers[:_FORGET]:
            del state.attempts[number]
        del numbers[:_FORGET]
    return record


def _wait(ctx: Context, endpoint: Endpoint, delivery: Delivery, due: Micros) -> None:
    endpoint.waiting[delivery.number] = due
    ctx.schedule(due, ATTEMPT_DUE, str(delivery.number))


def _cancel(ctx: Context, endpoint: Endpoint, now: Micros) -> None:
    """End every delivery that waits; one that is out ends with its answer."""
    for number in endpoint.waiting:
        _finish(ctx.state, ctx.state.deliveries[number])
        ctx.events.append(DeliveryCancelled(now, endpoint.account, endpoint.id, number))
    endpoint.waiting.clear()
    endpoint.cancelled = ctx.state.serial


def _finish(state: State, delivery: Delivery) -> None:
    del state.deliveries[delivery.number]
    event = state.events[delivery.event]
    event.open -= 1
    if event.open == 0:
        del state.events[event.id]


def _jitter(ctx: Context, delivery: Delivery) -> int:
    """The draw of a delivery's next retry, or the middle, which changes nothing, without jitter."""
    if ctx.policy.assumptions.retry_jitter_percent == 0:
        return 0
    index = delivery.number * ctx.policy.facts.webhook_attempts + delivery.made
    who = entity(delivery.endpoint)
    return below(2 * JITTER + 1, ctx.state.seed, who, index, Purpose.RETRY_JITTER) - JITTER
