"""What stands in scripts/ runs."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_sizes_are_counted_by_package() -> None:
    done = subprocess.run([ROOT / "scripts" / "sizes"], capture_output=True, text=True, check=True)
    rooms = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    lines = {name: int(count) for count, name in (line.split(" ", 1) for line in rooms)}
    assert {"core", "twin", "judge", "planner", "in all"} <= lines.keys()
    assert lines.pop("in all") == sum(lines.values())
    assert " core/rules/" in done.stdout


@pytest.mark.slow
def test_three_trips_are_counted() -> None:
    words = [sys.executable, str(ROOT / "scripts" / "trips.py"), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    trips = json.loads(done.stdout)
    assert len(trips) == 3
    for row in trips.values():
        assert row["calls"] > row["depth"] > 5
        assert row["modules"] > 10


def test_check_names_what_failed(tmp_path: Path) -> None:
    """With programs that fail in place of the real ones, all steps run and all are named."""
    for name in ("ruff", "mypy", "lint-imports", "python"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n[ {name} = mypy ]\n", encoding="utf-8")
        program.chmod(0o755)
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "check"
    script.write_bytes((ROOT / "scripts" / "check").read_bytes())
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(["bash", script], env={"PATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("s: lint format layers fast tests")
    assert "== types: mypy --strict src\n== types:" in done.stdout


def test_the_site_shows_examples_of_commands_as_code() -> None:
    """Below a backspace lines are kept; within code no dash of an option is replaced."""
    site = runpy.run_path(str(ROOT / "scripts" / "site"), run_name="site")
    help_of = "Examples:\n\n\b\n  ranksim run x.yaml\n  ranksim run x.yaml --seed 2\n\n**Usage**:\n"
    code = "```console\nranksim run x.yaml\nranksim run x.yaml --seed 2\n```"
    assert site["with_examples"](help_of) == f"Examples:\n\n{code}\n\n**Usage**:\n"
    assert (
        site["with_examples"]("Example: ranksim explain plans --json\n")
        == "Example: `ranksim explain plans --json`\n"
    )


def test_the_site_keeps_the_lines_of_examples_in_docstrings() -> None:
    conf = runpy.run_path(str(ROOT / "docs" / "conf.py"))
    lines = "Loads.\n\n    import ranksim as rs\n\n    rs.run(x)\n\nNames follow.".splitlines()
    conf["keep_examples"](None, "module", "ranksim", None, None, lines)
    shown = "Loads.\n\n::\n\n    import ranksim as rs\n\n    rs.run(x)\n\nNames follow."
    assert lines == shown.splitlines()
    item = ["- one thing", "", "    and more of it"]
    conf["keep_examples"](None, "module", "ranksim", None, None, item)
    assert item == ["- one thing", "", "    and more of it"]
    assert conf["smartquotes"] is False
