"""Integer time against two oracles: the standard library's datetime and python-dateutil."""

import importlib.util
from datetime import UTC, datetime, timedelta, timezone
from types import FunctionType

import pytest
from dateutil.relativedelta import relativedelta
from hypothesis import example, given
from hypothesis import strategies as st

from ranksim.core import clock
from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND, WEEK, http_date, instant, iso

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
moments = st.datetimes(datetime(1600, 1, 1), datetime(2400, 12, 31), timezones=st.just(UTC))


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def test_units() -> None:
    names = ["seconds", "minutes", "hours", "days", "weeks"]
    units = [timedelta(**{name: 1}) // timedelta(microseconds=1) for name in names]
    assert units == [SECOND, MINUTE, HOUR, DAY, WEEK]


# Instants


@pytest.mark.fact("S17")
@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
        ("2026-03-01", "2026-03-01T00:00:00Z"),
        ("2026-03-01T00:00Z", "2026-03-01T00:00:00Z"),
        ("2026-03-01 12:30:00Z", "2026-03-01T12:30:00Z"),
        ("2026-03-01T01:30:00+01:30", "2026-03-01T00:00:00Z"),
        ("2026-02-28T19:00:00-0500", "2026-03-01T00:00:00Z"),
        ("2026-03-01T00:00:00.5Z", "2026-03-01T00:00:00.500000Z"),
        ("2026-03-01T00:00:00.000001999Z", "2026-03-01T00:00:00.000001Z"),
        ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"),
        ("2024-02-29", "2024-02-29T00:00:00Z"),
    ],
)
def test_instants_are_read_and_written(text: str, same: str) -> None:
    assert iso(instant(text)) == same


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-03-01T00:00:00",
        "2026-02-29",
        "2026-13-01",
        "2026-00-10",
        "2026-03-01T24:00:00Z",
        "2026-03-01T00:60:00Z",
        "2026-03-01T00:00:60Z",
        "2026-03-01T00:00:00+24:00",
        "2026-03-01Z",
        "2026-03-01T00:00:00Z ",
        "\u0662026-03-01",
        "20260301",
    ],
)
def test_other_texts_are_no_instants(text: str) -> None:
    with pytest.raises(ValueError, match=r"instant|does not exist"):
        instant(text)


@given(moments, st.integers(-23 * 60, 23 * 60))
def test_instants_agree_with_datetime(moment: datetime, offset: int) -> None:
    t = micros(moment)
    local = moment.astimezone(timezone(timedelta(minutes=offset)))
    assert instant(local.isoformat()) == t
    assert datetime.fromisoformat(iso(t)) == moment
    assert instant(iso(t)) == t


# Durations


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("0s", 0),
        ("10us", 10),
        ("250ms", 250_000),
        ("90s", 90 * SECOND),
        ("5m", 5 * MINUTE),
        ("1h30m", 90 * MINUTE),
        ("2d", 2 * DAY),
        ("1w", WEEK),
        ("-1h30m", -90 * MINUTE),
        ("1.5s", 1_500_000),
        ("9m36.717s", 9 * MINUTE + 36 * SECOND + 717_000),
        ("12.3ms", 12_300),
        ("0.000001s", 1),
        ("1.5s250.5ms1us", 1_750_501),
        ("1w2d3h4m5s6ms7us", 9 * DAY + 3 * HOUR + 4 * MINUTE + 5 * SECOND + 6_007),
    ],
)
def test_durations_are_read(text: str, us: int) -> None:
    assert clock.duration(text) == us


@pytest.mark.parametrize(
    "text",
    [
        *("", "-", "5", "m", "1.5h", "1.s", ".5s", "1.0000001s", "1.2345ms", "1.5us"),
        *("5 m", "5m ", "+5m", "1s1m", "1m1m", "--1s", "5M"),
    ],
)
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        clock.duration(text)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0s"),
        (90 * SECOND, "1m30s"),
        (24 * HOUR, "1d"),
        (10 * DAY, "10d"),
        (14 * DAY, "2w"),
        (1_001, "1.001ms"),
        (1_500_000, "1.5s"),
        (9 * MINUTE + 36_717_000, "9m36.717s"),
        (HOUR + 5_000, "1h0.005s"),
        (999, "999us"),
        (-DAY - 1, "-1d0.000001s"),
    ],
)
def test_durations_are_written(us: int, text: str) -> None:
    assert clock.format_duration(us) == text


@given(st.integers(-(2**62), 2**62) | st.integers(-1000, 1000).map(lambda n: n * HOUR))
def test_a_written_duration_reads_back(us: int) -> None:
    assert clock.duration(clock.format_duration(us)) == us


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (576_717_234, "9m36.717s"), (59_999_600, "1m"), (12_000, "12ms"), (499, "0s"),
        (-1_500_000, "-1.5s"), (2_000_499, "2s"),
    ],
)  # fmt: skip
def test_what_was_measured_is_written_to_the_millisecond(us: int, text: str) -> None:
    assert clock.format_millis(us) == text


@given(moments)
@example(EPOCH)
@example(EPOCH + timedelta(microseconds=1))
@example(datetime(2024, 2, 29, 23, 59, 59, 1, tzinfo=UTC))
def test_an_http_date_is_the_one_of_the_standard_library(moment: datetime) -> None:
    up = moment.replace(microsecond=0) + timedelta(seconds=bool(moment.microsecond))
    assert http_date(micros(moment)) == up.strftime("%a, %d %b %Y %H:%M:%S GMT")


# Days


@given(moments)
def test_days_agree_with_datetime(moment: datetime) -> None:
    days = (moment - EPOCH).days
    assert clock.days_from_civil(moment.year, moment.month, moment.day) == days
    assert clock.civil_from_days(days) == (moment.year, moment.month, moment.day)
    assert clock.weekday(micros(moment)) == moment.weekday()
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    assert clock.time_of_day(micros(moment)) == micros(moment) - micros(midnight)


def test_every_day_of_an_era_and_its_neighbours() -> None:
    first = clock.days_from_civil(1599, 12, 1)
    previous = clock.civil_from_days(first - 1)
    for days in range(first, first + 146_097 + 100):
        date = clock.civil_from_days(days)
        assert clock.days_from_civil(*date) == days
        assert date > previous
        previous = date


# Billing months


@pytest.mark.fact("E20", "U51", "U102")
def test_a_month_is_clamped_without_drift() -> None:
    anchor = instant("2026-01-31T10:30:00Z")
    edges = [anchor]
    for _ in range(5):
        edges.append(clock.month_end(anchor, edges[-1]))
    assert [iso(edge) for edge in edges] == [
        "2026-01-31T10:30:00Z",
        "2026-02-28T10:30:00Z",
        "2026-03-31T10:30:00Z",
        "2026-04-30T10:30:00Z",
        "2026-05-31T10:30:00Z",
        "2026-06-30T10:30:00Z",
    ]


@pytest.mark.fact("U51", "U102", "E20")
@pytest.mark.parametrize(
    ("anchor", "now", "start", "end"),
    [
        ("2024-01-31", "2024-02-29", "2024-02-29", "2024-03-31"),
        ("2024-02-29", "2025-02-28", "2025-02-28", "2025-03-29"),
        ("2026-01-15T08:00Z", "2026-03-15T07:59:59.999999Z", "2026-02-15T08:00Z", "2026-03-15T08:00Z"),
        ("2026-01-15T08:00Z", "2026-03-15T08:00Z", "2026-03-15T08:00Z", "2026-04-15T08:00Z"),
        ("2026-01-31T23:59:59Z", "2026-03-01", "2026-02-28T23:59:59Z", "2026-03-31T23:59:59Z"),
        ("2026-05-31", "2025-12-31", "2025-12-31", "2026-01-31"),
        ("2026-05-31", "2024-02-10", "2024-01-31", "2024-02-29"),
        ("1960-07-30T12:00Z", "1961-03-01", "1961-02-28T12:00Z", "1961-03-30T12:00Z"),
    ],
)
def test_billing_months(anchor: str, now: str, start: str, end: str) -> None:
    month = clock.billing_month(instant(anchor), instant(now))
    assert [iso(edge) for edge in month] == [iso(instant(start)), iso(instant(end))]


@pytest.mark.fact("U51", "U102", "E20")
@given(moments, st.integers(-600, 600), st.integers(0, 10**6))
def test_month_edges_agree_with_dateutil(anchor: datetime, months: int, part: int) -> None:
    start = micros(anchor + relativedelta(months=months))
    end = micros(anchor + relativedelta(months=months + 1))
    inside = start + (end - 1 - start) * part // 10**6
    for now in (start, inside, end - 1):
        assert clock.billing_month(micros(anchor), now) == (start, end)
        assert clock.month_end(micros(anchor), now) == end
    assert clock.billing_month(micros(anchor), end)[0] == end


@given(moments)
def test_the_calendar_month_is_the_month_of_the_calendar_anchor(moment: datetime) -> None:
    first = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    expected = (micros(first), micros(first + relativedelta(months=1)))
    assert clock.billing_month(clock.calendar_anchor(), micros(moment)) == expected


# Weeks


@pytest.mark.fact("S108", "U52")
@pytest.mark.parametrize(
    ("now", "offset", "start"),
    [
        ("2026-03-02", 0, "2026-03-02"),
        ("2026-03-01T23:59:59.999999Z", 0, "2026-02-23"),
        ("2026-03-08T23:59:59Z", 0, "2026-03-02"),
        ("2026-03-02T05:59:59Z", 6 * HOUR, "2026-02-23T06:00Z"),
        ("2026-03-02T06:00:00Z", 6 * HOUR, "2026-03-02T06:00Z"),
        ("2026-03-01T22:00:00Z", -2 * HOUR, "2026-03-01T22:00Z"),
        ("1969-12-30", 0, "1969-12-29"),
    ],
)
def test_weeks(now: str, offset: int, start: str) -> None:
    assert iso(clock.week_start(instant(now), offset)) == iso(instant(start))
    assert clock.week_end(instant(now), offset) == instant(start) + WEEK


@pytest.mark.fact("S108", "U52")
@given(moments)
def test_weeks_begin_on_the_monday_of_datetime(moment: datetime) -> None:
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    monday = micros(midnight - timedelta(days=midnight.weekday()))
    assert clock.week_start(micros(moment), 0) == monday
    assert clock.week_end(micros(moment), 0) == monday + WEEK


# Compiled


@pytest.mark.compiled
def test_the_arithmetic_compiles_unchanged() -> None:
    numba = pytest.importorskip("numba")
    from numba.extending import register_jitable

    # A copy of the module, so that registering its functions leaves nothing behind.
    spec = importlib.util.spec_from_file_location("clock_to_compile", clock.__file__)
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    for function in [f for f in vars(copy).values() if isinstance(f, FunctionType)]:
        register_jitable(function)
    billing_month, month_end, calendar_anchor = copy.billing_month, copy.month_end, copy.calendar_anchor
    week_start, week_end, weekday, time_of_day = (
        copy.week_start,
        copy.week_end,
        copy.weekday,
        copy.time_of_day,
    )

    @numba.njit
    def compiled(anchor, now):
        start, end = billing_month(anchor, now)
        months = (start, end, month_end(anchor, now), month_end(calendar_anchor(), now))
        return months, (week_start(now, anchor), week_end(now, anchor), weekday(now), time_of_day(now))

    for k in range(-500, 2_000):
        anchor, now = k * 37 * DAY + k * 1_234_567, k * k * 11 * HOUR + k
        assert compiled(anchor, now) == compiled.py_func(anchor, now)
