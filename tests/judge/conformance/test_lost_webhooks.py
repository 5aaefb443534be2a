"""Soundness where webhooks are lost: nothing deviates though attempts and answers go astray.

Rehearsals of the profiles that use webhooks, with clocks that are off or run faster, senders that crash and
make an attempt again, and open choices (U) of webhooks drawn by the seed. A few run by default, many with
`-m heavy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from tests.kit.traces import policy_of

from ranksim.bridges.rehearsal import START, Network, rehearse
from ranksim.bridges.rehearsal_worlds import compact, make_world
from ranksim.core.clock import HOUR, MILLISECOND, MINUTE, SECOND
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.quantities import Distribution
from ranksim.core.service.calls import Answer, Attempt, Call, Reply, Step
from ranksim.core.service.service import Service
from ranksim.core.trace import DeliveryAttempt, Trace
from ranksim.judge.conformance.compare import compare
from ranksim.judge.profiles import profile

CHOICES: tuple[dict[str, Any], ...] = (
    {},
    {"retry_from": "first_attempt"},
    {"retry_jitter_percent": 10},
    {"failure_counted": "event"},
    {"signature_time": "first"},
    {"on_disable": "pause", "count_on_enable": "kept"},
    {"idempotency_stores": "success", "replay_header": None, "in_flight_until": "never"},
    {"idempotency_scope": "account", "fingerprint": "raw", "page_limit_over": "refuse"},
    {
        "retry_from": "first_attempt",
        "retry_jitter_percent": 10,
        "failure_counted": "event",
        "signature_time": "first",
        "on_disable": "pause",
    },
)


class Shaky:
    """A service of whose webhooks a share is lost: on the way there, or the answers on the way back."""

    def __init__(self, service: Service, draw: Random, share: float) -> None:
        self.service, self.draw, self.share = service, draw, share
        self.out: dict[int, tuple[str, str, str]] = {}
        self.lost: set[tuple[str, str, str]] = set()

    def handle(self, call: Call, now: int, traffic_now: int | None = None) -> Step:
        return self._noted(self.service.handle(call, now, traffic_now))

    @property
    def policy(self) -> Policy:
        return self.service.policy

    def handle_batch(self, calls: Sequence[Call], now: int, traffic_now: int | None = None) -> Step:
        return self._noted(self.service.handle_batch(calls, now, traffic_now))

    def advance(self, now: int) -> Step:
        return self._noted(self.service.advance(now))

    def next_due(self) -> int | None:
        return self.service.next_due()

    def started(self, job: str, now: int) -> Step:
        return self._noted(self.service.started(job, now))

    def ended(self, job: str, outcome: str, now: int) -> Step:
        return self._noted(self.service.ended(job, outcome, now))

    def written(self, reply: Reply, now: int) -> None:
        self.service.written(reply, now)

    def attempted(self, attempt: int, answer: Answer, now: int) -> Step:
        if self.draw.random() < self.share:
            if self.draw.randrange(2):
                self.lost.add(self.out[attempt])
            answer = Answer(None, "connection reset", answer.duration)
        return self._noted(self.service.attempted(attempt, answer, now))

    def _noted(self, step: Step) -> Step:
        for task in step.tasks:
            if isinstance(task, Attempt):
                path = task.url.removeprefix("https://receiver.rehearsal.example")
                self.out[task.attempt] = (path, task.event, str(task.number))
        return step


def named(came: DeliveryAttempt) -> tuple[str, str, str]:
    headers = came.headers
    return came.endpoint, headers["service-event-id"], headers["service-delivery-attempt"]


def a_run(name: str, seed: int) -> Trace:
    draw = Random(f"{name}/{seed}")
    policy = compact(policy_of(**draw.choice(CHOICES)))
    scale = draw.choice((1, 1, 60, 720))
    slow = Distribution(kind="lognormal", durations=(draw.choice((10, 200)) * MILLISECOND,), sigma=0.8)
    share = draw.choice((0.0, 0.05, 0.2))
    network = Network(slow, slow, draw.choice((0.0, 0.02, 0.1)), late=draw.choice((0.0, 0.05)), hook=slow)
    skew = draw.choice((0, 37 * SECOND + 123, -5 * HOUR))
    users = draw.choice((None, 2, 12))
    service, target = make_world(policy, seed, START + skew)
    target = target.model_copy(update={"time_scale": scale})
    shaky = Shaky(service, draw, share)
    used = profile(name)
    trace = rehearse(
        used,
        shaky,
        target,
        users=users,
        duration=min(used.duration, 5 * MINUTE) if scale > 1 else used.duration,
        seed=seed,
        network=network,
        skew=skew,
    )
    crashed = draw.choice((0.0, 0.02))
    trace.deliveries = [
        twin
        for came in trace.deliveries
        if named(came) not in shaky.lost
        for twin in ([came] if draw.random() >= crashed else [_first_try(came), came])
    ]
    return trace


def _first_try(came: DeliveryAttempt) -> DeliveryAttempt:
    """Give the same attempt just before, of whose answer the sender did not live to hear."""
    answered = None if came.answered is None else came.answered - INSTANT
    return came.model_copy(update={"received": came.received - INSTANT, "answered": answered})


INSTANT = MILLISECOND // 5
"""Less than any webhook is on its way, so that it does not come before what it tells of."""

RUNS = [(name, seed) for seed in range(2) for name in ("webhooks", "retry", "everyday", "webhooks-long")]
MANY = [(name, seed) for seed in range(2, 40) for name in ("webhooks", "webhooks-long", "calibration")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), RUNS)
def test_nothing_deviates(name: str, seed: int) -> None:
    print(f"profile {name}, seed {seed}")
    assert compare(a_run(name, seed)).deviating == ()


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "seed"), MANY)
def test_nothing_deviates_in_many_runs(name: str, seed: int) -> None:
    test_nothing_deviates(name, seed)
