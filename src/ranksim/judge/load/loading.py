"""A deployment loaded from Python, as `ranksim check load` does it: Locust runs as a child process.

So its patching of sockets and time stays there. The child is stopped when we are asked to stop, and stops by
itself when we are gone. Whatever happens to it, what its processes recorded becomes a trace.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from ranksim.core.clock import SECOND, Micros
from ranksim.core.errors import BadInput
from ranksim.judge.deployment.cleanup import TIDIED, Left
from ranksim.judge.load import merging
from ranksim.judge.load.leaked_resources import created_in, explored, left_over, recorded_lines, tidy
from ranksim.judge.load.options import LoadOptions, key_in_environment, length_of, writable
from ranksim.judge.load.recorder import AnchoredClock, PartRecorder
from ranksim.judge.load.run import TIDYING, trace_path
from ranksim.judge.profiles import profile as profile_named

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

Progress = Callable[[float], None]
"""Is told the share (0 to 1) of the length that has passed."""


def load(
    host: str = "",
    *,
    key: str = "",
    target: str | Path = "",
    profile: str = "everyday",
    length: str | timedelta | None = None,
    users: int | None = None,
    processes: int = 1,
    spend_cap: str = "",
    dry_run_only: bool = False,
    exclusive: bool | None = None,
    out: str | Path = "",
    gzip: bool = False,
    seed: int | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Path:
    """Drive a deployment with Locust, in a process of its own, and return the trace that it recorded.

    It has a base URL and a key, which without `key` is that of the environment variable RANKSIM_KEY, or is
    told by a `target` file. `length` ("90s", or a timedelta) and `users` are the profile's unless given;
    `spend_cap` is an amount such as "5 USD", "none" for no cap, and 2 USD without; `out` is a new directory
    unless given. `progress` is told the share (0 to 1) of the length that has passed. Raises BadInput.
    """
    options = LoadOptions.from_arguments(host, target, out, spend_cap, dry_run_only, exclusive, gzip, seed)
    chosen = profile_named(profile)
    with key_in_environment(key):
        return run_load(
            options,
            profile=chosen.name,
            length=chosen.duration if length is None else length_of(length),
            users=users or chosen.users,
            processes=processes,
            progress=progress,
        )


def run_load(
    options: LoadOptions,
    *,
    profile: str,
    length: Micros,
    users: int,
    processes: int,
    progress: Progress,
    locustfile: str = "",
) -> Path:
    """Run Locust for so long (µs) and return the trace. Raises BadInput where there is one already.

    `locustfile` is the text of one in place of the profile's own.
    """
    directory = options.directory(profile)
    trace = trace_path(directory, options.gzip)
    if trace.name not in ("trace.jsonl", "trace.jsonl.gz"):
        raise BadInput(f"{directory}: holds a trace already; give another directory with --out")
    text = locustfile or LOCUSTFILE.format(profile=profile)
    _Launch(options, text, users, length / SECOND, processes, directory, trace).run(progress)
    return trace


@dataclass(frozen=True, slots=True)
class _Launch:
    """One run of Locust: the environment variables of its processes carry our options."""

    options: LoadOptions
    locustfile: str
    users: int
    seconds: float
    processes: int
    out: Path
    trace: Path

    def run(self, progress: Progress) -> None:
        """Run Locust to its end. Raises BadInput when nothing could be loaded, KeyboardInterrupt when it was
        stopped before anything was.
        """  # fmt: skip
        words = self._words()  # read the target before anything is written
        self.out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="ranksim-load-") as name:
            folder = Path(name)
            (folder / "locustfile.py").write_text(self.locustfile, encoding="utf-8")
            with (self.out / LOG).open("wb") as log, _stopping() as stops:
                child = subprocess.Popen(
                    words, cwd=folder, env=self._variables(folder), stdin=subprocess.DEVNULL,
                    stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
                _wait(child, self.seconds, stops, progress)
                if not self.trace.exists():
                    with suppress(ProcessLookupError):
                        os.killpg(child.pid, signal.SIGKILL)  # workers whose leader was killed make no more
            problem = folder / "problem.txt"
            if problem.exists():
                _leave_nothing(self.out)
                raise BadInput(problem.read_text(encoding="utf-8"))
        if not self.trace.exists():
            self._salvage(stops)

    def _words(self) -> list[str]:
        host = next(iter(writable(self.options.target()).environments.values()))
        words = [sys.executable, "-m", "locust", "-f", "locustfile.py", "--headless", "--only-summary"]
        words += ["--host", host, "--users", str(self.users), "--spawn-rate", str(min(self.users, 100))]
        words += ["--stop-timeout", str(STOP_TIMEOUT)]
        if self.processes > 1:
            port = str(_free_port())
            words += ["--processes", str(self.processes), "--master-bind-host", "127.0.0.1"]
            words += ["--master-bind-port", port, "--master-host", "127.0.0.1", "--master-port", port]
        return words

    def _variables(self, folder: Path) -> dict[str, str]:
        """The environment of the child: ours, without what would change Locust's own options."""
        ours = ("LOCUST_", "RANKSIM_LOAD_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return {
            **kept,
            **self.options.variables(),
            "RANKSIM_LOAD_OUT": str(self.out.resolve()),
            "RANKSIM_LOAD_SECONDS": str(self.seconds),
            "RANKSIM_LOAD_PROBLEM": str(folder / "problem.txt"),
            "RANKSIM_LOAD_PARENT": str(os.getpid()),
        }

    def _salvage(self, stops: list[int]) -> None:
        """Make a trace of what a child that did not come to its end has left.

        What it created is removed, unless somebody asked twice to stop.
        """
        left = sorted(self.out.glob(".parts-*"))
        if not left:
            if stops:
                _leave_nothing(self.out)
                raise KeyboardInterrupt
            raise BadInput(f"Locust ended before it recorded anything; {self.out / LOG} says why")
        if len(stops) < AT_ONCE:
            clock = AnchoredClock.here()
            aside = PartRecorder(left[-1] / "part-tidy.jsonl", part="tidy", clock=clock, salt=b"")
            aside.note(TIDIED, left=[asdict(thing) for thing in self._tidied(clock)])
            aside.close()
        merging.merge(left[-1], self.trace)
        shutil.rmtree(left[-1], ignore_errors=True)

    def _tidied(self, clock: AnchoredClock) -> list[Left]:
        """Remove what a run created whose process was killed; return what is left."""
        until = clock.now() + TIDYING
        try:
            reach = explored(self.options.target(), clock, until)
        except BadInput:
            return left_over(recorded_lines(self.out))
        return tidy(reach, created_in(recorded_lines(self.out)), clock, until).listed()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


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


def _wait(child: subprocess.Popen[bytes], seconds: float, stops: list[int], progress: Progress) -> None:
    """Wait for the child; the first signal ends the load in good order, the second kills."""
    began, passed_on = time.monotonic(), 0
    while True:
        with suppress(subprocess.TimeoutExpired):
            child.wait(0.1)
            return
        if (share := (time.monotonic() - began) / seconds) < 1:
            progress(share)
        if len(stops) > passed_on:
            passed_on += 1
            with suppress(ProcessLookupError):
                if passed_on < AT_ONCE:
                    child.terminate()
                else:
                    os.killpg(child.pid, signal.SIGKILL)


def _leave_nothing(out: Path) -> None:
    """Remove what a run that did nothing has written."""
    (out / LOG).unlink(missing_ok=True)
    with suppress(OSError):
        out.rmdir()
