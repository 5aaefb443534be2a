"""Running Locust as a child process, so that its patching of sockets and time stays there.

The child is stopped when we are asked to stop, and stops by itself when we are gone. Whatever happens to it,
what its processes recorded becomes a trace.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ranksim.core.errors import BadInput
from ranksim.judge.deployment.cleanup import TIDIED, Left
from ranksim.judge.load import merging
from ranksim.judge.load.recorder import AnchoredClock, PartRecorder

LOCUSTFILE = """from ranksim.load.users import user_class

Loading = user_class({profile!r})
"""

OF_SCENARIO = """import ranksim as rs
from ranksim.judge.profiles.scenario_clients import scenario_clients
from ranksim.load.users import user_class

Loading = user_class(scenario_clients(rs.Scenario.load({path!r}), {clients!r}))
"""

STOP_TIMEOUT = 10
"""Seconds that calls in flight have when the load ends; what is not answered then is unknown."""

AT_ONCE = 2
"""How often somebody asks it to stop who does not wait for its end."""

LOG = "locust.log"

Tidy = Callable[[Path], list[Left]]
"""Removes what a run created that has recorded into a directory; returns what is left."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """One run of Locust: its locustfile, and the environment variables that carry our options."""

    locustfile: str
    host: str
    users: int
    seconds: float
    out: Path
    trace: Path
    variables: Mapping[str, str]
    processes: int = 1


def launch(
    plan: LaunchPlan, progress: Callable[[float], None] = lambda share: None, tidy: Tidy | None = None
) -> None:
    """Run Locust to its end. Raises BadInput when nothing could be loaded, KeyboardInterrupt when it was
    stopped before anything was.

    Where it was killed before its end, and nobody had asked twice, `tidy` removes what it created.
    """  # fmt: skip
    plan.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ranksim-load-") as name:
        folder = Path(name)
        (folder / "locustfile.py").write_text(plan.locustfile, encoding="utf-8")
        with (plan.out / LOG).open("wb") as log, _stopping() as stops:
            child = subprocess.Popen(
                _words(plan), cwd=folder, env=_variables(plan, folder), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
            _wait(child, plan, stops, progress)
            if not plan.trace.exists():
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)  # workers whose leader was killed make nothing more
        problem = folder / "problem.txt"
        if problem.exists():
            _leave_nothing(plan.out)
            raise BadInput(problem.read_text(encoding="utf-8"))
    if not plan.trace.exists():
        _salvage(plan, stops, tidy)


def _words(plan: LaunchPlan) -> list[str]:
    words = [sys.executable, "-m", "locust", "-f", "locustfile.py", "--headless", "--only-summary"]
    words += ["--host", plan.host, "--users", str(plan.users), "--spawn-rate", str(min(plan.users, 100))]
    words += ["--stop-timeout", str(STOP_TIMEOUT)]
    if plan.processes > 1:
        port = str(_free_port())
        words += ["--processes", str(plan.processes), "--master-bind-host", "127.0.0.1"]
        words += ["--master-bind-port", port, "--master-host", "127.0.0.1", "--master-port", port]
    return words


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _variables(plan: LaunchPlan, folder: Path) -> dict[str, str]:
    """The environment of the child: ours, without what would change Locust's own options."""
    ours = ("LOCUST_", "RANKSIM_LOAD_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {
        **kept,
        **plan.variables,
        "RANKSIM_LOAD_OUT": str(plan.out.resolve()),
        "RANKSIM_LOAD_SECONDS": str(plan.seconds),
        "RANKSIM_LOAD_PROBLEM": str(folder / "problem.txt"),
        "RANKSIM_LOAD_PARENT": str(os.getpid()),
    }


@contextmanager
def _stopping() -> Iterator[list[int]]:
    """Note down the signals that ask us to stop."""
    stops: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda got, _: stops.append(got)) for number in numbers]
    try:
        yield stops
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _wait(
    child: subprocess.Popen[bytes], plan: LaunchPlan, stops: list[int], progress: Callable[[float], None]
) -> None:
    """Wait for the child; the first signal ends the load in good order, the second kills."""
    began, passed_on = time.monotonic(), 0
    while True:
        with suppress(subprocess.TimeoutExpired):
            child.wait(0.1)
            return
        progress(min(1.0, (time.monotonic() - began) / plan.seconds))
        if len(stops) > passed_on:
            passed_on += 1
            with suppress(ProcessLookupError):
                if passed_on < AT_ONCE:
                    child.terminate()
                else:
                    os.killpg(child.pid, signal.SIGKILL)


def _salvage(plan: LaunchPlan, stops: list[int], tidy: Tidy | None) -> None:
    """Make a trace of what a child that did not come to its end has left."""
    left = sorted(plan.out.glob(".parts-*"))
    if not left:
        if stops:
            _leave_nothing(plan.out)
            raise KeyboardInterrupt
        raise BadInput(f"Locust ended before it recorded anything; {plan.out / LOG} says why")
    if tidy is not None and len(stops) < AT_ONCE:
        clock = AnchoredClock.here()
        aside = PartRecorder(left[-1] / "part-tidy.jsonl", part="tidy", clock=clock, salt=b"")
        aside.note(TIDIED, left=[asdict(thing) for thing in tidy(plan.out)])
        aside.close()
    merging.merge(left[-1], plan.trace)
    shutil.rmtree(left[-1], ignore_errors=True)


def _leave_nothing(out: Path) -> None:
    """Remove what a run that did nothing has written."""
    (out / LOG).unlink(missing_ok=True)
    with suppress(OSError):
        out.rmdir()
