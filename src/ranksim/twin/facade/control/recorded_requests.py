"""The journal of requests: searched, counted, verified."""

from __future__ import annotations

from dataclasses import asdict
from typing import cast

from ranksim.twin.facade.control import schemas
from ranksim.twin.facade.control.control_request import ControlRequest, Missing
from ranksim.twin.facade.request_journal import Expected, NearMiss, RequestJournal
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.parsing import whole_number


def _journal(twin: Twin) -> RequestJournal:
    if twin.requests is None:
        raise Missing("requests: this deployment keeps no journal of requests")
    return twin.requests


async def list_requests(twin: Twin, request: ControlRequest) -> schemas.RequestList:
    """Search the journal of requests, newest first."""
    query: schemas.RequestsQuery = request.query
    journal = _journal(twin)
    found = journal.search(Expected(**query.model_dump(exclude={"limit"})))
    shown = [cast(schemas.RequestShown, entry.shown()) for entry in found[: -query.limit - 1 : -1]]
    return {"data": shown, "count": len(found), "forgotten": journal.forgotten}


async def get_request(twin: Twin, request: ControlRequest) -> schemas.RequestShown:
    """Read one request and its response."""
    number = whole_number(request.path["id"])
    entry = None if number is None else _journal(twin).find(number)
    if entry is None:
        given = request.path["id"]
        raise Missing(f"request: there is none with the number {given!r}, or it is not remembered any more")
    return cast(schemas.RequestShown, entry.shown())


async def clear_requests(twin: Twin, request: ControlRequest) -> schemas.CountShown:
    """Forget all requests; answers how many there were."""
    journal = _journal(twin)
    count = len(journal)
    journal.clear()
    twin.event_log.note(twin.now(), "requests.cleared", {"count": count})
    return {"count": count}


async def count_requests(twin: Twin, request: ControlRequest) -> schemas.CountShown:
    """Count the requests of a description."""
    return {"count": _journal(twin).count(request.body)}


async def verify_requests(twin: Twin, request: ControlRequest) -> schemas.VerdictShown:
    """Tell whether as many requests came as were expected, and if too few which came near."""
    body: schemas.VerifyBody = request.body
    verdict = _journal(twin).verify(body.expected, *body.bounds())
    return {
        "verified": verdict.verified,
        "count": verdict.count,
        "message": verdict.message,
        "near_misses": [_near(miss) for miss in verdict.near_misses],
    }


async def near_misses(twin: Twin, request: ControlRequest) -> schemas.NearMissList:
    """List the requests that are almost as expected, and what tells them apart."""
    body: schemas.NearBody = request.body
    return {"data": [_near(miss) for miss in _journal(twin).near_misses(body.expected, body.limit)]}


def _near(miss: NearMiss) -> schemas.NearMissShown:
    differences = [cast(schemas.DifferenceShown, asdict(one)) for one in miss.differences]
    return {"request": cast(schemas.RequestShown, miss.entry.shown()), "differences": differences}
