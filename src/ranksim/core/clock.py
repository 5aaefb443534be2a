"""Integer time: microseconds since the epoch, UTC, and the calendar arithmetic that the rules need.

An *instant* is a count of microseconds since 1970-01-01T00:00:00Z, a *duration* a count of microseconds.
Days have 86 400 seconds and the calendar is the proleptic Gregorian one. Nothing here reads a clock.

The arithmetic (everything but the functions on text) is integers alone, so that Numba compiles the same
functions unchanged.
"""

import re
from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache
from operator import index
from typing import TypeAlias

Micros: TypeAlias = int

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

DISTANT_PAST: Micros = -(2**62)
"""An instant before every other, for what has not happened yet."""

DISTANT_FUTURE: Micros = 2**62
"""An instant after every other, for what will not happen."""

_INSTANT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?(Z|([+-])([0-9]{2}):?([0-9]{2})))?"
)
_DURATION = re.compile(
    r"(-?)(?:([0-9]+)w)?(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?"
    r"(?:([0-9]+)(?:\.([0-9]{1,6}))?s)?(?:([0-9]+)(?:\.([0-9]{1,3}))?ms)?(?:([0-9]+)[uµ]s)?"
)
_WHOLE_UNITS = (("d", DAY), ("h", HOUR), ("m", MINUTE))
_UNIT_SIZES = (WEEK, DAY, HOUR, MINUTE, SECOND, MILLISECOND, 1)
_TWO_DIGITS = tuple(f"{number:02d}" for number in range(60))


# Text


class NoSuchInstant(ValueError):
    """What is written as an instant names a day, a time of day or an offset that does not exist."""


def instant(text: str) -> Micros:
    """Read an ISO 8601 instant such as ``2026-03-01T00:00:00Z``.

    The zone is ``Z`` or an offset (``+01:00``); a date alone is its midnight UTC; seconds and their fraction
    may be left out, and digits beyond the microsecond are dropped. Raises ValueError for anything else (S17).
    """
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an ISO 8601 instant with a zone, such as 2026-03-01T00:00:00Z")
    year, month, day, hour, minute, second = (int(part or 0) for part in match.group(1, 2, 3, 4, 5, 6))
    fraction, sign, offset_hour, offset_minute = match.group(7, 9, 10, 11)
    offset_hours, offset_minutes = int(offset_hour or 0), int(offset_minute or 0)
    days = days_from_civil(year, month, day)
    if civil_from_days(days) != (year, month, day):
        raise NoSuchInstant(f"{text!r} names a day that does not exist")
    if hour > 23 or minute > 59 or second > 59 or offset_hours > 23 or offset_minutes > 59:
        raise NoSuchInstant(f"{text!r} names a time of day or an offset that does not exist")
    offset = (offset_hours * HOUR + offset_minutes * MINUTE) * (-1 if sign == "-" else 1)
    micros = int((fraction or "")[:6].ljust(6, "0"))
    return days * DAY + hour * HOUR + minute * MINUTE + second * SECOND + micros - offset


@lru_cache(maxsize=1 << 14)  # one page shows the same few instants again and again
def iso(t: Micros) -> str:
    """Write an instant as ISO 8601 UTC: ``2026-03-01T00:00:00Z``, with six decimals only if not all zero.

    Reads back through `instant` for the years 0000 to 9999.
    """
    days, time = divmod(t, DAY)
    seconds, micros = divmod(time, SECOND)
    hour, minute, second = (
        _TWO_DIGITS[seconds // 3600],
        _TWO_DIGITS[seconds // 60 % 60],
        _TWO_DIGITS[seconds % 60],
    )
    fraction = f".{micros:06d}" if micros else ""
    return f"{_date(days)}T{hour}:{minute}:{second}{fraction}Z"


@lru_cache(maxsize=1 << 10)
def _date(days: int) -> str:
    year, month, day = civil_from_days(days)
    return f"{year:04d}-{month:02d}-{day:02d}"


def whole_seconds(us: Micros) -> int:
    """Round a time in µs up to whole seconds."""
    return -(-us // SECOND)


def http_date(t: Micros) -> str:
    """Format an instant, rounded up to a second, as an HTTP-date (RFC 9110, section 5.6.7).

    For the years 0001 to 9999; raises ValueError for others.
    """
    from email.utils import formatdate  # read late: a few deployments state dates, and it reads much

    return formatdate(whole_seconds(t), usegmt=True)


def duration(text: str) -> Micros:
    """Read a duration such as ``5m``, ``1h30m``, ``9m36.5s``, ``250ms`` or ``-2d``.

    Numbers with the units w, d, h, m, s, ms, us, each at most once and the larger first, behind an optional
    minus. They are whole, but for seconds and milliseconds, whose decimals end at microseconds. Raises
    ValueError for anything else.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not text[-1:].isalpha():
        raise ValueError(
            f"{text!r} is not a duration, such as 90s, 1h30m, 1.5s or 250ms (units w d h m s ms us, larger "
            "first)"
        )
    sign, *counts, seconds, s_part, millis, ms_part, micros = match.groups()
    total = sum(
        int(count or 0) * size
        for count, size in zip((*counts, seconds, millis, micros), _UNIT_SIZES, strict=True)
    )
    total += int((s_part or "").ljust(6, "0")) + int((ms_part or "").ljust(3, "0"))
    return -total if sign else total


def format_millis(us: Micros) -> str:
    """Write a duration that was measured, to the millisecond: ``9m36.717s``."""
    return format_duration((us + MILLISECOND // 2) // MILLISECOND * MILLISECOND)


def length_in_micros(given: str | timedelta) -> Micros:
    """Return in µs how long something is to take: text that `duration` reads, or a timedelta; 0 is 0.

    Raises ValueError for any other number: of 60 nobody knows the unit, and most mean seconds.
    """
    if isinstance(given, str):
        return duration(given)
    if isinstance(given, timedelta):
        return given // timedelta(microseconds=1)
    if isinstance(given, int) and given == 0 and given is not False:
        return 0
    raise ValueError(f"expected a duration with its unit, such as '60s' or '1h30m', found {given!r}")


def in_micros(given: Micros | str, read: Callable[[str], Micros] = duration) -> Micros:
    """Return what is given in µs, or as text that `read` reads.

    Raises ValueError for anything else: of 1.5 nobody knows the unit.
    """
    if isinstance(given, str):
        return read(given)
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise ValueError(f"expected text with its unit, or a whole number of µs, found {given!r}")
    return index(given)


def format_duration(us: Micros) -> str:
    """Write a duration so that `duration` reads the same number back: ``1h30m``, ``1.5s``, ``0s`` for zero.

    Whole weeks are written in weeks; anything else starts at days. What is no whole second has decimals:
    of seconds, below a second of milliseconds.
    """
    if us < 0:
        return "-" + format_duration(-us)
    if us == 0:
        return "0s"
    if us % WEEK == 0:
        return f"{us // WEEK}w"
    text = ""
    for unit, size in _WHOLE_UNITS:
        count, us = divmod(us, size)
        if count:
            text += f"{count}{unit}"
    if us >= SECOND or (us and text):
        units, rest = divmod(us, SECOND)
        return text + f"{units}.{rest:06d}".rstrip("0").removesuffix(".") + "s"
    if us >= MILLISECOND:
        units, rest = divmod(us, MILLISECOND)
        return f"{units}.{rest:03d}".rstrip("0").removesuffix(".") + "ms"
    return text + (f"{us}us" if us else "")


# Days


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the proleptic Gregorian calendar (negative before it)."""
    # The year is taken to begin in March, so that the leap day is its last day.
    march_year = year - 1 if month <= 2 else year
    march_month = month + 9 if month <= 2 else month - 3
    leap_days = march_year // 4 - march_year // 100 + march_year // 400
    return march_year * 365 + leap_days + (153 * march_month + 2) // 5 + day - 1 - 719_468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """The date (year, month, day) so many days after 1970-01-01; the inverse of `days_from_civil`."""
    # 400 years have 146 097 days, 100 years 36 524 and 4 years 1 461, but for the leap day at their end.
    since_march_0000 = days + 719_468
    era, day_of_era = since_march_0000 // 146_097, since_march_0000 % 146_097
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * march_month + 2) // 5 + 1
    month = march_month + 3 if march_month < 10 else march_month - 9
    year = 400 * era + year_of_era + (1 if month <= 2 else 0)
    return year, month, day


def time_of_day(t: Micros) -> Micros:
    """The part of an instant since its midnight UTC, in [0, DAY)."""
    return t % DAY


def weekday(t: Micros) -> int:
    """The day of the week of an instant in UTC: 0 is Monday, 6 is Sunday."""
    return (t // DAY + 3) % 7


# Billing months (U51, U102, E20)


def calendar_anchor() -> Micros:
    """An anchor on the first of a month at midnight UTC: its billing months are the calendar months."""
    return 0


def billing_month(anchor: Micros, now: Micros) -> tuple[Micros, Micros]:
    """The billing month that contains `now`: (start, end), half-open, so that `now == end` lies in the next.

    Months begin on the anchor's day, clamped to the month's length, at the anchor's time of day in UTC. Each
    edge comes from the anchor itself, so nothing drifts: 31 January, 28 February, 31 March. `now` may lie
    before the anchor. Sources: U51, U102, E20.
    """
    year, month, _ = civil_from_days(now // DAY)
    index = year * 12 + month - 1
    start = _month_edge(anchor, index)
    if now < start:
        return _month_edge(anchor, index - 1), start
    return start, _month_edge(anchor, index + 1)


def months_between(anchor: Micros, now: Micros) -> int:
    """How many billing months of an anchor, from the one that it begins on, end until `now` (U51)."""
    year, month, _ = civil_from_days(billing_month(anchor, now)[0] // DAY)
    first_year, first_month, _ = civil_from_days(anchor // DAY)
    return (year - first_year) * 12 + month - first_month


def month_end(anchor: Micros, now: Micros) -> Micros:
    """The end of the billing month that contains `now`: the first instant of the next (U51)."""
    return billing_month(anchor, now)[1]


def _month_edge(anchor: Micros, index: int) -> Micros:
    """The start of the billing month that begins in the calendar month `index` (year * 12 + month - 1)."""
    _, _, day = civil_from_days(anchor // DAY)
    first = days_from_civil(index // 12, index % 12 + 1, 1)
    length = days_from_civil((index + 1) // 12, (index + 1) % 12 + 1, 1) - first
    return (first + min(day, length) - 1) * DAY + time_of_day(anchor)


# Weeks (S108, U52)


def week_start(now: Micros, offset: Micros) -> Micros:
    """The last weekly reset at or before `now`; resets are `offset` µs after Monday 00:00 UTC (S108, U52)."""
    # 1970-01-05 was the first Monday of the epoch.
    return now - (now - 4 * DAY - offset) % WEEK


def week_end(now: Micros, offset: Micros) -> Micros:
    """The first weekly reset after `now`; resets are `offset` µs after Monday 00:00 UTC (S108, U52)."""
    return week_start(now, offset) + WEEK
