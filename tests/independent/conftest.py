"""What the pages of docs/ come to, for checks that share nothing with ranksim but that.

Nothing here imports ranksim. `page` runs the Python examples of a page, as a reader would, and gives the
names that they leave. A check computes the same in a few lines of its own, by a formula or by brute force,
and compares. Other inputs go through the functions that a page imports, or through the command line.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@cache
def names_of(page: str) -> dict[str, Any]:
    """The names that the examples of a page leave, run once in a process, from the root of the checkout."""
    text = (ROOT / page).read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": Path(page).stem}
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        exec(compile("\n".join(block[1] for block in BLOCK.finditer(text)), page, "exec"), names)
    finally:
        os.chdir(before)
    return names


@pytest.fixture
def page() -> Callable[[str], dict[str, Any]]:
    return names_of


@pytest.fixture
def command() -> Callable[..., Any]:
    """Runs `ranksim WORDS --json` from the root of the checkout, and gives what it prints."""

    def run(*words: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "ranksim", *words, "--json"],
            cwd=ROOT, capture_output=True, text=True, check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
