"""Which task of a check to begin next, by what is still undecided."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction

from ranksim.check.plan import CheckPlan
from ranksim.check.tasks import CheckTask
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
    plan: CheckPlan,
    running: Collection[CheckTask],
    rounds: Mapping[str, int],
    undecided: Mapping[str, int],
    left: Micros,
) -> CheckTask | None:
    """Return the task to begin now beside those that run, or None.

    `rounds` says how often each was begun, `undecided` how many cases of each rule are open, and `left` is
    how much time there is (µs). Every task that time allows is begun once, since one case that held is thin
    evidence; the first is the one that decides most a second and a unit spent of what no running task is for.
    None is begun that would keep one waiting which comes before it. A task is begun again while it is for
    something undecided, unless it would keep one waiting that was not begun yet.
    """
    others = {
        rule: cases for rule, cases in undecided.items() if not any(one.serves(rule) for one in running)
    }

    def rank(task: CheckTask) -> tuple[Fraction, Fraction]:
        return worth(plan, task, others), worth(plan, task, undecided)

    able = [task for task in plan.tasks if task.needs.length <= left and task not in running]
    waiting = sorted((task for task in able if not rounds.get(task.name)), key=rank, reverse=True)
    again = [
        task
        for task in able
        if 0 < rounds.get(task.name, 0) < MOST_ROUNDS
        and gain(plan, task, undecided)
        and all(task.beside(other) for other in waiting)
    ]
    for candidates in (waiting, sorted(again, key=rank, reverse=True)):
        before: list[CheckTask] = []
        for task in candidates:
            if all(task.beside(other) for other in (*running, *before)):
                return task
            before.append(task)
    return None


def gain(plan: CheckPlan, task: CheckTask, undecided: Mapping[str, int]) -> int:
    """Return how many open cases a task is for, of rules that nothing holds back."""
    rules = [rule for rule in plan.rules if rule in undecided and task.serves(rule)]
    return sum(undecided[rule] for rule in rules if plan.held_back(rule) is None)


def worth(plan: CheckPlan, task: CheckTask, undecided: Mapping[str, int]) -> Fraction:
    """Return what a task may decide for each second that it takes and each job and brief that it spends."""
    needs = task.needs
    return Fraction(gain(plan, task, undecided), needs.length // SECOND + needs.jobs + needs.briefs + 1)
