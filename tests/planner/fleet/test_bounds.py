"""What could pass 64 bits is refused before a fleet starts, by the name of its field."""

from typing import Any

import pytest

from ranksim.core.clock import DAY
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.planner.fleet.engine import simulate_fleet
from ranksim.planner.fleet.population import Population

POPULATION = Population.parse("""
accounts: 2
start: 2026-03-01T00:00:00Z
length: 1d
segments:
  some: {plans: pro, usage: {read: 5, rank_run: 3, keywords: 5, scans: 1, crawl: 1, ai_scan: 1}}
""")

HUGE = 10**18


def plan(**changes: Any) -> dict[str, Any]:
    return {"catalogue": {"plans": {"pro": changes}}}


POLICIES = {
    "facts.rates.read": {"facts": {"rates": {"read": 2**31 + 1}}},
    "facts.rates.write": {"facts": {"rates": {"write": 2**30}, "rate_window": 400 * DAY}},
    "catalogue.add_ons.brief_pack.amount": {"catalogue": {"add_ons": {"brief_pack": {"amount": 10**13}}}},
    "catalogue.plans.pro.quotas.research_lookups.limit": plan(quotas={"research_lookups": {"limit": 2**61}}),
    "catalogue.plans.pro.cooldowns.crawl": plan(cooldowns={"crawl": 2**62}),
    "catalogue.plans.pro.cost_ceiling": plan(cost_ceiling=2**62),
    "catalogue.plans.pro.slot_limit": plan(slot_limit=2**61),
    "catalogue.plans.pro.call_cap": plan(call_cap=10**400),
    "catalogue.plans.pro.page_cap": plan(page_cap=2**61),
    "catalogue.job_durations.crawl": {"catalogue": {"job_durations": {"crawl": 2**62}}},
    "assumptions.week_offset": {"assumptions": {"week_offset": 2**54}},
    "segments.some.usage.rank_run": {"catalogue": {"unit_costs": {"rank_run_page": HUGE}}},
    "segments.some.usage.ai_scan": {"catalogue": {"unit_costs": {"ai_scan_call": HUGE}}},
}


@pytest.mark.parametrize(("field", "changes"), POLICIES.items(), ids=POLICIES)
def test_a_policy_that_could_overflow_is_refused(field: str, changes: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as refused:
        simulate_fleet(POPULATION, Policy().replace(**changes), compiled=False)
    assert str(refused.value).startswith(f"{field}: leads to numbers up to ")
    assert str(refused.value).endswith("make it smaller")


def some(**changes: Any) -> dict[str, Any]:
    return {"segments": {"some": changes}}


POPULATIONS = {
    "start": {"start": 2**61 + 1},
    "length": {"length": 40_000 * DAY, "growth": 10.0},
    "growth": {"length": 400 * DAY, "growth": 9.0},
    "growth: leads": {"length": 3_000 * DAY, "growth": 10.0},
    "growth: ": {"length": 36_600 * DAY, "growth": 10.0},
    "segments.some.portfolio.domains": some(portfolio={"domains": 2_000_000}),
    "segments.some.portfolio.keywords": some(
        portfolio={"domains": 1_000_000, "keywords": 10**9, "engine_devices": 1000, "geographies": 1000}
    ),
    "segments.some.after_refusal.rate_limited.most": some(after_refusal={"rate_limited": {"most": 2**62}}),
    "segments.some.after_refusal.quota_exhausted.first": some(
        after_refusal={"quota_exhausted": {"first": 2**70}}
    ),
    "segments.some.calendar.zones": some(calendar={"zones": {3 * DAY: 1.0}}),
    "segments.some.usage.read": some(usage={"read": {"pareto": {"least": 1.0, "shape": 1.0, "most": 1.1e9}}}),
    "segments.some.usage.write": some(usage={"write": {"uniform": {"low": 0, "high": 1e9}}}),
    "segments.some.usage.crawl": some(portfolio={"pages": 10**9}, usage={"crawl": 10**8}),
}


@pytest.mark.parametrize(("field", "changes"), POPULATIONS.items(), ids=POPULATIONS)
def test_a_population_that_could_overflow_is_refused(field: str, changes: dict[str, Any]) -> None:
    policy = Policy().replace(catalogue={"unit_costs": {"crawl_page": 10**5}})
    with pytest.raises(BadInput, match=r"(leads to numbers up to|expected at most)") as refused:
        simulate_fleet(POPULATION.replace(**changes), policy, compiled=False)
    assert field in str(refused.value)


@pytest.mark.slow
def test_a_wait_that_doubles_often_is_the_same_compiled_and_interpreted(same: Any) -> None:
    """One hour doubled thirty times passes 64 bits, where `most` has long ended it."""
    patient = {"retry": 1.0, "tries": 255, "wait": "backoff", "first": 3600 * 10**6, "most": 3 * DAY}
    population = POPULATION.replace(
        length=300 * DAY,
        **some(usage={"keywords": 1}, after_refusal={"slot_limit_exceeded": patient}),
    )
    policy = Policy().replace(**plan(slot_limit=50))
    interpreted = simulate_fleet(population, policy, compiled=False)
    assert interpreted.accounts["calls"].max() > 64 * 2
    same(interpreted, simulate_fleet(population, policy))


@pytest.mark.slow
def test_the_largest_numbers_that_pass_give_the_same_compiled_and_interpreted(same: Any) -> None:
    """At the edge of what is let through, Python's integers without bounds find what 64 bits find."""
    policy = Policy().replace(
        facts={"rates": {"read": 2**20, "write": 2**20, "expensive": 2**20}, "rate_window": 25 * DAY},
        assumptions={"window": "gcra"},
        catalogue={
            "plans": {
                "pro": {
                    "slot_limit": 2**35,
                    "cost_ceiling": 2**60,
                    "page_cap": 2**59,
                    "cooldowns": {"crawl": 2**60},
                }
            },
            "unit_costs": {"rank_run_page": 2**14, "crawl_page": 2**30},
        },
    )
    population = POPULATION.replace(
        **some(
            portfolio={
                "domains": 20,
                "keywords": 10**6,
                "pages": 10**6,
                "engine_devices": 4,
                "geographies": 5,
            },
            usage={"read": 300, "rank_run": 20, "keywords": 20, "crawl": 10, "scans": 0},
        )
    )
    interpreted = simulate_fleet(population, policy, compiled=False)
    same(interpreted, simulate_fleet(population, policy))
    assert interpreted.accounts["spend"].max() > 10**14
