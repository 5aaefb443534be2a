"""Plots of capacity answers: what is drawn where, from plain rows."""

from __future__ import annotations

import pytest

from ranksim.core.clock import HOUR, MINUTE
from ranksim.planner.capacity import plots
from ranksim.report.figure import BLUE, VERMILLION

NOTHING = {"simulated": None, "simulated_low": None, "simulated_high": None}
SEEN = {"simulated": 0.6, "simulated_low": 0.5, "simulated_high": 0.7}
OUTAGES = [
    {"length": HOUR, "lost": 0.0, "disabled": 0.0, **NOTHING},
    {"length": 3 * HOUR, "lost": 0.5, "disabled": 0.25, **NOTHING},
    {"length": 4 * HOUR, "lost": 0.75, "disabled": 0.5, **SEEN},
]


def test_outages_are_drawn_by_their_length_with_what_was_simulated() -> None:
    ax = plots.outages(OUTAGES)
    lost, disabled, seen = (line.get_xydata().tolist() for line in ax.lines)
    assert lost == [[1, 0], [3, 50], [4, 75]]
    assert disabled == [[1, 0], [3, 25], [4, 50]]
    assert seen == [[4, 60]]
    (bars,) = ax.collections
    ((start, end),) = bars.get_segments()
    assert (start.tolist(), end.tolist()) == (pytest.approx([4, 50]), pytest.approx([4, 70]))
    assert "simulated, with 95 % intervals" in " ".join(ax.get_title().split())


def test_the_lines_of_outages_are_named_in_their_colours_where_they_pass_one_half() -> None:
    from matplotlib.colors import to_hex  # loads slowly

    ax = plots.outages(OUTAGES)
    named = {text.get_text(): (text.xy, to_hex(text.get_color()).upper()) for text in ax.texts}
    assert named == {"events lost": ((3, 50), BLUE), "endpoint disabled": ((4, 50), VERMILLION)}


def test_outages_that_nobody_simulated_have_no_points() -> None:
    ax = plots.outages(OUTAGES[:2])
    assert len(ax.lines) == 2
    assert "simulated" not in ax.get_title()


def test_titles_tell_what_is_found() -> None:
    trials = [
        {"workers": 4, "by_formula": 0.99, "simulated": 0.97, "simulated_low": 0.93, "simulated_high": 0.99},
        {"workers": 5, "by_formula": 0.99, "simulated": 0.99, "simulated_low": 0.96, "simulated_high": 1.0},
    ]
    found = plots.workers(trials, "crawl", 5 * MINUTE, 0.95).get_title()
    assert found.startswith("5 workers start 95 % of crawl jobs within 5m")
    found = plots.workers(trials[:1], "crawl", 5 * MINUTE, 0.95).get_title()
    assert found.startswith("Not even 4 workers start 95 %")
    way = {"window": "gcra", "way": "wait", "time": 3 * MINUTE, "refused": 0, "others_refused": 0}
    refused = way | {"window": "clock", "way": "retry", "time": MINUTE, "others_refused": 2}
    assert plots.sync([refused, way]).get_title() == "Nobody is refused in 3m at best: wait under gcra"
    assert plots.sync([refused]).get_title() == "Somebody is refused in every way"
    both = {text.get_text() for text in plots.sync([refused | {"refused": 3}, way]).texts}
    assert both == {"wait", "retry, 3 refused, 2 of others refused"}
    assert plots.outages(OUTAGES).get_title().startswith("More likely disabled than not from 4h on")
    assert plots.outages(OUTAGES[:2]).get_title() == "More likely disabled than not by none of these outages"
