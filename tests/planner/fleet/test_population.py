"""Populations read from YAML: what may be written, what is refused and where, what is drawn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksim.core.clock import DAY, HOUR, MINUTE
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.planner.fleet.amounts import Amount
from ranksim.planner.fleet.customers import customers_of, hours_of
from ranksim.planner.fleet.offers import offers_of
from ranksim.planner.fleet.population import Population

TEXT = """
population: 1
accounts: 400
start: 2026-03-01T00:00:00Z
length: 30d
joins: 0.25
segments:
  shops:
    share: 3
    plans: starter
    portfolio:
      domains: {uniform: {low: 1, high: 3}}
      keywords: {lognormal: {median: 40, sigma: 1, most: 500}}
    usage: {read: {pareto: {least: 10, shape: 1.5}}, rank_run: 1}
    sizes: {keywords: {low: 1, high: 20}, keyword_briefs: 3}
    calendar:
      hours: [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1]
      days: [1, 1, 1, 1, 1, 0, 0]
      zones: {-5h: 1, 5h30m: 1}
    after_refusal: {rate_limited: {retry: 0.9, wait: backoff, first: 2s}, backlog: 4}
  agencies:
    plans: {pro: 2, agency: {weight: 1, add_ons: {brief_pack: 2}}}
    usage: {rank_run: 10}
    arrivals: steady
    past_due: 0.1
"""


def test_a_population_reads_and_writes() -> None:
    population = Population.parse(TEXT)
    assert population.segments["shops"].calendar.zones == {-5 * HOUR: 1.0, 5 * HOUR + 30 * MINUTE: 1.0}
    assert population.segments["shops"].after_refusal.rate_limited.first == 2_000_000
    assert population.segments["agencies"].plans["agency"].add_ons == {"brief_pack": 2}
    assert population.end - population.start == 30 * DAY
    assert Population.model_validate_json(population.model_dump_json()) == population


REFUSED = {
    "accounts: 400": [
        ("accounts: 0", "3: accounts: expected at least 1, found 0"),
        ("accounts: many", "3: accounts: expected a whole number, found 'many'"),
    ],
    "length: 30d": [
        ("length: 0s", "5: length: expected more than 0"),
        ("lengths: 30d", "did you mean 'length'?"),
    ],
    "joins: 0.25": [("joins: 1.5", "6: joins: expected at most 1.0, found 1.5")],
    "share: 3": [("share: -1", "9: segments.shops.share: expected at least 0")],
    "plans: starter": [("plans: {}", "10: segments.shops.plans: expected at least 1, found 0")],
    "plans: {pro: 2,": [("plans: {pro: -2,", "expected at least 0")],
    "high: 3}": [
        ("high: 0}", "12: segments.shops.portfolio.domains: uniform wants low at most high"),
        ("top: 3}", "uniform takes low and high"),
    ],
    "{pareto: {least: 10, shape: 1.5}}": [
        ("{normal: {mean: 10}}", "usage.read: expected one of constant, uniform, lognormal, pareto"),
        ("{pareto: {least: 10, shape: 0}}", "pareto wants a shape above 0"),
        ("{pareto: {least: 10, shape: 1, most: 5}}", "most is below the smallest or middle value"),
        ("often", "write a number or one of constant"),
        ("-1", "expected at least 0"),
    ],
    "rank_run: 1}": [("ranks: 1}", "no such field; did you mean")],
    "{low: 1, high: 20}": [
        ("{low: 9, high: 2}", "expected low at most high"),
        ("0", "expected at least 1"),
    ],
    "[1, 1, 1, 1, 1, 0, 0]": [
        ("[1, 1]", "segments.shops.calendar.days: expected at least 7, found 2"),
        ("[0, 0, 0, 0, 0, 0, 0]", "days: expected at least one weight above 0"),
    ],
    "{-5h: 1, 5h30m: 1}": [
        ("{noon: 1}", "is not a duration"),
        ("{0s: 0}", "zones: expected at least one weight above 0"),
    ],
    "wait: backoff": [("wait: never", "expected one of told, backoff, found 'never'")],
    "backlog: 4": [("backlog: 5000", "expected at most 1000, found 5000")],
    "arrivals: steady": [("arrivals: bursts", "expected one of poisson, steady")],
}


@pytest.mark.parametrize(
    ("old", "new", "said"), [(old, new, said) for old, cases in REFUSED.items() for new, said in cases]
)
def test_a_mistake_is_told_with_its_place(old: str, new: str, said: str) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(BadInput) as refused:
        Population.parse(TEXT.replace(old, new), "customers.yaml")
    assert str(refused.value).startswith("customers.yaml:")
    assert said in str(refused.value)


def test_a_population_with_changes() -> None:
    population = Population.parse(TEXT)
    more = population.replace(accounts=9, segments={"shops": {"usage": {"read": 5}, "plans": "pro"}})
    assert more.segments["shops"].usage.read == Amount.constant(5)
    assert more.segments["shops"].usage.rank_run == population.segments["shops"].usage.rank_run
    assert set(more.segments["shops"].plans) == {"pro"}
    assert more.segments["agencies"] == population.segments["agencies"]
    with pytest.raises(BadInput, match=r"replace: segments\.shops\.share: expected at least 0"):
        population.replace(segments={"shops": {"share": -1.0}})
    moved = population.on("agency")
    assert {plan for segment in moved.segments.values() for plan in segment.plans} == {"agency"}


# What is drawn


def test_customers_are_drawn_as_said() -> None:
    population = Population.parse(TEXT).replace(accounts=8_000)
    policy = Policy()
    offers = offers_of(population, policy)
    made = customers_of(population, policy, offers, 1, 0, 8_000)
    customers = made.customers
    shops = customers["segment"] == 0
    assert shops.mean() == pytest.approx(0.75, abs=0.02)
    assert (customers["joins"] > population.start).mean() == pytest.approx(0.25, abs=0.02)
    assert (customers["joins"] < population.end).all()
    assert set(customers["domains"][shops].tolist()) == {1, 2, 3}
    thirds = np.bincount(customers["domains"][shops])[1:] / shops.sum()
    assert thirds == pytest.approx([1 / 3] * 3, abs=0.03)
    assert (customers["zone"][shops] == -5 * HOUR).mean() == pytest.approx(0.5, abs=0.03)
    assert customers["healthy"][~shops].mean() == pytest.approx(0.9, abs=0.03)
    agency = [plan for plan, _ in offers.sold].index("agency")
    assert (customers["offer"][~shops] == agency).mean() == pytest.approx(1 / 3, abs=0.04)
    assert ((population.start - customers["anchor"]) < 400 * DAY).all()
    owner = np.repeat(np.arange(8_000), customers["domains"])
    words = made.domains["keywords"][shops[owner]]
    assert words.max() <= 500
    assert np.median(words) == pytest.approx(40, abs=3)


def test_the_week_is_one_on_average_and_its_weekend_quiet() -> None:
    hours = hours_of(Population.parse(TEXT).segments["shops"])
    assert sum(hours) == pytest.approx(168_000, abs=84)
    assert hours[5 * 24 :] == [0] * 48
    assert hours[8] == pytest.approx(2 * hours[7], abs=1)


U = st.floats(min_value=2**-53, max_value=1 - 2**-53)


@given(U, U)
@pytest.mark.parametrize(
    "amount",
    [
        Amount.constant(3),
        Amount(kind="uniform", first=2, second=9, most=9),
        Amount(kind="lognormal", first=40, second=1, most=500),
        Amount(kind="pareto", first=10, second=1.5, most=1e4),
        Amount(kind="lognormal", first=40, second=1e9, most=500),  # beyond all floats
        Amount(kind="pareto", first=10, second=1e-6, most=1e4),
        Amount(kind="lognormal", first=0, second=1e9),
    ],
    ids=lambda amount: amount.kind,
)
def test_amounts_rise_with_their_share_within_bounds(amount: Amount, u: float, v: float) -> None:
    low, high = amount.at(np.array(sorted((u, v))))
    assert 0 <= low <= high <= amount.most
    least, most = amount.integers(np.array(sorted((u, v))))
    assert 0 <= least <= most <= amount.most + 0.5


def test_whole_uniform_amounts_have_even_odds() -> None:
    u = (np.arange(30_000) + 0.5) / 30_000
    counts = np.bincount(Amount(kind="uniform", first=1, second=3, most=3).integers(u))
    assert counts.tolist() == [0, 10_000, 10_000, 10_000]
