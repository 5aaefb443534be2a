"""The state file: what it leads back to, what waits for it, and what it refuses."""

import asyncio
import re
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ranksim.core.callers.fault_rules import FaultRule
from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND, instant
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Answer, Attempt, Body, Call, Fault, Reply
from ranksim.core.service.context import Context
from ranksim.core.service.rate_limits import charge_window
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.journal import sqlite, write_ahead
from ranksim.twin.facade.journal.sqlite import StateFile
from ranksim.twin.facade.journal.write_ahead import WriteAheadLog, attach, replay_world
from ranksim.twin.facade.request_journal import Expected
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.snapshots import SavedWorld, policy_digest
from ranksim.twin.facade.twin import Twin

START = instant("2026-03-04T10:00:00Z")

POLICY = Policy().replace(
    catalogue={
        "job_durations": {"rank_run": "4m", "crawl": "20m", "site_optimization": "10m", "ai_scan": "5m"}
    },
    assumptions={"fingerprint": "raw"},
)


class Wall:
    """A wall clock that moves when told to."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def make(answer: Callable[[Attempt], Answer | int] = lambda attempt: 200, **options: Any) -> Twin:
    usual = {"clock": "manual", "start": START, "sender": Scripted(answer), "read_wall": Wall()}
    return Twin(**{"policy": POLICY} | usual | options)


def ask(twin: Twin, operation: str, body: Body | None = None, **more: Any) -> Reply:
    return twin.call(Call(operation, body=body, **{"key": twin.keys["production"]} | more))


def must(twin: Twin, operation: str, body: Body | None = None, **more: Any) -> Any:
    reply = ask(twin, operation, body, **more)
    assert reply.status < 300, reply.body
    return None if reply.body is None else reply.body["data"]


def crawl(twin: Twin, host: str, **more: Any) -> str:
    domain = must(twin, "domains.create", {"host": host})["id"]
    return str(must(twin, "jobs.create", {"kind": "crawl", "domain_id": domain}, **more)["id"])


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())


class Memory:
    """A state file without a file, whose writes can be held up or fail."""

    def __init__(self) -> None:
        self.world: bytes | None = None
        self.batches: list[bytes] = []
        self.open = threading.Event()
        self.open.set()
        self.error: sqlite3.Error | None = None

    def begin(self, world: bytes, inputs: int = 0) -> None:
        self._wait()
        self.world, self.batches = world, []

    def append(self, batch: bytes) -> None:
        self._wait()
        self.batches.append(batch)

    def read(self) -> tuple[bytes, list[bytes]]:
        assert self.world is not None
        return self.world, self.batches

    def close(self) -> None: ...

    def _wait(self) -> None:
        assert self.open.wait(600)
        if self.error is not None:
            raise self.error


def kept(twin: Twin, every: int = 1_000) -> tuple[Memory, WriteAheadLog]:
    """Keep a twin in memory."""
    memory = Memory()
    durable = WriteAheadLog(twin, memory, every)
    memory.begin(write_ahead.dump_world(twin))
    durable.begin()
    return memory, durable


def led_to(memory: Memory, policy: Policy = POLICY) -> write_ahead.Replayed:
    assert memory.world is not None
    return replay_world(memory.world, memory.batches, policy)


# Replay equals what was lived


@st.composite
def bodies(draw: st.DrawFn) -> Body:
    """A body that makes sense, or anything that JSON can say."""
    anything = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=5,
    )
    body: Body = {
        "host": draw(st.sampled_from(["a.example", "b.example", "no host"])),
        "url": "https://receiver.example/hooks",
        "kind": draw(st.sampled_from(["crawl", "rank_run", "site_optimization", "ai_scan"])),
    }
    names = draw(st.sets(st.sampled_from(["host", "url", "kind", "domain_id", "dry_run", "keywords", "x"])))
    return {name: body.get(name, draw(anything)) for name in sorted(names)}


CALLS = st.builds(
    dict,
    operation=st.sampled_from(
        [
            "domains.create",
            "webhooks.create",
            "jobs.create",
            "webhooks.test",
            "jobs.list",
            "domains.delete",
            "x",
        ]
    ),
    body=st.none() | bodies(),
    idempotency_key=st.sampled_from([None, "a", "b", "\xe9"]),
    raw=st.sampled_from([None, b"{}", b"\xfb\xff\xbf"]),
    fault=st.sampled_from([None, None, None, None, Fault("invalid_request", "why"), Fault("internal_error")]),
    request_id=st.sampled_from([None, "mine", "\x7f"]),
    which=st.integers(0, 5),
    written=st.booleans(),
    good=st.sampled_from([True, True, False]),
)

STEPS = st.lists(
    st.tuples(st.just("calls"), st.lists(CALLS, min_size=1, max_size=8))
    | st.tuples(st.just("batch"), st.lists(CALLS, min_size=1, max_size=3))
    | st.tuples(st.just("advance"), st.integers(0, 3 * HOUR))
    | st.tuples(st.just("wall"), st.integers(0, HOUR))
    | st.tuples(st.just("clock"), st.sampled_from(["manual", "real", "scaled:7/3"]))
    | st.tuples(st.just("traffic"), st.sampled_from(["same", "wall"]))
    | st.tuples(st.just("status"), st.sampled_from(["active", "past_due"]))
    | st.tuples(st.just("plan"), st.sampled_from(["agency", "starter"]))
    | st.tuples(st.just("key"), st.text(max_size=3))
    | st.tuples(st.just("account"), st.sampled_from(["starter", "no plan"]))
    | st.tuples(st.just("finish"), st.sampled_from(["done", "failed"]))
    | st.tuples(st.just("world"), st.sampled_from(["reset", "restore"]))
    | st.tuples(st.just("fault"), st.sampled_from(["add", "strike", "clear"]))
    | st.tuples(st.just("save"), st.sampled_from(["a", "b", "not a"]))
    | st.tuples(st.just("commit"), st.none()),
    min_size=5,
    max_size=25,
)


class Story:
    """A twin that random things happen to, kept in memory."""

    def __init__(self, every: int) -> None:
        self.wall = Wall()
        self.twin = make(lambda attempt: 200 if attempt.attempt % 3 else 500, read_wall=self.wall)
        self.memory, self.durable = kept(self.twin, every)
        must(self.twin, "webhooks.create", {"url": "https://first.example", "event_types": ["job.failed"]})
        crawl(self.twin, "first.example")
        self.saved = self.twin.snapshot()

    async def tell(self, steps: list[tuple[str, Any]]) -> None:
        await self.twin.start()
        for what, details in [*steps, ("commit", None)]:
            await self.step(what, details)

    async def step(self, what: str, details: Any) -> None:
        twin = self.twin
        accounts = list(twin.service.state.accounts)
        match what:
            case "calls":
                for one in details:
                    reply = twin.call(self.call(one))
                    if one["written"]:
                        twin.written(reply)
            case "batch":
                twin.call_batch([self.call(one, surface="graphql") for one in details])
            case "advance":
                await twin.advance(by=details)
            case "wall":
                self.wall.now += details
            case "clock":
                twin.set_clock(details)
            case "traffic":
                twin.set_clock(traffic=details)
            case "status":
                twin.administer("set_status", account=accounts[0], status=details)
            case "plan":
                twin.administer("change_plan", account=accounts[0], plan=details)
            case "key":
                twin.administer("issue_key", account=accounts[0], name=details)
            case "account":
                with suppress(BadInput):
                    twin.administer("open_account", name="more", plan=details)
            case "finish":
                running = [job.id for job in twin.service.state.jobs.values() if job.finished_at is None]
                if running:
                    twin.finish_job(running[0], details)
            case "world":
                twin.restore(self.saved) if details == "restore" else twin.reset()
            case "fault" if details == "add":
                twin.faults.add(FaultRule(operation="jobs.*", latency="1s", error_rate=0.5, times=3))
            case "fault" if details == "strike":
                twin.faults.pick(Call("jobs.create"))
            case "fault":
                twin.faults.clear()
            case "save" if details == "not a":
                if "a" in twin.snapshots:
                    twin.snapshots.drop("a")
            case "save":
                twin.snapshots.save(details, SavedWorld(twin.now(), twin.snapshot()))
            case "commit":
                await self.compare()

    def call(self, drawn: dict[str, Any], **more: Any) -> Call:
        """Make a call; `good` ones name something that exists."""
        state, fields = self.twin.service.state, {**drawn}
        which, good = fields.pop("which"), fields.pop("good")
        del fields["written"]
        hooks = drawn["operation"].startswith("webhooks")
        known = [*(state.endpoints if hooks else state.domains), "none"]
        one = known[which % len(known)]
        if good:
            fields["fault"] = None
            fields["body"] = {
                "jobs.create": {"kind": "crawl", "domain_id": one},
                "domains.create": {"host": f"host-{which}.example"},
                "webhooks.create": {"url": f"https://host-{which}.example"},
            }.get(drawn["operation"], fields["body"])
        return Call(key=self.twin.keys["production"], path={"id": one}, **fields, **more)

    async def compare(self) -> None:
        """What is kept leads to what is."""
        twin = self.twin
        await self.durable.commit()
        if not twin.clock.rate.over:
            assert led_to(self.memory).service.save() == twin.service.save()
        at, now = led_to(self.memory), twin.now()
        assert at.now <= now
        at.service.advance(now)
        twin.service.advance(now)
        assert at.service.save() == twin.service.save()
        assert (at.keys, at.faults) == (twin.keys, twin.faults.saved())
        assert at.snapshots == dict(twin.snapshots)
        other = make(read_wall=self.wall)
        other.clock.resume(at.clock, at.now, at.traffic)
        assert (other.now(), other.clock.traffic(now)) == (now, twin.clock.traffic(now))
        assert other.clock.saved() == twin.clock.saved()


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(steps=STEPS, every=st.sampled_from([1, 4, 1_000]))
def test_what_is_kept_leads_to_the_live_state_byte_for_byte(steps: list[tuple[str, Any]], every: int) -> None:
    async def tell() -> None:
        story = Story(every)
        try:
            await story.tell(steps)
        finally:
            await story.twin.close()
            story.durable.close()

    asyncio.run(tell())


def test_a_call_that_broke_the_service_breaks_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        twin = make()
        memory, durable = kept(twin)
        crawl(twin, "a.example")

        def breaking(ctx: Context, *rest: Any, **more: Any) -> Reply | None:
            return charge_window(ctx, *rest, **more) if ctx.state.requests != 3 else 1 // 0

        monkeypatch.setattr("ranksim.core.service.service.charge_window", breaking)
        with pytest.raises(ZeroDivisionError):
            ask(twin, "domains.list")
        must(twin, "domains.list")
        await durable.commit()
        assert led_to(memory).service.save() == twin.service.save()
        durable.close()

    run(story)


def test_work_that_needed_nobody_is_done_again() -> None:
    async def story() -> None:
        twin = make()
        memory, durable = kept(twin)
        job = crawl(twin, "a.example")
        await twin.advance(by=HOUR)
        await durable.commit()
        assert led_to(memory).service.save() == twin.service.save()
        assert led_to(memory).service.state.jobs[job].finished_at == START + 20 * MINUTE
        durable.close()

    run(story)


# Snapshots


def test_a_snapshot_now_and_then_bounds_the_replay() -> None:
    async def story() -> None:
        twin = make()
        memory, durable = kept(twin, every=10)
        seen = set()
        for _ in range(35):
            must(twin, "account.usage")
            await durable.commit()
            seen.add(memory.world)
            assert len(memory.batches) < 10
        assert len(seen) == 4
        assert led_to(memory).service.save() == twin.service.save()
        durable.close()

    run(story)


def test_the_inputs_of_a_file_count_for_its_next_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "state"
    for _ in range(3):
        twin = make()
        durable = attach(twin, path, every=8)
        for _ in range(3):
            must(twin, "account.usage")
        durable.close()
    file = StateFile(path, policy_digest(POLICY))
    assert (file.read()[1], file.new) == ([], False)
    file.close()


# What waits for the file


def client_of(twin: Twin) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {twin.keys['production']}"}
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(Facade(twin)), base_url="http://twin", headers=headers
    )


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_no_reply_and_no_attempt_goes_out_before_what_led_to_it_is_kept() -> None:
    async def story() -> None:
        twin = make()
        memory, durable = kept(twin)
        hook = must(twin, "webhooks.create", {"url": "https://a.example"})["id"]
        await durable.commit()
        memory.open.clear()
        async with client_of(twin) as client:
            asked = asyncio.ensure_future(client.post(f"/v1/webhooks/{hook}/test"))
            await turns()
            assert not asked.done()
            assert twin.sender.sent == []
            assert len(twin.service.state.attempts_out) == 1
            memory.open.set()
            assert (await asked).status_code == 202
        await twin.advance(by=0)
        assert [attempt.number for attempt in twin.sender.sent] == [1]
        durable.close()

    run(story)


def test_one_write_serves_all_that_wait() -> None:
    async def story() -> None:
        twin = make()
        memory, durable = kept(twin)
        memory.open.clear()
        async with client_of(twin) as client:
            asked = [asyncio.ensure_future(client.get("/v1/account")) for _ in range(40)]
            await turns()
            memory.open.set()
            assert {reply.status_code for reply in await asyncio.gather(*asked)} == {200}
        assert len(memory.batches) <= 3
        durable.close()

    run(story)


def test_what_nobody_waits_for_is_written_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_ahead, "IDLE_S", 0.0)

    async def story() -> None:
        twin = make()
        memory, durable = kept(twin)
        reply = ask(twin, "domains.create", {"host": "a.example"}, idempotency_key="once")
        twin.written(reply)
        while not memory.batches:
            await asyncio.sleep(0)
        assert led_to(memory).service.save() == twin.service.save()
        durable.close()

    run(story)


REFUSED = (
    "The state file cannot be written (disk I/O error), so nothing was done; "
    "until it can be written, only reads are answered."
)


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.001)


def test_a_write_that_cannot_be_kept_is_a_500_and_has_not_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_ahead, "RETRY_S", 0.0)

    async def story() -> None:
        twin = make()
        memory, durable = kept(twin)
        must(twin, "domains.create", {"host": "before.example"})
        await durable.commit()
        async with client_of(twin) as client:
            memory.error = sqlite3.OperationalError("disk I/O error")
            key = {"idempotency-key": "once"}
            for _ in range(3):
                lost = await client.post("/v1/domains", json={"host": "a.example"}, headers=key)
                assert lost.status_code == 500
                assert lost.json()["code"] == "internal_error"
                assert lost.json()["detail"] == REFUSED
                assert lost.headers["x-request-id"] == lost.json()["request_id"]
                assert "ratelimit-limit" in lost.headers
                assert lost.headers["content-type"] == "application/problem+json"
            mutation = 'mutation { createDomain(input: {host: "a.example"}) { id } }'
            said = (await client.post("/graphql", json={"query": mutation})).json()
            assert said["errors"][0]["extensions"]["detail"] == REFUSED
            hosts = [one["host"] for one in (await client.get("/v1/domains")).json()["data"]]
            assert hosts == ["before.example"]
            assert (await client.post("/graphql", json={"query": "{ account { plan } }"})).status_code == 200
            assert (await client.get("/readyz")).text == f"reads only: {REFUSED}\n"
            assert "ranksim_writes_refused 1" in (await client.get("/metrics")).text
            memory.error = None
            await until(lambda: not twin.refuses_writes)
            assert (await client.get("/readyz")).text == "ok\n"
            again = await client.post("/v1/domains", json={"host": "a.example"}, headers=key)
            assert (again.status_code, again.headers.get("idempotent-replayed")) == (201, None)
        await durable.commit()
        assert led_to(memory).service.save() == twin.service.save()
        assert [one.host for one in led_to(memory).service.state.domains.values()] == [
            "before.example",
            "a.example",
        ]
        made = twin.requests.search(Expected(operation="domains.create"))
        assert [entry.exchange.status for entry in made] == [500, 500, 500, 200, 201]
        durable.close()

    run(story)


def test_of_requests_in_one_write_that_fails_none_has_happened_and_reads_are_answered() -> None:
    async def story() -> None:
        twin = make()
        memory, durable = kept(twin)
        memory.open.clear()
        async with client_of(twin) as client:
            memory.error = sqlite3.OperationalError("disk I/O error")
            asked = [
                asyncio.ensure_future(
                    client.get("/v1/domains")
                    if number % 2
                    else client.post("/v1/domains", json={"host": f"{number}.example"})
                )
                for number in range(20)
            ]
            await turns()
            assert len(twin.service.state.domains) == 10
            memory.open.set()
            replies = await asyncio.gather(*asked)
            assert [reply.status_code for reply in replies] == [500, 200] * 10
            assert [reply.json()["data"] for reply in replies[1::2]] == [[]] * 10
        assert not twin.service.state.domains
        assert "world.undone" in [event.what for event in twin.event_log]
        memory.error = None
        durable.close()
        assert led_to(memory).service.save() == twin.service.save()

    run(story)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/_ranksim/accounts", {"name": "acme"}),
        ("POST", "/_ranksim/reset", None),
        ("POST", "/_ranksim/clock/advance", {"by": "1h"}),
        ("PATCH", "/_ranksim/clock", {"clock": "real"}),
        ("POST", "/_ranksim/faults", {"operation": "*", "error_rate": 1.0}),
        ("POST", "/_ranksim/fork", {"name": "copy"}),
    ],
)
def test_what_the_control_api_did_and_cannot_be_kept_has_not_happened(
    method: str, path: str, body: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_ahead, "RETRY_S", 0.0)

    async def story() -> None:
        twin = make()
        memory, durable = kept(twin)
        must(twin, "domains.create", {"host": "a.example"})
        await durable.commit()
        was = twin.world_id, twin.now(), twin.clock.saved(), twin.faults.saved(), dict(twin.snapshots)
        state = twin.service.save()
        memory.error = sqlite3.OperationalError("disk I/O error")
        async with client_of(twin) as client:
            for _ in range(2):
                lost = await client.request(method, path, json=body)
                assert (lost.status_code, lost.headers["content-type"]) == (500, "application/problem+json")
                assert lost.json()["detail"] == REFUSED
            assert was == (
                twin.world_id,
                twin.now(),
                twin.clock.saved(),
                twin.faults.saved(),
                dict(twin.snapshots),
            )
            assert twin.service.save() == state
            world = (await client.get("/_ranksim/world")).json()
            assert world["world_id"] == twin.world_id
            assert (await client.get("/_ranksim/requests")).status_code == 200
            memory.error = None
            await until(lambda: not twin.refuses_writes)
            assert (await client.request(method, path, json=body)).status_code < 300
        await durable.commit()
        assert led_to(memory).service.save() == twin.service.save()
        durable.close()

    run(story)


def test_while_nothing_can_be_kept_no_attempt_goes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work goes on falling due; what it sends waits, and is sent once it is kept, under its number."""
    monkeypatch.setattr(write_ahead, "RETRY_S", 0.0)

    async def story() -> None:
        wall = Wall()
        twin = make(clock="real", read_wall=wall)
        memory, durable = kept(twin)
        must(twin, "webhooks.create", {"url": "https://a.example"})
        crawl(twin, "c.example")
        await durable.commit()
        memory.error = sqlite3.OperationalError("disk I/O error")
        async with client_of(twin) as client:
            assert (await client.post("/v1/domains", json={"host": "x.example"})).status_code == 500
            wall.now += HOUR
            jobs = (await client.get("/v1/jobs")).json()["data"]
            assert [job["status"] for job in jobs] == ["done"]
            await turns()
            assert twin.sender.sent == []
            memory.error = None
            await until(lambda: bool(twin.sender.sent))
        assert [one.number for one in twin.sender.sent] == [1]
        await turns()
        await durable.commit()
        assert led_to(memory).service.save() == twin.service.save()
        await twin.close()
        durable.close()

    run(story)


def test_an_advance_that_is_under_way_when_nothing_can_be_kept_any_more_has_not_happened() -> None:
    async def story() -> None:
        silent = Silent()
        twin = make(sender=silent)
        memory, durable = kept(twin)
        must(twin, "webhooks.create", {"url": "https://a.example"})
        crawl(twin, "c.example")
        await durable.commit()
        async with client_of(twin) as client:
            advancing = asyncio.ensure_future(client.post("/_ranksim/clock/advance", json={"by": "1h"}))
            await until(lambda: bool(silent.sent))
            memory.error = sqlite3.OperationalError("disk I/O error")
            assert (await client.post("/v1/domains", json={"host": "x.example"})).status_code == 500
            lost = await advancing
            assert (lost.status_code, lost.json()["detail"]) == (500, REFUSED)
            assert twin.now() == START + 20 * MINUTE  # as far as it was kept, with what was sent
        memory.error = None
        await twin.close()
        durable.close()
        assert led_to(memory).service.save() == twin.service.save()

    run(story)


def test_what_is_asked_while_nothing_can_be_kept_takes_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_ahead, "RETRY_S", 0.0)

    async def story() -> None:
        twin = make()
        memory, durable = kept(twin, every=10)
        memory.error = sqlite3.OperationalError("disk I/O error")
        async with client_of(twin) as client:
            await client.post("/v1/domains", json={"host": "a.example"})
            for _ in range(35):
                await client.get("/v1/domains")
                assert len(durable._lines) <= 10
            memory.error = None
            await until(lambda: not twin.refuses_writes)
            must(twin, "domains.create", {"host": "b.example"})
        await durable.commit()
        assert led_to(memory).service.save() == twin.service.save()
        durable.close()

    run(story)


def test_without_room_for_a_snapshot_inputs_are_kept_as_before() -> None:
    async def story() -> None:
        twin = make()
        memory, durable = kept(twin, every=10)
        first = memory.world

        def full(world: bytes, inputs: int) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        begin, memory.begin = memory.begin, full
        for _ in range(25):
            must(twin, "account.usage")
            await durable.commit()
        assert (memory.world, len(memory.batches), twin.refuses_writes) == (first, 25, "")
        memory.begin = begin
        for _ in range(10):
            must(twin, "account.usage")
            await durable.commit()
        assert memory.world != first
        assert led_to(memory).service.save() == twin.service.save()
        durable.close()

    run(story)


def test_a_write_that_is_abandoned_is_not_written_twice() -> None:
    """A server that stops cancels what waits, while the write goes on in its thread."""
    memory, durable = kept(twin := make())

    async def story() -> None:
        crawl(twin, "a.example")
        memory.open.clear()
        waiting = asyncio.ensure_future(durable.commit())
        await turns()
        waiting.cancel()

    run(story)
    must(twin, "domains.create", {"host": "b.example"})
    memory.open.set()
    durable.close()
    assert led_to(memory).service.save() == twin.service.save()


# Restarts


class Silent:
    """A sender whose receivers never answer; it notes what went out."""

    def __init__(self) -> None:
        self.sent: list[Attempt] = []

    async def send(self, attempt: Attempt, timeout_s: float) -> Answer:
        self.sent.append(attempt)
        return await asyncio.get_running_loop().create_future()

    async def during(self, advance: Coroutine[Any, Any, Any], sent: int) -> None:
        """Advance until so many attempts are out."""
        advancing = asyncio.ensure_future(advance)
        while len(self.sent) < sent:
            await asyncio.sleep(0.001)
        advancing.cancel()

    async def close(self) -> None: ...


@pytest.mark.fact("S93", "U92")
def test_a_restart_goes_on_where_the_crash_was(tmp_path: Path) -> None:
    """Acknowledged, pending and under way: all there, the attempts under their numbers (S93)."""
    path, silent = tmp_path / "state", Silent()
    twin = make(sender=silent, seed=5)
    durable = attach(twin, path)

    async def before() -> None:
        for host in ("a", "b"):
            must(twin, "webhooks.create", {"url": f"https://{host}.example"})
        crawl(twin, "c.example", idempotency_key="once")
        await silent.during(twin.advance(by=HOUR), sent=2)

    run(before)
    durable.close()
    out = [(attempt.attempt, attempt.number, attempt.event, attempt.body) for attempt in silent.sent]
    assert len(out) == 2

    again = make(seed=9, clock="real", start=None)
    durable = attach(again, path)
    assert (again.world_id, again.keys, again.seed) == (twin.world_id, twin.keys, 5)
    assert again.now() == twin.now() == START + 20 * MINUTE
    repeated = {"kind": "crawl", "domain_id": next(iter(again.service.state.domains))}
    reply = ask(again, "jobs.create", repeated, idempotency_key="once")
    assert reply.outcome == "replayed"
    assert len(again.service.state.jobs) == 1

    async def after() -> None:
        await again.start()
        await again.advance(by=0)
        sent = again.sender.sent
        assert [(one.attempt, one.number, one.event, one.body) for one in sent] == out
        assert not again.service.state.attempts_out
        await again.close()

    run(after)
    durable.close()


def test_nothing_goes_out_under_a_number_that_a_restart_could_give_away(tmp_path: Path) -> None:
    """Where an advance sends attempts, the instant is kept before they go out."""
    path, silent = tmp_path / "state", Silent()
    twin = make(sender=silent)
    durable = attach(twin, path)

    async def before() -> None:
        must(twin, "webhooks.create", {"url": "https://a.example"})
        crawl(twin, "c.example")
        await durable.commit()
        await silent.during(twin.advance(by=HOUR), sent=1)

    twin.clock.changed = lambda what: None  # the process dies during the advance: that it ended is not noted
    run(before)
    durable.close()
    again = make()
    durable = attach(again, path)
    must(again, "domains.create", {"host": "d.example"})

    async def after() -> None:
        await again.advance(by=HOUR)

    run(after)
    sent = again.sender.sent
    assert [one.event for one in sent] == [one.event for one in silent.sent]
    durable.close()


@pytest.mark.parametrize(
    ("clock", "back", "passed"),
    [
        ("manual", 0, 0),
        ("real", 0, DAY),
        ("scaled:60", 0, 60 * DAY),
        ("scaled:1/2", 0, DAY // 2),
        ("real", 2 * DAY, 0),
        ("scaled:60", 2 * DAY, 0),
    ],
)
def test_a_clock_that_runs_ran_on_and_never_goes_back(
    tmp_path: Path, clock: str, back: int, passed: int
) -> None:
    path, wall = tmp_path / "state", Wall()
    twin = make(clock=clock, read_wall=wall, traffic_clock="wall")
    durable = attach(twin, path)
    wall.now += SECOND
    must(twin, "account.usage")
    then, traffic = twin.now(), twin.clock.traffic(twin.now())
    durable.close()
    wall.now += DAY - back
    again = make(clock="manual", read_wall=wall)
    durable = attach(again, path)
    assert again.now() == then + passed
    assert again.clock.traffic(again.now()) == traffic + max(0, DAY - back)
    assert str(again.clock.rate) == clock
    wall.now += SECOND
    assert again.clock.traffic(again.now()) == traffic + max(0, DAY - back) + SECOND
    durable.close()


def test_what_fell_due_while_nobody_was_there_is_done_at_its_instant(tmp_path: Path) -> None:
    path, wall = tmp_path / "state", Wall()
    twin = make(clock="real", read_wall=wall)
    durable = attach(twin, path)
    must(twin, "webhooks.create", {"url": "https://a.example"})
    job = crawl(twin, "c.example")
    durable.close()
    wall.now += DAY
    again = make(read_wall=wall)
    durable = attach(again, path)
    assert again.service.state.jobs[job].finished_at == START + 20 * MINUTE
    assert "job.done" in [one.what for one in again.event_log]

    async def after() -> None:
        await again.start()
        await again.advance(by=0)
        await again.close()

    run(after)
    (sent,) = again.sender.sent
    assert f"t={(START + DAY) // SECOND}," in sent.headers["Service-Signature"]
    durable.close()


def test_a_world_that_is_kept_begins_anew_as_it_began(tmp_path: Path) -> None:
    path = tmp_path / "state"
    twin = make(seed=3, plan="starter")
    durable = attach(twin, path)
    began = twin.service.save()
    crawl(twin, "a.example")
    durable.close()
    again = make(plan="agency", start=START + DAY)
    durable = attach(again, path)
    assert again.plan == "starter"
    again.reset()
    assert (again.now(), again.service.save()) == (START, began)
    durable.close()


def test_a_world_from_elsewhere_leaves_the_seed_of_faults_and_of_resets_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "state"
    twin = make(seed=3)
    durable = attach(twin, path)
    began = twin.service.save()
    twin.restore(make(seed=5).snapshot())
    twin.faults.add(FaultRule(error_rate=0.5))
    durable.close()
    again = make()
    durable = attach(again, path)
    assert again.service.state.seed == 5
    struck = [[one.faults.pick(Call("domains.list")) for _ in range(20)] for one in (twin, again)]
    assert struck[0] == struck[1]
    again.reset()
    assert again.service.save() == began
    durable.close()


def test_fault_rules_and_saved_worlds_come_back(tmp_path: Path) -> None:
    path = tmp_path / "state"
    twin = make(seed=3)
    durable = attach(twin, path)
    crawl(twin, "a.example")
    twin.snapshots.save("one", SavedWorld(twin.now(), twin.snapshot() + b"\n"))
    twin.snapshots.save("two", SavedWorld(twin.now(), b"\xff\n"))
    twin.snapshots.drop("two")
    twin.faults.add(FaultRule(operation="domains.*", error_rate=0.5, latency={"exponential": {"mean": "1s"}}))
    twin.faults.remove(twin.faults.add(FaultRule(error_rate=1.0)).id)
    struck = [twin.faults.pick(Call("domains.list")) for _ in range(20)]
    saved, rules = dict(twin.snapshots), [one.to_dict() for one in twin.faults.active.values()]
    durable.close()
    twin.faults.changed()  # what changes now is kept nowhere

    again = make()
    durable = attach(again, path)
    assert dict(again.snapshots) == saved
    assert list(again.snapshots) == ["one"]
    assert [one.to_dict() for one in again.faults.active.values()] == rules
    assert again.faults.add(FaultRule(error_rate=1.0)).id == "fault_3"
    again.faults.remove("fault_3")
    more = [twin.faults.pick(Call("domains.list")) for _ in range(20)]
    assert [again.faults.pick(Call("domains.list")) for _ in range(20)] == more != struck
    again.restore(again.snapshots["one"].world)
    assert len(again.service.state.jobs) == 1
    durable.close()


def test_an_account_that_was_refused_is_as_if_nobody_had_asked(tmp_path: Path) -> None:
    path = tmp_path / "state"
    twin = make()
    durable = attach(twin, path)
    for refused in ({"plan": "gold"}, {"plan": "pro", "add_ons": {"gold_pack": 1}}):
        with pytest.raises(BadInput):
            twin.administer("open_account", name="acme", **refused)
    account = twin.administer("open_account", name="acme", plan="pro")
    key = twin.administer("issue_key", account=account, name="first")
    durable.close()
    again = make()
    durable = attach(again, path)
    assert again.service.state.keys[key].account == account
    assert again.service.save() == twin.service.save()
    durable.close()


def test_limits_that_were_switched_off_stay_off(tmp_path: Path) -> None:
    path = tmp_path / "state"
    twin = make()
    durable = attach(twin, path)
    twin.administer("waive", limits=["rate"])
    durable.close()
    again = make()
    durable = attach(again, path)
    assert again.service.state.waived == twin.service.state.waived != 0
    durable.close()


@pytest.mark.parametrize("how", ["reset", "restore"])
def test_another_world_is_kept_as_a_whole(tmp_path: Path, how: str) -> None:
    path = tmp_path / "state"
    twin = make()
    durable = attach(twin, path)
    saved = twin.snapshot()
    crawl(twin, "a.example")

    async def story() -> None:
        await durable.commit()
        twin.reset() if how == "reset" else twin.restore(saved)
        must(twin, "domains.create", {"host": "b.example"})
        await durable.commit()

    run(story)
    durable.close()
    again = make()
    durable = attach(again, path)
    assert again.world_id == twin.world_id
    assert [domain.host for domain in again.service.state.domains.values()] == ["b.example"]
    durable.close()


# What is refused


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A state file of some pages."""
    path = tmp_path_factory.mktemp("durable") / "state"
    twin = make()
    durable = attach(twin, path)
    for name in range(3):
        for number in range(30):
            must(twin, "domains.create", {"host": f"host-{name}-{number}.example"})
        asyncio.run(durable.commit())
    durable.close()
    return path.read_bytes()


def test_a_file_of_another_policy_is_refused(tmp_path: Path, good: bytes) -> None:
    path = tmp_path / "state"
    path.write_bytes(good)
    other = POLICY.replace(assumptions={"replay_header": None})
    with pytest.raises(BadInput, match=re.escape(str(path)) + ": was written under another policy"):
        attach(make(policy=other), path)
    attach(make(), path).close()


def test_a_file_of_another_rulebook_is_refused(
    tmp_path: Path, good: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    path.write_bytes(good)
    monkeypatch.setattr(sqlite, "rulebook_digest", lambda: "other")
    with pytest.raises(BadInput, match="another version of the rulebook"):
        attach(make(), path)


@pytest.mark.parametrize("size", [1, 50, 100, 4095, 4096, 5000, -4096, -1], ids=lambda size: f"cut-to-{size}")
def test_a_truncated_file_is_refused(tmp_path: Path, good: bytes, size: int) -> None:
    path = tmp_path / "state"
    path.write_bytes(good[:size])
    with pytest.raises(BadInput, match="is damaged or no state file of ranksim"):
        attach(make(), path)
    assert path.read_bytes() == good[:size]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE inputs SET batch = CAST(replace(batch, 'host-1', 'host-7') AS BLOB) WHERE number = 3",
        "UPDATE snapshot SET world = CAST(replace(world, 'demo', 'Demo') AS BLOB)",
        "UPDATE inputs SET batch = 'text'",
        "DELETE FROM inputs WHERE number = 2",
        "DELETE FROM snapshot",
        "DROP TABLE inputs",
    ],
)
def test_a_file_that_was_changed_is_refused(tmp_path: Path, good: bytes, change: str) -> None:
    path = tmp_path / "state"
    path.write_bytes(good)
    database = sqlite3.connect(path)
    assert database.execute("SELECT count(*) FROM inputs").fetchone()[0] == 3
    with database:
        database.execute(change)
    database.close()
    with pytest.raises(BadInput, match="is damaged or no state file"):
        attach(make(), path)


def test_what_others_wrote_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, foreign = tmp_path / "text", tmp_path / "foreign"
    text.write_text("dear diary\n" * 100)
    database = sqlite3.connect(foreign)
    database.execute("CREATE TABLE mine (name TEXT)")
    database.close()
    for path in (text, foreign):
        assert path.stat().st_size > 0
        before = path.read_bytes()
        with pytest.raises(BadInput, match=re.escape(str(path))):
            attach(make(), path)
        assert path.read_bytes() == before


def test_a_path_that_cannot_hold_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is a directory"):
        attach(make(), tmp_path)
    with pytest.raises(BadInput, match="cannot be written"):
        attach(make(), tmp_path / "no" / "state")


def test_a_file_belongs_to_one_process(tmp_path: Path) -> None:
    path = tmp_path / "state"
    first = attach(make(), path)
    with pytest.raises(BadInput, match="is in use by another process"):
        attach(make(), path)
    first.close()
    attach(make(), path).close()


def test_a_file_is_for_its_owners_eyes_alone(tmp_path: Path) -> None:
    path = tmp_path / "state"
    attach(make(), path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_control_token_outlives_the_process_and_a_chosen_one_replaces_it(tmp_path: Path) -> None:
    tokens = []
    for chosen, new in (("", "first"), ("", "second"), ("chosen", "third"), ("", "fourth")):
        log = attach(make(), tmp_path / "state.db")
        tokens.append(log.control_token(chosen, new))
        log.close()
    assert tokens == ["first", "first", "chosen", "chosen"]
