"""Plots of what keeps calls and jobs waiting over time: rate windows and workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ranksim.core.clock import SECOND
from ranksim.report import units
from ranksim.report.figure import BLUE, COLOURS, GREY, INK, ORANGE, VERMILLION, title
from ranksim.report.long_runs import Lasting, draw_days
from ranksim.report.over_time import (
    FAR,
    MOST_PANELS,
    Labels,
    crosses,
    finish_time,
    grouped,
    in_words,
    most,
    note_above,
    of_many,
    on_average,
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

WINDOW = ("account", "key", "rate_class")
"""The columns that name a window."""

Groups: TypeAlias = Mapping[str, Sequence[Row]]


def windows(tables: Tables, ax: Axes) -> None:
    """Draw how many calls rate windows held at most, against their limits, a panel for each rate class."""
    every = grouped(tables["windows"], *WINDOW)
    rows = [row for window in every.values() if _weight(window) for row in window] or tables["windows"]
    lengths = {row["length"] for row in rows}
    length = _length(lengths.pop()) if len(lengths) == 1 else "a window"
    days = grouped(tables.get("windows_by_day", ()), *WINDOW)
    if days := {name: window for name, window in days.items() if name in every}:
        limits = {name: most(window, "limit") for name, window in every.items()}
        rows = [{**row, "limit": limits[name]} for name, window in days.items() for row in window]
        drawn = _days_of_windows(ax, days, every, grouped(tables["windows_by_hour"], *WINDOW))
    else:
        drawn = _panels_of_windows(ax, rows)
    ax.set_ylabel(f"calls in {length}")
    title(ax, of_many(_fullest(rows, length), drawn, len(grouped(rows, *WINDOW)), "windows"))


def _days_of_windows(ax: Axes, days: Groups, samples: Groups, hours: Groups) -> int:
    """Draw the days of a long run, of each rate class those of the most pressed window; return how many."""
    single = len({name.partition(", ")[0] for name in days}) == 1
    pressed = sorted(
        days, key=lambda name: (-total(days[name], "refused"), -most(days[name], "fullest"), name)
    )
    windows = {days[name][0]["rate_class"]: name for name in reversed(pressed)}
    lasting = []
    for rate_class, name in reversed(windows.items()):
        label = name.removesuffix(f", {rate_class}")
        lasting.append(
            Lasting(
                noun=f"{rate_class} calls",
                label=days[name][0]["key"] if single else label,
                hours=hours[name],
                days=days[name],
                column="fullest",
                limits=(limits := [(row["t"], row["limit"]) for row in samples[name]]),
                limit_label=f"limit {units.count(limits[-1][1])}",
            )
        )
    draw_days(ax, lasting)
    return len(lasting)


def _panels_of_windows(ax: Axes, rows: Sequence[Row]) -> int:
    """Draw all windows over time, a panel a rate class; return how many have a line."""
    classes = sorted(grouped(rows, "rate_class").items(), key=lambda item: -_pressed(item[1]))
    single = len({row["account"] for row in rows}) == 1
    drawn = panels(ax, [name for name, _ in classes])
    made = [_windows_of(panel, of, single=single) for panel, (_, of) in zip(drawn, classes, strict=True)]
    finish_time(ax, [(panel, labels) for panel, (labels, _) in zip(drawn, made, strict=True)])
    return sum(lines for _, lines in made)


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
    held = f"{held} of {limit} {fullest['rate_class']} calls in {length}"
    return f"No window refuses a call: up to {held}{on_average(rows)}"


def _windows_of(ax: Axes, rows: Sequence[Row], *, single: bool) -> tuple[Labels, int]:
    """Draw the windows of a rate class; give the labels at their ends, and how many have a line."""
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
    return labels, len(names)


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
    days, hours = (grouped(tables.get(f"queues_by_{by}", ()), "kind") for by in ("day", "hour"))
    if days:
        kinds = {kind: kinds[kind] for kind in days}
    busiest = sorted(kinds, key=lambda kind: (-most(kinds[kind], "waiting"), -most(kinds[kind], "running")))
    kinds_drawn = busiest[:MOST_PANELS]
    if days:
        draw_days(ax, [_lasting_queue(kinds[kind], hours[kind], days[kind]) for kind in kinds_drawn])
        ax.set_ylabel("jobs that run or wait")
    else:
        drawn = panels(ax, kinds_drawn)
        queues = zip(kinds_drawn, drawn, strict=True)
        finish_time(ax, [(panel, _queue_of(panel, kinds[kind])) for kind, panel in queues])
        ax.set_ylabel("the most jobs at once")
    title(ax, of_many(_longest(kinds_drawn[0], kinds[kinds_drawn[0]]), len(kinds_drawn), len(kinds), "kinds"))


def _lasting_queue(rows: Sequence[Row], hours: Sequence[Row], days: Sequence[Row]) -> Lasting:
    workers = [(row["t"], row["workers"]) for row in rows if row["workers"] is not None]
    label = units.many(round(workers[-1][1]), "worker") if workers else "workers without limit"
    return Lasting(f"{rows[0]['kind']} jobs", "", hours, days, "jobs", workers, label)


def _averaged(rows: Sequence[Row]) -> str:
    """Say of several runs what the height of a curve is: the most in the time of a sample, and its mean."""
    at = [row["t"] for row in rows[:2]]
    return f": the most in {units.duration(at[-1] - at[0])}, averaged over runs" if on_average(rows) else ""


def _longest(kind: str, rows: Sequence[Row]) -> str:
    """Say what there is to see of the fullest queue."""
    longest = max(rows, key=lambda row: row["waiting"])
    mean = _averaged(rows)
    if not longest["waiting"]:
        running = units.count(most(rows, "running"))
        return f"No job waits for a worker: up to {running} {kind} jobs run at once{mean}"
    workers = longest["workers"]
    beside = f" for {units.many(round(workers), 'worker')}" if workers is not None else ""
    return f"Up to {units.count(longest['waiting'])} {kind} jobs wait at once{beside}{mean}"


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
