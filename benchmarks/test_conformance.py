"""Judging traces: how long it takes and how much memory, and what judging at the send time would claim.

`test_growth` judges 10 thousand, 100 thousand and a million exchanges in processes of their own (on Linux,
which tells their largest memory). The traces are rehearsals, one world after the other, an hour apart, in one
file. `test_everyday` judges everyday traffic alone, of some 5 kB an exchange, by one process and by two, and
tells the floor: what reading and parsing its lines takes that nothing can save. RANKSIM_SEED draws others.

`test_naive_replay` replays conforming rehearsals call by call through the exact rulebook at the instant of
sending, as contract checkers do, and counts the traces on which that raises a false alarm.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from ranksim.bridges.rehearsal import START, Network, rehearse
from ranksim.bridges.rehearsal_worlds import COMPACT, make_world
from ranksim.core.callers.target import Target
from ranksim.core.clock import HOUR, MINUTE
from ranksim.core.contract.plans import Catalogue
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.quantities import Distribution
from ranksim.core.records import read_raw_lines
from ranksim.core.service.calls import Call
from ranksim.core.service.service import Service
from ranksim.core.trace import ENTRY, Exchange, Header, Trace, TraceKey
from ranksim.core.trace_writer import TraceWriter
from ranksim.judge.conformance.compare import compare
from ranksim.judge.conformance.history.exchange_reader import route
from ranksim.judge.profiles import profile

SIZES = (10_000, 100_000, 1_000_000)
PROFILES = ("everyday", "burst", "race", "retry", "walk", "ladder", "webhooks", "soak")

JUDGE = """
import json, re, sys, time
from pathlib import Path
from ranksim.judge.conformance.compare import compare_all
begun = time.process_time()
judgement = compare_all([sys.argv[1]], workers=int(sys.argv[2]))
print(json.dumps({
    "cpu_seconds": time.process_time() - begun,
    "megabytes": int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024,
    "exchanges": len(judgement.history.seen),
    "deviating": [finding.rule.name for finding in judgement.deviating],
}))
"""


def worlds() -> Iterator[Trace]:
    """Give rehearsals without end, each of its own world, in order of time."""
    number, start = 0, START
    while True:
        name = PROFILES[number % len(PROFILES)]
        service, target = make_world(None, number, start)
        length = min(profile(name).duration, 4 * MINUTE)
        yield rehearse(
            profile(name),
            service,
            target,
            duration=length,
            seed=number,
            start=start,
            network=Network(loss=0.002),
        )
        number, start = number + 1, start + HOUR


IDS = re.compile(r"\b([a-z]+_)([0-9]{10})\b")


def renamed(trace: Trace, world: int) -> tuple[dict[str, TraceKey], list[dict[str, Any]]]:
    """Give the keys, exchanges and deliveries of a world, with ids, key and receiver names of its own."""

    def own(name: str) -> str:
        return f"{name}-{world}" if name not in ("", "unknown") else name

    def told(text: str) -> str:
        return IDS.sub(rf"\g<1>{world:04d}\2", text).replace("/hooks/", f"/hooks-{world}/")

    keys = {
        own(name): key.model_copy(
            update={"account": told(key.account), "domain_id": key.domain_id and told(key.domain_id)}
        )
        for name, key in trace.header.keys.items()
    }
    entries = []
    for exchange in trace.exchanges:
        given = json.loads(told(exchange.model_dump_json()))
        given["id"] = own(exchange.id)
        given["api_key"] = None if exchange.api_key is None else own(exchange.api_key)
        if given["api_key"] in (None, "unknown"):
            given["environment"] = given["target"] = f"{exchange.environment}-{world}"
        entries.append(given)
    return keys, entries + [json.loads(told(one.model_dump_json())) for one in trace.deliveries]


def written(path: Path, exchanges: int) -> Path:
    """Write a trace of so many exchanges or a few more, of as many whole worlds as it takes."""
    count, keys = 0, dict[str, TraceKey]()
    with TraceWriter(path, started=START) as writer:
        for world, trace in enumerate(worlds()):
            found, entries = renamed(trace, world)
            keys.update(found)
            for entry in entries:
                writer.write(entry)
            count += len(trace.exchanges)
            if count >= exchanges:
                break
        writer.header = Header(started=START, keys=keys, exclusive=True)
    return path


@pytest.mark.parametrize("exchanges", SIZES)
def test_growth(benchmark: Any, exchanges: int, tmp_path: Path) -> None:
    path = written(tmp_path / "trace.jsonl", exchanges)
    command = [sys.executable, "-c", JUDGE, str(path), "1"]

    def judged() -> dict[str, Any]:
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    found = benchmark.pedantic(judged, rounds=1, iterations=1)
    assert found["exchanges"] >= exchanges
    assert not found["deviating"]
    found["bytes"] = path.stat().st_size
    benchmark.extra_info.update(found)


EVERYDAY = (20_000, 100_000)
USERS = 12
A_MINUTE = 660
"""Calls that so many users make, about."""


def floor(path: Path) -> dict[str, float]:
    """Tell the ms an exchange that reading, parsing and validating its line and parsing its body take."""
    lines = [line for line in read_raw_lines(path) if b'"kind":"exchange"' in line][:20_000]
    bodies = [exchange["response"] for exchange in map(from_json, lines) if exchange["response"]]
    steps: dict[str, Callable[[], object]] = {
        "read": lambda: sum(map(len, islice(read_raw_lines(path), len(lines)))),
        "line parsed": lambda: [None for line in lines if from_json(line) is None],
        "line validated": lambda: [None for line in lines if ENTRY.validate_json(line) is None],
        "body parsed": lambda: [None for body in bodies if from_json(body) is None],
    }
    taken = {}
    for name, step in steps.items():
        begun = time.process_time()
        step()
        taken[name] = round((time.process_time() - begun) / len(lines) * 1e3, 4)
    return taken


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("exchanges", EVERYDAY)
def test_everyday(benchmark: Any, exchanges: int, workers: int, tmp_path: Path) -> None:
    path, seed = tmp_path / "trace.jsonl", int(os.environ.get("RANKSIM_SEED", "1"))
    service, target = make_world(Policy(), seed)
    length = exchanges * MINUTE // A_MINUTE
    rehearse(profile("everyday"), service, target, users=USERS, duration=length, seed=seed, path=path)
    command = [sys.executable, "-c", JUDGE, str(path), str(workers)]

    def judged() -> dict[str, Any]:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    found = benchmark.pedantic(judged, rounds=3, iterations=1)
    assert not found["deviating"]
    benchmark.extra_info.update(found, bytes=path.stat().st_size, floor=floor(path))


# Naive replay


def replayed(trace: Trace, service: Service, target: Target) -> int:
    """Replay calls at the instants of sending, and count those answered otherwise than recorded."""
    differing = 0
    for exchange in sorted(trace.exchanges, key=lambda one: (one.sent, int(one.id[1:]))):
        reply = service.handle(_call(exchange, target), exchange.sent).reply
        service.written(reply, exchange.sent)
        if exchange.status is None or _code(exchange) == "idempotency_in_progress":
            continue
        code = reply.code if reply.status >= 400 else ""
        differing += (reply.status, code) != (exchange.status, _code(exchange))
    return differing


def _call(exchange: Exchange, target: Target) -> Call:
    operation, parameters = route(exchange.method, exchange.path)
    assert operation
    call = Call(operation, target.token(exchange.api_key or ""), parameters, exchange.query)
    call.method, call.caller, call.environment = exchange.method, "192.0.2.1", exchange.environment
    call.idempotency_key = exchange.request_headers.get("Idempotency-Key")
    if exchange.body:
        call.raw = exchange.body.encode()
        call.body = json.loads(exchange.body)
    return call


def _code(exchange: Exchange) -> str:
    if not exchange.response or exchange.status is None or exchange.status < 400:
        return ""
    return str(json.loads(exchange.response).get("code", ""))


CATALOGUE = {
    **COMPACT,
    "job_durations": dict.fromkeys(COMPACT["job_durations"], "5s"),
    "job_failure_rates": {},
}
STEADY = Policy(catalogue=Catalogue.model_validate_json(json.dumps(CATALOGUE)))
"""Jobs that all take as long and never fail, so that a replay can know their ends."""

AT_ONCE = Distribution(kind="constant", durations=(1,))
NETWORKS = {
    "at once": Network(before=AT_ONCE, after=AT_ONCE, hook=AT_ONCE),
    "usual": Network(),
    "lossy": Network(loss=0.02),
}
"""Where calls take effect as they are sent, naive replay is right: the control."""


def conforming(seed: int, network: Network) -> tuple[Trace, Service, Target]:
    """Rehearse one profile, and give the trace with a fresh world like the one it met."""
    name = ("burst", "race", "walk", "ladder")[seed % 4]
    service, target = make_world(STEADY, seed)
    trace = rehearse(profile(name), service, target, duration=2 * MINUTE, seed=seed, network=network)
    return trace, make_world(STEADY, seed)[0], target


@pytest.mark.parametrize("network", NETWORKS)
def test_naive_replay(benchmark: Any, network: str) -> None:
    runs = [conforming(seed, NETWORKS[network]) for seed in range(40)]

    def alarms() -> tuple[int, int]:
        naive = sum(replayed(trace, service, target) > 0 for trace, service, target in runs)
        return naive, sum(bool(compare(trace).deviating) for trace, _, _ in runs)

    naive, judged = benchmark.pedantic(alarms, rounds=1, iterations=1)
    benchmark.extra_info.update(traces=len(runs), naive_alarms=naive, compare_alarms=judged)
    assert judged == 0
    assert (naive > 0) == (network != "at once")
