"""Plots of a judged trace: throughput, latency, and the calls around what proves a deviation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from ranksim.clock import MILLISECOND, SECOND
from ranksim.report import units
from ranksim.report.figure import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SIZE,
    VERMILLION,
    check_matplotlib,
    or_value,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]

OUTCOMES = {"ok": BLUE, "limited": ORANGE, "refused": PURPLE, "failed": VERMILLION, "lost": GREY}
"""Outcome to its colour, from the bottom of the stack to its top."""

NAMES = {"ok": "done", "limited": "429", "refused": "refused", "failed": "5xx", "lost": "no reply"}


def images(judgement: Mapping[str, Any]) -> dict[str, bytes]:
    """Draw throughput and latency as PNG, by name; none where nothing was recorded."""
    rows = judgement["throughput"]
    if len(rows) < 2:
        return {}
    return {"throughput": _png(draw_throughput, rows), "latency": _png(draw_latency, rows)}


def evidence_image(rows: Sequence[Row]) -> bytes:
    """Draw the calls around a piece of evidence as PNG."""
    return _png(draw_evidence, rows)


def draw_throughput(rows: Sequence[Row], ax: Axes) -> None:
    """Draw calls a second, stacked by outcome, over seconds since the run began."""
    times = _seconds(rows)
    bottom = [0.0] * len(rows)
    width = times[1] - times[0]
    for outcome, colour in OUTCOMES.items():
        values = [row[outcome] for row in rows]
        if any(values):
            ax.bar(
                times, values, width, bottom, align="edge", color=colour, label=NAMES[outcome], linewidth=0
            )
            bottom = [low + value for low, value in zip(bottom, values, strict=True)]
    ax.set_title("Throughput")
    ax.set_ylabel("calls a second")
    ax.legend(frameon=False, ncols=5, loc="upper left", bbox_to_anchor=(0, -0.18), fontsize=8)
    _finish(ax)


def draw_latency(rows: Sequence[Row], ax: Axes) -> None:
    """Draw latency quantiles; dashed from when a call was meant to be sent, where that was planned."""
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
                label = f"{name}{suffix}"
                ax.annotate(label, points[-1], xytext=(4, 0), textcoords="offset points",
                            color=colour, fontsize=8, va="center")  # fmt: skip
    ax.set_yscale("log")
    ax.set_title("Latency")
    ax.set_ylabel("latency (ms, log)")
    _finish(ax)


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
            name = f"{row['id']} {row['label']}"
            ax.annotate(name, (right, number), xytext=(3, 0), textcoords="offset points",
                        fontsize=8, va="center", color=INK)  # fmt: skip
    ax.margins(x=0.25)
    ax.set_yticks([])
    ax.set_xlabel(f"seconds from {units.instant(origin)}")
    _despine(ax, left=True)


def draw_predictions(rows: Mapping[str, Row], ax: Axes) -> None:
    """Draw one quantity, a share, as measured with its interval, and as each of some models predicts it.

    `rows` has the row of the measured against the model by the model's name (`conformance.measured`).
    """
    measured = next(iter(rows.values()))
    ax.axvspan(100 * measured["measured_low"], 100 * measured["measured_high"], color=BLUE, alpha=0.2, lw=0)
    ax.axvline(100 * measured["measured"], color=BLUE, linewidth=1.2)
    ax.annotate(
        f"measured {units.percent(measured['measured'])}, 95 % interval", (100 * measured["measured"], 1),
        xycoords=("data", "axes fraction"), xytext=(0, 3), textcoords="offset points",
        ha="center", color=BLUE, fontsize=8,
    )  # fmt: skip
    for number, row in enumerate(rows.values()):
        low, high = (
            100 * or_value(row[name], row["predicted"]) for name in ("predicted_low", "predicted_high")
        )
        ax.plot([low, high], [number, number], color=INK, linewidth=1)
        ax.plot(100 * row["predicted"], number, "o", color=INK, markersize=5)
        label = f"{units.percent(row['predicted'])}, {row['says']}"
        ax.annotate(label, (100 * row["predicted"], number), xytext=(0, 6), textcoords="offset points",
                    ha="center", color=INK, fontsize=8,
                    bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.5})  # fmt: skip
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.margins(x=0.15)
    ax.set_xlim(left=0)
    ax.set_xlabel(f"% of {measured['name']}")
    _despine(ax)


def _seconds(rows: Sequence[Row]) -> list[float]:
    return [(row["t"] - rows[0]["t"]) / SECOND for row in rows]


def _finish(ax: Axes) -> None:
    ax.set_xlabel("seconds since the run began")
    ax.set_xlim(left=0)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    _despine(ax)


def _despine(ax: Axes, left: bool = False) -> None:
    for side in ("top", "right", *(["left"] if left else [])):
        ax.spines[side].set_visible(False)


def _png(draw: Any, rows: Sequence[Row]) -> bytes:
    figure = _figure()
    draw(rows, figure.subplots())
    stream = BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def _figure() -> Figure:
    check_matplotlib()
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return Figure(figsize=SIZE, dpi=150, layout=ConstrainedLayoutEngine(), facecolor="white")
