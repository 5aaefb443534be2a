"""The plan of a check: what is run, what it can decide and what not, and how its time is divided.

What is kept of the time for the end follows from what the same things took before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ranksim.core.clock import SECOND, Micros
from ranksim.core.errors import BadInput
from ranksim.judge.check.prerequisites import Lack, lacking
from ranksim.judge.check.tasks import READING, CheckTask, tasks
from ranksim.judge.conformance.compare import rules_named
from ranksim.judge.conformance.verdict.rule import Rule
from ranksim.judge.deployment.discovery import Reach
from ranksim.report import units

CLOSING: Micros = 30 * SECOND
"""Of the time given, what is kept at least for reading the state after, and removing what was created."""

SHORT = 4
"""The part of a short time that is kept at least: a quarter, of less than two minutes."""

STOPPING: Micros = 5 * SECOND
"""What calls under way take to end, mostly."""

JUDGEMENTS = 2
"""How many times as long as it took before judging may take; the trace is written in this time, too."""

REPORTS = 3
"""How many times as long as judging the page and the policy may take: one for the page, the rest for options
that are tried for the policy, as many as there is time for."""

MODELS = 2
"""How many times as long as judging it may take to fit a twin and let it get the same tasks."""


@dataclass(slots=True)
class Closing:
    """What the end of a check of `time` takes, all in µs; exploring and reading the state before took `read`.

    All that is written after the last judgement takes `reports` times as long as it.
    What a call costs to judge is known from the last judgement: it is that of this machine, as busy as it is.
    """

    time: Micros
    read: Micros = 0
    reports: int = REPORTS
    _per_call: Micros = 0
    _first_report: Micros = 0

    @property
    def least(self) -> Micros:
        """What is kept at least."""
        return min(CLOSING, self.time // SHORT)

    def judged(self, calls: int, took: Micros) -> None:
        """Note what judging so many calls took."""
        self._per_call = -(-took // max(1, calls))

    def reported(self, took: Micros) -> None:
        """Note what it took to make the reports of little, which is what any take at least."""
        self._first_report = took

    def judging(self, calls: int) -> Micros:
        """Return what judging so many calls takes."""
        return calls * self._per_call

    def reporting(self, calls: int) -> Micros:
        """Return what is kept for all that comes after the last judgement."""
        return min(self._first_report + self.reports * self.judging(calls), self.time // 4)

    def after_reading(self, calls: int, removing: Micros) -> Micros:
        """Return what is kept from the moment on at which the state after is read.

        For so long the process that makes the calls removes meanwhile what was created.
        """
        beside = max(JUDGEMENTS * self.judging(calls), removing)
        return min(max(self.least // 2, beside + self.reporting(calls)), self.time // 2)

    def length(self, calls: int, removing: Micros) -> Micros:
        """Return what is kept for the end in all: half of the time, at most."""
        reading = STOPPING + self.read
        return min(max(self.least, reading + self.after_reading(calls, removing)), self.time // 2)


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """What a check would do: its tasks, the rules that it is for, what holds others back, and its bounds.

    Of its `time`, exploring and reading the state before took `read` (µs).
    """

    reach: Reach
    tasks: tuple[CheckTask, ...]
    rules: tuple[str, ...]
    lacks: tuple[Lack, ...]
    time: Micros
    receiver: bool
    read: Micros = 0

    @property
    def for_calls(self) -> Micros:
        """How much of the time is left for tasks (µs), in whole seconds: it takes a moment to begin them."""
        left = self.time - self.read - self.closing().length(0, 0)
        return max(0, left // SECOND * SECOND)

    def closing(self, reports: int = REPORTS) -> Closing:
        """Return what its end takes; the state after is not read where it was only read."""
        return Closing(self.time, 0 if self.reach.target.read_only else self.read, reports)

    def held_back(self, rule: str) -> Lack | None:
        """Return what keeps a rule from being decided, or None."""
        return next((lack for lack in self.lacks if lack.covers(rule)), None)

    def sought(self, rule: str) -> bool:
        """Return whether tasks are begun for a rule."""
        return all(lack.sought for lack in self.lacks if lack.covers(rule))

    @property
    def decidable(self) -> list[str]:
        """The rules that nothing keeps from being decided."""
        return [rule for rule in self.rules if self.held_back(rule) is None]

    def too_long(self, task: CheckTask) -> bool:
        """Return whether going once through a task takes longer than the whole check may."""
        return task.needs.length > self.for_calls

    @property
    def runs(self) -> list[CheckTask]:
        """The tasks that time allows, one by one."""
        return [task for task in self.tasks if not self.too_long(task)]


def make_plan(
    reach: Reach,
    declared: Sequence[Rule],
    time: Micros,
    only: Sequence[str] = (),
    *,
    receiver: bool,
    read: Micros = 0,
) -> CheckPlan:
    """Plan a check of so long (µs) for the rules that `only` names, or all. Raises BadInput.

    `receiver` says that webhooks can be received, and `read` how long reading took by now (µs).
    """
    rules = wanted_rules(declared, only)
    serving = [task for task in tasks(reach) if any(task.serves(rule) for rule in rules)]
    if not receiver:
        serving = [task for task in serving if not task.profile.startswith("webhooks")]
    plan = CheckPlan(
        reach, tuple(serving), rules, tuple(lacking(reach, time, receiver=receiver)), time, receiver, read
    )
    if not reach.target.dry_run_only:
        return plan
    if reach.target.read_only:
        serving = [task for task in serving if task.profile in READING]
    fit = [task for task in serving if any(map(task.serves, plan.decidable))]  # most others want things made
    return replace(plan, tasks=tuple(fit))


def check_runs(plan: CheckPlan) -> None:
    """Raise BadInput where a plan has no task that time allows."""
    if not plan.runs:
        raise BadInput(
            f"--time: expected more than {units.duration(plan.time)}, of which reading and the end leave "
            f"{units.duration(plan.for_calls)} for tasks; the plan says what each takes"
        )


def wanted_rules(declared: Sequence[Rule], only: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the rules that `only` names, or all; raises BadInput for a name of none."""
    wanted = {rule for name in only for rule in rules_named("--only", name)}
    return tuple(rule.name for rule in declared if not only or rule.name in wanted)
