"""Margin against blocked customers over a grid of ceilings, quotas and prices, and what is not beaten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from ranksim.contract.plans import Catalogue
from ranksim.contract.policy import Policy
from ranksim.errors import BadInput
from ranksim.fleet.engine import simulate_sides
from ranksim.fleet.population import Population
from ranksim.fleet.sides import FleetSide
from ranksim.inference.differences import compared
from ranksim.inference.estimate import LEVEL, Estimate
from ranksim.inference.kinds import MetricSample, interval
from ranksim.inference.shares import chance
from ranksim.pricing.bills import bills
from ranksim.pricing.catalogues import check_sold, selling, unpriced
from ranksim.pricing.common import check_replications
from ranksim.report import units
from ranksim.report.answer import Quantities, Row, Tables, answer_frame, views_of
from ranksim.report.notebook import answer_html, answer_repr
from ranksim.report.progress import Tell, noted
from ranksim.report.tables import View
from ranksim.sim.runner import replication_seed
from ranksim.study.parameters import check_path, laid, tree_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_POINTS = 2_000

TOGETHER = 8
"""Catalogues that serve the same customers in one go, which keeps the books of all of them."""

Grid = Mapping[str, Sequence[Any]]
"""Path into a catalogue, such as "plans.pro.cost_ceiling" → the values to try, as files write them."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """The points of a grid: the settings of each, margin of all customers (µUSD) and share of them blocked.

    The share is `of` the customers of all replications, with its exact interval.
    `change` is the paired difference of the margin to that of the catalogue as it is, `gain` its variance
    reduction. A customer is blocked who is refused something that another plan or add-on could have let
    pass. A point is `best` when none has a larger margin with no more blocked, or fewer blocked with no less
    margin.
    """

    __repr__ = answer_repr
    _repr_html_ = answer_html
    frame = answer_frame
    quantities: ClassVar[Quantities] = {"points": {"margin": "money", "change": "money"}}

    paths: tuple[str, ...]
    points: tuple[Row, ...]
    replications: int
    seed: int
    level: float

    plots = ("frontier",)

    @property
    def best(self) -> list[Row]:
        """The points that none beats, by the share of customers blocked."""
        return sorted((p for p in self.points if p["best"]), key=lambda point: float(point["blocked"]))

    @property
    def sentence(self) -> str:
        """The answer in a sentence or two."""
        few, most = self.best[0], self.best[-1]
        return (
            f"{len(self.best)} of {len(self.points)} choices are not beaten: from {_told(few)} with "
            f"{few['point']} to {_told(most)} with {most['point']}."
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of how it was found."""
        return (
            f"{self.replications} replications of the same customers at every point, seed {self.seed}; "
            f"{units.level(self.level)} intervals. Points are compared by their means; change is the paired "
            "difference to the catalogue as it is.",
            "Nobody is assumed to leave, or to buy another plan, because of a price or a refusal.",
        )

    def tables(self) -> Tables:
        """The answer as plain rows, by table."""
        return {"points": list(self.points)}

    def views(self) -> list[View]:
        """The answer as tables for people."""
        rows = [
            row | {"margin_low": None, "margin_high": None} | {"not_beaten": "yes" if row["best"] else "–"}
            for row in sorted(self.points, key=lambda row: (not row["best"], row["blocked"]))
        ]
        columns = {"point": "text", "not_beaten": "text", "margin": "money", "change": "money"}
        columns |= {"blocked": "share"}
        return views_of("Margin against blocked customers", rows, columns)

    def draw(self, name: str = "frontier", ax: Axes | None = None) -> Axes:
        """Draw the points, and the line of those that are not beaten."""
        from ranksim.pricing import plots

        return plots.frontier(self.points, ax)


def pareto(
    population: Population,
    catalogue: Catalogue,
    grid: Grid,
    *,
    policy: Policy | None = None,
    replications: int = 5,
    seed: int = 1,
    level: float = LEVEL,
    threads: int = 1,
    compiled: bool | None = None,
    progress: Tell | None = None,
) -> Frontier:
    """Try every combination of a grid on the same customers. Raises BadInput.

    What differs in prices alone is simulated once, since a price changes no request. `progress` is told how
    far it is; without it a notebook shows that.
    """
    check_replications(replications)
    choices = points_of(grid)
    base = Policy() if policy is None else policy
    # The last is the catalogue as it is, to which the others are compared.
    priced = [*(changed(catalogue, settings) for settings in choices), catalogue]
    alike: dict[str, list[int]] = {}
    for number, one in enumerate(priced):
        check_sold(population, one, "the catalogue")
        alike.setdefault(unpriced(one), []).append(number)
    margins: list[list[float]] = [[] for _ in priced]
    blocked = [0] * len(priced)
    groups = list(alike.values())
    parts = [*product(range(replications), range(0, len(groups), TOGETHER))]
    with noted("trying catalogues", progress) as tell:
        for done, (index, at) in enumerate(parts):
            tell(done / len(parts), f"replication {index + 1} of {replications}")
            some = groups[at : at + TOGETHER]
            sides = [FleetSide(population, selling(base, priced[numbers[0]])) for numbers in some]
            drawn = replication_seed(seed, index)
            results = simulate_sides(sides, drawn, threads=threads, compiled=compiled)
            for numbers, result in zip(some, results, strict=True):
                hit = int((result.accounts["upgradable"] > 0).sum())
                for number in numbers:
                    margins[number].append(float(bills(result, priced[number]).margin.sum()))
                    blocked[number] += hit
    now, customers = margins.pop(), replications * population.accounts
    means = [(fmean(m), hits / customers) for m, hits in zip(margins, blocked, strict=False)]
    points = [
        _point(settings, margins[n], now, chance(blocked[n], customers, level), level)
        | {"of": customers, "best": not _beaten(means[n], means)}
        for n, settings in enumerate(choices)
    ]
    return Frontier(tuple(grid), tuple(points), replications, seed, level)


def points_of(grid: Grid) -> list[dict[str, Any]]:
    """Return every combination of the values of a grid, by path. Raises BadInput for none, or too many."""
    if not grid or not all(grid.values()):
        raise BadInput("grid: expected at least one path with at least one value, such as plans.pro.price")
    if (size := prod(len(values) for values in grid.values())) > MOST_POINTS:
        raise BadInput(f"grid: {size:,} points are more than {MOST_POINTS:,}; give fewer values")
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def point_row(settings: Mapping[str, Any]) -> Row:
    """Return how the row of a point begins: its name, and its values by path as text."""
    name = ", ".join(f"{path.removeprefix('plans.')} {value}" for path, value in settings.items())
    return {"point": name} | {path: str(value) for path, value in settings.items()}


def changed(catalogue: Catalogue, settings: Mapping[str, Any]) -> Catalogue:
    """Return a catalogue with some of its values set, by path. Raises BadInput."""
    rooted = {f"catalogue.{path}": value for path, value in settings.items()}
    try:
        for path in rooted:
            check_path(path, {"catalogue": catalogue})
        tree = laid(catalogue, tree_of(rooted, "catalogue"))
    except ValueError as error:
        raise BadInput(f"grid: {error}") from None
    try:
        found = Policy(catalogue=catalogue).replace(catalogue=tree).catalogue
    except BadInput as error:
        raise BadInput(f"grid: {str(error).removeprefix('replace: catalogue.')}") from None
    stated = catalogue.model_fields_set | set(tree)
    return Catalogue(**{name: getattr(found, name) for name in stated})


def _beaten(one: tuple[float, float], others: Sequence[tuple[float, float]]) -> bool:
    margin, blocked = one
    return any(m >= margin and b <= blocked and (m, b) != one for m, b in others)


def _point(
    settings: Mapping[str, Any],
    margins: Sequence[float],
    now: Sequence[float],
    blocked: Estimate,
    level: float,
) -> Row:
    row = point_row(settings)
    for column, found in (("margin", interval(MetricSample("mean", margins), level)), ("blocked", blocked)):
        row[column], row[f"{column}_low"], row[f"{column}_high"] = found
    pairs = compared(MetricSample("mean", margins), MetricSample("mean", now), level)
    change = {"change": pairs.difference, "change_low": pairs.low, "change_high": pairs.high}
    return row | change | {"gain": pairs.gain, "gain_low": pairs.gain_low, "gain_high": pairs.gain_high}


def _told(point: Row) -> str:
    return f"{units.usd(point['margin'])} and {units.percent(point['blocked'])} blocked"
