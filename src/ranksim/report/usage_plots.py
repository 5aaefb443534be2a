"""Plots of use over time: slots, allowances, provider cost, rate windows and workers, with their limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ranksim.core.clock import SECOND
from ranksim.report import units
from ranksim.report.figure import (
    BLUE,
    COLOURS,
    GREY,
    INK,
    ORANGE,
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
    most,
    note_above,
    of_many,
    panels,
    times,
    tooltips,
    total,
    whole_ticks,
)
from ranksim.report.tables import Row, Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES = (BLUE, *COLOURS[2:], GREY)
"""The colours of windows: vermillion is for what is refused."""

MOST_PANELS = 3

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
        _share_lines(ax, lines, refusals + "{fullest} uses up to {share} of its slots", "accounts")
        return
    ((account, rows),) = accounts.items()
    _stack(ax, rows, {"active": "active", "held": "held to month end"}, limit="limit", noun="limit")
    fullest = max(rows, key=lambda row: row["used"])
    of = "" if fullest["limit"] is None else f" of {units.count(fullest['limit'])}"
    title(ax, f"{refusals}{account} uses up to {units.count(fullest['used'])}{of} slots")
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
    _share_lines(ax, lines, f"{{fullest}}{of} reaches {{share}} of the allowance", "allowances")


def spend(tables: Tables, ax: Axes) -> None:
    """Draw the provider cost of an account in its month, or how near several come to their ceilings."""
    accounts = grouped(tables["spend"], "account")
    parts = {"settled_uusd": "settled", "reserved_uusd": "reserved"}
    if len(accounts) > 1:
        lines = {name: _shares(rows, parts, "ceiling_uusd") for name, rows in accounts.items()}
        _share_lines(ax, lines, "{fullest} reaches {share} of the ceiling of its provider cost", "accounts")
        return
    ((account, rows),) = accounts.items()
    _stack(ax, [in_dollars(row) for row in rows], parts, limit="ceiling_uusd", noun="ceiling")
    dearest = max(row["settled_uusd"] + row["reserved_uusd"] for row in rows)
    title(ax, f"{account} costs the provider up to {units.usd(dearest)} in a billing month")
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
            labels.append(((below[-1] + above[-1]) / 2, label, ink))
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


def _band(ax: Axes, rows: Sequence[Row], heights: Sequence[float], labels: Labels) -> float:
    """Draw the band of an interval, if there is one, over heights; return the top of all."""
    if rows[0].get("low") is None or rows[0].get("high") is None:
        return max(heights)
    low, high = [row["low"] for row in rows], [row["high"] for row in rows]
    ax.fill_between(times(rows), low, high, step="post", color=INK, alpha=0.25, linewidth=0)
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
    low, high = (
        [or_value(row.get(end), value) for row, value in zip(rows, values, strict=True)]
        for end in ("low", "high")
    )

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


# What keeps calls and jobs waiting


def windows(tables: Tables, ax: Axes) -> None:
    """Draw how many calls rate windows held at most, against their limits, a panel for each rate class."""
    every = grouped(tables["windows"], "account", "key", "rate_class").values()
    rows = [row for window in [window for window in every if _weight(window)] or every for row in window]
    classes = sorted(grouped(rows, "rate_class").items(), key=lambda item: -_pressed(item[1]))
    single = len({row["account"] for row in rows}) == 1
    drawn = panels(ax, [name for name, _ in classes])
    labels, left_out = [], 0
    for panel, (_, of_class) in zip(drawn, classes, strict=True):
        of_panel, missing = _windows_of(panel, of_class, single=single)
        labels.append((panel, of_panel))
        left_out += missing
    lengths = {row["length"] for row in rows}
    length = _length(lengths.pop()) if len(lengths) == 1 else "a window"
    ax.set_ylabel(f"calls in {length}")
    total = len(grouped(rows, "account", "key", "rate_class"))
    title(ax, of_many(_fullest(rows, length), total - left_out, total, "windows"))
    finish_time(ax, labels)


def _pressed(rows: Sequence[Row]) -> float:
    """How much of a limit is used, and more than all of it where calls are refused."""
    fullest = max((row["fullest"] / row["limit"] for row in rows if row["limit"]), default=0.0)
    return fullest + total(rows, "refused")


def _length(us: float) -> str:
    """The length of a window as the API states it, in seconds (S102)."""
    return f"{us / SECOND:g} s"


def _fullest(rows: Sequence[Row], length: str) -> str:
    """Say what there is to see of the windows."""
    refused = total(rows, "refused")
    if round(refused):
        of = grouped(rows, "key", "rate_class")
        worst = max(of.values(), key=lambda group: total(group, "refused"))
        whose = f"{worst[0]['rate_class']} calls of {worst[0]['key']}"
        limit = units.count(most(worst, "limit"))
        share = total(worst, "refused") / refused
        mostly = "all" if share == 1 else f"{units.percent(min(round(share, 2), 0.99))} of them"
        return f"{units.many(round(refused), 'call')} refused, {mostly} {whose}, beyond {limit} in {length}"
    fullest = max(rows, key=lambda row: row["fullest"] / row["limit"] if row["limit"] else 0)
    held, limit = units.count(fullest["fullest"]), units.count(fullest["limit"])
    return f"No window is ever full: up to {held} of {limit} {fullest['rate_class']} calls in {length}"


def _windows_of(ax: Axes, rows: Sequence[Row], *, single: bool) -> tuple[Labels, int]:
    """Draw the windows of a rate class; give the labels at their ends, and how many have no line."""
    keys = grouped(rows, "key") if single else grouped(rows, "account", "key")
    names = sorted(keys, key=lambda name: (-_weight(keys[name]), name))[: len(LINES)]
    names = [name for name in names if _weight(keys[name])] or names[:1]
    labels: Labels = []
    for name, colour in zip(names, LINES, strict=False):
        at, fullest = times(keys[name]), [row["fullest"] for row in keys[name]]
        if len(names) == 1:
            ax.fill_between(at, fullest, step="pre", color=colour, alpha=0.25, linewidth=0)
        ax.step(at, fullest, where="pre", color=colour, linewidth=1.1)
        labels.append((fullest[-1], name, colour))
    if len(names) == 1:
        _interval(ax, keys[names[0]], labels)
    _limit(ax, rows, most(rows, "fullest"), labels)
    refused = [row for name in names for row in keys[name] if row["refused"]]
    if refused:
        style = {"markersize": 5, "markeredgewidth": 1.4, "clip_on": False}
        crosses(ax, times(refused), [row["fullest"] for row in refused], VERMILLION, **style)
        label = f"× {units.count(total(rows, 'refused'))} refused"
        labels.append((most(refused, "fullest"), label, VERMILLION))
    texts = [_calls_up_to(keys, names, at) for at in range(1, len(keys[names[0]]))]
    tooltips(ax, times(keys[names[0]]), [*texts, ""])
    return labels, len(keys) - len(names)


def _interval(ax: Axes, rows: Sequence[Row], labels: Labels) -> None:
    """Draw the interval of how full a window was, where it has a width."""
    if any(row["low"] is not None and row["low"] < row["high"] for row in rows):
        low, high = ([row[end] for row in rows] for end in ("low", "high"))
        ax.fill_between(times(rows), low, high, step="pre", color=INK, alpha=0.3, linewidth=0)
        labels.append((rows[-1]["fullest"], "95 % interval", INK))


def _weight(rows: Sequence[Row]) -> float:
    return total(rows, "fullest") + total(rows, "refused")


def _limit(ax: Axes, rows: Sequence[Row], top: float, labels: Labels) -> None:
    """Draw the limit of a rate class as far as accounts share one; else what the highest is."""
    limit = most(rows, "limit")
    label = f"limit {units.count(limit)}" if len({row["limit"] for row in rows}) == 1 else "highest limit"
    if top and top * FAR < limit:
        note_above(ax, f"{label}, above")
        ax.set_ylim(0, top * 1.25)
    else:
        ax.axhline(limit, color=INK, linestyle="--", linewidth=1.1)
        labels.append((limit, label, INK))
        ax.set_ylim(0, max(top, limit) * 1.1 or 1)
    whole_ticks(ax)


def _calls_up_to(keys: Mapping[str, Sequence[Row]], names: Sequence[str], at: int) -> str:
    """Return what came of each window's calls up to a sample, in words."""
    named = {"admitted": "admitted", "refused": "refused", "fullest": "in the fullest window"}
    rows = ((name, keys[name][at]) for name in names if at < len(keys[name]))
    return "; ".join(
        f"{name}: {in_words(row, named)}" for name, row in rows if row["admitted"] or row["refused"]
    )


def jobs(tables: Tables, ax: Axes) -> None:
    """Draw the jobs that run and that wait, against how many workers there are, a panel for each kind."""
    kinds = grouped(tables["queues"], "kind")
    busiest = sorted(kinds, key=lambda kind: (-most(kinds[kind], "waiting"), -most(kinds[kind], "running")))
    kinds_drawn = busiest[:MOST_PANELS]
    drawn = panels(ax, kinds_drawn)
    labels = [(panel, _queue_of(panel, kinds[kind])) for kind, panel in zip(kinds_drawn, drawn, strict=True)]
    ax.set_ylabel("jobs")
    title(ax, of_many(_longest(kinds_drawn[0], kinds[kinds_drawn[0]]), len(kinds_drawn), len(kinds), "kinds"))
    finish_time(ax, labels)


def _longest(kind: str, rows: Sequence[Row]) -> str:
    """Say what there is to see of the fullest queue."""
    longest = max(rows, key=lambda row: row["waiting"])
    if not longest["waiting"]:
        running = units.count(most(rows, "running"))
        return f"No job waits for a worker: up to {running} {kind} jobs run at once"
    workers = longest["workers"]
    beside = f" for {units.many(round(workers), 'worker')}" if workers is not None else ""
    return f"Up to {units.count(longest['waiting'])} {kind} jobs wait{beside}"


def _queue_of(ax: Axes, rows: Sequence[Row]) -> Labels:
    at = times(rows)
    running = [row["running"] for row in rows]
    both = [row["running"] + row["waiting"] for row in rows]
    ax.fill_between(at, running, step="pre", color=BLUE, linewidth=0)
    ax.fill_between(at, running, both, step="pre", color=ORANGE, linewidth=0)
    top = max(both)
    labels: Labels = [(top * 0.25, "running", BLUE)]
    if any(row["waiting"] for row in rows):
        labels.append((top * 0.75, "waiting", ORANGE))
    counted = [(t, row["workers"]) for t, row in zip(at, rows, strict=True) if row["workers"] is not None]
    workers = max((count for _, count in counted), default=0)
    if counted and top * FAR >= workers:
        ax.step(*zip(*counted, strict=True), where="pre", color=INK, linestyle="--", linewidth=1.1)
        labels.append((counted[-1][1], units.many(round(counted[-1][1]), "worker"), INK))
        top = max(top, workers)
    else:
        text = f"{units.many(round(workers), 'worker')}, above" if counted else "workers without limit"
        note_above(ax, text)
    ax.set_ylim(0, top * 1.2 or 1)
    whole_ticks(ax)
    named = {"running": "at most running", "waiting": "waiting", "workers": "workers"}
    tooltips(ax, at, [*(in_words(row, named) for row in rows[1:]), ""])
    return labels
