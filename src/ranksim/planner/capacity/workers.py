"""How many workers a peak needs, so that a share of its jobs starts in time.

The closed form is M/M/c (A. K. Erlang, 1917): with c workers and an offered load of a = arrival rate × mean
duration, a job waits with chance C(c, a), and longer than t with C(c, a) × exp(−(c − a) × t / mean duration).
Durations that are not exponential scale the exponent by 2 / (1 + v), v their squared coefficient of
variation: the approximation of A. O. Allen and J. Cunneen (A. O. Allen, "Probability, Statistics, and
Queueing Theory", 2nd ed. 1990), with the exponential tail of heavy traffic (J. F. C. Kingman, 1962;
J. Köllerström, 1974). A rate that changes is taken stretch by stretch, each as if it lasted (the pointwise
stationary approximation: L. Green and P. Kolesar, Management Science 37, 1991). Jobs that all come at one
instant have a fluid instead: c workers start c at once, and c for every mean duration after that (at its
end, and so exactly, where durations are constant).

Beside it stands what the worker pools of the simulation do with drawn arrivals and durations, day by day,
each number of workers under the same draws.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from statistics import fmean, pvariance
from types import MappingProxyType
from typing import TYPE_CHECKING

from ranksim.core.clock import HOUR, MINUTE, Micros
from ranksim.core.contract.plans import JobLabel
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.contract.quantities import Distribution
from ranksim.core.draws import Purpose, entity, uniform
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import StartJob
from ranksim.inference.estimate import Estimate
from ranksim.inference.shares import clustered
from ranksim.planner.capacity.common import (
    DurationField,
    check_numbers,
    ends_of,
    expect,
    micros,
    question_repr,
)
from ranksim.report.answer import ReadyAnswer, Row, Tables, TableSpec
from ranksim.report.progress import Tell, noted, part
from ranksim.report.units import duration, level
from ranksim.twin.sim.runner import replication_seed
from ranksim.twin.sim.simpy_clock import SimpyClock
from ranksim.twin.sim.workers import Ending, Pool, PoolSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AROUND = 4
"""Numbers of workers shown on either side of the answer."""

MANY = 100_000
"""Jobs of a peak; more would take long to simulate."""

KINDS = TableSpec(
    {
        "kind": "text",
        "jobs": "count",
        "load": "count",
        "by_formula": "count",
        "by_simulation": "count",
        "started_in_time": "share",
    },
    keys=("kind",),
    metrics=("jobs", "load", "by_formula", "by_simulation", "started_in_time"),
    title="Workers at the peak",
)


Arrivals = Sequence[tuple[Micros, StartJob]]
"""Jobs of one kind, each with the instant (µs) at which it was queued."""


@dataclass(frozen=True)
class Peak:
    """The jobs of one kind that a peak brings, and how long they take.

    They come at random moments within `over` (µs), a stretch cut into equal parts with `profile` as the
    weights of the parts; all at one instant when `over` is 0.
    """

    jobs: int
    service: Distribution
    over: DurationField = DurationField(HOUR)
    profile: tuple[float, ...] = (1.0,)

    __repr__ = question_repr

    def __post_init__(self) -> None:
        """Raise BadInput for what cannot be."""
        check_numbers(self)
        expect(1 <= self.jobs <= MANY, "jobs", f"1 to {MANY}", self.jobs)
        expect(self.over >= 0, "over", "0 or more", self.over)
        fine = bool(self.profile) and all(0 <= weight < math.inf for weight in self.profile)
        expect(fine and sum(self.profile) > 0, "profile", "weights, one of them above 0", self.profile)
        expect(self.mean > 0, "duration", "a mean above 0", self.mean)

    @property
    def mean(self) -> float:
        """Mean duration of a job (µs)."""
        return self.service.mean()

    @property
    def is_drawn(self) -> bool:
        """Whether chance decides anything: jobs that come at once and take one time leave nothing to it."""
        return self.over > 0 or self.service.kind != "constant"

    @property
    def loads(self) -> tuple[tuple[float, float], ...]:
        """Each part of the profile: its share of the jobs, and its offered load in workers."""
        total, part = sum(self.profile), self.over / len(self.profile)
        shares = [weight / total for weight in self.profile]
        return tuple((share, self.jobs * share * self.mean / part) for share in shares if share)

    @property
    def load(self) -> float:
        """The highest offered load: the workers that would never be idle; all jobs when they come at once."""
        return max(load for _, load in self.loads) if self.over else float(self.jobs)

    def arrivals(self, kind: str, seed: int) -> Arrivals:
        """Draw when the jobs come, of a kind: each in a part of the profile by weight, evenly there."""
        draw = partial(uniform, seed, entity(kind), purpose=Purpose.ARRIVAL)
        return [
            (self._moment(draw(number)), StartJob(f"{kind}{number}", kind, "", f"{kind}{number}", 0))
            for number in range(self.jobs)
        ]

    def _moment(self, u: float) -> Micros:
        left, part = u * sum(self.profile), self.over / len(self.profile)
        for index, weight in enumerate(self.profile):
            if left < weight:
                return int((index + left / weight) * part)
            left -= weight
        return self.over


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
    None where nothing was simulated; `trials` are those around it.
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
        seen = next((t.simulated for t in self.trials if t.workers == self.by_simulation), None)
        return {
            "kind": self.kind,
            "jobs": self.jobs,
            "load": None if self.peak is None else self.peak.load,
            "by_formula": self.by_formula,
            "by_simulation": self.by_simulation,
            **ends_of("started_in_time", seen),
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share started in time against the workers. Raises BadInput without matplotlib."""
        from ranksim.planner.capacity import plots

        rows = [{**asdict(trial), **ends_of("simulated", trial.simulated)} for trial in self.trials]
        return plots.workers(rows, self.kind, self.within, self.target, ax)


@dataclass(frozen=True, slots=True, repr=False)
class WorkersNeeded(ReadyAnswer):
    """The answer for all kinds: one `Staffing` each, for pools that are apart; `notes` say of which jobs."""

    kind = "capacity workers"
    title = "How many workers a peak needs"
    TABLES = MappingProxyType({"answer": KINDS})

    kinds: tuple[Staffing, ...]
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        first = self.kinds[0]
        wanted = f"{level(first.target)} start within {duration(first.within)}"
        parts = [f"{s.by_simulation or s.by_formula:,} for {s.kind}" for s in self.kinds]
        return f"Workers so that {wanted}: {', '.join(parts)}."

    def tables(self) -> Tables:
        """One row a kind."""
        return {"answer": [staffing.row for staffing in self.kinds]}

    @property
    def plots(self) -> tuple[str, ...]:
        """The kinds of jobs of which numbers of workers were simulated."""
        return tuple(staffing.kind for staffing in self.kinds if staffing.trials)

    def draw(self, name: str = "", ax: Axes | None = None) -> Axes:
        """Draw the share started in time of a kind of job. Raises BadInput without matplotlib."""
        return next(staffing for staffing in self.kinds if name in ("", staffing.kind)).plot(ax)


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
    within = wanted(within, target)
    expect(bool(peaks), "jobs", "at least one kind", "none")
    expect(replications != 1 and replications >= 0, "replications", "0, or at least 2", replications)
    with noted("simulating peaks", progress) as tell:
        demands = []
        for kind, peak in peaks.items():
            pool = PoolSpec(capacity="unlimited", duration=peak.service)
            seeds = [replication_seed(seed, index) for index in range(replications)]
            runs = [(peak.arrivals(kind, drawn_seed), drawn_seed) for drawn_seed in seeds]
            demands.append(JobDemand(kind, pool, runs, peak.is_drawn, peak=peak))
        return WorkersNeeded(staffings(demands, within, target, tell))


def wanted(within: Micros | str, target: float) -> Micros:
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

    A `peak` has a formula, too. Jobs that have not started after a `length` (µs) from `start` on never do.
    """

    kind: str
    pool: PoolSpec
    runs: Sequence[tuple[Arrivals, int]]
    is_drawn: bool
    peak: Peak | None = None
    start: Micros = 0
    length: Micros | None = None

    @property
    def jobs(self) -> int:
        """The most jobs that come in a run."""
        return self.peak.jobs if self.peak else max(len(arrivals) for arrivals, _ in self.runs)


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
    trials = jobs.bit_length() + 2 * AROUND + 1  # halved so often, and then those around
    simulated = count()

    def by_formula(workers: int) -> float | None:
        return None if peak is None else started_by_formula(peak, workers, within)

    @cache
    def tried(workers: int) -> StaffingTrial:
        hits = []
        for arrivals, seed in runs:
            tell(next(simulated) / (trials * len(runs)), f"{workers} workers for {kind}")
            hits.append(started_in_time(demand, arrivals, workers, within, seed))
        seen = clustered(hits, [len(arrivals) for arrivals, _ in runs])
        if not demand.is_drawn:
            seen = Estimate(seen.mean, seen.mean, seen.mean)
        return StaffingTrial(workers, by_formula(workers), seen)

    expected = None if peak is None else fewest(jobs, lambda n: (by_formula(n) or 0) >= target)
    if not runs:
        return Staffing(kind, peak, jobs, within, target, expected, None, ())
    # What is shown of a number of workers is the lower end of the interval.
    proven = fewest(jobs, lambda n: (tried(n).simulated.low or 0) >= target)
    around = range(max(1, proven - AROUND), min(jobs, proven + AROUND) + 1)
    return Staffing(kind, peak, jobs, within, target, expected, proven, tuple(map(tried, around)))


def fewest(jobs: int, are_enough: Callable[[int], bool]) -> int:
    """Return the fewest workers who are enough, as many as there are jobs if no fewer are.

    More workers never start fewer jobs in time, so they are found by halving.
    """
    return 1 + bisect_left(range(1, jobs), True, key=are_enough)


# By formula


def squared_variation(service: Distribution) -> float:
    """Return the squared coefficient of variation of a duration: its variance over its squared mean."""
    first, last = service.durations[0], service.durations[-1]
    match service.kind:
        case "constant":
            return 0.0
        case "exponential":
            return 1.0
        case "uniform":
            return (last - first) ** 2 / 12 / ((first + last) / 2) ** 2
        case "lognormal":
            return math.expm1(service.sigma**2)
        case "empirical":
            return pvariance(service.durations) / fmean(service.durations) ** 2


def erlang_c(workers: int, load: float) -> float:
    """Return the chance that a job waits in M/M/c, 1 where the load is not below the workers.

    By the recursion of Erlang's loss formula, B(0) = 1 and B(c) = a B(c−1) / (c + a B(c−1)).
    """
    if load >= workers:
        return 1.0
    blocked = 1.0
    for c in range(1, workers + 1):
        blocked = load * blocked / (c + load * blocked)
    return workers * blocked / (workers - load * (1 - blocked))


def started_by_formula(peak: Peak, workers: int, within: Micros) -> float:
    """Return the share of jobs that start within `within` (µs), as the module says."""
    if workers >= peak.jobs:
        return 1.0  # nobody waits, however long jobs take
    if peak.over == 0:
        turns = within / peak.mean
        full_turns = math.floor(turns) if peak.service.kind == "constant" else turns
        return min(1.0, workers * (1 + full_turns) / peak.jobs)
    faster = 2 / (1 + squared_variation(peak.service))
    started = 0.0
    for share, load in peak.loads:
        if load < workers:
            exponent = -faster * (workers - load) * within / peak.mean
            started += share * (1 - erlang_c(workers, load) * math.exp(exponent))
    return started


# By simulation


def started_in_time(demand: JobDemand, arrivals: Arrivals, workers: int, within: Micros, seed: int) -> int:
    """Put jobs before a pool of so many workers: how many started within so long (µs)."""
    time = SimpyClock(start=demand.start)
    came = {task.job: at for at, task in arrivals}
    waits: list[Micros] = []

    def started(task: StartJob) -> None:
        waits.append(time.now - came[task.job])

    def ended(task: StartJob, ending: Ending) -> None:
        """Nothing follows a job here."""

    spec = demand.pool.model_copy(update={"capacity": workers})
    pool = Pool(demand.kind, spec, time, seed, started, ended, lambda pool: None)
    for at, task in arrivals:
        time.at(at, pool.add, task)
    time.env.run(until=demand.length)
    return sum(wait <= within for wait in waits)
