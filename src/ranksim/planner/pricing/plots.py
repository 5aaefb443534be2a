"""Plots of the pricing answers, from their plain rows: direct labels, intervals, units on axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

from ranksim.core.money import MICRO_USD
from ranksim.planner.pricing.paired_metrics import most_changed
from ranksim.report import units
from ranksim.report.answer import ReadyAnswer
from ranksim.report.figure import (
    BLUE,
    GREEN,
    GREY,
    INK,
    VERMILLION,
    begin_before_labels,
    finish,
    label_beside,
    new_figure,
    or_value,
    separated,
    short_label,
    title,
)
from ranksim.report.over_time import of_many
from ranksim.report.tables import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class DrawnAnswer(ReadyAnswer):
    """An answer of pricing: its plots are those of this module."""

    __slots__ = ()

    def _drawn(self, name: str, ax: Axes | None) -> Axes:
        return PLOTS[name](self, new_figure().subplots() if ax is None else ax)


SHIFT = 0.12
"""How far A and B stand from the place that they share."""


_label = partial(label_beside, fontsize=7)
"""Writes a small label beside a point."""


def _rows(ax: Axes, names: Sequence[str]) -> None:
    """Name the rows of a plot, from the top."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)


def _ends(ax: Axes, y: int, above: tuple[float, str], below: tuple[float, str], left: float) -> None:
    """Draw two points of a row with a label each; labels of points before `left` begin at theirs."""
    for (x, text), colour, up in ((above, BLUE, 6), (below, VERMILLION, -6)):
        ax.plot(x, y, "o", color=colour, markersize=6)
        side, edge = "left" if x < left else "center", "bottom" if up > 0 else "top"
        _label(ax, text, (x, y), (0, up), ha=side, va=edge, color=colour)


def margins(differences: Sequence[Row], ax: Axes) -> Axes:
    """Draw how much more margin B earns than A, a bar for each plan with its interval."""
    rows = [row for row in differences if row["metric"] == "margin"]
    size = [row["difference"] / MICRO_USD for row in rows]
    ax.barh(range(len(rows)), size, height=0.55, color=[VERMILLION if x < 0 else BLUE for x in size])
    for y, (row, x) in enumerate(zip(rows, size, strict=True)):
        low, high = (x if row[edge] is None else row[edge] / MICRO_USD for edge in ("low", "high"))
        ax.plot([low, high], [y, y], color=INK, linewidth=1.4)
        end, gap, side = (low, -4, "right") if x < 0 else (high, 4, "left")
        _label(ax, units.usd(row["difference"]), (end, y), (gap, 0), ha=side, fontsize=8)
    ax.set_yticks(range(len(rows)), [row["plan"] for row in rows])
    ax.invert_yaxis()
    ax.axvline(0, color=GREY, linewidth=1)
    ax.margins(x=0.25)
    separated(ax.xaxis)
    total = next((row for row in rows if row["plan"] == "all"), rows[0])
    more = "more" if total["difference"] >= 0 else "less"
    sentence = f"B earns {units.usd(abs(total['difference']))} {more} margin than A; lines: intervals"
    finish(ax, sentence, x="margin under B − margin under A, USD in the run", grid="x")
    begin_before_labels(ax)
    return ax


def customers_refused(differences: Sequence[Row], newly_refused: Mapping[str, float], ax: Axes) -> Axes:
    """Draw the share of customers that meets each limit, under A and under B."""
    of_all = [row for row in differences if row["plan"] == "all" and row["metric"].startswith("hit_")]
    rows = [row for row in of_all if row["a"] or row["b"]]
    for y, row in enumerate(rows):
        a, b = 100 * row["a"], 100 * row["b"]
        ax.plot([a, b], [y, y], color=GREY, linewidth=1.5, zorder=1)
        _ends(ax, y, (a, f"A {a:.1f}"), (b, f"B {b:.1f}"), left=5)
    _rows(ax, [row["metric"].removeprefix("hit_").replace("_", " ") for row in rows])
    ax.set_xlim(left=0)
    ax.margins(x=0.1)
    sentence = _most_moved(rows, newly_refused) if rows else "Nobody is refused anything"
    return finish(ax, sentence, x="% of customers refused at least once", grid="x")


def _most_moved(rows: Sequence[Row], newly_refused: Mapping[str, float]) -> str:
    """Say which limit most customers meet under B alone, else which fewer meet."""
    limits = [row for row in rows if row["metric"] in newly_refused]
    most = most_changed(limits, newly_refused, units.LEAST_POINTS)
    if most is None:
        return "B moves no limit"
    name = most["metric"].removeprefix("hit_")
    return f"{name}: {units.percent(most['a'])} of customers under A, {units.percent(most['b'])} under B"


def percentiles(margins: Sequence[Row], ax: Axes) -> Axes:
    """Draw the margin of a customer by percentile of customers, A beside B, with intervals."""
    rows = [row for row in margins if row["plan"] == "all"]
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
    separated(ax.yaxis)
    worst = {side: min(row[side] for row in rows) for side in "ab"}
    a, b = (units.usd(worst[side]) for side in "ab")
    at = rows[0]["percentile"].removeprefix("p")
    sentence = f"The worst {at} % of customers bring {a} or less under A, {b} under B; lines: intervals"
    return finish(
        ax,
        sentence,
        "percentile of customers, by margin",
        "margin of a customer, USD in the run",
        labels=labels,
    )


def prices(rows: Sequence[Row], ax: Axes) -> Axes:
    """Draw each plan's price beside the price at which it breaks even, with its interval."""
    dearest = max((max(row["even"], row["price"]) for row in rows), default=0) / MICRO_USD
    least = min((or_value(row["even_low"], row["even"]) for row in rows), default=0)
    for y, row in enumerate(rows):
        even, price = row["even"] / MICRO_USD, row["price"] / MICRO_USD
        if row["even_low"] is not None:
            interval = [row[f"even_{end}"] / MICRO_USD for end in ("low", "high")]
            ax.plot(interval, [y, y], color=VERMILLION, linewidth=2)
        ends = (price, f"price {price:,.2f}"), (even, f"breaks even {even:,.2f}")
        _ends(ax, y, *ends, left=0.2 * dearest)
    _rows(ax, [row["plan"] for row in rows])
    ax.margins(x=0.15)
    if least < 0:  # as of customers whose add-ons pay for more than they cost
        ax.axvline(0, color=GREY, linewidth=1)
    else:
        ax.set_xlim(left=0)
    separated(ax.xaxis)
    losing = [row["plan"] for row in rows if row["price"] < row["even"]]
    sentence = "Every plan is sold above the price at which it breaks even"
    if losing:
        sentence = f"{', '.join(losing)} sold below the price of no margin"
    return finish(ax, sentence, x="USD a month", grid="x")


def ceilings(rows: Sequence[Row], risk: float, ax: Axes) -> Axes:
    """Draw the bound on the chance of a negative margin against the ceiling, a line for each plan."""
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
    highest = max(rows, key=lambda row: row["upper"])
    chance, ceiling = units.percent(highest["upper"]), units.usd(highest["ceiling"])
    sentence = f"At most {chance} of the customers of {highest['plan']} cost more than they pay at {ceiling}"
    return finish(
        ax,
        sentence,
        "ceiling of provider cost, USD a billing month",
        "% of customers, upper bound",
        labels=labels,
    )


NARROW = 48
"""Characters of a line of a title above Axes that have much text beside them."""

MOST_NAMED = 12
"""Points of a frontier that are named; there is no room for more."""


def frontier(rows: Sequence[Row], blocked: str, ax: Axes) -> Axes:
    """Draw margin against the share blocked, of customers or of an account's calls.

    The points that none beats are joined, and numbered from left to right as they are named beside it.
    """
    for row in rows:
        _cross(ax, row, BLUE if row["best"] else GREY)
    best = sorted((row for row in rows if row["best"]), key=lambda row: float(row["blocked"]))
    points = [(100 * row["blocked"], row["change"] / MICRO_USD) for row in best]
    ax.plot(*zip(*points, strict=True), color=BLUE, linewidth=1, linestyle="--")
    right: dict[str, Any] = {
        "xycoords": "axes fraction",
        "va": "top",
        "annotation_clip": False,
        "color": BLUE,
    }
    named = list(zip(best, points, strict=True))[:: -(-len(best) // MOST_NAMED)]
    for number, (row, point) in enumerate(named, 1):
        _label(ax, f"{number}", point, (-3, 3), ha="right", va="baseline", fontsize=8, color=BLUE)
        _label(ax, f"{number}: {_values(row)}", (1, 1 - 0.075 * number), (6, 0), **right)
    _label(ax, "not beaten", (1, 1), (6, 0), **right)
    paths = ",\n".join(_folded(part.partition(" ")[0]) for part in rows[0]["point"].split(", "))
    _label(ax, f"named by\n{paths}", (1, 0), (6, 0), **right | {"va": "bottom", "color": INK})
    ax.margins(x=0.25, y=0.15)
    separated(ax.yaxis)
    earner = best[-1] if len(best) == 1 else max(best, key=lambda row: float(row["change"]))
    earns = units.usd(earner["change"])
    are = "is" if len(best) == 1 else "are"
    sentence = (
        f"{len(best)} of {units.many(len(rows), 'point')} {are} not beaten; the best margin is {earns} more"
    )
    of = f"% of {blocked} blocked by a limit of the plan"
    finish(ax, sentence, of, "change of margin, USD in the run")
    title(ax, sentence, NARROW)  # beside it stands what the points are
    return ax


def _folded(path: str) -> str:
    """Break a long path after its dots."""
    return fill(path.replace(".", ". "), NARROW // 2).replace(". ", ".")


MOST_CANDIDATES = 20
"""Candidates of a search that are drawn, the best ones."""


def candidates(rows: Sequence[Row], ax: Axes) -> Axes:
    """Draw what each candidate of a search earns more of a customer than the catalogue as it is.

    Those that were tried on all come first.
    """
    ranked = sorted(rows, key=lambda row: (not row["final"], -_of_each(row, "change")))[:MOST_CANDIDATES]
    for y, row in enumerate(ranked):
        colour = BLUE if row["best"] else INK if row["allowed"] else GREY
        mean, low, high = (_of_each(row, name) for name in ("change", "change_low", "change_high"))
        ax.plot([low, high], [y, y], color=colour, linewidth=2)
        ax.plot(mean, y, "o", color=colour, markersize=5)
        _label(ax, row["standing"], (high, y), (5, 0), color=BLUE if row["best"] else INK)
    ax.axvline(0, color=GREY, linewidth=1, zorder=0)
    _rows(ax, [_values(row) for row in ranked])
    ax.tick_params(axis="y", labelsize=8)
    ax.xaxis.label.set_fontsize(9)
    ax.yaxis.label.set_fontsize(8)
    ax.margins(x=0.2)
    separated(ax.xaxis)
    best = next((row for row in rows if row["best"]), None)
    sentence = "None that was tried on all refuses few enough"
    if best:
        more = units.usd(best["change"] / best["customers"])
        sentence = f"{_values(best)} earns most: {more} more a customer"
    paths = ",\n".join(_last(part.partition(" ")[0]) for part in rows[0]["point"].split(", "))
    change = "more margin than under the catalogue as it is, USD a customer; lines: intervals"
    return finish(ax, of_many(sentence, len(ranked), len(rows), "candidates"), change, paths, grid="x")


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


def _refusals(row: Row, names: Sequence[str]) -> str:
    """Return in words how many calls a code refuses on each side."""
    sides = {"recorded": "as recorded", "a": "under A", "b": "under B"}
    return f"{row['code']}: {', '.join(f'{units.count(row[name])} {sides[name]}' for name in names)}"


def outcomes(rows: Sequence[Row], ax: Axes) -> Axes:
    """Draw how many replayed calls are refused with each code: as recorded, under A, under B."""
    colours = {"recorded": GREY, "a": BLUE, "b": VERMILLION}
    names = [name for name in colours if name in rows[0]]
    bars = {"recorded" if name == "recorded" else name.upper(): (name, colours[name]) for name in names}
    _bars(ax, rows, bars, units.count)
    ax.set_yticks(range(len(rows)), [row["code"].replace("_", " ") for row in rows])
    ax.locator_params(axis="x", integer=True)
    most = max(rows, key=lambda row: float(max(row[name] for name in names)))
    finish(ax, sentence := _refusals(most, names), x="calls refused", grid="x")
    title(ax, sentence, NARROW)  # beside the Axes stand the codes
    return ax


def _bars(
    ax: Axes,
    rows: Sequence[Row],
    bars: Mapping[str, tuple[str, str]],
    write: Callable[[int], str],
    unit: int = 1,
) -> None:
    """Draw bars for each row, from the top: by label their column and colour; numbers are in so many."""
    height = 0.8 / len(bars)
    for y, row in enumerate(rows):
        for place, (label, (column, colour)) in enumerate(bars.items()):
            at, size = y + (place - (len(bars) - 1) / 2) * height, row[column] / unit
            ax.barh(at, size, height=height * 0.9, color=colour)
            gap, side = (3, "left") if size >= 0 else (-3, "right")
            _label(ax, f"{label} {write(row[column])}", (size, at), (gap, 0), ha=side)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    separated(ax.xaxis)


MOST_BARS = 8
"""Customers whose margins are drawn."""


def customer_margins(rows: Sequence[Row], ax: Axes) -> Axes:
    """Draw the margins of the first customers: under A and, if there are two sides, under B."""
    bars = {"A": ("margin_a", BLUE), "B": ("margin_b", VERMILLION)}
    bars = {side: bar for side, bar in bars.items() if bar[0] in rows[0]}
    drawn = rows[:MOST_BARS]
    _bars(ax, drawn, bars, units.usd, MICRO_USD)
    ax.axvline(0, color=GREY, linewidth=1)
    ax.set_yticks(range(len(drawn)), [short_label(row["account"]) for row in drawn])
    sums = (
        f"{units.usd(sum(row[column] for row in rows))} under {side}" for side, (column, _) in bars.items()
    )
    sentence = of_many(f"Margin of all customers: {', '.join(sums)}", len(drawn), len(rows), "customers")
    return finish(ax, sentence, x="margin of a customer, USD in all months billed", grid="x")


PLOTS: dict[str, Callable[[Any, Axes], Axes]] = {
    "margin": lambda answer, ax: margins(answer.differences, ax),
    "limits": lambda answer, ax: customers_refused(answer.differences, answer.newly_refused, ax),
    "percentiles": lambda answer, ax: percentiles(answer.margins, ax),
    "prices": lambda answer, ax: prices(answer.tables["plans"], ax),
    "ceilings": lambda answer, ax: ceilings(answer.tables["trials"], answer.risk, ax),
    "frontier": lambda answer, ax: frontier(answer.points, answer.blocked, ax),
    "candidates": lambda answer, ax: candidates(answer.candidates, ax),
    "outcomes": lambda answer, ax: outcomes(answer.refusals, ax),
    "refusals": lambda answer, ax: outcomes(answer.refusals, ax),
    "margins": lambda answer, ax: customer_margins(answer.margins, ax),
}
"""The plots of all answers, by name; each takes what it draws from the answer."""
