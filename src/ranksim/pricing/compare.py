"""What another catalogue would have earned, cost and refused: A against B on the same customers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ranksim.contract.plans import Catalogue
from ranksim.contract.policy import Policy
from ranksim.fleet.engine import simulate_fleet
from ranksim.fleet.population import Population
from ranksim.fleet.results import CODES, FleetResult
from ranksim.inference.differences import compared
from ranksim.inference.estimate import LEVEL
from ranksim.inference.means import estimate
from ranksim.pricing.bills import bills
from ranksim.pricing.catalogues import Moves, check_moves, check_sold, moved, selling
from ranksim.pricing.common import check_replications
from ranksim.pricing.needs import Need, needs
from ranksim.report import units
from ranksim.report.answer import Row, Tables, views_of
from ranksim.report.tables import View
from ranksim.sim.runner import replication_seed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
"""The percentiles of customers by margin that are given."""

MONEY = ("revenue", "plan_prices", "add_ons", "cost", "margin")

LIMITS = tuple(f"hit_{code}" for code in CODES)

METRICS: dict[str, str] = {
    **dict.fromkeys(MONEY, "money"),
    "negative": "share",
    "blocked": "duration",
    "hit_any": "share",
    **dict.fromkeys(LIMITS, "share"),
    "wants_more": "share",
}
"""Metric to its unit. Money is of all customers in the run; `blocked` the mean of a customer; shares are of
customers: `negative` whose margin is below 0, `hit_CODE` who met that refusal, `wants_more` for whom the plan
was not enough."""

Observed = dict[tuple[str, str], float]
"""(plan, metric or percentile) to its value in one replication; the plan "all" is everybody."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A against B: rows by plan and metric with paired differences B − A; margins by percentile; needs.

    `differences`: plan, metric, unit, a, b, difference, low, high, gain. `margins`: plan, percentile, a and b
    with intervals. A customer's plan is the one that the population names, under both catalogues.
    """

    population: Population
    names: tuple[str, str]
    replications: int
    seed: int
    level: float
    differences: tuple[Row, ...]
    margins: tuple[Row, ...]
    needs: tuple[Need, ...]
    engine: str

    plots = ("margin", "limits", "percentiles")

    def row(self, metric: str, plan: str = "all") -> Row:
        """The row of one metric. Raises KeyError."""
        for row in self.differences:
            if (row["plan"], row["metric"]) == (plan, metric):
                return row
        raise KeyError((plan, metric))

    @property
    def sentence(self) -> str:
        """The answer in a sentence or two."""
        margin, hit = self.row("margin"), self.row("hit_any")
        more = "more" if margin["difference"] >= 0 else "less"
        size = units.usd(abs(margin["difference"]))
        span = units.duration(self.population.length)
        return (
            f"Of {self.population.accounts:,} customers in {span}, B earns {size} {more} margin than A "
            f"({_span(margin)}); {units.percent(hit['b'])} of them are refused something, "
            f"under A {units.percent(hit['a'])}."
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of how it was found."""
        gain = self.row("margin")["gain"]
        won = (
            ""
            if gain is None
            else f"; pairing divides the variance of the margin's difference by {units.count(gain)}"
        )
        return (
            f"A: {self.names[0]}. B: {self.names[1]}.",
            f"{self.replications} replications of the same customers and requests under both, seed "
            f"{self.seed}; {units.level(self.level)} intervals of paired differences{won}.",
            *((f"engine: {self.engine}",) if self.engine != "compiled" else ()),
        )

    def tables(self) -> Tables:
        """The answer as plain rows, by table."""
        return {
            "differences": list(self.differences),
            "margins": list(self.margins),
            "needs": [need.row() for need in self.needs],
        }

    def views(self) -> list[View]:
        """The answer as tables for people."""
        shown: list[View] = []
        for title, quantity in (("Money", "money"), ("Customers refused", "share"), ("Blocked", "duration")):
            rows = [row for row in self.differences if row["unit"] == quantity and (row["a"] or row["b"])]
            columns = {"plan": "text", "metric": "text"} | dict.fromkeys(("a", "b", "difference"), quantity)
            shown += views_of(title, [_spread(row) for row in rows], columns, _MEANING[quantity])
        columns = {"plan": "text", "percentile": "text", "a": "money", "b": "money"}
        shown += views_of("Margin of a customer, by percentile", self.margins, columns)
        rows = [need.row() for need in self.needs]
        columns = {"side": "text", "plan": "text", "needs": "text", "accounts": "count", "uplift": "money"}
        return shown + views_of(
            "What would have been enough", rows, columns,
            "uplift: what they would pay more a month; in the first replication",
        )  # fmt: skip

    def draw(self, name: str, ax: Axes | None = None) -> Axes:
        """Draw "margin", "limits" or "percentiles"."""
        from ranksim.pricing import plots

        if name == "margin":
            return plots.margins([r for r in self.differences if r["metric"] == "margin"], ax)
        if name == "limits":
            rows = [r for r in self.differences if r["plan"] == "all" and r["metric"] in ("hit_any", *LIMITS)]
            return plots.limits(rows, ax)
        return plots.percentiles([r for r in self.margins if r["plan"] == "all"], ax)


_MEANING = {
    "money": "of all customers in the run; intervals are of the difference B − A",
    "share": "share of customers; negative: margin below 0; wants more: the plan was not enough",
    "duration": "mean time that a limit blocked a customer",
}


def compare(
    population: Population,
    a: Catalogue,
    b: Catalogue,
    *,
    policy: Policy | None = None,
    moves: Moves | None = None,
    replications: int = 10,
    seed: int = 1,
    level: float = LEVEL,
    threads: int = 1,
    compiled: bool | None = None,
) -> Comparison:
    """Serve the same customers under two catalogues, with the same requests, and compare.

    `moves` says which plan of B serves the customers of a plan that the population names. Raises BadInput.
    """
    check_replications(replications)
    check_moves(population, moves or {})
    policy = Policy() if policy is None else policy
    sides = (selling(policy, a), selling(policy, moved(b, moves or {}, "B")))
    for name, side in zip("AB", sides, strict=True):
        check_sold(population, side.catalogue, name)
    seen: list[list[Observed]] = [[], []]
    engine = ""
    for index in range(replications):
        for side, found in zip(sides, seen, strict=True):
            result = simulate_fleet(
                population, side, replication_seed(seed, index), threads=threads, compiled=compiled
            )
            found.append(observed(result))
            engine = result.engine
    # A plan that few are on may have nobody in some replications.
    served = dict.fromkeys(plan for found in seen[0] for plan, _ in found)
    plans = sorted(served, key=lambda plan: plan == "all")
    first = replication_seed(seed, 0)
    asked = {"threads": threads, "compiled": compiled}
    return Comparison(
        population,
        (a.name, b.name),
        replications,
        seed,
        level,
        tuple(_difference(plan, metric, seen, level) for plan in plans for metric in METRICS),
        tuple(_margins(plans, seen, level)),
        (
            *needs("A", population, sides[0], a, first, **asked),
            *needs("B", population, sides[1], b, first, **asked),
        ),
        engine,
    )


def observed(result: FleetResult) -> Observed:
    """Tally one run by plan: the metrics of `METRICS`, and the margins at `PERCENTILES`."""
    billed, accounts = bills(result), result.accounts
    found: Observed = {}
    plans: dict[str, str | None] = {plan: plan for plan, _ in result.sold}
    for name, plan in {**plans, "all": None}.items():
        mine = billed.of(plan)
        if not mine.any():
            continue
        margin = billed.margin[mine]
        totals = (billed.revenue, billed.prices, billed.add_ons, billed.cost, billed.margin)
        for metric, values in zip(MONEY, totals, strict=True):
            found[name, metric] = float(values[mine].sum())
        found[name, "negative"] = float((margin < 0).mean())
        found[name, "blocked"] = float(accounts["blocked"][mine].mean())
        found[name, "hit_any"] = float((result.refusals[mine].sum(axis=1) > 0).mean())
        for code in CODES:
            found[name, f"hit_{code}"] = float((accounts[code][mine] > 0).mean())
        found[name, "wants_more"] = float((~accounts["enough"][mine]).mean())
        for percentile in PERCENTILES:
            found[name, f"p{percentile}"] = float(np.percentile(margin, percentile))
    return found


def _difference(plan: str, metric: str, seen: Sequence[Sequence[Observed]], level: float) -> Row:
    first, second = ([found.get((plan, metric)) for found in side] for side in seen)
    pairs = compared(second, first, level)
    return {
        "plan": plan,
        "metric": metric,
        "unit": METRICS[metric],
        "a": pairs["second_mean"],
        "b": pairs["first_mean"],
        **{name: pairs[name] for name in ("difference", "low", "high", "gain")},
    }


def _margins(plans: Sequence[str], seen: Sequence[Sequence[Observed]], level: float) -> list[Row]:
    rows = []
    for plan in plans:
        for percentile in PERCENTILES:
            row: Row = {"plan": plan, "percentile": f"p{percentile}"}
            for side, found in zip("ab", seen, strict=True):
                values = [one[plan, f"p{percentile}"] for one in found if (plan, f"p{percentile}") in one]
                row[side], row[f"{side}_low"], row[f"{side}_high"] = estimate(values, level)
            rows.append(row)
    return rows


def _span(row: Mapping[str, float]) -> str:
    low, high = units.usd(row["low"]), units.usd(row["high"])
    return f"B − A: {low} to {high}"


def _spread(row: Row) -> Row:
    """A row whose difference is shown with its interval."""
    return row | {
        "metric": row["metric"].replace("_", " "),
        "difference_low": row["low"],
        "difference_high": row["high"],
    }
