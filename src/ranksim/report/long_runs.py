"""A series of a long run: what a day is like by its hours, and the most of each day."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import isnan, nan
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from ranksim.core.clock import DAY, SECOND
from ranksim.report import units
from ranksim.report.figure import BLUE, INK, ORANGE, VERMILLION, label_beside, label_ends, plain_axes
from ranksim.report.over_time import (
    FAR,
    Labels,
    crosses,
    finish_time,
    grouped,
    most,
    panels,
    times,
    tooltips,
    total,
    whole_ticks,
)
from ranksim.report.tables import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DATED = 3
"""The most peaks that are labelled by date and hour."""

WIDE = 0.28
"""How much of its width a label takes of a panel on a narrow page."""

HEADROOM = 1.5
"""How much higher than the highest peak its panel is, for the label."""

FLATTENED = 2
"""How many times as high as peaks their interval is drawn at most: that of few replications reaches far."""

HOURS = range(25)
"""The hours of a day, and its end."""


def count_axis(ax: Axes, top: float, dated: bool) -> None:
    """Scale an axis of counts up to the highest, and above for dates."""
    ax.set_ylim(0, top * (HEADROOM if dated else 1.1))
    whole_ticks(ax)


class Lasting(NamedTuple):
    """A series of a long run by its hours and its days.

    `column` of the days is shown, as `noun` says, the `most` of each in a `form`, on an axis that `scale`
    sets for a highest value, with dates above it or not. `label` names the series, if need be, `limit_label`
    its limit, which is in `limits` as t and from then on that. The column `missed` has how often a day had
    what should not be. The band has the middle 80 % `of` days, or of what they had.
    """

    noun: str
    label: str
    hours: Sequence[Row]
    days: Sequence[Row]
    column: str
    limits: Sequence[tuple[float, float]] = ()
    limit_label: str = ""
    missed: str = "refused"
    most: str = "most"
    of: str = "days"
    form: Callable[[float], str] = units.count
    scale: Callable[[Axes, float, bool], None] = count_axis


def draw_days(ax: Axes, series: Sequence[Lasting]) -> None:
    """Draw series one below the other: by hour of the day, if usual days have any, and the most of a day."""
    kinds = [
        (lasting, of_hours)
        for lasting in series
        for of_hours in (True, False)
        if not of_hours or any(row["p90"] for row in lasting.hours)
    ]
    titles = [
        f"{lasting.noun} by hour of the day" if of_hours else f"{lasting.noun}, {lasting.most} of each day"
        for lasting, of_hours in kinds
    ]
    peaks = []
    for (lasting, of_hours), panel in zip(kinds, panels(ax, titles, apart=True), strict=True):
        if of_hours:
            _profile(panel, lasting)
        else:
            peaks.append((panel, _peaks(panel, lasting)))
    finish_time(ax, peaks)


def _profile(ax: Axes, series: Lasting) -> None:
    """Draw the median of days by hour and a band of the middle 80 %; weekends apart where they differ."""
    groups = grouped(series.hours, "days")
    apart = ("weekdays", "weekend") if _differ(groups) else ("all",)
    labels: Labels = []
    for days, colour in zip(apart, (BLUE, ORANGE), strict=False):
        low, middle, high = (
            [nan if row[q] is None else row[q] for row in groups[days]] for q in ("p10", "median", "p90")
        )
        ax.stairs(high, HOURS, baseline=low, fill=True, color=colour, alpha=0.22, linewidth=0)
        ax.step(HOURS, [*middle, middle[-1]], where="post", color=colour, linewidth=1.4)
        labels.append((0 if isnan(middle[-1]) else middle[-1], "median" if days == "all" else days, colour))
    drawn = [row for days in apart for row in groups[days] if row["p90"] is not None]
    if any(row["p10"] < row["p90"] for row in drawn):
        labels.append((0, f"band: 80 % of {series.of}", INK))
    series.scale(ax, _limit(ax, series, most(drawn, "p90"), labels), False)
    ax.set_xlim(HOURS[0], HOURS[-1])
    ax.set_xticks(HOURS[::6], [f"{hour:02d}:00" for hour in HOURS[::6]])
    plain_axes(ax)
    ax.tick_params(labelsize=8)
    label_ends(ax, labels, gap=0.15)


def _differ(groups: dict[str, list[Row]]) -> bool:
    """Whether at some hour the median of weekends lies outside 80 % of weekdays, or the other way round."""
    hours = zip(groups["weekdays"], groups["weekend"], strict=True)
    pairs = [pair for pair in hours if None not in (pair[0]["median"], pair[1]["median"])]
    both = [*pairs, *(pair[::-1] for pair in pairs)]
    return any(not row["p10"] <= other["median"] <= row["p90"] for row, other in both)


def _peaks(ax: Axes, series: Lasting) -> Labels:
    """Draw the most of each day, None as a gap, and date the highest; return the labels at the ends."""
    at = times([*series.days, {"t": series.days[-1]["t"] + DAY}])
    heights = [nan if row[series.column] is None else row[series.column] for row in series.days]
    ax.step(at, [*heights, heights[-1]], where="post", color=BLUE, linewidth=0.9)
    labels: Labels = [(0 if isnan(heights[-1]) else heights[-1], series.label, BLUE)] if series.label else []
    top = highest = max((height for height in heights if not isnan(height)), default=0)
    if any((row["high"] or 0) > (row["low"] or 0) for row in series.days):
        low, high = (
            [
                nan if isnan(height) else max(0, row[end] or 0)
                for row, height in zip(series.days, heights, strict=True)
            ]
            for end in ("low", "high")
        )
        ax.stairs(high, at, baseline=low, fill=True, color=INK, alpha=0.25, linewidth=0)
        labels.append((0, "95 % interval", INK))
        top = min(max(top, *(row["high"] or 0 for row in series.days)), FLATTENED * top)
    missed = [row for row in series.days if row.get(series.missed)]
    if missed:
        size = max(2.0, min(5.0, 200 / len(series.days)))
        middles = times([{"t": row["t"] + DAY // 2} for row in missed])
        crosses(
            ax,
            middles,
            [row[series.column] or 0 for row in missed],
            VERMILLION,
            markersize=size,
            clip_on=False,
        )
        number = units.count(total(missed, series.missed))
        labels.append((highest, f"× {number} {series.missed}", VERMILLION))
    series.scale(ax, _limit(ax, series, top, labels, over_time=True), True)
    _date(ax, series)
    tooltips(ax, at, [*(_tip(row, series) for row in series.days), ""])
    return labels


def _limit(ax: Axes, series: Lasting, top: float, labels: Labels, *, over_time: bool = False) -> float:
    """Draw a limit that is in reach, as it changes or its highest, else label what it is; return the top."""
    highest = max((limit for _, limit in series.limits), default=0)
    if not series.limits or (top and top * FAR < highest):
        above = ", above" if series.limits else ""
        labels += [(top * 1.1, f"{series.limit_label}{above}", INK)] if series.limit_label else []
        return top or 1
    at = times([{"t": t} for t, _ in series.limits]) if over_time else [HOURS[0], HOURS[-1]]
    limits = [limit for _, limit in series.limits] if over_time else [highest, highest]
    ax.step(at, limits, where="pre", color=INK, linestyle="--", linewidth=1.1)
    labels.append((limits[-1], series.limit_label, INK))
    return max(top, highest) or 1


def _date(ax: Axes, series: Lasting) -> None:
    """Label the highest peaks by height, date and hour, as far as labels have room; of equal days the first.

    Further ones are as many times the usual as the highest is theirs, at least.
    """
    first, days = series.days[0]["t"], [row for row in series.days if row[series.column] is not None]
    heights = [row[series.column] for row in days]
    least, placed = median(heights or [0]) * max(heights, default=0), list[float]()
    for row in sorted(days, key=lambda row: (-row[series.column], row["t"])):
        if row["at"] is None or len(placed) == DATED or (placed and row[series.column] ** 2 <= least):
            break
        share = (row["t"] - first) / (DAY * len(series.days))
        side, shift = (
            ("left", 0) if share < WIDE / 2 else ("right", 2) if share > 1 - WIDE / 2 else ("center", 1)
        )
        begin = share - shift * WIDE / 2
        if all(abs(begin - other) >= WIDE for other in placed):
            placed.append(begin)
            moment = datetime.fromtimestamp(row["at"] // SECOND, UTC)
            many = heights.count(row[series.column])
            often, since = (f" on {many} days", "first ") if many > len(heights) / 2 else ("", "")
            text = f"{series.form(row[series.column])}{often}\n{since}{moment.day} {moment:%b %Hh}"
            at = times([{"t": row["t"] + DAY // 2}])[0], row[series.column]
            box = {"color": "white", "alpha": 0.8, "pad": 0.5, "linewidth": 0}
            style = {"ha": side, "ma": side, "va": "bottom", "fontsize": 7, "bbox": box}
            label_beside(ax, text, at, (2 - 2 * shift, 3), **style)


def _tip(row: Row, series: Lasting) -> str:
    hour = "" if row["at"] is None else f" in the hour from {units.instant(row['at'])}"
    missed = row.get(series.missed)
    further = f", {units.count(missed)} {series.missed}" if missed else ""
    height = "none" if row[series.column] is None else series.form(row[series.column])
    return f"{series.noun}: {height}{hour}{further}"
