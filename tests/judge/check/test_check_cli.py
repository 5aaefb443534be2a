"""`ranksim check` as a command: what it refuses, and a whole check over real sockets."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from ranksim.bridges.check_cli import _agreed as agreed
from ranksim.bridges.check_cli import _agreement as agreement
from ranksim.cli import app
from ranksim.core.callers.target import Target
from ranksim.core.clock import SECOND
from ranksim.judge.load.options import is_local
from ranksim.judge.report.run_summary import spent_lines
from ranksim.testing import Server

from .test_plan import planned, reached

ELSEWHERE = ("--host", "https://api.example.com")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--host", "localhost:1"), "no API key: set RANKSIM_KEY"),
        ((), "no deployment is named: give --host and a key, or --target FILE"),
        (("--target", "gone.yaml"), "gone.yaml"),
        ((*ELSEWHERE, "--key", "k"), "--yes: expected beyond this machine where nobody can be asked"),
        ((*ELSEWHERE, "--key", "k", "--time", "5s"), "--time: expected at least a minute"),
        ((*ELSEWHERE, "--key", "k", "--time", "soon"), "--time: "),
        ((*ELSEWHERE, "--key", "k", "--require", "rates"), "--require: no rule is named 'rates'"),
        ((*ELSEWHERE, "--key", "k", "--yes", "--only", "rates"), "--only: no rule is named 'rates'; "),
        ((*ELSEWHERE, "--key", "k", "--yes", "--only", "rate,paging.onse"), "did you mean 'paging.once'"),
        ((*ELSEWHERE, "--key", "k", "--spend-cap", "much"), "--spend-cap: "),
    ],
)
def test_bad_input(
    words: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANKSIM_KEY", raising=False)
    result = CliRunner().invoke(app, ["check", *words])
    assert result.exit_code == 2, result.output
    assert told in " ".join(result.output.split())
    assert not list(tmp_path.iterdir())


def test_a_directory_that_holds_a_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text("", encoding="utf-8")
    result = CliRunner().invoke(app, ["check", "--host", "localhost:1", "--key", "k", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "holds a trace already; give another directory with --out" in " ".join(result.output.split())


def test_where_nothing_can_be_written_nothing_is_called(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    out = tmp_path / "file" / "checked"
    result = CliRunner().invoke(app, ["check", "--host", "localhost:1", "--key", "k", "--out", str(out)])
    assert result.exit_code == 2
    assert str(out) in result.output.replace("\n", "")
    assert "Traceback" not in result.output


def test_what_is_of_this_machine_is_told_by_its_addresses() -> None:
    assert is_local(Target.simple("http://127.0.0.1:1", "k"))
    assert is_local(Target.simple("http://[::1]:1", "k"))
    assert not is_local(Target.simple("https://api.example.com", "k"))


@pytest.mark.slow
def test_a_plan_reads_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "40")
    with Server(clock="real", start=None) as server:
        host = server.url.removeprefix("http://")
        result = CliRunner().invoke(
            app, ["check", "--host", host, "--key", server.key, "--plan-only", "--only", "paging"]
        )
    assert result.exit_code == 0, result.output
    assert "can decide 7 of 7 rules with these keys in 10m" in " ".join(result.output.split())
    assert max(map(len, result.output.splitlines())) <= 40
    assert "uses up at most" not in result.output
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_check_leaves_its_results_and_removes_what_it_created(tmp_path: Path) -> None:
    out = tmp_path / "checked"
    with Server(clock="real", start=None) as server:
        words = ["--host", server.url, "--key", server.key, "--only", "paging", "--time", "90s", "--model"]
        result = CliRunner().invoke(app, ["check", *words, "--seed", "5", "--out", str(out)])
        with server.client() as client:
            domains = client.get("/v1/domains").json()["data"]
    assert result.exit_code == 0, result.output
    assert {path.name for path in out.iterdir()} == {
        "trace.jsonl",
        "page.html",
        "junit.xml",
        "judgement.json",
        "policy.yaml",
        "twin",
    }
    found = json.loads((out / "judgement.json").read_text(encoding="utf-8"))
    assert found["check"]["tasks"]["walk"] >= 1
    assert [rule["verdict"] for rule in found["tables"]["rules"] if rule["name"] == "paging.once"] == [
        "conforms"
    ]
    assert found["check"]["left"] == []
    assert found["check"]["spend_cap"] == 2_000_000  # though it is of this machine
    accounts = found["check"]["accounts"]
    assert [one["unread"] for one in accounts] == [""]
    assert spent_lines(accounts, exclusive=True)[0] in " ".join(result.output.split())
    assert spent_lines(accounts, exclusive=True)[0] in (out / "junit.xml").read_text(encoding="utf-8")
    assert {rule["name"] for rule in found["tables"]["rules"]} == set(found["check"]["rules"])
    assert "of 7 rules decided" in result.output
    assert "Not exercised, by the profile" not in result.output
    assert domains == []
    assert server.key not in (out / "trace.jsonl").read_text(encoding="utf-8")

    # Beside a twin that got the same tasks.
    assert found["check"]["troubles"] == []
    assert "Measured against the model" in result.output
    assert "Measured against the model" in (out / "page.html").read_text(encoding="utf-8")
    rows = {row["name"]: row for row in found["tables"]["model"]}
    assert rows["latency, no other call in flight"]["says"].startswith("could not know: fitted to this very")
    assert rows["calls refused invalid_cursor"]["predicted_low"] > 0.01
    assert "network:" in (out / "twin" / "world.yaml").read_text(encoding="utf-8")
    assert "invalid_cursor: 400" in (out / "twin" / "policy.yaml").read_text(encoding="utf-8")
    again = CliRunner().invoke(app, ["run", str(out / "twin" / "world.yaml"), "--json"])
    assert again.exit_code == 0, again.output


def test_of_planning_only_the_wait_for_an_answer_is_no_time_of_the_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan, clock = planned(reached("main", environments=1)), [0]
    monkeypatch.setattr("ranksim.judge.check.checking.monotonic", lambda: clock[0])
    elsewhere = Target.simple("https://api.example.com", "k")

    def answered(text: str, **options: object) -> bool:
        clock[0] += 90 * SECOND
        return True

    monkeypatch.setattr("ranksim.bridges.check_cli.typer.confirm", answered)
    assert agreement(elsewhere, yes=True, plan_only=False)(plan) == 0
    assert agreement(elsewhere, yes=False, plan_only=True)(plan) is None
    monkeypatch.setattr("ranksim.bridges.check_cli.sys.stdin", SimpleNamespace(isatty=lambda: True))
    assert agreement(elsewhere, yes=False, plan_only=False)(plan) == 90 * SECOND
    alone = elsewhere.model_copy(update={"read_only": True})
    assert agreement(alone, yes=False, plan_only=False)(plan) == 0  # nothing is to be agreed to


@pytest.mark.parametrize(
    ("stays", "question"),
    [(False, "Go on?"), (True, "Go on, and leave there what cannot be removed?")],
)
def test_it_asks_before_it_makes_what_cannot_be_removed(
    stays: bool, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def confirm(text: str, **options: object) -> bool:
        asked.append(text)
        return False

    monkeypatch.setattr("typer.confirm", confirm)
    assert not agreed(True, stays)
    assert asked == [question]
    assert agreed(False, stays)
    assert asked == [question]
