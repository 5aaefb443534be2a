"""The process that makes the calls of a check, and what it records, as the one sees it that started it."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ranksim.core.clock import SECOND, Micros
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.records import read_lines
from ranksim.judge.conformance.compare import Judgement, compare
from ranksim.judge.load.merging import Merged, joined, merge, outlived
from ranksim.judge.load.recorder import AnchoredClock

GONE: Mapping[str, Any] = {"gone": True}
"""What is heard last: the process has ended."""


NOTING: Micros = 5 * SECOND
"""How long a receiver may take to note that the process is gone which it is for."""

HEARD_EVERY = 0.5
"""Seconds that pass at most until a stop is noticed."""


class Crew:
    """The child process `check.runner`; `opening` is what it is told first. Close it at the end."""

    def __init__(self, opening: Mapping[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ranksim.judge.check.runner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # a Ctrl-C of the terminal is for us alone
        )
        self._heard: queue.Queue[Mapping[str, Any]] = queue.Queue()
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()
        self.tell(open=opening)

    def tell(self, **message: Any) -> None:
        """Tell it something; what a process that is gone is told gets lost."""
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()

    def hear(self, seconds: float) -> Mapping[str, Any] | None:
        """Return what it tells within so many seconds, or None; `GONE` once it has ended."""
        try:
            return self._heard.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None

    def opened(self) -> Mapping[str, Any]:
        """Wait until it has explored, and return what it found. Raises BadInput where nothing can be run."""
        while True:
            message = self._heard.get()
            if "problem" in message:
                raise BadInput(message["problem"])
            if message is GONE:
                raise BadInput(
                    "the process that makes the calls ended before it had begun; see above for why"
                )
            if "reach" in message:
                return message

    def kill(self) -> None:
        """End it at once, and the webhook receiver that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let it end: it stops, removes what was created and writes the trace once nobody tells it more.

        Whoever does not wait for that, as by a Ctrl-C, ends it at once.
        """
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait()
        except BaseException:
            self.kill()
            raise
        self._listening.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError):
                self._heard.put(json.loads(line))
        self._heard.put(GONE)


@dataclass(slots=True)
class CheckRecording:
    """Where a run records: the directory of its parts, the trace that they will be, and the clock of both.

    `receiver` says that webhooks are received.
    """

    directory: Path
    trace: Path
    clock: AnchoredClock
    receiver: bool = False
    _partial: bool = False

    @classmethod
    def of(cls, opened: Mapping[str, Any]) -> CheckRecording:
        """Read it from what the process says that makes the calls."""
        clock = AnchoredClock(**opened["clock"])
        return cls(Path(opened["directory"]), Path(opened["trace"]), clock, opened["receiver"])

    def judged(self, policy: Policy | None) -> Judgement:
        """Judge what is recorded: the trace where it is written, else what its parts hold by now."""
        if self.trace.exists():
            return compare(self.trace, policy)
        return compare((json.dumps(line) for line in self.lines()), policy)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Return the lines of the trace that is recorded by now."""
        if self.trace.exists():
            return map(json.loads, read_lines(self.trace))
        return joined(self.directory, Merged(), self.clock.now(), partial=self._partial)

    def write(self, *, missing: bool) -> None:
        """Write the trace, as the process that makes the calls is gone and did not. Raises BadInput, OSError.

        Each call was recorded before it was made, so none is missing unless it could not be recorded, as
        `missing` says; of attempts none that came before the process was gone, if its own receiver outlived
        it. Where that is not known, the trace is partial.
        """
        if self.trace.exists():  # it had, and could not say so any more
            return
        self._partial = missing or not self._all_received()
        merge(self.directory, self.trace, partial=self._partial)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _all_received(self) -> bool:
        """Return whether each attempt is recorded that came until the calls ended."""
        ends = self.clock.now() + NOTING
        while (heard := outlived(self.directory)) is False and self.clock.now() < ends:
            time.sleep(HEARD_EVERY / 10)
        return bool(heard) if heard is not None else not self.receiver
