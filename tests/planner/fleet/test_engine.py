"""A fleet's result depends on population, policy and seed alone; plans meet the same requests."""

from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.service.consulted import Consulting
from ranksim.planner.fleet.engine import CONSULTED, simulate_fleet
from ranksim.planner.fleet.population import Population
from ranksim.planner.fleet.results import FleetResult

POPULATION = Population.parse("""
accounts: 25
start: 2026-03-01T00:00:00Z
length: 20d
joins: 0.3
churn: 0.2
segments:
  small:
    share: 3
    plans: {free: 1, starter: 1}
    portfolio: {domains: {uniform: {low: 1, high: 4}}, keywords: {pareto: {least: 5, shape: 1.2, most: 900}}}
    usage: {read: {lognormal: {median: 20, sigma: 1}}, rank_run: 2, keywords: 1, keyword_briefs: 2}
    after_refusal: {quota_exhausted: {retry: 0.5}, slot_limit_exceeded: {retry: 0.5, wait: backoff, most: 1d}}
  large:
    plans: {pro: 3, agency: {weight: 1, add_ons: {brief_pack: 2}}}
    portfolio: {domains: 8, keywords: {uniform: {low: 10, high: 90}}, engine_devices: 2}
    usage: {read: 60, write: 20, rank_run: 10, crawl: 1, ai_scan: 1, keyword_briefs: 9, remove_keywords: 1}
    calendar: {days: [1, 1, 1, 1, 1, 0, 0], zones: {0s: 1, -8h: 1}}
""")


@pytest.fixture(scope="module")
def whole() -> FleetResult:
    return simulate_fleet(POPULATION, seed=3, compiled=False)


@pytest.mark.parametrize(
    "how",
    [
        {"chunk": 1},
        {"chunk": 7, "threads": 2},
        {"chunk": 25, "threads": 2},
        {"chunk": 4, "compiled": False},
        {"chunk": 3, "threads": 2, "compiled": False},
    ],
    ids=str,
)
def test_neither_threads_nor_chunks_matter(whole: FleetResult, same: Any, how: dict[str, Any]) -> None:
    same(whole, simulate_fleet(POPULATION, seed=3, **how))


@pytest.mark.parametrize("cuts", [(1,), (12,), (3, 4, 20)], ids=str)
def test_parts_join_to_the_whole(whole: FleetResult, same: Any, cuts: tuple[int, ...]) -> None:
    edges = (0, *cuts, POPULATION.accounts)
    parts = [simulate_fleet(POPULATION, seed=3, accounts=(first, last)) for first, last in pairwise(edges)]
    joined = FleetResult.joined(parts)
    assert joined.fingerprint() == whole.fingerprint()
    np.testing.assert_array_equal(joined.accounts, whole.accounts)


def part(first: int, last: int) -> FleetResult:
    return simulate_fleet(POPULATION, seed=3, accounts=(first, last))


@pytest.mark.slow
def test_two_processes_give_what_one_does(whole: FleetResult) -> None:
    simulate_fleet(POPULATION, seed=3)  # compiles, if nobody has
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(part, (0, 12), (12, 25)))
    assert FleetResult.joined(parts).fingerprint() == whole.fingerprint()


def test_the_seed_matters_at_any_size(whole: FleetResult) -> None:
    prints = {simulate_fleet(POPULATION, seed=seed).fingerprint() for seed in (-1, 0, 4, 2**63, 2**64 - 2)}
    assert len(prints | {whole.fingerprint()}) == 6
    again = simulate_fleet(POPULATION, seed=2**64 - 1).fingerprint()
    assert again in prints, "seeds are taken modulo 2**64"


def test_a_population_with_a_seed_keeps_its_customers() -> None:
    kept = POPULATION.replace(seed=9)
    one, other = simulate_fleet(kept, seed=1), simulate_fleet(kept, seed=2)
    np.testing.assert_array_equal(one.customers, other.customers)
    assert one.fingerprint() != other.fingerprint()
    free = simulate_fleet(POPULATION, seed=2)
    assert (free.customers != one.customers).any()


# Common random numbers


def first_tries(result: FleetResult) -> list[tuple[int, ...]]:
    """What every customer set out to do: account, number, instant, activity, domain, size."""
    names = ["account", "number", "at", "activity", "domain", "size"]
    return sorted(entry[names].item() for entry in result.log if entry["tries"] == 1)


VARIANTS = {
    "plan": (POPULATION.on("agency"), Policy()),
    "plan with add-ons": (POPULATION.on("starter", {"brief_pack": 3}), Policy()),
    "ceiling": (POPULATION, Policy().replace(catalogue={"plans": {"free": {"cost_ceiling": "0.01 USD"}}})),
    "rates": (POPULATION, Policy().replace(facts={"rates": {"read": 1, "write": 1, "expensive": 1}})),
    "window": (POPULATION, Policy().replace(facts={"rate_window": "1d"}, assumptions={"window": "gcra"})),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_meet_the_same_requests(variant: str) -> None:
    population, policy = VARIANTS[variant]
    before = simulate_fleet(POPULATION, seed=3, log=100_000)
    after = simulate_fleet(population, policy, seed=3, log=100_000)
    assert first_tries(after) == first_tries(before)
    assert after.fingerprint() != before.fingerprint()


def test_customers_keep_their_portfolio_wishes_on_another_plan() -> None:
    before = simulate_fleet(POPULATION, seed=3).customers
    after = simulate_fleet(POPULATION.on("agency"), seed=3).customers
    for name in ("number", "segment", "joins", "leaves", "zone", "gap", "domains", "slots_wanted"):
        np.testing.assert_array_equal(before[name], after[name])


# What is asked of the engine itself


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"accounts": (0, 26)}, "accounts: expected a part of 0 to 25, found 0 to 26"),
        ({"accounts": (5, 5)}, "accounts: expected a part"),
        ({"accounts": (-1, 5)}, "accounts: expected a part"),
        ({"threads": 0}, "threads: expected at least 1, found 0"),
        ({"chunk": 0}, "chunk: expected at least 1, found 0"),
        ({"log": -1}, "log: expected at least 0, found -1"),
    ],
)
def test_bad_requests_are_refused(how: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        simulate_fleet(POPULATION, **how)


def test_plans_and_add_ons_are_those_of_the_catalogue() -> None:
    with pytest.raises(BadInput, match=r"segments\.small\.plans\.gold: no plan 'gold'; expected one of free"):
        simulate_fleet(POPULATION.on("gold"))
    with pytest.raises(BadInput, match=r"segments\.small\.plans\.pro\.add_ons: no add-on 'more'"):
        simulate_fleet(POPULATION.on("pro", {"more": 1}))


def test_the_log_keeps_the_first_requests_in_order(same: Any) -> None:
    full = simulate_fleet(POPULATION, seed=3, log=10**6)
    assert len(full.log) == full.tallies["calls"].sum()
    for account in range(3):
        times = full.log["at"][full.log["account"] == account]
        assert (np.diff(times) >= 0).all()
    some = simulate_fleet(POPULATION, seed=3, log=100, chunk=1)
    np.testing.assert_array_equal(some.log, full.log[:100])
    same(simulate_fleet(POPULATION, seed=3, log=100, chunk=1, compiled=False), some)


def test_what_a_fleet_reads_of_the_assumptions_is_listed() -> None:
    noted = Consulting(Policy())
    simulate_fleet(POPULATION, noted.policy, seed=1, compiled=False)
    assert noted.names() == CONSULTED
