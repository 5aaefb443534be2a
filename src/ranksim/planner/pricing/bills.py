"""Bills: what each account of a fleet pays and costs, and which cheaper or dearer plan would be enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from ranksim.core.clock import DAY
from ranksim.core.contract.plans import Catalogue, Plan
from ranksim.core.contract.policy import Policy
from ranksim.planner.fleet.offers import add_ons_price
from ranksim.planner.fleet.population import Population
from ranksim.planner.fleet.results import FleetResult
from ranksim.planner.fleet.rows import Integers
from ranksim.planner.fleet.sides import FleetSide
from ranksim.planner.pricing.catalogues import selling, unpriced
from ranksim.planner.study.fleets import charged
from ranksim.report.table_spec import Row

MONTH = 30 * DAY
"""The month that prices are charged by: thirty days."""


@dataclass(frozen=True, slots=True, eq=False)
class Bills:
    """One run's accounts in µUSD, arrays of shape (accounts,); `months` is the time served in 30 days."""

    plans: NDArray[np.str_]
    months: NDArray[np.float64]
    prices: Integers
    add_ons: Integers
    cost: Integers

    @property
    def revenue(self) -> Integers:
        """Plan prices and add-ons."""
        return self.prices + self.add_ons

    @property
    def margin(self) -> Integers:
        """Revenue less provider cost."""
        return self.revenue - self.cost

    def of(self, plan: str | None) -> NDArray[np.bool_]:
        """Which accounts are on a plan; None for all."""
        return np.ones(len(self.plans), dtype=np.bool_) if plan is None else self.plans == plan


def bills(result: FleetResult, catalogue: Catalogue | None = None) -> Bills:
    """Bill the accounts of a fleet, at the prices of `catalogue` if it is not the one they ran under.

    An account pays its plan and add-ons for the time it is served, thirty days to the month.
    """
    catalogue = result.policy.catalogue if catalogue is None else catalogue
    served = result.customers["leaves"] - result.customers["joins"]

    def charge(monthly: list[int]) -> Integers:
        return charged(np.array(monthly, dtype=np.int64)[result.customers["offer"]], served)

    return Bills(
        plans=result.plan_names,
        months=served / MONTH,
        prices=charge([catalogue.plans[plan].price for plan, _ in result.sold]),
        add_ons=charge([add_ons_price(catalogue, add_ons) for _, add_ons in result.sold]),
        cost=result.tallies["spend"].astype(np.int64),
    )


# What would have been enough

NONE = "more than any plan"
"""The need of customers for whom no plan is enough."""


@dataclass(frozen=True, slots=True)
class Need:
    """`accounts` customers of a plan need a plan, or `count` of an add-on; `uplift` µUSD more a month.

    A need below the plan that they are on has a negative uplift: they could pay less.
    """

    side: str
    plan: str
    kind: str
    needs: str
    accounts: int
    count: int
    uplift: int

    def row(self) -> Row:
        """The need as a row."""
        return asdict(self)


def trials(population: Population, sold: Catalogue, policy: Policy) -> dict[str, FleetSide]:
    """Return what has to be served to tell who needs what: everybody on each plan, without add-ons.

    By what of a catalogue can change such a run: plans that differ in prices alone are tried once.
    """
    return {
        _alone(sold, plan): FleetSide(population.on(plan.name), selling(policy, sold), short=True)
        for plan in sold.plans.values()
    }


def _alone(sold: Catalogue, plan: Plan) -> str:
    # What the other plans sell, and at which price, changes nothing for who is on this one.
    return unpriced(sold.model_copy(update={"plans": {plan.name: plan}, "add_ons": {}}))


def needs(
    side: str, sold: Catalogue, own: FleetResult, enough: Mapping[str, NDArray[np.bool_]]
) -> list[Need]:
    """Return what would have been enough for the customers of each plan: plans first, then add-ons.

    Of all plans of `sold` it is the cheapest for which `enough` says so, by what `trials` tried with the same
    requests. An add-on is needed where it would cover all that was asked for under the customer's own plan.
    `own` is the run of the population as it is.
    """
    policy = own.policy
    plans = sorted(sold.plans.values(), key=lambda plan: plan.price)
    least = np.full(len(own.customers), len(plans))
    for index in reversed(range(len(plans))):
        least[enough[_alone(sold, plans[index])]] = index
    rows = []
    for name in dict.fromkeys(plan for plan, _ in own.sold):
        members = own.plan_names == name
        price = policy.catalogue.plans[name].price
        for index, plan in enumerate(plans):
            count = int((least[members] == index).sum())
            rows.append(Need(side, name, "plan", plan.name, count, 0, (plan.price - price) * count))
        rows.append(Need(side, name, "plan", NONE, int((least[members] == len(plans)).sum()), 0, 0))
        for add_on, offer in sold.add_ons.items():
            wanted = own.add_ons_needed(add_on)[members]
            total = int(wanted.sum())
            rows.append(
                Need(side, name, "add_on", add_on, int((wanted > 0).sum()), total, offer.price * total)
            )
    return [need for need in rows if need.accounts]
