"""The tables of a result as people read them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from rich.console import Console

from ranksim.report.summary import OF_A_RUN, run_views
from ranksim.report.tables import View, bounded
from ranksim.twin.sim.tables import COLUMNS

Tables = dict[str, list[dict[str, Any]]]


def shown(tables: Tables, title: str, top: int | None = None) -> list[tuple[str, ...]]:
    (view,) = [view for view in run_views(tables, top) if view.title == title]
    return [view.headings, *view.rows, *([(view.note,)] if view.note else [])]


def test_the_made_up_result_has_the_columns_of_a_true_one(tables: Tables) -> None:
    assert list(tables) == list(COLUMNS)
    for name, rows in tables.items():
        assert all(tuple(row) == COLUMNS[name] for row in rows), name


def test_calls_are_those_of_all_clients_the_most_frequent_first(tables: Tables) -> None:
    rows = shown(tables, "Calls")
    assert rows[0] == ("operation", "outcome", "status", "count")
    assert rows[1] == ("jobs.create", "ok", "200", "24,691 ± 1,230")
    assert rows[-1] == ("keyword_briefs.create", "limited", "429", "8")


def test_only_the_first_rows_are_shown_and_it_is_said_how_many_more_there_are(tables: Tables) -> None:
    assert shown(tables, "Calls", top=2)[3:] == [("And 7 more rows.",)]
    assert shown(tables, "Calls", top=8)[9:] == [("And 1 more row.",)]
    assert len(shown(tables, "Calls", top=9)) == 10


def test_refusals_stand_in_the_order_of_the_checks_with_their_intervals(tables: Tables) -> None:
    assert shown(tables, "Refusals")[1:] == [
        ("before the checks", "rate_limited", "40 ± 8", "43.5 ± 2.2 %"),
        ("3 cost ceiling", "cost_cap_reached", "22 ± 4.4", "23.9 ± 1.2 %"),
        ("4 quota", "quota_exhausted", "16 ± 3.2", "17.4 ± 0.9 %"),
        ("5 slots", "slot_limit_exceeded", "10 ± 2", "10.9 ± 0.5 %"),
        ("6 cooldown", "cooldown_active", "4 ± 0.8", "4.3 ± 0.2 %"),
    ]


def test_resources_are_ordered_by_how_full_they_got(tables: Tables) -> None:
    assert shown(tables, "Slots, allowances and provider cost")[1:] == [
        ("acme", "slots", "510 ± 25.5", "510 ± 25.5", "500"),
        ("acme", "research_lookups", "100 (95 to 100)", "100 (95 to 100)", "100"),
        ("acme", "provider cost", "8.80 ± 0.44 USD", "9.44 ± 0.47 USD", "10.00 USD"),
        ("acme", "keyword_brief_refreshes", "53.3 ± 2.7", "53.3 ± 2.7", "60"),
    ]


def test_a_resource_without_a_limit_is_shown_last(tables: Tables) -> None:
    for row in tables["levels"]:
        row["limit"] = 0 if row["resource"] == "slots" else row["limit"]
    assert shown(tables, "Slots, allowances and provider cost")[-1][1] == "slots"


def test_jobs_and_waits(tables: Tables) -> None:
    assert shown(tables, "Jobs")[1:] == [
        ("rank_run", "812 ± 40.6", "800.5 ± 40", "9.5 ± 0.47", "31 ± 1.6"),
        ("crawl", "20 ± 1", "20 ± 1", "0", "0"),
    ]
    assert shown(tables, "Waits for a worker")[1:] == [
        ("rank_run", "41s ± 2s", "12s ± 600ms", "4m ± 12s", "31m ± 1m33s", "87.4 ± 4.4 %"),
        ("crawl", "0s", "0s", "0s", "3s ± 150ms", "–"),
        (OF_A_RUN,),
    ]


def test_workers_who_are_mostly_idle_while_jobs_wait_have_peaks(tables: Tables) -> None:
    rows = [row | {"utilisation": 0.008, "max_waiting": 5.0, "wait_p95_low": None} for row in tables["jobs"]]
    (view,) = [view for view in run_views(tables | {"jobs": rows[:1]}) if view.title == "Waits for a worker"]
    assert view.note.startswith("Busy is a mean over the whole run; jobs that come together wait, up to 5")
    assert view.note.endswith("rank_run at once.")


def test_deliveries(tables: Tables) -> None:
    events = ("820 ± 41", "790 ± 39.5", "20 ± 1", "10 ± 0.5", "3", "1")
    assert shown(tables, "Webhook endpoints")[1] == ("ops", *events)
    assert shown(tables, "Webhook attempts")[1:3] == [
        ("1", "1,640 ± 82", "1,400 ± 70", "240 ± 12"),
        ("2", "820 ± 41", "700 ± 35", "120 ± 6"),
    ]
    assert shown(tables, "Delays of webhook deliveries") == [
        ("endpoint", "p50", "p95", "p99", "max"),
        ("ops", "200ms ± 10ms", "1m6s ± 3.3s", "6h ± 18m20s", "16h48m ± 50m"),
        ("slack", "200ms ± 10ms", "1m6s ± 3.3s", "6h ± 18m20s", "16h48m ± 50m"),
        (OF_A_RUN,),
    ]


def test_a_table_that_is_cut_keeps_its_note() -> None:
    view = View("Money", ("plan", "margin"), 1, (("pro", "3"), ("free", "2")), "Of all customers.")
    assert bounded(view, 2) is view
    assert bounded(view, 1).note == "And 1 more row. Of all customers."
    assert bounded(view, 1).rows == (("pro", "3"),)


def test_an_empty_result_has_no_views() -> None:
    assert run_views({name: [] for name in COLUMNS}) == []


def test_text_from_outside_is_no_markup(tables: Tables) -> None:
    tables["jobs"][0]["kind"] = "[red]rank[/]"
    console = Console(width=80)
    with console.capture() as capture:
        for view in run_views(tables):
            console.print(view)
    assert "[red]rank[/]" in capture.get()


WIDE = View(
    "Margins",
    ("plan", "metric", "margin of all customers", "blocked"),
    2,
    (("professional", "jobs.rank_run.wait.within.5m", "−156,459.18 ± 1,272.41 USD", "21.6 (20 to 25) %"),),
    "of all customers",
)


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 100, 100_000])
def test_no_cell_is_ever_cut_or_broken_but_by_words_that_are_longer_than_the_terminal(width: int) -> None:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(WIDE)
    lines = capture.get().splitlines()
    assert max(len(line) for line in lines if "─" not in line) <= width
    text = re.sub(r"[\s─]", "", "".join(lines))
    if width >= 60:
        for cell in (*WIDE.headings, *WIDE.rows[0]):
            assert re.sub(r"\s", "", cell) in text, cell
        assert WIDE.rows[0][1] in capture.get()
        assert WIDE.rows[0][2] in capture.get()
    whole = Counter("".join((WIDE.title, *WIDE.headings, *WIDE.rows[0], WIDE.note)).replace(" ", ""))
    assert Counter(text) == whole, "a character was lost"


def test_a_narrow_terminal_stacks_the_rows() -> None:
    console = Console(width=60)
    with console.capture() as capture:
        console.print(WIDE)
    assert [line.rstrip() for line in capture.get().splitlines()] == [
        "Margins",
        "plan                    professional",
        "metric                  jobs.rank_run.wait.within.5m",
        "margin of all customers −156,459.18 ± 1,272.41 USD",
        "blocked                 21.6 (20 to 25) %",
        "of all customers",
    ]
