"""Several processes: a master and workers, here and elsewhere, also when one of them is killed."""

from __future__ import annotations

import signal
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.kit.runs import LOADTESTS, Start, assert_no_secret, by_users, so_far, until

from ranksim.core.trace import Trace
from ranksim.testing import Server

ELSEWHERE = """
from dataclasses import replace
from ranksim.judge.load import processes
from ranksim.load.users import user_class

HOUR = 3_600_000_000
here = processes.AnchoredClock.here
processes.machine = lambda: "elsewhere"
processes.merging.HEADER = "a file that is not there"
processes.AnchoredClock.here = lambda: replace(here(), anchor=here().anchor + HOUR, host="elsewhere")
Everyday = user_class("everyday")
"""
"""A worker on another machine, as far as can be told: its clock is an hour ahead, its files are its own."""


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.mark.slow
def test_a_master_and_workers_record_one_trace_though_one_is_elsewhere_and_one_is_killed(
    start: Start, deployment: Server, tmp_path: Path
) -> None:
    out, port, locustfile = tmp_path / "out", free_port(), str(LOADTESTS / "everyday.py")
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE, encoding="utf-8")
    master = start(
        "locust", "-f", locustfile, "--host", deployment.url, "--headless", "--only-summary", "--users", "6",
        "--spawn-rate", "6", "--out", str(out), "--master", "--expect-workers", "3",
        "--master-bind-host", "127.0.0.1", "--master-bind-port", port, "--stop-timeout", "60",
        RANKSIM_KEY=deployment.key,
    )  # fmt: skip
    join = ("--worker", "--master-host", "127.0.0.1", "--master-port", port)
    near = start("locust", "-f", locustfile, *join, name="near", RANKSIM_KEY=deployment.key)
    far = start("locust", "-f", "elsewhere.py", *join, name="far", RANKSIM_KEY=deployment.key)
    killed = start("locust", "-f", locustfile, *join, name="killed", RANKSIM_KEY=deployment.key)

    def both_at_work(part: str, lines: list[dict[str, Any]]) -> bool:
        users = {line["client"] for line in lines if "client" in line}
        return part != "part-0" and len(users) == 2 and len(lines) > 8

    until(lambda: sum(both_at_work(*part) for part in so_far(out).items()) == 2)
    killed.process.kill()
    seen = by_users(out)
    until(lambda: by_users(out) > seen + 3)
    master.process.send_signal(signal.SIGINT)

    assert master.wait() == 0, master.said()
    assert near.wait() == 0, near.said()
    assert far.wait() == 0, far.said()
    trace = Trace.read(out / "trace.jsonl")
    parts = Counter((one.id.partition(".")[0], one.clock_host == "elsewhere") for one in trace.exchanges)
    assert set(parts) == {("0", False), *((f"w{n}", n == elsewhere(trace)) for n in (1, 2, 3))}
    users = {one.client for one in trace.exchanges if one.client.startswith("everyday-")}
    assert users >= {f"everyday-{number}" for number in range(6)}
    sent = [one.sent for one in trace.exchanges]
    assert sent == sorted(sent)
    assert sent[-1] - sent[0] < 600_000_000, "an hour between the clocks has gone"
    notes = {note.text: note.model_extra for note in trace.notes}
    cut = notes["processes ended before they were done"]
    assert cut is not None
    assert len(cut["parts"]) == 1
    assert "parts of other machines: their calls are longer by what is unknown of their clocks" in notes
    assert [path.name for path in out.iterdir()] == ["trace.jsonl"]
    assert_no_secret(tmp_path, deployment.key)


def elsewhere(trace: Trace) -> int:
    """The number of the worker that was elsewhere."""
    return next(int(one.id[1:].partition(".")[0]) for one in trace.exchanges if one.clock_host == "elsewhere")


@pytest.mark.heavy
def test_processes_of_one_locust_record_what_a_single_one_does(
    start: Start, deployment: Server, tmp_path: Path
) -> None:
    kinds = {}
    for name, more in (("single", ()), ("several", ("--processes", "2"))):
        out, port = tmp_path / name, free_port()
        run = start(
            "locust", "-f", str(LOADTESTS / "everyday.py"), "--host", deployment.url, "--headless",
            "--only-summary", "--users", "4", "--spawn-rate", "4", "--out", str(out), "--stop-timeout", "60",
            "--master-bind-port", port, "--master-port", port, *more,
            RANKSIM_KEY=deployment.key, name=name,
        )  # fmt: skip
        until(lambda out=out: by_users(out) >= 40)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 0, run.said()
        trace = Trace.read(out / "trace.jsonl")
        kinds[name] = {one.client for one in trace.exchanges}, {note.text for note in trace.notes}
    assert kinds["single"] == kinds["several"]
