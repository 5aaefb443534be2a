"""Plots of the pricing answers, from their plain rows: direct labels, intervals, units on axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ranksim.core.contract.quantities import MICRO_USD
from ranksim.report import units
from ranksim.report.figure import (
    BLUE,
    GREEN,
    GREY,
    INK,
    VERMILLION,
    label_ends,
    new_figure,
    or_value,
    plain_axes,
    separated,
    title,
)
from ranksim.report.over_time import of_many
from ranksim.report.tables import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SHIFT = 0.12
"""How far A and B stand from the place that they share."""


def margins(rows: Sequence[Row], ax: Axes | None = None) -> Axes:
    """Draw how much more margin B earns than A, a bar for each plan with its interval."""
    ax = new_figure().subplots() if ax is None else ax
    size = [row["difference"] / MICRO_USD for row in rows]
    ax.barh(range(len(rows)), size, height=0.55, color=[VERMILLION if x < 0 else BLUE for x in size])
    for y, (row, x) in enumerate(zip(rows, size, strict=True)):
        low, high = (x if row[edge] is None else row[edge] / MICRO_USD for edge in ("low", "high"))
        ax.plot([low, high], [y, y], color=INK, linewidth=1.4)
        end, gap, side = (low, -4, "right") if x < 0 else (high, 4, "left")
        ax.annotate(
            units.usd(row["difference"]), (end, y), (gap, 0), textcoords="offset points",
            va="center", ha=side, fontsize=8, color=INK,
        )  # fmt: skip
    ax.set_yticks(range(len(rows)), [row["plan"] for row in rows])
    ax.invert_yaxis()
    ax.axvline(0, color=GREY, linewidth=1)
    ax.margins(x=0.25)
    ax.set_xlabel("margin under B − margin under A, USD in the run")
    separated(ax.xaxis)
    total = next((row for row in rows if row["plan"] == "all"), rows[0])
    more = "more" if total["difference"] >= 0 else "less"
    title(ax, f"B earns {units.usd(abs(total['difference']))} {more} margin than A; lines: intervals")
    plain_axes(ax, grid="x")
    return ax


def limits(rows: Sequence[Row], ax: Axes | None = None) -> Axes:
    """Draw the share of customers that meets each limit, under A and under B."""
    ax = new_figure().subplots() if ax is None else ax
    rows = [row for row in rows if row["a"] or row["b"]]
    for y, row in enumerate(rows):
        a, b = 100 * row["a"], 100 * row["b"]
        ax.plot([a, b], [y, y], color=GREY, linewidth=1.5, zorder=1)
        for x, name, colour, up in ((a, "A", BLUE, 6), (b, "B", VERMILLION, -6)):
            ax.plot(x, y, "o", color=colour, markersize=6, zorder=2)
            ax.annotate(
                f"{name} {x:.1f}", (x, y), (0, up), textcoords="offset points",
                ha="left" if x < 5 else "center",
                va="bottom" if up > 0 else "top", fontsize=7, color=colour,
            )  # fmt: skip
    names = [row["metric"].removeprefix("hit_").replace("_", " ") for row in rows]
    ax.set_yticks(range(len(rows)), names)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlim(left=0)
    ax.margins(x=0.1)
    ax.set_xlabel("% of customers refused at least once")
    title(ax, _most_moved(rows) if rows else "Nobody is refused anything")
    plain_axes(ax, grid="x")
    return ax


def _most_moved(rows: Sequence[Row]) -> str:
    """Say which limit changes most."""
    most = max(rows, key=lambda row: abs(row["b"] - row["a"]))
    name = most["metric"].removeprefix("hit_")
    a, b = units.percent(most["a"]), units.percent(most["b"])
    return f"{name}: {a} of customers under A, {b} under B" if a != b else "B moves no limit"


def percentiles(rows: Sequence[Row], ax: Axes | None = None) -> Axes:
    """Draw the margin of a customer by percentile of customers, A beside B, with intervals."""
    ax = new_figure().subplots() if ax is None else ax
    labels = []
    for side, colour, shift in (("a", BLUE, -SHIFT), ("b", VERMILLION, SHIFT)):
        for place, row in enumerate(rows):
            low, high = (or_value(row[f"{side}_{end}"], row[side]) / MICRO_USD for end in ("low", "high"))
            ax.plot([place + shift] * 2, [low, high], color=colour, linewidth=1.4)
        values = [row[side] / MICRO_USD for row in rows]
        ax.plot([place + shift for place in range(len(rows))], values, "o", color=colour, markersize=4)
        labels.append((values[-1], side.upper(), colour))
    ax.axhline(0, color=GREY, linewidth=1)
    ax.set_xticks(range(len(rows)), [row["percentile"] for row in rows])
    ax.set_xlabel("percentile of customers, by margin")
    ax.set_ylabel("margin of a customer, USD in the run")
    separated(ax.yaxis)
    worst = {side: min(row[side] for row in rows) for side in "ab"}
    a, b = (units.usd(worst[side]) for side in "ab")
    at = rows[0]["percentile"].removeprefix("p")
    title(ax, f"The worst {at} % of customers leave {a} or less under A, {b} under B; lines: intervals")
    plain_axes(ax)
    label_ends(ax, labels)
    return ax


def prices(rows: Sequence[Row], ax: Axes | None = None) -> Axes:
    """Draw each plan's price beside the price at which it breaks even, with its interval."""
    ax = new_figure().subplots() if ax is None else ax
    dearest = max((max(row["even"], row["price"]) for row in rows), default=0) / MICRO_USD
    for y, row in enumerate(rows):
        even, price = row["even"] / MICRO_USD, row["price"] / MICRO_USD
        if row["even_low"] is not None:
            ax.plot(
                [row["even_low"] / MICRO_USD, row["even_high"] / MICRO_USD],
                [y, y],
                color=VERMILLION,
                linewidth=2,
            )
        for x, name, colour, up in ((price, "price", BLUE, 6), (even, "breaks even", VERMILLION, -6)):
            ax.plot(x, y, "o", color=colour, markersize=6)
            ax.annotate(
                f"{name} {x:,.2f}", (x, y), (0, up), textcoords="offset points",
                ha="left" if x < 0.2 * dearest else "center",
                va="bottom" if up > 0 else "top", fontsize=7, color=colour,
            )  # fmt: skip
    ax.set_yticks(range(len(rows)), [row["plan"] for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.margins(x=0.15)
    ax.set_xlim(left=0)
    separated(ax.xaxis)
    ax.set_xlabel("USD a month")
    losing = [row["plan"] for row in rows if row["price"] < row["even"]]
    title(
        ax,
        f"{', '.join(losing)} sold below the price of no margin" if losing
        else "Every plan is sold above the price at which it breaks even",
    )  # fmt: skip
    plain_axes(ax, grid="x")
    return ax


def ceilings(rows: Sequence[Row], risk: float, ax: Axes | None = None) -> Axes:
    """Draw the bound on the chance of a negative margin against the ceiling, a line for each plan."""
    ax = new_figure().subplots() if ax is None else ax
    labels = [(100 * risk, "risk", INK)]
    for number, plan in enumerate(dict.fromkeys(row["plan"] for row in rows)):
        trials = sorted((row for row in rows if row["plan"] == plan), key=lambda row: float(row["ceiling"]))
        colour = (BLUE, VERMILLION, GREEN)[number % 3]
        values = [100 * row["upper"] for row in trials]
        amounts = [row["ceiling"] / MICRO_USD for row in trials]
        ax.plot(amounts, values, color=colour, marker="o", markersize=3)
        labels.append((values[-1], plan, colour))
    ax.axhline(100 * risk, color=INK, linestyle="--", linewidth=1)
    ax.set_ylim(bottom=0)
    separated(ax.xaxis)
    ax.set_xlabel("ceiling of provider cost, USD a billing month")
    ax.set_ylabel("% of customers, upper bound")
    highest = max(rows, key=lambda row: row["upper"])
    chance, ceiling = units.percent(highest["upper"]), units.usd(highest["ceiling"])
    title(ax, f"At most {chance} of the customers of {highest['plan']} cost more than they pay at {ceiling}")
    plain_axes(ax)
    label_ends(ax, labels)
    return ax


MOST_NAMED = 12
"""Points of a frontier that are named; there is no room for more."""


def frontier(rows: Sequence[Row], ax: Axes | None = None, blocked: str = "customers") -> Axes:
    """Draw margin against the share blocked, of customers or of what else is named.

    The points that none beats are joined, and numbered from left to right as they are named beside it.
    """
    ax = new_figure().subplots() if ax is None else ax
    for row in rows:
        _cross(ax, row, BLUE if row["best"] else GREY)
    best = sorted((row for row in rows if row["best"]), key=lambda row: float(row["blocked"]))
    points = [(100 * row["blocked"], row["change"] / MICRO_USD) for row in best]
    ax.plot(*zip(*points, strict=True), color=BLUE, linewidth=1, linestyle="--")
    named = list(zip(best, points, strict=True))[:: -(-len(best) // MOST_NAMED)]
    for number, (row, point) in enumerate(named, 1):
        values = _values(row)
        ax.annotate(
            f"{number}", point, (-3, 3), textcoords="offset points", ha="right", fontsize=8, color=BLUE
        )
        ax.annotate(
            f"{number}: {values}", (1, 1 - 0.075 * number), xycoords="axes fraction", xytext=(6, 0),
            textcoords="offset points", va="top", fontsize=7, color=BLUE, annotation_clip=False,
        )  # fmt: skip
    ax.annotate(
        "not beaten", (1, 1), xycoords="axes fraction", xytext=(6, 0),
        textcoords="offset points", va="top", fontsize=7, color=BLUE, annotation_clip=False,
    )  # fmt: skip
    paths = ",\n".join(part.partition(" ")[0] for part in rows[0]["point"].split(", "))
    ax.annotate(
        f"named by {paths}", (0.99, 0.02), xycoords="axes fraction", ha="right", va="bottom",
        fontsize=7, color=INK,
    )  # fmt: skip
    ax.margins(x=0.25, y=0.15)
    ax.set_xlabel(f"% of {blocked} blocked by a limit of the plan")
    separated(ax.yaxis)
    ax.set_ylabel("change of margin, USD in the run")
    earner = best[-1] if len(best) == 1 else max(best, key=lambda row: float(row["change"]))
    earns = units.usd(earner["change"])
    title(ax, f"{len(best)} of {len(rows)} points are not beaten; the best margin is {earns} more")
    plain_axes(ax)
    return ax


MOST_CANDIDATES = 20
"""Candidates of a search that are drawn, the best ones."""


def candidates(rows: Sequence[Row], ax: Axes | None = None) -> Axes:
    """Draw what each candidate of a search earns more of a customer than the catalogue as it is.

    Those that were tried on all come first.
    """
    ax = new_figure().subplots() if ax is None else ax
    ranked = sorted(rows, key=lambda row: (not row["final"], -_of_each(row, "change")))[:MOST_CANDIDATES]
    for y, row in enumerate(ranked):
        colour = BLUE if row["best"] else INK if row["allowed"] else GREY
        mean, low, high = (_of_each(row, name) for name in ("change", "change_low", "change_high"))
        ax.plot([low, high], [y, y], color=colour, linewidth=2)
        ax.plot(mean, y, "o", color=colour, markersize=5)
        tried = "best" if row["best"] else "" if row["allowed"] else "refuses too many"
        few = "" if row["final"] else f"{row['customers']:,} customers"
        ax.annotate(
            ", ".join(filter(None, (tried, few))), (high, y), (5, 0), textcoords="offset points",
            va="center", fontsize=7, color=BLUE if row["best"] else INK,
        )  # fmt: skip
    ax.axvline(0, color=GREY, linewidth=1, zorder=0)
    ax.set_yticks(range(len(ranked)), [_values(row) for row in ranked])
    ax.tick_params(axis="y", labelsize=8)
    ax.set_ylim(len(ranked) - 0.4, -0.6)
    ax.set_ylabel(",\n".join(_last(part.partition(" ")[0]) for part in rows[0]["point"].split(", ")))
    ax.yaxis.label.set_fontsize(8)
    ax.margins(x=0.2)
    separated(ax.xaxis)
    ax.set_xlabel(
        "more margin than under the catalogue as it is, USD a customer; lines: intervals", fontsize=9
    )
    best = next((row for row in rows if row["best"]), None)
    sentence = "None that was tried on all refuses few enough"
    if best:
        more = units.usd(best["change"] / best["customers"])
        sentence = f"{_values(best)} earns most: {more} more a customer"
    title(ax, of_many(sentence, len(ranked), len(rows), "candidates"))
    plain_axes(ax, grid="x")
    return ax


def _of_each(row: Row, column: str) -> float:
    """Return money of a candidate in dollars for each customer that it was tried on."""
    customers: int = row["customers"]
    return or_value(row[column], row["change"]) / customers / MICRO_USD


def _values(row: Row) -> str:
    """Return the values that make a point, without their paths."""
    return ", ".join(part.partition(" ")[2] for part in row["point"].split(", "))


def _last(path: str) -> str:
    """Return the last names of a path, which tell most."""
    return ".".join(path.split(".")[-2:])


def _cross(ax: Axes, row: Row, colour: str) -> None:
    x, y = 100 * row["blocked"], row["change"] / MICRO_USD
    across = [100 * or_value(row[f"blocked_{end}"], row["blocked"]) for end in ("low", "high")]
    along = [or_value(row[f"change_{end}"], row["change"]) / MICRO_USD for end in ("low", "high")]
    ax.plot(across, [y, y], color=colour, linewidth=1)
    ax.plot([x, x], along, color=colour, linewidth=1)
    ax.plot(x, y, "o", color=colour, markersize=4)


def _told(row: Row, names: Sequence[str]) -> str:
    """Say how many calls a code refuses on each side."""
    sides = {"recorded": "as recorded", "a": "under A", "b": "under B"}
    return f"{row['code']}: {', '.join(f'{units.count(row[name])} {sides[name]}' for name in names)}"


def outcomes(rows: Sequence[Row], ax: Axes | None = None) -> Axes:
    """Draw how many replayed calls are refused with each code: as recorded, under A, under B."""
    ax = new_figure().subplots() if ax is None else ax
    colours = {"recorded": GREY, "a": BLUE, "b": VERMILLION}
    names = [name for name in colours if rows and name in rows[0]]
    height = 0.8 / max(len(names), 1)
    for y, row in enumerate(rows):
        for place, name in enumerate(names):
            at = y + (place - (len(names) - 1) / 2) * height
            ax.barh(at, row[name], height=height * 0.9, color=colours[name])
            label = name if name == "recorded" else name.upper()
            ax.annotate(
                f"{label} {units.count(row[name])}", (row[name], at), (3, 0), textcoords="offset points",
                va="center", fontsize=7, color=INK,
            )  # fmt: skip
    ax.set_yticks(range(len(rows)), [row["code"].replace("_", " ") for row in rows])
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.locator_params(axis="x", integer=True)
    separated(ax.xaxis)
    ax.set_xlabel("calls refused")
    most = max(rows, key=lambda row: float(max(row[name] for name in names)), default=None)
    title(ax, _told(most, names) if most else "No call is refused")
    plain_axes(ax, grid="x")
    return ax
