"""Webhook deliveries and attempts, and events by hand."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from typing_extensions import TypedDict  # typing's has too little for pydantic before Python 3.12

from ranksim.core.clock import iso
from ranksim.core.contract.quantities import Frozen
from ranksim.core.contract.views import TEST_EVENT
from ranksim.core.errors import BadInput, no_such
from ranksim.core.service import jobs
from ranksim.core.service.calls import Call
from ranksim.core.service.deliveries import show_attempt, takers_of
from ranksim.core.service.state import Account, AttemptRecord, Delivery
from ranksim.twin.facade.attempts import KEPT
from ranksim.twin.facade.control.command import LISTED, Listed, Missing, Router
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.parsing import whole_number

TRIGGERS = {"job.completed": jobs.DONE, "job.failed": jobs.FAILED, TEST_EVENT: ""}
"""The events that can be triggered, and how the job of each ended."""

router = Router()


class DeliveriesQuery(Frozen):
    """Which deliveries or attempts."""

    account_id: str | None = None
    endpoint_id: str | None = None
    event_id: str | None = None
    limit: Listed = LISTED


class DeliveryShown(TypedDict):
    """A delivery that is not finished: waiting for its next attempt, paused with its endpoint, or out."""

    id: int
    account_id: str
    endpoint_id: str
    url: str | None
    event_id: str
    event_type: str
    created_at: str
    state: Literal["waiting", "paused", "out"]
    attempts_made: int
    next_attempt: int
    next_attempt_at: str | None


class DeliveryList(TypedDict):
    """Unfinished deliveries, by the instant of their next attempt, those that are out first."""

    data: list[DeliveryShown]


class RecordShown(TypedDict):
    """A webhook attempt that was answered, or not in time."""

    id: str
    account_id: str
    endpoint_id: str
    event_id: str
    event_type: str
    attempt: int
    status_code: int | None
    error: str | None
    duration_ms: int
    next_attempt_at: str | None
    created_at: str


class RecordList(TypedDict):
    """Recorded attempts, newest first."""

    data: list[RecordShown]


class TriggerBody(Frozen):
    """A webhook event that shall come about."""

    event: str = Field(description="job.completed, job.failed or webhook.test.")
    account_id: str = Field("", description="Whose endpoints; by default the first production account's.")
    domain_id: str = Field("", description="Whose job; by default the first domain that an endpoint takes.")


class AttemptRequestShown(TypedDict):
    """What a webhook attempt sent, as text."""

    url: str
    headers: dict[str, str]
    body: str


@router.add("GET", "/deliveries")
async def list_deliveries(twin: Twin, query: DeliveriesQuery) -> DeliveryList:
    """List the deliveries that are not finished, and when each will be tried again."""
    unfinished = (_delivery_shown(twin, record) for record in twin.service.state.deliveries.values())
    deliveries = [
        delivery
        for delivery in unfinished
        if query.account_id in (None, delivery["account_id"])
        and query.endpoint_id in (None, delivery["endpoint_id"])
        and query.event_id in (None, delivery["event_id"])
    ]
    deliveries.sort(key=lambda row: (row["state"] != "out", row["next_attempt_at"] or "", row["id"]))
    return {"data": deliveries[: query.limit]}


def _delivery_shown(twin: Twin, delivery: Delivery) -> DeliveryShown:
    state = twin.service.state
    event, endpoint = state.events[delivery.event], state.endpoints.get(delivery.endpoint)
    paused = endpoint is not None and not endpoint.enabled
    due = None if endpoint is None or paused else endpoint.waiting.get(delivery.number)
    return {
        "id": delivery.number,
        "account_id": event.account,
        "endpoint_id": delivery.endpoint,
        "url": None if endpoint is None else endpoint.url,
        "event_id": event.id,
        "event_type": event.type,
        "created_at": iso(delivery.created_at),
        "state": "out" if delivery.out else "paused" if paused else "waiting",
        "attempts_made": delivery.made,
        "next_attempt": delivery.made + 1,
        "next_attempt_at": None if due is None else iso(due),
    }


@router.add("GET", "/attempts")
async def list_attempts(twin: Twin, query: DeliveriesQuery) -> RecordList:
    """List the recorded webhook attempts of all accounts, newest first."""
    records = [
        record
        for record in reversed(twin.service.state.attempts.values())
        if query.account_id in (None, record.account)
        and query.endpoint_id in (None, record.endpoint)
        and query.event_id in (None, record.event)
    ]
    return {"data": [_record_shown(record) for record in records[: query.limit]]}


@router.add("POST", "/attempts/{id}/resend", status=201)
async def resend(twin: Twin, attempt: str) -> DeliveryShown:
    """Deliver the event of a recorded attempt to its endpoint once more, as a delivery of its own.

    An event stands for its latest attempt.
    """
    attempts = twin.service.state.attempts
    number = whole_number(attempt.removeprefix("att_"))
    if attempt.startswith("evt_"):
        number = next(
            (record.number for record in reversed(attempts.values()) if record.event == attempt), None
        )
    if number not in attempts:
        raise Missing(f"attempt: there is none with the id {attempt!r}; GET /attempts lists them")
    record, state, now = attempts[number], twin.service.state, twin.now()
    twin.work(now)
    event = state.events.get(record.event) or twin.sent_events.get(record.event)
    if event is None:
        raise BadInput(
            f"attempt: what {record.event} said is not remembered any more, as before a restart or "
            f"{KEPT:,} events ago; `ranksim serve trigger {record.event_type}` makes another"
        )
    before = state.serial
    twin.service.resend(event, record.endpoint, now)
    (delivery,) = (made for made in state.deliveries.values() if made.number > before)
    twin.after([], now)
    return _delivery_shown(twin, delivery)


@router.add("POST", "/trigger", status=201, example={"event": "job.failed"})
async def trigger(twin: Twin, body: TriggerBody) -> DeliveryList:
    """Let a webhook event come about now. The job that it tells of is listed, and booked nowhere."""
    if body.event not in TRIGGERS:
        raise BadInput(f"event: {no_such('event', body.event, tuple(TRIGGERS))}")
    state, now = twin.service.state, twin.now()
    twin.work(now)
    first = state.keys.get(twin.keys.get("production", ""))
    owner = state.accounts.get(body.account_id or ("" if first is None else first.account))
    if owner is None:
        raise BadInput(
            f"account: there is none with the id {body.account_id!r}; say whose endpoints are meant"
        )
    before = state.serial
    if body.event == TEST_EVENT:
        enabled = [endpoint for endpoint in owner.endpoints if state.endpoints[endpoint].enabled]
        for endpoint in enabled:
            twin.call(Call("webhooks.test", surface="app", account=owner.id, path={"id": endpoint}))
    else:
        about = _domain_of(twin, owner, body.event, body.domain_id)
        if about:
            twin.service.trigger_job(domain=about, outcome=TRIGGERS[body.event], now=now)
    deliveries = [delivery for delivery in state.deliveries.values() if delivery.number > before]
    if not deliveries:
        raise BadInput(
            f"event: no enabled endpoint of {owner.id} takes {body.event}; create one with POST "
            "/v1/webhooks, or enable it"
        )
    twin.after([], now)
    return {"data": [_delivery_shown(twin, delivery) for delivery in deliveries]}


def _domain_of(twin: Twin, owner: Account, event_type: str, wanted: str) -> str:
    """Return a domain of whose jobs an endpoint is told, one of an account's own; "" where none is."""
    state = twin.service.state
    if wanted and wanted not in owner.domains:
        raise BadInput(f"domain: {owner.id} has none with the id {wanted!r}")
    if not owner.domains and any(state.endpoints[endpoint].enabled for endpoint in owner.endpoints):
        body = {"host": "triggered.example"}
        twin.call(Call("domains.create", surface="app", account=owner.id, body=body))
    domains = [wanted] if wanted else owner.domains
    return next((domain for domain in domains if takers_of(state, owner, event_type, domain)), "")


@router.add("GET", "/attempts/{id}/request")
async def get_attempt_request(twin: Twin, attempt: str) -> AttemptRequestShown:
    """Read what a recorded attempt sent: the address, the headers, signature included, and the payload."""
    number = whole_number(attempt.removeprefix("att_"))
    record = None if number is None else twin.service.state.attempts.get(number)
    sent = None
    if record is not None:
        sent = twin.event_log.sent(record.endpoint, record.event, record.attempt)
    if sent is None:
        raise Missing(
            f"attempt: there is none with the id {attempt!r}, or what it sent is not remembered any more"
        )
    return {"url": sent.url, "headers": dict(sent.headers), "body": sent.body.decode()}


def _record_shown(record: AttemptRecord) -> RecordShown:
    attempt = show_attempt(record)
    return {"id": attempt["id"], "account_id": record.account, **attempt}
