"""Plots: what they show, how they label it, and that they are files."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from ranksim.core.errors import BadInput
from ranksim.report import figure, over_time, plots, units
from ranksim.report.shown_figure import to_png
from ranksim.report.summary import run_views

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Tables = dict[str, list[dict[str, Any]]]


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for panel in (ax, *ax.child_axes) for text in panel.texts]


@pytest.mark.slow
def test_every_plot_is_saved_as_a_readable_png(tables: Tables, tmp_path: Path) -> None:
    drawn = plots.save_all(tables, tmp_path)
    assert list(drawn) == list(plots.PLOTS)
    for name in drawn:
        data = (tmp_path / f"{name}.png").read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        panels = 2 if name in ("windows", "jobs") else 1
        assert struct.unpack(">II", data[16:24]) == (960, 510 + (panels - 1) * 165)


@pytest.mark.slow
def test_the_same_tables_give_the_same_bytes(tables: Tables) -> None:
    rows: Tables = {"slots": tables["slots"]}
    assert plots.svgs(rows) == plots.svgs(rows)
    png = [to_png(plots.plot(rows, "slots").figure) for _ in range(2)]
    assert png[0] == png[1]


@pytest.mark.slow
def test_what_is_pointed_at_on_a_page_tells_its_numbers(tables: Tables) -> None:
    drawn = plots.svgs(tables)
    for name, sentence in {
        "slots": r"2026-03-01T\S+Z: active [\d,]+, held to month end [\d,]+, limit [\d,]+",
        "meters": r"Z: research_lookups [\d.]+ %",
        "windows": r"Z: main: admitted [\d,.]+, refused [\d,.]+, in the fullest window [\d,.]+",
        "jobs": r"Z: at most running \d, waiting \d, workers 4",
        "timeline": r"ops: down from 2026-03-01T20:00\S+Z for 20h",
        "deliveries": r"attempt 1: [\d,.]+ acknowledged, [\d,.]+ failed",
    }.items():
        titles = re.findall(r"<title>(.*?)</title>", drawn[name])
        assert any(re.search(sentence, title) for title in titles), (name, titles[:3])
        assert figure.TIP not in drawn[name]


@pytest.mark.parametrize("name", plots.PLOTS)
def test_axes_have_a_title_and_their_quantity(tables: Tables, name: str) -> None:
    ax = plots.plot(tables, name)
    assert ax.get_title()
    assert max(map(len, ax.get_title().splitlines())) <= figure.TITLE
    assert ax.get_xlabel()
    if name in ("slots", "meters", "spend", "windows"):
        assert ax.get_xlabel() == "UTC"
        assert ax.get_ylabel()


def test_a_long_title_of_ones_own_has_lines_that_the_figure_has_room_for(tables: Tables) -> None:
    ax = plots.plot(tables, "refusals")
    ax.set_title("Three limits refuse: writes a minute, briefs a week, crawls a day")
    assert [len(line) <= 60 for line in ax.get_title().splitlines()] == [True, True]


def test_it_draws_on_axes_of_the_caller(tables: Tables) -> None:
    ax = figure.new_figure().subplots()
    assert plots.plot(tables, "spend", ax) is ax
    assert ax.get_ylabel() == "USD"


@pytest.mark.slow
def test_it_leaves_pyplot_alone() -> None:
    code = "import sys, ranksim.report.figure as p; p.new_figure(); print('matplotlib.pyplot' in sys.modules)"
    path = [entry for entry in sys.path if entry]
    program = f"import sys; sys.path[:0] = {path!r}; {code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("slots", {"active", "held to month end", "limit 500"}),
        ("meters", {"research_lookups", "keyword_brief_refreshes", "limit"}),
        ("spend", {"settled", "reserved, 0 at last", "ceiling 10"}),
        ("windows", {"main", "limit 600, above", "limit 20", "× 20 refused", "95 % interval"}),
        ("deliveries", {"acknowledged", "failed", "1,640"}),
        ("refusals", {"40", "22"}),
        ("jobs", {"running", "waiting", "4 workers", "workers without limit"}),
        ("delays", {"ops", "slack", "receiver down", "× 20 lost"}),
        ("timeline", {"receiver down", "acknowledged", "failed", "disabled 00:00"}),
    ],
)
def test_labels_stand_beside_what_they_name(tables: Tables, name: str, labels: set[str]) -> None:
    ax = plots.plot(tables, name)
    assert labels <= set(texts(ax))
    assert ax.get_legend() is None


def test_an_interval_is_not_taken_for_a_part_that_is_nothing_at_the_end(tables: Tables) -> None:
    spent = [{**row, "reserved_uusd": 0} for row in tables["spend"][-1:]]
    ax = plots.plot({**tables, "spend": [*tables["spend"][:-1], *spent]}, "spend")
    assert "reserved, 0 at last" in texts(ax)
    assert {tuple(part.get_facecolor().ravel())[3:4] for part in ax.collections} == {(1.0,), ()}


def test_labels_at_line_ends_do_not_overlap(fake: Any) -> None:
    ax = plots.plot(fake(accounts=12).tables(), "slots")
    heights = sorted(text.xy[1] for text in ax.texts)
    gaps = [above - below for below, above in pairwise(heights)]
    assert min(gaps) >= 0.069


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("slots", "acme uses up to 102 % of its slots on average (5 of 12 accounts shown)"),
        (
            "meters",
            "acme, research_lookups reaches 100 % of the allowance on average (5 of 24 allowances shown)",
        ),
        (
            "spend",
            "acme reaches 94.4 % of the ceiling of its provider cost on average (5 of 12 accounts shown)",
        ),
    ],
)
def test_of_many_accounts_the_fullest_are_shown_and_the_title_says_so(
    fake: Any, name: str, title: str
) -> None:
    ax = plots.plot(fake(accounts=12).tables(), name)
    assert ax.get_title().replace("\n", " ") == title
    assert 5 <= len(ax.texts) <= 6


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("slots", "acme uses up to 510 of 500 slots on average"),
        ("spend", "acme costs the provider up to 9.44 USD in a billing month on average"),
        ("windows", "40 calls refused, 50 % of them read calls of main, beyond 600 in 60 s"),
        ("refusals", "40 of 92 refusals are rate_limited"),
        ("jobs", "Up to 7 rank_run jobs wait at once for 4 workers: the most in 3h, averaged over runs"),
        ("deliveries", "588 of 4,016 webhook attempts fail"),
        ("timeline", "ops loses 20 events"),
        ("delays", "Events arrive up to 16h48m late on average, 20 never"),
    ],
)
def test_titles_tell_the_finding(tables: Tables, name: str, title: str) -> None:
    assert plots.plot(tables, name).get_title().replace("\n", " ") == title


def test_jobs_are_drawn_as_the_most_that_there_were(tables: Tables) -> None:
    assert plots.plot(tables, "jobs").get_ylabel() == "the most jobs at once"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("slots", "acme uses up to 510 of 500 slots"),
        ("spend", "acme costs the provider up to 9.44 USD in a billing month"),
        ("jobs", "Up to 7 rank_run jobs wait at once for 4 workers"),
        ("delays", "Events arrive up to 16h48m late, 20 never"),
    ],
)
def test_the_height_of_one_run_is_no_average(fake: Any, name: str, title: str) -> None:
    assert plots.plot(fake(replications=1).tables(), name).get_title() == title


def test_an_endpoint_that_some_runs_disable_is_marked_with_their_share(tables: Tables) -> None:
    for row in tables["endpoints"]:
        row["disabled_in"] = 0.05
    assert "disabled in 5 % of runs, 00:00" in texts(plots.plot(tables, "timeline"))


def test_a_window_that_is_full_and_refuses_nothing_is_not_called_otherwise(tables: Tables) -> None:
    for row in tables["windows"]:
        row["refused"], row["fullest"] = 0, row["limit"]
    title = plots.plot(tables, "windows").get_title().replace("\n", " ")
    assert title.startswith("No window refuses a call: up to ")


def test_a_rate_class_has_a_panel_and_the_pressed_stands_first(tables: Tables) -> None:
    for row in tables["windows"]:
        if row["rate_class"] == "read":
            row["refused"] = 0
    ax = plots.plot(tables, "windows")
    assert [panel.get_title(loc="left") for panel in ax.child_axes] == ["expensive", "read"]
    assert ax.get_ylabel() == "calls in 60 s"
    for row in tables["windows"]:
        if row["rate_class"] == "read":
            row["fullest"] = 0
    assert plots.plot(tables, "windows").child_axes == []


def test_refused_additions_are_marked_where_they_were(tables: Tables) -> None:
    tables["slots"][40]["refused"] = 3
    ax = plots.plot(tables, "slots")
    (mark,) = ax.lines[-1].get_xydata()
    assert mark[1] == tables["slots"][40]["used"]
    assert "× refused" in texts(ax)
    title = "3 calls found too few slots: acme uses up to 510 of 500 slots on average"
    assert ax.get_title().replace("\n", " ") == title


@pytest.mark.slow
def test_only_what_all_replications_have_is_shaded(tables: Tables) -> None:
    sentence = plots.svgs({name: tables[name] for name in ("delivering", "outages", "slots")})["delays"]
    assert "<title>ops: down from" in sentence
    assert "slack: down from" not in sentence
    assert plots.plot(tables, "delays").get_xlim() == plots.plot(tables, "timeline").get_xlim()


def test_what_is_never_used_draws_no_line(tables: Tables) -> None:
    for row in tables["meters"]:
        if row["metric"] == "research_lookups":
            row["used"] = row["low"] = row["high"] = 0
    assert set(texts(plots.plot(tables, "meters"))) == {"keyword_brief_refreshes", "limit"}


def test_events_never_arrived_are_counted_at_all_endpoints(tables: Tables) -> None:
    rows = tables["delivering"]
    more = [
        {**row, "endpoint": f"other {n}", "lost": 1 if row["lost"] else 0} for n in range(9) for row in rows
    ]
    tables["delivering"] = rows + more
    title = plots.plot(tables, "delays").get_title().replace("\n", " ")
    assert f", {sum(row['lost'] for row in rows + more)} never (4 of " in title


def test_a_title_rounds_what_is_lost_as_the_table_does(tables: Tables) -> None:
    counts = [11, 5, 11, 11, 10, 8, 0, 7, 3, 10, 0, 2, 1, 5, 7, 3, 6, 8, 1, 9, 3]  # 6.05 of each of 20 runs
    row = tables["delivering"][0]
    tables["delivering"] = [row | {"t": row["t"] + at, "lost": n / 20} for at, n in enumerate(counts)]
    assert sum(row["lost"] for row in tables["delivering"]) > 6.05
    mean = units.count(sum(counts) / 20)
    title = plots.plot(tables, "timeline").get_title()
    assert title == f"{row['endpoint']} loses {mean} events on average"
    assert f", {mean} never" in plots.plot(tables, "delays").get_title()


def test_the_longest_delay_is_that_of_the_table(tables: Tables) -> None:
    longest = max(row["delay"] for row in tables["delays"] if row["quantile"] == 1)
    for row in tables["delivering"]:
        row["delay"] = longest // 2  # the mean of the longest of a stretch, over replications
    ax = plots.plot(tables, "delays")
    title = ax.get_title().replace("\n", " ")
    assert title.startswith(f"Events arrive up to {units.duration(longest)} late")
    assert "longest of a run" in texts(ax)
    assert longest in {y for line in ax.lines for y in line.get_ydata()}
    assert ax.get_ylim()[1] > longest


def test_a_line_that_would_lie_on_another_is_dashed(tables: Tables) -> None:
    for row in tables["meters"]:
        row["used"] = 0.5 * row["limit"]
    drawn = [line for line in plots.plot(tables, "meters").lines if len(line.get_xdata()) > 2]
    assert [line.is_dashed() for line in drawn] == [False, *[True] * (len(drawn) - 1)]
    assert len(drawn) > 1


def test_short_delays_stand_on_a_linear_axis(tables: Tables) -> None:
    assert plots.plot(tables, "delays").get_yscale() == "symlog"
    for row in tables["delivering"]:
        row["delay"], row["lost"] = 200_000, 0
    for row in tables["delays"]:
        row["delay"] = 200_000
    ax = plots.plot(tables, "delays")
    assert (ax.get_yscale(), ax.get_ylim()[0]) == ("linear", 0)
    assert "200ms" in [ax.yaxis.get_major_formatter()(200_000, 0)]


def test_refusals_stand_in_the_order_of_the_checks(tables: Tables) -> None:
    tables["refusals"].reverse()
    ax = plots.plot(tables, "refusals")
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "rate_limited",
        "3 cost_cap_reached",
        "4 quota_exhausted",
        "5 slot_limit_exceeded",
        "6 cooldown_active",
    ]
    assert ax.yaxis_inverted()


def test_intervals_are_drawn_only_where_there_are_some(fake: Any) -> None:
    bands = {n: len(plots.plot(fake(replications=n).tables(), "slots").collections) for n in (1, 20)}
    assert bands == {1: 2, 20: 3}
    bars = {n: len(plots.plot(fake(replications=n).tables(), "refusals").containers) for n in (1, 20)}
    assert bars == {1: 1, 20: 2}


def test_a_limit_far_above_does_not_flatten_the_plot(tables: Tables) -> None:
    for row in tables["slots"]:
        row["limit"] = 1_000_000
    ax = plots.plot(tables, "slots")
    assert max(row["used"] for row in tables["slots"]) * 1.15 < ax.get_ylim()[1] < 1_000
    assert "limit 1,000,000, above" in texts(ax)


@pytest.mark.parametrize("name", list(plots.PLOTS))
def test_a_world_in_which_nothing_happens_can_be_drawn(tables: Tables, name: str) -> None:
    kept = {"t", "limit", "ceiling_uusd", "check", "attempt", "length", "workers"}
    rows = [
        {
            key: 0 if isinstance(value, int | float) and key not in kept else value
            for key, value in row.items()
        }
        for row in tables[plots.PLOTS[name].table]
    ]
    assert figure.to_svg(plots.plot({plots.PLOTS[name].table: rows}, name).figure)


def test_what_was_never_used_is_not_saved(tables: Tables) -> None:
    assert {"slots", "meters", "spend"} <= set(plots.drawable(tables))
    used = {name: one for name, one in plots.PLOTS.items() if one.used}
    for one in used.values():
        for row in tables[one.table]:
            row[one.used] = 0
    assert set(used).isdisjoint(plots.drawable(tables))


@pytest.mark.parametrize("ends", [(10_579.8, 10_580.3), (10_580.2, 10_580.6), (9_998.0, 10_003.0)])
def test_an_axis_of_large_numbers_has_each_once(ends: tuple[float, float]) -> None:
    ax = figure.new_figure().subplots()
    ax.plot(ends, [0, 0])
    figure.separated(ax.xaxis)
    low, high = ax.get_xlim()
    ticks = [tick for tick in ax.get_xticks() if low <= tick <= high]
    labels = ax.xaxis.get_major_formatter().format_ticks(ticks)
    assert len(set(labels)) == len(labels) >= 2
    assert all(tick == round(tick) for tick in ticks)


def test_a_few_bars_are_not_very_wide(tables: Tables) -> None:
    tables["deliveries"] = tables["deliveries"][:1]
    tables["refusals"] = tables["refusals"][:1]
    ax = plots.plot(tables, "deliveries")
    assert (ax.get_xlim(), ax.patches[0].get_width()) == ((-0.5, 0.5), pytest.approx(0.2))
    ax = plots.plot(tables, "refusals")
    assert (ax.get_ylim(), ax.patches[0].get_height()) == ((0.5, -0.5), pytest.approx(0.2))


def test_only_tables_with_rows_are_drawn(tables: Tables) -> None:
    tables["slots"] = []
    assert "slots" not in plots.drawable(tables)
    with pytest.raises(BadInput, match="nothing to draw for 'slots'"):
        plots.plot(tables, "slots")


def test_an_unknown_plot_is_refused(tables: Tables) -> None:
    with pytest.raises(
        BadInput, match=r"plot: expected one of timeline, slots, .*, found 'slot'; did you mean 'slots'"
    ):
        plots.plot(tables, "slot")
    for row in tables["meters"]:
        row["used"] = 0
    with pytest.raises(BadInput) as caught:
        plots.plot(tables, "nope")
    assert str(caught.value) == f"plot: expected one of {', '.join(plots.drawable(tables))}, found 'nope'"


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"plots need matplotlib, .*txt '\.\[plots\]'"):
        figure.check_matplotlib()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["refusals", "delays", "windows"])
def test_a_narrow_page_has_a_figure_of_its_own_with_its_title_in_short_lines(
    name: str, tables: Tables
) -> None:
    drawn = plots.svgs({"slots": tables["slots"], **tables})[name]
    broad, slim = (ElementTree.fromstring(f"<svg {part}") for part in drawn.split("<svg ")[1:])
    assert (broad.get("class"), slim.get("class")) == ("broad", "slim")
    assert broad.get("viewBox", "").startswith("0 0 460.8 ")
    assert slim.get("viewBox", "").startswith("0 0 288 ")
    lines = [text.text or "" for text in slim.iter(f"{{{figure.SVG}}}text")]
    title = plots.plot(tables, name).get_title().split()
    at = " ".join(lines).split()
    assert all(word in at for word in title)
    assert max(map(len, lines)) <= figure.NARROW_TITLE


@pytest.mark.parametrize("hours", [0.01, 1.7, 7, 37, 90, 119, 24 * 45, 24 * 600])
def test_some_interval_of_ticks_fits_any_span_in_both_widths(hours: float) -> None:
    """Where none does, Matplotlib warns, which is an error here."""
    from matplotlib.figure import Figure

    drawn = Figure()
    ax = drawn.subplots()
    over_time.finish_time(ax, [(ax, [])])
    ax.set_xlim(20_000, 20_000 + hours / 24)
    assert figure.to_svg(drawn).count("<svg") == 2


@pytest.mark.slow
def test_the_timeline_shades_the_time_in_which_an_endpoint_stays_disabled(tables: Tables) -> None:
    begin, end = tables["endpoints"][0]["disabled_at"], tables["queues"][-1]["t"]
    off = [{"endpoint": "ops", "t": begin, "until": end, "share": 1}]
    before, after = (plots.plot(tables | {"disabled": rows}, "timeline") for rows in ([], off))
    assert len(after.collections) == len(before.collections) + 1
    texts = {text.get_text() for text in after.texts}
    assert f"disabled 00:00, for {units.duration(end - begin)}" in texts
    assert r"ops: disabled from" in plots.svgs(tables | {"disabled": off})["timeline"]


def test_the_table_of_endpoints_says_what_was_never_sent(tables: Tables) -> None:
    rows = [row | {"lost_suppressed": 167.0} for row in tables["endpoints"][:1]]
    (view,) = run_views({"endpoints": rows})
    assert view.note == ("Lost and never sent, as failures had disabled the endpoint: 167 for ops.")
    assert [view.note for view in run_views(tables) if view.title == "Webhook endpoints"] == [""]
