"""The plan of a check: what is run, what it can decide and what not, how long it takes, what it uses up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ranksim.callers.discovery import Reach
from ranksim.check.lack import Lack
from ranksim.check.out_of_reach import lacking
from ranksim.check.tasks import CheckTask, tasks
from ranksim.clock import SECOND, Micros
from ranksim.conformance.verdict.verdicts import Rule
from ranksim.errors import BadInput

CLOSING = 30 * SECOND
"""Of the time given, what is kept for reading the state after, and removing what was created."""


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """What a check would do: its tasks, the rules that it is for, what holds others back, and its bounds."""

    reach: Reach
    tasks: tuple[CheckTask, ...]
    rules: tuple[str, ...]
    lacks: tuple[Lack, ...]
    time: Micros
    receiver: bool

    def held_back(self, rule: str) -> Lack | None:
        """Return what keeps a rule from being decided, or None."""
        return next((lack for lack in self.lacks if lack.covers(rule)), None)

    @property
    def decidable(self) -> list[str]:
        """The rules that nothing keeps from being decided."""
        return [rule for rule in self.rules if self.held_back(rule) is None]

    def too_long(self, task: CheckTask) -> bool:
        """Return whether going once through a task takes longer than the whole check may."""
        return task.needs.length > self.time - CLOSING

    @property
    def runs(self) -> list[CheckTask]:
        """The tasks that time allows, one by one."""
        return [task for task in self.tasks if not self.too_long(task)]


def make_plan(
    reach: Reach, known: Sequence[Rule], time: Micros, only: Sequence[str] = (), *, receiver: bool
) -> CheckPlan:
    """Plan a check of so long (µs) for the rules that `only` names, or all. Raises BadInput.

    `receiver` says that webhooks can be received.
    """
    rules = wanted_rules(known, only)
    serving = [task for task in tasks(reach) if any(task.serves(rule) for rule in rules)]
    if not receiver:
        serving = [task for task in serving if not task.profile.startswith("webhooks")]
    return CheckPlan(
        reach, tuple(serving), rules, tuple(lacking(reach, time, receiver=receiver)), time, receiver
    )


def wanted_rules(known: Sequence[Rule], only: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the rules that `only` names, or all; raises BadInput for a name of none."""
    names = tuple(rule.name for rule in known)
    if not only:
        return names
    for name in only:
        if not any(_named(rule, name) for rule in names):
            families = ", ".join(dict.fromkeys(rule.partition(".")[0] for rule in names))
            raise BadInput(
                f"--only: no rule is named {name!r}; expected rules as `ranksim compare --rules` lists them, "
                f"or families: {families}"
            )
    return tuple(rule for rule in names if any(_named(rule, name) for name in only))


def _named(rule: str, name: str) -> bool:
    return name in (rule, rule.partition(".")[0])
