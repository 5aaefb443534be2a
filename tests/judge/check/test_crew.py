"""The process that makes the calls has an end, whatever a deployment does: real processes and sockets."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.kit.runs import TOKEN, Scripted, until

from ranksim.core.clock import MINUTE, SECOND, Micros
from ranksim.core.errors import BadInput
from ranksim.judge.check.checking import monotonic
from ranksim.judge.check.crew import Crew
from ranksim.judge.deployment.cleanup import KINDS
from ranksim.judge.load.options import LoadOptions, key_in_environment
from ranksim.testing import Server

pytestmark = pytest.mark.slow


def slowly(connection: socket.socket) -> None:
    """Answer a byte now and then, as long as somebody listens."""
    connection.settimeout(0.05)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        with suppress(TimeoutError):
            if not connection.recv(1):
                return
        connection.sendall(b" ")


@pytest.fixture
def dripping() -> Iterator[Scripted]:
    server = Scripted()
    server.acts = [slowly]
    yield server
    server.stop()


def opening_of(url: str, out: Path, length: Micros) -> dict[str, Any]:
    options = asdict(LoadOptions(url))
    return {"options": options, "out": str(out), "seed": 1, "gzip": False, "opening": length}


def test_reading_ends_with_the_time_of_the_check(dripping: Scripted, tmp_path: Path) -> None:
    with key_in_environment(TOKEN):
        crew = Crew(opening_of(dripping.url, tmp_path / "out", SECOND))
    with pytest.raises(BadInput, match="could not be read within 1s"):
        crew.opened()
    crew.close()
    assert not list(tmp_path.iterdir())


def test_what_is_abandoned_while_it_reads_ends_at_once(dripping: Scripted, tmp_path: Path) -> None:
    with key_in_environment(TOKEN):
        crew = Crew(opening_of(dripping.url, tmp_path / "out", 600 * MINUTE))
    until(lambda: dripping.requests)
    crew.tell(abandon=True)
    crew.close()
    assert not list(tmp_path.iterdir())


def children(pid: int) -> list[int]:
    """Return the processes that a process started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            words = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(words[1]) == pid:
                found.append(int(path.parent.name))
    return found


def runs(pid: int) -> bool:
    """Return whether a process is there that does anything."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_check_that_started_it(
    how: signal.Signals, dripping: Scripted, tmp_path: Path
) -> None:
    words = ["check", "--host", dripping.url, "--time", "600m", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        [sys.executable, "-m", "ranksim", *words],
        env={**os.environ, "RANKSIM_KEY": TOKEN},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: dripping.requests)
        crew = children(process.pid)
        receivers = [child for one in crew for child in children(one)]
        assert (len(crew), len(receivers)) == (1, 1)
        process.send_signal(how)
        process.wait(300)
        until(lambda: not any(map(runs, crew + receivers)))
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_the_end_has_its_time_and_no_more_where_nothing_is_answered_any_more(tmp_path: Path) -> None:
    """Retries of reads, a minute each, and waits for the rate limit outlasted --time by a minute."""
    with Server(clock="real", start=None) as server:
        with key_in_environment(server.key):
            crew = Crew(opening_of(server.url, tmp_path / "out", MINUTE))
            crew.opened()
        crew.tell(begin={"task": "walk", "number": 1})
        heard = until(lambda: counted(crew))
        assert heard["answers"]
        server.faults.add("*", latency="1h")
        began = monotonic()
        crew.tell(finish={"reading": 2 * SECOND, "ending": 4 * SECOND})
        left = until(lambda: (crew.hear(1) or {}).get("done"))["left"]
        crew.close()
        assert monotonic() - began < 60 * SECOND
        assert {one["kind"] for one in left} == set(KINDS)
        server.faults.clear()
    assert (tmp_path / "out" / "trace.jsonl").exists()


def counted(crew: Crew) -> Any:
    """Return what it counts, once that is something."""
    counts = (crew.hear(1) or {}).get("counts", {})
    return counts if "201" in counts.get("answers", {}) else None
