"""The fleet's own rows: like `rules.books`, each class is a slotted object and a NumPy record of int64.

Times are in µs since the epoch, money in µUSD, flags 0 or 1. `rules.books` has the rows that the rules read.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksim.core.clock import DISTANT_PAST
from ranksim.core.contract.facts import Decision, Spend
from ranksim.core.rules.books import ROWS, Cooldown, Meter, record_dtype

Records = NDArray[np.void]
Integers = NDArray[np.int64]

READ = 7
WRITE = 8
REMOVE = 9

ACTIVITIES = (*(spend.label for spend in Spend), "read", "write", "remove_keywords")
"""What a customer does: the seven spending operations by number, then reads, writes and removals."""

LIMITED = 8

OUTCOMES = (*(refusal.code for refusal in Decision), "rate_limited")
"""What becomes of a call: granted, refused by check 1 to 6, joined, or refused by the rate limit."""

NOT_FOUND = 9
"""The outcome of a recorded call about what was not made, as the call that would have made it was refused."""

FAULTY = 10
"""The outcome of a recorded call that was faulty, and stays so."""

UNSTATED = 11
"""What is recorded of a call that was refused where no code says why."""

CODELESS = (402, 403, 409)
"""The statuses of refusals that no status tells from one another."""

REFUSED = (LIMITED, 1, 2, 3, 4, 5, 6)
"""The outcomes that are refusals, in the order in which a call meets them."""

LIFTED = (1, 3, 4, 5)
"""The refusals that another plan or add-on can lift."""

HEALING = (LIMITED, 3, 4, 5, 6)
"""The refusals that depend on use: rate limit, ceiling, quota, slots, cooldown."""


# What is given


@dataclass(slots=True)
class CustomerRow:
    """One account of a population. It is served from `joins` to `leaves`; `gap` is the mean time between
    its calls (µs) where rhythm and growth are at their average; `slots_wanted` is the portfolio it came with,
    which its plan may have cut.
    """

    number: int = 0
    segment: int = 0
    offer: int = 0
    healthy: int = 1
    anchor: int = 0
    joins: int = 0
    leaves: int = 0
    zone: int = 0
    gap: int = 0
    domains: int = 0
    slots_wanted: int = 0


@dataclass(slots=True)
class DomainRow:
    """One domain: its keywords, how many slots each takes, what jobs find, when its rank run ends."""

    keywords: int = 0
    tuples: int = 0
    pages: int = 0
    questions: int = 0
    run_ends: int = DISTANT_PAST


@dataclass(slots=True)
class SegmentRow:
    """How the customers of one segment are: scans they order, even arrivals, refused calls kept in mind."""

    pairings: int = 1
    places: int = 1
    steady: int = 0
    backlog: int = 0


@dataclass(slots=True)
class RequestSize:
    """How many keywords a segment's request of one activity brings: `least` to `most`, evenly."""

    least: int = 1
    most: int = 1


@dataclass(slots=True)
class Reaction:
    """What a segment does about one kind of refusal.

    It comes back with a chance of `chance` in 2**53, up to `tries` tries: when told, or (`backs_off`) after a
    draw below `first` µs, doubled with each try up to `most`.
    """

    chance: int = 0
    tries: int = 1
    backs_off: int = 0
    first: int = 0
    most: int = 0


@dataclass(slots=True)
class Offer:
    """What one plan with its add-ons gives, as far as it is not a meter or a cooldown."""

    capabilities: int = 0
    ceiling: int = 0
    slot_limit: int = 0
    pairings: int = 0
    places: int = 0


@dataclass(slots=True)
class OperationRow:
    """What one activity means under one offer; `meter` is -1 where it consumes no metric."""

    spend: int = -1
    rate_class: int = 0
    checks: int = 0
    capability: int = 0
    meter: int = -1
    cooldown: int = 0
    unit_cost: int = 0
    cap: int = 0


@dataclass(slots=True)
class ServiceTerms:
    """The assumptions that the service itself minds, as integers (U3, U46, U47, U50, U59, U62, U64)."""

    debits_write: int = 0
    cooldown_by_domain: int = 1
    cap_refuses: int = 0
    partial_quota: int = 0
    partial_slots: int = 0
    dimension_check: int = 1


# What is kept while an account is served


@dataclass(slots=True)
class DrawnRequest:
    """One request as it was drawn, which no decision changes; its number is its place among its account's."""

    at: int = 0
    activity: int = 0
    domain: int = 0
    size: int = 0


@dataclass(slots=True)
class RequestRow:
    """One request on its way: `tries` counts this try, `domain` is the row, `size` the keywords it brings.

    `wanted` is of a recorded job one more than the units that it wants, 0 where nobody says.
    """

    at: int = 0
    number: int = 0
    tries: int = 1
    activity: int = 0
    domain: int = 0
    size: int = 0
    wanted: int = 0
    outcome: int = 0
    until: int = 0


@dataclass(slots=True)
class LoggedRequest(RequestRow):
    """A request in the log, with the number of its account."""

    account: int = 0


@dataclass(slots=True)
class CallRow:
    """One recorded call: what it was, what it got then, and what it gets now.

    `account` and `domain` are rows, the domain's counted within the account; `key` is the row of its API key,
    -1 for the web app, which no rate limit minds. An `idle` call is charged and does nothing: 1 for a dry
    run, 2 for one that was faulty. `size` is the keywords it brings, or of a job one more than the
    units that it wants, 0 where nobody says; `pairings` × `places` are the tuples of a scan. It finds nothing
    unless the call that makes what it `needs` was granted, by number, -1 for none. `lasts` is how long the
    job that it asks for ran when recorded (µs), -1 where nobody says, and `fails` is 1 where it then failed.
    It then cost `costs`, `estimated` at so much (µUSD), which is 0 where it costs what is estimated.
    `recorded` is the outcome then, -1 where none is known; `outcome` and `amount` (µUSD) the kernel fills in.
    """

    account: int = 0
    key: int = -1
    at: int = 0
    activity: int = 0
    idle: int = 0
    domain: int = 0
    size: int = 0
    pairings: int = 0
    places: int = 0
    needs: int = -1
    makes: int = -1
    lasts: int = -1
    fails: int = 0
    costs: int = 0
    estimated: int = 0
    recorded: int = -1
    outcome: int = 0
    amount: int = 0


@dataclass(slots=True)
class ActivityRate:
    """How fast time passes for a customer: `weight` of AVERAGE until `ends`; `steady` for even arrivals."""

    ends: int = DISTANT_PAST
    weight: int = 0
    steady: int = 0


@dataclass(slots=True)
class Queue:
    """The refused requests that a customer will make again: how many, and which comes first, when."""

    count: int = 0
    first: int = 0
    due: int = 0


@dataclass(slots=True)
class RunCooldown(Cooldown):
    """A cooldown that begins when a run ends, once `finish` is reached (U46)."""

    finish: int = DISTANT_PAST


@dataclass(slots=True)
class FailingJob:
    """The last job under a cooldown that fails `at` an instant (µs), as was recorded, accepted at `since`.

    That is DISTANT_PAST where there is none. The cooldown began `before` it, and counts from then again.
    """

    at: int = DISTANT_PAST
    since: int = DISTANT_PAST
    before: int = DISTANT_PAST


@dataclass(slots=True)
class FailureTerms:
    """Whether a job that failed `arms` its cooldown (U46), else `clears` that of jobs before it (U91)."""

    arms: int = 0
    clears: int = 0


# What comes out


@dataclass(slots=True)
class Allowance(Meter):
    """A meter that remembers: `peak` is the most used in one period, `wanted_peak` the most asked for.

    Asked for is what first tries ask for, granted or not; `wanted` counts it until `wanted_ends`.
    """

    peak: int = 0
    wanted: int = 0
    wanted_ends: int = DISTANT_PAST
    wanted_peak: int = 0


@dataclass(slots=True)
class AccountTally:
    """Totals of one account; `requests` counts first tries, `calls` every try."""

    requests: int = 0
    calls: int = 0
    given_up: int = 0
    spend: int = 0
    slots_peak: int = 0
    slots_wanted: int = 0
    month: int = 0


@dataclass(slots=True)
class Month:
    """One billing month of one account, which ends before `ends`."""

    ends: int = 0
    calls: int = 0
    admitted: int = 0
    refused: int = 0
    limited: int = 0
    spend: int = 0
    slots_peak: int = 0
    blocked: int = 0


@dataclass(slots=True)
class BlockedSpan:
    """How long one kind of refusal blocked an account: its first instant, its end so far, its length."""

    first: int = DISTANT_PAST
    until: int = DISTANT_PAST
    total: int = 0


def to_records(rows: Iterable[Any], row: type) -> Records:
    """Return rows as an aligned record array, shape (n,)."""
    values = attrgetter(*(field.name for field in fields(row)))
    return np.array([values(each) for each in rows], dtype=record_dtype(row))


def to_rows(records: Records) -> Any:
    """Return a record array as slotted rows: lists as deep as the array has dimensions."""
    if records.ndim > 1:
        return [to_rows(inner) for inner in records]
    row = ROW_OF[records.dtype.names or ()]
    return [row(*values) for values in records.tolist()]


ROW_OF: dict[tuple[str, ...], type] = {
    tuple(field.name for field in fields(row)): row
    for row in (*ROWS, *globals().values())
    if isinstance(row, type) and is_dataclass(row)
}
"""The row class of the records with these fields."""


def blank(shape: int | tuple[int, ...], row: type) -> Records:
    """Return a record array of that shape in which every row has its defaults."""
    records = np.zeros(shape, dtype=record_dtype(row))
    records[...] = to_records([row()], row)[0]
    return records
