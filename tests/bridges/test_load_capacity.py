"""How many users a deployment bears: the search, its answer, and a real deployment that gets slow."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kit.slow_proxy import slowed
from typer.testing import CliRunner

from ranksim.bridges.load_capacity import LoadCapacity, LoadStep, largest_load
from ranksim.cli import app
from ranksim.judge.load.thresholds import Threshold
from ranksim.testing import Server

P95 = Threshold.parse("p95 < 500ms")


def bearing(most: int) -> tuple[list[int], Callable[[int], LoadStep]]:
    """A deployment that bears so many users, and the loads it has seen."""
    tried: list[int] = []

    def measure(users: int) -> LoadStep:
        tried.append(users)
        return LoadStep(users, 100_000 if users <= most else 700_000, users <= most, 1000, users * 1.5)

    return tried, measure


@pytest.mark.parametrize("most", [1, 2, 9, 10, 11, 40, 99, 639])
def test_the_largest_load_that_holds_is_found_to_a_twentieth(most: int) -> None:
    tried, measure = bearing(most)
    answer = LoadCapacity(P95, largest_load(measure, 10, 640))
    assert answer.best is not None
    assert most - max(1, most // 20) <= answer.best.users <= most
    assert len(tried) == len(set(tried)) <= 13


def test_a_deployment_that_bears_all_or_nobody_is_told_so() -> None:
    _, measure = bearing(10_000)
    answer = LoadCapacity(P95, largest_load(measure, 10, 50))
    assert [step.users for step in answer.steps] == [10, 20, 40, 50]
    assert answer.sentence.endswith("no load that was tried breaks it, try more with --most.")

    _, measure = bearing(0)
    answer = LoadCapacity(P95, largest_load(measure, 10, 50))
    assert [step.users for step in answer.steps] == [1, 2, 5, 10]
    assert answer.sentence == "Not even 1 user may call: p95 is 700ms."


def test_an_answer_says_where_the_threshold_breaks_and_what_rate_limits_refused() -> None:
    steps = LoadStep(20, 300_000, True, 900, 31.2, 0.2), LoadStep(21, 612_000, False, 950, 33.0, 0.2)
    answer = LoadCapacity(P95, steps)
    assert answer.sentence == (
        "20 users may call, 31.2 times a second: p95 < 500ms holds. 21 may not: p95 is 612ms."
    )
    assert answer.notes == (
        "Rate limits refused 20 % of these calls; a target file with more keys loads more.",
    )
    assert answer.metrics["20.rate"]["value"] == 31.2
    assert "p95 &lt; 500ms" in answer.page()


def test_a_threshold_on_the_rate_says_nothing_of_how_many_users_there_may_be() -> None:
    ran = CliRunner().invoke(app, ["capacity", "load", "rate > 5", "--host", "http://127.0.0.1:9"])
    assert ran.exit_code == 2
    assert "more users always call more often" in ran.output


def test_a_threshold_that_is_none_is_told_by_its_place() -> None:
    ran = CliRunner().invoke(app, ["capacity", "load", "p95 below 1s", "--host", "http://127.0.0.1:9"])
    assert (ran.exit_code, "THRESHOLD: expected such as" in ran.output) == (2, True), ran.output


def test_a_length_that_is_none_is_told_by_its_flag() -> None:
    for words in (["capacity", "load", "p95 < 1s", "--duration"], ["check", "tidy", "--time"]):
        ran = CliRunner().invoke(app, [*words, "soon", "--host", "http://127.0.0.1:9", "--key", "k"])
        assert (ran.exit_code, words[-1] + ": " in ran.output) == (2, True), ran.output


@pytest.mark.heavy
def test_a_deployment_that_is_slow_beyond_forty_users_bears_forty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Server(clock="real", start=None) as deployment,
        slowed(deployment.url, lambda opened: 0.7 if opened > 40 else 0.0) as url,
    ):
        deployment.limits.off("rate", "cooldown")
        monkeypatch.setenv("RANKSIM_KEY", deployment.key)
        words = ["capacity", "load", "p95 < 500ms", "--host", url, "--duration", "12s", "--json"]
        ran = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out"), "--spend-cap", "none"])
    assert ran.exit_code == 0, ran.output
    answer = json.loads(ran.stdout)
    best = max(row["users"] for row in answer["tables"]["answer"] if row["holds"] == "yes")
    assert 36 <= best <= 44, answer["answer"]
    assert (tmp_path / "out" / "page.html").exists()
