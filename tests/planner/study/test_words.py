"""What a study found, in the words of its question."""

from __future__ import annotations

from typing import Any

import pytest

import ranksim as rs
from ranksim.planner.study.condition import MetricCondition
from ranksim.planner.study.engines import Worlds
from ranksim.planner.study.spec import Goal
from ranksim.planner.study.words import goal_words, metric_words, parameter_words


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("scenario.pools.rank_run.capacity", "capacity of pool rank_run"),
        ("scenario.length", "length"),
        ("scenario.clients.sync.share", "share of client sync"),
        ("policy.catalogue.plans.pro.quotas.keyword_brief_refreshes.limit",
         "quotas keyword brief refreshes limit of plan pro"),
        ("policy.catalogue.plans.pro.slot_limit", "slot limit of plan pro"),
        ("policy.assumptions.window", "window"),
        ("toy.workers", "toy.workers"),
        ("scenario", "scenario"),
    ],
)  # fmt: skip
def test_a_path_is_said_by_what_it_is_of(path: str, words: str) -> None:
    assert parameter_words(path) == words


def test_a_metric_without_words_is_its_name() -> None:
    assert metric_words("refusals.total") == "calls refused"
    assert metric_words("jobs.rank_run.wait.within.10m") == "share of rank_run jobs that wait 10m at most"
    assert metric_words("chance") == "chance"


@pytest.mark.parametrize(
    ("such_that", "words"),
    [
        ("jobs.rank_run.wait.within.5m >= 95%",
         "share of rank_run jobs that wait 5m at most is at least 95%"),
        ("jobs.rank_run.wait.p95 <= 10m", "95th percentile of waits of rank_run jobs is at most 10m"),
        ("P(refusals.total > 0) < 1%", "chance that the calls refused is above 0 is below 1%"),
    ],
)  # fmt: skip
def test_a_goal_says_what_is_to_hold(such_that: str, words: str) -> None:
    seeking: dict[str, Any] = {"smallest": "scenario.pools.rank_run.capacity", "between": (1, 8)}
    engine = Worlds(rs.Scenario.load("scenarios/quickstart.yaml"))
    goal = Goal(**seeking, such_that=such_that)
    said = goal_words(goal, MetricCondition.parse(such_that, engine))
    assert said == f"smallest capacity of pool rank_run with which the {words}"
