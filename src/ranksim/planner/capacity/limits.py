"""Every limit of a plan beside what a workload needs of it: what is exceeded is refused.

Needs grow with the workload. The month is the longest, of 31 days; work is spread over it as evenly as it
can be, and no word is removed that comes back.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ranksim.core.clock import WEEK, Micros
from ranksim.core.contract.facts import CHECK_OF
from ranksim.core.contract.plans import JobLabel, Plan
from ranksim.core.contract.policy import Policy
from ranksim.planner.capacity.common import expect, expect_one_of
from ranksim.planner.capacity.workload import MONTH, Number, Uncounted, Used, Workload
from ranksim.report import units

Quantity = Literal["count", "money", "duration"]

UNCUT = 1 << 62
"""The cap of what no cap cuts."""

MOST = 10_000_000
"""Beyond this many keywords or domains nothing is looked for."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of a plan: what a portfolio needs of it, what there is, and the refusal that minds it.

    `metric` is the allowance that is meant, which add-ons enlarge, or "".
    """

    name: str
    need: int
    there: int
    quantity: Quantity
    refusal: str
    metric: str = ""

    @property
    def exceeded(self) -> bool:
        """Whether the portfolio needs more than there is."""
        return self.need > self.there

    @property
    def used(self) -> float:
        """The share of what there is that is needed; without end where there is nothing."""
        return self.need / self.there if self.there else math.inf if self.need else 0.0


def plan_limits(load: Workload, plan: Plan, policy: Policy, elapsed: Micros | None = None) -> list[Limit]:
    """Return every limit of a plan, with what a workload needs of it, in the order of the checks.

    Needed is what a longest month asks for at most or, where it is more, the present one, of which something
    is used; with `elapsed` (µs) what is asked for in so much of the present month, by the calendar. What a
    workload leaves out is needed in a longest month, too, whatever its size. No work
    is refused while no need exceeds what there is; the ceiling, where a job that crosses it completes (U48
    "at_ceiling"), lets pass less than one job more.
    """
    return [
        *_plan_limits(load, plan, policy),
        Limit(SPEND, _spent(load, plan, policy, elapsed), plan.cost_ceiling, "money", COST),
        *_quotas(load, plan, policy, elapsed),
        Limit(TRACKED, _slots(load, elapsed), plan.slot_limit, "count", SLOTS),
        *_cooldowns(load, plan, policy),
        _rate(load, policy),
    ]


CAPABILITY, _, COST, QUOTA, SLOTS, COOLDOWN = CHECK_OF

CAPABILITY_OF = "capability "
"""What the name of a limit begins with that a plan has or has not: nothing of it is used up."""
RATE = "rate_limited"
TRACKED = "keyword slots"
SPEND = "provider cost a month"
"""What the ceiling of a plan bounds: what the work costs the provider, which is no part of the bill."""


def _plan_limits(load: Workload, plan: Plan, policy: Policy) -> Iterator[Limit]:
    """What check 1 minds: capabilities, dimensions, and caps where they refuse (S60, U47, U59)."""
    for operation in ("rank_run", "crawl", "site_optimization", "ai_scan", "keyword_briefs"):
        if load.of(operation) or operation in load.left_out.operations:
            capability = policy.catalogue.capability_for(operation)
            yield Limit(
                f"{CAPABILITY_OF}{capability}", 1, int(capability in plan.capabilities), "count", CAPABILITY
            )
    refusal = policy.assumptions.dimension_refusal
    most = plan.dimensions
    yield Limit("engine-device pairings", load.pairings, most.max_engine_devices, "count", refusal)
    yield Limit("geographies", load.geographies, most.max_geographies, "count", refusal)
    if policy.assumptions.cap == "refuse":
        pages, questions = load.largest("crawl", "site_optimization"), load.largest("ai_scan")
        if pages:
            yield Limit("pages of a crawl", pages, plan.page_cap, "count", CAPABILITY)
        if questions:
            yield Limit("questions of an AI scan", questions, plan.call_cap, "count", CAPABILITY)


def provider_cost(
    load: Workload, plan: Plan, policy: Policy, period: Micros = MONTH, since: Micros | None = None
) -> int:
    """Return what all work of a period costs the provider (µUSD), cut to the caps (S52-S56, U47)."""
    costs = policy.catalogue.unit_costs
    units_of: Mapping[str, tuple[int, int]] = {
        "rank_run": (costs.rank_run_page, UNCUT),
        "crawl": (costs.crawl_page, plan.page_cap),
        "site_optimization": (costs.site_optimization_page, plan.page_cap),
        "ai_scan": (costs.ai_scan_call, plan.call_cap),
        "keyword_briefs": (costs.keyword_brief, UNCUT),
    }
    total: Number = 0
    for work in load.of_month(*units_of):
        cost, cap = units_of[work.operation]
        total += work.count(period, since) * min(work.size, cap) * cost
    return math.ceil(total)


def _spent(load: Workload, plan: Plan, policy: Policy, elapsed: Micros | None) -> int:
    """What the work of an ordinary month costs so far, or of the present one, if it is more."""
    spent = max(0, provider_cost(load, plan, policy, *_month(elapsed)) + _beside(load, elapsed).spent)
    if load.used is None:
        return spent
    return max(spent, load.used.spent + provider_cost(load, plan, policy, *_rest(load.used, elapsed)))


def _beside(load: Workload, elapsed: Micros | None) -> Uncounted:
    """What a workload leaves out, of a longest month; when in the present one it comes nobody says."""
    return load.left_out if elapsed is None else Uncounted()


def _month(elapsed: Micros | None) -> tuple[Micros, Micros | None]:
    """So much of the present month, as a period and its beginning, or a longest month without a calendar."""
    return (MONTH, None) if elapsed is None else (elapsed, 0)


def _rest(used: Used, elapsed: Micros | None) -> tuple[Micros, Micros | None]:
    """What of that is still to come."""
    if elapsed is None:
        return used.left, used.month
    return max(0, elapsed - used.month), used.month


def _quotas(load: Workload, plan: Plan, policy: Policy, elapsed: Micros | None) -> Iterator[Limit]:
    """Every metered allowance that the workload uses, with add-ons (S63, S109, U106)."""
    for metric, quota in plan.quotas.items():
        length = WEEK if quota.period == "week" else MONTH
        month, since = _month(elapsed)
        period = min(month, length)
        need = math.ceil(load.count(quota.consumed_by, period, None if since is None else month - period))
        need = max(0, need + _beside(load, elapsed).metrics.get(metric, 0))
        if load.used is not None and metric in load.used.metrics:
            passed = load.used.week if quota.period == "week" else load.used.month
            rest, since = _rest(load.used, elapsed)
            rest = min(rest, max(0, length - passed))
            left = math.ceil(load.count(quota.consumed_by, rest, since))
            need = max(need, load.used.metrics[metric] + left)
        bought = sum(
            count * policy.catalogue.add_ons[name].amount
            for name, count in load.add_ons.items()
            if policy.catalogue.add_ons[name].metric == metric
        )
        if need or load.of(*quota.consumed_by) or load.left_out.metrics.get(metric):
            name = f"{metric} a {quota.period}"
            yield Limit(name, need, quota.limit + bought, "count", QUOTA, metric)


def _slots(load: Workload, elapsed: Micros | None) -> int:
    """Slots in use when so much of a month has gone: words that were replaced are held (S26)."""
    held = _added(load, *_month(elapsed)) + _beside(load, elapsed).slots
    if load.used is not None:
        held = max(held, load.used.held + _added(load, *_rest(load.used, elapsed)))
    return max(0, math.ceil(load.slots + held))


def _added(load: Workload, period: Micros, since: Micros | None) -> Number:
    return sum(work.count(period, since) * work.size for work in load.of_month("keywords"))


def _cooldowns(load: Workload, plan: Plan, policy: Policy) -> Iterator[Limit]:
    """The least time between two runs of a domain, or of the account, and the time there is (S65, U46)."""
    kinds: tuple[JobLabel, ...] = ("rank_run", "crawl", "site_optimization", "ai_scan")
    for kind in kinds:
        least, work = plan.cooldown_of(kind), load.of(kind)
        if not least or not work:
            continue
        gaps = [planned.gap for planned in work] + [gap for name, gap in load.gaps.items() if name == kind]
        if policy.assumptions.cooldown_scope == "account":
            gaps += [math.floor(planned.gap / planned.each) for planned in work]
            starts = [start for start in load.starts if start.kind == kind and start.domains > 1]
            gaps += [start.spread // start.domains for start in starts]
        if policy.assumptions.cooldown_from == "finish":
            least += load.lengths.get(kind, max(policy.catalogue.job_durations[kind].durations))
        yield Limit(f"cooldown of {kind}", least, min(gaps), "duration", COOLDOWN)


def _rate(load: Workload, policy: Policy) -> Limit:
    """Starts of rank runs through the expensive class while they are started (S104)."""
    policy.check_by_class()
    windows = max(1, load.start_within // policy.facts.rate_window)
    there = load.keys * policy.facts.rates.expensive * windows
    together = Counter[tuple[Micros, ...]]()
    for start in load.left_out.starts:
        if start.kind == "rank_run":
            together[start.times] += start.domains
    runs = [start for start in load.starts if start.kind == "rank_run"]
    starts = max((start.domains + together[start.times] for start in runs), default=0)
    return Limit(f"job starts in {units.duration(load.start_within)}", starts, there, "count", RATE)


def check_add_ons(add_ons: Mapping[str, int], policy: Policy) -> None:
    """Raise BadInput for an add-on that the catalogue does not sell, and for fewer than none."""
    sold = policy.catalogue.add_ons
    for name, count in add_ons.items():
        expect_one_of(sold, "add_ons", name)
        expect(count >= 0, f"add_ons.{name}", "0 or more", count)


def allowed_alone(sized: Callable[[int], Workload], plan: Plan, policy: Policy) -> list[int]:
    """Return how far each of a plan's `limits` alone lets what is `sized` grow, `MOST` without end.

    Needs only grow, so it is found by halving.
    """

    @cache  # halving asks of most limits about the same sizes
    def exceeded(n: int) -> tuple[bool, ...]:
        return tuple(limit.exceeded for limit in plan_limits(sized(n), plan, policy))

    return [
        bisect_left(range(1, MOST + 1), True, key=lambda n: exceeded(n)[at]) for at in range(len(exceeded(1)))
    ]
