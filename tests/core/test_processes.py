"""Worker processes end with the one that started them, and mind an interrupt only once they have begun."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
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


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    """Each process ran the script again, and so started more of them."""
    script = tmp_path / "script.py"
    script.write_text("print('once')\n" + STARTER.rpartition("workers.submit")[0])
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=600, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count("once") == 1


def test_a_script_with_a_guard_has_tasks_of_its_own(tmp_path: Path) -> None:
    """Such as a world of a class that it defines: it could not be pickled."""
    script = tmp_path / "script.py"
    script.write_text(
        "from ranksim.core.processes import Workers\n\ndef own() -> str:\n    return 'own'\n\n"
        "if __name__ == '__main__':\n    print(Workers(1).submit(own).result())\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=600, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "own\n", "")


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
