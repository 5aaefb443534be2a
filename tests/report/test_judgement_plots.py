"""Plots of a judged trace: what was measured beside what models predict."""

from __future__ import annotations

from typing import Any

import pytest

from ranksim.report import judgement_plots
from ranksim.report.figure import new_figure


def row(predicted: float, low: float | None, high: float | None, says: str) -> dict[str, Any]:
    """Give a share of calls, measured as 10 %, against a prediction."""
    measured = {"measured": 0.1, "measured_low": 0.08, "measured_high": 0.12}
    model = {"predicted": predicted, "predicted_low": low, "predicted_high": high}
    return {"name": "calls refused rate_limited", "quantity": "share", "says": says} | measured | model


def test_predictions_stand_beside_what_was_measured_with_the_intervals_of_both() -> None:
    ax = new_figure().subplots()
    rows = {"assumed": row(0.22, None, None, "differs"), "calibrated": row(0.1, 0.09, 0.11, "agrees")}
    judgement_plots.draw_predictions(rows, ax)
    (band,) = ax.patches
    assert band.get_extents().transformed(ax.transData.inverted()).intervalx.tolist() == pytest.approx(
        [8, 12]
    )
    measured, *predicted = (line.get_xdata() for line in ax.lines)
    assert list(measured) == [10, 10]
    assert [[pytest.approx(x) for x in line] for line in predicted] == [[22, 22], [22], [9, 11], [10]]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["assumed", "calibrated"]
    assert [text.get_text() for text in ax.texts] == [
        "measured 10 %, 95 % interval",
        "22 %, differs",
        "10 %, agrees",
    ]
    assert ax.get_xlabel() == "% of calls refused rate_limited"
