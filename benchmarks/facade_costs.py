"""What a request to the facade costs, step by step: `python benchmarks/facade_costs.py`, two tables.

Servers that do more and more of what the facade does, and a bare handler, are asked in turn, a slice of some
hundred requests each, over 32 connections. What counts is the processor time of the server, user and system,
and of each the best slice, so that what else the machine does disturbs little. The journal of requests is
full, as it is after a while. `--before ../other` asks the facade of another checkout and this one in turn
instead, and tells their memory too.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parents[1]

CONNECTIONS, ROUNDS = 32, 3
"""How many connections are open, and how often each is asked in a slice."""

STEPS = {
    "http": "HTTP, sockets, the event loop: an answer that stands ready",
    "read": "the request read: path, headers, body, JSON",
    "service": "the service: access, rate window, checks, books, the answer as a dictionary",
    "json": "the answer as JSON",
    "answer": "headers, date, counts, faults, what is kept",
    "facade": "the journal of requests",
}
"""The servers that do more and more, and what each does that the one before does not."""


class Server:
    """A server in a process of its own, asked over many connections at once."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.pid = process.pid
        port, self.key, self.domain = process.stdout.readline().split()
        common = f"Host: 127.0.0.1\r\nAuthorization: Bearer {self.key}\r\nAccept: */*\r\nUser-Agent: load\r\n"
        body = json.dumps({"domain_id": self.domain, "keywords": ["trail shoes"]})
        self.requests = {
            "GET": f"GET /v1/keywords HTTP/1.1\r\n{common}\r\n".encode(),
            "POST": (
                f"POST /v1/keyword-briefs HTTP/1.1\r\n{common}Content-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}"
            ).encode(),
        }
        self.port = int(port)

    def memory(self) -> float:
        """Return the most memory that it has held, in MiB."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def cost(self, method: str) -> float:
        """Ask a slice of requests over connections of its own; return the processor time of each, in µs."""
        request, began = self.requests[method], 0
        with ExitStack() as stack:
            connections = [
                stack.enter_context(socket.create_connection(("127.0.0.1", self.port)))
                for _ in range(CONNECTIONS)
            ]
            for number in range(ROUNDS + 1):
                for connection in connections:
                    connection.sendall(request)
                for connection in connections:
                    answered(connection)
                if not number:
                    began = used(connections[0])
            return (used(connections[0]) - began) / (ROUNDS * CONNECTIONS) / 1e3


def used(connection: socket.socket) -> int:
    """Return the processor time that a server has used, in ns."""
    connection.sendall(b"GET /cpu HTTP/1.1\r\nHost: x\r\n\r\n")
    return int(answered(connection))


def answered(connection: socket.socket) -> bytes:
    """Read a whole answer, and return its body."""
    heard = received(connection)
    while (end := heard.find(b"\r\n\r\n")) < 0:
        heard += received(connection)
    assert heard.startswith(b"HTTP/1.1 20"), heard
    at = heard.lower().index(b"content-length: ") + 16
    whole = end + 4 + int(heard[at : heard.index(b"\r\n", at)])
    while len(heard) < whole:
        heard += received(connection)
    return heard[end + 4 :]


def received(connection: socket.socket) -> bytes:
    """Read some more of an answer."""
    part = connection.recv(65_536)
    assert part, "the server closed the connection"
    return part


@contextmanager
def running(name: str, checkout: Path = HERE) -> Iterator[Server]:
    """Run a server, of the code of a checkout."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "benchmarks" / "facade_servers.py"), name],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(checkout / "src"), "PYTHONHASHSEED": "0"},
    )
    try:
        yield Server(process)
    finally:
        process.kill()
        process.communicate()


def costs(names: Sequence[str], method: str, slices: int) -> list[float]:
    """Ask servers in turn; return what a request costs each in its best slice, in µs."""
    with ExitStack() as stack:
        servers = [stack.enter_context(running(name)) for name in names]
        rounds = [slice_of(servers, method, number) for number in range(slices)]
    return [min(each) for each in zip(*rounds, strict=True)]


def slice_of(servers: Sequence[Server], method: str, number: int) -> list[float]:
    """Ask each server a slice, every other time the last first; return what a request cost each, in µs."""
    order = range(len(servers)) if number % 2 else reversed(range(len(servers)))
    return [cost for _, cost in sorted((index, servers[index].cost(method)) for index in order)]


def compare(before: Path, method: str, slices: int) -> None:
    """Print what a request costs two checkouts: the best slice, the median of pairs, the most memory."""
    places = {"before": before, "before, again": before, "now": HERE}
    with ExitStack() as stack:
        servers = [stack.enter_context(running("facade", place)) for place in places.values()]
        rounds = [slice_of(servers, method, number) for number in range(slices)]
        memory = [server.memory() for server in servers]
    print(f"\n| {method} | µs, best | of before | pairs, median | MiB at most | of before |")
    print("|---|---|---|---|---|---|")
    for name, costs_now, most in zip(places, zip(*rounds, strict=True), memory, strict=True):
        best, pairs = min(costs_now), median(each / of[0] for each, of in zip(costs_now, rounds, strict=True))
        shares = f"{best / min(of[0] for of in rounds):.3f} | {pairs:.3f}"
        print(f"| {name} | {best:.1f} | {shares} | {most:.1f} | {most / memory[0]:.3f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, default=60)
    parser.add_argument("--share", action="store_true", help="the share of the bare handler alone")
    parser.add_argument("--before", type=Path, help="another checkout, to compare the facade of")
    given = parser.parse_args()
    for method in ("GET", "POST"):
        if given.before is not None:
            compare(given.before.resolve(), method, given.slices)
            continue
        steps = ["facade"] if given.share else list(STEPS)
        bare, again, *found = costs(["bare", "bare", *steps], method, given.slices)
        print(f"\n| {method}, µs of the server | step | in all |\n|---|---|---|")
        before = 0.0
        for step, cost in zip(steps, found, strict=True):
            print(f"| {STEPS[step]} | {cost - before:.1f} | {cost:.1f} |")
            before = cost
        print(f"| the bare handler (again: {again:.1f}) | | {bare:.1f} |")
        share = (bare + again) / 2 / before
        print(f"\n{method}: the bare handler takes {share:.2f} of what the facade takes.", flush=True)


if __name__ == "__main__":
    main()
