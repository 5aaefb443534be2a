"""The books: every row of integers that a decision reads or writes, as one schema.

Each class here is at once the slotted object that the service keeps and, through `record_dtype`, the
NumPy record that compiled fleets keep. Fields are integers only: times in µs since the epoch, money in
µUSD, flags 0 or 1.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from ranksim.core.clock import DISTANT_PAST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike

UNLIMITED = -1
"""A meter limit that never refuses."""


@dataclass(slots=True)
class Window:
    """One rate window: an API key's allowance in one rate class (S102-S104, U1)."""

    kind: int = 0
    limit: int = 0
    length: int = 0
    counts_refused: int = 0
    full_reset: int = 0
    opened: int = 0
    count: int = 0
    previous: int = 0
    level: int = 0
    head: int = 0


class Charge(NamedTuple):
    """What a request takes of one window, by its name."""

    name: str
    window: Window
    ring: MutableSequence[int]
    units: int


@dataclass(slots=True)
class Meter:
    """One metered allowance of an account (S63, S108, S110). `period` is MONTH or WEEK."""

    limit: int = UNLIMITED
    used: int = 0
    ends: int = DISTANT_PAST
    period: int = 0


@dataclass(slots=True)
class Cooldown:
    """The minimum time before the same thing may be run again (S65, U46); `since` starts it."""

    length: int = 0
    since: int = DISTANT_PAST


@dataclass(slots=True)
class Books:
    """One account's standing: capabilities, health, provider spend of the month, slots."""

    capabilities: int = 0
    healthy: int = 1
    ceiling: int = 0
    settled: int = 0
    reserved: int = 0
    anchor: int = 0
    month_ends: int = DISTANT_PAST
    slot_limit: int = 0
    active: int = 0
    held: int = 0


@dataclass(slots=True)
class Ask:
    """What a call wants to spend.

    `checks` has bit k set when check k (1 to 6) applies (U58); `capability` is the bit needed; `beyond` is
    the check (1 or 5) that minds an exceeded plan dimension or cap, or 0 (U47, U59); `slots` counts tuples
    that become active and `revived` those among them that a hold already pays for (U63); `running` is 1 when
    the same rank run is queued or running (U45).
    """

    spend: int = 0
    checks: int = 0
    capability: int = 0
    beyond: int = 0
    estimate: int = 0
    units: int = 0
    slots: int = 0
    revived: int = 0
    running: int = 0
    dry_run: int = 0


@dataclass(slots=True)
class Terms:
    """The assumptions that admission reads, as integers (see `rules.terms`)."""

    join: int = 0
    cost_gate: int = 0
    cost_timing: int = 0
    spent_counts_reserved: int = 1
    cooldown_from_finish: int = 0
    week_offset: int = 0


ROWS = (Window, Meter, Cooldown, Books, Ask, Terms)


def record_dtype(row: type) -> np.dtype[np.void]:
    """Return the aligned NumPy record dtype of a row class: one int64 a field, in the order of the class."""
    import numpy as np  # only fleets keep records, and reading numpy takes longer than starting

    columns: list[tuple[str, DTypeLike]] = [(field.name, np.int64) for field in fields(row)]
    return np.dtype(columns, align=True)
