"""kill -9 of a real server under load, again and again: nothing acknowledged is lost, nothing is done twice.

    pytest -m heavy tests/twin/facade/journal/test_kill_loop.py

RANKSIM_KILLS sets how many times (default 1,000), RANKSIM_KILL_SEED the moments. They are parted into rounds,
each with a world of its own and one of four kinds of load. Rounds that are done are noted under a digest of
the sources in `.cache/kills/rounds.jsonl`, or in the folder that RANKSIM_KILLS_CACHE names: a run that was
interrupted goes on.
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

from ranksim.core.clock import instant
from ranksim.core.contract.policy import Policy
from ranksim.core.rulebook import RULEBOOK, rulebook_digest
from ranksim.core.rules.webhooks import verify
from ranksim.twin.serving.listener import Listener, bind_socket

KILLS = int(os.environ.get("RANKSIM_KILLS", "1000"))
SEED = int(os.environ.get("RANKSIM_KILL_SEED", "1"))
ROOT = Path(__file__).parents[4]
CACHE = Path(os.environ.get("RANKSIM_KILLS_CACHE", ROOT / ".cache" / "kills"))
KILLS_A_ROUND = 10
WORKERS = 8
CLOCK = "scaled:600"
LONGEST_LIFE_S = 1.5
TOKEN = "kill"

MIXES: dict[str, dict[str, float]] = {
    "rest": {"label": 6, "domain": 4, "job": 1},
    "graphql": {"graphql label": 5, "graphql domain": 4, "graphql job": 2, "graphql test": 1},
    "webhooks": {"job": 4, "test": 4, "graphql test": 1, "advance": 0.3},
    "control": {"account": 4, "key": 2, "label": 3, "test": 1, "advance": 0.5},
}
"""What clients ask for under each kind of load, and how often."""

CONTROL = {"authorization": f"Bearer {TOKEN}"}

MUTATIONS = {
    "label": "mutation($i: CreateLabelInput!) { made: createLabel(input: $i) { id } }",
    "domain": "mutation($i: CreateDomainInput!) { made: createDomain(input: $i) { id } }",
    "job": "mutation($i: CreateJobInput!) { made: createJob(input: $i) { job { id } } }",
    "test": "mutation($i: ID!) { made: testWebhook(id: $i) { eventId } }",
}

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
    bodies: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    """Event id to its bodies."""
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
        self.bodies[event].add(body)
        if "job" in (data := json.loads(body)["data"]):
            self.jobs[data["job"]["id"]].add(event)
        status = 500 if number <= failing(event) else 200
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


class Server:
    """`ranksim serve --state`, which is killed and started again at the same address."""

    def __init__(self, place: Path) -> None:
        (place / "policy.yaml").write_text(POLICY.dump())
        with bind_socket("127.0.0.1", 0) as free:
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
            *("--signature-clock", "wall", "--control-token", TOKEN),
        ]
        self.process: asyncio.subprocess.Process | None = None
        self.said: dict[str, str] = {}

    async def start(self) -> None:
        self.said = {}
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.command, stdout=asyncio.subprocess.PIPE, stderr=log
            )

    async def ready(self) -> dict[str, str]:
        """Wait for the line that says where it serves."""
        assert self.process is not None
        assert self.process.stdout is not None
        if not self.said:
            line = await self.process.stdout.readline()
            assert line, self.log.read_text()[-5_000:]
            self.said = json.loads(line)
        return self.said

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
    kind: str
    hook: str = ""
    domains: list[str] = field(default_factory=list)
    acknowledged: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Idempotency-Key to what was made and its id."""
    counts: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    tests: int = 0
    """Test events asked for."""
    clock: int = 0
    """The furthest instant that an advance was answered to have reached."""

    async def work(self, draws: random.Random) -> None:
        mix = MIXES[self.kind]
        while True:
            self.asked += 1
            key = f"key-{self.asked}"
            domain = draws.choice(self.domains)
            how, _, what = draws.choices(list(mix), list(mix.values()))[0].rpartition(" ")
            ask = self.mutate if how else self.post
            if what == "advance":
                await self.advance(draws.randrange(1, 1800))
            elif what in ("account", "key"):
                await self.control(key, what)
            elif what == "label":
                self.note(key, what, await ask(key, what, domain_id=domain, name=key))
            elif what == "test":
                self.tests += 1
                self.note(key, what, await ask(key, what))
            else:
                made = await ask(f"{key}-domain", "domain", host=f"{key}.example")
                self.note(f"{key}-domain", "domain", made)
                if what == "job":
                    self.note(key, what, await ask(key, what, kind="crawl", domain_id=made))

    async def more(self) -> None:
        """Wait until something more is acknowledged, for at most half a minute."""
        before = len(self.acknowledged)
        for _ in range(3_000):
            if len(self.acknowledged) > before:
                return
            await asyncio.sleep(0.01)

    def note(self, key: str, what: str, made: str) -> None:
        self.acknowledged[key] = what, made

    async def post(self, key: str, what: str, **body: str) -> str:
        """Make something over REST; give its id."""
        path = f"/v1/webhooks/{self.hook}/test" if what == "test" else f"/v1/{what}s"
        reply = await self.until_answered(key, path, body or None)
        return str(reply["data"]["event_id" if what == "test" else "id"])

    async def mutate(self, key: str, what: str, **body: str) -> str:
        """Make something over GraphQL; give its id."""
        given: Any = {name.replace("_id", "Id"): text for name, text in body.items()} or self.hook
        if what == "job":
            given["kind"] = "CRAWL"
        asked = {"query": MUTATIONS[what], "variables": {"i": given}}
        made = (await self.until_answered(key, "/graphql", asked))["data"]["made"]
        return str(made["eventId"] if what == "test" else made["job"]["id"] if what == "job" else made["id"])

    async def until_answered(self, key: str, path: str, body: Any) -> Any:
        """Send a request until it is answered."""
        while True:
            with suppress(httpx.TransportError):
                reply = await self.client.post(path, json=body, headers={"idempotency-key": key})
                self.counts[str(reply.status_code)] += 1
                self.counts["replayed"] += reply.headers.get("idempotent-replayed") == "true"
                said = reply.json()
                refused = [error["extensions"] for error in said.get("errors", ()) if path == "/graphql"]
                if reply.status_code < 300 and not refused:
                    return said
                code = (refused[0] if refused else said)["code"]
                assert code in ("idempotency_in_progress", "rate_limited"), (key, path, reply.text)
            await asyncio.sleep(0.02)

    async def control(self, key: str, what: str) -> None:
        """Open an account, or issue a key: once, whatever becomes of the answer."""
        body = {"name": key} | ({} if what == "account" else {"account_id": "acc_0000000001"})
        with suppress(httpx.TransportError):
            reply = await self.client.post(f"/_ranksim/{what}s", json=body, headers=CONTROL)
            assert reply.status_code == 201, reply.text
            self.note(key, what, reply.json()["id" if what == "account" else "key"])
        await asyncio.sleep(0.02)

    async def advance(self, seconds: int) -> None:
        """Move the clock on as far as the load lets it settle."""
        with suppress(httpx.TransportError):
            asked = {"by": f"{seconds}s", "timeout": 0.3}
            reply = await self.client.post("/_ranksim/clock/advance", json=asked, headers=CONTROL)
            self.counts[f"advance {reply.status_code}"] += 1
            assert reply.status_code in (200, 409), reply.text
            if reply.status_code == 200:
                self.clock = max(self.clock, instant(reply.json()["now"]))


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


async def not_before(client: httpx.AsyncClient, reached: int) -> None:
    """See that no clock went back behind what was acknowledged."""
    now = (await client.get("/_ranksim/clock", headers=CONTROL)).json()["now"]
    assert instant(now) >= reached, f"the clock went back to {now}"


async def settled(client: httpx.AsyncClient) -> dict[str, Any]:
    """Wait until every delivery is finished, and give the state."""
    for _ in range(600):
        await asyncio.sleep(0.1)
        deliveries = (await client.get("/_ranksim/deliveries", headers=CONTROL)).json()["data"]
        jobs = (await client.get("/_ranksim/jobs?status=running", headers=CONTROL)).json()["data"]
        if not deliveries and not jobs:
            break
    state: dict[str, Any] = (await client.get("/_ranksim/state", headers=CONTROL)).json()
    return state


async def tell(place: Path, number: int, kills: int) -> dict[str, Any]:
    """Tell the story of one round; give what it counted."""
    kind = list(MIXES)[number % len(MIXES)]
    draws = random.Random(f"{SEED} {number}")
    server, receiver = Server(place), Receiver()
    listener = await Listener(receiver).open()
    await server.start()
    key = (await server.ready())["key"]
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=30) as client:
        load = Load(client, kind)
        hook = (await load.until_answered("hook", "/v1/webhooks", {"url": f"{listener.url}/hooks"}))["data"]
        load.hook, receiver.secret = hook["id"], hook["secret"]
        for first in range(3):
            load.domains.append(await load.post(f"first-{first}", "domain", host=f"first-{first}.example"))
        async with under_load(load):
            for _ in range(kills):
                if draws.random() < 0.7:  # in full swing, else at any moment of a start
                    reached = load.clock
                    await server.ready()
                    await not_before(client, reached)
                    await load.more()
                await asyncio.sleep(draws.uniform(0.0, LONGEST_LIFE_S))
                await server.kill()
                receiver.generation += 1
                await server.start()
            assert (await server.ready())["key"] == key
            await asyncio.sleep(1.0)
        state = await settled(client)
        await server.kill()
    await listener.close()
    assert "Traceback" not in server.log.read_text(), server.log.read_text()[-5_000:]
    compare(load, state)
    repeated = delivered(load, receiver, state)
    assert load.acknowledged
    return {
        "kind": kind,
        "kills": kills,
        "acknowledged": len(load.acknowledged),
        "replayed": load.counts["replayed"],
        "events": len(receiver.came),
        "repeated": repeated,
    }


def compare(load: Load, state: dict[str, Any]) -> None:
    """Every acknowledged request is there, and none was done twice."""
    tables = {"label": "labels", "job": "jobs", "domain": "domains", "account": "accounts", "key": "keys"}
    for key, (what, made) in load.acknowledged.items():
        if what in tables:
            assert made in state[tables[what]], f"{key}: {what} {made} was acknowledged, and is lost"
    names = {"labels": "name", "domains": "host", "accounts": "name", "keys": "name"}
    for table, name in names.items():
        often = Counter(row[name] for row in state[table].values() if str(row[name]).startswith("key-"))
        assert not [one for one, count in often.items() if count > 1], f"{table} were made twice"
    crawled = Counter(job["domain"] for job in state["jobs"].values())
    assert not [one for one, count in crawled.items() if count > 1], "jobs were made twice"
    assert len({made for _, made in load.acknowledged.values()}) == len(load.acknowledged)


def delivered(load: Load, receiver: Receiver, state: dict[str, Any]) -> int:
    """Every event arrived, its attempts counted on over every kill, and repeated only after one.

    No id of an event was given to another, and no event was made twice.

    Gives how many attempts came again after a kill.
    """
    assert not receiver.wrong
    assert not state["deliveries"]
    for key, (what, made) in load.acknowledged.items():
        if what == "test":
            assert made in receiver.came, f"{key}: event {made} never came"
        if what == "job":
            assert len(receiver.jobs[made]) == 1, f"{key}: job {made} is told by events {receiver.jobs[made]}"
    assert receiver.jobs.keys() == state["jobs"].keys()
    assert all(len(bodies) == 1 for bodies in receiver.bodies.values()), "an event's id was given to another"
    tests = receiver.came.keys() - set().union(*receiver.jobs.values())
    assert len(tests) <= load.tests, "test events were made twice"
    repeated = 0
    for event, came in receiver.came.items():
        numbers = [number for number, _ in came]
        assert sorted(set(numbers)) == list(range(1, failing(event) + 2)), (event, came)
        for (before, then), (number, now) in pairwise(came):
            assert number == before + 1 or (number == before and now > then), (event, came)
            repeated += number == before
    return repeated


def noted(digest: str) -> dict[int, dict[str, Any]]:
    """Rounds of these sources that are done."""
    path = CACHE / "rounds.jsonl"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    rounds = [json.loads(line) for line in lines]
    return {one["round"]: one for one in rounds if one["digest"] == digest}


@pytest.mark.heavy
@pytest.mark.fact("S47", "S93")
def test_kills_under_load_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    digest = rulebook_digest((*RULEBOOK, "twin/facade", "twin/serving")) + f" {SEED} {KILLS_A_ROUND}"
    done = noted(digest)
    for number in range(-(-KILLS // KILLS_A_ROUND)):
        if number in done:
            continue
        place = tmp_path / str(number)
        place.mkdir()
        found = asyncio.run(tell(place, number, KILLS_A_ROUND))
        done[number] = {"round": number, "digest": digest, **found}
        print(f"\n{done[number]}", flush=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / "rounds.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(done[number]) + "\n")
    kills = Counter[str]()
    for one in done.values():
        kills[one["kind"]] += one["kills"]
    print(f"\n{dict(kills)} kills, {sum(one['acknowledged'] for one in done.values())} acknowledged")
    if KILLS >= 200:
        assert sum(one["acknowledged"] for one in done.values()) > KILLS
        assert all(sum(one[what] for one in done.values()) for what in ("replayed", "repeated"))
