"""The plan of a check: what is run, what it can decide and what not, how long it takes, what it uses up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ranksim.callers.budget import micros_of, spent_of
from ranksim.callers.discovery import KeyReach, Reach
from ranksim.check.out_of_reach import Lack, lacking
from ranksim.check.tasks import CheckTask, tasks
from ranksim.clock import SECOND, Micros
from ranksim.conformance.verdict.verdicts import Rule
from ranksim.errors import BadInput
from ranksim.report import units

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


# In words


def lines(plan: CheckPlan) -> list[str]:
    """Return the plan as lines of text."""
    reach, target = plan.reach, plan.reach.target
    decidable = plan.decidable
    said = [f"{_key(key)}" for key in reach.keys.values()]
    said.append(f"can decide {len(decidable)} of {units.many(len(plan.rules), 'rule')} with these keys")
    for lack in plan.lacks:
        held = [rule for rule in plan.rules if plan.held_back(rule) is lack]
        if held:
            said.append(f"  not {', '.join(held)}: {lack.why}; wants {lack.would}")
    said.append(f"takes at most {units.duration(plan.time)}: {', '.join(map(_length, plan.runs))}")
    for task in plan.tasks:
        if plan.too_long(task):
            said.append(
                f"  not {task.name}: going through takes {units.duration(task.needs.length)}, "
                f"and would want --time {units.duration(task.needs.length + CLOSING)}"
            )
    said += _spending(plan)
    if target.time_scale != 1 or target.traffic_scale != 1:
        said.append(
            f"time runs {target.time_scale} times as fast there, rate windows {target.traffic_scale} times"
        )
    return said


def _key(key: KeyReach) -> str:
    whose = f" of {key.account}" if key.account else ""
    if not key.usable:
        return f"key {key.name}: not usable ({key.reason})"
    return f"key {key.name}: {key.purpose.replace('_', ' ')}{whose}, {key.environment}"


def _length(task: CheckTask) -> str:
    return f"{task.name} {units.duration(task.needs.length)}"


def _spending(plan: CheckPlan) -> list[str]:
    """Return the most that a check uses up, and what is left of it."""
    target, runs = plan.reach.target, plan.runs
    if target.dry_run_only:
        return ["spends nothing: dry runs only"]
    jobs, briefs, slots = (
        sum(getattr(task.needs, name) * task.laps for task in runs) for name in ("jobs", "briefs", "slots")
    )
    left = _left(plan.reach)
    amounts = [
        f"{units.count(number)} {what}"
        for number, what in ((jobs, "jobs"), (briefs, "keyword briefs"), (slots, "slots"))
        if number
    ]
    if not amounts:
        return ["spends nothing"]
    said = [f"uses up at most {', '.join(amounts)}; slots stay held to the month's end"]
    cap = (
        "no --spend-cap bounds it"
        if target.spend_cap is None
        else f"stops spending at {units.usd(target.spend_cap)}"
    )
    ceilings = "" if left is None else f", the ceilings of these accounts at {units.usd(left)} more"
    said.append(f"money: {cap}{ceilings}; what a job costs is not stated before it has run")
    return said


def _left(reach: Reach) -> int | None:
    """Return the µUSD that are left under the cost ceilings of all accounts, None where one does not say."""
    left: dict[str, int | None] = {}
    for key in reach.usable():
        usage = key.reads.get("account.usage")
        cost = usage.get("cost") if isinstance(usage, dict) else None
        if isinstance(cost, dict) and key.account:
            spent, ceiling = spent_of(cost), micros_of(cost.get("ceiling"))
            left[key.account] = None if spent is None or ceiling is None else max(0, ceiling - spent)
    values = list(left.values())
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
