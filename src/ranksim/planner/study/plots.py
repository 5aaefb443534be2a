"""Plots of a study: points and differences with their intervals, tornado, Sobol's indices, a goal."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from ranksim.core.clock import HOUR, MILLISECOND, MINUTE, SECOND
from ranksim.core.errors import BadInput
from ranksim.core.money import MICRO_USD
from ranksim.planner.study.condition import MetricCondition
from ranksim.planner.study.presentation import effect_words, has_averages
from ranksim.planner.study.spec import CheckedSpec
from ranksim.report import units
from ranksim.report.figure import (
    BLUE,
    COLOURS,
    GREY,
    INK,
    VERMILLION,
    longest_line,
    new_figure,
    or_value,
    separated,
    title,
)
from ranksim.report.table_spec import Row, Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE = 72
"""Characters of a line of a figure: what the names of rows leave of it is a title's and a label's."""

TITLE = 24, 48
"""Characters of a line of a title at least and at most."""

DURATIONS = ((HOUR, "h"), (MINUTE, "min"), (SECOND, "s"), (MILLISECOND, "ms"))


def plot(
    study: CheckedSpec, tables: Tables, name: str, metric: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw one table of a result for one metric, by default its first.

    Raises BadInput when there is no such plot, nothing to draw, or no matplotlib.
    """
    if name not in PLOTS:
        raise BadInput(f"no plot {name!r}; expected one of {', '.join(PLOTS)}")
    rows = list(tables[name])
    if rows and "metric" in rows[0]:
        metric = metric or rows[0]["metric"]
        rows = [row for row in rows if row["metric"] == metric]
    if not rows:
        raise BadInput(
            f"this result has nothing to draw for {name!r}" + (f" of {metric!r}" if metric else "")
        )
    if ax is None:
        ax = new_figure().subplots()
    PLOTS[name](study, rows, ax)
    return ax


def filled_plots(tables: Tables) -> dict[str, tuple[str, str | None, list[Row]]]:
    """Return the plots that have rows by name: each with its table, its metric and its rows.

    What answers a question comes before what it was found by.
    """
    plots = {}
    effects = ["effects"] if has_averages(tables) else []
    for name in ("candidates", *effects, "differences", "tornado", "sobol", "points"):
        metrics: dict[str | None, list[Row]] = {}
        for row in tables[name]:
            metrics.setdefault(row.get("metric"), []).append(row)
        for number, (metric, rows) in enumerate(metrics.items(), 1):
            plots[name if len(metrics) == 1 else f"{name}-{number}"] = (name, metric, rows)
    return plots


def _points(study: CheckedSpec, rows: Sequence[Row], ax: Axes) -> None:
    _whiskers(ax, [row["point"] for row in rows], rows, "mean", rows[0]["unit"], rows[0]["metric"])
    low, high = ax.get_xlim()
    if rows[0]["unit"] != "instant":
        ax.set_xlim(min(0, low), max(0, high))
    drawn = [row for row in rows if row["mean"] is not None] or list(rows)
    means = [row["mean"] or 0 for row in drawn]
    ends = [drawn[means.index(end)] for end in (min(means), max(means))]
    least, most = (units.write(row["unit"], row["mean"]) for row in ends)
    where = f"{ends[0]['point']}, {most} at {ends[1]['point']}" if least != most else "every point"
    _titled(ax, f"{rows[0]['metric']}: {least} at {where}")


def _effects(study: CheckedSpec, rows: Sequence[Row], ax: Axes) -> None:
    """The mean at each value, those of a parameter joined, that of the greatest swing on top."""
    names = [f"{_short(row['parameter'])}={row['value']}" for row in rows]
    _whiskers(ax, names, rows, "mean", rows[0]["unit"], f"mean {rows[0]['metric']}")
    size, _ = _scale(rows[0]["unit"], rows, "mean")
    places = {id(row): place for place, row in enumerate(reversed(rows))}
    for number, parameter in enumerate(dict.fromkeys(row["parameter"] for row in rows)):
        of = [row for row in rows if row["parameter"] == parameter]
        drawn = [row for row in of if row["mean"] is not None]
        at = [row["mean"] / size for row in drawn], [places[id(row)] for row in drawn]
        ax.plot(*at, color=BLUE, linewidth=1, alpha=0.5)
        if number:
            ax.axhline(places[id(of[0])] + 0.5, color=GREY, linewidth=0.5)
    words = effect_words(rows, _short(rows[0]["parameter"]), rows[0]["metric"])
    _titled(ax, f"{words[0].upper()}{words[1:]}" if words.startswith(("no ", "it ")) else words)


def _comparisons(study: CheckedSpec, rows: Sequence[Row], ax: Axes) -> None:
    baselines = list(dict.fromkeys(row["against"] for row in rows))
    alone = len(baselines) == 1
    names = [row["point"] if alone else f"{row['point']}\n− {row['against']}" for row in rows]
    unit, of = units.difference_of(rows[0]["unit"]), f" from {baselines[0]}" if alone else ""
    _whiskers(ax, names, rows, "difference", unit, f"difference in {rows[0]['metric']}{of}")
    ax.axvline(0, color=GREY, linewidth=1, zorder=0)
    sure = [row for row in rows if row["sure"]]
    most = max(sure or rows, key=lambda row: abs(row["difference"] or 0))
    size = units.write(unit, abs(most["difference"] or 0))
    more = "more" if (most["difference"] or 0) > 0 else "less"
    sentence = f"{size} {more} {rows[0]['metric']} at {most['point']} than at {most['against']}"
    if not any(row["difference"] for row in rows):
        sentence = f"{rows[0]['metric']} is the same at every point"
    elif not sure and most["low"] is not None:
        sentence = f"No difference in {rows[0]['metric']} is sure"
    _titled(ax, sentence)


def _candidates(study: CheckedSpec, rows: Sequence[Row], ax: Axes) -> None:
    goal = study.spec.goal
    if goal is None:
        return
    condition = MetricCondition.parse(goal.such_that, study.engine)
    name, unit = condition.decides
    many = len({row["point"] for row in rows}) > 1
    size, suffix = _scale(unit, rows, "mean")
    if all(NUMBER.fullmatch(row["value"]) for row in rows):
        _curves(ax, rows, size)
        ax.set_xlabel(_short(goal.parameter))
        ax.set_ylabel(f"{name}{suffix}")
        ax.axhline(condition.bound / size, **BOUND)
    else:
        names = [f"{row['point']}: {row['value']}" if many else row["value"] for row in rows]
        _whiskers(ax, names, rows, "mean", unit, name)
        ax.set_ylabel(_short(goal.parameter))
        ax.axvline(condition.bound / size, **BOUND)
    decided = [row["value"] for row in rows if row["decision"] == "holds"]
    which = (decided[0] if goal.smallest else decided[-1]) if decided else ""
    sentence = f"Values tried for {goal.such_that}"
    if which and not many:
        sentence = f"{which} is the {goal.extreme} for {goal.such_that}"
    _titled(ax, sentence)


BOUND: dict[str, Any] = {"color": VERMILLION, "linewidth": 1, "linestyle": "--", "zorder": 0}

NUMBER = re.compile(r"-?\d+(\.\d+)?")
"""A value of a parameter that is a plain number."""


def _curves(ax: Axes, rows: Sequence[Row], size: float) -> None:
    """A line for each point of a design over the numbers that were tried, with intervals."""
    points = list(dict.fromkeys(row["point"] for row in rows))
    for number, point in enumerate(points):
        seen = [row for row in rows if row["point"] == point and row["mean"] is not None]
        seen.sort(key=lambda row: float(row["value"]))
        values = [float(row["value"]) for row in seen]
        means, colour = [row["mean"] / size for row in seen], COLOURS[number % len(COLOURS)]
        ax.plot(values, means, "o-", color=colour, markersize=5, linewidth=1, label=point)
        for value, row in zip(values, seen, strict=True):
            if row["low"] is not None and row["high"] is not None:
                ax.plot([value] * 2, [row["low"] / size, row["high"] / size], color=colour, linewidth=2)
    if len(points) > 1:
        ax.legend(frameon=False, fontsize=8)
    _tidy(ax)


def _tornado(study: CheckedSpec, rows: Sequence[Row], ax: Axes) -> None:
    size, unit = _scale(units.difference_of(rows[0]["unit"]), rows, "swing")
    places = range(len(rows) - 1, -1, -1)
    for end, colour in (("low", BLUE), ("high", VERMILLION)):
        changes = [(row[f"{end}_change"] or 0) / size for row in rows]
        half = 0.27 if end == "low" else -0.27
        ax.barh([place + half / 2 for place in places], changes, height=0.25, color=colour)
        for level, change, row in zip(places, changes, rows, strict=True):
            place = level + half / 2
            at = (4, "left") if change > 0 else (-4, "right")
            span = [(row[f"{end}_change_{side}"] or 0) / size for side in ("low", "high")]
            if span[0] < span[1]:
                ax.plot(span, [place, place], color=INK, linewidth=1)
            tip = max(change, span[1]) if change > 0 else min(change, span[0])
            ax.annotate(
                row[f"{end}_value"], (tip, place), (at[0], 0), textcoords="offset points",
                ha=at[1], va="center", fontsize=8, color=INK,
            )  # fmt: skip
    ax.axvline(0, color=GREY, linewidth=1)
    ax.margins(x=0.2)
    ax.set_yticks(list(places), [_short(row["parameter"]) for row in rows])
    ax.set_xlabel(f"change of {rows[0]['metric']}{unit}")
    most = max(rows, key=lambda row: row["swing"] or 0)
    _titled(ax, f"{_short(most['parameter'])} moves {rows[0]['metric']} most")
    _tidy(ax)


def _sobol(study: CheckedSpec, rows: Sequence[Row], ax: Axes) -> None:
    for shift, name, colour, words in (
        (0.17, "first", BLUE, "alone"),
        (-0.17, "total", VERMILLION, "in all"),
    ):
        for place, row in enumerate(reversed(rows)):
            low, high = (or_value(row[f"{name}_{end}"], row[name]) for end in ("low", "high"))
            ax.plot([low, high], [place + shift] * 2, color=colour, linewidth=2)
            ax.plot(row[name], place + shift, "o", color=colour, markersize=5)
            ax.annotate(
                words, (high, place + shift), (5, 0), textcoords="offset points",
                va="center", fontsize=8, color=colour,
            )  # fmt: skip
    ax.set_yticks(range(len(rows)), [_short(row["parameter"]) for row in reversed(rows)])
    ax.set_xlabel("share of the variance")
    most = max(rows, key=lambda row: row["total"])
    _titled(ax, f"{rows[0]['metric']} varies most with {_short(most['parameter'])}")
    _tidy(ax)


PLOTS: dict[str, Callable[[CheckedSpec, Sequence[Row], Axes], None]] = {
    "points": _points,
    "effects": _effects,
    "differences": _comparisons,
    "candidates": _candidates,
    "tornado": _tornado,
    "sobol": _sobol,
}
"""Table to the function that draws it."""


def _whiskers(
    ax: Axes, names: Sequence[str], rows: Sequence[Row], column: str, unit: str, label: str
) -> None:
    """A dot for each row with its interval, the first row on top."""
    size, suffix = _scale(unit, rows, column)
    for place, row in enumerate(reversed(rows)):
        if row[column] is None:
            continue
        if row["low"] is not None and row["high"] is not None:
            ax.plot([row["low"] / size, row["high"] / size], [place, place], color=BLUE, linewidth=2)
        ax.plot(row[column] / size, place, "o", color=BLUE, markersize=5)
    ax.set_yticks(range(len(rows)), list(reversed(names)))
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.set_xlabel(fill(f"{label}{suffix}", _room(ax)))
    _tidy(ax)


def _scale(unit: str, rows: Sequence[Row], column: str) -> tuple[float, str]:
    """What to divide by, and how the axis names the unit."""
    most = max((abs(row[column]) for row in rows if row[column] is not None), default=0)
    match unit:
        case "money":
            return MICRO_USD, ", USD"
        case "share":
            return 0.01, ", %"
        case "points":
            return 0.01, ", percentage points"
        case "duration":
            size, name = next((step for step in DURATIONS if most >= step[0]), DURATIONS[-1])
            return size, f", {name}"
        case _:
            return 1, ""


def _titled(ax: Axes, sentence: str) -> None:
    title(ax, sentence, _room(ax))


def _room(ax: Axes) -> int:
    """How many characters a line above or below the Axes has beside the names of rows."""
    least, most = TITLE
    return max(least, min(most, LINE - longest_line(ax.get_yticklabels())))


def _short(path: str) -> str:
    return ".".join(path.split(".")[-2:])


def _tidy(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
    separated(ax.xaxis)
