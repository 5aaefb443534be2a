"""What a fleet knows of a policy: its plans, operations and assumptions as rows of integers."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ranksim.core.contract.facts import Decision, JobKind, RateClass, Spend
from ranksim.core.contract.plans import Catalogue, Plan
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput, near
from ranksim.core.rules import windows
from ranksim.core.rules.admission import MONTH, WEEK
from ranksim.core.rules.books import Window
from ranksim.core.rules.terms import capability_bits, capability_needed, checks_of, terms_of
from ranksim.planner.fleet.population import Population
from ranksim.planner.fleet.rows import (
    ACTIVITIES,
    READ,
    Allowance,
    Integers,
    Offer,
    OperationRow,
    Records,
    ServiceTerms,
    to_records,
)

QUANTILES = 1024
"""Quantiles by which the duration of a job is drawn."""

Sold = tuple[str, tuple[tuple[str, int], ...]]
"""A plan by name with add-ons: name and count."""


class Offers(NamedTuple):
    """The plans that a population is on, as records: after `metrics`, in the order of `KernelInputs`.

    `sold` names them; `offers` has shape (k,), `operations` (k, activities), `meters` (k, metrics + 1) whose
    last column never refuses, `windows` (rate classes,), `durations` (job kinds, QUANTILES) in µs.
    """

    sold: tuple[Sold, ...]
    metrics: tuple[str, ...]
    offers: Records
    operations: Records
    meters: Records
    windows: Records
    terms: Records
    ways: Records
    durations: Integers


def sold_of(plan: str, add_ons: Mapping[str, int]) -> Sold:
    """Name a plan with its add-ons."""
    return plan, tuple(sorted((name, count) for name, count in add_ons.items() if count))


def price_of(catalogue: Catalogue, sold: Sold) -> int:
    """Return what a plan with its add-ons costs a month, µUSD."""
    plan, add_ons = sold
    return catalogue.price_of(plan, dict(add_ons))


def add_ons_price(catalogue: Catalogue, add_ons: Iterable[tuple[str, int]]) -> int:
    """Return what so many of some add-ons cost a month, µUSD."""
    return sum(catalogue.add_ons[name].price * count for name, count in add_ons)


def sold_to(population: Population, policy: Policy) -> tuple[Sold, ...]:
    """List the plans with add-ons that a population is on, each once.

    Raises BadInput for a plan or add-on that the catalogue lacks.
    """
    catalogue = policy.catalogue
    sold: dict[Sold, None] = {}
    for name, segment in population.segments.items():
        for plan, choice in segment.plans.items():
            at = f"segments.{name}.plans.{plan}"
            _expect(at, "plan", plan, catalogue.plans)
            for add_on in choice.add_ons:
                _expect(f"{at}.add_ons", "add-on", add_on, catalogue.add_ons)
            sold[sold_of(plan, choice.add_ons)] = None
    return tuple(sold)


def _expect(at: str, what: str, name: str, names: Mapping[str, object]) -> None:
    if name not in names:
        raise BadInput(
            f"{at}: no {what} {name!r}; expected one of {', '.join(names) or 'none, for there are none'}"
            f"{near(name, names)}"
        )


def offers_of(population: Population, policy: Policy) -> Offers:
    """Return the plans, operations and assumptions of a policy as the kernel reads them. Raises BadInput."""
    return offers_for(sold_to(population, policy), policy)


def offers_for(sold: tuple[Sold, ...], policy: Policy) -> Offers:
    """Return what these plans with add-ons give under a policy."""
    plans = [policy.catalogue.plans[plan] for plan, _ in sold]
    metrics = tuple(sorted({metric for plan in plans for metric in plan.quotas}))
    bits = capability_bits(policy.catalogue)
    operations = [
        to_records(
            [_operation(policy, plan, activity, metrics, bits) for activity in range(len(ACTIVITIES))],
            OperationRow,
        )
        for plan in plans
    ]
    meters = [
        _meters(policy, plan, dict(add_ons), metrics) for plan, (_, add_ons) in zip(plans, sold, strict=True)
    ]
    return Offers(
        sold=sold,
        metrics=metrics,
        offers=to_records([_offer(plan, bits) for plan in plans], Offer),
        operations=np.stack(operations),
        meters=np.stack(meters),
        windows=to_records([_window(policy, rate_class) for rate_class in RateClass], Window),
        terms=to_records([terms_of(policy)], type(terms_of(policy))),
        ways=to_records([_ways(policy)], ServiceTerms),
        durations=durations_of(policy),
    )


def _offer(plan: Plan, bits: dict[str, int]) -> Offer:
    return Offer(
        capabilities=sum(bits[name] for name in set(plan.capabilities)),
        ceiling=plan.cost_ceiling,
        slot_limit=plan.slot_limit,
        pairings=plan.dimensions.max_engine_devices,
        places=plan.dimensions.max_geographies,
    )


def _operation(
    policy: Policy, plan: Plan, activity: int, metrics: tuple[str, ...], bits: dict[str, int]
) -> OperationRow:
    if activity >= READ:
        return OperationRow(rate_class=RateClass.READ if activity == READ else RateClass.WRITE)
    spend = Spend(activity)
    metric = plan.metric_of(spend.label)
    return OperationRow(
        spend=spend,
        rate_class=_rate_class(policy, spend),
        checks=checks_of(policy, spend),
        capability=capability_needed(policy, spend, bits),
        meter=-1 if metric is None else metrics.index(metric),
        cooldown=plan.cooldown_of(spend.label),
        unit_cost=_unit_cost(policy, spend),
        cap=plan.call_cap if spend == Spend.AI_SCAN else plan.page_cap,
    )


def _rate_class(policy: Policy, spend: Spend) -> RateClass:
    """The class of the operation (S102-S104, U2)."""
    if spend in (Spend.KEYWORDS, Spend.SCANS) and policy.assumptions.tracking_class == "write":
        return RateClass.WRITE
    return RateClass.EXPENSIVE


def _unit_cost(policy: Policy, spend: Spend) -> int:
    costs = policy.catalogue.unit_costs
    return {
        Spend.RANK_RUN: costs.rank_run_page,
        Spend.CRAWL: costs.crawl_page,
        Spend.SITE_OPTIMIZATION: costs.site_optimization_page,
        Spend.AI_SCAN: costs.ai_scan_call,
        Spend.KEYWORD_BRIEFS: costs.keyword_brief,
    }.get(spend, 0)


def _meters(policy: Policy, plan: Plan, add_ons: dict[str, int], metrics: tuple[str, ...]) -> Records:
    rows = []
    for metric in metrics:
        quota = plan.quotas.get(metric)
        if quota is None:
            rows.append(Allowance())
            continue
        more = sum(
            policy.catalogue.add_ons[name].amount * count
            for name, count in add_ons.items()
            if policy.catalogue.add_ons[name].metric == metric
        )
        rows.append(Allowance(limit=quota.limit + more, period=WEEK if quota.period == "week" else MONTH))
    return to_records([*rows, Allowance()], Allowance)


def _window(policy: Policy, rate_class: RateClass) -> Window:
    assumptions = policy.assumptions
    return Window(
        kind=windows.NAMES.index(assumptions.window),
        limit=policy.facts.rates.of(rate_class),
        length=policy.facts.rate_window,
        counts_refused=int(assumptions.refused_calls_count),
    )


def _ways(policy: Policy) -> ServiceTerms:
    assumptions = policy.assumptions
    by_slots = assumptions.dimension_refusal == "slot_limit_exceeded"
    return ServiceTerms(
        debits_write=int(assumptions.expensive_debits_write),
        cooldown_by_domain=int(assumptions.cooldown_scope == "domain"),
        cap_refuses=int(assumptions.cap == "refuse"),
        partial_quota=int(assumptions.quota_grant == "partial"),
        partial_slots=int(assumptions.over_slots == "partial"),
        dimension_check=Decision.SLOT_LIMIT_EXCEEDED if by_slots else Decision.ENTITLEMENT_REQUIRED,
    )


def durations_of(policy: Policy) -> Integers:
    """How long jobs last, by kind: QUANTILES of their durations in µs, each as likely."""
    rows = []
    for kind in JobKind:
        duration = policy.catalogue.duration_of(kind)
        rows.append([duration.at((q + 0.5) / QUANTILES) for q in range(QUANTILES)])
    return np.array(rows, dtype=np.int64)
