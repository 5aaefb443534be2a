"""`ranksim study`: what it prints and writes, and its exit codes."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ranksim.cli import app

STUDY = """study: 1
title: Two plans
scenario:
  start: 2026-01-05T00:00:00Z
  length: 1d
  accounts:
    acme: {plan: pro, portfolio: {domains: 8, keywords: 5}}
  clients:
    nightly: {kind: schedule, account: acme, job: rank_run, every: day, at: "02:00"}
  pools: {rank_run: {capacity: 1, duration: 4m}}
replications: 2
measure: [jobs.rank_run.done, jobs.rank_run.wait.max]
"""
FACTORS = "factors: {scenario.pools.rank_run.capacity: [1, 2]}\n"
GOAL = """goal:
  smallest: scenario.pools.rank_run.capacity
  between: [1, 16]
  such_that: jobs.rank_run.wait.within.5m >= %s
"""
KEYWORDS = "scenario.accounts.acme.portfolio.keywords"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["study", *arguments], env=environment)
    return done.exit_code, done.stdout, done.stderr


def test_it_prints_tables_and_keeps_a_store(place: Path) -> None:
    (place / "plans.yaml").write_text(STUDY + FACTORS)
    code, out, err = run("plans.yaml")
    assert (code, err) == (0, "")
    assert out.startswith("Two plans\n2 points, seed 1, 95 % intervals; on worlds\n")
    assert re.search(r"capacity=2 +2 +8 +12m\n", out)
    assert "variance reduction" in out
    assert out.endswith("\nKept in plans.study.sqlite\n")
    assert (place / "plans.study.sqlite").is_file()
    with sqlite3.connect("plans.study.sqlite") as database:
        assert database.execute("SELECT count(*) FROM results").fetchone() == (4,)
    database.close()


@pytest.mark.slow
def test_json_and_files(place: Path) -> None:
    (place / "plans.yaml").write_text(STUDY + FACTORS + GOAL % "95%")
    code, out, _ = run("plans.yaml", "--json", "--out", "results", "--store", "kept", "--replications", "3")
    assert code == 0
    assert (place / "results" / "result.json").read_text() == out
    assert [row["replications"] for row in json.loads(out)["tables"]["points"]] == [3] * 4
    assert json.loads(out)["tables"]["goals"][0]["answer"] == 4
    assert {path.stem for path in (place / "results" / "tables").iterdir()} == {
        *("points", "effects", "differences", "goals", "candidates"),
    }
    assert {path.suffix for path in (place / "results" / "plots").iterdir()} == {".png"}
    page = (place / "results" / "page.html").read_text()
    assert "<h1>Two plans</h1>" in page
    assert "<svg role=" in page
    assert "<pre>ranksim study plans.yaml --replications 3</pre>" in page
    assert "Assumptions that the result rests on" in page
    assert run("plans.yaml", "--out", "results", "--store", "kept", "--no-plots")[0] == 0  # replaced
    assert not (place / "results" / "plots").exists()


@pytest.mark.slow
def test_every_flag_is_an_environment_variable(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ranksim.planner.study.pools.CONNECT", "1s")
    (place / "plans.yaml").write_text(STUDY + FACTORS)
    environment = {
        "RANKSIM_STUDY_REPLICATIONS": "1",
        "RANKSIM_STUDY_STORE": "elsewhere",
        "RANKSIM_STUDY_JSON": "1",
        "RANKSIM_STUDY_OUT": "there",
        "RANKSIM_STUDY_PLOTS": "0",
        "RANKSIM_STUDY_WORKERS": "1",
        "RANKSIM_STUDY_RETRY_FAILED": "1",
    }
    code, out, _ = run("plans.yaml", **environment)
    assert code == 0
    assert json.loads(out)["tables"]["points"][0]["replications"] == 1
    assert {path.name for path in place.iterdir()} == {"plans.yaml", "elsewhere", "there"}
    code, _, err = run("plans.yaml", RANKSIM_STUDY_SCHEDULER="tcp://127.0.0.1:1")
    assert (code, "no Dask scheduler answers at tcp://127.0.0.1:1" in err) == (2, True)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (STUDY + "factors: {scenario.lenght: [1d]}\n", 2, "bad.yaml:13: factors.scenario.lenght: no param"),
        (STUDY + "variants: {}\n", 2, "bad.yaml:13: variants: is empty"),
        (STUDY + GOAL % "200%", 2, "bad.yaml:13: goal: cannot be reached: even 16 does not meet"),
        (STUDY + f"factors: {{{KEYWORDS}: [5, 900000]}}\n", 2,
         f"bad.yaml:13: factors.{KEYWORDS}[1]: accounts.acme.portfolio: takes 7200000 slots"),
        (STUDY + f"factors: {{{KEYWORDS}: [5, 1000], scenario.plan: [pro, agency]}}\n", 1,
         "point keywords=1000, plan=pro failed: accounts.acme.portfolio: takes 8000 slots"),
    ],
)  # fmt: skip
def test_exit_codes(place: Path, text: str, code: int, message: str) -> None:
    (place / "bad.yaml").write_text(text)
    exit_code, out, err = run("bad.yaml")
    assert exit_code == code
    assert message in err
    assert err.count("\n") == 1
    assert ("Failed" in out) == (code == 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "/proc/results"), "ranksim: /proc/results: cannot be written ("),
        (
            ("--out", "o", "--store", "o/s.sqlite"),
            "ranksim: o/s.sqlite: lies in o, which is replaced as a whole",
        ),
    ],
)
def test_what_keeps_results_from_being_written_is_told_before_anything_runs(
    place: Path, words: tuple[str, ...], message: str
) -> None:
    (place / "plans.yaml").write_text(STUDY)
    code, out, err = run("plans.yaml", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(message)
    assert [path.name for path in place.iterdir()] == ["plans.yaml"]


def test_an_interrupt_says_what_is_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ranksim.planner.study.study.Study.run", interrupted)
    (place / "plans.yaml").write_text(STUDY + FACTORS)
    assert run("plans.yaml") == (
        130,
        "",
        "ranksim: interrupted; what is finished is kept in plans.study.sqlite\n",
    )


def test_a_store_of_another_study(place: Path) -> None:
    (place / "plans.yaml").write_text(STUDY + FACTORS)
    assert run("plans.yaml")[0] == 0
    (place / "plans.yaml").write_text(STUDY + FACTORS.replace("[1, 2]", "[1, 3]"))
    code, out, err = run("plans.yaml")
    assert (code, out) == (2, "")
    assert "plans.study.sqlite: holds results of another study, 'Two plans', with another design" in err


@pytest.mark.slow
def test_it_is_quiet_in_a_pipe(place: Path) -> None:
    (place / "plans.yaml").write_text(STUDY + FACTORS)
    command = [sys.executable, "-m", "ranksim", "study", "plans.yaml", "--workers", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


def test_whole_numbers_that_are_not_drawn_have_indices(place: Path) -> None:
    tracked = "scenario.accounts.acme.portfolio"
    text = f"parameters: {{{tracked}.domains: [4, 9], {tracked}.keywords: [3, 5]}}"
    (place / "sobol.yaml").write_text(f"{STUDY}sensitivity: {{method: sobol, samples: 2, {text}}}\n")
    code, out, _ = run("sobol.yaml", "--json", "--replications", "1")
    assert (code, json.loads(out)["tables"]["sobol"][0]["metric"]) == (0, "jobs.rank_run.done")


def test_set_is_what_change_says(place: Path) -> None:
    (place / "plans.yaml").write_text(STUDY + FACTORS)
    (place / "few.yaml").write_text(
        STUDY + FACTORS + "change: {scenario.accounts.acme.portfolio.domains: 3}\n"
    )
    few = json.loads(run("few.yaml", "--json")[1])
    code, out, err = run("plans.yaml", "--json", "--set", "scenario.accounts.acme.portfolio.domains=3")
    assert (code, err) == (0, "")
    assert json.loads(out)["tables"] == few["tables"]
    code, out, err = run("plans.yaml", "--set", "scenario.pools.rank_run.capacity=3")
    assert (code, out) == (2, "")
    assert err == ("ranksim: scenario.pools.rank_run.capacity: the study varies it; set another parameter\n")


@pytest.mark.slow
def test_money_and_durations_of_a_study_have_their_units(place: Path) -> None:
    price = "policy.catalogue.plans.pro.price"
    wrong = {
        f"factors: {{{price}: [99 USD, 129]}}": f"factors.{price}: write an amount such as '129 USD',",
        f"change: {{{price}: 99}}": f"change.{price}: write an amount such as '99 USD', found 99",
        "variants: {a: {scenario.length: 9}}": "variants.a.scenario.length: write a duration such as",
    }
    for text, message in wrong.items():
        (place / "plans.yaml").write_text(f"{STUDY}{text}\n")
        code, out, err = run("plans.yaml")
        assert (code, out) == (2, "")
        assert f"plans.yaml:13: {message}" in err


def test_a_goal_that_its_replications_cannot_show_is_told_before_any_runs(place: Path) -> None:
    drawn = STUDY.replace("duration: 4m", "duration: {exponential: {mean: 4m}}").replace("1, dur", "8, dur")
    goal = (
        "goal: {smallest: scenario.pools.rank_run.capacity, between: [8, 9], max_replications: 3, "
        "such_that: jobs.rank_run.wait.within.10m >= 99%}\n"
    )
    Path("short.yaml").write_text(drawn + goal)
    code, out, err = run("short.yaml")
    first, last = err.strip().splitlines()
    assert first == (
        "ranksim: goal: if all replications of a value meet jobs.rank_run.wait.within.10m >= 99%, it takes "
        "at least 462 to show that, and 3 are run at most; raise max_replications, or ask for less"
    )
    assert "whether even 9 meets jobs.rank_run.wait.within.10m >= 99% is undecided after 3" in last
    assert (code, "undecided" in out) == (1, True)
