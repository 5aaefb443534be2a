"""Soundness on scaled and skewed clocks: nothing deviates, whatever the deployment's time is and how it runs.

Rehearsals of every profile in business time as fast as the trace's, 60 and 720 times as fast, on a clock that
agrees with the trace's or is off by seconds or hours, by 1, 5 and 20 users, with replies that are lost and
requests that are late. Weeks and months end while some of the runs go on. The open choices (U) of each
deployment are drawn by its seed, and all stay open to the judges. A few run by default, all with `-m heavy`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random

import pytest
from tests.judge.conformance.test_soundness import QUICK, SLOW, WINDOWS, choices

from ranksim.bridges.rehearsal import START, Network, rehearse
from ranksim.bridges.rehearsal_worlds import OPENED_BEFORE, compact, make_world
from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND, Micros
from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.policy import Policy
from ranksim.core.trace import Trace
from ranksim.judge.conformance.compare import compare
from ranksim.judge.profiles import PROFILES, profile

SCALES = (1, 60, 720)
SKEWS = (0, SECOND, -SECOND, 5 * HOUR, -5 * HOUR)
USERS = (1, 5, 20)
STARTS = (START, START - 10 * HOUR, START - 9 * HOUR - MINUTE)
"""When the deployment's clock begins, skew aside: a Monday morning, an hour and a minute before a Monday."""

AGES = (3 * HOUR, 28 * DAY - HOUR, 28 * DAY - MINUTE)
"""How long before its accounts were opened, in February: a month, an hour or a minute before a month ends."""

NETWORKS = (
    Network(),
    Network(loss=0.03, late=0.03),
    Network(before=SLOW, after=QUICK, loss=0.01, late=0.05, late_by=900_000),
)

LENGTHS: dict[str, Micros] = {"windows": 5 * MINUTE, "calibration": 5 * MINUTE, "ladder": 3 * MINUTE}
"""How long a run takes, where not two minutes."""


@dataclass(frozen=True)
class Run:
    """One rehearsal; what its parameters do not say its seed does."""

    profile: str
    scale: int
    skew: Micros
    users: int
    seed: int

    def __str__(self) -> str:
        return f"{self.profile}-{self.scale}x-{self.skew // SECOND}s-{self.users}-{self.seed}"

    def trace(self) -> Trace:
        """Rehearse it."""
        draw = Random(f"scaled/{self.seed}")
        chosen = {name: value for name, value in choices(draw) if draw.randrange(6) == 0}
        said = Assumptions(**{**chosen, "window": draw.choice(WINDOWS)})
        network, age = draw.choice(NETWORKS), draw.choice(AGES)
        traffic = draw.choice((1, 1, 1, self.scale))
        start, policy = draw.choice(STARTS), compact(Policy(assumptions=said))
        service, target = make_world(policy, self.seed, start + self.skew - age + OPENED_BEFORE)
        target = target.model_copy(
            update={"time_scale": self.scale, "traffic_scale": traffic, "exclusive": draw.random() < 0.8}
        )
        return rehearse(
            profile(self.profile),
            service,
            target,
            users=self.users,
            duration=LENGTHS.get(self.profile, 2 * MINUTE),
            seed=self.seed,
            network=network,
            start=start,
            skew=self.skew,
        )


def runs() -> Iterator[Run]:
    """Give every profile at every scale, skew and number of users."""
    names = [one.name for one in PROFILES]
    for number, (name, scale, skew, users) in enumerate(product(names, SCALES, SKEWS, USERS)):
        yield Run(name, scale, skew, users, 3000 + number)


RUNS = tuple(runs())
ALARMED: tuple[int, ...] = ()
"""Seeds that once raised a false alarm."""

FEW = [run for run in RUNS if run.seed in ALARMED or (run.users != 20 and run.seed % 23 == 0)]


@pytest.mark.slow
@pytest.mark.parametrize("run", FEW, ids=str)
def test_nothing_deviates(run: Run) -> None:
    broken = [(one.rule.name, one.evidence[0]) for one in compare(run.trace()).deviating]
    assert broken == []


@pytest.mark.heavy
@pytest.mark.parametrize("run", RUNS, ids=str)
def test_nothing_deviates_in_any_run(run: Run) -> None:
    test_nothing_deviates(run)
