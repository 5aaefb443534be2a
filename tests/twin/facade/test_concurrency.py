"""Two hundred clients at once want the last of something: one gets it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from ranksim.core.clock import instant
from ranksim.core.contract.policy import Policy
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.listener import Listener

START = instant("2026-03-04T10:00:00Z")

CLIENTS = 200

PLAN: dict[str, Any] = {
    "price": "0 USD",
    "capabilities": ("rank_tracking", "site_crawl", "keyword_briefs"),
    "quotas": {"keyword_brief_refreshes": {"limit": 3, "period": "week", "consumed_by": ("keyword_briefs",)}},
    "slot_limit": 3,
    "dimensions": {"max_engine_devices": 1, "max_geographies": 1},
    "cost_ceiling": "1000 USD",
    "cooldowns": {"rank_run": "1h", "crawl": "1d", "site_optimization": "1d", "ai_scan": "0s"},
    "page_cap": 10,
    "call_cap": 10,
}
"""Three briefs a week, three slots, one crawl a day."""

POLICY = Policy().replace(
    facts={"rates": {"read": 10_000, "write": 10_000, "expensive": 10_000}},
    catalogue={"plans": {"tight": PLAN}},
)


class Crowd:
    """A served twin whose account has a domain and a list that is tracked, with two words in it."""

    def __init__(self, twin: Twin, url: str, client: httpx.AsyncClient) -> None:
        self.twin, self.url, self.client = twin, url, client

    async def made(self, path: str, body: dict[str, Any]) -> Any:
        response = await self.client.post(path, json=body)
        assert response.status_code < 300, response.text
        return response.json()["data"]

    async def furnish(self) -> None:
        self.domain = (await self.made("/v1/domains", {"host": "a.example"}))["id"]
        self.list = (await self.made("/v1/keyword-lists", {"domain_id": self.domain, "name": "l"}))["id"]
        await self.made("/v1/keywords", {"list_id": self.list, "keywords": ["one", "two"]})
        scan = {
            "domain_id": self.domain, "list_ids": [self.list], "engine_devices": ["google/desktop"],
            "geographies": [{"country": "DE"}],
        }  # fmt: skip
        await self.made("/v1/scans", scan)

    async def at_once(
        self, path: str, bodies: list[dict[str, Any]], headers: dict[str, str] | None = None
    ) -> list[httpx.Response]:
        """Send all of these on connections of their own."""
        return await asyncio.gather(*(self.client.post(path, json=body, headers=headers) for body in bodies))


@asynccontextmanager
async def crowd() -> AsyncIterator[Crowd]:
    twin = Twin(POLICY, clock="manual", start=START, sender=Scripted(), plan="tight")
    listener = await Listener(Facade(twin)).open()
    headers = {"authorization": f"Bearer {twin.keys['production']}"}
    limits = httpx.Limits(max_connections=CLIENTS)
    try:
        async with httpx.AsyncClient(
            base_url=listener.url, headers=headers, limits=limits, timeout=600
        ) as client:
            made = Crowd(twin, listener.url, client)
            await made.furnish()
            yield made
    finally:
        await listener.close()
        await twin.close()


def outcomes(responses: list[httpx.Response]) -> Counter[tuple[int, str]]:
    return Counter((one.status_code, one.json().get("code", "")) for one in responses)


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.fact("E14", "S63")
def test_the_last_unit_of_a_quota_is_sold_once() -> None:
    async def story() -> None:
        async with crowd() as those:
            briefs = [{"domain_id": those.domain, "keywords": [f"w{n}"]} for n in range(CLIENTS + 2)]
            await those.made("/v1/keyword-briefs", briefs.pop())
            await those.made("/v1/keyword-briefs", briefs.pop())
            found = outcomes(await those.at_once("/v1/keyword-briefs", briefs))
            assert found == {(201, ""): 1, (402, "quota_exhausted"): CLIENTS - 1}
            usage = (await those.client.get("/v1/account/usage")).json()["data"]["metrics"]
            assert [one["used"] for one in usage if one["metric"] == "keyword_brief_refreshes"] == [3]
            assert len((await those.client.get("/v1/keyword-briefs")).json()["data"]) == 3

    run(story)


@pytest.mark.slow
@pytest.mark.fact("S64")
def test_the_last_slot_is_taken_once() -> None:
    async def story() -> None:
        async with crowd() as those:
            bodies = [{"list_id": those.list, "keywords": [f"w{n}"]} for n in range(CLIENTS)]
            found = outcomes(await those.at_once("/v1/keywords", bodies))
            assert found == {(201, ""): 1, (402, "slot_limit_exceeded"): CLIENTS - 1}
            slots = (await those.client.get("/v1/slots")).json()["data"]
            assert (slots["used"], slots["available"]) == (3, 0)

    run(story)


@pytest.mark.slow
@pytest.mark.fact("S65", "E10")
def test_one_cooldown_lets_one_run_through() -> None:
    async def story() -> None:
        async with crowd() as those:
            bodies = [{"kind": "crawl", "domain_id": those.domain}] * CLIENTS
            found = outcomes(await those.at_once("/v1/jobs", bodies))
            assert found == {(202, ""): 1, (409, "cooldown_active"): CLIENTS - 1}
            assert len(those.twin.service.state.jobs) == 1

    run(story)


@pytest.mark.slow
@pytest.mark.fact("E7", "S47", "U18")
def test_one_idempotency_key_executes_once_and_the_others_get_its_reply_or_409() -> None:
    async def story() -> None:
        async with crowd() as those:
            bodies = [{"kind": "crawl", "domain_id": those.domain}] * CLIENTS
            responses = await those.at_once("/v1/jobs", bodies, {"idempotency-key": "one"})
            found = outcomes(responses)
            assert set(found) <= {(202, ""), (409, "idempotency_in_progress")}
            assert found[202, ""] >= 1
            assert len({one.content for one in responses if one.status_code == 202}) == 1
            fresh = [
                one
                for one in responses
                if one.status_code == 202 and "idempotent-replayed" not in one.headers
            ]
            assert len(fresh) == 1
            assert len(those.twin.service.state.jobs) == 1

    run(story)


@pytest.mark.slow
@pytest.mark.fact("E7", "U18", "U92")
def test_while_the_first_reply_is_not_written_all_others_get_409() -> None:
    async def story() -> None:
        async with crowd() as those:
            losers, first = asyncio.Event(), True

            async def commit() -> None:
                nonlocal first
                if first:
                    first = False
                    await losers.wait()

            those.twin.commit = commit
            sent = {"idempotency-key": "one"}
            body = {"kind": "crawl", "domain_id": those.domain}
            winner = asyncio.ensure_future(those.client.post("/v1/jobs", json=body, headers=sent))
            while first:
                await asyncio.sleep(0)
            found = outcomes(await those.at_once("/v1/jobs", [body] * (CLIENTS - 1), sent))
            assert found == {(409, "idempotency_in_progress"): CLIENTS - 1}
            losers.set()
            assert (await winner).status_code == 202
            replay = await those.client.post("/v1/jobs", json=body, headers=sent)
            assert replay.content == (await winner).content
            assert len(those.twin.service.state.jobs) == 1

    run(story)


@pytest.mark.slow
@pytest.mark.fact("E8")
def test_all_join_one_rank_run() -> None:
    async def story() -> None:
        async with crowd() as those:
            bodies = [{"kind": "rank_run", "domain_id": those.domain}] * CLIENTS
            responses = await those.at_once("/v1/jobs", bodies)
            assert outcomes(responses) == {(202, ""): 1, (200, ""): CLIENTS - 1}
            assert len({one.json()["data"]["id"] for one in responses}) == 1

    run(story)
