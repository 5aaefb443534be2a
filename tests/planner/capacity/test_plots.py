"""Plots of capacity answers: what is drawn where, from plain rows."""

from __future__ import annotations

from matplotlib.figure import Figure

from ranksim.core.clock import MINUTE
from ranksim.planner.capacity import plots


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
    assert plots.sync([refused, way]).get_title() == "Quickest without refusals: 3m, wait under gcra"
    assert plots.sync([refused]).get_title() == "Somebody is refused in every way"
    both = {text.get_text() for text in plots.sync([refused | {"refused": 3}, way]).texts}
    assert both == {"wait", "retry, 3 refused, 2 of others refused"}


def test_labels_of_uses_stand_clear_of_bars_and_marks_on_a_phone() -> None:
    use = {"name": "keyword slots", "used": 0.4, "used_grown": 0.98}
    figure = Figure(figsize=(4.0, 3.4), dpi=100)
    ax = plots.fit([use], "pro fits", "×2", figure.subplots())
    figure.draw_without_rendering()
    (label,) = ax.texts
    mark, _ = ax.transData.transform((98, 0))
    assert label.get_window_extent().x0 >= mark + 4
    assert label.get_bbox_patch() is not None  # what is behind it, the limit, does not cross it
