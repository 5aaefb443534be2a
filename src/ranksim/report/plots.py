"""Plots of a result's tables with matplotlib, drawn on Axes of their own or of the caller.

Every plot has units on its axes, dates in UTC, bands or bars for intervals, colours that colour-blind people
can tell apart (Okabe and Ito), labels beside what they name, and its finding as its title. Where accounts are
many, the fullest are shown and the title says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ranksim.core.errors import BadInput, one_among
from ranksim.report import units
from ranksim.report.figure import (
    BLUE,
    INK,
    PANEL,
    SIZE,
    error_bars,
    finish,
    new_figure,
    save_figure,
    separated,
    to_svg,
)
from ranksim.report.over_time import grouped, total
from ranksim.report.tables import Tables
from ranksim.report.usage_plots import meters, slots, spend
from ranksim.report.waiting_plots import jobs, windows
from ranksim.report.webhook_plots import bar_width, delays, deliveries, timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot(tables: Tables, name: str = "", ax: Axes | None = None) -> Axes:
    """Draw one plot of `PLOTS`, the first `drawable` one unless named; without `ax` on a figure of its own.

    Panels stand within the Axes. Raises BadInput for a plot that there is not, without rows or matplotlib.
    """
    if not name:
        name = next(iter(drawable(tables)), "")
    if not name:
        raise BadInput("plot: this result has nothing to draw; `frame()` has its numbers")
    if name not in PLOTS:
        raise BadInput(f"plot: expected {one_among(drawable(tables) or PLOTS, name)}")
    if not tables.get(PLOTS[name].table):
        raise BadInput(f"plot: this result has nothing to draw for {name!r}; its table is empty")
    if ax is None:
        return _own(tables, name).axes[0]
    PLOTS[name].draw(tables, ax)
    return ax


def _own(tables: Tables, name: str) -> Figure:
    """Draw a plot on a figure of its own, which is higher for each panel beyond a first."""
    figure = new_figure()
    ax = figure.subplots()
    PLOTS[name].draw(tables, ax)
    figure.set_figheight(SIZE[1] + PANEL * max(0, len(ax.child_axes) - 1))
    return figure


def drawable(tables: Tables) -> list[str]:
    """The names of the plots that these tables fill, in order; what was never used needs none."""
    return [
        name
        for name, drawing in PLOTS.items()
        if tables.get(drawing.table)
        and (not drawing.used or any(row[drawing.used] for row in tables[drawing.table]))
    ]


def save_all(tables: Tables, directory: Path) -> dict[str, str]:
    """Write every plot that these tables fill as NAME.png into a directory; give the SVGs by name."""
    return {name: save_figure(_own(tables, name), directory / f"{name}.png") for name in drawable(tables)}


def svgs(tables: Tables) -> dict[str, str]:
    """Every plot that these tables fill as an SVG element for a page, by name."""
    return {name: to_svg(_own(tables, name)) for name in drawable(tables)}


def refusals(tables: Tables, ax: Axes) -> None:
    """Draw how many calls were refused, by code, in the order of the checks."""
    rows = sorted(tables["refusals"], key=lambda row: (row["check"], row["code"]))
    groups = grouped(rows, "code")
    names = [f"{check} {code}" if (check := group[0]["check"]) else code for code, group in groups.items()]
    counts = [total(group, "count") for group in groups.values()]
    errors = error_bars([group[0] if len(group) == 1 else {} for group in groups.values()], counts)
    height = bar_width(len(names))
    ax.barh(names, counts, color=BLUE, height=height, xerr=errors, error_kw={"ecolor": INK, "elinewidth": 1})
    _bar_labels(ax, counts, errors[1] if errors else [0] * len(counts))
    ax.set_ylim(len(names) - 0.5, -0.5)
    sentence = _most_refused(dict(zip(groups, counts, strict=True)))
    finish(ax, sentence, x="refused calls, in the order of the checks", grid="x")


def _most_refused(counts: Mapping[str, float]) -> str:
    code, refused = max(counts, key=lambda code: counts[code]), sum(counts.values())
    if counts[code] == refused:
        return f"{units.count(refused)} calls are refused, all with {code}"
    return f"{units.count(counts[code])} of {units.count(refused)} refusals are {code}"


def _bar_labels(ax: Axes, counts: Sequence[float], errors: Sequence[float]) -> None:
    ends = [value + error for value, error in zip(counts, errors, strict=True)]
    top = max(ends) or 1
    for y, (value, end) in enumerate(zip(counts, ends, strict=True)):
        ax.text(end + top * 0.015, y, units.count(value), va="center", fontsize=8, color=INK)
    ax.set_xlim(0, top * 1.12)
    separated(ax.xaxis)


class Plot(NamedTuple):
    """What draws a plot, of which table, and the column that shows whether there was anything to draw."""

    draw: Callable[[Tables, Axes], None]
    table: str
    used: str = ""


PLOTS = {
    "timeline": Plot(timeline, "delivering", "failed"),
    "slots": Plot(slots, "slots", "used"),
    "meters": Plot(meters, "meters", "used"),
    "spend": Plot(spend, "spend", "spent_uusd"),
    "windows": Plot(windows, "windows"),
    "refusals": Plot(refusals, "refusals"),
    "jobs": Plot(jobs, "queues"),
    "deliveries": Plot(deliveries, "deliveries", "failed"),
    "delays": Plot(delays, "delivering"),
}
"""The plots by name, in the order of a page."""
