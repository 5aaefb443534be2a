"""The metrics, read back with Prometheus's own parser, and the probes beside them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from ranksim.core.clock import MINUTE, SECOND, instant
from ranksim.core.contract.policy import Policy
from ranksim.core.service.calls import Answer
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin

START = instant("2026-03-04T10:00:00Z")

POLICY = Policy().replace(catalogue={"job_durations": {"crawl": "20m"}})

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def make(**options: Any) -> Twin:
    return Twin(POLICY, **{"clock": "manual", "start": START, "sender": Scripted()} | options)


@asynccontextmanager
async def direct(twin: Twin) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {twin.keys['production']}"}
    transport = httpx.ASGITransport(Facade(twin))
    async with httpx.AsyncClient(transport=transport, base_url="http://twin", headers=headers) as client:
        yield client
    await twin.close()


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())


async def scraped(client: httpx.AsyncClient) -> Samples:
    from prometheus_client.parser import text_string_to_metric_families

    response = await client.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(response.text))
    assert all(family.documentation and family.type in ("counter", "gauge") for family in families)
    assert len({family.name for family in families}) == len(families)
    return {
        (sample.name.removeprefix("ranksim_"), frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0.0)


def test_requests_are_counted_by_operation_and_status() -> None:
    async def story() -> None:
        async with direct(make()) as client:
            for body in ({"host": "a.example"}, {"host": "b.example"}, {}):
                await client.post("/v1/domains", json=body)
            await client.get("/v1/nothing")
            await client.post("/graphql", json={"query": "{ domains { nodes { id } } slots { used } }"})
            samples = await scraped(client)
            counted = {key: count for key, count in samples.items() if key[0] == "requests_total"}
            assert counted == {
                ("requests_total", frozenset({("operation", operation), ("status", status)})): count
                for operation, status, count in (
                    ("", "404", 1),
                    ("domains.create", "201", 2),
                    ("domains.create", "422", 1),
                    ("domains.list", "200", 1),
                    ("slots.get", "200", 1),
                )
            }
            assert sum(counted.values()) == 6

    run(story)


def test_jobs_attempts_and_due_work_are_counted() -> None:
    answers = [Answer(500), Answer(None, "timeout"), Answer(200, duration=11 * SECOND), Answer(204)]

    async def story() -> None:
        twin = make(sender=Scripted(lambda attempt: answers[attempt.number - 1]))
        async with direct(twin) as client:
            await client.post("/v1/webhooks", json={"url": "https://hooks.example"})
            domain = (await client.post("/v1/domains", json={"host": "a.example"})).json()["data"]["id"]
            await client.post("/v1/jobs", json={"kind": "crawl", "domain_id": domain})
            before = await scraped(client)
            assert value(before, "jobs", kind="crawl", status="running") == 1
            assert value(before, "due_work") == 1
            assert value(before, "next_due_seconds") == (START + 20 * MINUTE) / SECOND
            assert value(before, "attempts_out") == 0
            await twin.advance(by=60 * MINUTE)
            after = await scraped(client)
            assert value(after, "jobs", kind="crawl", status="done") == 1
            assert value(after, "jobs", kind="crawl", status="running") == 0
            assert value(after, "attempts_total", outcome="rejected") == 1
            assert value(after, "attempts_total", outcome="unanswered") == 2
            assert value(after, "attempts_total", outcome="acknowledged") == 1
            assert value(after, "due_work") == 0
            assert ("next_due_seconds", frozenset()) not in after
            assert value(after, "happenings_total") == twin.event_log.last

    run(story)


@pytest.mark.parametrize(
    ("clock", "rate"), [("manual", 0), ("scaled:60", 60), ("scaled:1/4", 0.25), ("real", 1)]
)
def test_the_clock_and_the_world_are_told(clock: str, rate: float) -> None:
    async def story() -> None:
        twin = make(clock=clock, read_wall=lambda: START)
        async with direct(twin) as client:
            samples = await scraped(client)
            assert value(samples, "clock_seconds") == START / SECOND
            assert value(samples, "clock_rate", mode=clock.partition(":")[0]) == rate
            assert value(samples, "world_info", world_id=twin.world_id) == 1

    run(story)


def test_faults_are_counted() -> None:
    async def story() -> None:
        async with direct(make()) as client:
            await client.post("/_ranksim/faults", json={"error_rate": 1, "times": 2})
            for _ in range(3):
                await client.get("/v1/domains")
            samples = await scraped(client)
            assert value(samples, "faults_total", fault="fault_1", effect="failed") == 2
            assert value(samples, "requests_total", operation="domains.list", status="500") == 2
            assert value(samples, "requests_total", operation="domains.list", status="200") == 1

    run(story)


def test_labels_are_escaped() -> None:
    async def story() -> None:
        twin = make()
        twin.world_id = 'a"b\\c\nd'
        async with direct(twin) as client:
            assert value(await scraped(client), "world_info", world_id='a"b\\c\nd') == 1

    run(story)


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_probes_answer_without_a_key(path: str) -> None:
    async def story() -> None:
        twin = make()
        async with direct(twin) as client:
            response = await client.get(path, headers={"authorization": ""})
            assert (response.status_code, response.text) == (200, "ok\n")
            assert not twin.replies

    run(story)
