"""The clock: read, set, moved on."""

from __future__ import annotations

from typing import cast

from ranksim.core.clock import Micros, iso
from ranksim.core.errors import BadInput
from ranksim.twin.facade.advance_until import (
    AdvanceCondition,
    UntilEndpointDisabled,
    UntilJobFinished,
    meter_resets,
)
from ranksim.twin.facade.control import schemas
from ranksim.twin.facade.control.control_request import Conflict, ControlRequest
from ranksim.twin.facade.twin import Twin


async def get_clock(twin: Twin, request: ControlRequest) -> schemas.ClockShown:
    """Read the clock."""
    now, due = twin.now(), twin.next_due()
    return {
        "world_id": twin.world_id,
        "now": iso(now),
        "clock": str(twin.clock.rate),
        "traffic_clock": twin.clock.traffic_clock,
        "traffic_now": iso(twin.clock.traffic(now)),
        "signature_clock": twin.clock.signature,
        "next_due": None if due is None else iso(due),
    }


async def set_clock(twin: Twin, request: ControlRequest) -> schemas.ClockShown:
    """Change how time runs."""
    body: schemas.ClockBody = request.body
    twin.set_clock(body.clock, body.traffic_clock, body.signature_clock)
    return await get_clock(twin, request)


async def advance(twin: Twin, request: ControlRequest) -> schemas.AdvanceShown:
    """Move time on, and answer when everything that fell due was done."""
    body: schemas.AdvanceBody = request.body
    world, by, to, until, resets = twin.world_id, body.by, body.to, None, None
    if body.until is not None:
        until = _condition(body.until)
        if body.until.meter is not None:
            resets = _resets(twin, body.until.meter, body.until.account)
            if by is None:
                to = resets if to is None else min(to, resets)
            else:
                by = min(by, resets - twin.now())
    try:
        if body.next:
            done = await twin.advance_to_next(body.timeout)
        else:
            done = await twin.advance(by=by, to=to, until=until, timeout=body.timeout)
    except BadInput as error:
        if twin.world_id != world:
            raise Conflict(str(error)) from None
        raise
    shown = done.shown()
    if resets is not None:
        shown["met"] = done.settled and done.now >= resets
    return cast(schemas.AdvanceShown, shown)


def _condition(until: schemas.Until) -> AdvanceCondition | None:
    if until.job is not None:
        return UntilJobFinished(until.job)
    return None if until.endpoint is None else UntilEndpointDisabled(until.endpoint)


def _resets(twin: Twin, meter: str, account: str | None) -> Micros:
    """Return the instant at which a meter begins anew."""
    state = twin.service.state
    first = state.keys.get(twin.keys.get("production", ""))
    owner = account if account is not None or first is None else first.account
    if owner is None:
        raise BadInput("until.account: there is no first production account; say whose meter it is")
    return meter_resets(state, twin.policy, owner, meter, twin.now())
