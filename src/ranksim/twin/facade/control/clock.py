"""The clock: read, set, moved on."""

from __future__ import annotations

from typing import Literal, cast

from pydantic import Field, model_validator
from typing_extensions import TypedDict  # typing's has too little for pydantic before Python 3.12

from ranksim.core.clock import Micros, iso
from ranksim.core.contract.quantities import Frozen
from ranksim.core.errors import BadInput
from ranksim.twin.facade.advance import AdvanceCondition, meter_resets
from ranksim.twin.facade.control.command import Conflict, Duration, Instant, Router
from ranksim.twin.facade.twin import Twin

SPEED = r"^(real|manual|scaled:[1-9][0-9]{0,8}(/[1-9][0-9]{0,8})?)$"
"""How a clock may run."""

router = Router()


class ClockBody(Frozen):
    """How time runs from here on; what is left out stays."""

    clock: str | None = Field(
        None, description="real, manual, scaled:60 or scaled:1/10.", json_schema_extra={"pattern": SPEED}
    )
    traffic_clock: Literal["same", "wall"] | None = Field(None, description="What rate limits run on.")
    signature_clock: Literal["virtual", "wall"] | None = Field(
        None, description="What webhooks are signed with."
    )


class Until(Frozen):
    """Where an advance stops: one of job, endpoint and meter."""

    job: str | None = Field(None, description="A job that finishes.")
    endpoint: str | None = Field(None, description="A webhook endpoint that is disabled.")
    meter: str | None = Field(None, description="A metered allowance that begins anew.")
    account: str | None = Field(None, description="Whose meter; by default the first production account's.")

    @model_validator(mode="after")
    def _check(self) -> Until:
        if sum(condition is not None for condition in (self.job, self.endpoint, self.meter)) != 1:
            raise ValueError("give one of job, endpoint and meter")
        if self.account is not None and self.meter is None:
            raise ValueError("account goes with meter alone")
        return self


class AdvanceBody(Frozen):
    """How far time moves on: a duration, an instant, to the next piece of work, or until a condition.

    With a condition, `by` and `to` say how far at the latest; it is 400 days without them.
    """

    by: Duration | None = None
    to: Instant | None = None
    next: bool = Field(False, description="To the next piece of work that is due.")
    until: Until | None = None
    timeout: float | None = Field(
        None, ge=0, description="How many seconds of wall time webhooks may take; then it is not settled."
    )

    @model_validator(mode="after")
    def _check(self) -> AdvanceBody:
        ends = sum((self.by is not None, self.to is not None, self.next))
        if ends > 1 or (ends == 0 and self.until is None) or (self.next and self.until is not None):
            raise ValueError("give one of by, to, next and until; until may have a by or a to")
        return self


class ClockShown(TypedDict):
    """The clock."""

    world_id: str
    now: str
    clock: str
    traffic_clock: str
    traffic_now: str
    signature_clock: str
    next_due: str | None


class AttemptShown(TypedDict):
    """A webhook attempt that is out."""

    attempt_id: int
    delivery_id: int
    endpoint_id: str
    account_id: str
    url: str
    event_id: str
    event_type: str
    attempt: int


class HappeningShown(TypedDict):
    """One thing that happened; further members depend on what it was."""

    seq: int
    at: str
    what: str


class AdvanceShown(TypedDict):
    """What came of an advance; not settled, it can be resumed by another to `target`."""

    settled: bool
    now: str
    target: str
    met: bool | None
    happened: list[HappeningShown]
    waiting: list[AttemptShown]


@router.add("GET", "/clock")
async def get_clock(twin: Twin) -> ClockShown:
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


@router.add("PATCH", "/clock", example={"clock": "manual"})
async def set_clock(twin: Twin, body: ClockBody) -> ClockShown:
    """Change how time runs."""
    twin.set_clock(body.clock, body.traffic_clock, body.signature_clock)
    return await get_clock(twin)


@router.add("POST", "/clock/advance", example={"by": "36m"})
async def advance(twin: Twin, body: AdvanceBody) -> AdvanceShown:
    """Move time on, and answer when everything that fell due was done."""
    world, by, to, until, resets = twin.world_id, body.by, body.to, None, None
    if body.until is not None:
        if body.until.meter is None:
            until = AdvanceCondition(body.until.job, body.until.endpoint)
        else:
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
    answer = done.shown()
    if resets is not None:
        answer["met"] = done.settled and done.now >= resets
    return cast(AdvanceShown, answer)


def _resets(twin: Twin, meter: str, account: str | None) -> Micros:
    """Return the instant at which a meter begins anew."""
    state = twin.service.state
    first = state.keys.get(twin.keys.get("production", ""))
    owner = account if account is not None or first is None else first.account
    if owner is None:
        raise BadInput("until.account: there is no first production account; say whose meter it is")
    return meter_resets(state, twin.policy, owner, meter, twin.now())
