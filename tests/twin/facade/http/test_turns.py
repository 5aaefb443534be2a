"""No request of allowed size occupies the loop: what the longest turn takes of a processor, for the worst.

    .venv/bin/python -m pytest -m heavy -s tests/twin/facade/http/test_turns.py

What is measured is the processor time of the loop's own thread around each of its callbacks, so neither the
client nor whatever else runs on the machine counts; pauses of the garbage collector, set as the server sets
it, do. A busy machine makes it up to twice as much, so what takes long is sent several times, and the least
counts. RANKSIM_TURNS_SEED is what the generated bodies are made of.
"""

import asyncio
import gc
import json
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from tests.twin.facade.http.test_graphql_cost import LARGEST

from ranksim.core.clock import instant
from ranksim.core.contract.policy import Policy
from ranksim.core.service.calls import Call
from ranksim.twin.facade.app import MIB, Facade
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.server import spare_the_collector
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.listener import Listener
from ranksim.twin.serving.loop_thread import LoopThread

MOST_MS = 50
AGAIN = 5
"""How often what takes longer than half of that is sent again."""

SEED = int(os.environ.get("RANKSIM_TURNS_SEED", "1"))
PLENTY = {"read": 10**6, "write": 10**6, "expensive": 10**6}


JSON = "Content-Type: application/json"


class Turns:
    """The longest turn of a loop since it was asked last."""

    def __init__(self) -> None:
        self.thread, self.longest, self.what = 0, 0.0, ""

    def taken(self) -> tuple[float, str]:
        """Return it in ms, and what it ran; begin anew."""
        found, self.longest = (self.longest * 1000, self.what), 0.0
        return found


@contextmanager
def measured(turns: Turns) -> Iterator[None]:
    run = asyncio.events.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        if threading.get_ident() != turns.thread:
            run(handle)
            return
        what = repr(handle._callback)
        began = time.thread_time()
        run(handle)
        took = time.thread_time() - began
        if took > turns.longest:
            turns.longest, turns.what = took, what

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.events.Handle, "_run", timed)
        yield


class Deployment:
    """A deployment of the largest plan that is full: 12,000 keywords, tracked by a scan, of 200 domains."""

    def __init__(self) -> None:
        self.loop = LoopThread()
        self.turns = Turns()
        self.loop.call(self._furnish())
        self.listener = Listener(Facade(self.twin))
        self.loop.call(self.listener.open())

    async def _furnish(self) -> None:
        self.turns.thread = threading.get_ident()
        policy = Policy().replace(facts={"rates": PLENTY})
        start = instant("2026-03-04T10:00:00Z")
        self.twin = Twin(policy, clock="manual", start=start, plan="agency", sender=Scripted())
        self.twin.administer("waive", limits=["quota", "slots", "cost_ceiling", "cooldown"])
        self.key = self.twin.keys["production"]
        for number in range(200):
            self.domain = self._made("domains", {"host": f"{number}.example.com"})["id"]
        domain = {"domain_id": self.domain}
        self.words = self._made("keyword_lists", domain | {"name": "all"})["id"]
        for part in range(12):
            words = [f"word {part} {number}" for number in range(1_000)]
            made = self._made("keywords", {"list_id": self.words, "keywords": words})["created"]
        self.keyword = made[0]["id"]
        self.labels = [self._made("labels", domain | {"name": f"l{n}"})["id"] for n in range(300)]
        places = [{"country": country} for country in ("DE", "FR", "AT")]
        pairs = ["google/desktop", "google/mobile", "bing/desktop", "bing/mobile"]
        self.scan = {"list_ids": [self.words], "engine_devices": pairs, "geographies": places}
        self._made("scans", domain | self.scan)
        self.webhook = self._made("webhooks", {"url": "https://hooks.example"})["id"]

    def _made(self, noun: str, body: dict[str, Any]) -> Any:
        reply = self.twin.call(Call(f"{noun}.create", self.key, body=body))
        assert reply.status < 300, reply.body
        return (reply.body or {})["data"]

    def head(self, line: str, *fields: str) -> bytes:
        """The head of a request that ends its connection."""
        named = ["Host: x", f"Authorization: Bearer {self.key}", "Connection: close", *fields]
        return "\r\n".join([f"{line} HTTP/1.1", *named, "", ""]).encode()

    def post(self, path: str, body: bytes | Any, method: str = "POST", *fields: str) -> bytes:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.head(f"{method} {path}", JSON, f"Content-Length: {len(raw)}", *fields) + raw

    def chunked(self, path: str, body: bytes, size: int) -> bytes:
        parts = [body[at : at + size] for at in range(0, len(body), size)]
        framed = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
        return self.head(f"POST {path}", JSON, "Transfer-Encoding: chunked") + framed + b"0\r\n\r\n"

    def answer(self, sent: bytes) -> bytes:
        """Send bytes and read until the server closes."""
        said = b""
        with socket.create_connection(("127.0.0.1", self.listener.port), timeout=120) as connection:

            def send() -> None:
                with suppress(OSError):
                    connection.sendall(sent)

            sending = threading.Thread(target=send)
            sending.start()
            with suppress(ConnectionError):
                while part := connection.recv(1 << 20):
                    said += part
            sending.join()
        return said

    def close(self) -> None:
        self.loop.call(self.listener.close())
        self.loop.call(self.twin.close())
        self.loop.stop()


def padded(body: dict[str, Any], fill: Callable[[int], Any]) -> bytes:
    """A body with one more member that makes it as large as may be."""
    size = len(json.dumps(body | {"x": ""}).encode())
    return json.dumps(body | {"x": fill(MIB - size - 20)}).encode()


def values(draw: random.Random, depth: int) -> bytes:
    """A JSON value: any kind, nested, its texts full of what JSON is made of."""
    kind = draw.randrange(7) if depth else draw.randrange(4)
    if kind == 0:
        return draw.choice([b"1", b"-0.0", b"1e308", b"9" * 300, b"true", b"null"])
    if kind <= 3:
        return (
            b'"'
            + draw.choice([b"x", b",", b"\\\\", b'\\"', b"[", b"\\u00e9", b"\xc3\xa9"]) * draw.randrange(40)
            + b'"'
        )
    parts = [values(draw, depth - 1) for _ in range(draw.randrange(6))]
    if kind <= 5:
        return b"[" + b",".join(parts) + b"]"
    return b"{" + b",".join(b'"%d":%b' % (draw.randrange(99), part) for part in parts) + b"}"


def generated(draw: random.Random) -> bytes:
    """A body about as large as may be, of many values or few."""
    nested = draw.choice([0, 1, 3, 10, 100])
    part = b"[" * nested + values(draw, 5) + b"]" * nested
    most = draw.choice([MIB, MIB, 100_000])
    return b'{"host":"a.example","x":[' + (part + b",") * ((most - 60) // (len(part) + 1)) + b"1]}"


def bodies(it: Deployment) -> dict[str, tuple[str, Any]]:
    """Bodies as large as may be, or with as much in them, by the path that they go to."""
    domain, words = {"domain_id": it.domain}, [f"new {number}" for number in range(10_000)]
    listed, hooks = {"list_id": it.words}, {"url": "https://a.example/"}

    def nothing(inside: bytes) -> tuple[str, bytes]:
        return "/v1/domains", b'{"host":"a.example","x":' + inside + b"}"

    deep = 195
    return {
        "a text of a megabyte": nothing(b'"' + b"x" * 1_048_000 + b'"'),
        "escapes": nothing(b'"' + b"\\u00e9" * 170_000 + b'"'),
        "texts": nothing(b"[" + b'"' + b'","' * 300_000 + b'"]'),
        "numbers": nothing(b"[" + b"1," * 500_000 + b"1]"),
        "as many numbers as may be": nothing(b"[" + b"1.5e300," * 11_000 + b"1]"),
        "a large number": nothing(b"9" * 4_000),
        "large numbers": nothing(b"[" + (b"9" * 4_000 + b",") * 260 + b"1]"),
        "lists": nothing(b"[" + b"[]," * 340_000 + b"1]"),
        "as many lists as may be": nothing(b"[" + b"[]," * 5_900 + b"1]"),
        "members": nothing(b'{"":1' + b"".join(b',"%x":1' % n for n in range(90_000)) + b"}"),
        "as many members": nothing(b"{" + b"".join(b'"%080x":1,' % n for n in range(11_000)) + b'"":1}'),
        "deep lists": nothing(b"[" + (b"[" * deep + b"]" * deep + b",") * 60 + b"1]"),
        "deep objects": nothing(b"[" + (b'{"":' * deep + b"1" + b"}" * deep + b",") * 60 + b"1]"),
        "too deep": ("/v1/domains", b"[" * 1_000_000),
        "not JSON": ("/v1/domains", b'{"host":' + b" " * 1_000_000 + b"x"),
        "quotes": ("/v1/domains", b'"' * 1_000_000),
        "keywords, dry": ("/v1/keywords", listed | {"keywords": words, "dry_run": True}),
        "one keyword often": ("/v1/keywords", listed | {"keywords": ["again"] * 10_000}),
        "too many keywords": ("/v1/keywords", listed | {"keywords": ["again"] * 11_900}),
        "briefs of ids": ("/v1/keyword-briefs", {"keyword_ids": [it.keyword] * 10_000}),
        "briefs of no ids": ("/v1/keyword-briefs", {"keyword_ids": [f"none{n}" for n in range(10_000)]}),
        "a scan": ("/v1/scans", domain | it.scan),
        "a scan of one list often": ("/v1/scans", domain | it.scan | {"list_ids": [it.words] * 10_000}),
        "a wide scan": ("/v1/scans", domain | it.scan | {
            "engine_devices": [f"e{n}/d" for n in range(100)],
            "geographies": [{"country": "DE", "location_id": str(n)} for n in range(100)]}),
        "wrong event types": ("/v1/webhooks", hooks | {"event_types": ["none"] * 11_900}),
        "event types": ("/v1/webhooks", hooks | {"event_types": ["job.failed"] * 11_900}),
        "a job": ("/v1/jobs", domain | {"kind": "rank_run"}),
        "a test event": (f"/v1/webhooks/{it.webhook}/test", b""),
    }  # fmt: skip


def many(it: Deployment) -> dict[str, bytes]:
    """Calls that make, or find wrong, 10,000 things at once."""
    words = [f"{time.monotonic_ns()} {number}" for number in range(10_000)]
    listed = {"list_id": it.words}
    return {
        "10,000 keywords": it.post("/v1/keywords", listed | {"keywords": words}),
        "10,000 wrong keywords": it.post("/v1/keywords", listed | {"keywords": [1] * 10_000}),
        "10,000 briefs": it.post("/v1/keyword-briefs", {"domain_id": it.domain, "keywords": words}),
    }


def worst(it: Deployment) -> dict[str, bytes]:
    """The largest requests of every kind."""
    found = {name: it.post(path, body) for name, (path, body) in bodies(it).items()}
    draw = random.Random(SEED)
    for number in range(30):
        found[f"generated {number}"] = it.post("/v1/domains", generated(draw))
        found[f"generated variables {number}"] = it.post(
            "/graphql", b'{"query":"{slots{used}}","variables":' + generated(draw) + b"}"
        )
    labelled = {"label_ids": it.labels * 30}
    found["labels of a keyword"] = it.post(f"/v1/keywords/{it.keyword}", labelled, "PATCH")
    same = {"host": "a.example", "x": "y" * 1_000_000}
    for time_ in ("first", "again"):
        found[f"with a key, {time_}"] = it.post("/v1/domains", same, "POST", "Idempotency-Key: k")
    body = json.dumps({"host": "a.example", "x": "x" * 1_000_000}).encode()
    for size in (1, 2, 7, 100, 10_000):
        found[f"chunks of {size}"] = it.chunked("/v1/domains", body, size)
    for path in (
        "keywords?limit=200", "keywords?keyword=none", f"keywords?domain_id={it.domain}&keyword=none",
        "keywords?label_id=none", f"keywords?list_id={it.words}&limit=200", "positions?limit=200",
        f"positions?keyword_id={it.keyword}", "positions?date=2026-03-05", "positions/history?limit=200",
        "domains?limit=200", "labels?limit=200", "scans", "jobs?limit=200", "slots", "account/usage",
        "crawled-pages?limit=200", "webhook-deliveries", "backlinks", "ai-visibility", "analyses?limit=200",
        "keyword-briefs?limit=200", "domains?cursor=" + "x" * 60_000,
        "keywords?" + "&".join(f"p{n}=" + "%C3%A9" * 90 for n in range(100)),
    ):  # fmt: skip
        found[f"GET {path[:50]}"] = it.head(f"GET /v1/{path}")
    found["many headers"] = it.head("GET /v1/domains", *["a:"] * 16_000)
    found["long headers"] = it.head("GET /v1/domains", *["x: " + "y" * 8_000] * 8)
    for path in (
        "/openapi.json",
        "/docs",
        "/docs/graphql.json",
        "/metrics",
        "/schema.graphql",
    ):
        found[path] = it.head(f"GET {path}")
    for name, query in LARGEST.items():
        for time_ in ("new", "known"):
            found[f"GraphQL: {name}, {time_}"] = it.post("/graphql", {"query": query})
    made = 'createLabel(input:{domainId:"%s",name:"%s"}){label{id}}'
    batch = " ".join(f"a{n}:" + made % (it.domain, f"new {n}") for n in range(20))
    found["GraphQL: a batch of writes"] = it.post("/graphql", {"query": "mutation{" + batch + "}"})
    return found


@pytest.mark.heavy
def test_no_request_of_allowed_size_occupies_the_loop() -> None:
    it, found = Deployment(), {}
    thresholds = gc.get_threshold()

    def took(sent: bytes) -> float:
        said = it.answer(sent)
        assert said.startswith(b"HTTP/1.1 ")
        assert not said.startswith(b"HTTP/1.1 5")
        ms, what = it.turns.taken()
        print(f"{ms:7.1f} ms  {said[9:12].decode()}  {len(sent)} B  {what[:60]}", end="  ")
        return ms

    try:
        spare_the_collector()
        with measured(it.turns):
            for first in (it.head("GET /openapi.json"), it.post("/graphql", {"query": "{slots{used}}"})):
                took(first)
            for name, sent in worst(it).items():
                found[name] = took(sent)
                for _ in range(AGAIN if found[name] > MOST_MS / 2 else 0):
                    found[name] = min(found[name], took(sent))
                print(name)
            made = [{name: took(sent) for name, sent in many(it).items()} for _ in range(AGAIN + 1)]
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        it.close()
    found |= {name: min(one[name] for one in made) for name in made[0]}
    print(json.dumps(dict(sorted(found.items(), key=lambda one: -one[1])[:9]), indent=1))
    assert max(found.values()) < MOST_MS
