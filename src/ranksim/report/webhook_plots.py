"""Plots of webhooks: what happened when, how late events arrive, and attempts by their number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ranksim.core.clock import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from ranksim.report import units
from ranksim.report.figure import (
    BLUE,
    COLOURS,
    INK,
    VERMILLION,
    finish,
    label_beside,
    separated,
    short_label,
    tip,
    title,
)
from ranksim.report.long_runs import Lasting, draw_days
from ranksim.report.over_time import (
    MOST_PANELS,
    Labels,
    crosses,
    finish_time,
    grouped,
    of_many,
    on_average,
    shade,
    times,
    total,
    whole_run,
)
from ranksim.report.tables import Row, Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENDPOINTS = (COLOURS[0], *COLOURS[2:])
"""The colours of endpoints: vermillion is for what failed or was lost."""

LINEAR = 30 * SECOND
"""Below this longest delay an axis is linear."""

APART = 1.05
"""The longest delay of a run is drawn where it is so many times those of stretches, which are means."""

MARKS = (SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR, 10 * HOUR, DAY, 10 * DAY)
"""Where an axis of durations that reaches further is marked."""

DATED_LINEAR, DATED_FAR = 1.3, 30
"""How far above the longest delay an axis reaches that has dates there, linear and in powers of ten."""

LABEL_PAD = 40
"""Points between durations beside a panel and what they are."""

LONGEST_NAME = 24
"""Characters of an endpoint's name that the title of a panel has room for on a narrow page."""

FEWEST_BARS = 3
"""Fewer bars than these are as wide as they would be among so many."""


def bar_width(bars: int) -> float:
    """Return the width of each bar, as a share of its place."""
    return 0.6 * min(1.0, bars / FEWEST_BARS)


def _worst(tables: Tables) -> list[str]:
    """The endpoints, those that lost most first, then those that failed most."""
    rows = grouped(tables["delivering"], "endpoint")
    weights = {name: (-total(of, "lost"), -total(of, "failed"), name) for name, of in rows.items()}
    return sorted(rows, key=lambda name: weights[name])


def timeline(tables: Tables, ax: Axes) -> None:
    """Draw what happened when, a lane an endpoint: outages, attempts, and while it was disabled."""
    endpoints = grouped(tables["delivering"], "endpoint")
    worst = _worst(tables)
    names = worst[: len(ENDPOINTS)]
    whole_run(ax, tables)
    shade(ax, tables.get("outages", ()), names)
    disabled = {row["endpoint"]: row for row in tables.get("endpoints", ()) if row.get("disabled_at")}
    for lane, name in enumerate(names):
        for column, colour, up in (("acknowledged", BLUE, -0.17), ("failed", VERMILLION, 0.17)):
            rows = [row for row in endpoints[name] if row[column]]
            marks = ax.vlines(times(rows), lane + up - 0.15, lane + up + 0.15, color=colour, linewidth=1.6)
            tip(marks, f"{name}: {units.count(total(rows, column))} attempts {column}")
        spans = [row for row in tables.get("disabled", ()) if row["endpoint"] == name]
        _shade_lane(ax, lane, name, spans)
        if name in disabled:
            at = times([disabled[name]], "disabled_at")[0]
            ax.plot(at, lane, "X", color=INK, markersize=8, zorder=5)
            when = units.instant(disabled[name]["disabled_at"])[11:16]
            if (share := disabled[name].get("disabled_in", 1)) < 1:
                when = f"in {units.percent(share)} of runs, {when}"
            always = len(spans) == 1 and spans[0]["share"] == 1
            stays = f", for {units.duration(spans[0]['until'] - spans[0]['t'])}" if always else ""
            box = {"color": "white", "alpha": 0.7, "pad": 1, "linewidth": 0}
            label_beside(ax, f"disabled {when}{stays}", (at, lane), (8, 0), bbox=box)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    title(ax, of_many(_what_became(tables, worst), len(names), len(worst), "endpoints"))
    finish_time(ax, [(ax, [(-0.2, "acknowledged", BLUE), (0.2, "failed", VERMILLION)])])
    ax.grid(visible=False)


def _shade_lane(ax: Axes, lane: int, name: str, spans: Iterable[Row]) -> None:
    """Shade an endpoint's lane while failures had disabled it, the darker the more replications show it."""
    for row in spans:
        begin, end = times([row, {"t": row["until"]}])
        drawn = ax.fill_between(
            [begin, end], lane - 0.38, lane + 0.38, color=VERMILLION, alpha=0.22 * row["share"],
            linewidth=0, zorder=0.5,
        )  # fmt: skip
        tip(drawn, f"{name}: disabled from {begin}Z for {units.duration(row['until'] - row['t'])}")


def _what_became(tables: Tables, worst: Sequence[str]) -> str:
    """Say whose events were lost, or how late they came."""
    losers = [name for name in worst if total(_of(tables, name), "lost")]
    if losers:
        who = f"{losers[0]} loses" if len(losers) == 1 else f"{len(losers)} endpoints lose"
        return f"{who} {_events(total(tables['delivering'], 'lost'))}"
    return f"No event is lost; the last comes {_late(tables)}"


def _events(number: float) -> str:
    return f"{units.count(number)} event{'' if number == 1 else 's'}" + " on average" * (number % 1 > 0)


def _latest(rows: Sequence[Row]) -> float:
    return max((row["delay"] for row in rows if row["delay"] is not None), default=0.0)


def _longest(tables: Tables) -> float:
    """The longest delay as the table of delays tells it: with replications, the mean of their longest."""
    longest = [row["delay"] for row in tables.get("delays", ()) if row["quantile"] == 1]
    return max(longest, default=_latest(tables["delivering"]))


def _late(tables: Tables) -> str:
    """How late the latest event comes, in words."""
    return f"{units.duration(_longest(tables))} late{on_average(tables.get('delays', ()))}"


def delays(tables: Tables, ax: Axes) -> None:
    """Draw how late events arrive, by when they happened, and those that never do."""
    worst = sorted(_worst(tables), key=lambda name: -_latest(_of(tables, name)))
    names = worst[: len(ENDPOINTS)]
    if tables.get("delivering_by_day"):
        names = names[:MOST_PANELS]
        _delays_of_days(ax, tables, names)
    else:
        _delays_over_time(ax, tables, names)
    sentence = f"Events arrive up to {_late(tables)}" if _longest(tables) else "No event arrives"
    if never := total(tables["delivering"], "lost"):
        sentence += f", {units.count(never)} never"
    title(ax, of_many(sentence, len(names), len(worst), "endpoints"))


def _delays_of_days(ax: Axes, tables: Tables, names: Sequence[str]) -> None:
    """Draw of some endpoints how late events of a long run came by hour of the day, and the longest a day."""
    hours, days = (grouped(tables[f"delivering_by_{by}"], "endpoint") for by in ("hour", "day"))
    draw_days(
        ax,
        [
            Lasting(
                short_label(name, LONGEST_NAME), "", hours[name], days[name], "delay",
                missed="lost", most="longest", of="events", form=units.duration, scale=_durations,
            )
            for name in names if name in days
        ],
    )  # fmt: skip
    ax.set_ylabel("until it arrives", labelpad=LABEL_PAD)


def _durations(ax: Axes, top: float, dated: bool) -> None:
    """Scale an axis of durations up to the highest, and above for dates."""
    room = 1 if not dated else DATED_LINEAR if top < LINEAR / DATED_LINEAR else DATED_FAR
    _duration_axis(ax, top * room, MARKS[::2])


def _delays_over_time(ax: Axes, tables: Tables, names: Sequence[str]) -> None:
    """Draw how late events arrive over time, a colour an endpoint, and when some were lost."""
    whole_run(ax, tables)
    shade(ax, tables.get("outages", ()), names)
    labels: Labels = []
    latest, longest = _latest(tables["delivering"]), _longest(tables)
    for name, colour in zip(names, ENDPOINTS, strict=False):
        if rows := [row for row in _of(tables, name) if row["delay"] is not None]:
            ax.vlines(times(rows), 0, [row["delay"] for row in rows], color=colour, linewidth=1.6, zorder=3)
            labels.append((rows[-1]["delay"], name, colour))
    if longest > latest * APART:
        ax.axhline(longest, color=INK, linestyle="--", linewidth=1.1)
        labels.append((longest, "longest of a run", INK))
    top = _duration_axis(ax, max(latest, longest))
    lost = [row for name in names for row in _of(tables, name) if row["lost"]]
    if lost:
        crosses(ax, times(lost), [top] * len(lost), VERMILLION, clip_on=False)
        labels.append((top, f"× {units.count(total(lost, 'lost'))} lost", VERMILLION))
    ax.set_ylabel("until it arrives, longest")
    finish_time(ax, [(ax, labels)], "UTC, when the event happened")


def _of(tables: Tables, name: str) -> list[Row]:
    return [row for row in tables["delivering"] if row["endpoint"] == name]


def _duration_axis(ax: Axes, highest: float, marks: Sequence[int] = MARKS) -> float:
    """Scale an axis of durations, which reach from ms to days; return its upper end (µs)."""
    if highest < LINEAR:
        top = max(highest, MILLISECOND) * 1.25
        ax.set_ylim(0, top)
        ticker: Any = import_module("matplotlib.ticker")
        # what a label tells whole
        ax.yaxis.set_major_locator(ticker.MaxNLocator(nbins=6, steps=(1, 2, 5, 10)))
        ax.yaxis.set_major_formatter(lambda value, _: units.duration(value) if value else "0")
        return top
    end = next((mark for mark in marks if mark >= highest), highest)
    ax.set_yscale("symlog", linthresh=SECOND)
    ticks = [mark for mark in marks if mark <= end]
    ax.set_yticks([0, *ticks], ["0", *(units.duration(mark) for mark in ticks)])
    ax.set_yticks([], minor=True)
    ax.set_ylim(0, end * 1.6)
    return end * 1.6


def deliveries(tables: Tables, ax: Axes) -> None:
    """Draw how many attempts were acknowledged and failed, by their number."""
    attempts = grouped(tables["deliveries"], "attempt")
    names = [str(attempt) for attempt in sorted(attempts, key=int)]
    good, bad = ([total(attempts[name], column) for name in names] for column in ("acknowledged", "failed"))
    both = [g + b for g, b in zip(good, bad, strict=True)]
    width = bar_width(len(names))
    ax.bar(names, good, color=BLUE, width=width)
    ax.bar(names, bad, bottom=good, color=VERMILLION, width=width)
    for name, bar, g, b in zip(names, ax.patches, good, bad, strict=False):
        tip(bar, f"attempt {name}: {units.count(g)} acknowledged, {units.count(b)} failed")
    top = max(both) or 1
    for x, count in enumerate(both):
        ax.text(x, count + top * 0.02, units.count(count), ha="center", color=INK, fontsize=8)
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.set_ylim(0, top * 1.12)
    separated(ax.yaxis)
    labels = [(top * 0.9, "acknowledged", BLUE), (top, "failed", VERMILLION)]
    attempted = f"{units.count(sum(both))} webhook attempts"
    sentence = f"{units.count(sum(bad))} of {attempted} fail" if any(bad) else f"All {attempted} succeed"
    finish(ax, sentence, "attempt number", "attempts", labels=labels if any(bad) else labels[:1])
