"""How many workers a scenario needs: its own jobs, as its world starts them, on its pools (see `workers`).

What a scenario starts does not hang on how many workers there are, but for this: while a job waits, a further
start of its kind joins it. So the world runs once for each replication, with workers without limit, and the
jobs that it started are put before pools of every size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ranksim.core.clock import MINUTE, Micros, iso
from ranksim.core.contract.parameters import Settings
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import StartJob, Step
from ranksim.planner.capacity.common import expect
from ranksim.planner.capacity.queueing import MANY, Arrivals
from ranksim.planner.capacity.workers import JobDemand, WorkersNeeded, staffings, wanted_wait
from ranksim.report import units
from ranksim.report.progress import Tell, noted
from ranksim.report.readings import under_readings
from ranksim.twin.sim.runner import replication_seed
from ranksim.twin.sim.scenario import Scenario, scenario_of
from ranksim.twin.sim.scenario_fields import scenario_notes
from ranksim.twin.sim.timeline import Action, ResizePool, Set, counted_actions
from ranksim.twin.sim.world import World, spec_of

Jobs = dict[str, list[tuple[Micros, StartJob]]]
"""By kind the jobs that a run started, and when each was queued (µs)."""


class _Recorder(World):
    """A world that keeps which jobs it started, by kind, and when."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.queued: Jobs = {}
        super().__init__(scenario, seed=seed)

    def follow(self, step: Step) -> None:
        for task in step.tasks:
            if isinstance(task, StartJob):
                self.queued.setdefault(task.kind, []).append((self.now, task))
        super().follow(step)


def _jobs_of(run: Mapping[str, Arrivals], kind: str) -> Arrivals:
    return run.get(kind, [])


def _recorded(scenario: Scenario, seed: int) -> _Recorder:
    """Run a scenario with workers without limit. Raises BadInput."""
    pools: dict[str, Any] = {kind: {"capacity": "unlimited"} for kind in scenario.pools}
    rest = tuple(action for action in scenario.timeline if not _of_pools(action))
    roomy = scenario.replace(pools=pools).model_copy(update={"timeline": rest})
    world = _Recorder(roomy, seed)
    world.run()
    return world


def _of_pools(action: Action) -> bool:
    """Return whether an action of the timeline changes a pool."""
    return isinstance(action, ResizePool) or (
        isinstance(action, Set) and action.path.startswith("scenario.pools")
    )


def _of_durations(action: Action) -> bool:
    """Return whether an action sets how long jobs take where a pool does not say it."""
    return isinstance(action, Set) and action.path.startswith("policy.catalogue.job_durations")


def workers_of_scenario(
    scenario: Scenario | str | Path,
    *,
    within: Micros | str = 5 * MINUTE,
    target: float = 0.95,
    replications: int = 20,
    seed: int = 1,
    assumptions: bool = False,
    progress: Tell | None = None,
    settings: Settings = MappingProxyType({}),
) -> WorkersNeeded:
    """Find the smallest pool for each kind of job that a scenario, or that of a file, starts.

    A share `target` of its jobs starts within `within` (µs, or text: "5m") on a pool with the durations,
    discipline and queue of the scenario's. So many `replications` are simulated, one where nothing is drawn.
    With `assumptions` the answer's `readings` are what other assumptions would make of it, a run for each.
    `progress` is told how far it is; without it a notebook shows that. `settings` are parameters by path, as
    of `Scenario.changed`. Raises BadInput, where no job is started too.
    """
    scenario = scenario_of(scenario, settings)
    within = wanted_wait(within, target)
    expect(replications >= 2, "replications", "2 or more for the jobs of a scenario", replications)
    note = (
        f"Taken are the jobs that {scenario.name} starts in {units.duration(scenario.length)} "
        f"from {iso(scenario.start)}, of all its accounts, and how long its pools say that they take. "
        "The share is that of all these jobs together, not of each night's. A job waits from when it is "
        "queued on, so after what the rate limit puts off."
    )
    notes = (*scenario_notes(scenario), note)
    if left_out := [each for each in scenario.timeline if _of_pools(each) or _of_durations(each)]:
        notes += (f"Left out is what the timeline changes of pools: {counted_actions(left_out)}.",)
    seeds = [replication_seed(seed, index) for index in range(replications)]
    answers: list[tuple[Sequence[Jobs], WorkersNeeded]] = []
    with noted("simulating", progress) as tell:

        def ask(policy: Policy) -> tuple[WorkersNeeded, set[str]]:
            under = scenario.model_copy(update={"policy": policy})
            runs, consulted = _runs(under, seeds)
            # Where a reading starts the same jobs at the same instants, the answer is the same.
            answer = next((answer for jobs, answer in answers if jobs == runs), None)
            if answer is None:
                demands = list(_demands(under, runs, seeds))
                answer = WorkersNeeded(staffings(demands, within, target, tell), notes)
                answers.append((runs, answer))
            return answer, consulted

        if assumptions:
            answer, readings = under_readings(ask, scenario.policy, lambda answer: answer.verdict)
            answer = replace(answer, readings=readings)
        else:
            answer, _ = ask(scenario.policy)
    if not answer.kinds:
        raise BadInput(f"{scenario.name}: no client of it starts a job; say with --jobs which come together")
    return answer


def _runs(scenario: Scenario, seeds: Sequence[int]) -> tuple[list[Jobs], set[str]]:
    """Return the jobs of runs of these seeds, and the fields of the policy that the service read."""
    worlds = [_recorded(scenario, drawn_seed) for drawn_seed in seeds[:2]]
    first, second = (world.queued for world in worlds)
    if first != second:
        worlds += [_recorded(scenario, drawn_seed) for drawn_seed in seeds[2:]]
    jobs = [world.queued for world in worlds]
    # Where two seeds start the same jobs at the same instants, nothing of that is drawn.
    jobs += [first] * (len(seeds) - len(jobs))
    return jobs, {name for world in worlds for name in world.service.consulted()}


def _demands(scenario: Scenario, runs: Sequence[Jobs], seeds: Sequence[int]) -> Iterator[JobDemand]:
    """Yield the jobs of each kind that a scenario starts in some runs. Raises BadInput."""
    are_drawn = runs[0] != runs[1]
    for kind in sorted({kind for run in runs for kind in run}):
        pool = spec_of(scenario, kind)
        is_drawn = are_drawn or (pool.duration is not None and pool.duration.kind != "constant")
        arrivals = [
            (partial(_jobs_of, run, kind), drawn_seed) for run, drawn_seed in zip(runs, seeds, strict=True)
        ]
        demand = JobDemand(
            kind, pool, arrivals if is_drawn else arrivals[:1], is_drawn,
            start=scenario.start, length=scenario.length,
        )  # fmt: skip
        if demand.jobs > MANY:
            raise BadInput(
                f"length: {demand.jobs:,} {kind} jobs are started, expected at most {MANY:,}; shorten it"
            )
        yield demand
