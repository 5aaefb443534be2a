"""The process that makes the calls of a check, as the one sees it that started it: told, and heard."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ranksim.core.errors import BadInput

GONE: Mapping[str, Any] = {"gone": True}
"""What is heard last: the process has ended."""


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
