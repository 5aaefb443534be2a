"""Plots of use over time: slots, allowances and provider cost, with their limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ranksim.report import units
from ranksim.report.figure import (
    BLUE,
    COLOURS,
    INK,
    SKY,
    SKY_INK,
    VERMILLION,
    or_value,
    separated,
    title,
)  # fmt: skip
from ranksim.report.over_time import (
    FAR,
    Labels,
    crosses,
    finish_time,
    grouped,
    in_dollars,
    in_words,
    note_above,
    of_many,
    on_average,
    times,
    tooltips,
    total,
)
from ranksim.report.tables import Row, Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TOP = len(COLOURS)
"""How many lines a plot holds."""

ROOM = 1.1
"""How much higher a plot is in whose corner something is told."""

NEAR = 0.03
"""Lines that never are further apart, as a share of the height, lie on each other."""

Line: TypeAlias = tuple[list[Any], list[float], list[float], list[float]]
"""Times, values, lower and upper edges of the band."""


def slots(tables: Tables, ax: Axes) -> None:
    """Draw the slots of an account, active and held, or how full those of several are."""
    accounts = grouped(tables["slots"], "account")
    refused = round(total(tables["slots"], "refused"))
    refusals = f"{units.many(refused, 'call')} found too few slots: " if refused else ""
    if len(accounts) > 1:
        lines = {name: _shares(rows, ("active", "held"), "limit") for name, rows in accounts.items()}
        mean = on_average(tables["slots"])
        _share_lines(ax, lines, f"{refusals}{{fullest}} uses up to {{share}} of its slots{mean}", "accounts")
        return
    ((account, rows),) = accounts.items()
    _stack(ax, rows, {"active": "active", "held": "held to month end"}, limit="limit", noun="limit")
    fullest = max(rows, key=lambda row: row["used"])
    of = "" if fullest["limit"] is None else f" of {units.count(fullest['limit'])}"
    title(ax, f"{refusals}{account} uses up to {units.count(fullest['used'])}{of} slots{on_average(rows)}")
    ax.set_ylabel("slots")


def meters(tables: Tables, ax: Axes) -> None:
    """Draw how full metered allowances are."""
    accounts = grouped(tables["meters"], "account")
    metrics = grouped(tables["meters"], "metric")
    lines = {}
    for rows in grouped(tables["meters"], "account", "metric").values():
        account, metric = rows[0]["account"], rows[0]["metric"]
        name = metric if len(accounts) == 1 else account if len(metrics) == 1 else f"{account}, {metric}"
        lines[name] = _shares(rows, ("used",), "limit")
    of = f" of {next(iter(accounts))}" if len(accounts) == 1 else ""
    mean = on_average(tables["meters"])
    _share_lines(ax, lines, f"{{fullest}}{of} reaches {{share}} of the allowance{mean}", "allowances")


def spend(tables: Tables, ax: Axes) -> None:
    """Draw the provider cost of an account in its month, or how near several come to their ceilings."""
    accounts = grouped(tables["spend"], "account")
    parts = {"settled_uusd": "settled", "reserved_uusd": "reserved"}
    mean = on_average(tables["spend"])
    if len(accounts) > 1:
        lines = {name: _shares(rows, parts, "ceiling_uusd") for name, rows in accounts.items()}
        finding = "{fullest} reaches {share} of the ceiling of its provider cost" + mean
        _share_lines(ax, lines, finding, "accounts")
        return
    ((account, rows),) = accounts.items()
    _stack(ax, [in_dollars(row) for row in rows], parts, limit="ceiling_uusd", noun="ceiling")
    dearest = max(row["settled_uusd"] + row["reserved_uusd"] for row in rows)
    title(ax, f"{account} costs the provider up to {units.usd(dearest)} in a billing month{mean}")
    ax.set_ylabel("USD")


def _stack(ax: Axes, rows: Sequence[Row], parts: Mapping[str, str], limit: str, noun: str) -> None:
    """Draw two parts on top of each other, against a limit; `low` and `high` are of their sum."""
    at = times(rows)
    below = [0.0] * len(rows)
    labels: Labels = []
    for (column, label), (colour, ink) in zip(parts.items(), ((BLUE, BLUE), (SKY, SKY_INK)), strict=True):
        above = [base + row[column] for base, row in zip(below, rows, strict=True)]
        ax.fill_between(at, below, above, step="post", color=colour, linewidth=0)
        if any(row[column] for row in rows):
            name = label if rows[-1][column] else f"{label}, 0 at last"
            labels.append(((below[-1] + above[-1]) / 2, name, ink))
        below = above
    top = _draw_limit(ax, rows, limit, noun, _band(ax, rows, below, labels), labels)
    lacking = [row for row in rows if row.get("refused")]
    if lacking:
        crosses(ax, times(lacking), [row["used"] for row in lacking], INK)
        labels.append((lacking[-1]["used"], "× refused", INK))
    ax.set_ylim(0, top * 1.08 or 1)
    separated(ax.yaxis)
    named = {**parts, limit: noun} | ({"refused": "refused"} if lacking else {})
    tooltips(ax, at, [in_words(row, named) for row in rows])
    finish_time(ax, [(ax, labels)])


def _ends(rows: Sequence[Row], heights: Sequence[float]) -> list[list[float]]:
    """The low and the high ends of intervals over heights, which are both where there is none."""
    return [
        [or_value(row.get(end), height) for row, height in zip(rows, heights, strict=True)]
        for end in ("low", "high")
    ]


def _band(ax: Axes, rows: Sequence[Row], heights: Sequence[float], labels: Labels) -> float:
    """Draw the edges of an interval, if there is one, over heights; return the top of all.

    Filled it would stain what is below, which then looks like a part of its own.
    """
    if all(row.get("low") is None for row in rows):
        return max(heights)
    low, high = _ends(rows, heights)
    ax.fill_between(times(rows), low, high, step="post", facecolor="none", edgecolor=INK, linewidth=0.8)
    top = float(max(*heights, *high))
    if any(upper - lower > top / 200 for lower, upper in zip(low, high, strict=True)):
        labels.append((high[-1], "95 % interval", INK))
    return top


def _draw_limit(ax: Axes, rows: Sequence[Row], limit: str, noun: str, top: float, labels: Labels) -> float:
    """Draw a limit if it is in reach, else note what it is; return the top of all."""
    limits = [row[limit] for row in rows]
    if None in limits:
        return top
    label = f"{noun} {units.count(limits[-1])}"
    if top * FAR < max(limits) and top:
        note_above(ax, f"{label}, above", VERMILLION)
        return top * ROOM
    ax.step(times(rows), limits, where="post", color=VERMILLION, linestyle="--", linewidth=1.2)
    labels.append((limits[-1], label, VERMILLION))
    return float(max(top, *limits))


def _shares(rows: Sequence[Row], parts: Collection[str], limit: str) -> Line:
    """The sum of some columns as a percentage of a limit; a band where the rows have low and high."""
    limits = [row[limit] or 0 for row in rows]
    values = [sum(row[part] for part in parts) for row in rows]
    low, high = _ends(rows, values)

    def percent(numbers: Sequence[float]) -> list[float]:
        return [100 * n / cap if cap else 0.0 for n, cap in zip(numbers, limits, strict=True)]

    return times(rows), percent(values), percent(low), percent(high)


def _share_lines(ax: Axes, lines: Mapping[str, Line], finding: str, noun: str) -> None:
    """Draw the fullest lines as percentages of their limits; what is never used has none."""
    used = {name: max(values) for name, (_, values, _, _) in lines.items() if any(values)}
    used = used or dict.fromkeys(lines, 0.0)
    fullest = sorted(used, key=lambda name: (-used[name], name))[:TOP]
    top = max(max(lines[name][3]) for name in fullest)
    labels: Labels = []
    for name, colour in zip(fullest, COLOURS, strict=False):
        at, values, low, high = lines[name]
        ax.fill_between(at, low, high, step="post", color=colour, alpha=0.2, linewidth=0)
        hides = any(_on_each_other(values, lines[other][1], top) for other in fullest[: len(labels)])
        style = (0, (4, 4)) if hides else "-"
        ax.step(at, values, where="post", color=colour, linewidth=1.4, linestyle=style)
        labels.append((values[-1], name, colour))
    percents = zip(*(lines[name][1] for name in fullest), strict=False)
    percentages = [
        ", ".join(f"{name} {value:.3g} %" for name, value in zip(fullest, row, strict=True))
        for row in percents
    ]
    tooltips(ax, lines[fullest[0]][0], percentages)
    if top >= 25:
        ax.axhline(100, color=INK, linestyle="--", linewidth=1)
        labels.append((100, "limit", INK))
        top = max(top, 100)
    ax.set_ylim(0, top * 1.08 or 1)
    ax.set_ylabel("% of the limit")
    sentence = finding.format(fullest=fullest[0], share=units.percent(used[fullest[0]] / 100))
    title(ax, of_many(sentence, len(fullest), len(used), noun))
    finish_time(ax, [(ax, labels)])


def _on_each_other(values: Sequence[float], others: Sequence[float], top: float) -> bool:
    """Whether one of two lines hides the other."""
    return all(abs(value - other) <= NEAR * top for value, other in zip(values, others, strict=False))
