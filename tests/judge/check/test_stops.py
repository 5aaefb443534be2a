"""A check stopped at a random moment: what was recorded is judged, what was created is removed or listed.

Real processes and sockets: Ctrl-C, kill -9 of the process that makes the calls and of the one that judges,
and a disk that takes no more. `RANKSIM_SEED` repeats a run, `RANKSIM_STOPS` says how often each is tried.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from ranksim.core.notes import ALONE
from ranksim.core.trace import Trace
from ranksim.judge.conformance.compare import compare
from ranksim.testing import Server

pytestmark = pytest.mark.heavy

SEED = int(os.environ.get("RANKSIM_SEED", random.SystemRandom().randrange(1 << 30)))

TIMES = range(int(os.environ.get("RANKSIM_STOPS", "3")))

PATIENCE = 240
"""Seconds for a check of a minute on a busy machine."""


def started(server: Server, out: Path, *, largest: int | None = None) -> subprocess.Popen[str]:
    """Begin a check; no file of its processes may become larger than so many bytes."""

    def limited() -> None:
        if largest is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

    words = ["--host", server.url, "--key", server.key, "--time", "2m", "--out", str(out)]
    words += ["--only", "paging,idempotency,resource"]
    return subprocess.Popen(
        [sys.executable, "-m", "ranksim", "check", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=limited,
    )


def crew_of(process: subprocess.Popen[str]) -> int:
    """Return the process that makes the calls."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            words = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(words[1]) == process.pid:
                return int(path.parent.name)
    raise AssertionError("the check has no child process")


def wait_for_calls(process: subprocess.Popen[str], out: Path, calls: int) -> None:
    """Wait until so many lines were recorded, or the check has ended."""
    while sum(path.read_bytes().count(b"\n") for path in out.glob(".parts-*/part-*")) < calls:
        try:
            process.wait(0.1)
            return
        except subprocess.TimeoutExpired:
            continue


def domains(server: Server) -> list[str]:
    with server.client() as client:
        return [one["id"] for one in client.get("/v1/domains?limit=200").json()["data"]]


def judged(out: Path) -> dict[str, object]:
    found = json.loads((out / "judgement.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in found["tables"]["rules"] if one["verdict"] == "deviates"] == []
    return dict(found["check"])


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("way", ["interrupted", "caller killed", "judge killed", "disk full"])
def test_what_was_recorded_is_judged_and_what_was_created_is_removed_or_listed(
    way: str, time: int, tmp_path: Path
) -> None:
    draw = random.Random(f"{SEED} {way} {time}")
    calls, largest = draw.randrange(40, 400), draw.randrange(20_000, 200_000)
    print(f"RANKSIM_SEED={SEED}: {way} after {calls} lines, or at {largest} bytes a file")
    out = tmp_path / "checked"
    with Server(clock="real", start=None) as server:
        process = started(server, out, largest=largest if way == "disk full" else None)
        crew = 0
        if way != "disk full":
            wait_for_calls(process, out, calls)
            crew = crew_of(process)
        if way == "interrupted":
            process.send_signal(signal.SIGINT)
        elif way == "caller killed":
            os.kill(crew, signal.SIGKILL)
        elif way == "judge killed":
            process.kill()
        told = process.communicate(timeout=PATIENCE)[0]  # the pipe is open until both have ended
        left = domains(server)
    assert "Traceback" not in told, told
    if way == "judge killed":
        assert left == []
        assert compare(out / "trace.jsonl").deviating == ()
        return
    assert process.returncode == 0, told
    if way == "disk full" and "not written:" in told:
        assert left == [] or all(one in told for one in left), told
        return
    check = judged(out)
    assert [one for one in left if one not in str(check["left"])] == [], told
    if way == "caller killed":
        assert "the process that makes the calls was ended" in str(check["troubles"])
        assert {path.name for path in out.iterdir()} >= {"trace.jsonl", "policy.yaml", "page.html"}
        assert not list(out.glob(".parts-*"))
        trace = Trace.read(out / "trace.jsonl")
        assert trace.header.capture == "complete"
        assert any(note.text == ALONE for note in trace.notes)
        assert compare(trace).deviating == ()
    if way in ("interrupted", "caller killed"):
        assert left == []
