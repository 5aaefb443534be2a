"""What another catalogue would have earned, cost and refused: A against B on the same customers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.inference.estimate import LEVEL
from ranksim.inference.kinds import MetricSample, interval
from ranksim.inference.precision import FIRST_STAGE, is_precise
from ranksim.planner.fleet.engine import simulate_sides
from ranksim.planner.fleet.population import Population, population_of
from ranksim.planner.fleet.results import FleetResult
from ranksim.planner.fleet.sides import FleetSide
from ranksim.planner.pricing.catalogues import (
    Moves,
    alike,
    catalogue_of,
    check_moves,
    check_sold,
    lacking_prices,
    moved,
    plans_of,
    selling,
)
from ranksim.planner.pricing.changes import Change, changes, changes_text, taken_over, terms_view
from ranksim.planner.pricing.common import DEMAND, check_replications, margin_of_b
from ranksim.planner.pricing.needs import Need, needs, trials
from ranksim.planner.pricing.paired_metrics import (
    ALL,
    DIFFERENCES,
    LIMITS,
    METRICS,
    PRICED,
    Served,
    margin_rows,
    metric_row,
    readable,
    served,
)
from ranksim.report import units
from ranksim.report.answer import ReadyAnswer, Row, Tables, TableSpec, views_of
from ranksim.report.progress import Tell, noted
from ranksim.report.tables import View
from ranksim.twin.sim.runner import replication_seed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 1_000
"""Replications at which a comparison ends, however well it knows."""

SHOWN = ("p1", "p10", "p50", "p90", "p99")
"""Those of all customers, which are told to people; tables as files have every plan's."""


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(ReadyAnswer):
    """A against B: what B changes; rows by plan and metric with paired differences B − A; margins; needs.

    `differences`: plan, metric, unit, a, b, difference, low, high, gain, of, base. `of` is how many
    replications the means are over, or how many customers the shares are of, as `base` says; shares have
    intervals of their own. Money of a plan that nobody is on in a replication counts 0 there, so that plans
    add up to "all"; other means are over the replications in which somebody is on it. `margins`: plan,
    percentile, a and b with intervals, of. A customer's plan is the one that the population names, under both
    catalogues. `unchanged` are the plans whose customers B changes nothing for. `unpriced` says which prices
    a catalogue does not know: nothing is then said of revenue, margins and needs.
    """

    kind = "price compare"
    title = "Catalogue A against catalogue B"
    TABLES = MappingProxyType(
        {
            "differences": DIFFERENCES,
            "margins": TableSpec(others={"a": "money", "b": "money"}),
            "needs": TableSpec(others={"uplift": "money"}),
        }
    )

    population: Population
    names: tuple[str, str]
    replications: int
    seed: int
    level: float
    changes: tuple[Change, ...]
    unchanged: tuple[str, ...]
    taken_over: tuple[str, ...]
    differences: tuple[Row, ...]
    margins: tuple[Row, ...]
    needs: tuple[Need, ...]
    engine: str
    unpriced: tuple[str, ...] = ()

    @property
    def plots(self) -> tuple[str, ...]:
        """The plots that there are."""
        return ("limits",) if self.unpriced else ("margin", "limits", "percentiles")

    def row(self, metric: str, plan: str = "all") -> Row:
        """The row of one metric. Raises KeyError."""
        for row in self.differences:
            if (row["plan"], row["metric"]) == (plan, metric):
                return row
        raise KeyError((plan, metric))

    @property
    def sentence(self) -> str:
        """The answer in a sentence or two."""
        span = units.duration(self.population.length)
        customers = units.many(self.population.accounts, "customer")
        if self.unpriced:
            cost = self.row("cost")
            return (
                f"{changes_text(self.changes)} The margin is not known, since {' and '.join(self.unpriced)}. "
                f"Of {customers} in {span}, the provider has a cost of {units.usd(cost['a'])} under A and "
                f"{units.usd(cost['b'])} under B; {self._refused()}."
            )
        earns = margin_of_b(self.row("margin"))
        return f"{changes_text(self.changes)} Of {customers} in {span}, {earns}; {self._refused()}."

    def _refused(self) -> str:
        """Which refusal meets customers of B most otherwise than those of A."""
        most = max((self.row(limit) for limit in LIMITS), key=lambda row: abs(row["difference"]))
        if units.points(most["difference"]) == units.points(0):
            return "as many of them meet each refusal"
        code = most["metric"].removeprefix("hit_")
        if self.population.accounts == 1:
            under = f"{units.percent(most['b'])} of the replications, under A in {units.percent(most['a'])}"
            return f"that customer meets {code} in {under}"
        return f"{units.percent(most['b'])} of them meet {code}, under A {units.percent(most['a'])}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of how it was found."""
        won, margin = "", self.row("cost" if self.unpriced else "margin")
        if margin["gain"] is not None and not self.unpriced:
            by = units.gain(margin["gain"], margin["gain_low"], margin["gain_high"])
            won = f"; pairing divides the variance of the margin's difference by {by}"
        return (
            f"A: {self.names[0]}. B: {self.names[1]}.",
            *self.taken_over,
            *(
                (f"B changes nothing for customers of {', '.join(self.unchanged)}.",)
                if self.unchanged
                else ()
            ),
            f"{self.replications} replications of the same customers and requests under both, seed "
            f"{self.seed}; {units.level(self.level)} intervals of paired differences{won}.",
            "Plans add up to all in money. Other means are over the replications in which a plan has "
            "customers, and shares are of the customers of all replications.",
            DEMAND,
            *((f"engine: {self.engine}",) if self.engine != "compiled" else ()),
        )

    def tables(self) -> Tables:
        """The answer as plain rows, by table."""
        return {
            "changes": [change.row() for change in self.changes],
            "differences": list(self.differences),
            "margins": list(self.margins),
            "needs": [need.row() for need in self.needs],
        }

    def views(self) -> list[View]:
        """The answer as tables for people."""
        views = terms_view(self.changes)
        rows = [row for row in self.differences if self._differs(row)]
        for title, quantity in (("Money", "money"), ("Customers refused", "share"), ("Blocked", "duration")):
            views += self._metrics(title, quantity, [row for row in rows if row["unit"] == quantity])
        columns = {"percentile": "text", "a": "money", "b": "money"}
        margins = [row for row in self.margins if row["plan"] == ALL and row["percentile"] in SHOWN]
        views += views_of("Margin of a customer, by percentile", margins, columns)
        return views + self._needed()

    def _differs(self, row: Row) -> bool:
        """Whether a row says what no other does: a difference; of prices one that revenue has not, too."""
        if not row["difference"] or units.write(row["difference_unit"], row["difference"]) == "0 points":
            return False
        revenue = self.row("revenue", row["plan"])["difference"] if row["metric"] == "plan_prices" else None
        return bool(row["difference"] != revenue)

    def _metrics(self, title: str, quantity: str, rows: Sequence[Row]) -> list[View]:
        rows = [readable(row) | {"mean_of": f"{units.count(row['of'])} {row['base']}"} for row in rows]
        of = {row["mean_of"] for row in rows}
        in_note = len(of) == 1  # not in every row
        columns = dict.fromkeys(("plan", "metric", *(() if in_note else ("mean_of",))), "text")
        columns |= {"a": quantity, "b": quantity}
        columns |= {"difference": "points" if quantity == "share" else quantity}
        note = f"{_MEANING[quantity]}; of {of.pop()}" if in_note else _MEANING[quantity]
        return views_of(title, rows, columns, f"{note}; where A and B differ.")

    def _needed(self) -> list[View]:
        """What would have been enough, a row for A and B together."""
        cells: dict[tuple[str, str], Row] = {}
        for need in self.needs:
            row = cells.setdefault((need.plan, need.needs), {"plan": need.plan, "needs": need.needs})
            row |= {f"under_{need.side.lower()}": need.accounts, f"uplift_{need.side.lower()}": need.uplift}
        absent = {"under_a": 0, "under_b": 0, "uplift_a": None, "uplift_b": None}
        columns = {
            "plan": "text", "needs": "text",
            "under_a": "count", "under_b": "count", "uplift_a": "money", "uplift_b": "money",
        }  # fmt: skip
        return views_of(
            "What would have been enough", [absent | row for row in cells.values()], columns,
            "Customers under A and B; uplift: what they would pay more a month. In the first replication.",
        )  # fmt: skip

    def draw(self, name: str, ax: Axes | None = None) -> Axes:
        """Draw "margin", "limits" or "percentiles"."""
        from ranksim.planner.pricing import plots

        if name == "margin":
            return plots.margins([r for r in self.differences if r["metric"] == "margin"], ax)
        if name == "limits":
            rows = [r for r in self.differences if r["plan"] == "all" and r["metric"] in ("hit_any", *LIMITS)]
            return plots.limits(rows, ax)
        return plots.percentiles([r for r in self.margins if r["plan"] == "all"], ax)


_MEANING = {
    "money": "Of all customers in the run; intervals are of the difference B − A",
    "share": "Share of customers; negative: margin below 0; wants more: the plan was not enough",
    "duration": "Mean time that a limit blocked a customer",
}


def compare(
    population: Population | str | Path,
    a: Catalogue | str | Path,
    b: Catalogue | str | Path,
    *,
    policy: Policy | str | Path | None = None,
    moves: Moves | None = None,
    replications: int = 10,
    seed: int = 1,
    level: float = LEVEL,
    threads: int = 1,
    compiled: bool | None = None,
    precision: float | None = None,
    progress: Tell | None = None,
) -> Comparison:
    """Serve the same customers under two catalogues, with the same requests, and compare.

    Population, catalogues and policy may be files, and catalogues the names of shipped ones.
    `moves` says which plan of B serves the customers of a plan that the population names. With a `precision`
    there are more replications, up to MOST, until the margin's difference is known to within that share of
    itself. `progress` is told after each how many there are, and the difference so far; without it
    a notebook shows that. Raises BadInput.
    """
    check_replications(replications, precision)
    population, policy, a, b = population_of(population), policy_of(policy), catalogue_of(a), catalogue_of(b)
    check_moves(plans_of(population), moves or {})
    taken = taken_over(a, b)
    a, b = alike(a, b)
    catalogues = a, moved(b, moves or {}, "B")
    for name, catalogue in zip("AB", catalogues, strict=True):
        check_sold(population, catalogue, name)
    sides = [FleetSide(population, selling(policy, catalogue)) for catalogue in catalogues]
    lacking = lacking_prices(dict(zip("AB", catalogues, strict=True)), plans_of(population))
    # Asked of the first replication alone: who would need what.
    tried = trials(population, a, policy) | trials(population, b, policy)
    own: list[FleetResult] = []
    runs: list[tuple[Served, Served]] = []
    margins: list[float] = []
    with noted("comparing", progress) as tell:
        while len(runs) < replications or not is_enough(margins, precision, level):
            every = sides if own else [*sides, *tried.values()]
            drawn = replication_seed(seed, len(runs))
            results = simulate_sides(every, drawn, threads=threads, compiled=compiled)
            own = own or results
            first, second = served(results[0]), served(results[1])
            runs.append((first, second))
            margins.append(second.means[ALL, "margin"] - first.means[ALL, "margin"])
            so_far = units.write("money", *interval(MetricSample("mean", margins), level))
            share = None if precision else len(runs) / replications
            margin = "" if lacking else f", the margin changes by {so_far}"
            tell(share, f"{units.many(len(runs), 'replication')}{margin}")
    # A plan that few are on may have nobody in some replications.
    seen = dict.fromkeys(plan for run, _ in runs for plan, _ in run.means)
    plans = sorted(seen, key=lambda plan: plan == ALL)
    differences = changes(*catalogues)
    same = _unchanged(population, plans, differences)
    still = {*same, ALL} if len(same) == len(plans) - 1 else set(same)
    rows = [
        metric_row(plan, metric, runs, level, plan in still)
        for plan in plans
        for metric in METRICS
        if not (lacking and metric in PRICED)
    ]
    needed: list[Need] = []
    if not lacking:
        enough = {name: result.accounts["enough"] for name, result in zip(tried, own[2:], strict=True)}
        for name, sold, result in zip("AB", (a, b), own[:2], strict=True):
            needed += needs(name, sold, result, enough)
    return Comparison(
        population,
        (a.name, b.name),
        len(runs),
        seed,
        level,
        differences,
        same,
        taken,
        tuple(rows),
        () if lacking else tuple(margin_rows(plans, runs, level)),
        tuple(needed),
        runs[-1][1].engine,
        lacking,
    )


def is_enough(margins: Sequence[float], precision: float | None, level: float) -> bool:
    """Whether the margin's difference is known as well as was asked for, or cannot come to be."""
    if precision is None or len(margins) >= MOST:
        return True
    # What is the same under both is so however long one looks.
    sample = MetricSample("mean", margins)
    return is_precise(sample, precision, level) or (len(margins) >= FIRST_STAGE and not any(margins))


def _unchanged(
    population: Population, plans: Sequence[str], differences: Sequence[Change]
) -> tuple[str, ...]:
    """Return the plans whose customers, with the add-ons that they have, no difference concerns."""
    add_ons: dict[str, set[str]] = {}
    for segment in population.segments.values():
        for plan, choice in segment.plans.items():
            add_ons.setdefault(plan, set()).update(choice.add_ons)
    return tuple(
        plan
        for plan in plans
        if plan != ALL and not any(change.concerns(plan, add_ons[plan]) for change in differences)
    )
