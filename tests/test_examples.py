"""The examples run as they stand, in processes of their own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["inproc", "server"])
@pytest.mark.parametrize(("folder", "tests"), [("webhook_consumer", 4), ("clients/python", 9)])
@pytest.mark.fact("S90", "S93", "S79", "S86")
def test_the_tests_with_a_world(folder: str, tests: int, target: str) -> None:
    more = {
        "RANKSIM_TARGET": target,
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "ranksim.pytest_plugin", "-p", "no:cacheprovider",
            "-W", "error", "-c", os.devnull, "--rootdir", "examples", f"examples/{folder}",
        ],
        cwd=ROOT, capture_output=True, text=True, check=False, env=kept | more,
    )  # fmt: skip
    assert f"{tests} passed" in done.stdout, done.stdout + done.stderr


PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [[*PYTEST, "--rootdir", "examples", "examples/container"], ["node", "--test", "examples/container/"]],
    ids=["py", "js"],
)
def test_the_tests_that_start_a_deployment(command: list[str]) -> None:
    """With the process that a container would run."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    more = {
        "RANKSIM_SERVE": f"{sys.executable} -m ranksim serve --port {port}",
        "RANKSIM_URL": f"http://127.0.0.1:{port}",
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=kept | more)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout or "# pass 2" in done.stdout
