"""Plots: what they show, how they label it, and that they are files."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ranksim.errors import BadInput
from ranksim.report import figure, plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Tables = dict[str, list[dict[str, Any]]]


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


@pytest.mark.slow
def test_every_plot_is_saved_as_a_readable_png(tables: Tables, tmp_path: Path) -> None:
    drawn = plots.save_all(tables, tmp_path)
    assert list(drawn) == list(plots.PLOTS)
    for name in drawn:
        data = (tmp_path / f"{name}.png").read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", data[16:24]) == (960, 510)


def test_the_same_tables_give_the_same_bytes(tables: Tables) -> None:
    rows: Tables = {"slots": tables["slots"]}
    assert plots.svgs(rows) == plots.svgs(rows)
    png = [figure.to_png(plots.plot(rows, "slots").figure) for _ in range(2)]
    assert png[0] == png[1]


def test_what_is_pointed_at_on_a_page_tells_its_numbers(tables: Tables) -> None:
    drawn = plots.svgs(tables)
    for name, told in {
        "slots": r"2026-03-01T\S+Z: active [\d,]+, held to month end [\d,]+, limit [\d,]+",
        "meters": r"Z: research_lookups [\d.]+ %",
        "windows": r"Z: \w+, \w+ [\d,.]+ admitted, [\d,.]+ refused",
        "deliveries": r"attempt 1: [\d,.]+ acknowledged, [\d,.]+ failed",
    }.items():
        titles = re.findall(r"<title>(.*?)</title>", drawn[name])
        assert any(re.search(told, title) for title in titles), (name, titles[:3])
        assert figure.TIP not in drawn[name]


@pytest.mark.parametrize("name", plots.PLOTS)
def test_axes_have_a_title_and_their_quantity(tables: Tables, name: str) -> None:
    ax = plots.plot(tables, name)
    assert ax.get_title()
    assert ax.get_xlabel()
    if name in ("slots", "meters", "spend", "windows"):
        assert ax.get_xlabel() == "UTC"
        assert ax.get_ylabel()


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
        ("spend", {"settled", "reserved", "ceiling 10"}),
        ("windows", {"main, read", "main, expensive"}),
        ("deliveries", {"acknowledged", "failed", "1,640"}),
        ("refusals", {"40", "22"}),
        ("jobs", {"p50 12s", "p99 31m", "p50, p95 0s"}),
        ("delays", {"p50 200ms", "max 16h48m"}),
    ],
)
def test_labels_stand_beside_what_they_name(tables: Tables, name: str, labels: set[str]) -> None:
    ax = plots.plot(tables, name)
    assert labels <= set(texts(ax))
    assert ax.get_legend() is None


def test_labels_at_line_ends_do_not_overlap(fake: Any) -> None:
    ax = plots.plot(fake(accounts=12).tables(), "slots")
    heights = sorted(text.xy[1] for text in ax.texts)
    low, high = ax.get_ylim()
    gaps = [above - below for below, above in pairwise(heights)]
    assert min(gaps) >= (high - low) * 0.069


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("slots", "Slots used (fullest 5 of 12 accounts)"),
        ("meters", "Metered allowances used (fullest 5 of 24 allowances)"),
        ("spend", "Ceiling of a month's provider cost used (fullest 5 of 12 accounts)"),
        ("windows", "Calls admitted and refused (busiest 5 of 24 windows)"),
    ],
)
def test_of_many_accounts_the_fullest_are_shown_and_the_title_says_so(
    fake: Any, name: str, title: str
) -> None:
    ax = plots.plot(fake(accounts=12).tables(), name)
    assert ax.get_title() == title
    assert 5 <= len(ax.texts) <= 6


def test_what_is_never_used_draws_no_line(tables: Tables) -> None:
    for row in tables["meters"]:
        if row["metric"] == "research_lookups":
            row["used"] = row["low"] = row["high"] = 0
    assert set(texts(plots.plot(tables, "meters"))) == {"keyword_brief_refreshes", "limit"}


def test_quantiles_that_are_all_the_same_have_one_label(tables: Tables) -> None:
    for row in tables["delays"]:
        row["delay"] = 200_000
    assert texts(plots.plot(tables, "delays")) == ["all 200ms", "all 200ms"]


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
    assert ax.get_ylim()[1] < 1_000
    assert "limit 1,000,000, above" in texts(ax)


@pytest.mark.parametrize("name", ["slots", "spend", "meters", "windows", "refusals", "deliveries", "jobs"])
def test_a_world_in_which_nothing_happens_can_be_drawn(tables: Tables, name: str) -> None:
    kept = {"t", "limit", "ceiling_uusd", "check", "attempt"}
    rows = [
        {
            key: 0 if isinstance(value, int | float) and key not in kept else value
            for key, value in row.items()
        }
        for row in tables[name]
    ]
    assert figure.to_svg(plots.plot({name: rows}, name).figure)


def test_what_was_never_used_is_not_saved(tables: Tables) -> None:
    assert {"slots", "meters", "spend"} <= set(plots.drawable(tables))
    for name, column in plots.USED.items():
        for row in tables[name]:
            row[column] = 0
    assert {"slots", "meters", "spend"}.isdisjoint(plots.drawable(tables))


def test_a_few_bars_are_not_very_wide(tables: Tables) -> None:
    tables["deliveries"] = tables["deliveries"][:1]
    tables["refusals"] = tables["refusals"][:1]
    low, high = plots.plot(tables, "deliveries").get_xlim()
    assert high - low == plots.FEWEST_BARS
    low, high = plots.plot(tables, "refusals").get_ylim()
    assert low - high == plots.FEWEST_BARS


def test_only_tables_with_rows_are_drawn(tables: Tables) -> None:
    tables["slots"] = []
    assert "slots" not in plots.drawable(tables)
    with pytest.raises(BadInput, match="nothing to draw for 'slots'"):
        plots.plot(tables, "slots")


def test_an_unknown_plot_is_refused(tables: Tables) -> None:
    with pytest.raises(BadInput, match="no plot is called 'slot'; expected one of slots, meters, spend"):
        plots.plot(tables, "slot")


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"plots need matplotlib, .*txt '\.\[plots\]'"):
        figure.check_matplotlib()
