"""What a model of a deployment predicts of a check: a twin, by a clock of its own.

It has the accounts as they were read before, and what was calibrated, and gets the same tasks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ranksim.bridges.rehearsal import USUAL, Guard, Rehearsal, rehearse_programs
from ranksim.bridges.rehearsal_worlds import mirrored_target
from ranksim.bridges.twin_files import write_twin
from ranksim.core.callers.steps import Lap, Program, Spawn, Until
from ranksim.core.callers.target import Target
from ranksim.core.clock import DISTANT_FUTURE, Micros
from ranksim.core.contract.plans import CAPABILITY_OF
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.quantities import Distribution
from ranksim.core.errors import BadInput
from ranksim.core.service.service import Service
from ranksim.core.trace import Trace
from ranksim.judge.check.checking import Checking, Turn
from ranksim.judge.check.pacing import Pacer, paced
from ranksim.judge.check.ration import Ration, rationed
from ranksim.judge.check.tasks import tasks
from ranksim.judge.conformance.calibrate.calibrate import calibrate
from ranksim.judge.conformance.cli import traces_in
from ranksim.judge.conformance.history.history import History, Offset
from ranksim.judge.conformance.history.job_lives import lives
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.conformance.report.model_fit import Compared
from ranksim.judge.conformance.report.prediction import BESIDE_TASKS, against_prediction, latencies
from ranksim.judge.conformance.spending.activity import SPENDING, asked_of
from ranksim.judge.deployment.discovery import Reach
from ranksim.judge.mirror.world import MirroredWorld, fit, learn_capabilities
from ranksim.judge.profiles.windows import window_of
from ranksim.report.command_line import reported_fault
from ranksim.twin.sim.opening import open_world
from ranksim.twin.sim.scenario import Scenario

RUNS = 5
"""How often the tasks are played to the twin: how far runs differ is how sure the prediction is."""

FEWEST_RUNS = 2

POLICY = "policy.yaml"
"""What a check calibrates, beside its trace."""

FEWEST_ENDS = 20
"""Jobs of a kind that ended from which on the share of those that failed is taken from them."""

STEPS = 40
"""Quantiles of latency that the twin's network draws from."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A run that a model is fitted to, and the policy that was calibrated from it."""

    history: History
    policy: Policy

    @classmethod
    def read(cls, path: Path) -> Reference:
        """Read a trace, or the one in a directory, and the policy beside it or what it is calibrated to.

        Raises BadInput.
        """
        traces = traces_in([path])
        if len(traces) > 1:
            raise BadInput(f"--model-of {path}: expected one trace, found {len(traces)}; name one")
        history, beside = read_history(traces[0]), traces[0].parent / POLICY
        policy = Policy.load(beside) if beside.exists() else calibrate(history).policy()
        return cls(history, policy)


@dataclass(frozen=True, slots=True)
class Model:
    """A twin as it was read before a check, and the earlier run that it is fitted to, if not the check."""

    twin: MirroredWorld
    earlier: Reference | None = None
    seed: int = 0

    def beside(self, checking: Checking, folder: Path) -> list[Compared] | None:
        """Set a check beside what is predicted of it, and write the twin's files into a folder.

        None, and a trouble that says why, where that cannot be done, be it for a fault of ranksim.
        """
        try:
            return self._predicted(checking, folder)
        except Exception as error:  # whatever it is, it costs nobody the report of a check
            why = str(error) if isinstance(error, BadInput) else reported_fault(error)
            checking.troubles.append(f"no model predicted anything: {why}")
            return None

    def _predicted(self, checking: Checking, folder: Path) -> list[Compared]:
        """Fit the twin, play the tasks to it for some seeds, until there is no more time. Raises BadInput."""

        def enough() -> bool:
            return checking.left_of_time < checking.closing.judging(checking.answers.total())

        assert checking.judgement is not None
        history, runs = checking.judgement.history, list[History]()
        reference = self.earlier or Reference(history, calibrate(history, checking.policy, enough).policy())
        world = fitted_world(self.twin, reference, folder)
        target, hosts, turns = checking.plan.reach.target, hosts_of(history), checking.turns.values()
        while len(runs) < RUNS and not (len(runs) >= FEWEST_RUNS and enough()):
            seed = self.seed + 1000 * len(runs)
            runs.append(played(world, target, hosts, turns, checking.calls_ended, seed))
        return against_prediction(history, runs, None if self.earlier is None else self.earlier.history)


def fitted_world(twin: MirroredWorld, reference: Reference, folder: Path) -> Scenario:
    """Fit a twin to a run, write its files, and return its world. Raises BadInput."""
    fit(twin, _with_failures(reference.policy, reference.history), _way(reference.history))
    learn_capabilities(twin, _entitled(reference.history))
    write_twin(twin, folder)
    return Scenario.load(folder / "world.yaml")


def played(
    world: Scenario,
    target: Target,
    hosts: Mapping[str, str],
    turns: Iterable[Turn],
    ended: Micros,
    seed: int,
) -> History:
    """Play the tasks of a check to the accounts of a world, begun and stopped when they were; return what was
    recorded. `hosts` are those of the deployment's domains, by id, and `ended` is when no task called any
    more (µs).
    """
    service = Service(world.policy, seed)
    reflected = mirrored_target(target, service, open_world(service, world), hosts)
    network = USUAL if world.network is None else world.network.network()
    rehearsal = Rehearsal(service, reflected, network, seed, world.start)
    history = read_history(play(rehearsal, turns, ended, seed))
    history.run.offset = Offset(0, 0, 1)  # one clock for all
    return history


def play(rehearsal: Rehearsal, turns: Iterable[Turn], ended: Micros, seed: int) -> Trace:
    """Play tasks in a rehearsal, begun and stopped when they were, until `ended` (µs); return its trace.

    The ids of calls that no task made begin as those in the trace of a check.
    """
    ordered = sorted(turns, key=lambda turn: turn.began)
    first = ordered[0].began if ordered else ended
    starts: list[Micros] = []

    def programs(reach: Reach, guard: Guard) -> list[Program]:
        starts.append(rehearsal.now)
        return [_begun(ordered, reach, guard, rehearsal, first, seed)]

    trace = rehearse_programs(rehearsal, programs, ended - first)
    ends = starts[0] + ended - first
    trace.exchanges = [
        call if starts[0] <= call.sent < ends else call.model_copy(update={"id": f"{BESIDE_TASKS}{call.id}"})
        for call in trace.exchanges
    ]
    return trace


def _begun(
    turns: Sequence[Turn], reach: Reach, guard: Guard, rehearsal: Rehearsal, first: Micros, seed: int
) -> Program:
    """Begin each task when it was, counted from the `first`."""
    by_name, pacer, start = {task.name: task for task in tasks(reach)}, Pacer(window_of(reach)), rehearsal.now
    ration = Ration.of(reach, by_name.values())
    for turn in turns:
        yield Until(start + turn.began - first)
        task = by_name.get(turn.task)
        if task is None:  # the twin has no place for its keys
            continue
        until = DISTANT_FUTURE if turn.stopped is None else start + turn.stopped - first
        for program in task.programs(reach, seed + turn.number):
            steps = rationed(paced(program, pacer, waits=task.waits), ration, task.name)
            calls = guard(steps)
            yield Spawn(through(calls, task.laps, partial(_past, rehearsal, until)))


def _past(rehearsal: Rehearsal, instant: Micros) -> bool:
    return rehearsal.now >= instant


def through(program: Program, laps: int, stopped: Callable[[], bool]) -> Program:
    """Run a program until it has been through so often, or is stopped."""
    answer, done = None, 0
    while not stopped():
        try:
            step = program.send(answer)
        except StopIteration:
            return
        done += isinstance(step, Lap)
        if done >= laps:
            return
        answer = yield step


# What was found of a deployment


def _with_failures(policy: Policy, history: History) -> Policy:
    """Have as many jobs fail as did, of each kind of which enough ended."""
    ended = Counter((life.kind, life.outcome) for life in lives(history).values() if life.outcome)
    rates = dict(policy.catalogue.job_failure_rates)
    for kind in rates:
        failed, count = ended[kind, "failed"], ended[kind, "failed"] + ended[kind, "done"]
        if count >= FEWEST_ENDS:
            rates[kind] = round(1000 * failed / count)
    return policy.model_copy(
        update={"catalogue": policy.catalogue.model_copy(update={"job_failure_rates": rates})}
    )


def _entitled(history: History) -> Iterator[tuple[str, str, bool]]:
    """Yield what a key asked for, and whether it was granted or refused for want of a capability."""
    for call in history.by_operation(*SPENDING):
        (operation, _), granted = asked_of(call), call.ok and not call.dry_run
        if operation in CAPABILITY_OF and (granted or call.code == "entitlement_required"):
            yield call.key, operation, granted


def _way(history: History) -> Distribution | None:
    """How long a call takes there, and back: half of what calls took that had no other beside them."""
    calm = sorted(took for series in latencies(history).calm.values() for _, took in series)
    if not calm:
        return None
    quantiles = (calm[math.floor((step + 0.5) / STEPS * len(calm))] for step in range(STEPS))
    return Distribution(kind="empirical", durations=tuple(max(1, took // 2) for took in quantiles))


def hosts_of(history: History) -> dict[str, str]:
    """The host of each domain that was listed, by its id."""
    listed = (seen.items for seen in history.by_operation("domains.list") if isinstance(seen.items, list))
    domains = (item for items in listed for item in items if isinstance(item, dict))
    return {str(domain.get("id")): str(domain.get("host")) for domain in domains}
