"""Figures of long runs: what they draw, how they date peaks, and that labels have room."""

from __future__ import annotations

from itertools import combinations
from math import isnan
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.results import START

from ranksim.core.clock import DAY, HOUR, SECOND
from ranksim.report import figure, plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = list[dict[str, Any]]


def hours_of(middle: list[int], weekend: list[int]) -> Rows:
    return [
        {"kind": "rank_run", "days": days, "hour": hour, "median": at, "p10": max(0, at - 1), "p90": at + 1}
        for days, values in (("all", middle), ("weekdays", middle), ("weekend", weekend))
        for hour, at in enumerate(values)
    ]  # fmt: skip


def days_of(heights: list[int]) -> Rows:
    return [
        {"kind": "rank_run", "t": START + day * DAY, "at": START + day * DAY + 9 * HOUR if high else None,
         "jobs": high, "low": None, "high": None}
        for day, high in enumerate(heights)
    ]  # fmt: skip


def long_run(heights: list[int], middle: list[int] | None = None, weekend: list[int] | None = None) -> Any:
    usual = [0] * 8 + [5] * 10 + [0] * 6 if middle is None else middle
    times = [START + day * DAY for day in range(len(heights) + 1)]
    queues = [{"t": t, "kind": "rank_run", "running": 4, "waiting": 2, "workers": 4} for t in times]
    hours = hours_of(usual, usual if weekend is None else weekend)
    return {"queues": queues, "queues_by_hour": hours, "queues_by_day": days_of(heights)}


def panels(heights: list[int], **more: Any) -> tuple[Axes, list[Axes]]:
    ax = plots.plot(long_run(heights, **more), "jobs")
    return ax, ax.child_axes


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


HEIGHTS = [5, 6, 5, 5, 6, 5, 40, 5, 5, 6, 6, 5, 5, 5, 18, 5, 6, 5, 6, 5]


def test_the_day_by_its_hours_stands_above_the_most_of_each_day() -> None:
    ax, (profile, peaks) = panels(HEIGHTS)
    assert profile.get_title(loc="left") == "rank_run jobs by hour of the day"
    assert peaks.get_title(loc="left") == "rank_run jobs, most of each day"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("UTC", "jobs that run or wait")
    assert list(profile.lines[0].get_ydata()) == [*[0] * 8, *[5] * 10, *[0] * 7]
    assert list(profile.lines[0].get_xdata()) == list(range(25))
    assert list(peaks.lines[0].get_ydata()) == [*HEIGHTS, HEIGHTS[-1]]
    assert [label.get_text() for label in profile.get_xticklabels()][::2] == ["00:00", "12:00", "24:00"]
    assert {"median", "band: 80 % of days", "4 workers"} <= set(texts(profile))


def test_the_highest_peaks_are_dated() -> None:
    _, (_, peaks) = panels(HEIGHTS)
    assert {"40\n7 Mar 09h", "18\n15 Mar 09h"} < set(texts(peaks))
    _, (_, equal) = panels([7] * 20)
    assert "7 on 20 days\nfirst 1 Mar 09h" in texts(equal)
    assert sum("Mar" in text for text in texts(equal)) == 1


def test_weekends_are_apart_where_they_differ() -> None:
    usual = [0] * 8 + [9] * 10 + [0] * 6
    for weekend, labels in (([0] * 24, {"weekdays", "weekend"}), ([n and n - 1 for n in usual], {"median"})):
        _, (profile, _) = panels(HEIGHTS, middle=usual, weekend=weekend)
        assert labels == set(texts(profile)) & {"weekdays", "weekend", "median"}


def test_a_day_without_any_on_most_days_has_no_profile() -> None:
    tables = long_run(HEIGHTS)
    for row in tables["queues_by_hour"]:
        row.update(median=0, p10=0, p90=0)
    ax = plots.plot(tables, "jobs")
    assert [panel.get_title(loc="left") for panel in ax.child_axes] == ["rank_run jobs, most of each day"]


def test_a_wide_interval_does_not_flatten_the_peaks() -> None:
    tables = long_run(HEIGHTS)
    for row in tables["queues_by_day"]:
        row.update(low=row["jobs"] - 50, high=row["jobs"] + 500)
    _, peaks = plots.plot(tables, "jobs").child_axes
    assert peaks.get_ylim() == (0, 2 * 40 * 1.5)
    assert "95 % interval" in texts(peaks)


def test_what_is_pointed_at_tells_the_day() -> None:
    drawn = plots.svgs(long_run(HEIGHTS))["jobs"]
    assert "rank_run jobs: 40 in the hour from 2026-03-07" in drawn


@pytest.mark.parametrize("seed", range(6))
def test_dates_of_peaks_have_room_in_both_widths(seed: int) -> None:
    draw = Random(seed)
    days = draw.choice((11, 30, 92, 365))
    heights = [draw.choice((3, 5, 9, 50)) + draw.randrange(3) for _ in range(days)]
    ax, (_, peaks) = panels(heights)
    drawn: Any = ax.figure
    for _ in range(2):
        drawn.canvas.draw()
        dated = [text.get_window_extent() for text in peaks.texts if "\n" in text.get_text()]
        ends = [text.get_window_extent() for text in peaks.texts if "\n" not in text.get_text()]
        assert dated, seed
        frame = peaks.get_window_extent()
        assert all(box.y1 <= frame.y1 + 2 for box in dated), seed
        assert not any(one.overlaps(other) for one, other in combinations([*dated, *ends], 2)), seed
        figure._narrow(drawn)


def delays(days: list[tuple[int, int]]) -> Any:
    """The tables of a long run whose events arrive so late each day, and so many never."""
    hours = hours_of([0] * 24, [0] * 24)
    for row in hours:
        night = row["hour"] in (2, 3)
        row |= {"endpoint": "erp", "median": 300_000, "p10": 200_000, "p90": 900_000} if night else {
            "endpoint": "erp", "median": None, "p10": None, "p90": None}  # fmt: skip
    of_days = [
        {"t": START + day * DAY, "endpoint": "erp", "at": START + day * DAY + 2 * HOUR, "delay": longest,
         "low": None, "high": None, "lost": lost}
        for day, (longest, lost) in enumerate(days)
    ]  # fmt: skip
    counts = {"acknowledged": 1, "failed": 0}
    return {
        "delivering": [{**row, **counts} for row in of_days],
        "delays": [{"endpoint": "erp", "quantile": 1, "delay": max(longest for longest, _ in days)}],
        "delivering_by_hour": hours,
        "delivering_by_day": of_days,
    }


def test_delays_are_shown_by_the_hour_and_the_longest_of_each_day() -> None:
    ax = plots.plot(delays([(SECOND, 0)] * 8 + [(2 * HOUR, 3)] + [(SECOND, 0)] * 11), "delays")
    profile, longest = ax.child_axes
    assert ax.get_title() == "Events arrive up to 2h late, 3 never"
    assert [panel.get_title(loc="left") for panel in (profile, longest)] == [
        "erp by hour of the day",
        "erp, longest of each day",
    ]
    drawn = list(profile.lines[0].get_ydata())
    assert drawn[2:4] == [300_000, 300_000]
    assert all(isnan(value) for value in (*drawn[:2], *drawn[4:]))
    assert "band: 80 % of events" in texts(profile)
    assert {"2h\n9 Mar 02h", "× 3 lost"} == set(texts(longest))
    ticks = [label.get_text() for label in longest.get_yticklabels()]
    assert ticks == ["0", "1s", "1m", "1h", "1d"][: len(ticks)]
    assert longest.get_ylim()[1] > 20 * HOUR


def test_a_day_on_which_nothing_arrived_is_a_gap_with_what_was_lost_in_it() -> None:
    tables = delays([(SECOND, 0)] * 8 + [(0, 3)] + [(SECOND, 0)] * 11)
    for row in tables["delivering_by_day"]:
        row |= {"low": row["delay"] / 2, "high": row["delay"] * 2}
    tables["delivering_by_day"][8] |= dict.fromkeys(("at", "delay", "low", "high"))
    _, longest = plots.plot(tables, "delays").child_axes
    drawn = list(longest.lines[0].get_ydata())
    assert [at for at, value in enumerate(drawn) if isnan(value)] == [8]
    assert drawn.count(SECOND) == 20
    (lost,) = (line for line in longest.lines if line.get_marker() == "x")
    assert list(lost.get_ydata()) == [0]
    assert "erp: none, 3 lost" in plots.svgs(tables)["delays"]
    for row in tables["delivering_by_day"]:
        row |= dict.fromkeys(("at", "delay", "low", "high"))
    _, longest = plots.plot(tables, "delays").child_axes
    assert all(map(isnan, longest.lines[0].get_ydata()))


def test_the_name_of_an_endpoint_is_cut_where_it_has_no_room() -> None:
    tables = delays([(SECOND, 0)] * 12)
    for rows in tables.values():
        for row in rows:
            row["endpoint"] = "https://hooks.example.com/a/very/long/path"
    profile, _ = plots.plot(tables, "delays").child_axes
    assert profile.get_title(loc="left") == "https://hooks.example.c… by hour of the day"
