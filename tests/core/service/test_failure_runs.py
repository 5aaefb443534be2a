"""How long it takes until an endpoint is disabled, against the mean run of failures known in closed form."""

from math import sqrt
from statistics import fmean, stdev
from typing import Any

import pytest

from ranksim.core import draws
from ranksim.core.clock import MINUTE
from ranksim.core.service.calls import Answer, Attempt

ENDPOINTS = 400


def attempts_until_disabled(desk: Any, number: int, failing: float) -> int:
    """Send test events to a new endpoint that fails at random until it is disabled."""
    endpoint = desk.must(
        desk.call(
            "webhooks.create", {"url": f"https://{number}.example/hook"}, surface="app", account=desk.account
        )
    )["id"]
    who, made = draws.entity(f"endpoint {number}"), 0
    while desk.service.state.endpoints[endpoint].enabled:
        desk.now += MINUTE
        reply = desk.call("webhooks.test", id=endpoint, surface="app", account=desk.account)
        assert reply.status == 202
        tasks = [*desk.tasks, *desk.service.advance(desk.now).tasks]
        desk.tasks.clear()
        for task in tasks:
            if isinstance(task, Attempt):
                made += 1
                fails = draws.uniform(7, who, made, draws.Purpose.RECEIVER) < failing
                desk.service.attempted(task.attempt, Answer(503 if fails else 204), desk.now)
    return made


@pytest.mark.slow
@pytest.mark.fact("S91", "S92")
@pytest.mark.parametrize("failing", [0.85, 0.92])
def test_mean_number_of_attempts_until_twenty_failures_in_a_row(open_desk: Any, failing: float) -> None:
    """A run of n failures takes (1 - p**n) / ((1 - p) p**n) attempts on average (Feller, vol. 1, XIII.7)."""
    desk = open_desk(facts={"webhook_delays": ()})
    runs = [attempts_until_disabled(desk, number, failing) for number in range(ENDPOINTS)]
    expected = (1 - failing**20) / ((1 - failing) * failing**20)
    half_width = 3.3 * stdev(runs) / sqrt(ENDPOINTS)
    assert min(runs) >= 20
    assert abs(fmean(runs) - expected) < half_width
    assert half_width < 0.2 * expected, "the interval is narrow enough to mean something"
