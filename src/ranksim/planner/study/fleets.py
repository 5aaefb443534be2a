"""Fleets as what a study runs: whole populations under a policy, and what serving them earns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from ranksim.core.clock import DAY
from ranksim.core.contract.parameters import Settings, check_path
from ranksim.core.contract.policy import Policy
from ranksim.core.rulebook import RULEBOOK
from ranksim.inference.kinds import Kind
from ranksim.planner.fleet.engine import CONSULTED, simulate_fleet
from ranksim.planner.fleet.offers import price_of, sold_to
from ranksim.planner.fleet.population import Population
from ranksim.planner.fleet.results import CODES, FleetResult
from ranksim.planner.study.engines import Measurement
from ranksim.twin.sim.runner import replication_seed

MARGINS = ("revenue.total", "margin.total", "margin.mean", "margin.negative")

METRICS = (
    *("accounts.total", "calls.total", "refusals.total", "refusals.share", "given_up.total"),
    *("hit.any", "blocked.mean", "spend.total", "spend.mean"),
    *(f"refusals.{code}" for code in CODES),
    *(f"hit.{code}" for code in CODES),
    *MARGINS,
)
"""The metrics of a fleet, of all accounts or with `plans.PLAN.` before them."""

MONEY = ("spend", "revenue", "margin")


@dataclass(frozen=True, slots=True)
class Fleets:
    """Whole populations under a policy; paths of policy files are read from `folder`.

    `compiled` None compiles where Numba is installed; the numbers are the same either way.
    """

    population: Population
    policy: Policy = field(default_factory=Policy)
    folder: Path = Path()
    compiled: bool | None = None

    name: ClassVar[str] = "fleets"
    sources: ClassVar[tuple[str, ...]] = (*RULEBOOK, "planner/fleet")
    usual: ClassVar[tuple[str, ...]] = ("calls.total", "refusals.share", "hit.any", "spend.total")

    RESERVED: ClassVar[tuple[str, ...]] = ("population", "population.population", "population.name")

    def roots(self) -> Mapping[str, BaseModel]:
        """The population and the policy."""
        return {"population": self.population, "policy": self.policy}

    def check_path(self, path: str) -> None:
        """Raise ValueError for a parameter that there is not; `population.plan` is the plan of all."""
        check_path(path, self.roots(), self.RESERVED)

    def check_metric(self, metric: str) -> None:
        """Raise ValueError for a metric that no fleet has."""
        names = [
            *METRICS,
            *(f"plans.{plan}.{name}" for plan in self.policy.catalogue.plans for name in METRICS),
        ]
        if metric not in names:
            close = get_close_matches(metric, names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(METRICS)}"
            raise ValueError(f"no metric {metric!r}; {hint}")

    def unit_of(self, metric: str) -> str:
        """The unit of a fleet's metric."""
        *_, family, which = metric.split(".")
        if family == "hit" or which in ("share", "negative"):
            return "share"
        if family == "blocked":
            return "duration"
        return "money" if family in MONEY else "count"

    def kind_of(self, metric: str) -> Kind:
        """What a fleet's metric is to `inference`."""
        unit = self.unit_of(metric)
        if unit in ("share", "count"):
            return "share" if unit == "share" else "count"
        return "mean" if metric.split(".")[-2] == "margin" else "amount"

    def trials_of(self, metric: str) -> str | None:
        """The metric that counts the trials of a share: calls for `refusals.share`, otherwise accounts."""
        if self.unit_of(metric) != "share":
            return None
        about = metric.split(".")[:-2]
        return ".".join([*about, "accounts.total" if self.has_independent_trials(metric) else "calls.total"])

    def has_independent_trials(self, metric: str) -> bool:
        """Whether a share is one of accounts: each has its own usage, and they share nothing."""
        return self.unit_of(metric) == "share" and not metric.endswith("refusals.share")

    def is_drawn(self, built: tuple[Population, Policy], metric: str) -> bool:
        """Always: what customers do is drawn."""
        return True

    def build(self, settings: Settings) -> tuple[Population, Policy]:
        """The population and the policy with parameters set. Raises BadInput when they do not fit."""
        population, changed = self.population.changed(settings), self.policy.changed(settings, self.folder)
        sold_to(population, changed)  # whether its plans and add-ons are on sale
        return population, changed

    def meaning(self, built: tuple[Population, Policy]) -> str:
        """What of a population and its policy decides their runs."""
        population, policy = built
        return population.model_dump_json(exclude={"name"}) + policy.model_dump_json(exclude={"name"})

    def consulted(self, seed: int) -> Iterable[str]:
        """The fields of the policy that every fleet reads."""
        return CONSULTED

    def observe(self, built: tuple[Population, Policy], seed: int, index: int) -> Measurement:
        """One replication: its metrics."""
        result = simulate_fleet(*built, replication_seed(seed, index), compiled=self.compiled)
        return Measurement({**result.scalars(), **dict(_margins(result))})


def _margins(result: FleetResult) -> Iterator[tuple[str, float]]:
    """Metrics of what serving the accounts earns, µUSD; of all and of each plan.

    An account pays the price of its plan and add-ons for the time that it is served, by the day, thirty days
    to the month, and its margin is that less what the provider spent on it.
    """
    revenue, spend = earned(result), np.asarray(result.tallies["spend"], dtype=np.int64)
    plans: dict[str, NDArray[np.bool_]] = {"": np.ones(len(revenue), dtype=np.bool_)}
    plans |= {f"plans.{plan}.": result.plan_names == plan for plan, _ in result.sold}
    for prefix, of_plan in plans.items():
        margins = revenue[of_plan] - spend[of_plan]
        if len(margins):
            values = (
                revenue[of_plan].sum(),
                margins.sum(),
                margins.mean(),
                np.count_nonzero(margins < 0) / len(margins),
            )
            for name, value in zip(MARGINS, values, strict=True):
                yield prefix + name, float(value)


def earned(result: FleetResult) -> NDArray[np.int64]:
    """What each account pays in the run, µUSD, shape (accounts,)."""
    catalogue = result.policy.catalogue
    prices = [price_of(catalogue, sold) for sold in result.sold]
    served = result.customers["leaves"] - result.customers["joins"]
    return charged(np.array(prices, dtype=np.int64)[result.customers["offer"]], served)


def charged(monthly: NDArray[np.int64], served: NDArray[np.int64]) -> NDArray[np.int64]:
    """What monthly prices come to over the time served (µs), by the day, thirty days to the month; µUSD."""
    months, rest = np.divmod(served, 30 * DAY)
    part = monthly.astype(np.float64) * (rest / (30 * DAY))
    return np.asarray(monthly * months + np.rint(part).astype(np.int64))
