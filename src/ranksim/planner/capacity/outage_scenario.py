"""What an outage of a receiver costs an account of a scenario: its own jobs, when they end (see `outage`).

The scenario is run, and every job of the account that ends is an event. An outage is then followed event by
event from one moment, or from many.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ranksim.core.clock import SECOND, Micros, iso
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.service.events import JobEnded, ServiceEvent
from ranksim.planner.capacity.assumed import with_rank_runs
from ranksim.planner.capacity.common import expect, micros
from ranksim.planner.capacity.outage import (
    MANY,
    Extremes,
    Failure,
    OutageCost,
    OutageOutcome,
    ScenarioOutage,
    attempts_of,
    check_cancels,
    followed,
    mean_of,
)
from ranksim.planner.capacity.planned import account_named
from ranksim.report.progress import Tell, noted
from ranksim.twin.sim.runner import replication_seed
from ranksim.twin.sim.scenario import Scenario, scenario_of
from ranksim.twin.sim.schedule_time import Moment
from ranksim.twin.sim.statistics import SilentTally
from ranksim.twin.sim.world import World

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
    scenario, over which means are taken. Raises BadInput.
    """
    scenario = scenario_of(scenario)
    name, lasts = account_named(scenario, account), micros("length", length)
    if policy is not None:
        scenario = scenario.replace(policy=policy)
    check_cancels(scenario.policy)
    attempts = attempts_of(scenario.policy, failure)
    begins = None if at is None else _moment(at).on(scenario.start)
    if begins is not None and not scenario.start <= begins < scenario.end:
        span = f"from {iso(scenario.start)} until before {iso(scenario.end)}"
        raise BadInput(f"at: expected a moment {span}, found {iso(begins)}")
    outage = ScenarioOutage(scenario.name, name, scenario.start, scenario.length, lasts, failure, begins)
    scenario, notes = with_rank_runs(scenario, name)
    with noted("running the scenario", progress):
        ended = _ended(scenario, name, lasts, replication_seed(seed, 0))
    starts = (
        [begins]
        if begins is not None
        else [
            scenario.start + (2 * step + 1) * scenario.length // (2 * STARTS) // SECOND * SECOND
            for step in range(STARTS)
        ]
    )
    outcomes, ends = [], []
    for start in starts:
        came = np.array(
            ended[bisect_left(ended, start) : bisect_left(ended, start + lasts)], dtype=np.float64
        )
        expect(len(came) <= MANY, "length", f"at most {MANY:,} events in the outage", f"{len(came):,}")
        outcome, end = followed(came - start, lasts, attempts, failure) if len(came) else NOTHING
        outcomes.append(outcome)
        ends.append(end)
    curve = [
        (t, sum(end <= t for end in ends) / len(ends)) for t in (lasts * step // 100 for step in range(101))
    ]
    worst = max(range(len(starts)), key=lambda which: outcomes[which].lost)
    extremes = Extremes(
        sum(not met.events for met in outcomes) / len(outcomes), outcomes[worst].lost, starts[worst]
    )
    of_moments = None if begins is not None else extremes
    return OutageCost(outage, mean_of(outcomes), tuple(curve), {}, of_moments, notes)


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
