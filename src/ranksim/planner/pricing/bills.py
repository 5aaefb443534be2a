"""Bills: what each account of a fleet pays, and what serving it costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranksim.core.clock import DAY
from ranksim.core.contract.plans import Catalogue
from ranksim.planner.fleet.offers import add_ons_price
from ranksim.planner.fleet.results import FleetResult
from ranksim.planner.fleet.rows import Integers
from ranksim.planner.study.fleets import charged

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
