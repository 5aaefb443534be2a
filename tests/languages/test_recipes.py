"""The recipes of docs/languages.md, run by the tools that they are for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy
PAGE = (Path(__file__).parents[2] / "docs" / "languages.md").read_text("utf-8")
BLOCK = re.compile(r"^```\w+ title=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files of the page, and a `ranksim` that is this one."""
    for name, text in BLOCK.findall(PAGE):
        (tmp_path / name).write_text(text)
    command = tmp_path / "bin" / "ranksim"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m ranksim "$@"\n')
    command.chmod(0o755)
    return tmp_path


def run(project: Path, *words: str) -> str:
    more = {
        "PATH": f"{project / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
    }
    done = subprocess.run(
        words, cwd=project, capture_output=True, text=True, timeout=600, check=False, env=os.environ | more
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("npm") is None, reason="wants Node and npm")
def test_vitest_runs_the_recipe(project: Path) -> None:
    (project / "package.json").write_text('{"private": true, "type": "module"}')
    run(project, "npm", "install", "--no-fund", "--no-audit", "vitest@2")
    assert "3 passed" in run(project, "node_modules/.bin/vitest", "run", "--no-color")


@pytest.mark.skipif(shutil.which("go") is None, reason="wants Go")
def test_go_runs_the_recipe(project: Path) -> None:
    (project / "go.mod").write_text("module client\n\ngo 1.19\n")
    assert "ok" in run(project, "go", "test", "./...")
