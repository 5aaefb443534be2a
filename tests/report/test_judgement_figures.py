"""Figures of a judgement: what is drawn, what its tooltips say, and from which calls and attempts."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from tests.kit.traces import a_trace, call, hook

from ranksim.core.clock import MINUTE, SECOND
from ranksim.core.contract.facts import Facts
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.conformance.report.traffic import figure_rows
from ranksim.judge.conformance.verdict.verdicts import Evidence
from ranksim.judge.report.judgement_figures import staircase, timeline

LIMIT = {"RateLimit-Limit": "3", "RateLimit-Remaining": "0", "RateLimit-Reset": "1"}
CALLS = [
    call("jobs.list", at, at + 0.5, [], headers=LIMIT, status=429 if at == 40 else 200)
    for at in (0, 10, 20, 30, 40, 90)
]
ATTEMPTS = [hook(at, attempt=number, status=500) for number, at in ((1, 0), (2, 120), (3, 500))]


def titles(svg: str) -> list[str]:
    """Read the figure as XML, and give its tooltips."""
    return [found.text or "" for found in ElementTree.fromstring(svg).iter("title")]


@pytest.mark.parametrize(("named", "first"), [(("x1", "x4"), 0), (("x5",), -20)])
def test_calls_of_one_window_are_drawn_from_its_first_or_to_its_refusal(
    named: tuple[str, ...], first: int
) -> None:
    history = read_history(a_trace(CALLS))
    figure = figure_rows("rate.read", Evidence("no", named), [history], Facts())["staircase"]
    assert figure["length"] == MINUTE
    assert round((figure["t"] - CALLS[0].sent) / SECOND) == first
    assert [one["id"] for one in figure["calls"]] == ["x1", "x2", "x3", "x4", "x5"]
    told = titles(staircase(figure))
    assert any(said.startswith("x4: call 4 of the window") for said in told)
    assert any(said.startswith("x5: refused") for said in told)
    assert "4 admitted" in staircase(figure)
    assert "limit 3" in staircase(figure)


@pytest.mark.parametrize(
    ("says", "bad", "drawn_too"),
    [("4 calls were admitted", 1, False), ("4 calls, which meets two windows of 3 at most", 0, True)],
)
def test_the_figure_counts_what_its_evidence_says(says: str, bad: int, drawn_too: bool) -> None:
    """Up to the last call that evidence names, against the limit of as many windows as it may meet."""
    later = [*CALLS, call("jobs.list", 55, 55.5, [], headers=LIMIT)]
    figure = figure_rows("rate.read", Evidence(says, ("x1", "x4")), [read_history(a_trace(later))], Facts())[
        "staircase"
    ]
    drawing = staircase(figure)
    assert "4 admitted" in drawing
    assert drawing.count('class="bad"') - drawing.count('<text class="bad"') >= bad
    assert ("two windows, 6" in drawing) == drawn_too
    assert ("bad" in drawing) == bool(bad)
    assert "(0 s), 0s after the trace began" in drawing


def test_attempts_are_drawn_against_when_they_were_due() -> None:
    history = read_history(a_trace(ATTEMPTS))
    figure = figure_rows("webhook.retry_delays", Evidence("no", (), ("evt_1/2",)), [history], Facts())[
        "timeline"
    ]
    assert [one["attempt"] for one in figure["attempts"]] == [1, 2, 3]
    assert [one["marked"] for one in figure["attempts"]] == [False, True, False]
    told = titles(timeline(figure))
    assert any(said.startswith("attempt 2 came 2m after the first, ") for said in told)
    assert "attempt 4 was due" in " ".join(told)
    assert "not due before the end" in timeline(figure)


def test_other_rules_have_neither() -> None:
    assert figure_rows("error.body", Evidence("no", ("x1",)), [read_history(a_trace(CALLS))], Facts()) == {}
