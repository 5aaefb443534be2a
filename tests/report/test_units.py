"""Numbers as people read them."""

from __future__ import annotations

import pytest

from ranksim.core.clock import DAY, HOUR, MILLISECOND, MINUTE, SECOND, instant
from ranksim.inference.counts import counted
from ranksim.report import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (7, "7"),
        (1_234_567, "1,234,567"),
        (-3, "−3"),
        (12.0, "12"),
        (12.54, "12.5"),
        (91.02, "91"),
        (0.126, "0.13"),
        (1234.56, "1,235"),
    ],
)
def test_counts(value: float, text: str) -> None:
    assert units.count(value) == text


def test_what_rounds_to_nothing_is_not_negative() -> None:
    assert [units.percent(-0.0001), units.usd(-0.001), units.count(-0.0)] == ["0 %", "0 USD", "0"]
    assert [units.percent(-0.001), units.usd(-1.0), units.count(-1)] == ["−0.1 %", "−0.000001 USD", "−1"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.066, "6.6 points"),
        (-0.5, "−50 points"),
        (0, "0 points"),
        (-0.0001, "−0.01 points"),
        (-0.00042, "−0.042 points"),
        (0.0005, "0.1 points"),
        (0.00049, "0.049 points"),
        (1e-8, "0 points"),
    ],
)
def test_differences_of_shares_are_points(value: float, text: str) -> None:
    assert units.write("points", value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.95, "95 %"), (0.999, "99.9 %"), (0.9999, "99.99 %"), (0.57, "57 %"), (0.0005, "0.05 %")],
)
def test_levels_are_not_rounded(value: float, text: str) -> None:
    assert units.level(value) == text


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0.00 USD"),
        (1_234_500_000, "1,234.50 USD"),
        (-5_000_000, "−5.00 USD"),
        (100_000, "0.10 USD"),
        (20_000, "0.02 USD"),
        (53_333.33, "0.0533 USD"),
        (400, "0.0004 USD"),
        (1, "0.000001 USD"),
        (0.3, "0 USD"),
    ],
)
def test_money(micros: float, text: str) -> None:
    assert units.usd(micros) == text


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0s"),
        (0.3, "0s"),
        (-0.3, "0s"),
        (999, "999µs"),
        (1_500, "1.5ms"),
        (250 * MILLISECOND, "250ms"),
        (999_600, "1s"),
        (1_500 * MILLISECOND, "1.5s"),
        (59_960 * MILLISECOND, "1m"),
        (MINUTE + 6 * SECOND, "1m6s"),
        (HOUR - 100 * MILLISECOND, "1h"),
        (16 * HOUR + 48 * MINUTE, "16h48m"),
        (DAY - SECOND, "1d"),
        (10 * DAY + 6 * HOUR, "10d6h"),
        (12_345, "12.3ms"),
        (9 * MINUTE + 36_717_000, "9m37s"),
        (14 * DAY, "2w"),
        (1_500 * DAY, "1500d"),
        (-2 * HOUR, "−2h"),
    ],
)
def test_durations(us: float, text: str) -> None:
    assert units.duration(us) == text


def test_shares_and_instants() -> None:
    assert [units.percent(share) for share in (0, 0.125, 1, 0.8744)] == ["0 %", "12.5 %", "100 %", "87.4 %"]
    assert units.instant(instant("2026-03-01T00:00:00Z") + 0.4) == "2026-03-01T00:00:00Z"


@pytest.mark.parametrize(("number", "text"), [(1, "1 event"), (0.9992, "1 event"), (0, "0 events")])
def test_one_thing_is_named_in_the_singular_as_it_is_written(number: float, text: str) -> None:
    assert units.many(number, "event") == text


@pytest.mark.parametrize("replications", [2, 3, 4, 5, 6, 20])
def test_a_count_on_which_all_replications_agree_stands_alone(replications: int) -> None:
    for value in (1, 50, 1_280):
        assert units.in_prose("count", *counted([value] * replications)) == units.count(value)


@pytest.mark.parametrize("values", [(49, 51), (49, 50, 51), (49, 50, 50, 51), (49, 50, 50, 50, 51)])
def test_a_count_on_which_few_replications_differ_has_its_interval(values: tuple[int, ...]) -> None:
    assert units.in_prose("count", *counted(values)) != "50"


@pytest.mark.parametrize(
    ("quantity", "value", "interval", "text"),
    [
        ("count", 12, (), "12"),
        ("count", 12, (12, 12), "12"),
        ("count", 12, (10.75, 14), "12 (10.8 to 14)"),
        ("count", 10_080, (10_079.8, 10_080.3), "10,080"),
        ("count", 56, (55.83, 56.17), "56"),
        ("count", 0, (0, 0.18), "0"),
        ("count", 10, (9.5, 10.5), "10 ± 0.5"),
        ("count", 0, (0, 0.74), "0 (0 to 0.74)"),
        ("count", 56, (55.48, 56.52), "56 ± 0.52"),
        ("share", 0.55752, (0.55748, 0.55756), "55.8 %"),
        ("count", 7.7, (7.55, 7.85), "7.7 ± 0.15"),
        ("money", 780_000, (709_758, 850_242), "0.78 ± 0.07 USD"),
        ("money", 400, (375, 425), "0.0004 ± 0.000025 USD"),
        ("money", -5_230_440_000, (-5_502_440_000, -4_958_440_000), "−5,230 ± 272 USD"),
        ("money", 5_230_440_000, (5_000_000_000, 5_500_000_000), "5,230 (5,000 to 5,500) USD"),
        ("share", 0.216, (0.196, 0.236), "21.6 ± 2 %"),
        ("share", 0.216, (0.2, 0.25), "21.6 (20 to 25) %"),
        ("points", 0.035, (0.028, 0.042), "3.5 ± 0.7 points"),
        ("duration", MINUTE, (MINUTE - SECOND, MINUTE + SECOND), "1m ± 1s"),
        ("duration", MINUTE, (MINUTE - SECOND, MINUTE + 2 * SECOND), "1m (59s to 1m2s)"),
        ("count", None, (), "–"),
        ("text", "GET", (), "GET"),
        ("text", "", (), "–"),
    ],
)
def test_a_value_with_its_interval(
    quantity: str, value: float, interval: tuple[float, ...], text: str
) -> None:
    assert units.write(quantity, value, *interval) == text


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (None, None, None, "–"),
        (5.87, None, None, "5.9"),
        (5.87, 2.43, 15.2, "5.9 (2.4 to 15)"),
        (5967.2, 1400.6, 25000, "5,967 (1,401 to 25,000)"),
    ],
)
def test_gains(value: float | None, low: float | None, high: float | None, text: str) -> None:
    assert units.gain(value, low, high) == text


@pytest.mark.parametrize(
    ("quantity", "a", "b", "texts"),
    [
        ("share", 0.0057, 0.0045, ("0.57 %", "0.45 %")),  # 0.6 % and 0.4 % differ by 0.2, not by 0.1 points
        ("share", 0.5, 0.25, ("50 %", "25 %")),
        ("share", 0.12, 0.1204, ("12.00 %", "12.04 %")),
        ("count", 12.26, 12.44, ("12.26", "12.44")),
        ("count", 1234.4, 5678.6, ("1,234.4", "5,678.6")),
        ("count", 0, 3, ("0", "3")),
        ("money", 1_004_000, 1_006_000, ("1.004 USD", "1.006 USD")),
        ("money", -2_500_000, 1_500_000, ("−2.50 USD", "1.50 USD")),
        ("duration", 60_000_000, None, ("1m", "–")),
    ],
)
def test_two_values_differ_by_what_is_told(
    quantity: str, a: float, b: float | None, texts: tuple[str, str]
) -> None:
    difference = None if b is None else b - a
    assert units.two_sides(quantity, a, b, difference) == texts


def test_two_values_whose_difference_is_of_other_runs_are_written_as_usual() -> None:
    assert units.two_sides("share", 0.5, 0.25, 0.1) == ("50 %", "25 %")
