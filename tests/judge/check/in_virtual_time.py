"""A check in virtual time: its tasks against a service, begun, judged and begun again as over sockets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Generator
from dataclasses import dataclass, field
from typing import Any

from ranksim.bridges.predicting import through
from ranksim.bridges.rehearsal import USUAL, Rehearsal
from ranksim.core.callers.network import Network
from ranksim.core.callers.steps import Pause, Program, Spawn
from ranksim.core.callers.target import Target
from ranksim.core.clock import MINUTE, SECOND, Micros
from ranksim.core.service.service import Service
from ranksim.core.trace import Trace
from ranksim.judge.check.choice import Rounds
from ranksim.judge.check.pacing import Pacer, paced
from ranksim.judge.check.plan import CLOSING, CheckPlan, make_plan
from ranksim.judge.check.ration import Ration, rationed
from ranksim.judge.check.tasks import CheckTask
from ranksim.judge.conformance.compare import RULES, compare
from ranksim.judge.deployment.budget import Budget, account_named, guarded
from ranksim.judge.deployment.cleanup import resolve_lost
from ranksim.judge.deployment.discovery import Reach, explore, state
from ranksim.judge.deployment.ownership import Ownership, kept
from ranksim.judge.deployment.reading_pace import ReadingPace, reading
from ranksim.judge.profiles.windows import window_of


@dataclass
class Checked:
    """What came of it: the plan, when each task first began and ended (µs from the start), and the trace.

    `begun` says how often each was begun, and `judged` how often what was recorded by then was judged.
    """

    plan: CheckPlan
    begun: Counter[str] = field(default_factory=Counter)
    judged: int = 0
    began: dict[str, Micros] = field(default_factory=dict)
    ended: dict[str, Micros] = field(default_factory=dict)
    together: list[frozenset[str]] = field(default_factory=list)
    trace: Trace = field(default_factory=Trace)
    budget: Budget = field(default_factory=Budget)
    ownership: Ownership | None = None


def check(
    service: Service,
    target: Target,
    time: Micros,
    *,
    seed: int = 0,
    only: tuple[str, ...] = (),
    network: Network = USUAL,
) -> Checked:
    """Run a check against a service."""
    return check_in(Rehearsal(service, target, network, seed), time, seed=seed, only=only)


def check_in(
    rehearsal: Rehearsal, time: Micros, *, seed: int = 0, only: tuple[str, ...] = (), again: bool = True
) -> Checked:
    """Run a check in a rehearsal; not `again`, without the rounds that come of what was judged meanwhile."""
    target = rehearsal.target
    pace = ReadingPace(target, target.limit_share) if target.read_only else None

    def permitted(program: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        return program if pace is None else reading(program, pace)

    reach: Reach = rehearsal.alone(permitted(explore(target)))
    rehearsal.alone(permitted(state(reach)))
    checked = Checked(make_plan(reach, RULES, time, only, receiver=True))
    checked.budget = Budget(target.spend_cap, target.dry_run_only)
    checked.budget.accounts = {
        key.name: account_named(key.environment, key.account) for key in reach.keys.values()
    }
    checked.ownership = Ownership.of(reach)
    start = rehearsal.now
    supervising = _supervised(checked, reach, rehearsal, start, seed, again, permitted)
    rehearsal.together([supervising], start + time - CLOSING)
    rehearsal.alone(guarded(resolve_lost(reach, rehearsal.unknown), checked.budget))
    if pace is None:
        rehearsal.alone(state(reach))
    checked.trace = rehearsal.finish(reach)
    return checked


def _supervised(
    checked: Checked,
    reach: Reach,
    rehearsal: Rehearsal,
    start: Micros,
    seed: int,
    again: bool,
    permitted: Callable[[Program], Program],
) -> Program:
    rounds, pacer = Rounds.of(checked.plan), Pacer(window_of(reach))
    ration = Ration.of(reach, checked.plan.tasks)
    checked.begun = rounds.begun
    programs: Counter[int] = Counter()
    ownership = checked.ownership
    assert ownership is not None
    stopped: set[int] = set()
    judged = changed = looked = start

    def ended(number: int) -> None:
        nonlocal changed
        programs[number] -= 1
        if not programs[number]:
            task = rounds.ended(number)
            ration.ended(task.name)
            checked.ended.setdefault(task.name, rehearsal.now - start)
            changed = rehearsal.now

    while True:
        anew = changed >= looked or rehearsal.now - looked >= LOOKED_EVERY
        looked = rehearsal.now if anew else looked
        left = start + checked.plan.time - CLOSING - rehearsal.now
        while anew and (task := rounds.next(left)) is not None:
            number = rounds.number
            programs[number] = len(task.users)
            checked.began.setdefault(task.name, rehearsal.now - start)
            checked.together.append(frozenset(one.name for one in rounds.running.values()))
            for program in task.programs(reach, seed + number):
                steps = rationed(paced(program, pacer, waits=task.waits), ration, task.name)
                steps = kept(steps, ownership)
                steps = permitted(guarded(steps, checked.budget))
                yield Spawn(_once(steps, task, number, stopped, ended))
        if not rounds.running and not rounds.later(left):  # what was not begun has no time left
            return
        yield Pause(SECOND)
        if again and changed > judged and rehearsal.now - judged >= JUDGED_EVERY:
            judged, checked.judged = rehearsal.now, checked.judged + 1
            changed = judged
            rounds.judged(compare(rehearsal.so_far(reach)).findings)
            stopped.update(rounds.needless())


LOOKED_EVERY = 10 * SECOND
"""Between two looks at which task is next, where none has ended meanwhile: each takes a while."""

JUDGED_EVERY = 2 * MINUTE
"""Between two judgements, where a task has ended meanwhile."""


def _once(
    program: Generator[Any, Any, Any],
    task: CheckTask,
    number: int,
    stopped: Container[int],
    ended: Callable[[int], None],
) -> Program:
    """Run a program until it has been through as often as its task says, or that is stopped."""
    yield from through(program, task.laps, lambda: number in stopped)
    ended(number)
