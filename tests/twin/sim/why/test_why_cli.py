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
