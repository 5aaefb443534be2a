"""What plots over time share: the axis of time, panels one below the other, outages, what instants tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from math import fsum
from typing import TYPE_CHECKING, Any, TypeAlias

from ranksim.core.money import MICRO_USD
from ranksim.report import units
from ranksim.report.figure import INK, Label, label_beside, label_ends, plain_axes, separated, tip
from ranksim.report.tables import Row, Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL_GAP = 0.28
"""Between two panels, as a share of a panel's height: room for the title of the lower."""

APART_GAP = 0.5
"""The same between panels that have axes of their own, which want room, too."""

MOST_PANELS = 3
"""The most kinds or endpoints that have a panel."""

Labels: TypeAlias = list[Label]

SAMPLED = ("slots", "windows", "queues")
"""Series that last from the start of a run to its end."""


def grouped(rows: Iterable[Row], *columns: str) -> dict[str, list[Row]]:
    """Return rows by what some of their columns say, in order of appearance."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(", ".join(str(row[column]) for column in columns), []).append(row)
    return groups


def times(rows: Iterable[Row], column: str = "t") -> list[Any]:
    """Return the instants of rows as matplotlib takes them."""
    import numpy as np

    return list(np.array([round(row[column]) for row in rows], dtype="datetime64[us]"))


def in_dollars(row: Row) -> Row:
    """Return a row of money with dollars for micro-dollars."""
    money = {
        name: value / MICRO_USD
        for name, value in row.items()
        if value is not None and (name.endswith("_uusd") or name in ("low", "high"))
    }
    return {**row, **money}


def on_average(rows: Iterable[Row]) -> str:
    """Return what a title adds to the height of a curve that is a mean over replications, else nothing."""
    return " on average" if any(row.get("low") is not None for row in rows) else ""


def of_many(title: str, drawn: int, total: int, noun: str) -> str:
    """Return a title that says so where not all are shown."""
    return f"{title} ({drawn} of {total} {noun} shown)" if drawn < total else title


def panels(ax: Axes, titles: Sequence[str], *, apart: bool = False) -> list[Axes]:
    """Return a panel for each title, one below the other on the same times; where there is one, the Axes.

    The Axes keep their title and the names of their axes. Panels `apart` have each an axis of its own below,
    and one has its title, too.
    """
    if len(titles) == 1 and not apart:
        return [ax]
    ax.set_xticks([])
    ax.set_yticks([])
    ax.patch.set_visible(False)
    ax.spines[:].set_visible(False)
    gap = APART_GAP if apart else PANEL_GAP
    height = 1 / (len(titles) + (len(titles) - 1) * gap + PANEL_GAP)  # room above the first, too
    made: list[Axes] = []
    for at, name in enumerate(titles):
        bottom = 1 - (at + 1 + at * gap + PANEL_GAP) * height
        panel = ax.inset_axes((0, bottom, 1, height), sharex=made[0] if made and not apart else None)
        panel.set_title(name, loc="left", fontsize=9, color=INK, pad=3)
        if at < len(titles) - 1 and not apart:
            panel.tick_params(labelbottom=False)
        made.append(panel)
    ax.xaxis.labelpad, ax.yaxis.labelpad = 30, 34
    return made


def finish_time(ax: Axes, labelled: Sequence[tuple[Axes, Sequence[Label]]], what: str = "UTC") -> None:
    """Give panels the axis of time, and the labels beside what they name."""
    dates: Any = import_module("matplotlib.dates")  # which has no types
    for panel, labels in labelled:
        locator = dates.AutoDateLocator(minticks=3, maxticks=8, tz="UTC")
        panel.xaxis.set_major_locator(locator)
        formatter = dates.ConciseDateFormatter(locator, tz="UTC")
        panel.xaxis.set_major_formatter(formatter)
        panel.margins(x=0)
        plain_axes(panel)
        if panel is not ax:
            panel.tick_params(labelsize=8)
            panel.xaxis.get_offset_text().set_fontsize(8)
            if panel is not labelled[-1][0]:
                panel.xaxis.get_offset_text().set_visible(False)
        label_ends(panel, labels, gap=0.07 if panel is ax else 0.15)
    ax.set_xlabel(what)


FAR = 4
"""A limit so many times above all there is would flatten it: it is told, and not drawn."""


def crosses(ax: Axes, at: Sequence[Any], heights: Sequence[float], colour: str, **style: Any) -> None:
    """Mark points of a plot with crosses in front of all else."""
    usual: dict[str, Any] = {"color": colour, "markersize": 6, "markeredgewidth": 1.6, "zorder": 4}
    ax.plot(at, heights, "x", **usual | style)


def most(rows: Iterable[Row], column: str) -> float:
    """Return the largest value of a column."""
    return float(max(row[column] for row in rows))


EXACT = 9
"""Decimals to which the sum of means is right: the mean of the sums rounds to the same digit when written."""


def total(rows: Iterable[Row], column: str) -> float:
    """Return the sum of a column; of means over replications what a table has as the mean of their sums."""
    return round(fsum(row[column] for row in rows), EXACT)


def note_above(ax: Axes, text: str, colour: str = INK) -> None:
    """Tell in the upper corner what lies too far above to be drawn."""
    ax.annotate(text, (0.99, 0.97), xycoords="axes fraction", color=colour, ha="right", va="top", fontsize=8)


def whole_ticks(ax: Axes) -> None:
    """Let an axis of counts have no ticks between two whole numbers."""
    ticker: Any = import_module("matplotlib.ticker")
    ax.yaxis.set_major_locator(ticker.MaxNLocator(nbins=4, integer=True, min_n_ticks=2))
    separated(ax.yaxis)


def whole_run(ax: Axes, tables: Tables) -> None:
    """Let an axis of time show the run from its start to its end, as far as series were sampled."""
    sampled = next((rows for name in SAMPLED if (rows := tables.get(name))), None)
    if sampled is not None:
        at = [row["t"] for row in sampled]
        ax.set_xlim(*times({"t": t} for t in (min(at), max(at))))


def shade(ax: Axes, outages: Iterable[Row], endpoints: Iterable[str]) -> None:
    """Shade the time in which receivers of some endpoints were down, in all replications."""
    dates: Any = import_module("matplotlib.dates")
    among = set(endpoints)
    spans: dict[tuple[int, int], list[str]] = {}
    for row in outages:
        if row["endpoint"] in among and row["share"] == 1:
            spans.setdefault((row["t"], row["until"]), []).append(row["endpoint"])
    for at, (span, names) in enumerate(spans.items()):
        begin, end = times([{"t": span[0]}, {"t": span[1]}])
        drawn = ax.axvspan(begin, end, color=INK, alpha=0.13, linewidth=0, zorder=0)
        span_text = f"{', '.join(names)}: down from {begin}Z for {units.duration(span[1] - span[0])}"
        tip(drawn, span_text)
        if at == 0:
            left = float(ax.transLimits.transform((dates.date2num(end), 0))[0]) < 0.5
            edge, shift, side = (end, 3, "left") if left else (begin, -3, "right")
            style = {"xycoords": ("data", "axes fraction"), "va": "top", "ha": side}
            label_beside(ax, "receiver down", (edge, 0.99), (shift, 0), **style)


def tooltips(ax: Axes, at: Sequence[Any], texts: Sequence[str]) -> None:
    """Let each instant tell what is said of it, on a page, from there to where something else is said."""
    began = 0
    for number in range(1, len(texts)):
        if texts[number] != texts[began] or number == len(texts) - 1:
            if texts[began]:
                tip(ax.axvspan(at[began], at[number], alpha=0, linewidth=0), f"{at[began]}Z: {texts[began]}")
            began = number


def in_words(row: Row, named: Mapping[str, str]) -> str:
    """Return what some columns of a row say, named."""
    return ", ".join(
        f"{label} {units.count(row[column])}" for column, label in named.items() if row[column] is not None
    )
