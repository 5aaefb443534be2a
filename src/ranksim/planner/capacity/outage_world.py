"""Outages in simulated worlds: that of `outage` beside its formula, and one that meets a scenario's own jobs.

Of a scenario every job of the account that ends is an event; an outage is then followed event by event from
one moment, or from many.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from ranksim.core.clock import HOUR, SECOND, Micros, iso
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.contract.quantities import Distribution, Moment
from ranksim.core.draws import Purpose, entity, uniform
from ranksim.core.errors import BadInput
from ranksim.core.service.events import JobEnded, ServiceEvent
from ranksim.inference.counts import counted
from ranksim.inference.shares import chance
from ranksim.planner.capacity.assumed import starts_jobs, with_rank_runs
from ranksim.planner.capacity.common import (
    expect,
    micros,
    only_plan,
)
from ranksim.planner.capacity.outage import (
    MANY,
    Attempts,
    Extremes,
    Failure,
    Outage,
    OutageCost,
    OutageOutcome,
    ScenarioOutage,
    attempts_of,
    averaged,
    check_cancels,
    followed,
    outage_cost,
)
from ranksim.planner.capacity.planned import name_of_account
from ranksim.report.progress import Tell, noted
from ranksim.twin.sim.receivers import SimulatedReceiver
from ranksim.twin.sim.runner import replication_seed, run
from ranksim.twin.sim.scenario import Scenario, scenario_of
from ranksim.twin.sim.scenario_fields import scenario_notes
from ranksim.twin.sim.settings import after, in_order
from ranksim.twin.sim.statistics import SilentTally
from ranksim.twin.sim.timeline import OfReceiver, behaviour_of, counted_actions
from ranksim.twin.sim.world import World

PROMPT = Distribution(kind="constant", durations=(0,))

MANY_EVENTS = 1_000_000
"""Events of all simulated outages together; more would take minutes."""

METRICS = {
    "events": "events",
    "delayed": "acknowledged",
    "exhausted": "lost_exhausted",
    "cancelled": "lost_cancelled",
    "suppressed": "lost_suppressed",
    "duplicates": "duplicates",
    "disabled": "disabled",
}
"""The metric of a simulated endpoint that shows a number of the outcome."""


def simulate_outage(
    outage: Outage,
    policy: Policy | str | Path | None = None,
    *,
    replications: int = 100,
    seed: int = 1,
    progress: Tell | None = None,
) -> OutageCost:
    """Answer as `outage_cost`, with what so many simulated outages showed beside it.

    Crawls that take no time and cost nothing end as the events come; a receiver of the simulation fails
    meanwhile. Intervals are those of counts, and of the chance of being disabled. As the events of an outage
    share its fate, what befell none of them might befall all of one more. `progress` is told how far it is.
    Raises BadInput.
    """
    policy = policy_of(policy)
    events = outage.together * outage.length // outage.every * replications
    if events > MANY_EVENTS:
        raise BadInput(
            f"replications: expected at most {MANY_EVENTS:,} events in all simulated outages together, found "
            f"{events:,}; give fewer, or 0 for what is computed alone"
        )
    computed = outage_cost(outage, policy)
    scenario = _scenario(outage, policy)

    def world(scenario: Scenario, **options: Any) -> World:
        made = World(scenario, **options)
        made.process(_events(made, outage))
        if outage.failure == "late":
            made.at(made.start + outage.length, _recover, made.receivers["erp"])
        return made

    result = run(scenario, seed=seed, replications=replications, world=world, progress=progress)
    values = {name: result.values(f"endpoints.erp.{metric}") for name, metric in METRICS.items()}
    came = [value or 0.0 for value in values["events"]]
    each = max(1.0, fmean(came))
    seen = {
        name: counted([value or 0.0 for value in counts], together=each) for name, counts in values.items()
    }
    seen["events"] = counted(came, together=outage.together)
    hits = sum(bool(value) for value in values["disabled"])
    return replace(computed, simulated=seen | {"disabled": chance(hits, len(came))})


def _scenario(outage: Outage, policy: Policy) -> Scenario:
    failing: dict[str, Any] = {"outages": ({"from": 0, "for": outage.length},)}
    if outage.failure == "late":
        failing = {"latency": 2 * policy.facts.webhook_timeout}
    return Scenario.model_validate(
        {
            "name": "outage",
            "start": 0,
            "length": outage.length + attempts_of(policy, outage.failure).failed[-1] + HOUR,
            "policy": only_plan(policy, page_cap=0),  # crawls of no pages cost nothing
            "accounts": {"acme": {"plan": "capacity", "portfolio": {"domains": 1, "scans": ()}}},
            "pools": {"crawl": {"capacity": "unlimited", "duration": 0, "failure_rate": 0.0}},
            "receivers": {"erp": {"account": "acme", "latency": 0} | failing},
        }
    )


def _recover(receiver: SimulatedReceiver) -> None:
    """Let a receiver that was late answer at once."""
    receiver.spec = receiver.spec.model_copy(update={"latency": PROMPT})


def _events(world: World, outage: Outage) -> Generator[Any, Any, None]:
    """End crawls as the outage's events come: groups at random, or every so often from a drawn phase on."""
    actor = world.actors["acme"]
    for index in count():
        u = uniform(world.seed, entity("outage/events"), index, Purpose.ARRIVAL)
        pause = -math.log1p(-u) * outage.every
        if outage.law == "regular":
            pause = outage.every if index else u * outage.every
        if world.now + pause >= world.start + outage.length:
            return
        yield world.timeout(round(pause))
        for _ in range(outage.together):
            world.app_call(actor, "jobs.create", {"kind": "crawl", "domain_id": actor.domains[0]})


# Of a scenario: its own jobs, when they end


STARTS = 10_000
"""Beginnings of the outage over which a mean is taken: the middles of equal parts of the scenario."""

NOTHING = OutageOutcome(*[0.0] * 7), math.inf
"""What an outage that meets no event comes to, and when it disables."""


def scenario_outage(
    scenario: Scenario | str | Path,
    length: Micros | str,
    *,
    account: str = "",
    at: Moment | str | None = None,
    failure: Failure = "down",
    policy: Policy | str | Path | None = None,
    seed: int = 1,
    progress: Tell | None = None,
) -> OutageCost:
    """Compute what an outage of so long (µs, or text) costs an account, the only one unless it is named.

    It begins `at` a moment ("2d1h" after the scenario's start, or an instant), or at any moment of the
    scenario, over which means are taken. What the timeline sets of deliveries by then holds; what it does to
    receivers is left out. Where no client of the account starts jobs, its ranks are taken to be run daily.
    Raises BadInput.
    """
    scenario = scenario_of(scenario)
    name, lasts = name_of_account(scenario, account), micros("length", length)
    if policy is not None:
        scenario = scenario.replace(policy=policy_of(policy))
    begins = None if at is None else _moment(at).on(scenario.start)
    if begins is not None and not scenario.start <= begins < scenario.end:
        span = f"from {iso(scenario.start)} until before {iso(scenario.end)}"
        raise BadInput(f"at: expected a moment {span}, found {iso(begins)}")
    outage = ScenarioOutage(scenario.name, name, scenario.start, scenario.length, lasts, failure, begins)
    stages, notes = _stages(scenario, begins, failure), tuple(_of_timeline(scenario, name))
    if not starts_jobs(scenario, name):
        scenario, runs = with_rank_runs(scenario, name)
        notes = (*runs, *notes)
    with noted("running the scenario", progress):
        ended = _ended(scenario, name, lasts, replication_seed(seed, 0))
    starts = [] if begins is None else [begins]
    if begins is None:
        middles = ((2 * step + 1) * scenario.length // (2 * STARTS) for step in range(STARTS))
        starts = [scenario.start + middle // SECOND * SECOND for middle in middles]
    outages = []
    for start in starts:
        came = np.array(
            ended[bisect_left(ended, start) : bisect_left(ended, start + lasts)], dtype=np.float64
        )
        expect(len(came) <= MANY, "length", f"at most {MANY:,} events in the outage", f"{len(came):,}")
        attempts = stages[bisect_right(stages, start, key=attrgetter("since")) - 1].attempts
        outages.append(followed(came - start, lasts, attempts, failure) if len(came) else NOTHING)
    extremes = None
    if begins is None:
        quiet = sum(not met.events for met, _ in outages) / len(outages)
        losses = [met.lost for met, _ in outages]
        most = max(losses)
        extremes = Extremes(quiet, most, starts[losses.index(most)])
    expected, curve, disabled_at = averaged(outages, lasts)
    assumed = (*scenario_notes(scenario), *notes)
    return OutageCost(outage, expected, curve, {}, extremes, assumed, disabled_at, _rule(stages))


class _Stage(NamedTuple):
    """How what fails in an outage that begins `since` an instant (µs) or later is attempted again."""

    since: Micros
    attempts: Attempts


def _stages(scenario: Scenario, begins: Micros | None, failure: Failure) -> list[_Stage]:
    """Return the stages in which outages begin, as the timeline sets them. Raises BadInput."""
    first, last = (scenario.start, scenario.end - 1) if begins is None else (begins, begins)
    policies = {scenario.start: scenario.policy}
    for _, action in in_order(scenario):
        scenario = after(scenario, action)
        policies[action.at.on(scenario.start)] = scenario.policy
    instants = [at for at in policies if at <= last]
    stages = list[_Stage]()
    for at in instants[bisect_right(instants, first) - 1 :]:
        try:
            check_cancels(policies[at])
            attempts = attempts_of(policies[at], failure)
        except BadInput as error:
            raise BadInput(f"{error}" if at == scenario.start else f"{error}, as of {iso(at)}") from None
        if not stages or stages[-1].attempts != attempts:
            stages.append(_Stage(at, attempts))
    return stages


def _rule(stages: Sequence[_Stage]) -> str:
    """Say what disables an endpoint, and from when on it is something else."""
    first, *later = stages
    rules = [first.attempts.rule]
    for before, stage in zip(stages, later, strict=False):
        if stage.attempts.rule != before.attempts.rule:
            rules.append(f"From {iso(stage.since)} on: {stage.attempts.rule}")
    return " ".join(rules)


OF_DELIVERIES = (
    "policy.facts.webhook_",
    *(f"policy.assumptions.{name}" for name in ("retry_", "failure_counted", "on_disable")),
)
"""How paths begin that lead to how deliveries are attempted."""


def _of_timeline(scenario: Scenario, account: str) -> Iterator[str]:
    """Yield what an outage has of the timeline beside the jobs of the run, and what it leaves out."""
    sets = [action for _, action in in_order(scenario) if action.path.startswith(OF_DELIVERIES)]
    if sets:
        texts = (f"{action.path} at {iso(action.at.on(scenario.start))}" for action in sets)
        yield (
            f"The timeline sets {', '.join(texts)}: that holds for outages that begin then or later, and one "
            "under way goes on as it began."
        )
    names = {name for name, receiver in scenario.receivers.items() if receiver.account == account}
    left_out = [
        action
        for action in scenario.timeline
        if (action.receiver if isinstance(action, OfReceiver) else behaviour_of(action)) in names
    ]
    if left_out:
        yield (
            "Receivers are taken to be healthy before and after the outage: left out is what the timeline "
            f"does to them ({counted_actions(left_out)}). `ranksim run` simulates it."
        )


def _moment(at: Moment | str) -> Moment:
    if isinstance(at, Moment):
        return at
    try:
        return Moment.model_validate(at)
    except ValueError:
        raise BadInput(f"at: write a time since the start such as 2d, or an instant, found {at!r}") from None


class _Ends(SilentTally):
    """Keeps when jobs of one account end."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario.start, scenario.length, scenario.length)
        self.account = ""
        self.ended: list[Micros] = []

    def observe(self, events: Iterable[ServiceEvent]) -> None:
        """Look at jobs that ended."""
        self.ended += [e.at for e in events if isinstance(e, JobEnded) and e.account == self.account]


def _ended(scenario: Scenario, account: str, longer: Micros, seed: int) -> list[Micros]:
    """When jobs of an account end, in a run so much longer, for outages that begin at its end."""
    length = scenario.length + longer
    run = scenario.model_copy(update={"length": length, "sample_every": length, "expect": ()})
    tally = _Ends(run)
    world = World(run, seed=seed, tally=tally)
    tally.account = world.actors[account].account
    world.run()
    return sorted(tally.ended)
