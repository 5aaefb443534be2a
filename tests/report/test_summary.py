"""The summary for a terminal."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from ranksim.report.heading import ExpectationVerdict, Heading
from ranksim.report.summary import summary

Tables = dict[str, list[dict[str, Any]]]


def written(heading: Heading, tables: Tables, width: int) -> list[str]:
    stream = StringIO()
    console = Console(file=stream, width=width, highlight=False)
    for part in summary(heading, tables):
        console.print(part)
    return stream.getvalue().splitlines()


def test_it_begins_with_the_run_and_the_verdict(heading: Heading, tables: Tables) -> None:
    lines = [line.rstrip() for line in written(heading, tables, 100)]
    assert lines[:12] == [
        "A small agency & its <b>nightly</b> runs",
        "10d from 2026-03-01T00:00:00Z, 1 account, 20 replications, seed 7, policy default",
        "Numbers are means over the 20 replications, with 95 % intervals where one is known. A count without",
        "one is the same in all or nearly all of them.",
        "",
        "1 of 2 expectations failed.",
        "  holds   refusals.total is 110 (100 to 120), as expected at most 150",
        "  failed  jobs.rank_run.wait.p95 is 4m, expected at most 1m: 3m above",
        "",
        "74,283 ± 3,710 calls, 0.1 % of them refused, 820.5 ± 41 jobs done, "
        "1,640 ± 82 webhook events, 9.44 ±",
        "0.47 USD highest provider cost of a month",
        "",
    ]
    assert lines[-4:] == [
        "Assumptions that differ from their default: U1",
        "",
        "Notes",
        "  one sample in 2 is kept",
    ]


@pytest.mark.parametrize("width", [60, 80])
def test_it_fits_the_terminal(heading: Heading, tables: Tables, width: int) -> None:
    lines = written(heading, tables, width)
    assert max(map(len, lines)) <= width
    text = "\n".join(line.rstrip() for line in lines)
    for line in (
        "keyword_briefs.create  limited  429                  8",
        " 10 ± 2  10.9 ± 0.5 %",
        "endpoint     ops"
        if width == 60
        else "endpoint    events  acknowledged    lost   pending  sent twice  disabled",
    ):
        assert line in text


def test_a_very_narrow_terminal_loses_no_words(heading: Heading, tables: Tables) -> None:
    lines = written(heading, tables, 40)
    assert max(map(len, lines)) <= 40
    assert "…" not in "".join(lines)


def test_many_notes_are_cut_short(heading: Heading, tables: Tables) -> None:
    lines = written(replace(heading, notes=tuple(f"note {n}" for n in range(20))), tables, 80)
    assert lines[-1] == "  and 12 more"


@pytest.mark.parametrize(
    ("holds", "verdict"),
    [
        ((), "The scenario states no expectations."),
        ((True,), "The expectation holds."),
        ((True, True), "All 2 expectations hold."),
        ((False,), "1 of 1 expectation failed."),
        ((False, True, False), "2 of 3 expectations failed."),
    ],
)
def test_the_verdict_in_one_line(heading: Heading, holds: tuple[bool, ...], verdict: str) -> None:
    assert replace(heading, verdicts=tuple(ExpectationVerdict(one, "") for one in holds)).verdict == verdict
