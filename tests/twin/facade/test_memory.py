"""What a server takes of memory before, during and after an attack: bounded, and given back.

.venv/bin/python -m pytest -m heavy -s tests/twin/facade/test_memory.py
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import httpx
import pytest

from .test_serve import Serving, serving

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc for what a process takes")


def resident(process: subprocess.Popen[str]) -> int:
    """Return the MiB of memory that a process takes."""
    with open(f"/proc/{process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1_048_576


def settled(process: subprocess.Popen[str]) -> int:
    """Return what it takes once that changes no more."""
    before = -1
    while (now := resident(process)) != before:
        before = now
        time.sleep(1)
    return now


def connect(one: Serving) -> socket.socket:
    """Connect as a client that gives up after a second."""
    made = socket.create_connection(("127.0.0.1", httpx.URL(one.base).port or 80), timeout=1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def heading(one: Serving, line: str, *fields: str) -> bytes:
    lines = [f"{line} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: {one.auth['authorization']}", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def pipe_and_read_nothing(one: Serving) -> list[socket.socket]:
    connections = [connect(one) for _ in range(20)]
    for each in connections:
        with suppress(OSError):
            for _ in range(100):
                each.sendall(heading(one, "GET /v1/domains") * 100)
    return connections


def send_half_of_bodies(one: Serving) -> list[socket.socket]:
    fields = ("Content-Type: application/json", "Content-Length: 1000000")
    half = heading(one, "POST /v1/domains", *fields) + b"x" * 500_000
    connections: list[socket.socket] = []
    for _ in range(5):
        for each in connections:
            each.close()
        time.sleep(1)
        connections = [connect(one) for _ in range(150)]
        for each in connections:
            with suppress(OSError):
                each.sendall(half)
    return connections


def follow_and_read_nothing(one: Serving) -> list[socket.socket]:
    token = f"Authorization: Bearer {one.said['control_token']}"
    connections = [connect(one) for _ in range(50)]
    for each in connections:
        each.sendall(f"GET /_ranksim/events HTTP/1.1\r\nHost: 127.0.0.1\r\n{token}\r\n\r\n".encode())
    with httpx.Client(base_url=one.base + "/v1", headers=one.auth, timeout=600) as client:
        made = client.post("/webhooks", json={"url": "http://127.0.0.1:9/"}).json()["data"]["id"]
        for _ in range(2_000):
            client.post(f"/webhooks/{made}/test")
    return connections


def connect_without_end(one: Serving) -> list[socket.socket]:
    connections: list[socket.socket] = []
    with suppress(OSError):
        for _ in range(1_500):
            connections.append(connect(one))
    return connections


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("attack", "during", "after"),
    [
        (pipe_and_read_nothing, 80, 80),
        (send_half_of_bodies, 130, 60),
        (follow_and_read_nothing, 60, 60),
        (connect_without_end, 60, 40),
    ],
)
def test_memory_is_bounded_and_given_back(
    attack: Callable[[Serving], list[socket.socket]], during: int, after: int
) -> None:
    """So many MiB more during the attack and after it, what the journal of requests may keep included."""
    with serving() as one:
        before = settled(one.process)
        connections = attack(one)
        most = settled(one.process)
        for each in connections:
            each.close()
        left = settled(one.process)
        print(f"\n{attack.__name__}: {before} MiB before, {most} during, {left} after")
        assert httpx.get(one.base + "/v1/account", headers=one.auth, timeout=60).status_code < 500
        assert most <= before + during
        assert left <= before + after
