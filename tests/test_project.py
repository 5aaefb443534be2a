"""`ranksim init`: what a new project or a check in CI starts with, and that it works as it is."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from ranksim import cli
from ranksim.judge.load.options import LoadOptions
from ranksim.testing import Server


def begun(folder: Path, *words: str) -> str:
    done = CliRunner().invoke(cli.app, ["init", *words, str(folder)])
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


def test_a_check_is_begun_beside_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(tmp_path)
    told = begun(tmp_path, "--check")
    assert "ranksim check --target deployment.yaml --plan-only" in told
    assert (tmp_path / "schemas" / "target.json").exists()
    monkeypatch.setenv("RANKSIM_KEY", "k")
    target = LoadOptions(file=str(tmp_path / "deployment.yaml")).target()
    assert (target.keys["main"].variable, target.exclusive) == ("RANKSIM_KEY", False)
    again = CliRunner().invoke(cli.app, ["init", "--check", str(tmp_path)])
    assert again.exit_code == 2
    assert "deployment.yaml" in again.output


@pytest.mark.slow
def test_its_job_checks_a_deployment_and_keeps_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(tmp_path, "--check")
    job = yaml.safe_load((tmp_path / ".github/workflows/ranksim-check.yml").read_text(encoding="utf-8"))
    steps = job["jobs"]["check"]["steps"]
    [step] = [step for step in steps if step.get("run", "").startswith("ranksim check")]
    [upload] = [step for step in steps if step.get("uses", "").startswith("actions/upload-artifact")]
    assert (upload["if"], step["env"]) == ("always()", {"RANKSIM_KEY": "${{ secrets.RANKSIM_KEY }}"})
    monkeypatch.chdir(tmp_path)
    target = Path("deployment.yaml")
    with Server(clock="real", start=None) as server:
        text = target.read_text(encoding="utf-8").replace("https://api.example.com", server.url)
        target.write_text(text, encoding="utf-8")
        monkeypatch.setenv("RANKSIM_KEY", server.key)
        words = [word.replace("10m", "60s") for word in shlex.split(step["run"])[1:]]
        done = CliRunner().invoke(cli.app, [*words, "--only", "access.key"])
    assert done.exit_code == 0, done.output
    kept = {path.name for path in Path(upload["with"]["path"]).iterdir()}
    assert {"junit.xml", "page.html", "judgement.json", "trace.jsonl"} <= kept


@pytest.mark.slow
def test_its_tests_pass(tmp_path: Path) -> None:
    begun(tmp_path)
    there = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    there["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(words, cwd=tmp_path, env=there, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
