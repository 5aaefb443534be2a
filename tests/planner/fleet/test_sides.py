"""Several sides served in one go come to what each comes to alone, and nobody is served twice for nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from any_fleets import METERED, WORDS, policies, populations
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.planner.fleet.engine import Interpreted, simulate_fleet, simulate_sides
from ranksim.planner.fleet.population import Population
from ranksim.planner.fleet.sides import FleetSide

ROOMY: dict[str, Any] = {"slot_limit": 5_000, "cost_ceiling": 50_000_000, "page_cap": 300}

CHANGES = st.lists(
    st.sampled_from(
        [
            {"cost_ceiling": 10_000},
            {"cost_ceiling": 1_000_000},
            {"cost_ceiling": 4_000_000},
            {"slot_limit": 100},
            {"slot_limit": 9_000},
            {"quotas": {"rank_runs": {"limit": 3}}},
            {"quotas": {"rank_runs": {"limit": 40}}},
            {"quotas": {"rank_runs": {"limit": 60}}},
            {"cooldowns": {"rank_run": 0}},
            {"page_cap": 20},
            {"capabilities": ["rank_tracking"]},
            {"dimensions": {"max_engine_devices": 1}},
            {"price": 1},
        ]
    ),
    max_size=3,
)
"""What one plan has otherwise, in ways that concern some customers and not others."""


def changed(policy: Policy, changes: list[dict[str, Any]]) -> Policy:
    """A policy with these changes of both plans."""
    for change in changes:
        policy = policy.replace(catalogue={"plans": {"team": change, "studio": change}})
    return policy


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(populations(), policies(), st.lists(CHANGES, min_size=1, max_size=3), st.booleans(), WORDS)
def test_each_side_comes_to_what_it_does_alone(
    same: Any, population: Population, policy: Policy, changes: Any, roomy: bool, seed: int
) -> None:
    if roomy:
        policy = changed(policy, [ROOMY])
    tried = [policy, *(changed(policy, change) for change in changes)]
    sides = [FleetSide(population, one) for one in tried]
    short = [FleetSide(population.on(plan), one, short=True) for one in tried for plan in ("team", "studio")]
    found = simulate_sides([*sides, *short], seed, compiled=True)
    for side, result in zip([*sides, *short], found, strict=True):
        alone = simulate_fleet(side.population, side.policy, seed, compiled=True)
        if side.short:
            assert result.accounts["enough"].tolist() == alone.accounts["enough"].tolist()
        else:
            same(result, alone)


SHOPS = Population.parse("""
accounts: 12
start: 2026-03-01T00:00:00Z
length: 12d
segments:
  a: {plans: team, usage: {rank_run: {uniform: {low: 0, high: 3}}, read: 2}, portfolio: {keywords: 50}}
  b: {plans: studio, usage: {rank_run: 1, keywords: 1}, portfolio: {domains: 2, keywords: 50}}
""")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The accounts that each side serves, side by side."""
    rows: list[list[int]] = []
    serve = Interpreted.serve

    def noted(self: Interpreted, side: int, mine: Any, first: int) -> None:
        rows.append(mine.tolist())
        serve(self, side, mine, first)

    monkeypatch.setattr(Interpreted, "serve", noted)
    return rows


def test_whom_nothing_that_differs_concerns_is_served_once(same: Any, served: list[list[int]]) -> None:
    dear = METERED.replace(catalogue={"plans": {"team": {"price": "1 USD"}}})
    spent = simulate_fleet(SHOPS, METERED, 5, compiled=False).accounts["spend_peak"]
    on_team = simulate_fleet(SHOPS, METERED, 5, compiled=False).plan_names == "team"
    middle = int(np.median(spent[on_team]))
    low = METERED.replace(catalogue={"plans": {"team": {"cost_ceiling": middle}}})
    served.clear()
    found = simulate_sides([FleetSide(SHOPS, policy) for policy in (METERED, dear, low)], 5, compiled=False)
    assert served[:2] == [list(range(12)), []]
    assert served[2] == np.flatnonzero(on_team & (spent >= middle)).tolist()
    assert 0 < len(served[2]) < int(on_team.sum())
    for policy, result in zip((METERED, dear, low), found, strict=True):
        same(result, simulate_fleet(SHOPS, policy, 5, compiled=False))


def test_what_holds_for_all_plans_is_served_anew(served: list[list[int]]) -> None:
    other = METERED.replace(assumptions={"window": "sliding_log"})
    simulate_sides([FleetSide(SHOPS, METERED), FleetSide(SHOPS, other)], 5, compiled=False)
    assert served == [list(range(12)), list(range(12))]


@pytest.mark.slow
def test_busy_accounts_get_a_longer_tape(same: Any) -> None:
    busy = Population.parse("""
accounts: 3
start: 2026-03-01T00:00:00Z
length: 30d
segments: {a: {plans: team, usage: {read: {uniform: {low: 10, high: 6000}}, rank_run: 3}}}
""")
    lower = METERED.replace(catalogue={"plans": {"team": {"cost_ceiling": "1 USD"}}})
    found = simulate_sides([FleetSide(busy, METERED), FleetSide(busy, lower)], 1)
    assert found[0].tallies["calls"].max() > 1 << 16  # twice the room there is at first
    same(found[1], simulate_fleet(busy, lower, 1, chunk=1, compiled=False))


def test_other_customers_are_refused() -> None:
    more = SHOPS.replace(segments={"a": {"usage": {"read": 3}}})
    with pytest.raises(BadInput, match="differ in nothing but plans"):
        simulate_sides([FleetSide(SHOPS, METERED), FleetSide(more, METERED)], 5, compiled=False)
    with pytest.raises(BadInput, match="threads"):
        simulate_sides([FleetSide(SHOPS, METERED)], 5, threads=0)
