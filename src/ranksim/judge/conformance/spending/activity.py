"""What one account asked to spend and what came of it: works, refusals, dry runs, and readings of its books.

A *work* is one thing that was done: a job, a set of briefs, keywords, a scan. Calls that were answered with
the same thing (replays, joins) are one work, done once in [low, high]; a call whose reply was lost is a work
that may not exist.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, Micros
from ranksim.core.contract.facts import CHECK_OF, Decision, JobKind, Spend
from ranksim.core.rules.terms import TABLE
from ranksim.judge.conformance.history.fields import sent_body, thing_of
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.spending.counter_bounds import Interval, SpanSums
from ranksim.judge.conformance.spending.statements import (
    CostStatement,
    EntitlementStatement,
    MeterStatement,
    SlotStatement,
    StatusStatement,
)
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import Cause
from ranksim.judge.conformance.verdict.verdicts import Evidence

Json = Any

JOBS: Final = frozenset(map(str, JobKind))
RANK_RUN: Final = JobKind.RANK_RUN.value

ROWS: Final = {kind.label: TABLE[kind] for kind in Spend}
"""The checks that the table of spending operations names, by operation (S52-S58)."""

ADDS: Final = ("keywords", "scans")
"""The operations that buy nothing immediately (S57, S58)."""

CHECKS: Final = CHECK_OF | {"allowance_exhausted": CHECK_OF["quota_exhausted"]}
"""The check behind a refusal's code (S59, U53)."""

DRY_RUN_QUEUED: Final = Cause(
    "dry_run.queues", "a job that a dry run starts is reserved, counted and runs", account=True
)


SPENDS: Final = {
    "keyword_briefs.create": "keyword_briefs",
    "keywords.create": "keywords",
    "scans.create": "scans",
}
SPENDING: Final = frozenset({"jobs.create", *SPENDS})


def asked_of(exchange: Observation, made: Mapping[str, Json] = MappingProxyType({})) -> tuple[str, str]:
    """Return the operation that a call wants to spend on, and its domain; each "" when it cannot be read.

    A domain that is not asked for is told by what was `made` (U41).
    """
    body, briefs = sent_body(exchange), made.get("briefs")
    kind = str(body.get("kind")) if str(body.get("kind")) in JOBS else ""
    spend = kind if exchange.operation == "jobs.create" else SPENDS.get(exchange.operation, "")
    brief = briefs[0] if isinstance(briefs, list) and briefs and isinstance(briefs[0], dict) else {}
    domains = (source.get("domain_id") for source in (body, made, brief))
    return spend, next((domain for domain in domains if isinstance(domain, str)), "")


def subject_of(exchange: Observation) -> tuple[object, ...]:
    """Return what a call is about, dry or not, so that the same call can be recognised."""
    body = exchange.body if isinstance(exchange.body, dict) else {}
    rest = sorted((name, repr(value)) for name, value in body.items() if name != "dry_run")
    return exchange.operation, exchange.surface, exchange.key, tuple(rest)


NOT_STATED: Final = -1
"""The check of a dry run that does not say whether the call would be refused."""


@dataclass(slots=True)
class SpendCall(Interval):
    """A call that wanted to spend, decided in [low, high].

    `spend` is the label of the operation, "" when it cannot be read. `check` is the check that refused or
    would refuse, 0 when it is allowed. What may not have been done by this very call is not `sure`.
    """

    spend: str
    domain: str
    exchange: Observation
    check: int = 0
    sure: bool = True
    body: Mapping[str, Json] = field(init=False, repr=False, compare=False)
    """What was asked for; all that is judged of an account looks at it."""

    def __post_init__(self) -> None:
        self.body = sent_body(self.exchange)

    @property
    def made(self) -> Mapping[str, Json]:
        """What the reply says was made; empty when nothing was."""
        return {}


@dataclass(slots=True)
class SpendWork(SpendCall):
    """One thing that was done once in [low, high], or may have been: `sure` tells which.

    `calls` are the exchanges that returned it, or asked for it without being answered; `exchange` is the
    first. `id` is the id of what was made, "" when unknown.
    """

    calls: list[Observation] = field(default_factory=list)
    id: str = ""
    granted: bool = False
    created: int | None = None
    """How many things the reply lists as made; None where it lists none."""

    @property
    def made(self) -> Mapping[str, Json]:
        """What the reply says was made, if it was granted in words that can be read."""
        return thing_of(self.exchange) if self.granted else {}

    @property
    def answered_first(self) -> Observation:
        """The call that was answered before all others."""
        return min(self.calls, key=lambda exchange: exchange.received)


class RefusedSpend(SpendCall):
    """A live call that one of the six checks refused."""

    __slots__ = ()


@dataclass(slots=True)
class DryRunReport(SpendCall):
    """An answered dry run (S66). `failing` are the checks that its list shows to fail; None without one."""

    failing: tuple[int, ...] | None = None
    joins: str = ""
    names: tuple[str, ...] = ()
    """The checks that its list has, in its order."""


@dataclass(slots=True)
class JobLifetime:
    """What was observed of a job: when it was last alive, and by when it was done or failed."""

    alive: Micros = DISTANT_PAST
    done: Micros = DISTANT_FUTURE
    failed: Micros = DISTANT_FUTURE

    @property
    def over(self) -> Micros:
        """By when it surely was over."""
        return min(self.done, self.failed)

    def end(self, event: str, at: Micros) -> None:
        """Note that an end was observed, by the type of the event that reports it (S76)."""
        if event == "job.completed":
            self.done = min(self.done, at)
        elif event == "job.failed":
            self.failed = min(self.failed, at)

    def join(self, other: JobLifetime) -> None:
        """Note what else was observed of it."""
        self.alive = max(self.alive, other.alive)
        self.done, self.failed = min(self.done, other.done), min(self.failed, other.failed)


@dataclass
class AccountActivity:
    """What one account asked to spend, what came of it, and what was read of its books.

    `alone`: nobody else used the account, and every call was captured.
    """

    account: str
    environment: str
    alone: bool
    works: list[SpendWork] = field(default_factory=list)
    refusals: list[RefusedSpend] = field(default_factory=list)
    reports: list[DryRunReport] = field(default_factory=list)
    spend_calls: list[Observation] = field(default_factory=list)
    """All calls that wanted to spend, dry or not."""
    dry_runs: list[Observation] = field(default_factory=list)
    """All dry runs, answered or not."""
    meters: dict[str, list[MeterStatement]] = field(default_factory=lambda: defaultdict(list))
    cost: list[CostStatement] = field(default_factory=list)
    slots: list[SlotStatement] = field(default_factory=list)
    entitled: list[EntitlementStatement] = field(default_factory=list)
    health: list[StatusStatement] = field(default_factory=list)
    fates: dict[str, JobLifetime] = field(default_factory=lambda: defaultdict(JobLifetime))
    changes: list[Interval] = field(default_factory=list)
    """When other writes, which may touch slots, can have changed something."""
    removals: list[Observation] = field(default_factory=list)
    """Those of them that may free slots."""
    patches: list[Observation] = field(default_factory=list)
    """Those of them that change scans."""
    reads: list[Interval] = field(default_factory=list)
    """When each read that was answered was made."""
    brief_reads: list[Interval] = field(default_factory=list)
    """Those of them that read briefs."""
    refused_reads: list[Observation] = field(default_factory=list)
    """Reads that one of the six checks refused."""
    polls: list[Observation] = field(default_factory=list)
    """Reads of jobs that were answered."""
    domains: dict[str, Observation] = field(default_factory=dict)
    """The domains that the trace made, by id, with the call."""
    lists: dict[str, Observation] = field(default_factory=dict)
    """The keyword lists that it made, likewise."""
    begins: Micros = DISTANT_FUTURE
    """When the trace first saw the account."""
    others_ended: Micros = DISTANT_FUTURE
    """From when on a list shows that every job had ended which no call of the trace began."""
    bound: dict[str, str] = field(default_factory=dict)
    """The domain of each key that sees only one."""

    @property
    def about(self) -> str:
        """Name it in evidence."""
        return f"account {self.account}" + (
            "" if self.environment == "production" else f", {self.environment}"
        )

    def evidence(self, says: str, ids: tuple[str, ...], at: Micros, expected: str = "") -> Evidence:
        """Return evidence of these exchanges of its calls."""
        return Evidence(says, ids, about=self.about, at=at, expected=expected)

    @cached_property
    def changed(self) -> SpanSums:
        """When works and other writes can have changed its books, each as 1."""
        return SpanSums((change.low, change.high, 1) for change in (*self.works, *self.changes))

    @cached_property
    def refused_by(self) -> frozenset[tuple[str, int]]:
        """Each operation with each check that refused it, dry or not."""
        return frozenset((call.spend, call.check) for call in chain(self.refusals, self.reports))

    @cached_property
    def _under_way(self) -> SpanSums:
        jobs = [work for work in self.works if work.spend in JOBS or not work.spend]
        return SpanSums((job.low, self.fates.get(job.id, JobLifetime()).over, 1) for job in jobs)

    def jobs_run(self, low: Micros, high: Micros, own: int = 0) -> bool:
        """Return whether a job beside so many `own` may have been begun by `high` and not ended by `low`.

        While it is under way it may be settled or given back.
        """
        return low < self.others_ended or self._under_way.possibly(low, high) > own

    @cached_property
    def _granted(self) -> tuple[list[SpendWork], Micros]:
        """What was surely done, in order, and how long the longest call for it took."""
        works = sorted((work for work in self.works if work.sure and work.granted), key=lambda work: work.low)
        return works, max((work.high - work.low for work in works), default=0)

    def granted_beside(self, refused: SpendCall) -> list[SpendWork]:
        """Return what was done by calls that overlapped a refused one: either may have come first."""
        works, longest = self._granted
        begin = bisect_left(works, refused.low - longest, key=lambda work: work.low)
        end = bisect_right(works, refused.high, key=lambda work: work.low)
        return [work for work in works[begin:end] if work.high >= refused.low]


AT_ONCE = ", at once"
"""Behind the name of a case: of calls that overlapped."""


def check_applies(activity: AccountActivity, spend: str, check: int, options: Options) -> bool:
    """Return whether a check surely applies to an operation: its row has it, or it has refused it (U58).

    Where all checks apply, the ceiling may still not stop what buys nothing at once (U90).
    """
    if spend in ROWS and (check in ROWS[spend] or options.must_be("checks_apply", "all")):
        may_pass = check == Decision.COST_CAP_REACHED and spend in ADDS
        if not may_pass or not options.may_be("ceiling_stops_tracking", False):
            return True
    return (spend, check) in activity.refused_by
