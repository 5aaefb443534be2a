"""Plots of capacity answers: what is drawn where, from plain rows."""

from __future__ import annotations

import pytest

from ranksim.capacity import plots
from ranksim.clock import HOUR
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
    assert "simulated, with 95 % intervals" in ax.get_title()


def test_the_lines_of_outages_are_named_in_their_colours_where_they_pass_one_half() -> None:
    from matplotlib.colors import to_hex  # loads slowly

    ax = plots.outages(OUTAGES)
    named = {text.get_text(): (text.xy, to_hex(text.get_color()).upper()) for text in ax.texts}
    assert named == {"events lost": ((3, 50), BLUE), "endpoint disabled": ((4, 50), VERMILLION)}


def test_outages_that_nobody_simulated_have_no_points() -> None:
    ax = plots.outages(OUTAGES[:2])
    assert len(ax.lines) == 2
    assert "simulated" not in ax.get_title()
