"""What `ranksim serve --state` costs: requests a second with the journal on, as a share of those with it off.

Wall time of real servers on one machine, in alternating rounds; medians are compared. One connection shows
what waiting for the disk adds to each request, many show what is left of it when one write serves all that
wait.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import pytest

from ranksim.core.contract.policy import Policy

ROUNDS, REQUESTS = 5, {1: 300, 32: 2_000}

POLICY = Policy().replace(facts={"rates": {"read": 10**9, "write": 10**9, "expensive": 10**9}})
"""Nothing is refused for coming too often."""


@contextmanager
def served(place: Path, *more: str) -> Iterator[dict[str, str]]:
    """Run `ranksim serve` and give what it says of itself."""
    command = [sys.executable, "-m", "ranksim", "serve", "--json", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--policy", str(place / "policy.yaml"), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def request(said: dict[str, str], method: str) -> bytes:
    """Write a request that reads, or one that makes a domain."""
    head = f"Host: x\r\nAuthorization: Bearer {said['key']}\r\n"
    if method == "GET":
        return f"GET /v1/labels HTTP/1.1\r\n{head}\r\n".encode()
    body = '{"host": "www.example.com"}'
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"POST /v1/domains HTTP/1.1\r\n{head}\r\n{body}".encode()


async def ask(said: dict[str, str], wanted: bytes, count: int) -> None:
    """Ask so often over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(said["base_url"].rpartition(":")[2]))
    for _ in range(count):
        writer.write(wanted)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 20"), head
        at = head.lower().index(b"content-length: ") + 16
        await reader.readexactly(int(head[at : head.index(b"\r\n", at)]))
    writer.close()
    await writer.wait_closed()


async def rate(said: dict[str, str], wanted: bytes, connections: int) -> float:
    """Requests a second of wall time."""
    each = REQUESTS[connections] // connections
    began = perf_counter()
    await asyncio.gather(*(ask(said, wanted, each) for _ in range(connections)))
    return each * connections / (perf_counter() - began)


@pytest.mark.parametrize("connections", sorted(REQUESTS))
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_journal_on_and_off(
    benchmark: Callable[..., Any], tmp_path: Path, method: str, connections: int
) -> None:
    rates: dict[str, list[float]] = {"off": [], "on": []}
    (tmp_path / "policy.yaml").write_text(POLICY.dump())

    def rounds() -> None:
        with served(tmp_path) as off, served(tmp_path, "--state", str(tmp_path / "state")) as on:
            for _ in range(ROUNDS + 1):
                for name, said in (("off", off), ("on", on)):
                    rates[name].append(asyncio.run(rate(said, request(said, method), connections)))

    benchmark.pedantic(rounds, rounds=1, iterations=1)
    off, on = (median(rates[name][1:]) for name in ("off", "on"))
    found = {"off": round(off), "on": round(on), "ratio": round(on / off, 2)}
    benchmark.extra_info.update(found)
    print(f"\n{method}, {connections} connections: {found}")
    assert on / off > (0.3 if connections > 1 else 0.02)
