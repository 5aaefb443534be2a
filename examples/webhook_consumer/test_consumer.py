"""The consumer's tests: the API is a fake, time is moved by hand, signatures and retries are the real thing.

Run them with `pytest examples/webhook_consumer`; with RANKSIM_TARGET=server the API listens on a port.
"""

from __future__ import annotations

from typing import Any

import pytest
from consumer import Consumer

from ranksim.core.clock import HOUR, MINUTE
from ranksim.testing import Clock, World

URL = "https://consumer.example"


class Outage:
    """Between the service and the consumer: loses the first attempts of each event, notes when they came.

    With `after` the consumer acts and its answer is lost.
    """

    def __init__(self, app: Any, clock: Clock, attempts: int, *, after: bool = False) -> None:
        self.app, self.clock, self.attempts, self.after = app, clock, attempts, after
        self.came: list[int] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.came.append(self.clock.now)
        lost = int(dict(scope["headers"])[b"service-delivery-attempt"]) <= self.attempts
        if not lost or self.after:
            await self.app(scope, receive, nobody if lost else send)
        if lost:
            await send({"type": "http.response.start", "status": 502, "headers": []})
            await send({"type": "http.response.body", "body": b""})


async def nobody(message: Any) -> None:
    """Whom a lost answer reaches."""


@pytest.fixture
def consumer(ranksim: World) -> Consumer:
    """The consumer, registered for all events and reachable at its URL."""
    secret = ranksim.subscribe(f"{URL}/hooks")["secret"]
    consumer = Consumer(ranksim.client(), secret)
    ranksim.mount(URL, consumer.app)
    return consumer


@pytest.fixture
def job(ranksim: World, consumer: Consumer) -> str:
    """A crawl that has just begun."""
    api = ranksim.client()
    domain = api.post("/v1/domains", json={"host": "example.com"}).json()["data"]["id"]
    return str(api.post("/v1/jobs", json={"kind": "crawl", "domain_id": domain}).json()["data"]["id"])


def test_three_attempts_are_lost_and_the_fourth_arrives_36_minutes_after_the_first(
    ranksim: World, ranksim_clock: Clock, consumer: Consumer, job: str
) -> None:
    outage = Outage(consumer.app, ranksim_clock, attempts=3)
    ranksim.mount(URL, outage)
    ranksim.jobs.fail(job, "robots.txt forbids the crawl")
    ranksim_clock.advance("35m59s")
    assert consumer.failed == {}
    ranksim_clock.advance("1s")
    assert consumer.failed == {job: "robots.txt forbids the crawl"}
    assert [came - outage.came[0] for came in outage.came] == [
        0,
        1 * MINUTE,
        (1 + 5) * MINUTE,
        (1 + 5 + 30) * MINUTE,
    ]


def test_an_event_whose_answer_was_lost_counts_once(
    ranksim: World, ranksim_clock: Clock, consumer: Consumer, job: str
) -> None:
    outage = Outage(consumer.app, ranksim_clock, attempts=1, after=True)
    ranksim.mount(URL, outage)
    ranksim.jobs.fail(job)
    assert consumer.failed.pop(job)
    ranksim_clock.advance("1m")
    assert len(outage.came) == 2
    assert consumer.failed == {}


def test_all_six_attempts_verify_over_eight_hours_and_a_half(
    ranksim: World, ranksim_clock: Clock, consumer: Consumer, job: str
) -> None:
    outage = Outage(consumer.app, ranksim_clock, attempts=6, after=True)
    ranksim.mount(URL, outage)
    ranksim.jobs.fail(job)
    ranksim_clock.advance("24h")
    assert outage.came[-1] - outage.came[0] == 8 * HOUR + 36 * MINUTE
    assert len(outage.came) == 6
    assert consumer.failed == {job: "failed by the test"}


def test_another_secret_is_refused(ranksim: World, consumer: Consumer, job: str) -> None:
    consumer.secret = "whsec_of_somebody_else"
    ranksim.jobs.fail(job)
    (attempt,) = ranksim.client().get("/v1/webhook-deliveries").json()["data"]
    assert attempt["status_code"] == 400
    assert consumer.failed == {}
