"""What a deployment let be read about itself: usage, cost, slots, entitlements and status, parsed once.

A statement says a number that was true at some instant of [low, high]. A refusal's meta is a statement too.
Whatever is missing or of another form is left out, never guessed (U61, U109).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any, Generic, TypeVar

from ranksim.core.clock import DAY, DISTANT_PAST, HOUR, SECOND, WEEK, Micros
from ranksim.core.money import MICRO_USD
from ranksim.judge.conformance.history.fields import instant_or_none, integer_or_none, plain
from ranksim.judge.conformance.history.history import ObservedRun
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.spending.counter_bounds import Interval, Sample

Json = Any

CUT = 2
"""µUSD that the sum of two amounts may lack as each is cut to the µUSD."""

ROUNDING = 5 * SECOND
"""How far the same instant may be told apart, and the clock of calendars be from that of the Date headers."""

SPENT = ("spent", "amount_spent")
"""Names of what a month has cost (U96)."""

RICHEST = 15
"""Digits of an amount of dollars; what has more is none."""


@dataclass(slots=True)
class Statement(Interval):
    """What an exchange stated, which was true at an instant of [low, high]."""

    exchange: Observation


@dataclass(slots=True)
class CounterStatement(Statement):
    """A counter as it was stated. `ends` is its resets_at, None where not stated."""

    used: int
    limit: int | None = None
    ends: Micros | None = None

    @property
    def sample(self) -> Sample:
        """It as a reading of the counter; without an end in the period 0."""
        return Sample(self.low, self.high, self.used, self.ends or 0, self.exchange.id, self.limit)


@dataclass(slots=True)
class MeterStatement(CounterStatement):
    """One metered allowance as it was stated (S38, S98)."""

    metric: str = ""
    remaining: int | None = None
    period: str = ""

    @property
    def about(self) -> str:
        """Name it in evidence."""
        return f"{self.metric} ({self.period or 'no period'})"


@dataclass(slots=True)
class SlotStatement(CounterStatement):
    """The slots of an account as they were stated (S37, U61)."""

    active: int | None = None
    held: int | None = None
    available: int | None = None
    requested: int | None = None


@dataclass(slots=True)
class CostStatement(Statement):
    """The provider spend of a month as it was stated, µUSD (S62, S99, U96)."""

    spent: int | None = None
    settled: int | None = None
    reserved: int | None = None
    ceiling: int | None = None
    ends: Micros | None = None
    blur: int = 0
    """What rounding may have added to what is settled, or taken from it."""
    apart: int = 0
    """How far rounding may take what is spent from the sum of its parts."""

    period = "month"
    about = "the month's spend"
    """How it is named in evidence."""


@dataclass(slots=True)
class EntitlementStatement(Statement):
    """What a plan gives, as it was read (U109). Lengths of cooldowns in business µs, by operation."""

    capabilities: frozenset[str] | None
    cooldowns: Mapping[str, Micros]
    engine_devices: int | None
    geographies: int | None


@dataclass(slots=True)
class StatusStatement(Statement):
    """The status of a subscription, as it was read (S61)."""

    status: str


@dataclass(slots=True)
class StatedNumber(Statement):
    """A number that works alone can raise, as a reply stated it; `by` has those that surely do (S51-S58).

    Numbers are compared where `ends`, and what stands beside them, are the same.
    """

    what: str
    value: int
    ends: tuple[Micros | None, Hashable]
    by: Collection[str] = ()


# Parsing


def meters_of(exchange: Observation) -> list[MeterStatement]:
    """Read the metered allowances of a usage reply."""
    rows = plain(exchange).get("metrics")
    meters = [meter_of(exchange, row, exchange.sent) for row in (rows if isinstance(rows, list) else ())]
    return [meter for meter in meters if meter is not None]


def meter_of(exchange: Observation, row: Json, low: Micros) -> MeterStatement | None:
    """Read one metered allowance, of usage or of the meta of quota_exhausted; None without its used."""
    if not isinstance(row, dict) or not isinstance(row.get("metric"), str):
        return None
    used = integer_or_none(row.get("used"))
    if used is None:
        return None
    limit, ends, remaining = (
        limit_of(row.get("limit")),
        instant_or_none(row.get("resets_at")),
        integer_or_none(row.get("remaining")),
    )
    period = str(row.get("period", "")).lower()
    return MeterStatement(
        low, exchange.received, exchange, used, limit, ends, row["metric"], remaining, period
    )


def cost_of(exchange: Observation, row: Json, low: Micros) -> CostStatement | None:
    """Read the cost of a month, of usage or of the meta of cost_cap_reached; None when it states nothing."""
    if not isinstance(row, dict):
        return None
    settled, reserved, ceiling = (parse_money(row.get(name)) for name in ("settled", "reserved", "ceiling"))
    spent = spent_of(row)
    if spent is None and settled is None:
        return None
    ends, blur = instant_or_none(row.get("resets_at")), blur_of(row.get("settled"))
    apart = sum(blur_of(row.get(name)) for name in ("spent", "settled", "reserved")) + CUT
    return CostStatement(
        low, exchange.received, exchange, spent, settled, reserved, ceiling, ends, blur, apart
    )


def spent_of(row: Mapping[str, Json]) -> int | None:
    """Read what a month has cost, µUSD: S99 has it as the amount spent."""
    return next((amount for name in SPENT if (amount := parse_money(row.get(name))) is not None), None)


def slots_of(exchange: Observation, row: Json, low: Micros) -> SlotStatement | None:
    """Read slots, of GET slots or of the meta of slot_limit_exceeded; None without what is used."""
    if not isinstance(row, dict):
        return None
    numbers = {name: integer_or_none(row.get(name)) for name in ("active", "held", "available", "requested")}
    if numbers["requested"] is None:
        numbers["requested"] = integer_or_none(row.get("needed"))
    used, limit, ends = (
        integer_or_none(row.get("used")),
        limit_of(row.get("limit")),
        instant_or_none(row.get("resets_at")),
    )
    return (
        None
        if used is None
        else SlotStatement(low, exchange.received, exchange, used, limit, ends, **numbers)
    )


def entitled_of(exchange: Observation) -> EntitlementStatement:
    """Read the entitlements of a plan."""
    data = plain(exchange)
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
    seconds = {name: integer_or_none(length) for name, length in lengths.items()}
    most = dimensions if isinstance(dimensions, dict) else {}
    return EntitlementStatement(
        exchange.sent,
        exchange.received,
        exchange,
        frozenset(map(str, capabilities)) if isinstance(capabilities, list) else None,
        {name: length * SECOND for name, length in seconds.items() if length is not None},
        integer_or_none(most.get("engine_devices")),
        integer_or_none(most.get("geographies")),
    )


def limit_of(value: Json) -> int | None:
    """Read a limit; None for anything else, and for a negative number, which stands for no limit."""
    limit = integer_or_none(value)
    return None if limit is None or limit < 0 else limit


def parse_money(value: Json) -> int | None:
    """Read an amount of dollars, text or number or one beside its currency, as µUSD; None for all else."""
    if isinstance(value, dict):
        value = value.get("amount")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        amount = Decimal(str(value))
    except (InvalidOperation, ValueError):  # no number, or an integer of thousands of digits
        return None
    return int(amount * MICRO_USD) if amount.is_finite() and amount.adjusted() < RICHEST else None


def blur_of(value: Json) -> int:
    """Return what rounding may hide of an amount of dollars, µUSD: half of its last digit, or half a cent."""
    if parse_money(value) is None:
        return 0
    exponent = Decimal(str(value)).as_tuple().exponent
    decimals = max(2, -exponent) if isinstance(exponent, int) else 2
    hidden: int = MICRO_USD // 10 ** min(decimals, 7) // 2
    return hidden


def sharpened(costs: Sequence[CostStatement]) -> list[CostStatement]:
    """Return costs as precise as the same place wrote any settled amount of as many digits or more.

    Zeros at the end may be left out, so one amount alone does not tell it; small ones may be written finer.
    """
    finest: dict[tuple[str, str, int], int] = {}
    for cost in costs:
        for digits in range(_digits(cost) + 1):
            place = cost.exchange.surface, cost.exchange.operation, digits
            finest[place] = min(finest.get(place, cost.blur), cost.blur)
    return [
        replace(cost, blur=finest.get((cost.exchange.surface, cost.exchange.operation, _digits(cost)), 0))
        for cost in costs
    ]


def _digits(cost: CostStatement) -> int:
    return -1 if cost.settled is None else len(str(abs(cost.settled)))


# By time

StatementT = TypeVar("StatementT", MeterStatement, CostStatement, SlotStatement)


def aligned(statements: Sequence[StatementT]) -> list[StatementT]:
    """Return statements with one end a period: an end computed for each reply anew may be rounded so."""
    ends: dict[Micros, Micros] = {}
    first = DISTANT_PAST
    for end in sorted({stated.ends for stated in statements if stated.ends is not None}):
        first = end if end - first > ROUNDING else first
        ends[end] = first
    return [
        stated if stated.ends is None else replace(stated, ends=ends[stated.ends]) for stated in statements
    ]


ReadingT = TypeVar("ReadingT", Sample, SlotStatement, CostStatement, StatedNumber)


def neighbours(readings: Iterable[ReadingT]) -> Iterator[tuple[ReadingT, ReadingT]]:
    """Yield each two that follow each other in a period, the first made before the second was asked for."""
    for first, second in pairwise(readings):
        if first.high < second.low and first.ends == second.ends:
            yield first, second


ItemT = TypeVar("ItemT", bound=Interval)
KeyT = TypeVar("KeyT")


class Bracket(Generic[ItemT]):
    """Readings by time: the last that ended before an instant, and the first that began after one."""

    def __init__(self, items: Iterable[ItemT]) -> None:
        readings = list(items)
        self._by_high = sorted(readings, key=lambda item: item.high)
        self._by_low = sorted(readings, key=lambda item: item.low)
        self._highs = [item.high for item in self._by_high]
        self._lows = [item.low for item in self._by_low]

    def before(self, t: Micros) -> ItemT | None:
        """Return the last reading that surely was before `t`."""
        place = bisect_left(self._highs, t)
        return self._by_high[place - 1] if place else None

    def after(self, t: Micros) -> ItemT | None:
        """Return the first reading that surely was after `t`."""
        place = bisect_right(self._lows, t)
        return self._by_low[place] if place < len(self._by_low) else None

    def around(self, call: Interval) -> tuple[ItemT, ItemT] | None:
        """Return the readings next to a call, on both sides; None where one is missing."""
        before, after = self.before(call.low), self.after(call.high)
        return None if before is None or after is None else (before, after)


def brackets(items: Iterable[ItemT], key: Callable[[ItemT], KeyT]) -> dict[KeyT, Bracket[ItemT]]:
    """Return readings by time, those of each key apart."""
    grouped: dict[KeyT, list[ItemT]] = defaultdict(list)
    for item in items:
        grouped[key(item)].append(item)
    return {name: Bracket(group) for name, group in grouped.items()}


# The deployment's clock

LONGEST_WEEK = WEEK + 2 * HOUR
LONGEST_MONTH = 31 * DAY + 2 * HOUR
"""A week or a month of local time has an hour more where clocks are put back."""

SHORTEST = {"week": WEEK - 2 * HOUR, "month": 28 * DAY - 2 * HOUR}
"""And an hour less where they are put forward."""


@dataclass(frozen=True, slots=True)
class BusinessClock:
    """What the deployment's calendar said at an instant of the trace, and how fast its time ran."""

    run: ObservedRun

    @property
    def rate(self) -> int:
        """Business time per trace time; 0 where it changed while running."""
        return self.run.rate

    def at(self, t: Micros) -> tuple[Micros, Micros] | None:
        """Return the earliest and latest business instant at `t`; None when unknown, as on a scaled clock.

        Business time is that of the Date headers, unless a note tells of another.
        """
        offset = self.run.offset
        if self.rate != 1 or any(pace.business is not None for pace in self.run.paces):
            return None
        return (t + offset.low, t + offset.high) if offset.bounded else None

    def passed(self, t: Micros, moment: Micros) -> bool | None:
        """Return whether `moment` had come at `t`: True surely, False surely not, None when nobody can tell.

        A day too late or 40 too early, the deployment's calendar is not that of its Date header: None.
        """
        span = self.at(t)
        if span is None:
            return None
        if not span[0] - DAY <= moment <= span[1] + 40 * DAY:
            return None
        return True if span[0] >= moment + ROUNDING else False if span[1] < moment - ROUNDING else None

    def in_period(self, t: Micros, ends: Micros, period: str) -> bool:
        """Return whether `t` surely lay in the week or month that ends at an instant."""
        span, length = self.at(t), SHORTEST.get(period)
        if span is None or length is None or self.passed(t, ends) is not False:
            return False
        return span[0] >= ends - length + ROUNDING
