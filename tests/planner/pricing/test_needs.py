"""What would have been enough is enough: the same calls are served again with the add-ons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from any_fleets import METERED, WORDS, policies, populations
from flat_customers import CALENDAR, USD, catalogue, population
from hypothesis import HealthCheck, given, settings

from ranksim.core.contract.facts import Decision
from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import Policy
from ranksim.planner.fleet.engine import simulate_fleet
from ranksim.planner.fleet.population import Population
from ranksim.planner.fleet.rows import LIMITED
from ranksim.planner.pricing.bills import NONE, with_packs
from ranksim.planner.pricing.compare import Comparison, compare
from ranksim.twin.sim.runner import replication_seed

PACK, RUNS = "brief_pack", "run_pack"


def sold(ceiling: int, **plans: dict[str, Any]) -> Catalogue:
    """A plan of 20 briefs a week with a ceiling (µUSD), and others."""
    made = catalogue({"flat": {"price": 30 * USD, "cost_ceiling": ceiling}, **plans})
    flat = made.plans["flat"]
    quota = flat.quotas["keyword_brief_refreshes"].model_copy(update={"limit": 20})
    flat = flat.model_copy(update={"quotas": {"keyword_brief_refreshes": quota}})
    return made.model_copy(update={"plans": made.plans | {"flat": flat}})


def needs_of(compared: Comparison) -> list[tuple[Any, ...]]:
    """Those of A."""
    of = ("kind", "needs", "accounts", "count", "uplift", "still_refused")
    return [tuple(row[name] for name in of) for row in compared.tables["needs"] if row["side"] == "A"]


@pytest.mark.parametrize(
    ("ceiling", "uplift", "code"),
    [
        # Four briefs a day are 28 a week, for which one pack is enough, and 3.60 USD in the month.
        (3_600_000, 10 * 15 * USD, ""),
        # The ceiling refuses the last of them: 85 a month in 20 a week are 2.58 USD, 120 are not.
        (3_500_000, 0, "cost_cap_reached"),
    ],
)
def test_an_add_on_is_enough_only_where_the_ceiling_lets_the_calls_pass(
    ceiling: int, uplift: int, code: str
) -> None:
    one = sold(ceiling)
    compared = compare(population(), one, one, policy=CALENDAR, replications=2)
    assert needs_of(compared) == [
        ("plan", NONE, 10, 0, 0, "") if code else ("plan", f"flat + {PACK}", 10, 10, uplift, ""),
        ("add_on", PACK, 10, 10, uplift, code),
    ]
    (view,) = (view for view in compared.views() if view.title == "What would have been enough")
    assert [row[1] for row in view.rows] == (
        [NONE, f"{PACK} (not enough: {code})"] if code else [f"flat + {PACK}"]
    )
    assert "ceiling" not in view.note


def test_a_remedy_that_differs_under_b_stands_in_both_rows() -> None:
    """Under B the large plan is cheaper than a pack; on their own plan a pack is enough under both."""
    one = sold(3_600_000)
    two = sold(3_600_000, large={"price": 31 * USD})
    compared = compare(population(), one, two, policy=CALENDAR, replications=2)
    (view,) = (view for view in compared.views() if view.title == "What would have been enough")
    rows = {row[1]: row[2:4] for row in view.rows}
    assert rows == {f"flat + {PACK}": ("10", "0"), "large": ("0", "10"), PACK: ("10", "10")}


def test_the_next_plan_is_enough_where_add_ons_are_not() -> None:
    two = sold(3_500_000, large={"price": 40 * USD})
    assert needs_of(compare(population(), two, two, policy=CALENDAR, replications=2)) == [
        ("plan", "large", 10, 0, 10 * 10 * USD, ""),
        ("add_on", PACK, 10, 10, 0, "cost_cap_reached"),
    ]


def test_needs_are_the_same_interpreted_and_on_threads() -> None:
    one = sold(3_500_000)
    varied = population(briefs="{lognormal: {median: 4, sigma: 1}}", accounts=40, steady=False)
    first, *others = (
        needs_of(
            compare(varied, one, one, policy=CALENDAR, replications=2, compiled=compiled, threads=threads)
        )
        for compiled, threads in ((None, 1), (None, 2), (False, 1))
    )
    assert {need[-1] for need in first} == {"", "cost_cap_reached"}
    assert others == [first, first]


def test_who_has_the_add_ons_that_they_need_needs_nothing() -> None:
    one, buyers = sold(3_600_000, large={"price": 90 * USD}), bought(population(), "flat", {PACK: 3})
    compared = compare(buyers, one, one, policy=CALENDAR, replications=2)
    assert (compared.row("hit_any")["a"], compared.row("wants_more")["a"]) == (0, 0)
    # 28 briefs of 20 take one pack of the three that they pay for.
    assert needs_of(compared) == [("enough", f"flat + {PACK}", 10, 10, -10 * 2 * 15 * USD, "")]


def test_a_cheaper_plan_with_add_ons_is_cheaper_than_a_large_one() -> None:
    two = sold(3_500_000, middle={"price": 40 * USD}, large={"price": 90 * USD})
    middle = two.plans["flat"].model_copy(update={"price": 40 * USD, "cost_ceiling": 3_600_000})
    two = two.model_copy(
        update={"plans": two.plans | {"middle": middle.model_copy(update={"name": "middle"})}}
    )
    assert needs_of(compare(population(), two, two, policy=CALENDAR, replications=2)) == [
        ("plan", f"middle + {PACK}", 10, 10, 10 * (40 + 15 - 30) * USD, ""),
        ("add_on", PACK, 10, 10, 0, "cost_cap_reached"),
    ]


@pytest.mark.parametrize("held", [0, 1, 3])
def test_those_who_need_a_plan_are_those_who_want_more(held: int) -> None:
    one = sold(3_000_000, large={"price": 90 * USD})
    customers = population(briefs="{lognormal: {median: 4, sigma: 1}}", accounts=60, steady=False)
    customers = bought(customers, "flat", {PACK: held})
    compared = compare(customers, one, one, policy=CALENDAR, replications=2, seed=3)
    own = simulate_fleet(customers, CALENDAR.replace(catalogue=one), replication_seed(3, 0))
    lacking = int((~own.accounts["enough"]).sum())
    rows = [need for need in compared.needs if need.side == "A"]
    assert sum(need.accounts for need in rows if need.kind == "plan") == lacking
    assert sum(need.accounts for need in rows if need.kind == "enough") == 60 - lacking
    assert 0 < lacking < 60
    assert all(need.uplift <= 0 for need in rows if need.kind == "enough")
    assert sum(need.accounts for need in rows if need.kind == "add_on") <= lacking


def test_of_several_add_ons_for_one_metric_each_takes_the_cheapest() -> None:
    one = sold(3_600_000)
    small = one.add_ons[PACK].model_copy(update={"amount": 8, "price": USD})
    one = one.model_copy(update={"add_ons": one.add_ons | {"small_pack": small}})
    compared = compare(population(), one, one, policy=CALENDAR, replications=2)
    assert needs_of(compared)[1:] == [("add_on", "small_pack", 10, 10, 10 * USD, "")]


def test_who_needs_two_add_ons_needs_both() -> None:
    policy = METERED.replace(
        catalogue={
            "plans": {
                "team": {
                    "quotas": {"rank_runs": {"limit": 3}, "keyword_brief_refreshes": {"limit": 3}},
                    "cooldowns": {"rank_run": 0},
                }
            }
        },
        assumptions={"month": "calendar"},
    )
    both = population("team").replace(segments={"all": {"usage": {"rank_run": 1.0}}})
    compared = compare(both, policy.catalogue, policy.catalogue, policy=policy, replications=2)
    (need,) = (need for need in compared.needs if need.side == "A" and need.kind == "add_on")
    assert (need.needs, need.accounts, need.still_refused) == (f"{PACK} + {RUNS}", 10, "")


def test_a_subscription_that_is_not_active_needs_no_add_on() -> None:
    idle = population().replace(segments={"all": {"past_due": 1.0}})
    one = sold(3_600_000)
    compared = compare(idle, one, one, policy=CALENDAR, replications=2)
    (need,) = (need for need in compared.needs if need.side == "A" and need.kind == "add_on")
    assert (need.still_refused, need.uplift) == ("subscription_inactive", 0)


def bought(population: Population, plan: str, counts: dict[str, int]) -> Population:
    """The same customers, those of a plan with more add-ons."""
    (segment,) = population.segments.values()
    choice = segment.plans[plan]
    add_ons = {name: choice.add_ons.get(name, 0) + count for name, count in counts.items()}
    plans = segment.plans | {plan: choice.model_copy(update={"add_ons": choice.add_ons | add_ons})}
    some = segment.model_copy(update={"plans": plans})
    return population.model_copy(update={"segments": {"some": some}})


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(populations(), policies(), WORDS)
def test_what_is_enough_serves_the_same_calls(population: Population, policy: Policy, seed: int) -> None:
    policy = policy.replace(
        catalogue={"plans": {plan: {"quotas": {"rank_runs": {"limit": 2}}} for plan in ("team", "studio")}}
    )
    own = simulate_fleet(population, policy, seed, compiled=True)
    packs = with_packs(own, compiled=True)
    refused_before = own.counts.sum(axis=1)
    for row in np.flatnonzero(packs.counts.any(axis=1)).tolist():
        counts = dict(zip(policy.catalogue.add_ons, packs.counts[row].tolist(), strict=True))
        customers = bought(population, str(own.plan_names[row]), counts)
        alone = simulate_fleet(customers, policy, seed, compiled=True)
        refusals = alone.counts.sum(axis=1)[row]
        refusals[[Decision.GRANTED, Decision.JOINED, LIMITED]] = 0
        if packs.refusals[row] == Decision.GRANTED:
            refusals[Decision.COOLDOWN_ACTIVE] -= min(
                refusals[Decision.COOLDOWN_ACTIVE], refused_before[row, Decision.COOLDOWN_ACTIVE]
            )
            assert not refusals.any()
            assert alone.accounts["enough"][row]
        elif packs.refusals[row] == Decision.SLOT_LIMIT_EXCEEDED:
            assert refusals[Decision.SLOT_LIMIT_EXCEEDED] or not alone.accounts["enough"][row]
        else:
            assert refusals[packs.refusals[row]] > 0
