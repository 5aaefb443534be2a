"""Which task of a check to begin next, by what is still undecided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache

from ranksim.core.clock import MINUTE, SECOND, Micros
from ranksim.judge.check.plan import CheckPlan
from ranksim.judge.check.tasks import CheckTask, Stage, served
from ranksim.judge.conformance.verdict.verdicts import Finding, Verdict

MOST_ROUNDS = 3
"""How often a task is begun: what three rounds left open, a fourth hardly decides."""

EACH = 3 * SECOND
"""What an expensive call takes where all tasks share the 20 of a minute (S104)."""

FEW_KEYS = 3
"""So many keys have such calls enough for all; fewer do not."""

CROWD = 2
"""Tasks that spend with one key at a time: of more than these none comes to its end."""

HURRY = MINUTE
"""What is left beyond their lengths when tasks of the last stages begin, whatever runs beside them."""

PART = 3
"""The part of the time that such a task may take."""


def open_cases(findings: Collection[Finding]) -> dict[str, int]:
    """Return how many cases of each rule are undecided; none of a rule that deviates, which is decided."""
    return {
        finding.rule.name: max(len(finding.left), int(finding.verdict != Verdict.CONFORMS))
        for finding in findings
        if finding.verdict != Verdict.DEVIATES and (finding.left or finding.verdict != Verdict.CONFORMS)
    }


@dataclass(slots=True)
class Rounds:
    """Which tasks run, how often each was begun, and which comes next, by what is still undecided.

    `undecided` says how many cases of each rule are open; tasks come `again` once that was judged. A check
    against sockets and one in virtual time both go by it.
    """

    plan: CheckPlan
    undecided: Mapping[str, int]
    again: bool = False
    running: dict[int, CheckTask] = field(default_factory=dict)
    begun: Counter[str] = field(default_factory=Counter)
    number: int = 0

    @classmethod
    def of(cls, plan: CheckPlan) -> Rounds:
        """Return those of a plan of which nothing is decided as yet."""
        return cls(plan, dict.fromkeys(plan.rules, 1))

    def next(self, left: Micros) -> CheckTask | None:
        """Begin the task whose turn it is beside those that run, and return it; `number` is its number.

        None where none fits beside them, or into the time that is left (µs).
        """
        running = list(self.running.values())
        task = choose(self.plan, running, self.begun, self.undecided, left, again=self.again)
        if task is not None:
            self.number += 1
            self.running[self.number] = task
            self.begun[task.name] += 1
        return task

    def later(self, left: Micros) -> bool:
        """Return whether a task that was not begun waits only for its instant; `left` is in µs."""
        past = self.plan.for_calls - left
        return any(
            task.after > past
            and not self.begun[task.name]
            and max(task.needs.length, task.left) <= self.plan.for_calls - task.after
            for task in self.plan.tasks
        )

    def ended(self, number: int) -> CheckTask:
        """Note that a task has ended, and return it."""
        return self.running.pop(number)

    def judged(self, findings: Collection[Finding]) -> None:
        """Take in what is decided by now."""
        self.undecided, self.again = open_cases(findings), True

    def needless(self) -> list[int]:
        """Return which of those that run are there again, for nothing that is undecided any more."""
        return [
            number
            for number, task in self.running.items()
            if self.begun[task.name] > 1 and not gain_in_cases(self.plan, task, self.undecided)
        ]


def choose(
    plan: CheckPlan,
    running: Collection[CheckTask],
    rounds: Mapping[str, int],
    undecided: Mapping[str, int],
    left: Micros,
    *,
    again: bool = True,
) -> CheckTask | None:
    """Return the task to begin now beside those that run, or None.

    `rounds` says how often each was begun, `undecided` how many cases of each rule are open, and `left` is
    how much time there is (µs). Every task that time allows is begun once, since one case that held is thin
    evidence, in the order of the plan, which is that of what matters. What wants a key alone or an account
    quiet keeps those from it that come after it: later, something would always be under way there. A task is
    begun `again` while it is for something undecided, the one first that decides most a second and a unit
    spent of what no running task is for, unless it would slow down one that runs for the first time and calls
    with its keys, or keep one waiting that was not begun yet.
    """
    past = max(0, plan.for_calls - left)
    able = [task for task in plan.tasks if max(task.needs.length, task.left) <= left]
    able = [task for task in able if task.after <= past and task not in running]
    new = [task for task in able if not rounds.get(task.name)]
    waiting = _in_stage(new)
    first = _hurried(plan, new, running, left) or _fitting(plan, waiting, running)
    if first is not None or not again:
        return first
    others = _unserved(undecided, running)

    def rank(task: CheckTask) -> tuple[Fraction, Fraction]:
        return worth(plan, task, others), worth(plan, task, undecided)

    fresh = [other for other in running if rounds.get(other.name, 0) <= 1]
    begun = [task for task in able if 0 < rounds.get(task.name, 0) < MOST_ROUNDS]
    repeated = (
        task for task in begun if gain_in_cases(plan, task, undecided) and _repeats(task, waiting, fresh)
    )
    return _fitting(plan, sorted(repeated, key=rank, reverse=True), running)


def _hurried(
    plan: CheckPlan, new: Collection[CheckTask], running: Collection[CheckTask], left: Micros
) -> CheckTask | None:
    """Return what uses up slots, briefs or money, where there is just the time for it, else None.

    It waits for what wants its account quiet. What takes more than a third of the time comes in its turn.
    """
    using_up = [
        task for task in new if task.stage >= Stage.LAST and PART * task.needs.length <= plan.for_calls
    ]
    if left >= sum(task.needs.length for task in using_up) + HURRY:
        return None
    quiet = {account for other in running for account in other.quiet}
    return next((task for task in using_up if not task.spends & quiet), None)


def _unserved(undecided: Mapping[str, int], running: Collection[CheckTask]) -> dict[str, int]:
    """Return the open cases of the rules that no running task is for."""
    rules = tuple(undecided)
    others = {rule for task in running for rule in served(task.profile, rules)}
    return {rule: cases for rule, cases in undecided.items() if rule not in others}


def _repeats(task: CheckTask, waiting: Collection[CheckTask], fresh: Collection[CheckTask]) -> bool:
    """Return whether a task can be begun again without slowing or holding up one that had no turn yet."""
    return task.beside_all(waiting) and not any(task.uses & other.uses for other in fresh)


def _fitting(
    plan: CheckPlan, candidates: Iterable[CheckTask], running: Collection[CheckTask]
) -> CheckTask | None:
    """Return the first that can go beside those that run, and beside what must come before it."""
    kept = list(running)
    for task in candidates:
        if task.beside_all(kept) and not _is_crowded(plan, task, running):
            return task
        if task.alone or task.quiet:
            kept.append(task)
    return None


def _is_crowded(plan: CheckPlan, task: CheckTask, running: Collection[CheckTask]) -> bool:
    """Return whether as many tasks as go together well spend with the few keys that there are."""
    beside = [other for other in running if other.spends and other.uses & task.uses]
    return _has_few_keys(plan) and bool(task.spends) and task.waits and len(beside) >= CROWD


def _in_stage(new: Collection[CheckTask]) -> list[CheckTask]:
    """Return the tasks before which none of an earlier stage that spends on the same account has its turn."""
    return [
        task
        for task in new
        if not any(other.stage < task.stage and other.spends & task.spends for other in new)
    ]


def turns(plan: CheckPlan, time: Micros) -> dict[str, tuple[Micros, Micros]]:
    """Return when each task that has the time would begin and end (µs), if all take what they say."""
    rounds, now = Rounds.of(plan), 0
    begun: dict[str, tuple[Micros, Micros]] = {}
    ends: dict[int, Micros] = {}
    while True:
        while (task := rounds.next(time - now)) is not None:
            ends[rounds.number] = now + task.needs.times(task.laps).length
            begun.setdefault(task.name, (now, ends[rounds.number]))
        instants = [ends[number] for number in rounds.running]
        if rounds.later(time - now):
            instants += [task.after for task in plan.tasks if task.after > now]
        if not instants:
            return begun
        now = min(instants)
        for number in [number for number in rounds.running if ends[number] <= now]:
            rounds.ended(number)


def times_for(plan: CheckPlan, tasks: Collection[CheckTask]) -> dict[str, Micros]:
    """Return in how many whole minutes (µs) each task would get a turn, if all take what they say."""

    @cache
    def having_turns(minutes: int) -> Collection[str]:
        longer = replace(plan, time=minutes * MINUTE)
        return turns(longer, longer.for_calls)

    least = -(-plan.time // MINUTE)
    times = {}
    for task in tasks:
        short, long = least - 1, least
        while task.name not in having_turns(long):
            short, long = long, 2 * long
        while long - short > 1:
            middle = (short + long) // 2
            short, long = (short, middle) if task.name in having_turns(middle) else (middle, long)
        times[task.name] = long * MINUTE
    return times


def _has_few_keys(plan: CheckPlan) -> bool:
    return len(plan.reach.keys) < FEW_KEYS


def rounds_in(task: CheckTask, time: Micros) -> int:
    """Return how often a task can be begun in so much time (µs), at most."""
    return min(MOST_ROUNDS, time // max(1, task.needs.length))


def gain_in_cases(plan: CheckPlan, task: CheckTask, undecided: Mapping[str, int]) -> int:
    """Return how many open cases a task is for, of rules that are sought."""
    rules = [rule for rule in served(task.profile, plan.rules) if rule in undecided]
    return sum(undecided[rule] for rule in rules if plan.sought(rule))


def worth(plan: CheckPlan, task: CheckTask, undecided: Mapping[str, int]) -> Fraction:
    """Return what a task may decide for each second that it takes and each job and brief that it spends."""
    needs = task.needs
    paced = needs.expensive * EACH if _has_few_keys(plan) else 0
    seconds = max(needs.length, paced) // SECOND
    return Fraction(gain_in_cases(plan, task, undecided), seconds + needs.jobs + needs.briefs + 1)
