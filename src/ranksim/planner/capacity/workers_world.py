"""How many workers a scenario needs: its own jobs, as its world starts them, on its pools (see `workers`).

What a scenario starts does not hang on how many workers there are, but for this: while a job waits, a further
start of its kind joins it. So the world runs once for each replication, with workers without limit, and the
jobs that it started are put before pools of every size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ranksim.core.clock import MINUTE, Micros, iso
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import StartJob, Step
from ranksim.planner.capacity.common import expect
from ranksim.planner.capacity.queueing import MANY, Arrivals
from ranksim.planner.capacity.workers import JobDemand, WorkersNeeded, staffings, wanted_wait
from ranksim.report import units
from ranksim.report.progress import Tell, noted
from ranksim.twin.sim.runner import replication_seed
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.timeline import Action, ResizePool, Set
from ranksim.twin.sim.world import World, spec_of


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


def _jobs_of(run: Mapping[str, Arrivals], kind: str) -> Arrivals:
    return run.get(kind, [])


def queued_jobs(scenario: Scenario, seed: int) -> dict[str, list[tuple[Micros, StartJob]]]:
    """Run a scenario with workers without limit; return its jobs by kind, and when each was queued (µs).

    Raises BadInput.
    """
    pools: dict[str, Any] = {kind: {"capacity": "unlimited"} for kind in scenario.pools}
    rest = tuple(action for action in scenario.timeline if not _of_pools(action))
    roomy = scenario.replace(pools=pools).model_copy(update={"timeline": rest})
    world = _Recorder(roomy, seed)
    world.run()
    return world.queued


def _of_pools(action: Action) -> bool:
    """Return whether an action of the timeline changes a pool."""
    return isinstance(action, ResizePool) or (
        isinstance(action, Set) and action.path.startswith("scenario.pools")
    )


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
    within = wanted_wait(within, target)
    expect(replications >= 2, "replications", "2 or more for the jobs of a scenario", replications)
    with noted("simulating", progress) as tell:
        demands = list(_demands(scenario, replications, seed))
        if not demands:
            raise BadInput(
                f"{scenario.name}: no client of it starts a job; say with --jobs which come together"
            )
        note = (
            f"Taken are the jobs that {scenario.name} starts in {units.duration(scenario.length)} "
            f"from {iso(scenario.start)}, of all its accounts, and how long its pools say that they take. A "
            "job waits from when it is queued on, so after what the rate limit puts off."
        )
        left_out = "Left out is what the timeline changes of pools."
        notes = (note, left_out) if any(map(_of_pools, scenario.timeline)) else (note,)
        return WorkersNeeded(staffings(demands, within, target, tell), notes)


def _demands(scenario: Scenario, replications: int, seed: int) -> Iterator[JobDemand]:
    """Yield the jobs of each kind that a scenario starts, in so many runs. Raises BadInput."""
    seeds = [replication_seed(seed, index) for index in range(replications)]
    runs = [queued_jobs(scenario, drawn_seed) for drawn_seed in seeds[:2]]
    # Where two seeds start the same jobs at the same instants, nothing of that is drawn.
    are_drawn = runs[0] != runs[1]
    runs += [queued_jobs(scenario, drawn_seed) if are_drawn else runs[0] for drawn_seed in seeds[2:]]
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
