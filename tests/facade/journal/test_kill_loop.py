"""kill -9 of a real server under load, again and again: nothing acknowledged is lost, nothing is done twice.

    pytest -m heavy tests/facade/test_kill_loop.py

RANKSIM_KILLS sets how many times (default 200), RANKSIM_KILL_SEED the moments.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from ranksim.contract.policy import Policy
from ranksim.rules.webhooks import verify
from ranksim.serving.listener import Listener, bound

KILLS = int(os.environ.get("RANKSIM_KILLS", "200"))
SEED = int(os.environ.get("RANKSIM_KILL_SEED", "1"))
WORKERS = 8
CLOCK = "scaled:600"
LONGEST_LIFE_S = 2.0

POLICY = Policy().replace(
    facts={"webhook_disable_after": 10**6},
    catalogue={
        "job_durations": {"crawl": "3m", "rank_run": "1m", "site_optimization": "1m", "ai_scan": "1m"},
        "plans": {"agency": {"cost_ceiling": "1000000 USD"}},
    },
)


def failing(event: str) -> int:
    """How many attempts of an event the receiver refuses: 0 to 3, so that retries take up to 36 minutes."""
    return sum(event.encode()) % 4


@dataclass
class Receiver:
    """A webhook receiver, which notes what came while which server lived."""

    generation: int = 0
    secret: str = ""
    came: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """Event id to (attempt number, generation), as they came."""
    jobs: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Job id to the ids of events about it."""
    wrong: list[str] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): text.decode() for name, text in scope["headers"]}
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            body, more = body + message.get("body", b""), message.get("more_body", False)
        event, number = headers["service-event-id"], int(headers["service-delivery-attempt"])
        if not verify(self.secret, headers["service-signature"], body, int(time.time())):
            self.wrong.append(f"signature of {event}, attempt {number}")
        self.came[event].append((number, self.generation))
        if "job" in (data := json.loads(body)["data"]):
            self.jobs[data["job"]["id"]].add(event)
        status = 500 if number <= failing(event) else 200
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


class Server:
    """`ranksim serve --state`, which is killed and started again at the same address."""

    def __init__(self, place: Path) -> None:
        (place / "policy.yaml").write_text(POLICY.dump())
        with bound("127.0.0.1", 0) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = place / "server.log"
        self.command = [
            *(
                sys.executable,
                "-m",
                "ranksim",
                "serve",
                "--json",
                "--port",
                str(self.port),
                "--plan",
                "agency",
            ),
            *("--policy", str(place / "policy.yaml"), "--state", str(place / "state"), "--clock", CLOCK),
            *("--signature-clock", "wall"),
        ]
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.command, stdout=asyncio.subprocess.PIPE, stderr=log
            )

    async def ready(self) -> dict[str, str]:
        """Wait for the line that says where it serves."""
        assert self.process is not None
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        assert line, self.log.read_text()[-5_000:]
        said: dict[str, str] = json.loads(line)
        return said

    async def kill(self) -> None:
        assert self.process is not None
        if self.process.returncode is not None:
            pytest.fail(f"the server ended by itself: {self.log.read_text()[-5_000:]}")
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


@dataclass
class Load:
    """Clients that repeat each request under its Idempotency-Key until it is answered."""

    client: httpx.AsyncClient
    hook: str = ""
    domains: list[str] = field(default_factory=list)
    acknowledged: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Idempotency-Key to what was made and its id."""
    counts: Counter[str] = field(default_factory=Counter)
    asked: int = 0

    async def work(self, draws: random.Random) -> None:
        while True:
            self.asked += 1
            key = f"key-{self.asked}"
            what = draws.choices(["label", "job", "test", "advance"], [5, 4, 3, 0.2])[0]
            domain = draws.choice(self.domains)
            if what == "advance":
                await self.advance(draws.randrange(1, 1800))
            elif what == "label":
                made = await self.post(key, "/v1/labels", {"domain_id": domain, "name": key})
                self.acknowledged[key] = what, made["id"]
            elif what == "test":
                made = await self.post(key, f"/v1/webhooks/{self.hook}/test", None)
                self.acknowledged[key] = what, made["event_id"]
            else:
                made = await self.post(f"{key}-domain", "/v1/domains", {"host": f"{key}.example"})
                self.acknowledged[f"{key}-domain"] = "domain", made["id"]
                body = {"kind": "crawl", "domain_id": made["id"]}
                self.acknowledged[key] = what, (await self.post(key, "/v1/jobs", body))["id"]

    async def post(self, key: str, path: str, body: Any) -> Any:
        """Send a request until it is answered."""
        while True:
            with suppress(httpx.TransportError):
                reply = await self.client.post(path, json=body, headers={"idempotency-key": key})
                self.counts[str(reply.status_code)] += 1
                self.counts["replayed"] += reply.headers.get("idempotent-replayed") == "true"
                if reply.status_code < 300:
                    return reply.json()["data"]
                busy = reply.status_code == 409 and reply.json()["code"] == "idempotency_in_progress"
                assert busy or reply.status_code == 429, (key, path, reply.text)
            await asyncio.sleep(0.02)

    async def advance(self, seconds: int) -> None:
        """Move the clock on as far as the load lets it settle."""
        with suppress(httpx.TransportError):
            reply = await self.client.post(
                "/_ranksim/clock/advance", json={"by": f"{seconds}s", "timeout": 0.3}
            )
            self.counts[f"advance {reply.status_code}"] += 1
            assert reply.status_code in (200, 409), reply.text


@asynccontextmanager
async def under_load(load: Load) -> AsyncIterator[None]:
    workers = [asyncio.ensure_future(load.work(random.Random(f"{SEED} {n}"))) for n in range(WORKERS)]
    yield
    for worker in workers:
        if not worker.done():
            worker.cancel()
    ended = await asyncio.gather(*workers, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error


async def settled(client: httpx.AsyncClient) -> dict[str, Any]:
    """Wait until every delivery is finished, and give the state."""
    for _ in range(600):
        await asyncio.sleep(0.1)
        deliveries = (await client.get("/_ranksim/deliveries")).json()["data"]
        jobs = (await client.get("/_ranksim/jobs?status=running")).json()["data"]
        if not deliveries and not jobs:
            break
    state: dict[str, Any] = (await client.get("/_ranksim/state")).json()
    return state


async def tell(place: Path) -> None:
    draws = random.Random(SEED)
    server, receiver = Server(place), Receiver()
    listener = await Listener(receiver).open()
    await server.start()
    key = (await server.ready())["key"]
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=30) as client:
        load = Load(client)
        hook = await load.post("hook", "/v1/webhooks", {"url": f"{listener.url}/hooks"})
        load.hook, receiver.secret = hook["id"], hook["secret"]
        for number in range(3):
            made = await load.post(f"first-{number}", "/v1/domains", {"host": f"first-{number}.example"})
            load.domains.append(made["id"])
        async with under_load(load):
            for _ in range(KILLS):
                await asyncio.sleep(draws.uniform(0.0, LONGEST_LIFE_S))
                await server.kill()
                receiver.generation += 1
                await server.start()
            assert (await server.ready())["key"] == key
            await asyncio.sleep(1.0)
        state = await settled(client)
        await server.kill()
    await listener.close()
    print(f"\n{KILLS} kills, {len(load.acknowledged)} acknowledged: {dict(load.counts)}")
    assert "Traceback" not in server.log.read_text(), server.log.read_text()[-5_000:]
    compare(load, state)
    delivered(load, receiver, state)
    assert load.counts["replayed"] or KILLS < 50
    assert len(load.acknowledged) > KILLS


def compare(load: Load, state: dict[str, Any]) -> None:
    """Every acknowledged request is there, and none was done twice."""
    tables = {"label": "labels", "job": "jobs", "domain": "domains"}
    for key, (what, made) in load.acknowledged.items():
        if what in tables:
            assert made in state[tables[what]], f"{key}: {what} {made} was acknowledged, and is lost"
    for table, name in (("labels", "name"), ("domains", "host"), ("jobs", "domain")):
        often = Counter(row[name] for row in state[table].values())
        assert not [one for one, count in often.items() if count > 1], f"{table} were made twice"
    assert len({made for _, made in load.acknowledged.values()}) == len(load.acknowledged)


def delivered(load: Load, receiver: Receiver, state: dict[str, Any]) -> None:
    """Every event arrived, its attempts counted on over every kill, and repeated only after one."""
    assert not receiver.wrong
    assert not state["deliveries"]
    for key, (what, made) in load.acknowledged.items():
        if what == "test":
            assert made in receiver.came, f"{key}: event {made} never came"
        if what == "job":
            assert len(receiver.jobs[made]) == 1, f"{key}: job {made} is told by events {receiver.jobs[made]}"
    assert receiver.jobs.keys() == state["jobs"].keys()
    repeated = 0
    for event, came in receiver.came.items():
        numbers = [number for number, _ in came]
        assert sorted(set(numbers)) == list(range(1, failing(event) + 2)), (event, came)
        for (before, then), (number, now) in pairwise(came):
            assert number == before + 1 or (number == before and now > then), (event, came)
            repeated += number == before
    print(f"{len(receiver.came)} events, {repeated} attempts repeated after a kill")
    assert repeated or KILLS < 50


@pytest.mark.heavy
@pytest.mark.fact("S47", "S93")
def test_kills_under_load_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    asyncio.run(tell(tmp_path))
