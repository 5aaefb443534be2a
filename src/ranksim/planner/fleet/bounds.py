"""Whether every number a fleet can meet fits 64 bits, checked before it starts.

Interpreted integers have no bounds, compiled ones wrap without a word; so what could overflow is refused.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import chain

from ranksim.core.clock import DAY
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.planner.fleet.customers import hours_of, levels_of
from ranksim.planner.fleet.offers import sold_to
from ranksim.planner.fleet.population import Population, Segment
from ranksim.planner.fleet.requests import AVERAGE
from ranksim.planner.fleet.rows import OUTCOMES, REFUSED

LARGEST = 2**62
"""Above it nothing may come; the rest up to 2**63 is room for one sum."""

MOST_DOMAINS = 2**20
MOST_LENGTH = 36_600 * DAY
MOST_REQUESTS = 10**9

Bound = tuple[str, int, int]
"""A field, the largest number it leads to, and the largest allowed."""


def check_bounds(population: Population, policy: Policy) -> None:
    """Raise BadInput naming the first field whose numbers could pass what 64 bits hold."""
    # One after the other, since a number is worked out from those before it.
    _check(chain(_of_policy(policy), _of_population(population, policy)))


def check_policy(policy: Policy) -> None:
    """Raise BadInput naming the first field of a policy whose numbers could pass what 64 bits hold."""
    _check(_of_policy(policy))


def _check(bounds: Iterable[Bound]) -> None:
    for field, number, most in bounds:
        if number > most:
            raise BadInput(
                f"{field}: leads to numbers up to {min(number, 10**300):.3g}, where a fleet counts to "
                f"{most:.3g}; make it smaller"
            )


def _of_policy(policy: Policy) -> Iterator[Bound]:
    policy.check_by_class()
    facts, catalogue = policy.facts, policy.catalogue
    for name in ("read", "write", "expensive"):
        limit = getattr(facts.rates, name)
        yield f"facts.rates.{name}", limit, 2**31
        # A token bucket holds limit × length, and as much again while it refills.
        yield f"facts.rates.{name}", 2 * limit * facts.rate_window, LARGEST
    for name, add_on in catalogue.add_ons.items():
        yield f"catalogue.add_ons.{name}.amount", add_on.amount * 1_000_000, LARGEST // 4
    for name, plan in catalogue.plans.items():
        at = f"catalogue.plans.{name}"
        for metric, quota in plan.quotas.items():
            yield f"{at}.quotas.{metric}.limit", quota.limit, LARGEST // 4
        for operation, length in plan.cooldowns.items():
            yield f"{at}.cooldowns.{operation}", length, LARGEST // 2
        yield f"{at}.cost_ceiling", plan.cost_ceiling, LARGEST // 2
        yield f"{at}.slot_limit", plan.slot_limit, LARGEST // 4
        for cap in ("page_cap", "call_cap"):
            yield f"{at}.{cap}", getattr(plan, cap), LARGEST // 4
    for kind, duration in catalogue.job_durations.items():
        yield f"catalogue.job_durations.{kind}", duration.at(1 - 2**-11), LARGEST // 2
    yield "assumptions.week_offset", abs(policy.assumptions.week_offset), 2**53


def _of_population(population: Population, policy: Policy) -> Iterator[Bound]:
    yield "start", abs(population.start), 2**61
    yield "length", population.length, MOST_LENGTH
    level = _highest_level(population)
    yield "growth", level, 10_000 * AVERAGE
    for name, segment in population.segments.items():
        yield from _of_segment(f"segments.{name}", segment, population, policy, level)


def _highest_level(population: Population) -> int:
    """The highest level that growth comes to; LARGEST where it passes all numbers."""
    try:
        return int(levels_of(population).max())
    except OverflowError:
        return LARGEST


def _of_segment(
    at: str, segment: Segment, population: Population, policy: Policy, level: int
) -> Iterator[Bound]:
    portfolio = segment.portfolio
    yield f"{at}.portfolio.domains", int(portfolio.domains.largest), MOST_DOMAINS
    yield f"{at}.calendar.zones", max(map(abs, segment.calendar.zones)), 2 * DAY
    # An hour at the busiest pace, in µs × pace.
    busiest = max(hours_of(segment)) * level // AVERAGE
    yield f"{at}.calendar.hours", busiest * 3_600_000_000, LARGEST
    rates = {name: segment.usage.of(name).largest for name in type(segment.usage).model_fields}
    days = population.length / DAY * level / AVERAGE
    requests = {name: _surely(most * days) for name, most in rates.items() if most > 0}
    for name, number in requests.items():
        yield f"{at}.usage.{name}", number, MOST_REQUESTS
    for outcome in REFUSED:
        reaction = segment.after_refusal.of(outcome)
        for name in ("first", "most"):
            yield f"{at}.after_refusal.{OUTCOMES[outcome]}.{name}", getattr(reaction, name), LARGEST // 2
    if policy.assumptions.refused_calls_count:
        # Refused calls pile up in a window: as tokens that are owed, or as the weight of the one before.
        tries = max(segment.after_refusal.of(outcome).tries for outcome in REFUSED)
        yield "facts.rate_window", sum(requests.values()) * tries * policy.facts.rate_window, LARGEST
    yield from _of_money(at, segment, population, policy, requests)


def _of_money(
    at: str, segment: Segment, population: Population, policy: Policy, requests: dict[str, int]
) -> Iterator[Bound]:
    """What an account could track and spend in all, if nothing refused it."""
    portfolio, costs = segment.portfolio, policy.catalogue.unit_costs
    each = max(1, portfolio.engine_devices * portfolio.geographies)
    tuples = (1 + requests.get("scans", 0)) * each
    yield f"{at}.usage.scans", tuples * segment.sizes.keywords.high, LARGEST // 4
    start = int(portfolio.domains.largest) * int(portfolio.keywords.largest)
    yield f"{at}.portfolio.keywords", start * each, LARGEST // 4
    keywords = start + requests.get("keywords", 0) * segment.sizes.keywords.high
    slots = keywords * tuples
    limits = [policy.catalogue.plans[plan].slot_limit for plan, _ in sold_to(population, policy)]
    # Whatever else applies, the slot limit applies to all that tracks.
    slots = min(slots, 2 * max(limits) + start * each)
    yield f"{at}.portfolio.keywords", keywords * each, LARGEST // 4
    spends = {
        "rank_run": slots * costs.rank_run_page,
        "crawl": int(portfolio.pages.largest) * costs.crawl_page,
        "site_optimization": int(portfolio.pages.largest) * costs.site_optimization_page,
        "ai_scan": int(portfolio.questions.largest) * costs.ai_scan_call,
        "keyword_briefs": segment.sizes.keyword_briefs.high * costs.keyword_brief,
    }
    for name, cost in spends.items():
        yield f"{at}.usage.{name}", requests.get(name, 1) * cost, LARGEST


def _surely(mean: float) -> int:
    """A number that Poisson arrivals with this mean do not pass: ten standard deviations, and some."""
    return int(mean + 10 * math.sqrt(mean) + 20)
