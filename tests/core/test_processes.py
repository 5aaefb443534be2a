"""Worker processes end with the one that started them, and mind an interrupt only once they have begun."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from ranksim.core.processes import Workers

STARTER = """
import os, time
from ranksim.core.processes import Workers

workers = Workers(2)
print(workers.submit(os.getpid).result(), flush=True)
workers.submit(time.sleep, 600).result()
"""


def held() -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_they_end_with_the_process_that_started_them() -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert starter.stdout is not None
    assert int(starter.stdout.readline()) != starter.pid
    starter.kill()
    starter.communicate(timeout=600)  # which ends when no process has the pipe open any more


def test_they_hear_of_an_interrupt_when_they_have_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def submit(*args: Any) -> Any:
        seen.append(held())
        return original(*args)

    original = ProcessPoolExecutor.submit
    monkeypatch.setattr(ProcessPoolExecutor, "submit", submit)
    with Workers(1) as workers:
        there = workers.submit(signal.pthread_sigmask, signal.SIG_BLOCK, []).result()
    assert seen == [True]  # as the process started, which begins as its starter is
    assert signal.SIGINT not in there
    assert not held()
