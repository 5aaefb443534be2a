"""One account of a scenario, such as that of a mirrored world, asked about prices, and A against B for it.

The scenario is run as `ranksim run` runs it, under one catalogue and under another: with its domains as they
are, its clients, its calendar, its workers and what it has used. Nothing is averaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ranksim.core.clock import DAY, Micros, format_duration
from ranksim.core.contract.parameters import parts_of
from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.contract.yamlfile import read_yaml
from ranksim.core.errors import BadInput
from ranksim.core.service.events import (
    CallGranted,
    CallRefused,
    CostReserved,
    CostSettled,
    ServiceEvent,
    WindowRefused,
)
from ranksim.inference.differences import compared
from ranksim.inference.estimate import LEVEL
from ranksim.inference.kinds import Kind, MetricSample
from ranksim.planner.capacity.assumed import with_rank_runs
from ranksim.planner.capacity.planned import name_of_account
from ranksim.planner.fleet.results import CODES
from ranksim.planner.fleet.rows import LIFTED, OUTCOMES
from ranksim.planner.pricing import catalogues
from ranksim.planner.pricing import paired_metrics as pairs
from ranksim.planner.pricing.compare import ComparisonAnswer
from ranksim.planner.pricing.demand import Demand, demand_of, free_before
from ranksim.planner.study.fleets import charged
from ranksim.report import units
from ranksim.report.progress import Tell
from ranksim.report.table_spec import Row, views_of
from ranksim.report.tables import View, of_table
from ranksim.twin.sim.scenario import Scenario, scenario_of
from ranksim.twin.sim.scenario_fields import scenario_notes
from ranksim.twin.sim.settings import after, in_order
from ranksim.twin.sim.statistics import SilentTally
from ranksim.twin.sim.timeline import ChangePlan, Set, SetAddOn
from ranksim.twin.sim.world import World

LENGTH = 30 * DAY
"""How long the account is served at least (µs): a month as bills count it."""


@dataclass(frozen=True, slots=True)
class OwnScenario:
    """A scenario whose `account` is asked about, served for a month at least; `notes` say what is assumed."""

    scenario: Scenario
    account: str
    notes: tuple[str, ...]

    @property
    def plan(self) -> str:
        """The plan that the account begins with."""
        return self.scenario.accounts[self.account].plan

    @property
    def terms(self) -> list[BoughtTerms]:
        """What the account has bought, from when to when."""
        spec, end = self.scenario.accounts[self.account], self.scenario.end
        terms = [BoughtTerms(self.scenario.start, end, spec.plan, dict(spec.add_ons))]
        for action in sorted(self.scenario.timeline, key=lambda action: action.at.on(self.scenario.start)):
            if isinstance(action, ChangePlan | SetAddOn) and action.account == self.account:
                at, last = action.at.on(self.scenario.start), terms.pop()
                new = last._replace(begins=at)
                if isinstance(action, ChangePlan):
                    new = new._replace(plan=action.plan)
                else:
                    new = new._replace(add_ons=last.add_ons | {action.add_on: action.count})
                terms += [last._replace(ends=at), new]
        return [bought for bought in terms if bought.begins < bought.ends]

    def check_sold(self, catalogue: Catalogue, side: str) -> None:
        """Raise BadInput unless a side's catalogue has all that the account buys."""
        for bought in self.terms:
            catalogues.check_plan(bought.plan, catalogue, f"accounts.{self.account}", side, movable=True)
            catalogues.check_add_ons(bought.add_ons, catalogue, f"accounts.{self.account}.add_ons", side)

    def check_unset(self, compared: Iterable[str]) -> None:
        """Raise BadInput where the timeline sets what catalogues differ in, by `compared` paths into them."""
        paths = [parts_of(f"policy.catalogue.{path}") for path in compared]
        for action in _terms_set(self.scenario):
            at = parts_of(action.path)
            if any(at[: len(path)] == path[: len(at)] for path in paths):
                raise BadInput(
                    f"{self.scenario.name}: the timeline sets {action.path}, in which the catalogues differ; "
                    "leave it out of the timeline, or run the scenario with each catalogue by `ranksim run`"
                )

    def sold(self, catalogue: Catalogue) -> Iterator[tuple[Micros, Micros, Catalogue]]:
        """Yield a catalogue, and what the timeline makes of it, with from when to when it is sold."""
        scenario, begins = self.under(catalogue), self.scenario.start
        for action in _terms_set(scenario):
            at = action.at.on(scenario.start)
            yield begins, at, scenario.policy.catalogue
            scenario, begins = after(scenario, action), at
        yield begins, scenario.end, scenario.policy.catalogue

    def under(self, catalogue: Catalogue) -> Scenario:
        """The scenario with a catalogue; plans that it does not sell stay what they are to other accounts."""
        own = self.scenario.policy.catalogue
        plans, add_ons = own.plans | catalogue.plans, own.add_ons | catalogue.add_ons
        sold = catalogue.model_copy(update={"plans": plans, "add_ons": add_ons})
        return self.scenario.model_copy(update={"policy": catalogues.selling(self.scenario.policy, sold)})


class BoughtTerms(NamedTuple):
    """A plan with add-ons, bought from `begins` to `ends` (µs)."""

    begins: Micros
    ends: Micros
    plan: str
    add_ons: dict[str, int]


class AccountRun(NamedTuple):
    """An account served once: its provider cost (µUSD), paid calls granted, and calls refused by code.

    `consulted` are the fields of the policy that the service read.
    """

    cost: int
    granted: int
    refused: Counter[str]
    consulted: tuple[str, ...] = ()

    @property
    def blocked(self) -> int:
        """Calls refused by what another plan or add-on can lift."""
        return sum(self.blocked_by.values())

    @property
    def blocked_by(self) -> Counter[str]:
        """These calls by code; a code that none has is left out."""
        return +Counter({OUTCOMES[outcome]: self.refused[OUTCOMES[outcome]] for outcome in LIFTED})


def own_scenario(
    scenario: Scenario | str | Path, account: str = "", policy: Policy | str | Path | None = None
) -> OwnScenario:
    """Return an account of a scenario by its name, or the only one, to be asked about.

    A `policy` stands in place of the scenario's, but for its catalogue; both may be files. Raises BadInput.
    """
    scenario = scenario_of(scenario)
    name = name_of_account(scenario, account)
    if not scenario.accounts[name].hosts(name):
        raise BadInput(f"{scenario.name}: account {name!r} has no domains; give it a portfolio, or sites")
    scenario, assumed = with_rank_runs(scenario, name)
    notes = [*scenario_notes(scenario), *assumed]
    changes: dict[str, object] = {"expect": (), "warm_up": "none", "precision": None}
    if scenario.length < LENGTH:
        changes["length"] = LENGTH
        notes.append(
            f"The scenario's {format_duration(scenario.length)} are gone on with to "
            f"{format_duration(LENGTH)}, the month of prices."
        )
    if paths := dict.fromkeys(action.path for action in _terms_set(scenario)):
        notes.append(f"From then on, what the timeline sets holds under every catalogue: {', '.join(paths)}.")
    if len(scenario.accounts) > 1:
        notes.append("Other accounts of the scenario share its workers, and are billed nothing here.")
    changes["sample_every"] = max(scenario.length, LENGTH)  # nobody reads samples
    if policy is not None:
        changes["policy"] = catalogues.selling(policy_of(policy), scenario.policy.catalogue)
    return OwnScenario(scenario.model_copy(update=changes), name, tuple(notes))


def run_account(own: OwnScenario, catalogue: Catalogue, seed: int) -> AccountRun:
    """Run the scenario once under a catalogue, and tell what came of its account."""
    tally = _AccountTally(own.scenario)
    world = World(own.under(catalogue), seed=seed, tally=tally)
    tally.account = world.actors[own.account].account
    world.run()
    return AccountRun(tally.cost, tally.granted, tally.refused, world.service.consulted())


def consulted_in(runs: Iterable[AccountRun]) -> tuple[str, ...]:
    """Return the fields of the policy that were read in some runs."""
    return tuple(sorted({name for run in runs for name in run.consulted}))


def prices_paid(own: OwnScenario, catalogue: Catalogue) -> tuple[int, int]:
    """Return what the account pays for its plans and for its add-ons (µUSD): thirty days to the month."""
    plans = extras = 0
    for (begins, ends, sold), bought in product(own.sold(catalogue), own.terms):
        price = sold.plans[bought.plan].price
        monthly = np.array([price, sold.price_of(bought.plan, bought.add_ons) - price], dtype=np.int64)
        span = max(0, min(ends, bought.ends) - max(begins, bought.begins))
        paid = charged(monthly, np.array([span] * 2, dtype=np.int64))
        plans, extras = plans + int(paid[0]), extras + int(paid[1])
    return plans, extras


def _terms_set(scenario: Scenario) -> list[Set]:
    """Return what the timeline sets of the catalogue, in order of time."""
    return [each for _, each in in_order(scenario) if each.path.startswith("policy.catalogue")]


class _AccountTally(SilentTally):
    """Adds up what one account costs, and which of its calls are granted and refused."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario.start, scenario.length, scenario.length)
        self.account = ""
        self.cost = self.granted = 0
        self.refused: Counter[str] = Counter()

    def observe(self, events: Iterable[ServiceEvent]) -> None:
        """Look at what was booked for the account, and which of its calls were refused."""
        for event in events:
            if event.account != self.account:
                continue
            match event:
                case CostReserved():
                    self.cost += event.amount
                case CostSettled():
                    self.cost += event.amount - event.released
                case CallGranted():
                    self.granted += 1
                case CallRefused():
                    self.refused[event.code] += 1
                case WindowRefused():
                    self.refused["rate_limited"] += 1


def share_staying(demand: Demand, paid: Sequence[int], runs: tuple[AccountRun, AccountRun]) -> float:
    """Return the chance that the account stays, by what it paid and was refused, and now is."""
    before, run = runs
    # Where a bill falls others would come; of one account nobody does.
    return float(demand.stay(max(paid), paid[0], bool(run.blocked_by.keys() - before.blocked_by)))


def refuse_scenario(path: Path, instead: str) -> None:
    """Raise BadInput, saying what to do `instead`, where a file of many customers is a scenario."""
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return
    data = read_yaml(path).data
    if isinstance(data, dict) and "accounts" in data and "segments" not in data and "length" in data:
        raise BadInput(f"{path}: is a scenario, with accounts rather than many customers; {instead}")


# A against B


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class AccountComparison(ComparisonAnswer):
    """A against B for one account; rows of the metrics of "all".

    Money is µUSD in the run; `granted` and `refused_CODE` count the account's calls that ask for work.
    """

    TABLES = MappingProxyType({"differences": pairs.DIFFERENCES, "changes": catalogues.CHANGES})

    own: OwnScenario
    consulted: tuple[str, ...]
    staying: float = 1.0
    """The share of such customers who stay under B, of all replications together."""

    @property
    def plots(self) -> tuple[str, ...]:
        """The refusals; none where no call is refused."""
        return ("refusals",) if self.refusals else ()

    @property
    def refusals(self) -> list[Row]:
        """How many calls are refused with each code, under A and under B."""
        return [
            {"code": row["metric"].removeprefix("refused_"), "a": row["a"], "b": row["b"]}
            for row in self.differences
            if row["metric"].startswith("refused_") and (row["a"] or row["b"])
        ]

    @property
    def _account(self) -> str:
        return f"the account {self.own.account}, on {self.own.plan}"

    def _costs(self, costs: str) -> str:
        span = units.duration(self.own.scenario.length)
        return f"In {span} the work of {self._account}, costs the provider {costs}"

    def _earns(self, earns: str) -> str:
        return f"In {units.duration(self.own.scenario.length)} {earns} from {self._account}"

    def _refused(self) -> str:
        """Which refusal meets more or fewer calls under B."""
        rows = [row for row in self.differences if row["metric"].startswith("refused_")]
        raised = {row["metric"]: row["difference"] for row in rows}
        most = pairs.most_changed(rows, raised, least=0.5 / pairs.MOST)  # one call in any replication counts
        if most is None:
            same = "each limit refuses the same number of its calls"
            return same if self.refusals else "none of its calls is refused"
        code = most["metric"].removeprefix("refused_")
        return f"{code} refuses {units.count(most['b'])} of its calls, under A {units.count(most['a'])}"

    def _assumed(self) -> str:
        stay = f" So {units.percent(self.staying)} stay, and money under B counts by that share."
        return self.demand.sentence_of_one + (stay if self.staying < 1 else "")

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of how it was found."""
        return (
            *self.compared,
            f"The scenario is run {self.replications} times under both, with the same draws, seed "
            f"{self.seed}; {units.level(self.level)} intervals of paired differences. Prices are charged by "
            "the day, thirty days to the month.",
            *self.own.notes,
        )

    def views(self) -> list[View]:
        """The answer as tables for people."""
        views = catalogues.terms_view("changes", self.changes)
        for title, quantity in (("Money", "money"), ("Calls for work", "count")):
            rows = [
                pairs.readable(row)
                for row in self.differences
                if row["unit"] == quantity and (row["a"] or row["b"] or row["metric"] in ("cost", "granted"))
            ]
            columns = {"metric": "text", "a": quantity, "b": quantity, "difference": quantity}
            note = "In the run; intervals are of the difference B − A, over replications."
            views += of_table("differences", views_of(title, rows, columns, note))
        return views


def compare_account(
    scenario: Scenario | str | Path,
    b: Catalogue | str | Path,
    *,
    account: str = "",
    a: Catalogue | str | Path | None = None,
    policy: Policy | str | Path | None = None,
    moves: catalogues.Moves | None = None,
    replications: int = 10,
    seed: int | None = None,
    level: float = LEVEL,
    precision: float | None = None,
    demand: Demand | None = None,
    progress: Tell | None = None,
) -> AccountComparison:
    """Run a scenario under catalogue A, its own unless one is given, and under B, and compare its account.

    The account is the only one, unless it is named; scenario, catalogues and policy may be files. It is
    served for as long as the scenario lasts, for thirty days at least. `moves`, `precision`, `demand` and
    `progress` are those of `compare`; the share that stays is the chance that this one does. Without a `seed`
    it is the scenario's. Raises BadInput.
    """
    pairs.check_replications(replications, precision)
    own = own_scenario(scenario, account, policy)
    seed = own.scenario.seed if seed is None else seed
    first = catalogues.catalogue_of(own.scenario.policy.catalogue if a is None else a)
    plans = [bought.plan for bought in own.terms]
    sides = catalogues.compared_sides(first, catalogues.catalogue_of(b), moves, plans, own.check_sold)
    own.check_unset(change.path for change in sides.changes)
    demand = demand_of(demand, sides.unpriced)
    paid = [sum(prices_paid(own, catalogue)) for catalogue in sides.served]

    def margin(served: tuple[AccountRun, AccountRun]) -> float:
        a, b = (price - run.cost for price, run in zip(paid, served, strict=True))
        return b * share_staying(demand, paid, served) - a

    def serve(drawn: int) -> tuple[AccountRun, AccountRun]:
        run, other = (run_account(own, catalogue, drawn) for catalogue in sides.served)
        return run, other

    runs = pairs.paired_runs(
        serve, margin, sides,
        replications=replications, precision=precision, seed=seed, level=level, progress=progress,
    )  # fmt: skip
    staying = _staying(own, sides, runs, demand)
    return AccountComparison(
        **sides.stated(),
        staying=fmean(staying),
        replications=len(runs),
        seed=seed,
        level=level,
        demand=demand,
        remarks=demand.unmoved_notes(free_before(paid[1], paid[0]), 1, "under B"),
        differences=tuple(_rows(own, sides, runs, level, staying)),
        own=own,
        consulted=consulted_in(run for pair in runs for run in pair),
    )


def _staying(
    own: OwnScenario,
    sides: catalogues.ComparedSides,
    runs: Sequence[tuple[AccountRun, AccountRun]],
    demand: Demand,
) -> list[float]:
    """Return by replication the share of such customers who stay under B."""
    paid = [sum(prices_paid(own, catalogue)) for catalogue in sides.served]
    return [share_staying(demand, paid, pair) for pair in runs]


def _rows(
    own: OwnScenario,
    sides: catalogues.ComparedSides,
    runs: Sequence[tuple[AccountRun, AccountRun]],
    level: float,
    staying: Sequence[float],
) -> Iterator[Row]:
    """Yield the metrics of the account."""
    concerned = any(
        change.concerns(bought.plan, bought.add_ons) for change in sides.changes for bought in own.terms
    )
    paid = [prices_paid(own, catalogue) for catalogue in sides.served]
    both = list(zip(paid, zip(*runs, strict=True), strict=True))

    def row(metric: str, kind: Kind, value: Callable[[tuple[int, int], AccountRun], float]) -> Row:
        a, b = ([value(bought, run) for run in served] for bought, served in both)
        unit = "money" if kind == "mean" else kind
        if unit == "money":
            b = [amount * share for amount, share in zip(b, staying, strict=True)]
        difference = compared(MetricSample(kind, b), MetricSample(kind, a), level)
        columns = pairs.paired_row(difference, unit, not concerned)
        return {"plan": pairs.ALL, "metric": metric, "unit": unit} | columns

    priced = not sides.unpriced
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
