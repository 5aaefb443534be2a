"""What a deployment let be read about itself: usage, cost, slots, entitlements and status, parsed once.

A statement says a number that was true at some instant of [low, high]. A refusal's meta is a statement too.
Whatever is missing or of another form is left out, never guessed (U61, U109).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Generic, TypeVar

from ranksim.clock import DAY, HOUR, SECOND, WEEK, Micros, instant
from ranksim.conformance.history import History
from ranksim.conformance.seen import NEVER, Seen

Json = Any

ItemT = TypeVar("ItemT")

MICRO_USD = 1_000_000
CUT = 2
"""µUSD that the sum of two amounts may lack as each is cut to the µUSD."""

ROUNDING = 5 * SECOND
"""How far the same instant may be told apart, and the clock of calendars be from that of the Date headers."""

RICHEST = 15
"""Digits of an amount of dollars; what has more is none."""


@dataclass(frozen=True, slots=True)
class Meter:
    """One metered allowance as it was stated (S38, S98). `ends` is its resets_at, None where not stated."""

    seen: Seen
    low: Micros
    high: Micros
    metric: str
    used: int
    limit: int | None = None
    remaining: int | None = None
    period: str = ""
    ends: Micros | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """The provider spend of a month as it was stated, µUSD (S62, S99, U96)."""

    seen: Seen
    low: Micros
    high: Micros
    spent: int | None = None
    settled: int | None = None
    reserved: int | None = None
    ceiling: int | None = None
    ends: Micros | None = None
    blur: int = 0
    """What rounding may have added to what is settled, or taken from it."""
    apart: int = 0
    """How far rounding may take what is spent from the sum of its parts."""


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of an account as they were stated (S37, U61)."""

    seen: Seen
    low: Micros
    high: Micros
    used: int
    active: int | None = None
    held: int | None = None
    limit: int | None = None
    available: int | None = None
    requested: int | None = None
    ends: Micros | None = None


@dataclass(frozen=True, slots=True)
class Entitled:
    """What a plan gives, as it was read (U109). Lengths of cooldowns in business µs, by operation."""

    seen: Seen
    capabilities: frozenset[str] | None
    cooldowns: Mapping[str, Micros]
    engine_devices: int | None
    geographies: int | None


@dataclass(frozen=True, slots=True)
class Health:
    """The status of a subscription, as it was read (S61)."""

    seen: Seen
    status: str


# Parsing


def meters_of(seen: Seen) -> list[Meter]:
    """Read the metered allowances of a usage reply."""
    data = plain(seen)
    rows = data.get("metrics")
    found = [meter_of(seen, row, seen.sent, seen.received) for row in rows] if isinstance(rows, list) else []
    return [meter for meter in found if meter is not None]


def meter_of(seen: Seen, row: Json, low: Micros, high: Micros) -> Meter | None:
    """Read one metered allowance, of usage or of the meta of quota_exhausted; None without its used."""
    if not isinstance(row, dict) or not isinstance(row.get("metric"), str):
        return None
    used = whole(row.get("used"))
    if used is None:
        return None
    return Meter(
        seen,
        low,
        high,
        row["metric"],
        used,
        limit_of(row.get("limit")),
        whole(row.get("remaining")),
        str(row.get("period", "")).lower(),
        moment(row.get("resets_at")),
    )


def cost_of(seen: Seen, row: Json, low: Micros, high: Micros) -> Cost | None:
    """Read the cost of a month, of usage or of the meta of cost_cap_reached; None when it states nothing."""
    if not isinstance(row, dict):
        return None
    spent, settled, reserved, ceiling = (
        money(row.get(name)) for name in ("spent", "settled", "reserved", "ceiling")
    )
    if spent is None and settled is None:
        return None
    ends, blur = moment(row.get("resets_at")), blur_of(row.get("settled"))
    apart = sum(blur_of(row.get(name)) for name in ("spent", "settled", "reserved")) + CUT
    return Cost(seen, low, high, spent, settled, reserved, ceiling, ends, blur, apart)


def slots_of(seen: Seen, row: Json, low: Micros, high: Micros) -> Slots | None:
    """Read slots, of GET slots or of the meta of slot_limit_exceeded; None without what is used."""
    if not isinstance(row, dict):
        return None
    numbers = {name: whole(row.get(name)) for name in ("used", "active", "held", "available", "requested")}
    numbers["limit"] = limit_of(row.get("limit"))
    used = numbers.pop("used")
    if used is None:
        return None
    return Slots(seen, low, high, used, **numbers, ends=moment(row.get("resets_at")))


def entitled_of(seen: Seen) -> Entitled:
    """Read the entitlements of a plan."""
    data = plain(seen)
    capabilities, cooldowns, dimensions = (
        data.get(name) for name in ("capabilities", "cooldown_seconds", "dimensions")
    )
    if isinstance(cooldowns, list):  # GraphQL has no maps
        cooldowns = {
            str(row.get("operation", "")).lower(): row.get("seconds")
            for row in cooldowns
            if isinstance(row, dict)
        }
    lengths = cooldowns if isinstance(cooldowns, dict) else {}
    most = dimensions if isinstance(dimensions, dict) else {}
    return Entitled(
        seen,
        frozenset(map(str, capabilities)) if isinstance(capabilities, list) else None,
        {name: seconds * SECOND for name, found in lengths.items() if (seconds := whole(found)) is not None},
        whole(most.get("engine_devices")),
        whole(most.get("geographies")),
    )


def plain(seen: Seen) -> dict[str, Json]:
    """Give the data of a single as a mapping in the names of REST; empty when it is none."""
    data = snaked(seen.data) if seen.surface == "graphql" else seen.data
    return data if isinstance(data, dict) else {}


def thing_of(seen: Seen) -> dict[str, Json]:
    """Give what a creation made, out of the payload that GraphQL wraps it in."""
    made = plain(seen)
    inner = [value for value in made.values() if isinstance(value, dict) and value]
    return inner[0] if seen.surface == "graphql" and "id" not in made and len(inner) == 1 else made


def body_of(seen: Seen) -> Mapping[str, Json]:
    """Give what a call sent, a GraphQL input in the names of REST; empty when it cannot be read."""
    if not isinstance(seen.body, dict):
        return {}
    if seen.surface != "graphql":
        return seen.body
    variables = seen.body.get("variables")
    given = variables.get("input") if isinstance(variables, dict) else None
    body = snaked(given) if isinstance(given, dict) and seen.operation else {}
    if isinstance(body.get("kind"), str):
        body["kind"] = body["kind"].lower()
    return body


def snaked(value: Json) -> Json:
    """Rename the members of GraphQL values as REST has them: resetsAt is resets_at."""
    if isinstance(value, dict):
        return {
            re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower(): snaked(inner) for name, inner in value.items()
        }
    if isinstance(value, list):
        return [snaked(inner) for inner in value]
    return value


def whole(value: Json) -> int | None:
    """Read an integer, which JSON may write as 20.0; None for anything else."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def limit_of(value: Json) -> int | None:
    """Read a limit; None for anything else, and for a negative number, which stands for no limit."""
    limit = whole(value)
    return None if limit is None or limit < 0 else limit


def money(value: Json) -> int | None:
    """Read an amount of dollars, text or number, as µUSD; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        amount = Decimal(str(value))
    except (InvalidOperation, ValueError):  # no number, or an integer of thousands of digits
        return None
    return int(amount * MICRO_USD) if amount.is_finite() and amount.adjusted() < RICHEST else None


def blur_of(value: Json) -> int:
    """Give what rounding may hide of an amount of dollars, µUSD: half of its last digit, or half a cent."""
    if money(value) is None:
        return 0
    exponent = Decimal(str(value)).as_tuple().exponent
    decimals = max(2, -exponent) if isinstance(exponent, int) else 2
    hidden: int = MICRO_USD // 10 ** min(decimals, 7) // 2
    return hidden


def sharpened(costs: Sequence[Cost]) -> list[Cost]:
    """Give what is settled the precision in which the same place wrote any amount of as many digits or more.

    Zeros at the end may be left out, so one amount alone does not tell it; small ones may be written finer.
    """
    finest: dict[tuple[str, str, int], int] = {}
    for cost in costs:
        for digits in range(_digits(cost) + 1):
            place = cost.seen.surface, cost.seen.operation, digits
            finest[place] = min(finest.get(place, cost.blur), cost.blur)
    return [
        replace(cost, blur=finest.get((cost.seen.surface, cost.seen.operation, _digits(cost)), 0))
        for cost in costs
    ]


def _digits(cost: Cost) -> int:
    return -1 if cost.settled is None else len(str(abs(cost.settled)))


def moment(value: Json) -> Micros | None:
    """Read an ISO 8601 instant; None for anything else."""
    try:
        return instant(value) if isinstance(value, str) else None
    except ValueError:
        return None


# By time

Statement = TypeVar("Statement", Meter, Cost, Slots)


def aligned(statements: Sequence[Statement]) -> list[Statement]:
    """Give one end to all statements of one period: an end computed for each reply anew may be rounded so."""
    ends: dict[Micros, Micros] = {}
    first = -NEVER
    for end in sorted({stated.ends for stated in statements if stated.ends is not None}):
        first = end if end - first > ROUNDING else first
        ends[end] = first
    return [
        stated if stated.ends is None else replace(stated, ends=ends[stated.ends]) for stated in statements
    ]


class Bracket(Generic[ItemT]):
    """Readings by time: the last that ended before an instant, and the first that began after one."""

    def __init__(self, items: Sequence[tuple[Micros, Micros, ItemT]]) -> None:
        self._by_high = sorted(items, key=lambda item: item[1])
        self._by_low = sorted(items, key=lambda item: item[0])
        self._highs = [item[1] for item in self._by_high]
        self._lows = [item[0] for item in self._by_low]

    def before(self, t: Micros) -> ItemT | None:
        """Give the last reading that surely was before `t`."""
        place = bisect_left(self._highs, t)
        return self._by_high[place - 1][2] if place else None

    def after(self, t: Micros) -> ItemT | None:
        """Give the first reading that surely was after `t`."""
        place = bisect_right(self._lows, t)
        return self._by_low[place][2] if place < len(self._by_low) else None


# The deployment's clock

LONGEST_WEEK = WEEK + 2 * HOUR
LONGEST_MONTH = 31 * DAY + 2 * HOUR
"""A week or a month of local time has an hour more where clocks are put back."""


@dataclass(frozen=True, slots=True)
class BusinessClock:
    """What the deployment's calendar said at an instant of the trace, and how fast its time ran."""

    history: History

    @property
    def rate(self) -> int:
        """Business time per trace time; 0 where it changed while running."""
        return self.history.rate

    def at(self, t: Micros) -> tuple[Micros, Micros] | None:
        """Give the earliest and latest business instant at `t`; None when unknown, as on a scaled clock.

        Business time is that of the Date headers, unless a note tells of another.
        """
        offset = self.history.offset
        if self.rate != 1 or any(pace.business is not None for pace in self.history.paces):
            return None
        return (t + offset.low, t + offset.high) if offset.known else None

    def passed(self, t: Micros, moment: Micros) -> bool | None:
        """Tell whether `moment` had come at `t`: True surely, False surely not, None when nobody can tell.

        A day too late or 40 too early, the deployment's calendar is not that of its Date header: None.
        """
        span = self.at(t)
        if span is None:
            return None
        if not span[0] - DAY <= moment <= span[1] + 40 * DAY:
            return None
        return True if span[0] >= moment + ROUNDING else False if span[1] < moment - ROUNDING else None
