"""Plots of a judged trace: throughput, latency, and the calls around what proves a deviation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ranksim.core.clock import MILLISECOND, SECOND, Micros
from ranksim.report import units
from ranksim.report.figure import (
    BLUE,
    GREY,
    ORANGE,
    PURPLE,
    VERMILLION,
    finish,
    label_beside,
    new_figure,
    separated,
    to_svg,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = Mapping[str, Any]

OUTCOMES = {"ok": BLUE, "limited": ORANGE, "refused": PURPLE, "failed": VERMILLION, "lost": GREY}
"""Outcome to its colour, from the bottom of the stack to its top."""

NAMES = {"ok": "done", "limited": "429", "refused": "refused", "failed": "5xx", "lost": "no reply"}


def drawings(judgement: Mapping[str, Any]) -> dict[str, Callable[[Axes], None]]:
    """Return what draws throughput and latency, by name; no latency where replies took no time."""
    rows = judgement["throughput"]
    if len(rows) < 2:
        return {}
    draw: dict[str, Callable[[Axes], None]] = {"throughput": partial(draw_throughput, rows)}
    if (length := judgement["latency"]["p99"]) != 0:
        draw["latency"] = partial(draw_latency, rows, length=length)
    return draw


def images(judgement: Mapping[str, Any]) -> dict[str, str]:
    """Draw what there is to draw as SVG elements, by name."""
    return {name: _svg(draw) for name, draw in drawings(judgement).items()}


def evidence_image(rows: Sequence[Row]) -> str:
    """Draw the calls around a piece of evidence as an SVG element."""
    return _svg(partial(draw_evidence, rows))


def draw_throughput(rows: Sequence[Row], ax: Axes) -> None:
    """Draw calls a second, stacked by outcome, over seconds since the run began."""
    times = _seconds(rows)
    bottom = [0.0] * len(rows)
    width = times[1] - times[0]
    for outcome, colour in OUTCOMES.items():
        values = [row[outcome] for row in rows]
        if any(values):
            style: dict[str, Any] = {"align": "edge", "color": colour, "label": NAMES[outcome]}
            ax.bar(times, values, width, bottom, linewidth=0, **style)
            bottom = [low + value for low, value in zip(bottom, values, strict=True)]
    most = max(sum(row[outcome] for outcome in OUTCOMES) for row in rows)
    total = sum(row[outcome] for row in rows for outcome in OUTCOMES)
    limited = sum(row["limited"] for row in rows) / total if total else 0.0
    refused = f"{units.percent(limited)} of all are refused with 429"
    ax.legend(frameon=False, ncols=5, loc="upper left", bbox_to_anchor=(0, -0.18), fontsize=8)
    _finish(ax, f"Up to {units.count(most)} calls a second; {refused}", "calls a second")


def draw_latency(rows: Sequence[Row], ax: Axes, length: Micros | None) -> None:
    """Draw latency quantiles step by step; dashed from when a call was to be sent, where that was planned.

    `length` is the p99 of all calls (µs), None where none was answered.
    """
    times = _seconds(rows)
    for prefix, style, suffix in (("", "-", ""), ("planned_", "--", " from plan")):
        for name, colour in (("p50", BLUE), ("p95", ORANGE), ("p99", VERMILLION)):
            points = [
                (t, row[prefix + name] / MILLISECOND)
                for t, row in zip(times, rows, strict=True)
                if row.get(prefix + name) is not None
            ]
            if points:
                ax.plot(*zip(*points, strict=True), style, color=colour, linewidth=1.2)
                label_beside(ax, f"{name}{suffix}", points[-1], (4, 0), color=colour)
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(import_module("matplotlib.ticker").LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter("{x:,g}")
    ax.yaxis.set_minor_formatter("")
    sentence = "No reply" if length is None else f"99 % of calls take at most {units.duration(length)}"
    _finish(ax, sentence, "latency (ms, log)")


def draw_evidence(rows: Sequence[Row], ax: Axes) -> None:
    """Draw each call as a bar from sending to reply, in rows; what proves the deviation is dark and named."""
    origin = rows[0]["t"]
    last = max(row["until"] or row["t"] for row in rows)
    least = max((last - origin) / 400, 1)
    for number, row in enumerate(rows):
        start, end = row["t"] - origin, (last if row["until"] is None else row["until"]) - origin
        colour = OUTCOMES[row["outcome"]]
        ax.barh(number, max(end - start, least) / SECOND, 0.8, start / SECOND, color=colour,
                alpha=1.0 if row["marked"] else 0.35, linewidth=0)  # fmt: skip
        right = max(end, start + least) / SECOND
        if row["marked"]:
            label_beside(ax, f"{row['id']} {row['label']}", (right, number), (3, 0))
    ax.margins(x=0.25)
    ax.set_yticks([])
    ax.set_xlabel(f"seconds from {units.instant(origin)}")
    ax.spines[["top", "right", "left"]].set_visible(False)


def _seconds(rows: Sequence[Row]) -> list[float]:
    return [(row["t"] - rows[0]["t"]) / SECOND for row in rows]


def _finish(ax: Axes, sentence: str, y: str) -> None:
    finish(ax, sentence, "seconds since the run began", y)
    ax.set_xlim(left=0)
    separated(ax.xaxis)


def _svg(draw: Callable[[Axes], None]) -> str:
    figure = new_figure()
    draw(figure.subplots())
    return to_svg(figure)
