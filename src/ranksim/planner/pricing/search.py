"""Which catalogue of a grid earns most from recorded customers, of those that refuse next to nobody anew.

Every catalogue serves the same recorded calls. Candidates are first tried on a few customers, drawn once for
all; each round keeps the better part of them and tries it on more (successive halving: K. Jamieson and
A. Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016). The
last round is all customers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranksim.core import draws
from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.draws import Purpose
from ranksim.core.errors import BadInput
from ranksim.inference.estimate import LEVEL
from ranksim.inference.kinds import MetricSample, interval
from ranksim.inference.shares import chance, tail
from ranksim.planner.fleet.rows import OUTCOMES, REFUSED, Integers
from ranksim.planner.pricing.break_even import fewest
from ranksim.planner.pricing.catalogues import Moves, catalogue_of, unpriced
from ranksim.planner.pricing.column_run import (
    ColumnRun,
    newly_refused,
    refusals_of,
    tally,
    unstated_jobs,
    unstated_notes,
)
from ranksim.planner.pricing.columns import Columns, read_columns
from ranksim.planner.pricing.demand import UNDER_SOME, Amounts, Demand, demand_of, free_before
from ranksim.planner.pricing.paired_metrics import with_ends
from ranksim.planner.pricing.pareto import (
    Axes,
    Grid,
    axes_of,
    changed,
    path_headings,
    point_row,
    points_of,
    with_axes,
)
from ranksim.planner.pricing.plots import DrawnAnswer
from ranksim.planner.pricing.recorded_sides import Side, anchored_notes, assumed_notes
from ranksim.report import units
from ranksim.report.progress import Tell, noted, part
from ranksim.report.table_spec import Row, Tables, TableSpec, views_of
from ranksim.report.tables import View, of_table

KEPT = 3
"""A round keeps one candidate in so many, and has so many times as many customers as the one before."""

FEWEST = 300
"""Customers of the first round; fewer show no share of one in a hundred."""

TIED = "earns the same"
"""The standing of a candidate that the best one is not better than."""

TOGETHER = 8
"""Catalogues that are served in one pass over the columns."""


@dataclass(frozen=True, slots=True, repr=False)
class Search(DrawnAnswer):
    """The candidates of a grid by the last round that each reached, the best one, and how sure it is.

    `candidates`: point, rounds, customers, margin (µUSD, of all customers tried), change to the catalogue as
    it is, share newly refused with the exact interval, the code that most of these meet, allowed, best, and
    its standing: why it is not the best. `tornado`: what the best one's change would be if demand
    answered otherwise. `now`: how many meet such a refusal under the catalogue as it is, and of how many.
    `months`: the fewest and the most billing months of a customer that margins and changes are of.
    """

    kind = "price search"
    title = "The best catalogue for recorded customers"
    TABLES = MappingProxyType(
        {
            "candidates": TableSpec(
                others={"margin": "money", "change": "money", "newly_refused": "share"},
                keys=("point",),
                metrics=("margin", "change", "newly_refused"),
            ),
            "tornado": TableSpec(
                {"assumption": "text", "low": "share", "high": "share"}
                | {"change_at_low": "money", "change_at_high": "money"}
            ),
        }
    )

    columns: Columns
    axes: Axes
    candidates: tuple[Row, ...]
    tornado: tuple[Row, ...]
    demand: Demand
    risk: float
    level: float
    seed: int
    served: int
    now: tuple[int, int]
    months: tuple[int, int]
    assumed: tuple[str, ...] = ()

    plots = ("candidates",)

    @property
    def best(self) -> Row | None:
        """The candidate with the largest margin of those allowed that were tried on all customers, if any."""
        return next((row for row in self.candidates if row["best"]), None)

    @property
    def sentence(self) -> str:
        """The answer in a sentence or two."""
        many, limit = len(self.candidates), f"fewer than {units.percent(self.risk)} of these customers"
        best = self.best
        if best is None:
            among = f"{many} catalogues"
            if any(row["allowed"] and not row["final"] for row in self.candidates):
                final = sum(row["final"] for row in self.candidates)
                among = f"the {final} of {among} that were tried on all customers"
            most = f" Most of those refused meet {self.candidates[0]['code']}." if many else ""
            return f"Under none of {among} do {limit} meet a refusal that they never met.{most}{self._now()}"
        gain = _gain(best)
        ends = (best[f"newly_refused{end}"] for end in ("", "_low", "_high"))
        return (
            f"Of {many} catalogues, {best['point']} earns most with {limit} meeting a refusal that they "
            f"never met: {gain} the catalogue as it is. Of customers like these "
            f"({best['customers']:,}), {units.write('share', *ends)} would meet one"
            f"{self._few(best['customers'])}.{self._now()}"
        )

    def _few(self, customers: int) -> str:
        """Say that so few customers show no share below the risk, be none of them refused anything anew."""
        least = fewest(self.risk, self.level)
        if customers >= least:
            return ""
        few, limit = units.many(customers, "customer"), units.percent(self.risk)
        return (
            f": whether fewer than {limit} is not known from {few}, since even if none of them meets one "
            f"that needs {least:,}"
        )

    def _now(self) -> str:
        met, of = self.now
        if not met:
            return ""
        return (
            f" {units.percent(met / of)} of these customers meet one under the catalogue as it is, which is "
            "not quite the one that was recorded."
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of how it was found."""
        return (
            self.demand.sentence,
            f"{self.columns.where}; {self.served:,} calls were served in all, candidates on the same "
            f"customers, seed {self.seed}. A candidate ends when it has surely too many refused, or is not "
            "in the best third.",
            f"{units.level(self.level)} intervals: of the change paired by customer, of newly refused exact "
            "(Clopper and Pearson), both as if the recorded customers were drawn from many.",
            "What customers did not ask for because they were refused when recorded is not in it.",
            *self._tied(),
            *filter(None, (self.columns.unnamed, self.columns.duplicates, self.columns.timeline)),
            *self.assumed,
        )

    def _tied(self) -> Iterator[str]:
        """Say which of those that earn the same is the best."""
        if tied := sum(row["standing"] == TIED for row in self.candidates):
            yield (
                f"{units.many(tied, 'other catalogue')} {'earns' if tied == 1 else 'earn'} the same as the "
                "best; of such the best is which refuses fewest anew, else which the grid names first."
            )

    @property
    def tables(self) -> Tables:
        """The answer as plain rows, by table."""
        return {"candidates": list(self.candidates), "tornado": list(self.tornado)}

    def views(self) -> list[View]:
        """The answer as tables for people."""
        columns = {"standing": "text", **self.axes}
        columns |= {"customers": "count", "change": "money", "newly_refused": "share", "code": "value"}
        least, most = self.months
        months = units.many(most, "month") if least == most else f"{least:,} to {most:,} months"
        headings = {"change": f"change of all customers in {months}", "code": "mostly by"} | path_headings(
            self.axes
        )
        views = views_of("Catalogues", self.candidates, columns, headings=headings)
        tornado = self.TABLES["tornado"].view(
            "If demand answered otherwise", self.tornado, "Change of the best one."
        )
        return of_table("candidates", views) + of_table("tornado", tornado)

    def _spec(self, name: str) -> TableSpec:
        return with_axes(DrawnAnswer._spec(self, name), self.axes)


def _gain(best: Row) -> str:
    """Say how much more, or less, the best candidate earns than."""
    ends = [end for end in (best["change_low"], best["change_high"]) if end is not None]
    of_one = " (one customer shows no interval)" if best["customers"] == 1 else ""
    if not best["change"] and not any(ends):
        return "the same as"
    if best["change"] < 0:
        return f"{units.write('money', -best['change'], *sorted(-end for end in ends))} less{of_one} than"
    return f"{units.write('money', best['change'], *ends)} more{of_one} than"


def _standing(row: Row, best: Row | None) -> str:
    """Say why a candidate is not the best."""
    if row is best:
        return "best"
    if best and row["final"] and row["allowed"] and row["change"] == best["change"]:
        return TIED
    why = "earns less" if row["allowed"] else "refuses too many"
    return why if row["final"] else f"{why}, out in round {row['rounds']}"


class _Outcome(NamedTuple):
    """What one catalogue comes to in a round, by customer; `code` is what most of the newly refused meet."""

    revenue: Amounts
    cost: Amounts
    newly_refused: NDArray[np.bool_]
    code: str = ""


NOTHING = _Outcome(np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.bool_))


@dataclass(slots=True)
class _Candidate:
    """A point of the grid, and what came of it in its last round; `now` of the catalogue as it is."""

    settings: Mapping[str, Any]
    catalogue: Catalogue
    outcome: _Outcome = NOTHING
    now: _Outcome = NOTHING
    rounds: int = 0
    final: bool = False

    @property
    def refused(self) -> tuple[int, int]:
        """How many customers meet a refusal that they never met, and of how many."""
        newly = self.outcome.newly_refused
        return int(newly.sum()), len(newly)

    def margin(self, demand: Demand) -> Amounts:
        """The margin by customer, of those who stay in spite of what differs from the catalogue as it is."""
        newly = self.outcome.newly_refused & ~self.now.newly_refused
        staying = demand.stay(self.outcome.revenue, self.now.revenue, newly)
        return (self.outcome.revenue - self.outcome.cost) * staying


def search(
    columns: Columns | str | Path,
    catalogue: Catalogue | str | Path,
    grid: Grid,
    *,
    plan: str = "",
    moves: Moves | None = None,
    policy: Policy | str | Path | None = None,
    demand: Demand | None = None,
    risk: float = 0.01,
    level: float = LEVEL,
    seed: int = 1,
    first: int = FEWEST,
    compiled: bool | None = None,
    progress: Tell | None = None,
) -> Search:
    """Find the catalogue of a grid with the best margin of recorded customers. Raises BadInput.

    Columns, catalogue and policy may be files, and the catalogue the name of a shipped one.
    Allowed is one under which a share below `risk` of the customers meets a refusal that they never met when
    they were recorded. `first` is how many customers the first round has. `progress` is told of each
    round; without it a notebook shows that.
    """
    if not isinstance(columns, Columns):
        columns = read_columns(columns)
    catalogue, base = catalogue_of(catalogue), policy_of(policy)
    points = points_of(grid)
    if not 0 < risk < 1:
        raise BadInput(f"risk: expected a share between 0 and 1, found {risk}")
    if first < 1:
        raise BadInput(f"first: expected at least 1 customer, found {first}")
    demand = demand_of(demand)
    candidates = [_Candidate(settings, changed(catalogue, settings)) for settings in points]
    rounds = _Rounds(columns, plan, moves or {}, base, seed, compiled)
    better = partial(_better, demand=demand, risk=risk, level=level)
    with noted("searching", progress) as tell:
        rounds.narrow(now := _Candidate({}, catalogue), candidates, first, better, tell)
    axes = axes_of(grid)
    rows = [_row(candidate, axes, demand, risk, level) for candidate in candidates]
    good = [n for n, row in enumerate(rows) if row["final"] and row["allowed"]]
    best = max(good, key=lambda n: (rows[n]["change"], -rows[n]["newly_refused"]), default=None)
    for n, row in enumerate(rows):
        row["best"] = n == best
        row["standing"] = _standing(row, None if best is None else rows[best])
    tornado = [] if best is None else _tornado(candidates[best], demand)
    rows.sort(
        key=lambda row: (
            not row["best"],
            not row["final"],
            -row["rounds"],
            not row["allowed"],
            -row["change"],
        )
    )
    free = max((free_before(each.outcome.revenue, each.now.revenue) for each in candidates), default=0)
    assumed = (
        *demand.unmoved_notes(free, len(columns.accounts), UNDER_SOME),
        *rounds.unstated,
        *assumed_notes(columns.specs, rounds.jobs, " of ranksim price import"),
        *anchored_notes(columns.specs, columns.start, base),
    )
    return Search(
        columns, axes, tuple(rows), tuple(tornado), demand, risk, level, seed, rounds.served, now.refused,
        rounds.months, assumed,
    )  # fmt: skip


def _work(left: int, count: int, customers: int) -> int:
    """At most how many customers the rounds to come serve, of so many catalogues, `count` in the next one."""
    final = count >= customers or left <= KEPT
    work = (1 + left) * (customers if final else count)
    return work if final else work + _work(ceil(left / KEPT), count * KEPT, customers)


def _better(left: Sequence[_Candidate], demand: Demand, risk: float, level: float) -> list[_Candidate]:
    """The better third of the candidates that do not surely refuse too many: first who refuse few enough.

    Else those near the limit, who spend least on customers, would crowd out the others and fail in the end.
    """
    ranked: list[tuple[bool, float, _Candidate]] = []
    for candidate in left:
        met, of = candidate.refused
        if met == 0 or tail(of, met, risk, at_most=False) > 1 - level:
            margin = float(candidate.margin(demand).sum())
            ranked.append((met >= risk * of, -margin, candidate))
    ranked.sort(key=lambda place: place[:2])
    return [candidate for _, _, candidate in ranked[: ceil(len(ranked) / KEPT)]]


class _Rounds:
    """Serves the calls of some customers under several catalogues, round after round; `served` counts calls.

    Of the last round `unstated` is what to say of refusals, `jobs` are those of which nobody says what they
    want, by kind, and `months` the fewest and the most that a customer is billed. The customers of all runs
    are made once: `like` is the first run.
    """

    def __init__(
        self, columns: Columns, plan: str, moves: Moves, policy: Policy, seed: int, compiled: bool | None
    ) -> None:
        self.columns, self.plan, self.moves = columns, plan, moves
        self.policy, self.seed, self.compiled = policy, seed, compiled
        self.like: ColumnRun | None = None
        self.served = 0
        self.unstated: tuple[str, ...] = ()
        self.jobs = Counter[str]()
        self.months = (1, 1)

    def narrow(
        self,
        now: _Candidate,
        left: Sequence[_Candidate],
        count: int,
        better: Callable[[Sequence[_Candidate]], Sequence[_Candidate]],
        tell: Tell,
    ) -> None:
        """Serve `count` customers, and more of them under the better candidates, the last ones all.

        The customers come in an order that is drawn once: each round has the first so many.
        """
        accounts = np.arange(len(self.columns.accounts), dtype=np.int64)
        drawn = draws.uniforms(self.seed, draws.entity("customers"), accounts, Purpose.CHOICE)
        order = np.argsort(drawn, kind="stable").astype(np.int64)
        done, final = 0, False
        while left and not final:
            final = count >= len(order) or len(left) <= KEPT
            chosen = order if final else order[:count]
            text = f"{units.many(len(left), 'catalogue')} on {units.many(len(chosen), 'customer')}"
            work = (1 + len(left)) * len(chosen)
            most = done + _work(len(left), count, len(order))
            self.serve(chosen, [now, *left], part(tell, done / most, (done + work) / most), text)
            done += work
            left, count = left if final else better(left), count * KEPT

    def serve(self, chosen: Integers, candidates: Sequence[_Candidate], tell: Tell, text: str) -> None:
        """Serve the customers under each catalogue, the first being the one as it is.

        What differs in prices alone is served once. `tell` reports the share that is served, and the `text`.
        """
        is_chosen = np.isin(np.arange(len(self.columns.accounts)), chosen)
        alike: dict[str, list[_Candidate]] = {}
        for candidate in candidates:
            alike.setdefault(unpriced(candidate.catalogue), []).append(candidate)
        groups = list(alike.values())
        for at in range(0, len(groups), TOGETHER):
            tell(at / len(groups), text)
            self._serve(groups[at : at + TOGETHER], is_chosen)
        for candidate in candidates:
            candidate.rounds += 1
            candidate.final = bool(is_chosen.all())
            candidate.now = candidates[0].outcome

    def _serve(self, groups: Sequence[Sequence[_Candidate]], is_chosen: NDArray[np.bool_]) -> None:
        runs: list[ColumnRun] = []
        for group in groups:
            side = self._side(group[0])
            runs.append(ColumnRun(self.columns, side, self.policy, self.seed, self.compiled, self.like))
            self.like = self.like or runs[0]
        recorded, self.jobs = refusals_of(self.columns), Counter()
        everybody = bool(is_chosen.all())
        for chunk in self.columns.chunks():
            calls = chunk if everybody else chunk[is_chosen[chunk["account"]]]
            tally(recorded, calls, "recorded")
            for run in runs:
                run.serve(calls)
            self.served += len(calls) * len(runs)
            self.jobs += unstated_jobs(self.columns, calls)
        self.unstated = unstated_notes(recorded)
        for group, run in zip(groups, runs, strict=True):
            before = recorded + run.again
            newly = newly_refused(run.refused, before)[is_chosen]
            meet = ((run.refused > 0) & (before == 0))[is_chosen].sum(axis=0)
            code = OUTCOMES[REFUSED[int(meet.argmax())]] if meet.any() else ""
            billed = run.billed()
            self.months = int(billed.months[is_chosen].min()), int(billed.months[is_chosen].max())
            cost = billed.spend[is_chosen].sum(axis=1).astype(np.float64)
            for candidate in group:
                revenue = billed.months * run.monthly(self._side(candidate).sold())
                candidate.outcome = _Outcome(revenue[is_chosen].astype(np.float64), cost, newly, code)

    def _side(self, candidate: _Candidate) -> Side:
        return Side(candidate.catalogue, self.plan, self.moves)


def _row(candidate: _Candidate, axes: Axes, demand: Demand, risk: float, level: float) -> Row:
    met, of = candidate.refused
    row = point_row(candidate.settings, axes)
    row |= {"rounds": candidate.rounds, "final": candidate.final, "customers": of}
    margin = candidate.margin(demand)
    change = margin - (candidate.now.revenue - candidate.now.cost)
    ends = interval(MetricSample("mean", change.tolist()), level)
    row |= {"margin": float(margin.sum())}
    row |= with_ends("change", [None if value is None else value * of for value in ends])
    return (
        row
        | with_ends("newly_refused", chance(met, of, level))
        | {"code": candidate.outcome.code, "allowed": met < risk * of}
    )


def _tornado(winner: _Candidate, demand: Demand) -> list[Row]:
    before = float((winner.now.revenue - winner.now.cost).sum())

    def row(assumption: str, name: str) -> Row:
        ends = dict(zip(("low", "high"), getattr(demand, f"{name}_range"), strict=True))
        at = {end: winner.margin(replace(demand, **{name: share})) for end, share in ends.items()}
        changes = {f"change_at_{end}": float(margin.sum()) - before for end, margin in at.items()}
        return {"assumption": assumption} | ends | changes

    rows = [
        row("leave where the bill doubles", "price"),
        row("leave when refused what they never were", "refused"),
    ]
    rows.sort(key=lambda row: -abs(row["change_at_high"] - row["change_at_low"]))
    return rows
