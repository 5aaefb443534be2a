"""Metrics in words: every name has some, and they are sentences."""

from __future__ import annotations

import pytest

from ranksim.twin.sim.metric_families import ABOUT, FAMILIES
from ranksim.twin.sim.metrics import always, label, statement

NAMES = {
    "NAME": "x",
    "ACCOUNT": "acme",
    "ACCOUNT.METRIC": "acme.rank_runs",
    "ACCOUNT.KEY.CLASS": "acme.ci.write",
}


@pytest.mark.parametrize(
    ("metric", "value", "words", "sentence"),
    [
        ("refusals.total", "8", "calls refused", "8 calls were refused"),
        ("refusals.cost_cap_reached", "1", "call refused with cost_cap_reached",
         "1 call was refused with cost_cap_reached"),
        ("clients.ci.limited", "2", "calls of ci rate limited", "2 calls of ci were rate limited"),
        ("jobs.crawl.failed", "2", "crawl jobs failed", "2 crawl jobs failed"),
        ("jobs.crawl.wait.p95", "4m", "95th percentile of waits of crawl jobs",
         "the 95th percentile of waits of crawl jobs was 4m"),
        ("jobs.crawl.wait.max", "4m", "longest wait of crawl jobs", "the longest wait of crawl jobs was 4m"),
        ("deliveries.delay.mean", "1s", "mean delay of events for receivers",
         "the mean delay of events for receivers was 1s"),
        ("endpoints.my.erp.lost", "0", "events for my.erp lost", "0 events for my.erp were lost"),
        ("meters.acme.rank_runs.used", "9", "rank_runs of acme used at the end",
         "9 rank_runs of acme were used at the end"),
        ("windows.acme.ci.write.refused", "1", "write call of ci rate limited",
         "1 write call of ci was rate limited"),
        ("clients.ci.response_time.p50", "1s", "median response time of ci",
         "the median response time of ci was 1s"),
    ],
)  # fmt: skip
def test_a_metric_in_words(metric: str, value: str, words: str, sentence: str) -> None:
    assert (label(metric, value), statement(metric, value)) == (words, sentence)


def test_every_metric_has_words() -> None:
    named = [
        f"{family}.{NAMES[about]}.{field}" for family, about in ABOUT.items() for field in FAMILIES[family]
    ]
    for metric in (*always(), *named):
        words = label(metric, "2")
        assert words != metric
        assert not set("*~{}") & set(words + statement(metric, "2")), metric


def test_what_has_no_words_is_its_name() -> None:
    assert label("apples.acme.eaten", "2") == "apples.acme.eaten"
