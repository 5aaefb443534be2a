"""Margin against blocked customers over a grid of ceilings, quotas and prices, and what is not beaten."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

from ranksim.core.contract.parameters import check_path, check_unit, laid, tree_of
from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.errors import BadInput, check_kind
from ranksim.core.money import money
from ranksim.inference.differences import compared
from ranksim.inference.estimate import LEVEL, Estimate
from ranksim.inference.kinds import MetricSample, interval
from ranksim.inference.shares import chance, clustered
from ranksim.planner.fleet.engine import simulate_sides
from ranksim.planner.fleet.population import Population, population_of
from ranksim.planner.fleet.results import FleetResult
from ranksim.planner.fleet.sides import FleetSide
from ranksim.planner.pricing import catalogues
from ranksim.planner.pricing.bills import bills
from ranksim.planner.pricing.demand import UNDER_SOME, Demand, demand_of, free_before, newly_blocked
from ranksim.planner.pricing.own_account import (
    AccountRun,
    consulted_in,
    own_scenario,
    prices_paid,
    run_account,
    share_staying,
)
from ranksim.planner.pricing.paired_metrics import check_replications, with_ends
from ranksim.planner.pricing.plots import DrawnAnswer
from ranksim.report import units
from ranksim.report.progress import Tell, noted
from ranksim.report.table_spec import NONE, Row, Tables, TableSpec, views_of
from ranksim.report.tables import View, of_table
from ranksim.twin.sim.runner import replication_seed
from ranksim.twin.sim.scenario import Scenario

MOST_POINTS = 2_000

TOGETHER = 8
"""Catalogues that serve the same customers in one go, which keeps the books of all of them."""

Grid = Mapping[str, Sequence[Any]]
"""Path into a catalogue, such as "plans.pro.cost_ceiling" → the values to try, as files write them."""

Axes = Mapping[str, str]
"""Path of a grid → what its values are, as `axes_of` says."""

READ: Mapping[str, Callable[[Any], Any]] = {"money": money, "count": int}
"""What of its values a row has, which is text of all others."""


@dataclass(frozen=True, slots=True, repr=False)
class Frontier(DrawnAnswer):
    """The points of a grid: the settings of each, margin of all customers (µUSD) and share of them blocked.

    The share is `of` the customers of all replications, with its exact interval; of one `account` it is that
    of its calls for work, over `of` replications. `change` is the paired difference of the margin to that of
    `against`, `gain` its variance reduction. A customer, or a call, is blocked that is refused something that
    another plan or add-on could have let pass. A point is `best` when none has a larger margin with no more
    blocked, or fewer blocked with no less margin. `assumed` says what is taken of an account.
    """

    kind = "price pareto"
    TABLES = MappingProxyType(
        {
            "points": TableSpec(
                others={"margin": "money", "change": "money", "blocked": "share"},
                keys=("point",),
                metrics=("margin", "change", "blocked"),
            )
        }
    )

    axes: Axes
    points: tuple[Row, ...]
    replications: int
    seed: int
    level: float
    demand: Demand
    against: str = "the catalogue as it is"
    account: str = ""
    assumed: tuple[str, ...] = ()
    consulted: tuple[str, ...] = ()

    plots = ("frontier",)

    @property
    def title(self) -> str:
        """The title, which says whom a catalogue blocks."""
        return f"Margin against blocked {'calls' if self.account else 'customers'}"

    @property
    def blocked(self) -> str:
        """What a catalogue blocks a share of."""
        return "calls for work" if self.account else "customers"

    @property
    def best(self) -> list[Row]:
        """The points that none beats, by the share of customers blocked."""
        return sorted((p for p in self.points if p["best"]), key=lambda point: float(point["blocked"]))

    @property
    def sentence(self) -> str:
        """The answer in a sentence or two."""
        ends = self.best[0], self.best[-1]
        few, most = (f"{_place(point)} with {point['point']}" for point in ends)
        number, of = len(self.best), units.many(len(self.points), "choice")
        if number == 1:
            return f"One of {of} is not beaten: {few}."
        if len(places := {_place(point) for point in ends}) == 1:
            return f"{number} of {of} are not beaten: all come to {places.pop()}."
        return f"{number} of {of} are not beaten: from {few} to {most}."

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of how it was found."""
        same = "calls" if self.account else "customers"
        return (
            self.demand.sentence_of_one if self.account else self.demand.sentence,
            f"{self.replications} replications of the same {same} at every point, seed {self.seed}; "
            f"{units.level(self.level)} intervals. Points are compared by their means; change is the paired "
            f"difference to {self.against}.",
            *((f"Blocked: of the calls for work of {self.account}.",) if self.account else ()),
            *self.assumed,
        )

    @property
    def tables(self) -> Tables:
        """The answer as plain rows, by table."""
        return {"points": list(self.points)}

    def views(self) -> list[View]:
        """The answer as tables for people."""
        rows = [
            row | {"margin_low": None, "margin_high": None} | {"not_beaten": "yes" if row["best"] else "–"}
            for row in sorted(self.points, key=lambda row: (not row["best"], row["blocked"]))
        ]
        columns = {"not_beaten": "text", **self.axes}
        columns |= {"margin": "money", "change": "money", "blocked": "share"}
        title = f"Margin against blocked {self.blocked}"
        return of_table("points", views_of(title, rows, columns, headings=path_headings(self.axes)))

    def _spec(self, name: str) -> TableSpec:
        return with_axes(DrawnAnswer._spec(self, name), self.axes)


def pareto(
    population: Population | str | Path,
    catalogue: Catalogue | str | Path,
    grid: Grid,
    *,
    policy: Policy | str | Path | None = None,
    replications: int = 5,
    seed: int = 1,
    level: float = LEVEL,
    threads: int = 1,
    compiled: bool | None = None,
    demand: Demand | None = None,
    progress: Tell | None = None,
) -> Frontier:
    """Try every combination of a grid on the same customers. Raises BadInput.

    Population, catalogue and policy may be files, and the catalogue the name of a shipped one.
    What differs in prices alone is simulated once, since a price changes no request. `demand` says who leaves
    a point for what it changes; without one nobody does. `progress` is told how far it is; without it a
    notebook shows that.
    """
    check_replications(replications)
    population, base = population_of(population), policy_of(policy)
    choices, tried, groups = _laid_out(catalogues.catalogue_of(catalogue), grid)
    for sold in tried:
        catalogues.check_sold(population, sold, "the catalogue")
    against = _against(choices, tried, catalogues.plans_of(population), groups)
    demand = demand_of(demand)
    now: list[FleetResult] = []
    margins: list[list[float]] = [[] for _ in tried]
    blocked, free = [0] * len(tried), 0
    parts = [*product(range(replications), range(0, len(groups), TOGETHER))]
    with noted("trying catalogues", progress) as tell:
        for done, (index, at) in enumerate(parts):
            tell(done / len(parts), f"replication {index + 1} of {replications}")
            some = groups[at : at + TOGETHER]
            sides = [FleetSide(population, catalogues.selling(base, tried[numbers[0]])) for numbers in some]
            drawn = replication_seed(seed, index)
            results = simulate_sides(sides, drawn, threads=threads, compiled=compiled)
            now = now if at else results[:1]
            paid = bills(now[0], tried[against]).revenue
            for numbers, result in zip(some, results, strict=True):
                newly = newly_blocked(result, now[0])
                hit = int((result.accounts["upgradable"] > 0).sum())
                for number in numbers:
                    billed = bills(result, tried[number])
                    staying = demand.stay(billed.revenue, paid, newly)
                    free = max(free, free_before(billed.revenue, paid))
                    margins[number].append(float((billed.margin * staying).sum()))
                    blocked[number] += hit
    customers = replications * population.accounts
    shares = [chance(hits, customers, level) for hits in blocked]
    axes = axes_of(grid)
    points = _points(choices, axes, margins, margins[against], shares, customers, level)
    notes = demand.unmoved_notes(free, population.accounts, UNDER_SOME)
    notes += catalogues.unfailing_notes(*tried)
    return Frontier(
        axes, points, replications, seed, level, demand, _reference(choices, against), assumed=notes
    )


def pareto_account(
    scenario: Scenario | str | Path,
    grid: Grid,
    *,
    account: str = "",
    catalogue: Catalogue | str | Path | None = None,
    policy: Policy | str | Path | None = None,
    replications: int = 5,
    seed: int | None = None,
    level: float = LEVEL,
    demand: Demand | None = None,
    progress: Tell | None = None,
) -> Frontier:
    """Try every combination of a grid on an account of a scenario, which is run as it is. Raises BadInput.

    What is blocked is then a share of the account's calls for work. The account, the scenario's length, the
    seed and the catalogue are as `compare_account` takes them.
    """
    check_replications(replications)
    own = own_scenario(scenario, account, policy)
    seed = own.scenario.seed if seed is None else seed
    own.check_unset(grid)
    choices, tried, groups = _laid_out(
        catalogues.catalogue_of(catalogue or own.scenario.policy.catalogue), grid
    )
    for sold in tried:
        own.check_sold(sold, "the catalogue")
    against = _against(choices, tried, tuple(bought.plan for bought in own.terms), groups)
    demand, paid = demand_of(demand), sum(prices_paid(own, tried[against]))
    now: list[AccountRun] = []
    margins: list[list[float]] = [[] for _ in tried]
    hits: list[list[int]] = [[] for _ in tried]
    calls: list[list[int]] = [[] for _ in tried]
    runs: list[AccountRun] = []
    parts = [*product(range(replications), groups)]
    with noted("trying catalogues", progress) as tell:
        for done, (index, numbers) in enumerate(parts):
            tell(done / len(parts), f"replication {index + 1} of {replications}")
            runs.append(run := run_account(own, tried[numbers[0]], replication_seed(seed, index)))
            now = [run] if against in numbers else now
            for number in numbers:
                pays = sum(prices_paid(own, tried[number]))
                staying = share_staying(demand, (paid, pays), (now[0], run))
                margins[number].append((pays - run.cost) * staying)
                hits[number].append(run.blocked)
                calls[number].append(run.granted + run.blocked)
    shares = [clustered(some, of, level) for some, of in zip(hits, calls, strict=True)]
    axes = axes_of(grid)
    points = _points(choices, axes, margins, margins[against], shares, replications, level)
    reference = _reference(choices, against)
    read = consulted_in(runs)
    free = max(free_before(sum(prices_paid(own, sold)), paid) for sold in tried)
    notes = (*demand.unmoved_notes(free, 1, UNDER_SOME), *own.notes)
    return Frontier(axes, points, replications, seed, level, demand, reference, own.account, notes, read)


def _laid_out(
    catalogue: Catalogue, grid: Grid
) -> tuple[list[dict[str, Any]], list[Catalogue], list[list[int]]]:
    """Return the settings of each point, their catalogues and last the one as it is; and which run alike."""
    choices = points_of(grid)
    tried = [*(changed(catalogue, settings) for settings in choices), catalogue]
    alike: dict[str, list[int]] = {}
    for number, sold in enumerate(tried):
        alike.setdefault(catalogues.unpriced(sold), []).append(number)
    return choices, tried, list(alike.values())


def _against(
    choices: Sequence[Any], tried: Sequence[Catalogue], plans: Sequence[str], groups: list[list[int]]
) -> int:
    """Return to which of the catalogues points are compared: the one as it is, if its prices are known.

    Its group is moved to the front. Raises BadInput where the prices of a point are not known.
    """
    for point in tried[:-1]:
        catalogues.check_priced(point, plans, "catalogue")
    against = 0 if catalogues.unknown_prices(tried[-1], plans) else len(choices)
    groups.sort(key=lambda numbers: against not in numbers)
    return against


def _reference(choices: Sequence[Mapping[str, Any]], against: int) -> str:
    if against == len(choices):
        return "the catalogue as it is"
    return f"{point_row(choices[against])['point']}, as the catalogue does not know its own price"


def _points(
    choices: Sequence[Mapping[str, Any]],
    axes: Axes,
    margins: Sequence[Sequence[float]],
    now: Sequence[float],
    shares: Sequence[Estimate],
    of: int,
    level: float,
) -> tuple[Row, ...]:
    """Return the row of each point, and which of them none beats."""
    means = [(fmean(m), share.mean or 0.0) for m, share in zip(margins, shares, strict=True)][: len(choices)]
    return tuple(
        point_row(settings, axes)
        | _point(margins[n], now, shares[n], level)
        | {"of": of, "best": not _beaten(means[n], means)}
        for n, settings in enumerate(choices)
    )


def points_of(grid: Grid) -> list[dict[str, Any]]:
    """Return every combination of the values of a grid, by path. Raises BadInput for none, or too many."""
    check_kind("grid", grid, Mapping, "values by path, as {'plans.pro.price': ['99 USD', '129 USD']}")
    if not grid or not all(grid.values()):
        raise BadInput("grid: expected at least one path with at least one value, such as plans.pro.price")
    if (size := prod(len(values) for values in grid.values())) > MOST_POINTS:
        raise BadInput(f"grid: {size:,} points are more than {MOST_POINTS:,}; give fewer values")
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def axes_of(grid: Grid) -> dict[str, str]:
    """Return by path what all values of a grid are: "money", a "count", or other a "value"."""

    def of(values: Sequence[Any]) -> str:
        if all(isinstance(value, str) and value.endswith(" USD") for value in values):
            return "money"
        return "count" if all(type(value) is int for value in values) else "value"

    return {path: of(values) for path, values in grid.items()}


def with_axes(spec: TableSpec, axes: Axes) -> TableSpec:
    """Return what the columns of a table of points are, its amounts of money among them."""
    amounts = {path: quantity for path, quantity in axes.items() if quantity == "money"}
    return spec._replace(others={**spec.others, **amounts})


def point_row(settings: Mapping[str, Any], axes: Axes = NONE) -> Row:
    """Return how the row of a point begins: its name, and its values by path: µUSD, integers or text."""
    name = ", ".join(f"{path.removeprefix('plans.')} {value}" for path, value in settings.items())
    values = {path: READ.get(axes.get(path, ""), str)(value) for path, value in settings.items()}
    return {"point": name} | values


def path_headings(paths: Collection[str]) -> dict[str, str]:
    """Return by path the heading of its column of values: its last two names, or all if others end so."""
    ends = {path: ".".join(path.split(".")[-2:]) for path in paths}
    unique = {path: path if [*ends.values()].count(end) > 1 else end for path, end in ends.items()}
    return {path: name.replace(".", " ").replace("_", " ") for path, name in unique.items()}


def changed(catalogue: Catalogue | str | Path, settings: Mapping[str, Any]) -> Catalogue:
    """Return a catalogue, which may be a file or a name, with some values set by path. Raises BadInput."""
    catalogue = catalogues.catalogue_of(catalogue)
    rooted = {f"catalogue.{path}": value for path, value in settings.items()}
    try:
        for path in rooted:
            check_path(path, {"catalogue": catalogue})
        check_units(catalogue, settings)
        tree = laid(catalogue, tree_of(rooted, "catalogue"))
    except ValueError as error:
        raise BadInput(str(error).replace("'catalogue.", "'").replace(": catalogue.", ": ")) from None
    try:
        sold = Policy(catalogue=catalogue).replace(catalogue=tree).catalogue
    except BadInput as error:
        raise BadInput(str(error).removeprefix("replace: catalogue.")) from None
    stated = catalogue.model_fields_set | set(tree)
    return Catalogue(**{name: getattr(sold, name) for name in stated})


def check_units(catalogue: Catalogue, settings: Mapping[str, Any]) -> None:
    """Raise BadInput where a bare number is given for money or a time, which would be µUSD or µs."""
    for path, value in settings.items():
        try:
            check_unit(f"catalogue.{path}", value, {"catalogue": catalogue})
        except BadInput as error:
            raise BadInput(f"{path}: {error}") from None


def _beaten(point: tuple[float, float], others: Sequence[tuple[float, float]]) -> bool:
    margin, blocked = point
    return any(m >= margin and b <= blocked and (m, b) != point for m, b in others)


def _point(
    margins: Sequence[float],
    now: Sequence[float],
    blocked: Estimate,
    level: float,
) -> Row:
    row = with_ends("margin", interval(MetricSample("mean", margins), level))
    pairs = compared(MetricSample("mean", margins), MetricSample("mean", now), level)
    row |= with_ends("blocked", blocked) | with_ends("change", (pairs.difference, pairs.low, pairs.high))
    return row | with_ends("gain", (pairs.gain, pairs.gain_low, pairs.gain_high))


def _place(point: Row) -> str:
    return f"{units.usd(point['margin'])} and {units.percent(point['blocked'])} blocked"
