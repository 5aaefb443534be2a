"""`ranksim init`: what a new project starts with, and that it works as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ranksim import cli


def begun(folder: Path) -> str:
    done = CliRunner().invoke(cli.app, ["init", str(folder)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_it_writes_a_project_and_says_what_is_next(tmp_path: Path) -> None:
    told = begun(tmp_path / "new")
    written = {str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob("*.*")}
    assert {"scenarios/first.yaml", "tests/test_client.py", "schemas/scenario.json"} <= written
    assert {".github/workflows/ranksim.yml", "pytest.ini", "requirements.txt"} <= written
    assert f"next:\n  cd {tmp_path / 'new'}\n  ranksim run scenarios/first.yaml" in told
    scenario = tmp_path / "new" / "scenarios" / "first.yaml"
    assert CliRunner().invoke(cli.app, ["run", str(scenario)]).exit_code == 0


def test_who_stands_in_the_folder_is_sent_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "next:\n  ranksim run scenarios/first.yaml" in begun(Path())


def test_it_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("mine")
    done = CliRunner().invoke(cli.app, ["init", str(tmp_path)])
    assert done.exit_code == 2
    assert "pytest.ini is there already; move it or give another directory" in " ".join(done.output.split())
    assert [path.name for path in tmp_path.iterdir()] == ["pytest.ini"]


@pytest.mark.slow
def test_its_tests_pass(tmp_path: Path) -> None:
    begun(tmp_path)
    there = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    there["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(words, cwd=tmp_path, env=there, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
