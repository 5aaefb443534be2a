"""How receivers answer, fitted to delivery attempts: what was planted is recovered."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ranksim.core.clock import MILLISECOND, SECOND
from ranksim.core.contract.located import Located
from ranksim.core.service.deliveries import show_attempt
from ranksim.judge.mirror.fitted import FEWEST
from ranksim.judge.mirror.receivers import CYCLE, fit_receivers
from ranksim.twin.sim.receivers import ReceiverSpec
from ranksim.twin.sim.scenario import Scenario
from ranksim.twin.sim.world import World

WORLDS = 200
FIRST = 6_200


def attempts_of(seed: int, median: int, sigma: float, script: list[int]) -> list[Any]:
    """The attempts of a world whose receiver answers so, as the API lists them."""
    scenario = Scenario.read(Located("planted", {
            "start": "2026-03-02T00:00:00Z", "length": "12d", "seed": seed,
            "accounts": {"acme": {"plan": "agency", "portfolio": {"domains": 5, "keywords": 3}}},
            "clients": {"runs": {"kind": "schedule", "account": "acme", "job": "rank_run", "every": "day"}},
            "pools": {"rank_run": {"capacity": "unlimited", "duration": "2m", "failure_rate": 0}},
            "receivers": {
                "erp": {
                    "account": "acme", "latency": {"lognormal": {"median": f"{median}us", "sigma": sigma}},
                    "script": script, "script_by": "cycle",
                }
            },
        }, {}))  # fmt: skip
    world = World(scenario)
    world.run()
    return [show_attempt(record) for record in world.service.state.attempts.values()]


@pytest.mark.slow
def test_planted_latencies_are_within_their_intervals_in_95_of_100_worlds() -> None:
    """Binomial: of 200 worlds with a coverage of 95 %, fewer than 181 are seen once in 200 times."""
    within = 0
    for seed in range(FIRST, FIRST + WORLDS):
        draw = random.Random(seed)
        median, sigma = draw.randrange(100 * MILLISECOND, SECOND), draw.uniform(0.1, 0.6)
        [fitted] = fit_receivers(attempts_of(seed, median, sigma, [200])).values()
        found = fitted.answers.median
        assert found.low is not None
        assert found.high is not None
        within += found.low - MILLISECOND <= median <= found.high + MILLISECOND  # the API shows whole ms
    print(f"within their intervals, from seed {FIRST}: {within} medians of {WORLDS}")
    assert within >= 181


def test_failures_are_as_often_as_they_were_and_as_they_were() -> None:
    [fitted] = fit_receivers(attempts_of(1, 200 * MILLISECOND, 0.0, [200, 200, 200, 503])).values()
    spec = ReceiverSpec.model_validate(
        {"account": "acme"} | fitted.spec | {"script": tuple(fitted.spec["script"])}
    )
    assert spec.latency.durations == (200 * MILLISECOND,)
    assert spec.script is not None
    assert (spec.script_by, spec.script.count(503), len(spec.script)) == ("cycle", CYCLE // 4, CYCLE)
    assert "answered in 200ms, 24.1 (15.1 to 35) % fail" in fitted.sentence("erp")


def test_an_endpoint_without_answers_has_no_latency() -> None:
    silent = {"endpoint_id": "a", "status_code": None, "duration_ms": 10_000}
    answered = {"endpoint_id": "b", "status_code": 200, "duration_ms": 3}
    assert fit_receivers([silent] * FEWEST + [answered] * (FEWEST - 1)) == {}
    [fitted] = fit_receivers([silent | {"endpoint_id": "b"}] * FEWEST + [answered] * FEWEST).values()
    assert (fitted.failure, fitted.answers.failed.mean, fitted.answers.count) == ("refused", 0.5, 2 * FEWEST)
