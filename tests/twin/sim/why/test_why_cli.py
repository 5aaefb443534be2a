"""`ranksim why`: of a directory of results, and of a scenario's file."""

import json
import shlex
from html import unescape
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ranksim import cli
from ranksim.twin.sim.results import Result
from ranksim.twin.sim.runner import run as rs_run

TEXT = """
scenario: 1
start: 2026-03-01T00:00:00Z
length: 2d
accounts: {acme: {plan: pro, portfolio: {domains: 1}}}
clients:
  crawls: {kind: schedule, account: acme, job: crawl, every: 12h, starts: 1d}
"""
ASKED = "refusals.cooldown_active"


@pytest.mark.slow
def test_why_of_a_directory_is_why_of_the_file(tmp_path: Path) -> None:
    file, out = tmp_path / "small.yaml", tmp_path / "out"
    file.write_text(TEXT)
    ran = CliRunner().invoke(cli.app, ["run", str(file), "--out", str(out), "--no-plots", "--no-trace"])
    assert ran.exit_code == 0
    answer = Result.load(out).why(ASKED, futures=2)
    assert answer.to_json() == rs_run(file).why(ASKED, futures=2).to_json()
    result = [
        CliRunner().invoke(cli.app, ["why", str(run), ASKED, "--futures", "2", "--json"])
        for run in (out, file)
    ]
    assert [one.exit_code for one in result] == [0, 0]
    first, second = (json.loads(one.stdout) for one in result)
    assert first == second
    assert (first["kind"], first["version"]) == ("why", 1)
    assert first["tables"]["changes"][0]["parameter"] == "scenario.clients.crawls.every"
    asked = ["why", str(file), ASKED, "--futures", "2", "--out", str(tmp_path / "why"), "--no-plots"]
    text = CliRunner().invoke(cli.app, asked).stdout
    assert json.loads((tmp_path / "why" / "result.json").read_text()) == first
    assert shlex.join(["ranksim", *asked[:5]]) in unescape((tmp_path / "why" / "page.html").read_text())
    assert "it was inevitable from 2026-03-02T00:00:00Z on (client crawls starts)" in " ".join(text.split())


def test_a_directory_without_results_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, ["why", str(tmp_path), ASKED])
    assert result.exit_code == 2
    assert "expected what `ranksim run --out` writes" in result.stderr


@pytest.mark.slow
def test_why_asks_of_what_is_set(tmp_path: Path) -> None:
    """Crawls are 8 h apart then; of a directory it is the scenario that was run that is changed."""
    file, out = tmp_path / "small.yaml", tmp_path / "out"
    file.write_text(TEXT)
    CliRunner().invoke(cli.app, ["run", str(file), "--out", str(out), "--no-plots", "--no-trace"])
    every = ["--set", "scenario.clients.crawls.every=8h", "--futures", "2"]
    of_file, of_directory = (
        CliRunner().invoke(cli.app, ["why", str(run), ASKED, "--json", *every]) for run in (file, out)
    )
    assert (of_file.exit_code, of_directory.exit_code) == (0, 0)
    assert of_file.stdout == of_directory.stdout
    change = json.loads(of_file.stdout)["tables"]["changes"][0]
    assert (change["parameter"], change["old"]) == ("scenario.clients.crawls.every", "8h")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("scenario.clients.crawls.evry=8h", "--set scenario.clients.crawls.evry: no parameter"),
        ("scenario.length=0s", "--set: length: expected more than 0"),
        ("scenario.seed=4", "has the seeds of its own run; give a scenario's file to set others"),
    ],
)
def test_why_refuses_what_cannot_be_set(tmp_path: Path, setting: str, message: str) -> None:
    file, out = tmp_path / "small.yaml", tmp_path / "out"
    file.write_text(TEXT)
    CliRunner().invoke(cli.app, ["run", str(file), "--out", str(out), "--no-plots", "--no-trace"])
    result = CliRunner().invoke(cli.app, ["why", str(out), ASKED, "--set", setting])
    assert result.exit_code == 2
    assert message in result.stderr
