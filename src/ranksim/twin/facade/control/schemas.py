"""The bodies, queries and answers of the control API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema, model_validator
from typing_extensions import TypedDict  # typing's has too little for pydantic before Python 3.12

from ranksim.core.contract import quantities
from ranksim.core.contract.quantities import Frozen
from ranksim.core.service.administration import LIMITS, STATUSES
from ranksim.core.service.bodies import CONTROLS
from ranksim.core.service.standing import AccountHead
from ranksim.twin.facade.request_journal import NEAREST, Expected

Duration = Annotated[
    quantities.Duration,
    WithJsonSchema({"type": "string", "description": "A duration, such as 36m or 1h30m."}),
]
Instant = Annotated[
    quantities.Instant,
    WithJsonSchema({"type": "string", "format": "date-time", "description": "An instant, ISO 8601."}),
]
Money = Annotated[
    quantities.Money, WithJsonSchema({"type": "string", "description": "An amount, such as 0.15 USD."})
]

Environment = Literal["production", "sandbox"]
Status = Annotated[str, WithJsonSchema({"type": "string", "enum": list(STATUSES)})]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=rf"^[^{CONTROLS}]+$")]
Listed = Annotated[int, Field(ge=1, le=10_000)]
Json = dict[str, Any]

NAME = "[A-Za-z0-9._-]{1,100}"
"""What a snapshot may be called."""

SPEED = r"^(real|manual|scaled:[1-9][0-9]{0,8}(/[1-9][0-9]{0,8})?)$"
"""How a clock may run."""

LISTED = 100
"""How many of a list are shown unless more are wanted."""


# The clock


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
        if sum(one is not None for one in (self.job, self.endpoint, self.meter)) != 1:
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


# Worlds


class WorldShown(TypedDict):
    """The world that is served."""

    world_id: str
    now: str
    policy: str
    seed: int
    keys: dict[str, str]


class NameBody(Frozen):
    """A name to save under."""

    name: Annotated[str, Field(pattern=f"^{NAME}$")]


class SnapshotShown(TypedDict):
    """A world that was saved."""

    name: str
    now: str
    bytes: int


class SnapshotList(TypedDict):
    """Saved worlds, in order of saving."""

    data: list[SnapshotShown]


class ForkShown(TypedDict):
    """The world that goes on, and the snapshot to go back to."""

    saved: SnapshotShown
    world: WorldShown


# Accounts


class AccountBody(Frozen):
    """An account to open."""

    name: Name
    plan: str | None = Field(None, description="By default the plan of the demo accounts.")
    environment: Environment = "production"
    status: Status = "active"
    add_ons: dict[str, int] = Field({}, description="How many of each it has.")
    anchor: Instant | None = Field(None, description="Where its billing months begin; by default now.")
    key: Name | None = Field("default", description="The name of its first key; null for none.")


class AccountPatch(Frozen):
    """What changes of an account, all or nothing; what is left out stays."""

    plan: str | None = None
    status: Status | None = None
    add_ons: dict[str, Annotated[int, Field(ge=0)]] = Field({}, description="How many of each it has.")


class KeyBody(Frozen):
    """A key to issue."""

    account_id: str
    name: Name = "default"
    domain_id: str | None = Field(None, description="The only domain that it may see; by default all.")


class KeyShown(TypedDict):
    """An API key."""

    key: str
    name: str
    account_id: str
    environment: str
    domain_id: str | None
    created_at: str
    withdrawn: bool


class KeyList(TypedDict):
    """Keys, in order of creation."""

    data: list[KeyShown]


class AccountShown(AccountHead):
    """An account, with its keys."""

    billing_anchor: str
    created_at: str
    keys: list[KeyShown]


class AccountList(TypedDict):
    """Accounts, in order of creation."""

    data: list[AccountShown]


class PlanList(TypedDict):
    """The plans and add-ons of the policy, as a policy file has them."""

    plans: Json
    add_ons: Json


class AccountQuery(Frozen):
    """Whose keys."""

    account_id: str | None = None


# Limits and faults


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
    """How many requests a rule delayed, failed and dropped."""

    delayed: int
    failed: int
    dropped: int


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
    times: int | None
    seen: int
    effects: EffectsShown


class FaultList(TypedDict):
    """The fault rules in force, in order."""

    data: list[FaultShown]


# Requests


class RequestsQuery(Frozen):
    """Which requests: those that have all of this. In operation and path * stands for anything."""

    operation: str | None = None
    method: str | None = None
    path: str | None = None
    key: str | None = None
    account_id: str | None = None
    environment: Environment | None = None
    surface: Literal["rest", "graphql"] | None = None
    status: int | None = None
    limit: Listed = LISTED


class VerifyBody(Frozen):
    """How many requests of a description are expected; by default at least one."""

    expected: Expected = Expected()
    times: int | None = Field(None, ge=0)
    at_least: int | None = Field(None, ge=0)
    at_most: int | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _check(self) -> VerifyBody:
        if self.times is not None and (self.at_least is not None or self.at_most is not None):
            raise ValueError("give times, or at_least and at_most")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError("at_least is more than at_most")
        return self

    def bounds(self) -> tuple[int, int | None]:
        """Return the least and the most."""
        if self.times is not None:
            return self.times, self.times
        if self.at_least is None:
            return (1 if self.at_most is None else 0), self.at_most
        return self.at_least, self.at_most


class NearBody(Frozen):
    """What is expected, and how many near misses to show."""

    expected: Expected
    limit: Annotated[int, Field(ge=1, le=100)] = NEAREST


class RequestShown(TypedDict):
    """A request and its response."""

    id: int
    at: str
    surface: str
    environment: str
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    operations: list[str]
    account_id: str | None
    key: str | None
    status: int
    dropped: bool
    """Whether a fault dropped the connection instead of sending the answer."""
    response_headers: dict[str, str]
    response: Any


class RequestList(TypedDict):
    """Requests, newest first; `count` of all that match, `forgotten` of those not remembered any more."""

    data: list[RequestShown]
    count: int
    forgotten: int


class CountShown(TypedDict):
    """How many."""

    count: int


class DifferenceShown(TypedDict):
    """One field in which a request is not as expected."""

    field: str
    expected: Any
    found: Any


class NearMissShown(TypedDict):
    """A request that is almost as expected, and all that tells it apart."""

    request: RequestShown
    differences: list[DifferenceShown]


class NearMissList(TypedDict):
    """Near misses, the nearest first."""

    data: list[NearMissShown]


class VerdictShown(TypedDict):
    """Whether as many came as were expected; `message` says it in words."""

    verified: bool
    count: int
    message: str
    near_misses: list[NearMissShown]


# Jobs, deliveries, state


class JobsQuery(Frozen):
    """Which jobs."""

    account_id: str | None = None
    domain_id: str | None = None
    kind: str | None = None
    status: Literal["queued", "running", "done", "failed"] | None = None
    limit: Listed = LISTED


class JobShown(TypedDict):
    """A job."""

    id: str
    account_id: str
    domain_id: str
    kind: str
    status: str
    created_at: str
    started_at: str | None
    finished_at: str | None
    due: str | None
    estimate: str
    cost: str
    error_detail: str | None


class JobList(TypedDict):
    """Jobs, newest first."""

    data: list[JobShown]


class FinishBody(Frozen):
    """How a job ends."""

    outcome: Literal["done", "failed"]
    error: str | None = Field(None, description="The error_detail of a job that fails.")
    cost: Money | None = Field(None, description="What it cost; by default its estimate.")


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


class EventsQuery(Frozen):
    """From where on: after a number, 0 for all that is remembered; by default from now on.

    With `most`, at most so many a second are sent, in portions, and what is more is told as missed.
    """

    after: Annotated[int, Field(ge=0)] | None = None
    most: Annotated[int, Field(ge=1, le=100_000)] | None = None


class Problem(TypedDict):
    """What went wrong, after RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
