"""How many workers a scenario needs: its own jobs, as its world starts them, on its pools (see `workers`).

What a scenario starts does not hang on how many workers there are, but for this: while a job waits, a further
start of its kind joins it. So the world runs once for each replication, with workers without limit, and the
jobs that it started are put before pools of every size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from ranksim.core.clock import MINUTE, Micros, iso
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import StartJob, Step
from ranksim.inference.estimate import Estimate
from ranksim.inference.shares import clustered
from ranksim.planner.capacity.common import expect
from ranksim.planner.capacity.workers import (
    AROUND,
    MANY,
    Staffing,
    StaffingTrial,
    WorkersNeeded,
    smallest,
    wanted,
)
from ranksim.report import units
from ranksim.report.progress import Tell, noted, part
from ranksim.twin.sim.runner import replication_seed
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.simpy_clock import SimpyClock
from ranksim.twin.sim.workers import Ending, Pool, PoolSpec
from ranksim.twin.sim.world import World, completed

Arrivals = Sequence[tuple[Micros, StartJob]]
"""Jobs of one kind, each with the instant (µs) at which it was queued."""


class _Recorder(World):
    """A world that keeps which jobs it started, by kind, and when."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.queued: dict[str, list[tuple[Micros, StartJob]]] = {}
        super().__init__(scenario, seed=seed)

    def follow(self, step: Step) -> None:
        for task in step.tasks:
            if isinstance(task, StartJob):
                self.queued.setdefault(task.kind, []).append((self.now, task))
        super().follow(step)


def queued_jobs(scenario: Scenario, seed: int) -> dict[str, list[tuple[Micros, StartJob]]]:
    """Run a scenario with workers without limit; return its jobs by kind, and when each was queued (µs).

    Raises BadInput.
    """
    pools: dict[str, Any] = {kind: {"capacity": "unlimited"} for kind in scenario.pools}
    resized = tuple(action for action in scenario.timeline if action.do != "resize_pool")
    roomy = scenario.replace(pools=pools).model_copy(update={"timeline": resized})
    world = _Recorder(roomy, seed)
    world.run()
    return world.queued


def workers_of_scenario(
    scenario: Scenario | str | Path,
    *,
    within: Micros | str = 5 * MINUTE,
    target: float = 0.95,
    replications: int = 20,
    seed: int = 1,
    progress: Tell | None = None,
) -> WorkersNeeded:
    """Find the smallest pool for each kind of job that a scenario, or that of a file, starts.

    A share `target` of its jobs starts within `within` (µs, or text: "5m") on a pool with the durations,
    discipline and queue of the scenario's. So many `replications` are simulated, one where nothing is drawn.
    `progress` is told how far it is; without it a notebook shows that. Raises BadInput, where no job is
    started too.
    """
    if isinstance(scenario, str | Path):
        scenario = Scenario.load(scenario)
    within = wanted(within, target)
    expect(replications >= 2, "replications", "2 or more for the jobs of a scenario", replications)
    with noted("simulating", progress) as tell:
        return _of_scenario(scenario, within, target, replications, seed, tell)


def _of_scenario(
    scenario: Scenario, within: Micros, target: float, replications: int, seed: int, tell: Tell
) -> WorkersNeeded:
    seeds = [replication_seed(seed, index) for index in range(replications)]
    runs = [queued_jobs(scenario, drawn_seed) for drawn_seed in seeds[:2]]
    # Where two seeds start the same jobs at the same instants, nothing of that is drawn.
    are_drawn = runs[0] != runs[1]
    runs += [queued_jobs(scenario, drawn_seed) if are_drawn else runs[0] for drawn_seed in seeds[2:]]
    kinds = sorted({kind for run in runs for kind in run})
    if not kinds:
        raise BadInput(f"{scenario.name}: no client of it starts a job; say with --jobs which come together")
    specs: dict[str, PoolSpec] = dict(scenario.pools.items())
    staffings = []
    for number, kind in enumerate(kinds):
        spec = completed(specs.get(kind, PoolSpec(capacity="unlimited")), kind, scenario.policy)
        staffing = _staffing(
            kind, spec, [run.get(kind, []) for run in runs], seeds, scenario, within, target, are_drawn,
            part(tell, number / len(kinds), (number + 1) / len(kinds)),
        )  # fmt: skip
        staffings.append(staffing)
    return WorkersNeeded(
        tuple(staffings),
        (
            f"Taken are the jobs that {scenario.name} starts in {units.duration(scenario.length)} "
            f"from {iso(scenario.start)}, of all its accounts, and how long its pools say that they take. A "
            "job waits from when it is queued on, so after what the rate limit puts off.",
        ),
    )


def _staffing(
    kind: str,
    spec: PoolSpec,
    runs: Sequence[Arrivals],
    seeds: Sequence[int],
    scenario: Scenario,
    within: Micros,
    target: float,
    are_drawn: bool,
    tell: Tell,
) -> Staffing:
    most = max(map(len, runs))
    if most > MANY:
        raise BadInput(f"length: {most:,} {kind} jobs are started, expected at most {MANY:,}; shorten it")
    is_drawn = are_drawn or (spec.duration is not None and spec.duration.kind != "constant")
    if not is_drawn:
        runs, seeds = runs[:1], seeds[:1]
    trials = most.bit_length() + 2 * AROUND + 1
    simulated = count()

    @cache
    def tried(workers: int) -> StaffingTrial:
        hits = []
        for jobs, seed in zip(runs, seeds, strict=True):
            tell(next(simulated) / (trials * len(runs)), f"{workers} workers for {kind}")
            hits.append(started_in_time(kind, spec, jobs, workers, within, scenario, seed))
        seen = clustered(hits, [len(jobs) for jobs in runs])
        return StaffingTrial(workers, None, seen if is_drawn else Estimate(seen.mean, seen.mean, seen.mean))

    enough = smallest(most, target, tried)
    around = range(max(1, enough - AROUND), min(most, enough + AROUND) + 1)
    return Staffing(kind, None, most, within, target, None, enough, tuple(map(tried, around)))


def started_in_time(
    kind: str, spec: PoolSpec, jobs: Arrivals, workers: int, within: Micros, scenario: Scenario, seed: int
) -> int:
    """Put jobs before a pool of so many workers: how many started within so long (µs), before the end."""
    time = SimpyClock(start=scenario.start)
    came = {task.job: at for at, task in jobs}
    waits: list[Micros] = []

    def started(task: StartJob) -> None:
        waits.append(time.now - came[task.job])

    def ended(task: StartJob, ending: Ending) -> None:
        """Nothing follows a job here."""

    sized = spec.model_copy(update={"capacity": workers})
    pool = Pool(kind, sized, time, seed, started, ended, lambda pool: None)
    for at, task in jobs:
        time.at(at, pool.add, task)
    time.env.run(until=scenario.length)
    return sum(wait <= within for wait in waits)
