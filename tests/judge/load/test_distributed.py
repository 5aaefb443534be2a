"""Several processes: a master and workers, here and elsewhere, also when one of them is killed."""

from __future__ import annotations

import json
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.judge.conformance.elsewhere import sockets
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
        texts = {note.text for note in trace.notes if "held back" not in note.text}  # as far as each came
        kinds[name] = {one.client for one in trace.exchanges}, texts
    assert kinds["single"] == kinds["several"]


BOUNDS = ("--fail-on", "unpromised <= 0", "--fail-on", "p95 < 30s")
BURSTS = pytest.mark.parametrize(
    ("options", "code"),
    [((), 0), (("--break", "rate-fewer expensive"), 1)],
    ids=["limits that are kept", "limits that refuse too early"],
)


@contextmanager
def two_keys(folder: Path, *options: str) -> Iterator[Path]:
    """Serve the second deployment; give a target file with two of its keys, which are soon explored."""
    with sockets.served(folder, *options) as target:
        given = json.loads(target.read_text(encoding="utf-8"))
        keys = dict(list(given["keys"].items())[:2])
        target.write_text(json.dumps({**given, "keys": keys}), encoding="utf-8")
        yield target


@pytest.mark.heavy
@BURSTS
def test_thresholds_of_several_processes_are_held_against_all_that_they_sent(
    options: tuple[str, ...], code: int, start: Start, tmp_path: Path
) -> None:
    """Rate limits that refuse when they may fail nothing; those that refuse before do."""
    with two_keys(tmp_path, *options) as target:
        run = start(
            "ranksim", "check", "load", "--target", str(target), "--profile", "burst", "--users", "6",
            "--duration", "25s", "--processes", "2", "--out", str(tmp_path / "out"), *BOUNDS,
            "--fail-on", "limited > 0",
        )  # fmt: skip
        assert run.wait() == code, run.said()
    last = run.said().splitlines()[-1]
    assert last == ("1 of 3 thresholds FAILED: unpromised <= 0" if code else "all 3 thresholds hold")


@pytest.mark.heavy
@BURSTS
def test_locusts_own_master_holds_the_trace_of_all_workers_against_thresholds(
    options: tuple[str, ...], code: int, start: Start, tmp_path: Path
) -> None:
    out, port, locustfile = tmp_path / "out", free_port(), str(LOADTESTS / "burst.py")
    with two_keys(tmp_path, *options) as target:
        address = next(iter(json.loads(target.read_text(encoding="utf-8"))["environments"].values()))
        shared = ("locust", "-f", locustfile, "--target", str(target))
        master = start(
            *shared, "--host", address, "--headless", "--only-summary", "--users", "6", "--spawn-rate", "6",
            "--run-time", "30s", "--out", str(out), "--master", "--expect-workers", "2",
            "--master-bind-host", "127.0.0.1", "--master-bind-port", port, "--stop-timeout", "20", *BOUNDS,
        )  # fmt: skip
        join = ("--worker", "--master-host", "127.0.0.1", "--master-port", port)
        workers = [start(*shared, *join, name=f"worker-{number}") for number in range(2)]
        assert master.wait() == code, master.said()
        assert [worker.wait() for worker in workers] == [0, 0]
    parts = {one.id.partition(".")[0] for one in Trace.read(out / "trace.jsonl").exchanges}
    assert parts == {"0", "w1", "w2"}
    assert ("1 of 2 thresholds FAILED: unpromised <= 0" if code else "all 2 thresholds hold") in master.said()


@pytest.mark.slow
def test_locust_refuses_a_threshold_that_says_nothing(start: Start, tmp_path: Path) -> None:
    run = start(
        "locust", "-f", str(LOADTESTS / "burst.py"), "--host", "http://127.0.0.1:1", "--headless", "--users",
        "1", "--out", str(tmp_path / "out"), "--fail-on", "p59 < 1s", RANKSIM_KEY="k",
    )  # fmt: skip
    assert run.wait() == 2, run.said()
    assert "--fail-on: expected one of" in run.said()
    assert not (tmp_path / "out").exists()
