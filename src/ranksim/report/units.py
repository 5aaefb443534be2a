"""Numbers as people read them: counts, shares, money, durations and instants, each with its unit."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

from ranksim.core.clock import DAY, HOUR, MILLISECOND, MINUTE, SECOND, format_duration, iso
from ranksim.core.money import MICRO_USD
from ranksim.inference.shares import unseen

Number: TypeAlias = int | float

MINUS = "−"

_GRAINS = (
    (MILLISECOND, 1),
    (10 * MILLISECOND, 10),
    (100 * MILLISECOND, 100),
    (SECOND, MILLISECOND),
    (MINUTE, 100 * MILLISECOND),
    (HOUR, SECOND),
    (DAY, MINUTE),
    (math.inf, HOUR),
)
"""Up to which duration which part of it can still be read (µs)."""


def count(value: Number) -> str:
    """A count with thousands separators; a mean of counts keeps what decimals matter: 1,234 or 12.5."""
    if value == int(value) or abs(value) >= 1000:
        return _signed(f"{value:,.0f}")
    return _signed(f"{value:.1f}".removesuffix(".0") if abs(value) >= 1 else f"{value:.2g}")


def percent(value: Number) -> str:
    """A share between 0 and 1 as a percentage: 12.5 %."""
    return _signed(f"{value * 100:.1f}".removesuffix(".0")) + " %"


LEAST_POINTS = 0.0005
"""From this difference of two shares on it is told to a tenth of a point, as shares are."""


def percentage_points(value: Number) -> str:
    """A difference of two shares in percentage points: 2.5 points; a smaller one by two digits: 0.042."""
    points = f"{value * 100:.1f}".removesuffix(".0")
    if abs(value) < LEAST_POINTS:
        points = f"{float(f'{value * 100:.2g}'):.4f}".rstrip("0").rstrip(".")
    return _signed(points) + " points"


def difference_of(quantity: str) -> str:
    """The quantity that differences of a quantity are told in: of shares points, of instants durations."""
    return {"share": "points", "instant": "duration"}.get(quantity, quantity)


def difference_unit(unit: str) -> str:
    """The unit that differences of numbers of a unit have: of instants durations, and else the same."""
    return "duration" if unit == "instant" else unit


def gain(value: Number | None, low: Number | None = None, high: Number | None = None) -> str:
    """How many times fewer runs something needs, and between what: 5.9 (2.4 to 15), 160."""
    if value is None:
        return text(None)
    return (
        _times(value) if low is None or high is None else f"{_times(value)} ({_times(low)} to {_times(high)})"
    )


def _times(value: Number) -> str:
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.2g}"


def many(number: Number, noun: str) -> str:
    """A number of things in words: 1 rule, 2 rules."""
    text = count(number)
    return f"{text} {noun}{'' if text == '1' else 's'}"


def counted_names(names: Iterable[str]) -> str:
    """How many there are of each name, in words: 2 × set, 1 × add_domains."""
    return ", ".join(f"{count(number)} × {name}" for name, number in Counter(names).items())


def first_of(names: Sequence[str], most: int) -> str:
    """Name the first of several, and say how many more there are."""
    more = f" and {count(len(names) - most)} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def indefinite(noun: str) -> str:
    """A thing in words, by its first letter: a crawl job, an ai_scan job."""
    return f"a{'n' if noun[:1] in tuple('aeio') else ''} {noun}"


def level(value: Number) -> str:
    """A confidence, a target or a risk as it was asked for, not rounded: 95 %, 99.95 %."""
    return f"{100 * value:.10g} %"


def usd(micros: Number) -> str:
    """An amount in micro-dollars as dollars: 1,234.50 USD; below ten cents with three digits that matter."""
    return _usd(micros, _decimals(micros))


def duration(us: Number) -> str:
    """A duration in microseconds as files write it, rounded to what can be read: 4m30s, 2d6h, 1.5s, 250ms.

    To its two largest units; below a minute to tenths of a second, below a second to three digits. Below a
    millisecond it is in µs, as they are written everywhere else.
    """
    if us < 0:
        return (MINUS + duration(-us)).replace(MINUS + "0s", "0s")
    rounded = (round(us / grain) * grain for _, grain in _GRAINS)
    text = format_duration(next(to for to, (most, _) in zip(rounded, _GRAINS, strict=True) if to < most))
    return text.replace("us", "µs")


def instant(t: Number) -> str:
    """An instant as ISO 8601 UTC, to the second."""
    return iso(round(t / SECOND) * SECOND)


def text(value: Any) -> str:
    """Anything else, as it is; nothing is a dash."""
    return "–" if value is None or value == "" else str(value)


FORMATS: dict[str, Callable[[Number], str]] = {
    "count": count,
    "share": percent,
    "points": percentage_points,
    "money": usd,
    "duration": duration,
    "instant": instant,
}
"""Quantity to the function that writes it."""


def write(quantity: str, value: Any, low: Number | None = None, high: Number | None = None) -> str:
    """A value of a quantity (a key of `FORMATS`), and its interval, where it has one that is wide.

    An interval with the value in its middle is told by its half, another by both ends; the unit stands once:
    −5,230 ± 272 USD, 12 (10.8 to 14), 21.6 (20 to 24) %. A whole count to which both ends round
    stands alone, and what would be ± 0.
    """
    form = FORMATS.get(quantity)
    if form is None or value is None or isinstance(value, str):
        return text(value)
    if low is None or high is None or form(low) == form(high):
        return form(value)
    if quantity == "count" and value == int(value) and max(value - low, high - value) < HALF:
        return form(value)
    unit = UNITS.get(quantity, "")
    if quantity == "money":
        form = _form_of_money(value, low, high)
    halves = {_half(quantity, form, value - low), _half(quantity, form, high - value)}
    if halves == {form(0)}:
        return form(value)
    if len(halves) == 1 and quantity != "instant":
        return f"{form(value).removesuffix(unit)} ± {halves.pop().removesuffix(unit)}{unit}"
    ends = f"{form(low).removesuffix(unit)} to {form(high).removesuffix(unit)}"
    return f"{form(value).removesuffix(unit)} ({ends}){unit}"


def two_sides(quantity: str, a: Any, b: Any, difference: Any) -> tuple[str, str]:
    """Two values of a quantity, with the decimals that it takes for their difference to be as it is written.

    0.45 % less 0.57 % are −0.1 points, 0.4 % less 0.6 % are not. Durations and instants are written as
    `write` has them.
    """
    usual = write(quantity, a), write(quantity, b)
    if quantity not in SIZES or None in (a, b, difference):
        return usual
    form, size, unit = FORMATS[difference_of(quantity)], SIZES[quantity], UNITS.get(quantity, "")

    def agree(texts: tuple[str, str]) -> bool:
        first, second = (
            float(side.removesuffix(unit).replace(",", "").replace(MINUS, "-")) * size for side in texts
        )
        return form(second - first) == form(difference)

    least = 1 + max(len(side.removesuffix(unit).partition(".")[2]) for side in usual)
    finer = (
        (_signed(f"{a / size:,.{decimals}f}") + unit, _signed(f"{b / size:,.{decimals}f}") + unit)
        for decimals in range(least, MOST_DECIMALS + 1)
    )
    return usual if agree(usual) else next(filter(agree, finer), usual)


def in_prose(quantity: str, value: Any, low: Number | None = None, high: Number | None = None) -> str:
    """A value as `write` has it, but a count on which all of few replications agree stands alone."""
    if quantity != "count" or not value or high is None or value != int(value):
        return write(quantity, value, low, high)
    agreed = any(math.isclose(high - value, unseen(n), abs_tol=1e-6) for n in range(2, FEW + 1))
    return count(value) if agreed else write(quantity, value, low, high)


HALF = 0.5
"""What is nearer to a whole number rounds to it."""

FEW = 5
"""Of so many replications at most those that agree may differ from others by more than that."""

UNITS = {"share": " %", "points": " points", "money": " USD"}
"""Quantities whose unit is the same for every value."""

SIZES = {"share": 0.01, "count": 1, "money": MICRO_USD}
"""Quantities that are written with decimals, and what 1 of their unit is."""

MOST_DECIMALS = 6
"""The most decimals of two values whose difference is told."""

WHOLE = 10 * MICRO_USD
"""From this half of an interval on, cents say nothing (µUSD)."""


def _form_of_money(value: Number, low: Number, high: Number) -> Callable[[Number], str]:
    no_cents = min(abs(value - low), abs(high - value)) >= WHOLE
    return partial(_usd, decimals=0 if no_cents else _decimals(value or high or low))


def _half(quantity: str, form: Callable[[Number], str], width: Number) -> str:
    """Half an interval; of durations two digits are enough, of all else three."""
    return form(float(f"{width:.{2 if quantity == 'duration' else 3}g}"))


def _decimals(micros: Number) -> int:
    if not 0 < abs(micros) < 100_000:
        return 2
    return min(6, 8 - math.floor(math.log10(abs(micros))))


def _usd(micros: Number, decimals: int) -> str:
    number = f"{micros / MICRO_USD:,.{decimals}f}"
    return _signed(number.rstrip("0").rstrip(".") if decimals > 2 else number) + " USD"


def _signed(number: str) -> str:
    """A number with a proper minus; what rounds to nothing has none."""
    if not number.startswith("-"):
        return number
    return MINUS + number[1:] if number.strip("-0.") else number[1:]
