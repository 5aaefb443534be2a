"""How many workers a peak needs, so that a share of its jobs starts in time.

By the formula of `queueing`, and beside it by what the worker pools of the simulation do with drawn arrivals
and durations, day by day, each number of workers under the same draws.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ranksim.core.clock import MINUTE, Micros
from ranksim.core.contract.plans import JobLabel
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.errors import BadInput, check_kind
from ranksim.core.service.calls import StartJob
from ranksim.inference.estimate import Estimate
from ranksim.inference.shares import clustered
from ranksim.planner.capacity.common import (
    ends_of,
    expect,
    micros,
)
from ranksim.planner.capacity.queueing import Arrivals, Peak, started_by_formula
from ranksim.report import units
from ranksim.report.answer import ReadyAnswer
from ranksim.report.progress import Tell, noted, part
from ranksim.report.readings import NO_READINGS, READINGS, Readings
from ranksim.report.table_spec import Row, Tables, TableSpec
from ranksim.report.tables import View
from ranksim.report.units import duration, level
from ranksim.twin.sim.runner import replication_seed
from ranksim.twin.sim.simpy_clock import SimpyClock
from ranksim.twin.sim.workers import Capacity, Ending, Pool, PoolSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AROUND = 4
"""Numbers of workers shown on either side of the answer."""

KINDS = TableSpec(
    {
        "kind": "text",
        "jobs": "count",
        "load": "count",
        "by_formula": "count",
        "by_simulation": "count",
        "started_in_time": "share",
        "with_one_fewer": "share",
    },
    keys=("kind",),
    metrics=("jobs", "load", "by_formula", "by_simulation", "started_in_time", "with_one_fewer"),
    title="Workers at the peak",
)


@dataclass(frozen=True, slots=True)
class StaffingTrial:
    """A number of workers tried: the share that starts in time by formula, and as simulated."""

    workers: int
    by_formula: float | None
    simulated: Estimate


@dataclass(frozen=True, slots=True)
class Staffing:
    """The answer for one kind of job: workers by formula and by simulation, and what was tried.

    `jobs` come, those of a `peak`, or of a scenario, of which there is no formula. `by_simulation` is the
    smallest number whose share is at least the target with 95 % confidence (the lower end of its interval),
    at most as many as are ever busy at once, None where nothing was simulated; `trials` are those around it.
    """

    kind: str
    peak: Peak | None
    jobs: int
    within: Micros
    target: float
    by_formula: int | None
    by_simulation: int | None
    trials: tuple[StaffingTrial, ...]

    @property
    def row(self) -> Row:
        """The answer as a row."""
        return {
            "kind": self.kind,
            "jobs": self.jobs,
            "load": None if self.peak is None else self.peak.load,
            "by_formula": self.by_formula,
            "by_simulation": self.by_simulation,
            **ends_of("started_in_time", self._simulated(0)),
            **ends_of("with_one_fewer", self._simulated(1)),
        }

    def _simulated(self, fewer: int) -> Estimate | None:
        """The share that so many fewer workers than the answer start in time, where that was tried."""
        wanted = None if self.by_simulation is None else self.by_simulation - fewer
        return next((trial.simulated for trial in self.trials if trial.workers == wanted), None)

    @property
    def doubts(self) -> list[str]:
        """Say where one worker fewer may be enough, too: the interval of its share holds the target."""
        share = self._simulated(1)
        if self.by_simulation is None or share is None or not (share.high or 0) >= self.target:
            return []
        return [
            f"{units.many(self.by_simulation - 1, 'worker')} for {self.kind} start "
            f"{units.write('share', *share)} of all its jobs in time: "
            f"not shown to be {level(self.target)}; more replications may settle it."
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share started in time against the workers. Raises BadInput without matplotlib."""
        from ranksim.planner.capacity import plots

        rows = [{**asdict(trial), **ends_of("simulated", trial.simulated)} for trial in self.trials]
        return plots.workers(rows, self.kind, self.within, self.target, ax)


@dataclass(frozen=True, slots=True, repr=False)
class WorkersNeeded(ReadyAnswer):
    """The answer for all kinds: a `Staffing` each, for pools that are apart; `remarks` say of which jobs."""

    kind = "capacity workers"
    title = "How many workers a peak needs"
    TABLES = MappingProxyType({"answer": KINDS, "readings": READINGS})

    kinds: tuple[Staffing, ...]
    remarks: tuple[str, ...] = ()
    readings: Readings = NO_READINGS

    @property
    def notes(self) -> tuple[str, ...]:
        """What it hangs on, and of which jobs it is."""
        return self.readings.around(*(doubt for kind in self.kinds for doubt in kind.doubts), *self.remarks)

    @property
    def verdict(self) -> str:
        """How many workers are needed: what other assumptions may change."""
        return f"{', '.join(self._needed)} are needed" if self.kinds else "no job is started"

    @property
    def _needed(self) -> list[str]:
        return [f"{s.by_simulation or s.by_formula:,} for {s.kind}" for s in self.kinds]

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        first = self.kinds[0]
        wanted = f"{level(first.target)} start within {duration(first.within)}"
        return f"Workers so that {wanted}: {', '.join(self._needed)}."

    @property
    def tables(self) -> Tables:
        """One row a kind."""
        return {"answer": [staffing.row for staffing in self.kinds], **self.readings.tables()}

    def views(self) -> list[View]:
        """The answer as a table for people, without what is not known: a scenario's jobs have no formula."""
        rows = self.rows()
        return KINDS.without_empty(rows).view(KINDS.title, rows)

    @property
    def plots(self) -> tuple[str, ...]:
        """The kinds of jobs of which numbers of workers were simulated."""
        return tuple(staffing.kind for staffing in self.kinds if staffing.trials)

    def _drawn(self, name: str, ax: Axes | None) -> Axes:
        return next(staffing for staffing in self.kinds if name == staffing.kind).plot(ax)


def workers_needed(
    peaks: Mapping[JobLabel, Peak],
    *,
    within: Micros | str = 5 * MINUTE,
    target: float = 0.95,
    replications: int = 20,
    seed: int = 1,
    progress: Tell | None = None,
) -> WorkersNeeded:
    """Find the smallest pool for each kind of job, so that a share `target` starts within `within` (µs).

    `within` and an `over` may be text: "5m". `replications` peaks are simulated for each number of workers
    tried; with 0 only the formula answers. `progress` is told which; without it a notebook shows that.
    Raises BadInput.
    """
    check_kind("workers", peaks, Mapping, "peaks by kind of job; `workers_of_scenario` takes a scenario")
    within = wanted_wait(within, target)
    expect(bool(peaks), "jobs", "at least one kind", "none")
    expect(replications != 1 and replications >= 0, "replications", "0, or at least 2", replications)
    with noted("simulating peaks", progress) as tell:
        demands = []
        for kind, peak in peaks.items():
            pool = PoolSpec(capacity="unlimited", duration=peak.service)
            seeds = [replication_seed(seed, index) for index in range(replications)]
            runs = [(partial(peak.arrivals, kind, drawn_seed), drawn_seed) for drawn_seed in seeds]
            demands.append(JobDemand(kind, pool, runs, peak.is_drawn, peak=peak))
        return WorkersNeeded(staffings(demands, within, target, tell))


def wanted_wait(within: Micros | str, target: float) -> Micros:
    """Return how long a job may wait (µs). Raises BadInput for what no share of jobs can be held to."""
    within = micros("within", within)
    expect(0 < target < 1, "target", "a share between 0 and 1", target)
    expect(within >= 0, "within", "0 or more", within)
    return within


def peaks_of(
    jobs: Mapping[JobLabel, int],
    policy: Policy | str | Path | None,
    over: Micros | str,
    profile: tuple[float, ...] = (1.0,),
    pools: Mapping[JobLabel, PoolSpec] = MappingProxyType({}),
) -> dict[JobLabel, Peak]:
    """Return the peaks of some kinds of job: they take as long as a pool says, else the policy's catalogue.

    Raises BadInput for a pool whose jobs take as long as they are large.
    """
    durations = dict(policy_of(policy).catalogue.job_durations)
    for kind, pool in pools.items():
        if kind in jobs and pool.per_unit:
            raise BadInput(
                f"pools.{kind}.per_unit: how large the jobs of a peak are is not known; leave --jobs and "
                "--over out, to have those of the scenario"
            )
        durations[kind] = pool.duration or durations[kind]
    return {kind: Peak(count, durations[kind], over, profile) for kind, count in jobs.items()}


@dataclass(frozen=True, slots=True)
class JobDemand:
    """The jobs of a `kind` that come in each of some `runs`, with its seed, and the `pool` that does them.

    A run draws its jobs when it is called, so that memory holds those of one. A `peak` has a formula, too.
    Jobs that have not started after a `length` (µs) from `start` on never do.
    """

    kind: str
    pool: PoolSpec
    runs: Sequence[tuple[Callable[[], Arrivals], int]]
    is_drawn: bool
    peak: Peak | None = None
    start: Micros = 0
    length: Micros | None = None

    @property
    def jobs(self) -> int:
        """The most jobs that come in a run."""
        return self.peak.jobs if self.peak else max(len(arrivals()) for arrivals, _ in self.runs)


def staffings(
    demands: Sequence[JobDemand], within: Micros, target: float, tell: Tell
) -> tuple[Staffing, ...]:
    """Return the smallest pool for each kind, by formula and as simulated."""
    total = len(demands)
    return tuple(
        _staffing(demand, within, target, part(tell, number / total, (number + 1) / total))
        for number, demand in enumerate(demands)
    )


def _staffing(demand: JobDemand, within: Micros, target: float, tell: Tell) -> Staffing:
    kind, jobs, runs, peak = demand.kind, demand.jobs, demand.runs, demand.peak
    # With as many workers as are busy where there is no end of them, no job waits.
    most = max((_simulated(demand, drawn(), "unlimited", seed)[1] for drawn, seed in runs), default=0)
    trials = most.bit_length() + 2 * AROUND + 1  # halved so often, and then those around
    simulated = count()

    def by_formula(workers: int) -> float | None:
        return None if peak is None else started_by_formula(peak, workers, within)

    @cache
    def tried(workers: int) -> StaffingTrial:
        hits, sizes = [], []
        for drawn, seed in runs:
            tell(next(simulated) / (trials * len(runs)), f"{workers} workers for {kind}")
            arrivals = drawn()
            sizes.append(len(arrivals))
            hits.append(started_in_time(demand, arrivals, workers, within, seed))
        seen = clustered(hits, sizes)
        if not demand.is_drawn:
            seen = Estimate(seen.mean, seen.mean, seen.mean)
        return StaffingTrial(workers, by_formula(workers), seen)

    expected = None if peak is None else fewest_workers(jobs, lambda n: (by_formula(n) or 0) >= target)
    if not runs:
        return Staffing(kind, peak, jobs, within, target, expected, None, ())
    # What is shown of a number of workers is the lower end of the interval.
    proven = fewest_workers(most, lambda n: (tried(n).simulated.low or 0) >= target)
    around = range(max(1, proven - AROUND), min(most, proven + AROUND) + 1)
    return Staffing(kind, peak, jobs, within, target, expected, proven, tuple(map(tried, around)))


def fewest_workers(most: int, are_enough: Callable[[int], bool]) -> int:
    """Return the fewest workers who are enough, the most if no fewer are.

    More workers never start fewer jobs in time, so they are found by halving.
    """
    return 1 + bisect_left(range(1, most), True, key=are_enough)


# By simulation


def started_in_time(demand: JobDemand, arrivals: Arrivals, workers: int, within: Micros, seed: int) -> int:
    """Put jobs before a pool of so many workers: how many started within so long (µs)."""
    return sum(wait <= within for wait in _simulated(demand, arrivals, workers, seed)[0])


def _simulated(
    demand: JobDemand, arrivals: Arrivals, capacity: Capacity, seed: int
) -> tuple[list[Micros], int]:
    """Put jobs before a pool: how long those waited that started (µs), and how many were busy at most."""
    time = SimpyClock(start=demand.start)
    came = {task.job: at for at, task in arrivals}
    waits: list[Micros] = []
    busy: list[int] = []

    def started(task: StartJob) -> None:
        waits.append(time.now - came[task.job])
        busy.append(pool.busy)

    def ended(task: StartJob, ending: Ending) -> None:
        """Nothing follows a job here."""

    spec = demand.pool.model_copy(update={"capacity": capacity})
    pool = Pool(demand.kind, spec, time, seed, started, ended, lambda pool: None)
    for at, task in arrivals:
        time.at(at, pool.add, task)
    time.env.run(until=demand.length)
    return waits, max(busy, default=0)
