#!/usr/bin/env python3
"""How far three requests travel through the sources, counted by tracing.

    python scripts/trips.py                      this checkout
    python scripts/trips.py --src ../old/src     another one, to compare with

The trips: (a) a POST that spends, from the ASGI app to its reply; (b) a spending call of a scenario's client,
in one event of a simulated world; (c) the lines of a trace to their verdicts, divided by the number of
exchanges. Only what is below src/ranksim counts. *Calls* are calls of functions, comprehensions included;
*functions* and *modules* how many different ones; *turns* the calls and returns that lead into another
module; *depth* the longest chain; *objects* how many of each class were made with a Python constructor.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TRACE = ROOT / "notebooks" / "data" / "everyday.jsonl.gz"
START = "2026-03-04T10:00:00Z"

SCENARIO = """
scenario: 1
start: 2026-03-04T10:00:00Z
length: 6h
accounts:
  acme: {plan: agency, portfolio: {domains: 20, keywords: 5}}
clients:
  nightly: {kind: schedule, account: acme, job: rank_run, every: day, at: "11:00"}
"""


class Trip:
    """Counts what is called below a folder while it is in force."""

    def __init__(self, package: Path) -> None:
        self.package = str(package) + "/"
        self.calls = 0
        self.turns = 0
        self.deepest = 0
        self.functions = Counter[CodeType]()
        self.made = Counter[str]()
        self._stack: list[str] = []
        self._last = ""

    def __enter__(self) -> Trip:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name == "__init__" and code.co_filename == "<string>":
            kind = type(frame.f_locals[code.co_varnames[0]])
            if kind.__module__.startswith("ranksim."):
                self.made[kind.__name__] += 1
        if not code.co_filename.startswith(self.package):
            return
        if event == "call":
            self.calls += 1
            self.functions[code] += 1
            self._stack.append(code.co_filename)
            self.deepest = max(self.deepest, len(self._stack))
            if code.co_name == "__init__":
                self.made[type(frame.f_locals[code.co_varnames[0]]).__name__] += 1
        elif event == "return" and self._stack:
            self._stack.pop()
        where = self._stack[-1] if self._stack else ""
        if where and where != self._last:
            self.turns += 1
            self._last = where

    @property
    def modules(self) -> Counter[str]:
        """Calls by module."""
        found = Counter[str]()
        for code, count in self.functions.items():
            found[code.co_filename.removeprefix(self.package)] += count
        return found

    def called(self, name: str) -> bool:
        """Whether a function of this name was called, written as module.py:function."""
        file, _, function = name.partition(":")
        return any(code.co_name == function and code.co_filename.endswith(file) for code in self.functions)

    def row(self, per: int = 1) -> dict[str, Any]:
        """What was counted; calls, turns and objects divided by `per`."""
        return {
            "calls": round(self.calls / per, 1),
            "functions": len(self.functions),
            "modules": len(self.modules),
            "turns": round(self.turns / per, 1),
            "depth": self.deepest,
            "objects": {name: round(n / per, 2) for name, n in self.made.most_common(12)},
        }


BOOKED = "rules/admission.py:book"


def post(package: Path) -> Trip:
    """(a) A POST that spends, after one like it, so that what is made once does not count."""
    from ranksim.core.clock import instant
    from ranksim.twin.facade.app import Facade
    from ranksim.twin.facade.twin import Twin

    twin = Twin(clock="manual", start=instant(START), plan="agency")
    app, trip = Facade(twin), Trip(package)

    async def asked(path: str, body: dict[str, Any], key: str) -> tuple[int, Any]:
        raw = json.dumps(body).encode()
        headers = [
            (b"host", b"localhost"),
            (b"authorization", f"Bearer {twin.keys['production']}".encode()),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(raw)).encode()),
            (b"idempotency-key", key.encode()),
        ]
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST",
            "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "state": {},
        }  # fmt: skip
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": raw, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await app(scope, receive, send)
        reply = b"".join(message.get("body", b"") for message in sent[1:])
        return sent[0]["status"], json.loads(reply)

    async def story() -> None:
        domains = [
            (await asked("/v1/domains", {"host": f"d{n}.example.com"}, f"d{n}"))[1]["data"]["id"]
            for n in range(3)
        ]
        job = {"kind": "crawl", "domain_id": domains[0]}
        await asked("/v1/jobs", job, "first")
        await asked("/v1/jobs", {**job, "domain_id": domains[1]}, "second")
        with trip:
            status, _ = await asked("/v1/jobs", {**job, "domain_id": domains[2]}, "third")
        assert status == 202, status

    asyncio.run(story())
    return trip


def client(package: Path) -> Trip:
    """(b) The spending call with the median number of calls, among the events of a simulated world."""
    import ranksim as rs

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trip.yaml"
        path.write_text(SCENARIO, encoding="utf-8")
        world = rs.World(rs.Scenario.load(path))
    trips = []
    until = 2 * 3_600_000_000
    while world.env.peek() < until:
        with Trip(package) as trip:
            world.env.step()
        if trip.called(BOOKED):
            trips.append(trip)
    middle = statistics.median_low(trip.calls for trip in trips)
    return next(trip for trip in trips if trip.calls == middle)


def judged(package: Path, trace: Path) -> tuple[Trip, int]:
    """(c) A trace, judged a second time, so that what is made once does not count."""
    import ranksim as rs

    exchanges = len(rs.Trace.read(trace).exchanges)
    rs.compare(trace)
    with Trip(package) as trip:
        rs.compare(trace)
    return trip, exchanges


def main() -> None:
    """Read the command line, make the trips, print what was counted."""
    plain = argparse.RawDescriptionHelpFormatter
    words = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    words.add_argument("--src", type=Path, default=ROOT / "src", help="sources to trace")
    words.add_argument("--trace", type=Path, default=TRACE, help="the trace that is judged")
    words.add_argument("--modules", action="store_true", help="list the modules of each trip")
    words.add_argument("--json", action="store_true", help="one JSON object")
    options = words.parse_args()
    source = options.src.resolve()
    sys.path.insert(0, str(source))
    package = source / "ranksim"
    found: dict[str, tuple[Trip, int]] = {}
    makers: dict[str, Callable[[], tuple[Trip, int]]] = {
        "a POST that spends": lambda: (post(package), 1),
        "a scenario client's call": lambda: (client(package), 1),
        "a trace to verdicts, an exchange": lambda: judged(package, options.trace),
    }
    for name, make in makers.items():
        found[name] = make()
    rows = {name: trip.row(per) for name, (trip, per) in found.items()}
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    for name, row in rows.items():
        print(
            f"{name}: " + ", ".join(f"{row[key]} {key}" for key in ("calls", "functions", "modules", "turns"))
        )
        print(
            f"  depth {row['depth']}; made: " + ", ".join(f"{n} {kind}" for kind, n in row["objects"].items())
        )
        if options.modules:
            for module, count in found[name][0].modules.most_common():
                print(f"  {count / found[name][1]:8.1f}  {module}")


if __name__ == "__main__":
    main()
