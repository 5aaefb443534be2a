"""Limits switched off, and answers broken on purpose."""

from __future__ import annotations

from typing import Any, cast

from typing_extensions import TypedDict  # typing's has too little for pydantic before Python 3.12

from ranksim.core.callers.fault_rules import BundleScope, FaultRule, rules_of
from ranksim.core.contract.quantities import Frozen
from ranksim.core.service.administration import LIMITS
from ranksim.twin.facade.control.command import Router, look_up
from ranksim.twin.facade.twin import Twin

router = Router()


class LimitsPatch(Frozen):
    """Limits to switch on (true) or off (false); what is left out stays."""

    rate: bool | None = None
    capability: bool | None = None
    subscription: bool | None = None
    cost_ceiling: bool | None = None
    quota: bool | None = None
    slots: bool | None = None
    cooldown: bool | None = None


if tuple(LimitsPatch.model_fields) != LIMITS:
    raise AssertionError("the limits that can be switched are those of the service")


LimitsShown = dict[str, bool]


class EffectsShown(TypedDict):
    """How many requests a rule delayed, failed, dropped, answered or slowed; how many attempts it altered."""

    delayed: int
    failed: int
    dropped: int
    answered: int
    slowed: int
    altered: int


class FaultShown(TypedDict):
    """A fault rule in force, and what it did so far."""

    id: str
    operation: str
    key: str | None
    environment: str | None
    latency: Any
    latency_after: Any
    error_rate: float
    drop_before_rate: float
    drop_after_rate: float
    drop_during_rate: float
    path: str | None
    status: int | None
    body: str | None
    text: str | None
    headers: dict[str, str]
    retry_after: str | None
    retry_after_form: str
    answer_rate: float
    after_effect: bool
    bytes_per_second: int | None
    delivery: str | None
    times: int | None
    lasts: str | None
    until: str | None
    seen: int
    effects: EffectsShown


class FaultList(TypedDict):
    """The fault rules in force, in order."""

    data: list[FaultShown]


@router.add("GET", "/limits")
async def get_limits(twin: Twin) -> LimitsShown:
    """Read which limits are on."""
    waived = twin.service.state.waived
    return {limit: not waived >> number & 1 for number, limit in enumerate(LIMITS)}


@router.add("PATCH", "/limits", example={"rate": False, "cooldown": False})
async def set_limits(twin: Twin, body: LimitsPatch) -> LimitsShown:
    """Switch limits off and on, for everybody. What a switched-off check minds is booked as ever."""
    wanted = await get_limits(twin) | body.model_dump(exclude_none=True)
    twin.administer("waive", limits=[limit for limit, on in wanted.items() if not on])
    return await get_limits(twin)


@router.add("GET", "/faults")
async def list_faults(twin: Twin) -> FaultList:
    """List the fault rules in force."""
    return {"data": [cast(FaultShown, active.to_dict()) for active in twin.faults.active.values()]}


@router.add(
    "POST", "/faults", status=201, example={"operation": "jobs.*", "latency": "250ms", "error_rate": 0.1}
)
async def add_fault(twin: Twin, body: FaultRule) -> FaultShown:
    """Let requests of an operation and a key be late, fail or be dropped, with some likelihood."""
    active = twin.faults.add(body, twin.now())
    twin.event_log.note(twin.now(), "fault.added", {"fault_id": active.id, "operation": body.operation})
    return cast(FaultShown, active.to_dict())


@router.add("POST", "/faults/bundles/{bundle}", status=201, example={"operation": "jobs.*", "lasts": "10m"})
async def add_faults(twin: Twin, bundle: str, body: BundleScope) -> FaultList:
    """Put a bundle of faults in force: flaky-gateway, overloaded, bad-deploy or slow-database."""
    return {"data": [await add_fault(twin, rule) for rule in rules_of(bundle, body)]}


@router.add("DELETE", "/faults")
async def clear_faults(twin: Twin) -> FaultList:
    """End all fault rules."""
    twin.faults.clear()
    twin.event_log.note(twin.now(), "faults.cleared", {})
    return {"data": []}


@router.add("DELETE", "/faults/{id}")
async def remove_fault(twin: Twin, fault: str) -> FaultShown:
    """End a fault rule."""
    removed = look_up(twin.faults.active, fault, "fault").to_dict()
    twin.faults.remove(fault)
    twin.event_log.note(twin.now(), "fault.removed", {"fault_id": fault})
    return cast(FaultShown, removed)
