"""What became true in a step of the service, in the past tense: plain data for whoever observes it.

Each event has its instant `at` (µs since the epoch) first; within a step they stand in the order in which
they happened. They are handed out once, in the `Step` that caused them, and are no part of the saved state. A
call that only reads causes none.
"""

# Named tuples, since a step under load makes several of them: the cheapest records that do not change.
from typing import NamedTuple, TypeAlias

# Calls


class CallGranted(NamedTuple):
    """A spending call passed the six checks and was booked (S59)."""

    at: int
    account: str
    operation: str


class CallRefused(NamedTuple):
    """One of the six checks refused a call: `check` is its number, 1 to 6, `code` the error code (S59)."""

    at: int
    account: str
    operation: str
    check: int
    code: str


class CallJoined(NamedTuple):
    """A call joined the rank run that was under way already (U45)."""

    at: int
    account: str
    operation: str


class WindowRefused(NamedTuple):
    """A rate window had no room for a request (S100). `account` and `key`, its name, are "" without a key."""

    at: int
    account: str
    key: str
    operation: str
    rate_class: str


# Books


class PeriodTurned(NamedTuple):
    """A period was opened, up to `ends`: of the allowance `metric`, or the billing month where "" (U51)."""

    at: int
    account: str
    metric: str
    ends: int


class UnitsUsed(NamedTuple):
    """Units of a metered allowance were used (S63)."""

    at: int
    account: str
    metric: str
    units: int


class CostReserved(NamedTuple):
    """Provider cost, in µUSD, was reserved for accepted work (U49)."""

    at: int
    account: str
    amount: int


class CostSettled(NamedTuple):
    """Provider cost, in µUSD, was settled, and what was reserved for it `released` (U49)."""

    at: int
    account: str
    amount: int
    released: int


class SlotsTaken(NamedTuple):
    """Slots became active, `revived` of them out of holds (S24, U63)."""

    at: int
    account: str
    slots: int
    revived: int


class SlotsHeld(NamedTuple):
    """Active slots are held from now on, to the end of the billing month (S26, S27)."""

    at: int
    account: str
    slots: int


class SlotsFreed(NamedTuple):
    """Active slots became free at once (U62)."""

    at: int
    account: str
    slots: int


# Jobs


class JobQueued(NamedTuple):
    """A job was accepted (S13)."""

    at: int
    account: str
    domain: str
    job: str
    kind: str


class JobStarted(NamedTuple):
    """A job began to run (U39)."""

    at: int
    account: str
    domain: str
    job: str
    kind: str


class JobEnded(NamedTuple):
    """A job ended, "done" or "failed", at an actual provider cost in µUSD (U39, U49)."""

    at: int
    account: str
    domain: str
    job: str
    kind: str
    outcome: str
    cost: int
    error: str | None


# Webhooks


class DeliveryQueued(NamedTuple):
    """A webhook event is to be delivered to an endpoint (S76)."""

    at: int
    account: str
    endpoint: str
    delivery: int
    event: str


class AttemptMade(NamedTuple):
    """An attempt to deliver was handed out; `number` counts from 1 (S81)."""

    at: int
    account: str
    endpoint: str
    delivery: int
    attempt: int
    number: int


class AttemptAnswered(NamedTuple):
    """An attempt was answered, or had no answer, and what follows for its delivery (S87-S92, U69).

    `outcome` is "acknowledged", "retried" (at `next_attempt_at`), "exhausted" or "cancelled".
    """

    at: int
    account: str
    endpoint: str
    delivery: int
    attempt: int
    number: int
    outcome: str
    status_code: int | None
    error: str | None
    next_attempt_at: int | None


class DeliveryCancelled(NamedTuple):
    """A delivery that waited for its next attempt will have none (U69, U84)."""

    at: int
    account: str
    endpoint: str
    delivery: int


class DeliverySuppressed(NamedTuple):
    """A job event was not sent to an endpoint that takes its type, as that is disabled (S22, S91, U69)."""

    at: int
    account: str
    endpoint: str
    domain: str
    job: str
    by_account: bool


class EndpointDisabled(NamedTuple):
    """An endpoint was disabled, by its account or after failures: the `reason` says which (S22, S91)."""

    at: int
    account: str
    endpoint: str
    reason: str
    by_account: bool


class EndpointEnabled(NamedTuple):
    """An endpoint was enabled again (U70)."""

    at: int
    account: str
    endpoint: str


ServiceEvent: TypeAlias = (
    CallGranted
    | CallRefused
    | CallJoined
    | WindowRefused
    | PeriodTurned
    | UnitsUsed
    | CostReserved
    | CostSettled
    | SlotsTaken
    | SlotsHeld
    | SlotsFreed
    | JobQueued
    | JobStarted
    | JobEnded
    | DeliveryQueued
    | AttemptMade
    | AttemptAnswered
    | DeliveryCancelled
    | DeliverySuppressed
    | EndpointDisabled
    | EndpointEnabled
)
"""Anything that a step can say."""
