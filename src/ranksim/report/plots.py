"""Plots of a result's tables with matplotlib, drawn on Axes of their own or of the caller.

Every plot has units on its axes, dates in UTC, bands or bars for intervals, colours that colour-blind people
can tell apart (Okabe and Ito), and labels beside what they name. Where accounts are many, the fullest are
shown and the title says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ranksim.contract.quantities import MICRO_USD
from ranksim.errors import BadInput
from ranksim.report import units
from ranksim.report.figure import (
    BLUE,
    COLOURS,
    GREY,
    INK,
    SKY,
    VERMILLION,
    error_bars,
    label_ends,
    new_figure,
    or_value,
    plain_axes,
    save,
    tip,
    to_svg,
)
from ranksim.report.tables import Row, Tables, quantile_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOP = len(COLOURS)
"""How many lines a plot holds."""

USED = {"slots": "used", "meters": "used", "spend": "spent_uusd"}
"""The column of a plot's table that shows whether there was anything to draw."""

FEWEST_BARS = 3
"""Room for so many bars is made even where there are fewer, which would be very wide."""


def plot(tables: Tables, name: str, ax: Axes | None = None) -> Axes:
    """Draw one plot of `PLOTS` and return its Axes; without `ax` on a figure of its own.

    Raises BadInput when there is no such plot or nothing to draw, or when matplotlib is not installed.
    """
    if name not in PLOTS:
        raise BadInput(f"plot: no plot is called {name!r}; expected one of {', '.join(PLOTS)}")
    if not tables.get(name):
        raise BadInput(f"plot: this result has nothing to draw for {name!r}; its table is empty")
    if ax is None:
        ax = new_figure().subplots()
    PLOTS[name](tables, ax)
    return ax


def drawable(tables: Tables) -> list[str]:
    """The names of the plots that these tables fill, in order; what was never used needs none."""
    return [
        name
        for name in PLOTS
        if tables.get(name) and (name not in USED or any(row[USED[name]] for row in tables[name]))
    ]


def save_all(tables: Tables, directory: Path) -> dict[str, str]:
    """Write every plot that these tables fill as NAME.png into a directory; give the SVGs by name."""
    return {name: save(figure, directory / f"{name}.png") for name, figure in _figures(tables)}


def svgs(tables: Tables) -> dict[str, str]:
    """Every plot that these tables fill as an SVG element for a page, by name."""
    return {name: to_svg(figure) for name, figure in _figures(tables)}


def _figures(tables: Tables) -> Iterator[tuple[str, Figure]]:
    for name in drawable(tables):
        figure = new_figure()
        plot(tables, name, figure.subplots())
        yield name, figure


# Over time


def _slots(tables: Tables, ax: Axes) -> None:
    accounts = _grouped(tables["slots"], "account")
    if len(accounts) == 1:
        ((account, rows),) = accounts.items()
        _stack(ax, rows, {"active": "active", "held": "held to month end"}, limit="limit", noun="limit")
        ax.set_title(f"Keyword slots of {account}")
        ax.set_ylabel("slots")
        return
    lines = {name: _shares(rows, ("active", "held"), "limit") for name, rows in accounts.items()}
    _share_lines(ax, lines, "Slots used", "accounts")


def _meters(tables: Tables, ax: Axes) -> None:
    accounts = _grouped(tables["meters"], "account")
    metrics = _grouped(tables["meters"], "metric")
    lines = {}
    for rows in _grouped(tables["meters"], "account", "metric").values():
        account, metric = rows[0]["account"], rows[0]["metric"]
        name = metric if len(accounts) == 1 else account if len(metrics) == 1 else f"{account}, {metric}"
        lines[name] = _shares(rows, ("used",), "limit")
    of = f" of {next(iter(accounts))}" if len(accounts) == 1 else ""
    _share_lines(ax, lines, f"Metered allowances used{of}", "allowances")


def _spend(tables: Tables, ax: Axes) -> None:
    accounts = _grouped(tables["spend"], "account")
    if len(accounts) == 1:
        ((account, rows),) = accounts.items()
        _stack(
            ax,
            [_in_dollars(row) for row in rows],
            {"settled_uusd": "settled", "reserved_uusd": "reserved"},
            limit="ceiling_uusd",
            noun="ceiling",
        )
        ax.set_title(f"Provider cost of {account} in the billing month")
        ax.set_ylabel("USD")
        return
    lines = {
        name: _shares(rows, ("settled_uusd", "reserved_uusd"), "ceiling_uusd")
        for name, rows in accounts.items()
    }
    _share_lines(ax, lines, "Ceiling of a month's provider cost used", "accounts")


def _windows(tables: Tables, ax: Axes) -> None:
    accounts = _grouped(tables["windows"], "account")
    names = ("key", "rate_class") if len(accounts) == 1 else ("account", "key", "rate_class")
    keys = _grouped(tables["windows"], *names)
    totals = {name: sum(row["admitted"] + row["refused"] for row in rows) for name, rows in keys.items()}
    busy = {name: total for name, total in totals.items() if total} or totals
    shown = sorted(busy, key=lambda name: (-busy[name], name))[:TOP]
    labels = []
    for name, colour in zip(shown, (BLUE, *COLOURS[2:], GREY), strict=False):
        ax.step(
            _times(keys[name]),
            [row["admitted"] for row in keys[name]],
            where="pre",
            color=colour,
            linewidth=1.2,
        )
        labels.append((keys[name][-1]["admitted"], name, colour))
    rows = keys[shown[0]]
    refused = [sum(keys[name][at]["refused"] for name in shown) for at in range(len(rows))]
    if any(refused):
        ax.fill_between(_times(rows), refused, step="pre", color=VERMILLION, linewidth=1.2, zorder=3)
        labels.append((max(refused), "refused", VERMILLION))
    ax.set_ylim(bottom=0)
    every = units.duration(rows[-1]["t"] - rows[-2]["t"]) if len(rows) > 1 else "sample"
    ax.set_ylabel(f"calls in each {every}")
    ax.set_title(_of_many("Calls admitted and refused", len(shown), len(busy), "busiest", "windows"))
    _tell(ax, _times(rows), [_calls_in(keys, shown, at + 1) for at in range(len(rows) - 1)] + [""])
    _finish_time(ax, labels)


def _calls_in(keys: Mapping[str, Sequence[Row]], shown: Sequence[str], at: int) -> str:
    """Return what came of each window's calls up to a sample, in words."""
    rows = ((name, keys[name][at]) for name in shown)
    return "; ".join(
        f"{name} {units.count(row['admitted'])} admitted, {units.count(row['refused'])} refused"
        for name, row in rows
        if row["admitted"] or row["refused"]
    )


# By category


def _refusals(tables: Tables, ax: Axes) -> None:
    rows = sorted(tables["refusals"], key=lambda row: (row["check"], row["code"]))
    groups = _grouped(rows, "code")
    names = [f"{check} {code}" if (check := group[0]["check"]) else code for code, group in groups.items()]
    counts = [sum(row["count"] for row in group) for group in groups.values()]
    errors = error_bars([group[0] if len(group) == 1 else {} for group in groups.values()], counts)
    ax.barh(names, counts, color=BLUE, height=0.6, xerr=errors, error_kw={"ecolor": INK, "elinewidth": 1})
    _bar_labels(ax, counts, errors[1] if errors else [0] * len(counts))
    ax.set_ylim(max(len(names), FEWEST_BARS) - 0.5, -0.5)
    ax.set_xlabel("refused calls")
    ax.set_title("Refusals, in the order of the checks")


def _jobs(tables: Tables, ax: Axes) -> None:
    rows = tables["jobs"]
    quantiles = {"p50": "wait_p50", "p95": "wait_p95", "p99": "wait_p99"}
    points = {row["kind"]: {name: row.get(column) for name, column in quantiles.items()} for row in rows}
    busy = {row["kind"]: row["utilisation"] for row in rows if row["utilisation"] is not None}
    names = {kind: f"{kind}\n{units.percent(share)} busy" for kind, share in busy.items()}
    _dots(ax, {names.get(kind, kind): values for kind, values in points.items()})
    ax.set_xlabel("time a job waits for a worker")
    ax.set_title("Waits of jobs")


def _deliveries(tables: Tables, ax: Axes) -> None:
    attempts = _grouped(tables["deliveries"], "attempt")
    names = [str(attempt) for attempt in sorted(attempts, key=int)]
    good = [sum(row["acknowledged"] for row in attempts[name]) for name in names]
    bad = [sum(row["failed"] for row in attempts[name]) for name in names]
    ax.bar(names, good, color=BLUE, width=0.6)
    ax.bar(names, bad, bottom=good, color=VERMILLION, width=0.6)
    for name, bar, g, b in zip(names, ax.patches, good, bad, strict=False):
        tip(bar, f"attempt {name}: {units.count(g)} acknowledged, {units.count(b)} failed")
    top = max(g + b for g, b in zip(good, bad, strict=True)) or 1
    for x, (g, b) in enumerate(zip(good, bad, strict=True)):
        ax.text(x, g + b + top * 0.02, units.count(g + b), ha="center", color=INK, fontsize=8)
    ax.set_xlim(-0.5, max(len(names), FEWEST_BARS) - 0.5)
    ax.set_ylim(0, top * 1.12)
    labels = [(top * 0.9, "acknowledged", BLUE), (top, "failed", VERMILLION)]
    label_ends(ax, labels if any(bad) else labels[:1])
    ax.set_xlabel("attempt number")
    ax.set_ylabel("attempts")
    ax.set_title("Webhook attempts")
    plain_axes(ax)


def _delays(tables: Tables, ax: Axes) -> None:
    points: dict[str, dict[str, float]] = {}
    for row in tables["delays"]:
        points.setdefault(row["endpoint"], {})[quantile_name(row["quantile"])] = row["delay"]
    slowest = sorted(points, key=lambda name: (-max(points[name].values()), name))[:TOP]
    _dots(ax, {name: points[name] for name in slowest})
    ax.set_xlabel("time from event to acknowledgement")
    ax.set_title(_of_many("Delays of webhook deliveries", len(slowest), len(points), "slowest", "endpoints"))


PLOTS: dict[str, Callable[[Tables, Axes], None]] = {
    "slots": _slots,
    "meters": _meters,
    "spend": _spend,
    "windows": _windows,
    "refusals": _refusals,
    "jobs": _jobs,
    "deliveries": _deliveries,
    "delays": _delays,
}
"""Name of a plot, which is that of the table it draws, to what draws it."""


# Shared drawing

Line: TypeAlias = tuple[list[Any], list[float], list[float], list[float]]
"""Times, values, lower and upper edges of the band."""


def _stack(ax: Axes, rows: Sequence[Row], parts: Mapping[str, str], limit: str, noun: str) -> None:
    """Draw two parts on top of each other, against a limit; `low` and `high` are of their sum."""
    times = _times(rows)
    below = [0.0] * len(rows)
    labels = []
    for (column, label), colour in zip(parts.items(), (BLUE, SKY), strict=True):
        above = [base + row[column] for base, row in zip(below, rows, strict=True)]
        ax.fill_between(times, below, above, step="post", color=colour, linewidth=0)
        if any(row[column] for row in rows):
            labels.append(((below[-1] + above[-1]) / 2, label, colour))
        below = above
    if rows[0].get("low") is not None and rows[0].get("high") is not None:
        low, high = [row["low"] for row in rows], [row["high"] for row in rows]
        ax.fill_between(times, low, high, step="post", color=INK, alpha=0.25, linewidth=0)
        below = [max(pair) for pair in zip(below, high, strict=True)]
    top = max(below)
    limits = [row[limit] for row in rows]
    if None not in limits and (top >= max(limits) / 4 or top == 0):
        ax.step(times, limits, where="post", color=VERMILLION, linestyle="--", linewidth=1.2)
        labels.append((limits[-1], f"{noun} {units.count(limits[-1])}", VERMILLION))
        top = max(top, *limits)
    elif None not in limits:  # a limit far above would flatten what there is to see
        ax.annotate(
            f"{noun} {units.count(limits[-1])}, above", (0.99, 0.97), xycoords="axes fraction",
            color=VERMILLION, ha="right", va="top", fontsize=8,
        )  # fmt: skip
    ax.set_ylim(0, top * 1.08 or 1)
    if top >= 1000:
        ax.yaxis.set_major_formatter("{x:,.0f}")
    named = {**parts, limit: noun}
    said = [
        ", ".join(
            f"{label} {units.count(row[column])}"
            for column, label in named.items()
            if row[column] is not None
        )
        for row in rows
    ]
    _tell(ax, times, said)
    _finish_time(ax, labels)


def _shares(rows: Sequence[Row], parts: Iterable[str], limit: str) -> Line:
    """The sum of some columns as a percentage of a limit; a band where the rows have low and high."""
    parts = tuple(parts)
    limits = [row[limit] or 0 for row in rows]
    values = [sum(row[part] for part in parts) for row in rows]
    low = [or_value(row.get("low"), value) for row, value in zip(rows, values, strict=True)]
    high = [or_value(row.get("high"), value) for row, value in zip(rows, values, strict=True)]

    def percent(numbers: Sequence[float]) -> list[float]:
        return [100 * n / cap if cap else 0.0 for n, cap in zip(numbers, limits, strict=True)]

    return _times(rows), percent(values), percent(low), percent(high)


def _share_lines(ax: Axes, lines: Mapping[str, Line], title: str, noun: str) -> None:
    """Draw the fullest lines as percentages of their limits; what is never used has none."""
    used = {name: max(values) for name, (_, values, _, _) in lines.items() if any(values)}
    used = used or dict.fromkeys(lines, 0.0)
    fullest = sorted(used, key=lambda name: (-used[name], name))[:TOP]
    labels = []
    for name, colour in zip(fullest, COLOURS, strict=False):
        times, values, low, high = lines[name]
        ax.fill_between(times, low, high, step="post", color=colour, alpha=0.2, linewidth=0)
        ax.step(times, values, where="post", color=colour, linewidth=1.4)
        labels.append((values[-1], name, colour))
    percents = zip(*(lines[name][1] for name in fullest), strict=False)
    said = [
        ", ".join(f"{name} {value:.3g} %" for name, value in zip(fullest, row, strict=True))
        for row in percents
    ]
    _tell(ax, lines[fullest[0]][0], said)
    top = max(max(lines[name][3]) for name in fullest)
    if top >= 25:
        ax.axhline(100, color=INK, linestyle="--", linewidth=1)
        labels.append((100, "limit", INK))
        top = max(top, 100)
    ax.set_ylim(0, top * 1.08 or 1)
    ax.set_ylabel("% of the limit")
    ax.set_title(_of_many(title, len(fullest), len(used), "fullest", noun))
    _finish_time(ax, labels)


def _dots(ax: Axes, points: Mapping[str, Mapping[str, float | None]]) -> None:
    """Draw quantiles of durations, one row for each name, on a scale that reaches from ms to days."""
    ax.set_xscale("symlog", linthresh=1_000_000)
    for y, quantiles in enumerate(points.values()):
        known = {name: value for name, value in quantiles.items() if value is not None}
        ax.plot(list(known.values()), [y] * len(known), color=BLUE, linewidth=1.2, marker="o", markersize=5)
        shown: dict[float, str] = {}
        for name, value in known.items():
            shown[value] = f"{shown[value]}, {name}" if value in shown else name
        if len(shown) == 1 < len(known):
            shown = dict.fromkeys(shown, "all")
        for at, (value, label) in enumerate(shown.items()):
            up = 1 if at % 2 == 0 else -1
            ax.annotate(
                f"{label} {units.duration(value)}", (value, y),
                xytext=(0, 7 * up), textcoords="offset points",
                ha="center", va="bottom" if up > 0 else "top", fontsize=8, color=INK,
            )  # fmt: skip
    ax.set_yticks(range(len(points)), list(points))
    ax.set_ylim(len(points) - 0.4, -0.6)
    highest = max((v for q in points.values() for v in q.values() if v is not None), default=0)
    _duration_ticks(ax, highest)
    plain_axes(ax, grid="x")


def _duration_ticks(ax: Axes, highest: float) -> None:
    marks = (0, 1e6, 1e7, 6e7, 6e8, 3.6e9, 3.6e10, 8.64e10, 8.64e11)
    end = next((mark for mark in marks[1:] if mark >= highest), highest)
    ticks = [mark for mark in marks if mark <= end]
    ax.set_xticks(ticks, [units.duration(mark) if mark else "0" for mark in ticks])
    ax.set_xticks([], minor=True)
    ax.set_xlim(-0.4e6, end * 1.6)


def _finish_time(ax: Axes, labels: Sequence[tuple[float, str, str]]) -> None:
    dates: Any = import_module("matplotlib.dates")  # which has no types
    locator = dates.AutoDateLocator(maxticks=8, tz="UTC")
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz="UTC"))
    ax.set_xlabel("UTC")
    ax.margins(x=0)
    plain_axes(ax)
    label_ends(ax, labels)


def _tell(ax: Axes, times: Sequence[Any], said: Sequence[str]) -> None:
    """Let each instant tell what is said of it, on a page, from there to where something else is said."""
    began = 0
    for number in range(1, len(said)):
        if said[number] != said[began] or number == len(said) - 1:
            tip(
                ax.axvspan(times[began], times[number], alpha=0, linewidth=0),
                f"{times[began]}Z: {said[began]}",
            )
            began = number


def _bar_labels(ax: Axes, counts: Sequence[float], errors: Sequence[float]) -> None:
    ends = [value + error for value, error in zip(counts, errors, strict=True)]
    top = max(ends) or 1
    for y, (value, end) in enumerate(zip(counts, ends, strict=True)):
        ax.text(end + top * 0.015, y, units.count(value), va="center", fontsize=8, color=INK)
    ax.set_xlim(0, top * 1.12)
    plain_axes(ax, grid="x")


# Shared reading


def _grouped(rows: Iterable[Row], *columns: str) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(", ".join(str(row[column]) for column in columns), []).append(row)
    return groups


def _times(rows: Iterable[Row]) -> list[Any]:
    import numpy as np

    return list(np.array([round(row["t"]) for row in rows], dtype="datetime64[us]"))


def _in_dollars(row: Row) -> Row:
    money = {
        name: value / MICRO_USD
        for name, value in row.items()
        if value is not None and (name.endswith("_uusd") or name in ("low", "high"))
    }
    return {**row, **money}


def _of_many(title: str, shown: int, total: int, which: str, noun: str) -> str:
    return f"{title} ({which} {shown} of {total} {noun})" if shown < total else title
