"""A check in virtual time: its tasks against the rulebook, begun by the same choice, judged at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from ranksim.callers.budget import Budget, guarded
from ranksim.callers.discovery import Reach, explore, state
from ranksim.callers.lost_calls import resolve_lost
from ranksim.callers.network import Network
from ranksim.callers.profiles.probing import window_of
from ranksim.callers.steps import Lap, Pause, Program, Spawn
from ranksim.callers.target import Target
from ranksim.check.choice import choose
from ranksim.check.pacing import Pacer, paced
from ranksim.check.plan import CLOSING, CheckPlan, make_plan
from ranksim.check.tasks import CheckTask
from ranksim.clock import SECOND, Micros
from ranksim.conformance.compare import RULES
from ranksim.sim.rehearsal import USUAL, Rehearsal, RehearsedService
from ranksim.trace import Trace


@dataclass
class Checked:
    """What came of it: the plan, when each task began and ended (µs after the first), and the trace."""

    plan: CheckPlan
    began: dict[str, Micros] = field(default_factory=dict)
    ended: dict[str, Micros] = field(default_factory=dict)
    together: list[frozenset[str]] = field(default_factory=list)
    trace: Trace = field(default_factory=Trace)
    budget: Budget = field(default_factory=Budget)


def check(
    service: RehearsedService,
    target: Target,
    time: Micros,
    *,
    seed: int = 0,
    only: tuple[str, ...] = (),
    network: Network = USUAL,
) -> Checked:
    """Run the first round of every task that the plan has time for, against a service."""
    return check_in(Rehearsal(service, target, network, seed), time, seed=seed, only=only)


def check_in(rehearsal: Rehearsal, time: Micros, *, seed: int = 0, only: tuple[str, ...] = ()) -> Checked:
    """Run the first round of every task that the plan has time for, in a rehearsal."""
    target = rehearsal.target
    reach: Reach = rehearsal.alone(explore(target))
    rehearsal.alone(state(reach))
    checked = Checked(make_plan(reach, RULES, time, only, receiver=True))
    checked.budget = Budget(target.spend_cap, target.dry_run_only)
    checked.budget.accounts = {key.name: key.account for key in reach.keys.values()}
    start = rehearsal.now
    supervising = _supervised(checked, reach, rehearsal, start, seed)
    rehearsal.together([supervising], start + time - CLOSING)
    rehearsal.alone(guarded(resolve_lost(reach, rehearsal.unknown), checked.budget))
    rehearsal.alone(state(reach))
    checked.trace = rehearsal.finish(reach)
    return checked


def _supervised(checked: Checked, reach: Reach, rehearsal: Rehearsal, start: Micros, seed: int) -> Program:
    running: dict[str, CheckTask] = {}
    programs: Counter[str] = Counter()
    pacer = Pacer(window_of(reach))
    rounds: Counter[str] = Counter()
    undecided = dict.fromkeys(checked.plan.rules, 1)
    looked: frozenset[str] | None = None

    def ended(task: CheckTask) -> None:
        programs[task.name] -= 1
        if not programs[task.name]:
            del running[task.name]
            checked.ended[task.name] = rehearsal.now - start

    while True:
        if looked == frozenset(running) and running:  # nothing ended, so nothing can begin
            yield Pause(SECOND)
            continue
        left = start + checked.plan.time - CLOSING - rehearsal.now
        task = choose(checked.plan, list(running.values()), rounds, undecided, left)
        if task is not None and not rounds[task.name]:
            rounds[task.name] += 1
            running[task.name] = task
            programs[task.name] = len(task.users)
            checked.began[task.name] = rehearsal.now - start
            checked.together.append(frozenset(running))
            for program in task.programs(reach, seed + len(checked.began)):
                steps: Generator[Any, Any, Any] = guarded(program, checked.budget)
                steps = paced(steps, pacer, waits=task.waits)
                yield Spawn(_once(steps, task, ended))
        elif not running:  # what was not begun has no time left
            return
        else:
            looked = frozenset(running)


def _once(program: Generator[Any, Any, Any], task: CheckTask, ended: Any) -> Program:
    """Run a program until it has been through as often as its task says."""
    answer, laps = None, 0
    while True:
        try:
            step = program.send(answer)
        except StopIteration:
            break
        laps += isinstance(step, Lap)
        if laps >= task.laps:
            break
        answer = yield step
    ended(task)
