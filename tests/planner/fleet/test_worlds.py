"""A fleet and a simulated world, given the same customers, decide alike call by call.

The fleet makes the requests and judges them; then each is made again, at its instant, in a SimPy world whose
accounts have the same portfolios. Jobs last constant times, and what they find is more than the plan's cap,
because both are drawn by other addresses in a world.
"""

from collections import Counter
from typing import Any

import pytest

from ranksim.core.clock import format_duration
from ranksim.core.contract.policy import Policy
from ranksim.core.rules.admission import held_at, spent_at, used_at
from ranksim.core.rules.terms import terms_of
from ranksim.core.service.calls import Call, Reply
from ranksim.planner.fleet.engine import simulate_fleet
from ranksim.planner.fleet.population import Population
from ranksim.planner.fleet.results import FleetResult
from ranksim.planner.fleet.rows import ACTIVITIES, LIMITED, OUTCOMES
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.world import World

POPULATION = Population.parse("""
accounts: 6
start: 2026-03-12T00:00:00Z
length: 34d
churn: 0.2
growth: 0.2
segments:
  shops:
    plans: {team: 2, studio: {weight: 1, add_ons: {run_pack: 1}}}
    portfolio: {domains: 2, keywords: 30, pages: 100000, questions: 1000}
    sizes: {keyword_briefs: {low: 1, high: 3}, keywords: {low: 1, high: 40}, remove_keywords: 1}
    usage:
      {read: 3, write: 3, rank_run: 9, crawl: 1, site_optimization: 1, ai_scan: 2,
       keyword_briefs: 9, keywords: 4, scans: 0.2, remove_keywords: 9}
    calendar: {days: [2, 1, 1, 1, 1, 0, 0], zones: {5h: 1, -4h: 1}}
    after_refusal:
      rate_limited: {retry: 0.9}
      quota_exhausted: {retry: 0.5}
      cost_cap_reached: {retry: 0.5}
      slot_limit_exceeded: {retry: 0.3, wait: backoff, first: 1h, most: 2d}
      cooldown_active: {retry: 0.8}
  past_due:
    share: 0.3
    past_due: 1
    plans: team
    usage: {rank_run: 3, keywords: 3}
""")

BOUGHT = {"keywords": "0s", "scans": "0s"}
"""No cooldown for what a world's portfolio is bought with."""

CATALOGUE = {
    "plans": {
        "team": {
            "page_cap": 20,
            "slot_limit": 1_500,
            "cost_ceiling": "4 USD",
            "quotas": {"rank_runs": {"limit": 120}},
            "cooldowns": BOUGHT,
        },
        "studio": {
            "cooldowns": BOUGHT,
            "page_cap": 25,
            "call_cap": 10,
            "slot_limit": 2_500,
            "cost_ceiling": "6 USD",
        },
    },
    "job_durations": {"rank_run": "25m", "crawl": "2h", "site_optimization": "10m", "ai_scan": "5m"},
    "job_failure_rates": dict.fromkeys(("rank_run", "crawl", "site_optimization", "ai_scan"), 0),
}
RATES = {"read": 3, "write": 2, "expensive": 2}
POLICY = (
    Policy()
    .replace(catalogue="illustrative-metered")
    .replace(facts={"rates": RATES, "rate_window": "20m"}, catalogue=CATALOGUE)
)


def world_of(result: FleetResult) -> World:
    """A world with the accounts of a fleet; who is past due becomes so after its portfolio is made."""
    population, accounts = result.population, {}
    for customer in result.customers:
        segment = list(population.segments.values())[customer["segment"]]
        plan, add_ons = result.sold[customer["offer"]]
        accounts[f"a{customer['number']}"] = {
            "plan": plan,
            "anchor": int(customer["anchor"]),
            "add_ons": dict(add_ons),
            "status": "active" if customer["healthy"] else "past_due",
            "portfolio": {
                "domains": int(customer["domains"]),
                "keywords": int(segment.portfolio.keywords.first),
            },
        }
    scenario = Scenario.parse(
        f"start: 2026-03-12T00:00:00Z\nlength: {format_duration(population.length)}\n"
        "accounts: {nobody: {plan: team}}\ncatalogue: illustrative-metered"
    )
    world = World(scenario.replace(accounts=accounts, policy=result.policy))
    for account in world.service.state.accounts.values():
        # A fleet's portfolios stand from the start, where a world's were just bought.
        for meter in account.meters.values():
            meter.used = 0
    return world


def call_of(world: World, name: str, entry: Any) -> Call:
    """The call that a request of the fleet stands for."""
    actor = world.actors[name]
    domain, size = actor.domains[entry["domain"]], int(entry["size"])
    activity, key = ACTIVITIES[entry["activity"]], actor.keys["main"]
    list_id = actor.lists[domain][0]
    match activity:
        case "read":
            return Call("positions.list", key=key, query={"domain_id": domain})
        case "keyword_briefs":
            words = [f"brief {number}" for number in range(size)]
            return Call("keyword_briefs.create", key=key, body={"domain_id": domain, "keywords": words})
        case "keywords":
            words = [f"w{entry['number']}-{number}" for number in range(size)]
            return Call("keywords.create", key=key, body={"list_id": list_id, "keywords": words})
        case "scans":
            body = {
                "domain_id": domain,
                "list_ids": [list_id],
                "engine_devices": ["google/desktop"],
                "geographies": [{"country": "US"}],
            }
            return Call("scans.create", key=key, body=body)
        case "remove_keywords" if words := list(world.service.state.keyword_lists[list_id].words.values()):
            return Call("keywords.delete", key=key, path={"id": words[0]})
        case "write" | "remove_keywords":
            body = {"domain_id": domain, "name": f"label {entry['number']}-{entry['tries']}"}
            return Call("labels.create", key=key, body=body)
        case _:
            return Call("jobs.create", key=key, body={"kind": activity, "domain_id": domain})


def outcome_of(reply: Reply) -> str:
    if reply.outcome == "limited":
        return OUTCOMES[LIMITED]
    if reply.check:
        return OUTCOMES[reply.check]
    assert reply.status < 300, reply.body
    return "joined" if reply.outcome == "joined" else "granted"


CASES = {
    "defaults": {},
    "clock": {"window": "clock", "expensive_debits_write": True, "month": "calendar"},
    "sliding_log": {"window": "sliding_log", "refused_calls_count": True, "cooldown_from": "finish"},
    "sliding_counter": {"window": "sliding_counter", "quota_grant": "partial", "join": "after_checks"},
    "gcra": {"window": "gcra", "over_slots": "partial", "checks_apply": "table", "join": "before_checks"},
    "first_hit": {"refused_calls_count": True, "cooldown_scope": "account", "cost_gate": "would_exceed"},
    "never_join": {"join": "never", "cap": "refuse", "tracking_class": "expensive"},
    "dimensions": {"ceiling_stops_tracking": False, "week_offset": "9h", "expensive_debits_write": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("assumptions", CASES.values(), ids=CASES)
def test_a_world_decides_as_the_fleet_does(assumptions: dict[str, Any]) -> None:
    policy = POLICY.replace(assumptions=assumptions)
    result = simulate_fleet(POPULATION, policy, seed=11, log=20_000, compiled=False)
    entries = sorted(result.log, key=lambda entry: entry["at"])
    assert len(entries) == result.tallies["calls"].sum()
    world = world_of(result)
    outcomes: Counter[str] = Counter()

    def make(entry: Any) -> None:
        reply = world.call(call_of(world, f"a{entry['account']}", entry))
        expected = OUTCOMES[entry["outcome"]]
        assert outcome_of(reply) == expected, (entry, reply.body)
        outcomes[expected] += 1

    for entry in entries:
        world.at(int(entry["at"]), make, entry)
    world.run()
    assert len(outcomes) >= 7, outcomes
    check_books(world, result)


def check_books(world: World, result: FleetResult) -> None:
    """What is left in the books at the end is the same."""
    now, terms = world.end - 1, terms_of(result.policy)
    for row, customer in enumerate(result.customers):
        account = world.service.state.accounts[world.actors[f"a{customer['number']}"].account]
        books = result.books[row]
        assert account.books.active == books["active"]
        assert held_at(now, account.books) == (books["held"] if now < books["month_ends"] else 0)
        assert spent_at(now, account.books, terms) == (books["settled"] if now < books["month_ends"] else 0)
        for index, metric in enumerate(result.metered):
            if metric not in account.meters:
                continue
            meter = result.meters[row, index]
            used = used_at(now, account.meters[metric])
            assert used == (meter["used"] if now < meter["ends"] else 0)
