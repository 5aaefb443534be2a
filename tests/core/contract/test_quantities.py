"""Text in, integers inside, text out; and distributions against scipy."""

import math

import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from ranksim.core.clock import HOUR, MINUTE, SECOND
from ranksim.core.contract.quantities import Distribution, Duration, Instant, Money
from ranksim.core.money import format_money, money

MONEY = TypeAdapter(Money)
DURATION = TypeAdapter(Duration)
INSTANT = TypeAdapter(Instant)


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("15 USD", 15_000_000),
        ("0 USD", 0),
        ("0.002 USD", 2_000),
        ("0.000001 USD", 1),
        ("1_000.50 USD", 1_000_500_000),
        ("-3.25 USD", -3_250_000),
        (" 7  USD ", 7_000_000),
    ],
)
def test_money(text: str, micros: int) -> None:
    assert money(text) == micros
    assert money(format_money(micros)) == micros


@pytest.mark.parametrize(
    ("micros", "text"),
    [(15_000_000, "15 USD"), (2_000, "0.002 USD"), (-3_250_000, "-3.25 USD"), (0, "0 USD")],
)
def test_format_money(micros: int, text: str) -> None:
    assert format_money(micros) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("15", "write an amount such as '15 USD', found '15'"),
        ("15 EUR", "write an amount such as '15 USD', found '15 EUR'"),
        ("15USD", "write an amount such as '15 USD', found '15USD'"),
        ("USD", "write an amount such as '15 USD', found 'USD'"),
        ("", "write an amount such as '15 USD', found ''"),
        ("nan USD", "write an amount such as '15 USD', found 'nan USD'"),
        ("inf USD", "write an amount such as '15 USD', found 'inf USD'"),
        ("1e999999 USD", "write an amount such as '15 USD', found '1e999999 USD'"),
        (
            "9999999999999999999999999999.000001 USD",
            "write an amount such as '15 USD', found '9999999999999999999999999999.000001 USD'",
        ),
        ("0.0000001 USD", "an amount has at most six decimals, found '0.0000001 USD'"),
    ],
)
def test_money_refuses(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.") + "$"):
        money(text)


def test_the_widest_lognormal_still_has_a_mean_and_tails() -> None:
    distribution = Distribution.model_validate({"lognormal": {"median": "1000w", "sigma": 20.0}})
    assert distribution.at(2**-53) == 0
    assert min(distribution.mean(), distribution.at(1 - 2**-53)) > 2**64


@pytest.mark.parametrize("sigma", [math.inf, math.nan])
def test_numbers_are_finite(sigma: float) -> None:
    with pytest.raises(ValidationError, match="finite number"):
        Distribution.model_validate({"lognormal": {"median": "1m", "sigma": sigma}})


@given(st.integers(-(10**18), 10**18))
def test_money_round_trip(micros: int) -> None:
    assert MONEY.validate_json(MONEY.dump_json(micros)) == micros


@given(st.integers(-(10**15), 10**15))
def test_duration_round_trip(micros: int) -> None:
    assert DURATION.validate_json(DURATION.dump_json(micros)) == micros


@pytest.mark.parametrize(
    ("adapter", "python", "json", "text"),
    [
        (DURATION, 90 * MINUTE, '"1h30m"', "1h30m"),
        (DURATION, 0, "0", "0s"),
        (INSTANT, 1_769_850_000_000_000, '"2026-01-31T09:00:00Z"', "2026-01-31T09:00:00Z"),
        (MONEY, 15_000_000, '"15 USD"', "15 USD"),
    ],
)
def test_integers_in_python_text_in_files(
    adapter: TypeAdapter[int], python: int, json: str, text: str
) -> None:
    assert adapter.validate_python(python) == python
    assert adapter.validate_json(json) == python
    assert adapter.dump_json(python).decode() == f'"{text}"'


@pytest.mark.parametrize(
    ("adapter", "json", "message"),
    [
        (DURATION, "60", "write a duration such as '1h30m' or '250ms', found 60"),
        (DURATION, "1.5", "write a duration such as '1h30m' or '250ms', found 1.5"),
        (DURATION, "false", "write a duration such as '1h30m' or '250ms', found False"),
        (INSTANT, "0", "write an instant such as '2026-01-31T09:00:00Z', found 0"),
        (MONEY, "15", "write an amount such as '15 USD', found 15"),
        (MONEY, "null", "write an amount such as '15 USD', found None"),
    ],
)
def test_files_hold_no_bare_numbers(adapter: TypeAdapter[int], json: str, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        adapter.validate_json(json)
    assert str(caught.value.errors()[0]["ctx"]["error"]) == message


DISTRIBUTIONS = [
    ("4m", 4 * MINUTE),
    ({"constant": "4m"}, 4 * MINUTE),
    ({"uniform": {"low": "1m", "high": "5m"}}, 3 * MINUTE),
    ({"exponential": {"mean": "4m"}}, 4 * MINUTE),
    ({"lognormal": {"median": "4m", "sigma": 0.5}}, round(4 * MINUTE * math.exp(0.125))),
    ({"lognormal": {"median": "4m", "sigma": 0}}, 4 * MINUTE),
    ({"empirical": ["9m", "1m", "2m"]}, 4 * MINUTE),
]


@pytest.mark.parametrize(("written", "mean"), DISTRIBUTIONS)
def test_distribution_mean_is_the_average_of_its_quantiles(written: object, mean: int) -> None:
    distribution = Distribution.model_validate(written)
    assert distribution.mean() == mean
    n = 30_000
    average = sum(distribution.at((i + 0.5) / n) for i in range(n)) / n
    assert average == pytest.approx(mean, rel=1e-3)


@pytest.mark.parametrize(("written", "_mean"), DISTRIBUTIONS)
def test_distribution_round_trip(written: object, _mean: int) -> None:
    distribution = Distribution.model_validate(written)
    assert Distribution.model_validate_json(distribution.model_dump_json()) == distribution
    assert Distribution.model_validate(distribution.model_dump()) == distribution


@pytest.mark.parametrize("u", [1e-9, 0.01, 0.25, 0.5, 0.9, 0.999, 1 - 1e-9])
def test_quantiles_against_scipy(u: float) -> None:
    day = 24 * HOUR
    for written, oracle in [
        ({"lognormal": {"median": "1d", "sigma": 0.7}}, scipy.stats.lognorm(s=0.7, scale=day)),
        ({"exponential": {"mean": "1d"}}, scipy.stats.expon(scale=day)),
        ({"uniform": {"low": "1d", "high": "3d"}}, scipy.stats.uniform(loc=day, scale=2 * day)),
    ]:
        assert Distribution.model_validate(written).at(u) == pytest.approx(oracle.ppf(u), rel=1e-9, abs=1)


def test_empirical_quantiles_are_the_observations_in_order() -> None:
    distribution = Distribution.model_validate({"empirical": ["3s", "1s", "2s"]})
    assert [distribution.at(u) for u in (1e-12, 0.34, 0.67, 1 - 1e-12)] == [
        SECOND,
        2 * SECOND,
        3 * SECOND,
        3 * SECOND,
    ]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({}, "write a duration such as '4m', or one of constant, uniform, exponential, lognormal, empirical"),
        (
            {"gamma": {}},
            "expected one of constant, uniform, exponential, lognormal, empirical, found 'gamma'",
        ),
        ({"uniform": {"low": "1m"}}, "uniform takes low and high"),
        ({"uniform": {"low": "2m", "high": "1m"}}, "uniform wants low at most high"),
        ({"exponential": "1m"}, "exponential takes mean"),
        ({"lognormal": {"median": "1m"}}, "lognormal takes median and sigma"),
        ({"lognormal": {"median": "1m", "sigma": -1.0}}, "sigma is a number from 0 to 20"),
        ({"lognormal": {"median": "1m", "sigma": 40.0}}, "sigma is a number from 0 to 20"),
        ({"empirical": "1m"}, "empirical takes a list of durations"),
        ({"empirical": []}, "durations are at least one, and none is negative"),
        ({"constant": "-1m"}, "durations are at least one, and none is negative"),
        (None, "write a duration such as '1h30m' or '250ms', found None"),
    ],
)
def test_distribution_refuses(written: object, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Distribution.model_validate(written)
    assert str(caught.value.errors()[0]["ctx"]["error"]) == message
