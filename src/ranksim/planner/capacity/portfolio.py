"""What an account tracks and starts, as an even portfolio of domains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranksim.core.clock import DAY, HOUR, WEEK
from ranksim.planner.capacity.common import (
    DurationField,
    check_least,
    check_numbers,
    expect,
    question_repr,
)
from ranksim.planner.capacity.workload import MONTH, JobStarts, PlannedWork, Workload

if TYPE_CHECKING:
    pass


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
