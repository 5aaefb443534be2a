"""How many requests a second the facade answers, all rules on, as a share of a bare ASGI handler's.

What is counted is the processor time of the server, so that the load and whatever else runs on the machine
disturb little; rounds alternate between the two servers, and medians are compared.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SERVERS = Path(__file__).with_name("facade_servers.py")

CONNECTIONS, REQUESTS, ROUNDS = 32, 4_000, 5

LEAST = {"GET": 0.3, "POST": 0.1}
"""The shares below which something is badly wrong; the aim is a half."""


class Target:
    """A server in a process, and the two requests."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        port, key, domain = process.stdout.readline().split()
        self.port = int(port)
        common = f"Host: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nAccept: */*\r\nUser-Agent: load\r\n"
        body = json.dumps({"domain_id": domain, "keywords": ["trail shoes"]})
        self.requests = {
            "GET": f"GET /v1/keywords HTTP/1.1\r\n{common}\r\n".encode(),
            "POST": (
                f"POST /v1/keyword-briefs HTTP/1.1\r\n{common}Content-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}"
            ).encode(),
        }


@contextmanager
def served(kind: str) -> Iterator[Target]:
    process = subprocess.Popen(
        [sys.executable, str(SERVERS), kind],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        yield Target(process)
    finally:
        process.kill()
        process.communicate()


class Client(asyncio.Protocol):
    """One connection that asks again as soon as it is answered."""

    def __init__(self, request: bytes, left: list[int], done: asyncio.Future[None]) -> None:
        self.request, self.left, self.done = request, left, done
        self.heard = b""
        self.whole = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        if self.left[0] > 0:
            self.left[0] -= 1
            self.transport.write(self.request)
        elif not self.done.done():
            self.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        self.heard += data
        if not self.whole:
            end = self.heard.find(b"\r\n\r\n")
            if end < 0:
                return
            assert self.heard.startswith(b"HTTP/1.1 20"), self.heard
            at = self.heard.lower().index(b"content-length: ") + 16
            self.whole = end + 4 + int(self.heard[at : self.heard.index(b"\r\n", at)])
        if len(self.heard) >= self.whole:
            self.last, self.heard, self.whole = self.heard[self.heard.index(b"\r\n\r\n") + 4 :], b"", 0
            self.ask()


async def asked(target: Target, request: bytes, count: int, connections: int) -> bytes:
    """Ask so often over so many connections, and give one of the answers."""
    loop = asyncio.get_running_loop()
    left, ends = [count], [loop.create_future() for _ in range(connections)]
    made = [
        await loop.create_connection(lambda end=end: Client(request, left, end), "127.0.0.1", target.port)
        for end in ends
    ]
    await asyncio.gather(*ends)
    for transport, _ in made:
        transport.close()
    return made[0][1].last


async def rate(target: Target, method: str) -> float:
    """Requests a second of the server's processor time: what it would answer on a core of its own."""
    cpu = b"GET /cpu HTTP/1.1\r\nHost: x\r\n\r\n"
    began = int(await asked(target, cpu, 1, 1))
    await asked(target, target.requests[method], REQUESTS, CONNECTIONS)
    return REQUESTS / (int(await asked(target, cpu, 1, 1)) - began) * 1e9


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_requests_a_second(benchmark: Callable[..., Any], method: str) -> None:
    rates: dict[str, list[float]] = {"bare": [], "facade": []}

    def rounds() -> None:
        with served("bare") as bare, served("facade") as facade:
            for target in (bare, facade):
                asyncio.run(rate(target, method))
            for _ in range(ROUNDS):
                rates["bare"].append(asyncio.run(rate(bare, method)))
                rates["facade"].append(asyncio.run(rate(facade, method)))

    benchmark.pedantic(rounds, rounds=1, iterations=1)
    medians = {name: statistics.median(found) for name, found in rates.items()}
    ratio = medians["facade"] / medians["bare"]
    benchmark.extra_info.update({name: round(median) for name, median in medians.items()})
    benchmark.extra_info["ratio"] = round(ratio, 2)
    print(f"\n{method}: {medians}, ratio {ratio:.2f}")
    assert ratio > LEAST[method]
