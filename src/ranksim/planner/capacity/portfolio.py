"""The largest portfolio that a plan carries: which limit binds first, and the headroom of the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from ranksim.core.clock import DAY, HOUR, WEEK
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.errors import check_kind
from ranksim.planner.capacity.bursts import BURST, most_domains
from ranksim.planner.capacity.common import (
    DurationField,
    check_least,
    check_numbers,
    expect,
    expect_one_of,
    plan_named,
    question_repr,
)
from ranksim.planner.capacity.limits import MOST, RATE, Limit, allowed_alone, check_add_ons, plan_limits
from ranksim.planner.capacity.workload import MONTH, JobStarts, LoadUnder, PlannedWork, Workload
from ranksim.planner.readings import consulting
from ranksim.report import units
from ranksim.report.answer import ReadyAnswer
from ranksim.report.readings import NO_READINGS, READINGS, Readings, under_readings
from ranksim.report.table_spec import Tables, TableSpec
from ranksim.report.tables import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Grown = Literal["keywords", "domains"]


@dataclass(frozen=True)
class Portfolio:
    """What an account tracks and starts: `domains`, each with so many `keywords`, and for each domain:

    a rank run every `run_every` (µs); `crawls`, `optimizations` and `ai_scans` a month, of so many `pages`
    or `questions` each; `briefs` a week. A share `churn` of the words is replaced in a month. The rank runs
    of all domains are started within `start_within` (µs), with `keys` API keys. Both times may be given as
    text: "12h". Those of one occasion are started evenly over `spread` (µs), at one instant unless given.
    """

    domains: int = 1
    keywords: int = 1
    pairings: int = 1
    geographies: int = 1
    run_every: DurationField = DurationField(DAY)
    crawls: int = 0
    optimizations: int = 0
    pages: int = 100
    ai_scans: int = 0
    questions: int = 50
    briefs: int = 0
    churn: float = 0.0
    start_within: DurationField = DurationField(HOUR)
    spread: DurationField = DurationField(0)
    keys: int = 1
    add_ons: Mapping[str, int] = field(default_factory=dict)

    __repr__ = question_repr

    def __post_init__(self) -> None:
        """Raise BadInput for what cannot be."""
        check_numbers(self)
        check_least(self, 1, "domains", "keywords", "pairings", "geographies", "keys")
        check_least(self, 0, "crawls", "optimizations", "pages", "ai_scans", "questions", "briefs")
        expect(self.run_every > 0, "run_every", "a duration above 0", self.run_every)
        expect(self.start_within > 0, "start_within", "a duration above 0", self.start_within)
        check_least(self, 0, "spread")
        expect(0 <= self.churn < 100, "churn", "a share from 0 to below 100", self.churn)

    @property
    def workload(self) -> Workload:
        """What all domains together track and have done."""
        each = self.pairings * self.geographies
        return Workload(
            domains=self.domains,
            keywords=self.domains * self.keywords,
            each=each,
            slots=self.domains * self.keywords * each,
            pairings=self.pairings,
            geographies=self.geographies,
            work=work_done(self, self.domains, self.keywords, each, self.keywords * each),
            starts=(runs_of(self, self.domains),),
            start_within=self.start_within,
            keys=self.keys,
            add_ons=self.add_ons,
        )


def runs_of(done: Portfolio, domains: int) -> JobStarts:
    """Return the starts of rank runs of so many domains, for three occasions: as good as for ever."""
    times = tuple(done.run_every * number for number in range(3))
    return JobStarts("rank_run", domains, times, done.spread)


def work_done(done: Portfolio, domains: int, keywords: int, each: int, slots: int) -> tuple[PlannedWork, ...]:
    """Return what so many domains have done, of so many words; a rank run reads all `slots` (S23), an added
    word takes `each`.
    """
    replaced = math.ceil(done.churn * keywords)
    work = (
        PlannedWork("rank_run", domains, 1, done.run_every, slots),
        PlannedWork("crawl", domains, done.crawls, MONTH, done.pages),
        PlannedWork("site_optimization", domains, done.optimizations, MONTH, done.pages),
        PlannedWork("ai_scan", domains, done.ai_scans, MONTH, done.questions),
        PlannedWork("keyword_briefs", domains, done.briefs, WEEK),
        PlannedWork("keywords", domains, replaced, MONTH, each),
    )
    return tuple(kind for kind in work if kind.times)


@dataclass(frozen=True, slots=True)
class Headroom:
    """A limit at the largest portfolio; `allows` is how far it alone would let it grow, None without end."""

    limit: Limit
    allows: int | None

    @property
    def used(self) -> float:
        """The share of what there is that is needed."""
        return self.limit.used if self.limit.there else float(self.limit.need > 0)


LIMITS = TableSpec(
    {"name": "text", "need": "", "there": "", "used": "share", "allows": "count"},
    keys=("name",),
    metrics=("need", "there", "used", "allows"),
    headings={"name": "limit", "there": "there is"},
)


@dataclass(frozen=True, slots=True, repr=False)
class Largest(ReadyAnswer):
    """The answer: the most keywords a domain or domains, and every limit there, the tightest first.

    `most` is None when nothing binds below `MOST`, and 0 when even one is too many.
    """

    kind = "capacity portfolio"
    plots = ("limits",)
    TABLES = MappingProxyType({"answer": LIMITS, "readings": READINGS})

    portfolio: Portfolio | Workload
    plan: str
    grow: Grown
    most: int | None
    limits: tuple[Headroom, ...]
    remarks: tuple[str, ...] = ()
    readings: Readings = NO_READINGS

    @property
    def title(self) -> str:
        """The title, which names the plan."""
        return f"The largest portfolio of the plan {self.plan}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What it hangs on, and what to know of what was asked."""
        return self.readings.around(*self.remarks)

    @property
    def verdict(self) -> str:
        """How many it carries: what other assumptions may change."""
        if self.most is None:
            return f"it carries as many {self.grow} as you like"
        return f"it carries {units.many(self.most, self.grow.removesuffix('s'))}"

    @property
    def binding(self) -> Limit:
        """The limit that binds first."""
        return self.limits[0].limit

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        if self.most is None:
            return f"Nothing on the plan {self.plan} binds below {MOST:,} {self.grow}."
        each = " a domain" if self.grow == "keywords" and self.portfolio.domains > 1 else ""
        return (
            f"The plan {self.plan} carries {units.many(self.most, self.grow.removesuffix('s'))}{each}; "
            f"what binds first: {self.binding.name} ({self.binding.refusal})."
        )

    @property
    def tables(self) -> Tables:
        """One row a limit: the need there, what there is, the share used, and what it alone allows."""
        rows = [{**asdict(room.limit), "used": room.used, "allows": room.allows} for room in self.limits]
        return {"answer": rows, **self.readings.tables()}

    def views(self) -> list[View]:
        """The answer as tables for people."""
        table = LIMITS._replace(headings={**LIMITS.headings, "allows": f"{self.grow} it allows"})
        return table.view(f"Limits of the plan {self.plan}", self.rows())

    def _drawn(self, name: str, ax: Axes | None) -> Axes:
        from ranksim.planner.capacity import plots

        return plots.portfolio(self.rows(), self.sentence.rstrip("."), ax)


def largest(
    portfolio: Portfolio | Workload | LoadUnder,
    plan: str,
    policy: Policy | str | Path | None = None,
    *,
    grow: Grown = "keywords",
) -> Largest:
    """Find how many keywords a domain, or how many domains, a plan carries at most, all else as given.

    Of the workload of an account of a scenario (`workload_of`) domains and words are on average, and what is
    used of the month counts.
    The number that `portfolio` has of what is varied does not matter. The answer's `readings` are what other
    assumptions would make of it. Raises BadInput.
    """
    policy = policy_of(policy)
    if not callable(portfolio):
        kinds = "a portfolio; `workload_of` makes a workload of a scenario"
        check_kind("largest", portfolio, Portfolio | Workload, kinds)
    expect_one_of(("keywords", "domains"), "grow", grow)

    def ask(policy: Policy) -> Largest:
        return _largest(portfolio(policy) if callable(portfolio) else portfolio, plan, policy, grow)

    answer, readings = under_readings(consulting(ask), policy, lambda answer: answer.verdict)
    return replace(answer, readings=readings)


def _largest(portfolio: Portfolio | Workload, plan: str, policy: Policy, grow: Grown) -> Largest:
    check_add_ons(portfolio.add_ons, policy)
    bought = plan_named(policy, plan)
    load = portfolio if isinstance(portfolio, Workload) else portfolio.workload
    allows = allowed_alone(lambda n: _workload(portfolio, grow, n), bought, policy)
    started = most_domains(load, [bought], policy)[plan]
    if started is not None:
        allows.append(started if grow == "domains" else MOST if load.domains <= started else 0)
    most = min(allows)
    there = _workload(portfolio, grow, max(most, 1))
    needed = plan_limits(there, bought, policy)
    if started is not None:
        needed.append(Limit(BURST, there.domains, started, "count", RATE))
    rooms = [
        Headroom(limit, None if allowed == MOST else allowed)
        for limit, allowed in zip(needed, allows, strict=True)
    ]
    rooms.sort(key=lambda room: (MOST if room.allows is None else room.allows, -room.used))
    return Largest(portfolio, plan, grow, None if most == MOST else most, tuple(rooms))


def _workload(portfolio: Portfolio | Workload, grow: Grown, n: int) -> Workload:
    if isinstance(portfolio, Workload):
        return portfolio.of_keywords(n) if grow == "keywords" else portfolio.of_domains(n)
    return (replace(portfolio, keywords=n) if grow == "keywords" else replace(portfolio, domains=n)).workload
