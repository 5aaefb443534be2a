"""The plan of a check: what is run, what it can decide and what not, how long it takes, what it uses up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ranksim.core.clock import SECOND, Micros
from ranksim.core.errors import BadInput
from ranksim.judge.check.closing import Closing
from ranksim.judge.check.lack import Lack
from ranksim.judge.check.out_of_reach import lacking
from ranksim.judge.check.tasks import CheckTask, tasks
from ranksim.judge.conformance.compare import rules_named
from ranksim.judge.conformance.verdict.rule import Rule
from ranksim.judge.deployment.discovery import Reach
from ranksim.report import units


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
        left = self.time - self.read - Closing(self.time, self.read).length(0, 0)
        return max(0, left // SECOND * SECOND)

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
