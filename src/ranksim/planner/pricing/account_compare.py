"""What another catalogue would have earned from one account of a scenario, and cost and refused it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import Policy
from ranksim.inference.differences import compared
from ranksim.inference.estimate import LEVEL
from ranksim.inference.kinds import Kind, MetricSample, interval
from ranksim.planner.fleet.results import CODES
from ranksim.planner.pricing.catalogues import Moves, alike, catalogue_of, check_moves, lacking_prices, moved
from ranksim.planner.pricing.changes import Change, changes, changes_text, taken_over, terms_view
from ranksim.planner.pricing.common import DEMAND, check_replications, margin_of_b
from ranksim.planner.pricing.compare import is_enough
from ranksim.planner.pricing.own_account import (
    AccountRun,
    OwnScenario,
    consulted_in,
    own_scenario,
    prices,
    served,
)
from ranksim.planner.pricing.paired_metrics import ALL, DIFFERENCES, paired_row, readable
from ranksim.report import units
from ranksim.report.answer import ReadyAnswer, Row, Tables, views_of
from ranksim.report.progress import Tell, noted
from ranksim.report.tables import View
from ranksim.twin.sim.runner import replication_seed
from ranksim.twin.sim.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, repr=False)
class AccountComparison(ReadyAnswer):
    """A against B for one account: what B changes, and rows by metric with paired differences B − A.

    `differences`: plan ("all"), metric, unit, a, b, difference, low, high, gain, of, base. Money is µUSD in
    the run; `granted` and `refused_CODE` count the account's calls that ask for work. `unpriced` says which
    price a catalogue does not know; revenue and margin are then left out.
    """

    kind = "price compare"
    title = "Catalogue A against catalogue B"
    TABLES = MappingProxyType({"differences": DIFFERENCES})

    own: OwnScenario
    names: tuple[str, str]
    replications: int
    seed: int
    level: float
    changes: tuple[Change, ...]
    taken_over: tuple[str, ...]
    unpriced: tuple[str, ...]
    differences: tuple[Row, ...]
    consulted: tuple[str, ...]

    plots = ("refusals",)

    def row(self, metric: str) -> Row:
        """The row of one metric. Raises KeyError."""
        for row in self.differences:
            if row["metric"] == metric:
                return row
        raise KeyError(metric)

    @property
    def sentence(self) -> str:
        """The answer in a sentence or two."""
        span = units.duration(self.own.scenario.length)
        who = f"the account {self.own.account}, on {self.own.plan}"
        if self.unpriced:
            cost = self.row("cost")
            return (
                f"{changes_text(self.changes)} The margin is not known, since {' and '.join(self.unpriced)}. "
                f"In {span} the work of {who}, costs the provider {units.usd(cost['a'])} under A and "
                f"{units.usd(cost['b'])} under B; {self._refused()}."
            )
        earns = margin_of_b(self.row("margin"))
        return f"{changes_text(self.changes)} In {span} {earns} from {who}; {self._refused()}."

    def _refused(self) -> str:
        """Which refusal meets more or fewer calls under B."""
        rows = [row for row in self.differences if row["metric"].startswith("refused_")]
        most = max(rows, key=lambda row: abs(row["difference"]), default=None)
        if most is None or not most["difference"]:
            return "each limit refuses as many of its calls"
        code = most["metric"].removeprefix("refused_")
        return f"{code} refuses {units.count(most['b'])} of its calls, under A {units.count(most['a'])}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of how it was found."""
        return (
            f"A: {self.names[0]}. B: {self.names[1]}.",
            *self.taken_over,
            f"The scenario is run {self.replications} times under both, with the same draws, seed "
            f"{self.seed}; {units.level(self.level)} intervals of paired differences. Prices are charged by "
            "the day, thirty days to the month.",
            DEMAND,
            *self.own.notes,
        )

    def tables(self) -> Tables:
        """The answer as plain rows, by table."""
        return {"changes": [change.row() for change in self.changes], "differences": list(self.differences)}

    def views(self) -> list[View]:
        """The answer as tables for people."""
        views = terms_view(self.changes)
        for title, quantity in (("Money", "money"), ("Calls for work", "count")):
            rows = [
                readable(row)
                for row in self.differences
                if row["unit"] == quantity and (row["a"] or row["b"] or row["metric"] in ("cost", "granted"))
            ]
            columns = {"metric": "text", "a": quantity, "b": quantity, "difference": quantity}
            note = "In the run; intervals are of the difference B − A, over replications."
            views += views_of(title, rows, columns, note)
        return views

    def draw(self, name: str = "refusals", ax: Axes | None = None) -> Axes:
        """Draw "refusals": how many calls are refused with each code, under A and under B."""
        from ranksim.planner.pricing import plots

        rows = [
            {"code": row["metric"].removeprefix("refused_"), "a": row["a"], "b": row["b"]}
            for row in self.differences
            if row["metric"].startswith("refused_") and (row["a"] or row["b"])
        ]
        return plots.outcomes(rows, ax)


def compare_account(
    scenario: Scenario | str | Path,
    b: Catalogue | str | Path,
    *,
    account: str = "",
    a: Catalogue | str | Path | None = None,
    policy: Policy | str | Path | None = None,
    moves: Moves | None = None,
    replications: int = 10,
    seed: int = 1,
    level: float = LEVEL,
    precision: float | None = None,
    progress: Tell | None = None,
) -> AccountComparison:
    """Run a scenario under catalogue A, its own unless one is given, and under B, and compare its account.

    The account is the only one, unless it is named; scenario, catalogues and policy may be files. It is
    served for as long as the scenario lasts, for thirty days at least. `moves`, `precision` and `progress`
    are those of `compare`. Raises BadInput.
    """
    check_replications(replications, precision)
    own = own_scenario(scenario, account, policy)
    first = catalogue_of(own.scenario.policy.catalogue if a is None else a)
    second = catalogue_of(b)
    plans = [bought.plan for bought in own.terms]
    check_moves(plans, moves or {})
    taken = taken_over(first, second)
    first, second = alike(first, second)
    second = moved(second, moves or {}, "B")
    sides = {"A": first, "B": second}
    for name, catalogue in sides.items():
        own.check_sold(catalogue, name)
    unpriced = lacking_prices(sides, plans)
    runs: list[tuple[AccountRun, AccountRun]] = []
    margins: list[float] = []
    paid = [sum(prices(own, catalogue)) for catalogue in sides.values()]
    with noted("comparing", progress) as tell:
        while len(runs) < replications or not is_enough(margins, precision, level):
            drawn = replication_seed(seed, len(runs))
            run, other = (served(own, catalogue, drawn) for catalogue in sides.values())
            runs.append((run, other))
            margins.append((paid[1] - other.cost) - (paid[0] - run.cost))
            so_far = units.write("money", *interval(MetricSample("mean", margins), level))
            share = None if precision else len(runs) / replications
            margin = "" if unpriced else f", the margin changes by {so_far}"
            tell(share, f"{units.many(len(runs), 'replication')}{margin}")
    differences = changes(first, second)
    still = not any(
        change.concerns(bought.plan, bought.add_ons) for change in differences for bought in own.terms
    )
    return AccountComparison(
        own,
        (first.name, second.name),
        len(runs),
        seed,
        level,
        differences,
        taken,
        unpriced,
        tuple(_rows(own, (first, second), runs, level, still, not unpriced)),
        consulted_in(run for pair in runs for run in pair),
    )


def _rows(
    own: OwnScenario,
    sides: Sequence[Catalogue],
    runs: Sequence[tuple[AccountRun, AccountRun]],
    level: float,
    still: bool,
    priced: bool,
) -> Iterator[Row]:
    """Yield the metrics of the account; `still`: nothing that B changes concerns it."""
    paid = [prices(own, catalogue) for catalogue in sides]
    both = list(zip(paid, zip(*runs, strict=True), strict=True))

    def row(metric: str, kind: Kind, value: Callable[[tuple[int, int], AccountRun], float]) -> Row:
        a, b = ([value(bought, run) for run in served] for bought, served in both)
        pairs = compared(MetricSample(kind, b), MetricSample(kind, a), level)
        unit = "money" if kind == "mean" else kind
        return {"plan": ALL, "metric": metric, "unit": unit} | paired_row(pairs, unit, still)

    if priced:
        yield row("revenue", "mean", lambda paid, _: sum(paid))
        yield row("plan_prices", "mean", lambda paid, _: paid[0])
        yield row("add_ons", "mean", lambda paid, _: paid[1])
    yield row("cost", "mean", lambda _, run: run.cost)
    if priced:
        yield row("margin", "mean", lambda paid, run: sum(paid) - run.cost)
    yield row("granted", "count", lambda _, run: run.granted)
    for code in CODES:
        yield row(f"refused_{code}", "count", partial(_refused, code))


def _refused(code: str, _: tuple[int, int], run: AccountRun) -> int:
    return run.refused[code]
