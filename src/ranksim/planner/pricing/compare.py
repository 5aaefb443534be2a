"""What another catalogue would have earned, cost and refused: A against B on the same customers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.inference.estimate import LEVEL
from ranksim.planner.fleet.engine import simulate_sides
from ranksim.planner.fleet.population import Population, population_of
from ranksim.planner.fleet.results import FleetResult
from ranksim.planner.fleet.sides import FleetSide
from ranksim.planner.pricing import paired_metrics as pairs
from ranksim.planner.pricing.bills import Need, bills, needs, trials, with_packs
from ranksim.planner.pricing.catalogues import (
    CHANGES,
    Change,
    ComparedSides,
    Moves,
    catalogue_of,
    changes_text,
    check_sold,
    compared_sides,
    plans_of,
    selling,
    terms_view,
    unfailing_notes,
)
from ranksim.planner.pricing.demand import Demand, demand_of, free_before, newly_blocked
from ranksim.planner.pricing.plots import DrawnAnswer
from ranksim.report import units
from ranksim.report.progress import Tell
from ranksim.report.table_spec import Row, Tables, TableSpec, views_of
from ranksim.report.tables import View, of_table

SHOWN = ("p1", "p10", "p50", "p90", "p99")
"""Those of all customers, which are told to people; tables as files have every plan's."""

FEW, ENOUGH = 5, 10
"""Of fewer replications an interval is so wide that a difference from nothing is hard to tell."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ComparisonAnswer(DrawnAnswer, ABC):
    """A against B: what B changes, and rows by plan and metric with paired differences B − A.

    `differences`: plan, metric, unit, a, b, difference, low, high, gain, of, base. `of` is how many
    replications the means are over, or how many customers the shares are of, as `base` says. `unpriced` says
    which prices a catalogue does not know: nothing is then said of revenue and margins. `remarks` say who
    paid nothing, so that no price drives them away, and what of the catalogues is left out.
    """

    kind = "price compare"

    names: tuple[str, str]
    changes: tuple[Change, ...]
    taken_over: tuple[str, ...]
    unpriced: tuple[str, ...]
    replications: int
    seed: int
    level: float
    demand: Demand
    remarks: tuple[str, ...]
    differences: tuple[Row, ...]

    @property
    def title(self) -> str:
        """The title, which names the catalogues."""
        return f"Catalogue A ({self.names[0]}) against catalogue B ({self.names[1]})"

    def row(self, metric: str, plan: str = pairs.ALL) -> Row:
        """The row of one metric. Raises KeyError."""
        for row in self.differences:
            if (row["plan"], row["metric"]) == (plan, metric):
                return row
        raise KeyError((plan, metric))

    @property
    def sentence(self) -> str:
        """The answer in a sentence or two."""
        changed, refused = changes_text(self.changes), self._refused()
        if self.unpriced:
            a, b = (units.usd(self.row("cost")[side]) for side in "ab")
            unknown = f"The margin is not known, since {' and '.join(self.unpriced)}."
            return f"{changed} {unknown} {self._costs(f'{a} under A and {b} under B')}; {refused}."
        return f"{changed} {self._earns(margin_of_b(self.row('margin')))}; {refused}."

    @abstractmethod
    def _earns(self, earns: str) -> str: ...

    @abstractmethod
    def _costs(self, costs: str) -> str: ...

    @abstractmethod
    def _refused(self) -> str: ...

    @abstractmethod
    def _assumed(self) -> str: ...

    @property
    def compared(self) -> tuple[str, ...]:
        """The notes that say who leaves, which catalogues A and B are, and what they have from each other."""
        return self._assumed(), *self.remarks, f"A: {self.names[0]}. B: {self.names[1]}.", *self.taken_over

    @property
    def tables(self) -> Tables:
        """The answer as plain rows, by table."""
        return {"changes": [change.row() for change in self.changes], "differences": list(self.differences)}


def margin_of_b(margin: Mapping[str, Any]) -> str:
    """Return how much more or less margin B earns than A, by the row of their difference (µUSD)."""
    sign = 1 if margin["difference"] >= 0 else -1
    ends = sorted(sign * end for end in (margin["low"], margin["high"]) if end is not None)
    if not margin["difference"] and not any(ends):
        return "B earns the same margin as A"
    size = units.write("money", abs(margin["difference"]), *ends)
    sentence = f"B earns {size} {'more' if sign > 0 else 'less'} margin than A"
    if not ends:
        return f"{sentence} (the same in every replication)"
    if ends[0] > 0:
        return sentence
    few = f" (of {margin['of']} replications; ask for {ENOUGH} or more)" if margin["of"] < FEW else ""
    return f"{sentence}, which chance alone may explain{few}"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Comparison(ComparisonAnswer):
    """A against B for the customers of a population; rows by plan and metric, margins and needs.

    Shares have intervals of their own. Money of a plan that nobody is on in a replication counts 0 there, so
    that plans add up to "all"; other means are over the replications in which somebody is on it. `margins`:
    plan, percentile, a and b with intervals, of. A customer's plan is the one that the population names,
    under A and B. `newly_refused` is by limit the share that meets it under B alone. `unchanged` are the
    plans whose customers B changes nothing for. Of a catalogue that does not know its prices nothing is said
    of needs, either.
    """

    TABLES = MappingProxyType(
        {
            "differences": pairs.DIFFERENCES,
            "margins": TableSpec(others={"a": "money", "b": "money"}),
            "needs": TableSpec(others={"uplift": "money"}),
            "changes": CHANGES,
        }
    )

    population: Population
    unchanged: tuple[str, ...]
    newly_refused: Mapping[str, float]
    margins: tuple[Row, ...]
    needs: tuple[Need, ...]
    engine: str

    @property
    def plots(self) -> tuple[str, ...]:
        """The plots that there are."""
        return ("limits",) if self.unpriced else ("margin", "limits", "percentiles")

    def _costs(self, costs: str) -> str:
        return self._earns(f"the provider has a cost of {costs}")

    def _earns(self, earns: str) -> str:
        span = units.duration(self.population.length)
        return f"Of {units.many(self.population.accounts, 'customer')} in {span}, {earns}"

    def _refused(self) -> str:
        """Which refusal most customers meet under B alone, else which fewer meet."""
        most = pairs.most_changed(map(self.row, pairs.LIMITS), self.newly_refused, units.LEAST_POINTS)
        if most is None:
            return "as many of them meet each refusal"
        code = most["metric"].removeprefix("hit_")
        a, b = (units.percent(most[side]) for side in "ab")
        if self.population.accounts == 1:
            return f"that customer meets {code} in {b} of the replications, under A in {a}"
        if a == b:
            return f"{units.percent(self.newly_refused[most['metric']])} of them newly meet {code}"
        return f"{b if most['b'] else 'none'} of them meet {code}, under A {a}"

    def _assumed(self) -> str:
        return self.demand.sentence

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of how it was found."""
        won, margin = "", self.row("cost" if self.unpriced else "margin")
        if margin["gain"] is not None and not self.unpriced:
            by = units.gain(margin["gain"], margin["gain_low"], margin["gain_high"])
            won = f"; pairing divides the variance of the margin's difference by {by}"
        return (
            *self.compared,
            *(
                (f"B changes nothing for customers of {', '.join(self.unchanged)}.",)
                if self.unchanged
                else ()
            ),
            f"{self.replications} replications of the same customers and requests under both, seed "
            f"{self.seed}; {units.level(self.level)} intervals of paired differences{won}.",
            "Plans add up to all in money. Other means are over the replications in which a plan has "
            "customers, and shares are of the customers of all replications, whether they stay or not.",
            *((f"engine: {self.engine}",) if self.engine != "compiled" else ()),
        )

    @property
    def tables(self) -> Tables:
        """The answer as plain rows, by table."""
        return super(Comparison, self).tables | {
            "margins": list(self.margins),
            "needs": [need.row() for need in self.needs],
        }

    def views(self) -> list[View]:
        """The answer as tables for people."""
        views = terms_view("changes", self.changes)
        rows = [row for row in self.differences if self._differs(row)]
        for title, quantity in TITLES.items():
            metrics = self._metrics(title, quantity, [row for row in rows if row["unit"] == quantity])
            views += of_table("differences", metrics, folded=quantity == "duration")
        columns = {"percentile": "text", "a": "money", "b": "money"}
        margins = [row for row in self.margins if row["plan"] == pairs.ALL and row["percentile"] in SHOWN]
        views += of_table(
            "margins", views_of("Margin of a customer, by percentile", margins, columns), folded=True
        )
        return views + of_table("needs", self._needed(), folded=True)

    def _differs(self, row: Row) -> bool:
        """Whether a row says what no other does: a difference; of prices one that revenue has not, too."""
        if not row["difference"] or (row["unit"] == "share" and abs(row["difference"]) < units.LEAST_POINTS):
            return False
        revenue = self.row("revenue", row["plan"])["difference"] if row["metric"] == "plan_prices" else None
        return bool(row["difference"] != revenue)

    def _metrics(self, title: str, quantity: str, rows: Sequence[Row]) -> list[View]:
        rows = [pairs.readable(row) | {"mean_of": f"{units.count(row['of'])} {row['base']}"} for row in rows]
        of = {row["mean_of"] for row in rows}
        in_note = len(of) == 1  # not in every row
        columns = dict.fromkeys(("plan", "metric", *(() if in_note else ("mean_of",))), "text")
        columns |= {"a": quantity, "b": quantity}
        columns |= {"difference": units.difference_of(quantity)}
        note = f"{_MEANING[quantity]}; of {of.pop()}" if in_note else _MEANING[quantity]
        return views_of(title, rows, columns, f"{note}; where A and B differ.")

    def _needed(self) -> list[View]:
        """What would have been enough, a row for A and B together, and each remedy once."""
        cells: dict[tuple[str, str], Row] = {}
        for need in self.needs:
            aside = f"not enough: {need.still_refused}" if need.still_refused else ""
            aside = "they lack nothing" if need.kind == "enough" else aside
            text = f"{need.needs} ({aside})" if aside else need.needs
            row = cells.setdefault((need.plan, text), {"plan": need.plan, "needs": text})
            side = need.side.lower()
            row |= {f"under_{side}": need.accounts, f"potential_{side}": need.uplift}
        for (plan, text), row in list(cells.items()):  # an add-on that is also the cheapest of all
            if cells.get((plan, own := f"{plan} + {text}")) == row | {"needs": own}:
                del cells[plan, text]
        absent = {"under_a": 0, "under_b": 0, "potential_a": None, "potential_b": None}
        columns = {
            "plan": "text", "needs": "text",
            "under_a": "count", "under_b": "count", "potential_a": "money", "potential_b": "money",
        }  # fmt: skip
        return views_of(
            "What would have been enough", [absent | row for row in cells.values()], columns,
            "Rows are alternatives: do not add them. A plan is the cheapest, with the add-ons that it takes; "
            "an add-on alone is more of it on their own plan. Customers under A and B; "
            "potential: what they would pay more a month if all of them bought it, "
            "which is no forecast. In the first replication.",
        )  # fmt: skip


TITLES = {
    "Customers who stay or come": "count",
    "Money": "money",
    "Customers refused": "share",
    "Blocked": "duration",
}
"""The tables of metrics for people, by title the unit of the metrics."""

_MEANING = {
    "count": "Expected, of all customers; intervals are of the difference B − A",
    "money": "Of all customers who stay or come, in the run; intervals are of the difference B − A",
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
    demand: Demand | None = None,
    progress: Tell | None = None,
) -> Comparison:
    """Serve the same customers under two catalogues, with the same requests, and compare.

    Population, catalogues and policy may be files, and catalogues the names of shipped ones.
    `moves` says which plan of B serves the customers of a plan that the population names. With a `precision`
    there are more replications, up to MOST, until the margin's difference is known to within that share of
    itself. `demand` says who leaves because of B; without one nobody does. `progress` is told after each
    replication how many there are, and the difference so far; without it a notebook shows that.
    Raises BadInput.
    """
    pairs.check_replications(replications, precision)
    population, policy, a, b = population_of(population), policy_of(policy), catalogue_of(a), catalogue_of(b)
    sides = compared_sides(a, b, moves, plans_of(population), partial(check_sold, population))
    demand = demand_of(demand, sides.unpriced)
    tried = trials(population, sides.sold[0], policy) | trials(population, sides.sold[1], policy)
    fleets = [FleetSide(population, selling(policy, catalogue)) for catalogue in sides.served]
    first: list[FleetResult] = []
    free: list[int] = []

    def serve(drawn: int) -> tuple[pairs.Served, pairs.Served]:
        # Asked of the first replication alone: who would need what.
        every = fleets if first else [*fleets, *tried.values()]
        results = simulate_sides(every, drawn, threads=threads, compiled=compiled)
        first.extend(() if first else results)
        a, b = results[:2]
        pays, paid = bills(b).revenue, bills(a).revenue
        staying = demand.stay(pays, paid, newly_blocked(b, a))
        free.append(free_before(pays, paid))
        return pairs.tally_run(a), pairs.tally_run(b, staying)

    runs = pairs.paired_runs(
        serve, lambda run: run[1].means[pairs.ALL, "margin"] - run[0].means[pairs.ALL, "margin"], sides,
        replications=replications, precision=precision, seed=seed, level=level, progress=progress,
    )  # fmt: skip
    # A plan that few are on may have nobody in some replications.
    present = dict.fromkeys(plan for run, _ in runs for plan, _ in run.means)
    plans = sorted(present, key=lambda plan: plan == pairs.ALL)
    unchanged = _unchanged(population, plans, sides.changes)
    priced = not sides.unpriced
    return Comparison(
        **sides.stated(),
        replications=len(runs),
        seed=seed,
        level=level,
        demand=demand,
        remarks=(
            *demand.unmoved_notes(sum(free), len(runs) * population.accounts, "under B"),
            *unfailing_notes(*sides.served),
        ),
        differences=tuple(_rows(plans, runs, level, unchanged, priced)),
        population=population,
        unchanged=unchanged,
        newly_refused=pairs.newly_refused_by(runs),
        margins=tuple(pairs.margin_rows(plans, runs, level)) if priced else (),
        needs=tuple(_needs(sides, first, tuple(tried), threads, compiled)) if priced else (),
        engine=runs[-1][1].engine,
    )


def _rows(
    plans: Sequence[str],
    runs: Sequence[tuple[pairs.Served, pairs.Served]],
    level: float,
    unchanged: Sequence[str],
    priced: bool,
) -> Iterator[Row]:
    """Yield the metrics of each plan, and of all, under A and under B."""
    still = {*unchanged, pairs.ALL} if len(unchanged) == len(plans) - 1 else set(unchanged)
    for plan in plans:
        for metric in pairs.METRICS:
            if priced or metric not in pairs.PRICED:
                yield pairs.metric_row(plan, metric, runs, level, plan in still)


def _needs(
    sides: ComparedSides, results: Sequence[FleetResult], tried: Sequence[str], threads: int,
    compiled: bool | None,
) -> Iterator[Need]:  # fmt: skip
    """Yield what would have been enough under A and B, by a replication of both and of what was `tried`."""
    packs = [with_packs(result, threads, compiled) for result in results]
    alone = dict(zip(tried, packs[2:], strict=True))
    for name, sold, result, more in zip("AB", sides.sold, results[:2], packs[:2], strict=True):
        yield from needs(name, sold, result, alone, more)


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
        if plan != pairs.ALL and not any(change.concerns(plan, add_ons[plan]) for change in differences)
    )
