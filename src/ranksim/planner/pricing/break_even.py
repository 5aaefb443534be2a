"""Where a plan breaks even: the price of no expected margin, and the highest safe ceiling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from statistics import fmean
from types import MappingProxyType

from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.errors import BadInput
from ranksim.core.money import MICRO_USD
from ranksim.inference.estimate import LEVEL
from ranksim.inference.kinds import MetricSample, interval
from ranksim.inference.shares import chance
from ranksim.planner.capacity.common import WITHOUT_END
from ranksim.planner.fleet.engine import simulate_fleet
from ranksim.planner.fleet.population import Population, population_of
from ranksim.planner.fleet.results import FleetResult
from ranksim.planner.pricing.bills import Bills, bills
from ranksim.planner.pricing.catalogues import (
    catalogue_of,
    check_customers,
    check_priced,
    check_sold,
    plans_of,
    selling,
    unfailing_notes,
)
from ranksim.planner.pricing.paired_metrics import check_replications
from ranksim.planner.pricing.plots import DrawnAnswer
from ranksim.report import units
from ranksim.report.progress import Tell, noted
from ranksim.report.table_spec import Tables, TableSpec, views_of
from ranksim.report.tables import View, of_table
from ranksim.twin.sim.runner import replication_seed

RISK = 0.01
"""The share of customers with a negative margin that a safe ceiling stays below."""

STEP = MICRO_USD
"""Ceilings are tried in whole dollars, µUSD."""


Run = Callable[[Catalogue], list[FleetResult]]
"""Serves the customers under a catalogue, once for each replication."""


@dataclass(frozen=True, slots=True)
class CeilingTrial:
    """One ceiling of a plan tried: how many of its customers had a negative margin.

    `upper` is the bound below which the chance lies, with the confidence asked for.
    """

    plan: str
    ceiling: int
    customers: int
    negative: int
    upper: float
    safe: bool


@dataclass(frozen=True, slots=True)
class Balance:
    """One plan, money in µUSD a month of 30 days.

    `customers` are on it in a replication, the mean over all; `of` replications have any, and `even` is of
    all these together: the price at which the margin is nil, with its interval. `ceiling` the one in force;
    `safe` the highest that is safe, None when none is; `needless` says that no ceiling at all is safe too,
    and `safe` is then the most that anybody spent in a billing month; it is None where so few customers
    show neither that nor that one is needed.
    """

    plan: str
    customers: float
    of: int
    price: int
    even: float
    even_low: float | None
    even_high: float | None
    ceiling: int
    safe: int | None
    needless: bool | None

    @property
    def text(self) -> str:
        """The plan in a sentence."""
        if self.needless is None:
            safe = "too few customers to say which ceiling is safe, or whether one is needed"
        elif self.safe is None:
            safe = "a ceiling is needed, but none could be shown to be safe"
        elif self.needless:
            most = units.usd(self.safe)
            safe = f"no ceiling is needed: nobody costs more than {most} in a billing month"
            if self.safe > self.price:
                safe = (
                    "no ceiling is needed: so few customers cost more than they pay that it is safe "
                    f"without one; the dearest costs {most} in a billing month"
                )
        else:
            safe = f"the highest safe ceiling is {units.usd(self.safe)}"
        return f"{self.plan} breaks even at {units.usd(self.even)} a month; {safe}"


NEEDED = {True: "no", False: "yes", None: "not known"}
"""Whether a ceiling is needed, by `needless`."""

AMOUNTS = ("price", "even", "ceiling", "safe")
"""The columns of a plan that are money."""


@dataclass(frozen=True, slots=True, repr=False)
class BreakEven(DrawnAnswer):
    """Break-even prices and ceilings of the plans that a population is on."""

    kind = "price break-even"
    title = "Where plans break even"
    TABLES = MappingProxyType(
        {
            "plans": TableSpec(
                others={**dict.fromkeys(AMOUNTS, "money"), "customers": "count"},
                keys=("plan",),
                metrics=(*AMOUNTS, "customers"),
            ),
            "trials": TableSpec(others={"ceiling": "money"}),
        }
    )

    balances: tuple[Balance, ...]
    trials: tuple[CeilingTrial, ...]
    risk: float
    level: float
    replications: int
    seed: int
    remarks: tuple[str, ...] = ()

    @property
    def plots(self) -> tuple[str, ...]:
        """The prices, and the ceilings where several were tried of a plan: one is no curve."""
        several = len(self.trials) > len({trial.plan for trial in self.trials})
        return ("prices", "ceilings") if several else ("prices",)

    def of(self, plan: str) -> Balance:
        """The row of one plan. Raises KeyError."""
        return {row.plan: row for row in self.balances}[plan]

    @property
    def sentence(self) -> str:
        """The answer in a sentence or two."""
        return "; ".join(plan.text for plan in self.balances) + "."

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of how it was found."""
        level, risk = units.level(self.level), units.level(self.risk)
        return (
            "Nobody is assumed to buy more or less at another price.",
            *self.remarks,
            f"{self.replications} replications, seed {self.seed}; {level} intervals of break-even prices.",
            f"A ceiling is safe when, with {level} confidence, fewer than {risk} of the plan's customers "
            "have a negative margin over the run (exact binomial bound).",
            *(
                f"{plan.plan}: even without one negative margin this needs "
                f"{fewest(self.risk, self.level):,} customers in all replications together; "
                "give more of either."
                for plan in self.balances
                if round(plan.customers * self.replications) < fewest(self.risk, self.level)
            ),
        )

    @property
    def tables(self) -> Tables:
        """The answer as plain rows, by table."""
        return {
            "plans": [asdict(plan) for plan in self.balances],
            "trials": [asdict(trial) for trial in self.trials],
        }

    def views(self) -> list[View]:
        """The answer as tables for people."""
        tables = self.tables
        rows = [
            row | {"ceiling_needed": NEEDED[row["needless"]], "replications": row["of"]}
            for row in tables["plans"]
        ]
        columns = {"plan": "text", "ceiling_needed": "text", "replications": "count"}
        columns |= dict.fromkeys(AMOUNTS, "money")
        note = "Replications: those that have customers of the plan."
        plans = views_of("Break-even a month, by plan", rows, columns, note)
        columns = {"plan": "text", "ceiling": "money", "customers": "count", "negative": "count"}
        rows = [row | {"safe": "yes" if row["safe"] else "no"} for row in tables["trials"]]
        trials = views_of("Ceilings tried", rows, columns | {"upper": "share", "safe": "text"})
        return of_table("plans", plans) + of_table("trials", trials, folded=True)


def fewest(risk: float, level: float) -> int:
    """How many customers must show no negative margin before a ceiling counts as safe."""
    return math.floor(math.log1p(-level) / math.log1p(-risk)) + 1


def break_even(
    population: Population | str | Path,
    catalogue: Catalogue | str | Path,
    *,
    policy: Policy | str | Path | None = None,
    plans: Sequence[str] = (),
    risk: float = RISK,
    step: int = STEP,
    replications: int = 5,
    seed: int = 1,
    level: float = LEVEL,
    threads: int = 1,
    compiled: bool | None = None,
    progress: Tell | None = None,
) -> BreakEven:
    """Find, for each plan of a population, the price and the ceiling at which it breaks even.

    All three may be files, and the catalogue the name of a shipped one.
    `step` is the grain of the ceilings, µUSD. The search takes it that a higher ceiling lets at least as many
    customers cost more than they pay. `progress` is told how many ceilings were tried; without it a notebook
    shows that. Raises BadInput.
    """
    check_replications(replications)
    if not 0 < risk < 1 or not 0 < level < 1 or not isinstance(step, int) or step < 1:
        raise BadInput(
            "break-even: expected a risk and a level between 0 and 1, and a step of whole µUSD, at least 1"
        )
    population, catalogue, base = population_of(population), catalogue_of(catalogue), policy_of(policy)
    check_sold(population, catalogue, "the catalogue")
    served = plans_of(population)
    if isinstance(plans, str):
        raise BadInput(f"plans: expected names of plans, as [{plans!r}], found {plans!r}")
    check_customers("plan", plans, served)
    names = tuple(dict.fromkeys(plans or served))
    check_priced(catalogue, names, "plan")
    # Each plan is tried without a ceiling, with the highest and with none at all, and then by halving.
    tries = [3 + (catalogue.plans[name].cost_ceiling // step).bit_length() for name in names]
    runs = count()

    def run(sold: Catalogue) -> list[FleetResult]:
        results, under = [], selling(base, sold)
        for index in range(replications):
            tried, most = next(runs), replications * (1 + sum(tries))
            tell(tried / max(most, tried + 1), f"catalogue {tried // replications + 1}")
            drawn = replication_seed(seed, index)
            results.append(simulate_fleet(population, under, drawn, threads=threads, compiled=compiled))
        return results

    balances: list[Balance] = []
    trials: list[CeilingTrial] = []
    with noted("looking for ceilings", progress) as tell:
        now = [bills(result) for result in run(catalogue)]
        for number, name in enumerate(names):
            runs = count(replications * (1 + sum(tries[:number])))
            if any(billed.of(name).any() for billed in now):
                balance, tried = _balance(name, catalogue, now, run, risk=risk, step=step, level=level)
                balances.append(balance)
                trials += tried
    if not balances:
        raise BadInput(f"plan: nobody is on {' or '.join(plans)} in any replication; give it more weight")
    remarks = unfailing_notes(catalogue)
    return BreakEven(tuple(balances), tuple(trials), risk, level, replications, seed, remarks)


def _balance(
    name: str, catalogue: Catalogue, now: Sequence[Bills], run: Run, *, risk: float, step: int, level: float
) -> tuple[Balance, list[CeilingTrial]]:
    """Find where one plan breaks even, and list the ceilings tried."""
    trials: list[CeilingTrial] = []

    def tried(ceiling: int) -> bool:
        runs = [bills(result) for result in run(_capped(catalogue, name, ceiling))]
        trials.append(_trial(name, ceiling, runs, risk, level))
        return trials[-1].safe

    free = run(_capped(catalogue, name, WITHOUT_END))
    most = max(int(r.accounts["spend_peak"][r.plan_names == name].max(initial=0)) for r in free)
    safe, needless = _highest(tried, most, step)
    unknown = trials[0].customers < fewest(risk, level) and not is_unsafe(trials[0], risk, level)
    even, low, high, served = _even(now, name, level)
    sold = catalogue.plans[name]
    balance = Balance(
        plan=name,
        customers=fmean(int(billed.of(name).sum()) for billed in now),
        of=served,
        price=sold.price,
        even=even,
        even_low=low,
        even_high=high,
        ceiling=sold.cost_ceiling,
        safe=safe,
        needless=None if unknown else needless,
    )
    return balance, trials


def _capped(catalogue: Catalogue, name: str, ceiling: int) -> Catalogue:
    plan = catalogue.plans[name].model_copy(update={"cost_ceiling": ceiling})
    return catalogue.model_copy(update={"plans": catalogue.plans | {name: plan}})


def _even(now: Sequence[Bills], name: str, level: float) -> tuple[float, float | None, float | None, int]:
    """The price at which no margin is left of all replications together, its ends, and how many have months.

    A price does not change what customers do. Costs over the months served are a ratio of sums, whose
    interval is that of its linearised values (W. G. Cochran, Sampling Techniques, 1977, 6.3).
    """
    served = [(billed, members) for billed in now if billed.months[members := billed.of(name)].any()]
    months = [float(billed.months[members].sum()) for billed, members in served]
    costs = [float((billed.cost - billed.add_ons)[members].sum()) for billed, members in served]
    if not served:
        return 0.0, None, None, 0
    even, mean = sum(costs) / sum(months), fmean(months)
    # In whole thousandths of a µUSD, so that equal replications stay equal.
    linear = [round(even + (cost - even * time) / mean, 3) for cost, time in zip(costs, months, strict=True)]
    _, low, high = interval(MetricSample("mean", linear), level)
    return even, low, high, len(served)


def _trial(name: str, ceiling: int, runs: Sequence[Bills], risk: float, level: float) -> CeilingTrial:
    """Judge a ceiling by the exact bound of C. J. Clopper and E. S. Pearson, Biometrika 26, 1934."""
    customers = sum(int(billed.of(name).sum()) for billed in runs)
    negative = sum(int((billed.margin[billed.of(name)] < 0).sum()) for billed in runs)
    # One-sided: the upper end of the two-sided interval that leaves as much out on each side.
    upper = chance(negative, customers, 2 * level - 1).high
    return CeilingTrial(name, ceiling, customers, negative, upper or 0.0, upper is not None and upper < risk)


def is_unsafe(trial: CeilingTrial, risk: float, level: float) -> bool:
    """Whether more customers have a negative margin than may, by the exact bound on the other side."""
    return (chance(trial.negative, trial.customers, 2 * level - 1).low or 0.0) >= risk


def _highest(safe: Callable[[int], bool], most: int, step: int) -> tuple[int | None, bool]:
    """Bisect for the highest safe ceiling, in steps; `most` is what is spent without any.

    Looking several times costs no confidence here. A higher ceiling has at least as many negative margins in
    the same runs, so a ceiling that is not safe can only be called so if the lowest that is not was called
    safe as well: one wrong bound, whichever way the search went.
    """
    high = -(-most // step)
    if safe(high * step):
        return most, True
    low = 0
    if not safe(0):
        return None, False
    while high - low > 1:
        middle = (low + high) // 2
        if safe(middle * step):
            low = middle
        else:
            high = middle
    return low * step, False
