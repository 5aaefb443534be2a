"""Outages as simulated worlds show them: a service, a receiver that fails, crawls that end (see `outage`)."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from ranksim.core.clock import HOUR
from ranksim.core.contract.policy import Policy, policy_of
from ranksim.core.contract.quantities import Distribution
from ranksim.core.draws import Purpose, entity, uniform
from ranksim.core.errors import BadInput
from ranksim.inference.counts import counted
from ranksim.inference.shares import chance
from ranksim.planner.capacity.outage import Outage, OutageCost, attempts_of, outage_cost
from ranksim.planner.capacity.worlds import only_plan
from ranksim.report.progress import Tell
from ranksim.twin.sim.receivers import SimulatedReceiver
from ranksim.twin.sim.runner import run
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.world import World

PROMPT = Distribution(kind="constant", durations=(0,))

MANY = 1_000_000
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
    if events > MANY:
        raise BadInput(
            f"replications: expected at most {MANY:,} events in all simulated outages together, found "
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
    who, index = entity("outage/events"), 0
    u = uniform(world.seed, who, index, Purpose.ARRIVAL)
    pause = u * outage.every if outage.law == "regular" else -math.log1p(-u) * outage.every
    while world.now + pause < world.start + outage.length:
        yield world.timeout(round(pause))
        for _ in range(outage.together):
            world.app_call(actor, "jobs.create", {"kind": "crawl", "domain_id": actor.domains[0]})
        index += 1
        u = uniform(world.seed, who, index, Purpose.ARRIVAL)
        pause = outage.every if outage.law == "regular" else -math.log1p(-u) * outage.every
