"""Limits switched off, and answers broken on purpose."""

from __future__ import annotations

from typing import cast

from ranksim.core.service.administration import LIMITS
from ranksim.twin.facade.control import schemas
from ranksim.twin.facade.control.control_request import ControlRequest, Missing
from ranksim.twin.facade.faults import FaultRule
from ranksim.twin.facade.twin import Twin


async def get_limits(twin: Twin, request: ControlRequest) -> schemas.LimitsShown:
    """Read which limits are on."""
    waived = twin.service.state.waived
    return {limit: not waived >> number & 1 for number, limit in enumerate(LIMITS)}


async def set_limits(twin: Twin, request: ControlRequest) -> schemas.LimitsShown:
    """Switch limits off and on, for everybody. What a switched-off check minds is booked as ever."""
    wanted = await get_limits(twin, request) | request.body.model_dump(exclude_none=True)
    twin.administer("waive", limits=[limit for limit, on in wanted.items() if not on])
    return await get_limits(twin, request)


async def list_faults(twin: Twin, request: ControlRequest) -> schemas.FaultList:
    """List the fault rules in force."""
    return {"data": [cast(schemas.FaultShown, active.shown()) for active in twin.faults.active.values()]}


async def add_fault(twin: Twin, request: ControlRequest) -> schemas.FaultShown:
    """Let requests of an operation and a key be late, fail or be dropped, with some likelihood."""
    rule: FaultRule = request.body
    active = twin.faults.add(rule)
    twin.event_log.note(twin.now(), "fault.added", {"fault_id": active.id, "operation": rule.operation})
    return cast(schemas.FaultShown, active.shown())


async def remove_fault(twin: Twin, request: ControlRequest) -> schemas.FaultShown:
    """End a fault rule."""
    if request.path["id"] not in twin.faults.active:
        raise Missing(f"fault: there is none with the id {request.path['id']!r}")
    shown = twin.faults.active[request.path["id"]].shown()
    twin.faults.remove(request.path["id"])
    twin.event_log.note(twin.now(), "fault.removed", {"fault_id": request.path["id"]})
    return cast(schemas.FaultShown, shown)


async def clear_faults(twin: Twin, request: ControlRequest) -> schemas.FaultList:
    """End all fault rules."""
    twin.faults.clear()
    twin.event_log.note(twin.now(), "faults.cleared", {})
    return {"data": []}
