"""Who would need which plan or add-on: the cheapest that is enough for the same requests."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ranksim.contract.plans import Catalogue
from ranksim.contract.policy import Policy
from ranksim.fleet.engine import simulate_fleet
from ranksim.fleet.population import Population
from ranksim.pricing.catalogues import selling

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

    def row(self) -> dict[str, Any]:
        """The need as a row."""
        return asdict(self)


def needs(
    side: str, population: Population, policy: Policy, sold: Catalogue, seed: int, **options: Any
) -> list[Need]:
    """Return what would have been enough for the customers of each plan: plans first, then add-ons.

    Every plan of `sold`, from the cheapest on, is tried on everybody with the same requests, without add-ons.
    An add-on is needed where it would cover all that was asked for under the customer's own plan. `policy`
    is the one that the population runs under, `options` those of `simulate_fleet`.
    """
    own = simulate_fleet(population, policy, seed, **options)
    plans = sorted(sold.plans.values(), key=lambda plan: plan.price)
    least = np.full(len(own.customers), len(plans))
    for index in reversed(range(len(plans))):
        tried = population.on(plans[index].name)
        least[simulate_fleet(tried, selling(policy, sold), seed, **options).accounts["enough"]] = index
    found = []
    for name in dict.fromkeys(plan for plan, _ in own.sold):
        mine = own.plan_names == name
        price = policy.catalogue.plans[name].price
        for index, plan in enumerate(plans):
            count = int((least[mine] == index).sum())
            found.append(Need(side, name, "plan", plan.name, count, 0, (plan.price - price) * count))
        found.append(Need(side, name, "plan", NONE, int((least[mine] == len(plans)).sum()), 0, 0))
        for add_on, offer in sold.add_ons.items():
            wanted = own.add_ons_needed(add_on)[mine]
            total = int(wanted.sum())
            found.append(
                Need(side, name, "add_on", add_on, int((wanted > 0).sum()), total, offer.price * total)
            )
    return [need for need in found if need.accounts]
