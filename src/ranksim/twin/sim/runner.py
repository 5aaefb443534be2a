"""Running a scenario: replications on independent seeds, on one or more processes, as many as precision asks.

Seeds go by the index of a replication, and so does the order of results, on any number of processes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ranksim.core.clock import Micros, format_duration
from ranksim.core.contract.parameters import Settings
from ranksim.core.draws import Purpose, derive, entity
from ranksim.core.errors import BadInput, check_integer, read_at
from ranksim.core.service.service import Service
from ranksim.core.trace_writer import TraceWriter
from ranksim.inference.estimate import LEVEL
from ranksim.inference.precision import FIRST_STAGE, is_precise
from ranksim.inference.warm_up import most_dropped, mser5, welch
from ranksim.report.progress import Tell, nobody, noted
from ranksim.report.units import level
from ranksim.twin.sim.drawn import FAMILIES, STATED, is_drawn
from ranksim.twin.sim.metrics import Scalars, check_name, metric_of, sample_of, scalars, unknown
from ranksim.twin.sim.replication import Replication
from ranksim.twin.sim.results import Result
from ranksim.twin.sim.scenario import Scenario, scenario_of
from ranksim.twin.sim.scenario_fields import scenario_notes
from ranksim.twin.sim.statistics import ReplicationTally, tally_of
from ranksim.twin.sim.world import Recorder, World

if TYPE_CHECKING:
    from concurrent.futures import Future


MakeWorld = Callable[..., Any]
"""`World`, or what has its `run`, `service` and `endpoints`, made from (scenario, seed=, tally=, trace=)."""

PILOTS = 10
"""Runs from which a warm-up is found."""

Run = TypeVar("Run")

AHEAD = 2
"""Replications handed out beyond those taken, for each process."""


def run(
    scenario: Scenario | str | Path,
    seed: int | None = None,
    replications: int | None = None,
    workers: int = 1,
    trace: str | Path | Recorder | None = None,
    progress: Tell | None = None,
    world: MakeWorld = World,
    *,
    settings: Settings = MappingProxyType({}),
    assumptions: bool = False,
) -> Result:
    """Simulate a scenario, or the scenario of a file, and give its result.

    `settings` are parameters by path, as of `Scenario.changed`. `seed` and `replications` stand in for
    the scenario's; with `replications` given, its `precision` is not pursued. `workers` processes share the
    replications; where nothing is drawn and two agree, the others are copies of these. `trace`, a file or a
    recorder, takes down the first, which then runs in this process. `progress` is told how far it is; without
    it a notebook shows that. With `assumptions` the result's `readings` are what others would make of it, a
    run for each. Raises BadInput, and whatever goes wrong in a replication, with a note which one.
    """
    if world is World or isinstance(scenario, str | Path):  # another world knows what it is given
        scenario = scenario_of(scenario)
    if settings:
        scenario = scenario.changed(settings)
    workers = check_integer("workers", workers, 1)
    if replications is not None:
        replications = check_integer("replications", replications, 1)
    goal = _Goal(scenario, replications, world is not World)
    root = scenario.seed if seed is None else check_integer("seed", seed)
    warm_up = warm_up_of(scenario, root, workers, world)
    make = partial(replicate, scenario, root, warm_up.length, world=world)
    done: list[Replication] = []
    with ExitStack() as stack:
        tell = stack.enter_context(noted("simulating", progress))
        if isinstance(trace, str | Path):
            trace = stack.enter_context(TraceWriter(trace, started=scenario.start, salt=str(root).encode()))
        for replication in stack.enter_context(closing(_in_order(make, goal.most, workers, trace, tell))):
            done.append(replication)
            tell(len(done) / goal.most, _how_far(len(done), goal.most))
            if goal.is_met_after(done):
                tell(1.0, _how_far(len(done), len(done)))
                done += goal.copies_of(replication, root, len(done))
                break
    fixed = [about for about in FAMILIES if world is World and _is_fixed(scenario, done, about)]
    result = Result(
        scenario.name,
        root,
        done,
        level=LEVEL,
        remarks=[*scenario_notes(scenario), *warm_up.remarks, *goal.remarks()],
        fixed=fixed,
        of=scenario,
    )
    if assumptions:
        from ranksim.twin.sim.run_readings import readings_of_run  # few ask for it

        again = partial(
            run, seed=root, replications=len(done), workers=workers, progress=progress, world=world
        )
        result.readings = readings_of_run(scenario, result, again)
    return result


class _Goal:
    """How many replications there are: so many, or at `most` until the scenario's `precision` is met."""

    def __init__(self, scenario: Scenario, replications: int | None, drawn: bool) -> None:
        self.scenario, self.drawn = scenario, drawn
        self.precision = scenario.precision if replications is None else None
        self.least = self.most = replications or scenario.replications
        if self.precision is not None:
            self.most = max(self.least, self.precision.max_replications)
            read_at("precision.of", check_name, self.precision.of)
        self.seen: list[Scalars] = []
        self.met = False

    def is_met_after(self, done: Sequence[Replication]) -> bool:
        """Return whether the last of the replications was needed last: the metric is known well enough.

        Without a metric that is so where nothing is drawn, and a second replication agrees with the first.
        """
        if self.precision is None:
            return len(done) == 2 and not self.drawn and _is_fixed(self.scenario, done, "")
        metric = self.precision.of
        self.seen.append(_measured(done[-1], metric))
        drawn = self.drawn or is_drawn(self.scenario, metric)
        sample = sample_of(self.seen, metric)._replace(drawn=drawn)
        self.met = len(self.seen) >= self.least and is_precise(sample, self.precision.relative)
        return self.met

    def copies_of(self, replication: Replication, root: int, done: int) -> list[Replication]:
        """Return what the replications that are not simulated would be, where so many were asked for."""
        most = done if self.precision is not None else self.most
        return [replace(replication, seed=replication_seed(root, index)) for index in range(done, most)]

    def remarks(self) -> list[str]:
        """Return what there is to say of the precision that was reached."""
        if self.precision is None:
            return []
        verb, count = "is" if self.met else "is not", len(self.seen)
        remark = f"{self.precision.of} {verb} known to within {level(self.precision.relative)}"
        more = f"; that takes at least {FIRST_STAGE}" if not self.met and count < FIRST_STAGE else ""
        return [f"{remark} after {count} replications{more}"]


def _is_fixed(scenario: Scenario, replications: Sequence[Replication], about: str) -> bool:
    """Whether nothing is drawn of the metrics that begin so, and replications do agree on them."""
    if (len(replications) < 2 and about != STATED) or is_drawn(scenario, about):
        return False
    first, *others = (
        {name: value for name, value in scalars(replication).items() if name.startswith(about)}
        for replication in replications
    )
    return all(other == first for other in others)


def _how_far(done: int, most: int) -> str:
    return f"{done} of {most} done" if most > 1 else ""


def replication_seed(seed: int, index: int) -> int:
    """Return the seed of one replication, counted from 0."""
    return derive(seed, entity("replication"), index, Purpose.REPLICATION)


def replicate(
    scenario: Scenario,
    root: int,
    warm_up: Micros,
    index: int,
    *,
    trace: Recorder | None = None,
    on_part: Callable[[float], None] | None = None,
    world: MakeWorld = World,
) -> Replication:
    """Run one replication, whose statistics leave out its first `warm_up`.

    `on_part` is told the share (0 to 1) of it that is done.
    """
    seed, start, length = replication_seed(root, index), scenario.start, scenario.length
    show = None if on_part is None else lambda now: on_part((now - start) / length)
    try:
        tally = tally_of(scenario, ReplicationTally, seed=seed, warm_up=warm_up, on_sample=show)
        return _run(world, scenario, seed, tally, trace)
    except Exception as error:
        error.add_note(f"in replication {index} of {scenario.name!r} (seed {seed})")
        raise


def _run(
    world: MakeWorld, scenario: Scenario, seed: int, tally: ReplicationTally, trace: Recorder | None
) -> Replication:
    made = world(scenario, seed=seed, tally=tally, trace=trace)
    if isinstance(trace, TraceWriter):
        trace.watch(made.service.state)
    tally.endpoint_names.update({endpoint: name for name, endpoint in made.endpoints.items()})
    made.run()
    return tally.finish(scenario.start + scenario.length, made.service)


# Warm-up


class Pilot(ReplicationTally):
    """A tally that takes one metric over each interval between samples, instead of over the whole run."""

    def __init__(self, metric: str, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.metric = metric
        self.series: list[float] = []
        self.unobserved = 0

    def sample(self, now: Micros, service: Service) -> None:
        """Note the metric since the last sample, or again its last value where nothing was observed."""
        super().sample(now, service)
        if now > self.start:
            value = _measured(self.finish(now, service), self.metric)[self.metric]
            observed = self.series[-1:] if value is None else [value]
            self.series += observed
            self.unobserved += not observed
            self.reset(now)


class WarmUp(NamedTuple):
    """How much of a run's start is left out (µs), and what there is to say on that."""

    length: Micros
    remarks: tuple[str, ...] = ()


def warm_up_of(scenario: Scenario, root: int, workers: int = 1, world: MakeWorld = World) -> WarmUp:
    """Return how much of a run's start its statistics leave out: as stated, or as pilot runs tell.

    The pilots have random numbers of their own, as what a cut is chosen by must not be averaged. Raises
    BadInput where they do not show the metric of `precision`.
    """
    if scenario.warm_up == "none" or scenario.warm_up == 0:
        return WarmUp(0)
    if isinstance(scenario.warm_up, int):
        stated, of = format_duration(scenario.warm_up), format_duration(scenario.length)
        return WarmUp(scenario.warm_up, (f"the first {stated} of {of} are left out, as `warm_up` states",))
    if scenario.precision is None:
        raise BadInput(
            f"warm_up: {scenario.warm_up} looks at the metric that precision.of names; give precision, or a "
            "duration"
        )
    make = partial(pilot, scenario, root, world=world)
    with closing(_in_order(make, PILOTS, workers, None, nobody)) as pilots:
        runs = list(pilots)
    late = max(unobserved for unobserved, _ in runs)
    rows = [series[late - unobserved :] for unobserved, series in runs]
    if not rows[0]:
        raise BadInput(
            f"warm_up: {scenario.warm_up} looks at {scenario.precision.of} over time, and a pilot run did "
            "not show it; give a duration, or a longer run"
        )
    if scenario.warm_up == "mser":
        cut, name = mser5([fmean(column) for column in zip(*rows, strict=True)]), "MSER-5"
    else:
        cut, name = welch(rows), "Welch"
    length = (late + cut) * scenario.sample_every if cut else 0
    remarks = [
        f"the first {format_duration(length)} of {format_duration(scenario.length)} are left out "
        f"({name}, from the mean of {PILOTS} pilot runs); such a rule leaves part of the start's bias, which "
        "a duration known to be long enough does not"
    ]
    if cut and cut >= most_dropped(len(rows[0])):
        remarks.append(
            f"{scenario.precision.of} has not settled by half of the run: the run may be too short to have a "
            "steady state; make it longer, or take its start as it is with warm_up: none"
        )
    return WarmUp(length, tuple(remarks))


def pilot(
    scenario: Scenario, root: int, index: int, *, world: MakeWorld = World, **unused: Any
) -> tuple[int, list[float]]:
    """Run one pilot: how many intervals between samples showed nothing at first, the metric in the others."""
    metric = scenario.precision.of if scenario.precision is not None else ""
    seed = derive(root, entity("pilot"), index, Purpose.REPLICATION)
    tally = tally_of(scenario, partial(Pilot, metric), seed=seed)
    _run(world, scenario, seed, tally, None)
    return tally.unobserved, tally.series


# Replications in order


def _in_order(
    make: Callable[..., Run], most: int, workers: int, trace: Recorder | None, tell: Tell
) -> Generator[Run, None, None]:
    if workers > 1 and most > 1:
        yield from _on_processes(make, most, min(workers, most), trace)
        return
    for index in range(most):

        def part(share: float, index: int = index) -> None:
            tell((index + share) / most, _how_far(index, most))

        yield make(index, trace=trace if index == 0 else None, on_part=part)


def _on_processes(
    make: Callable[..., Run], most: int, workers: int, trace: Recorder | None
) -> Generator[Run, None, None]:
    """Spread replications over processes; whatever ends this early ends the processes too."""
    import multiprocessing  # read late: most runs need no other process
    from concurrent.futures.process import BrokenProcessPool

    from ranksim.core.processes import DIED, Workers

    others = set(multiprocessing.active_children())
    executor = Workers(workers)
    waiting: deque[Future[Run]] = deque()
    indices = iter(range(0 if trace is None else 1, most))
    try:
        for index in indices:
            waiting.append(executor.submit(make, index))
            if len(waiting) == AHEAD * workers:
                break
        if trace is not None:
            yield make(0, trace=trace)
        while waiting:
            replication = waiting.popleft().result()
            for index in indices:
                waiting.append(executor.submit(make, index))
                break
            yield replication
    except BrokenProcessPool:
        raise BadInput(DIED) from None
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def _measured(replication: Replication, metric: str) -> Scalars:
    """The metric that `precision` is about, and of a share its trials."""
    values = scalars(replication)
    if metric not in values:
        raise BadInput(f"precision.of: {unknown(metric, values)}")
    return {name: values[name] for name in (metric, metric_of(metric).trials) if name is not None}
