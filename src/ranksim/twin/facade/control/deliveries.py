"""Webhook deliveries and attempts, and events by hand."""

from __future__ import annotations

from ranksim.core.clock import iso
from ranksim.core.service.deliveries import show_attempt
from ranksim.core.service.state import AttemptRecord, Delivery
from ranksim.twin.facade.control import schemas
from ranksim.twin.facade.control.control_request import ControlRequest, Missing
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.parsing import whole_number


async def list_deliveries(twin: Twin, request: ControlRequest) -> schemas.DeliveryList:
    """List the deliveries that are not finished, and when each will be tried again."""
    query: schemas.DeliveriesQuery = request.query
    shown = [_delivery_shown(twin, delivery) for delivery in twin.service.state.deliveries.values()]
    found = [
        one
        for one in shown
        if query.account_id in (None, one["account_id"])
        and query.endpoint_id in (None, one["endpoint_id"])
        and query.event_id in (None, one["event_id"])
    ]
    found.sort(key=lambda one: (one["state"] != "out", one["next_attempt_at"] or "", one["id"]))
    return {"data": found[: query.limit]}


def _delivery_shown(twin: Twin, delivery: Delivery) -> schemas.DeliveryShown:
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


async def list_attempts(twin: Twin, request: ControlRequest) -> schemas.RecordList:
    """List the recorded webhook attempts of all accounts, newest first."""
    query: schemas.DeliveriesQuery = request.query
    found = [
        record
        for record in reversed(twin.service.state.attempts.values())
        if query.account_id in (None, record.account)
        and query.endpoint_id in (None, record.endpoint)
        and query.event_id in (None, record.event)
    ]
    return {"data": [_record_shown(record) for record in found[: query.limit]]}


async def get_attempt_request(twin: Twin, request: ControlRequest) -> schemas.AttemptRequestShown:
    """Read what a recorded attempt sent: the address, the headers, signature included, and the payload."""
    number = whole_number(request.path["id"].removeprefix("att_"))
    record = None if number is None else twin.service.state.attempts.get(number)
    sent = None
    if record is not None:
        sent = twin.event_log.sent(record.endpoint, record.event, record.attempt)
    if sent is None:
        given = request.path["id"]
        raise Missing(
            f"attempt: there is none with the id {given!r}, or what it sent is not remembered any more"
        )
    return {"url": sent.url, "headers": dict(sent.headers), "body": sent.body.decode()}


def _record_shown(record: AttemptRecord) -> schemas.RecordShown:
    shown = show_attempt(record)
    return {"id": shown["id"], "account_id": record.account, **shown}


async def trigger(twin: Twin, request: ControlRequest) -> schemas.DeliveryList:
    """Let a webhook event come about now. The job that it tells of is listed, and booked nowhere."""
    body: schemas.TriggerBody = request.body
    deliveries = twin.trigger(body.event, body.account_id, body.domain_id)
    return {"data": [_delivery_shown(twin, delivery) for delivery in deliveries]}


async def resend(twin: Twin, request: ControlRequest) -> schemas.DeliveryShown:
    """Deliver the event of a recorded attempt to its endpoint once more, as a delivery of its own.

    An event stands for its latest attempt.
    """
    given, attempts = request.path["id"], twin.service.state.attempts
    number = whole_number(given.removeprefix("att_"))
    if given.startswith("evt_"):
        number = next((one.number for one in reversed(attempts.values()) if one.event == given), None)
    if number not in attempts:
        raise Missing(f"attempt: there is none with the id {given!r}; GET /attempts lists them")
    return _delivery_shown(twin, twin.resend(number))
