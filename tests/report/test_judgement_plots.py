"""Plots of a judged trace: their titles tell what is to be seen."""

from __future__ import annotations

from typing import Any

from ranksim.judge.report import judgement_plots
from ranksim.report.figure import new_figure

ROWS: list[dict[str, Any]] = [
    {"t": t * 1_000_000, "ok": 6.0, "limited": limited, "refused": 0.0, "failed": 0.0, "lost": 0.0}
    | {"p50": 20_000, "p95": 60_000, "p99": slowest}
    for t, (limited, slowest) in enumerate(((0.0, 80_000), (4.0, 250_000), (2.0, None)))
]


def test_throughput_says_how_much_of_it_is_refused() -> None:
    ax = new_figure().subplots()
    judgement_plots.draw_throughput(ROWS, ax)
    assert ax.get_title() == "Up to 10 calls a second; 25 % of all are refused with 429"
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("calls a second", "seconds since the run began")


def test_latency_says_what_all_calls_take_and_not_those_of_the_slowest_second() -> None:
    ax = new_figure().subplots()
    judgement_plots.draw_latency(ROWS, ax, 233_000)
    assert ax.get_title() == "99 % of calls take at most 233ms"
    labels = [*ax.get_yticklabels(), *ax.get_yticklabels(minor=True)]
    assert {"20", "50", "100", "200", ""} <= {one.get_text() for one in labels}
    assert not [one for one in labels if "times" in one.get_text()]
    bare = [{name: value for name, value in row.items() if name[0] != "p"} for row in ROWS]
    ax = new_figure().subplots()
    judgement_plots.draw_latency(bare, ax, None)
    assert ax.get_title() == "No reply"
