"""Which task of a check to begin next, by what is still undecided."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction

from ranksim.check.plan import Plan
from ranksim.check.tasks import Task
from ranksim.clock import SECOND, Micros
from ranksim.conformance.verdict.verdicts import Finding, Verdict

MOST_ROUNDS = 3
"""How often a task is begun: what three rounds left open, a fourth hardly decides."""


def open_cases(findings: Collection[Finding]) -> dict[str, int]:
    """Return how many cases of each rule are undecided; none of a rule that deviates, which is decided."""
    return {
        finding.rule.name: max(len(finding.left), int(finding.verdict != Verdict.CONFORMS))
        for finding in findings
        if finding.verdict != Verdict.DEVIATES and (finding.left or finding.verdict != Verdict.CONFORMS)
    }


def choose(
    plan: Plan,
    running: Collection[Task],
    rounds: Mapping[str, int],
    undecided: Mapping[str, int],
    left: Micros,
) -> Task | None:
    """Return the task to begin now beside those that run, or None.

    `rounds` says how often each was begun, `undecided` how many cases of each rule are open, and `left` is
    how much time there is (µs). Every task that time allows is begun once, since one case that held is thin
    evidence; the first is the one that decides most a second and a unit spent. A task is begun again while
    it is for something undecided, unless it would keep one waiting that was not begun yet.
    """
    able = [task for task in plan.tasks if task.needs.length <= left and task not in running]
    waiting = [task for task in able if not rounds.get(task.name)]
    again = [
        task
        for task in able
        if 0 < rounds.get(task.name, 0) < MOST_ROUNDS
        and gain(plan, task, undecided)
        and all(task.beside(other) for other in waiting)
    ]
    for candidates in (waiting, again):
        fitting = [task for task in candidates if all(task.beside(other) for other in running)]
        if fitting:
            return max(fitting, key=lambda task: worth(plan, task, undecided))
    return None


def gain(plan: Plan, task: Task, undecided: Mapping[str, int]) -> int:
    """Return how many open cases a task is for, of rules that nothing holds back."""
    rules = [rule for rule in plan.rules if rule in undecided and task.serves(rule)]
    return sum(undecided[rule] for rule in rules if plan.held_back(rule) is None)


def worth(plan: Plan, task: Task, undecided: Mapping[str, int]) -> Fraction:
    """Return what a task may decide for each second that it takes and each job and brief that it spends."""
    needs = task.needs
    return Fraction(gain(plan, task, undecided), needs.length // SECOND + needs.jobs + needs.briefs + 1)
