"""The tables of a result as people read them."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from ranksim.report.tables import View, bounded, to_rich, views
from ranksim.sim.tables import COLUMNS

Tables = dict[str, list[dict[str, Any]]]


def shown(tables: Tables, title: str, top: int | None = None) -> list[tuple[str, ...]]:
    (view,) = [view for view in views(tables, top) if view.title == title]
    return [view.headings, *view.rows, *([(view.note,)] if view.note else [])]


def test_the_made_up_result_has_the_columns_of_a_true_one(tables: Tables) -> None:
    assert list(tables) == list(COLUMNS)
    for name, rows in tables.items():
        assert all(tuple(row) == COLUMNS[name] for row in rows), name


def test_calls_are_those_of_all_clients_the_most_frequent_first(tables: Tables) -> None:
    rows = shown(tables, "Calls")
    assert rows[0] == ("operation", "outcome", "status", "count")
    assert rows[1] == ("jobs.create", "ok", "200", "24,691")
    assert rows[-1] == ("keyword_briefs.create", "limited", "429", "8")


def test_only_the_first_rows_are_shown_and_it_is_said_how_many_more_there_are(tables: Tables) -> None:
    assert shown(tables, "Calls", top=2)[3:] == [("and 7 more rows",)]
    assert shown(tables, "Calls", top=8)[9:] == [("and 1 more row",)]
    assert len(shown(tables, "Calls", top=9)) == 10


def test_refusals_stand_in_the_order_of_the_checks_with_their_intervals(tables: Tables) -> None:
    tables["refusals"].reverse()
    assert shown(tables, "Refusals")[1:] == [
        ("before the checks", "rate_limited", "40 (32 to 48)", "43.5 %"),
        ("3 cost ceiling", "cost_cap_reached", "22 (17.6 to 26.4)", "23.9 %"),
        ("4 quota", "quota_exhausted", "16 (12.8 to 19.2)", "17.4 %"),
        ("5 slots", "slot_limit_exceeded", "10 (8 to 12)", "10.9 %"),
        ("6 cooldown", "cooldown_active", "4 (3.2 to 4.8)", "4.3 %"),
    ]


def test_resources_are_ordered_by_how_full_they_got(tables: Tables) -> None:
    assert shown(tables, "Slots, allowances and spending")[1:] == [
        ("acme", "slots", "510 (484.5 to 535.5)", "510", "500"),
        ("acme", "research_lookups", "100 (95 to 105)", "100", "100"),
        ("acme", "spending", "8.80 USD (8.36 USD to 9.24 USD)", "9.44 USD", "10.00 USD"),
        ("acme", "keyword_brief_refreshes", "53.3 (50.7 to 56)", "53.3", "60"),
    ]


def test_a_resource_without_a_limit_is_shown_last(tables: Tables) -> None:
    for row in tables["slots"]:
        row["limit"] = 0
    assert shown(tables, "Slots, allowances and spending")[-1][1] == "slots"


def test_jobs_and_waits(tables: Tables) -> None:
    assert shown(tables, "Jobs")[1:] == [
        ("rank_run", "812", "800.5", "9.5", "31"),
        ("crawl", "20", "20", "0", "0"),
    ]
    assert shown(tables, "Waits for a worker")[1:] == [
        ("rank_run", "41 s", "12 s", "4 min", "31 min", "87.4 %"),
        ("crawl", "0 µs", "0 µs", "0 µs", "3 s", "–"),
    ]


def test_deliveries(tables: Tables) -> None:
    assert shown(tables, "Webhook endpoints")[1] == ("ops", "820", "790", "20", "10", "3", "1")
    assert shown(tables, "Webhook attempts")[1:3] == [
        ("1", "1,640", "1,400", "240"),
        ("2", "820", "700", "120"),
    ]
    assert shown(tables, "Delays of webhook deliveries") == [
        ("endpoint", "p50", "p95", "p99", "max"),
        ("ops", "200 ms", "1 min 6 s", "6 h", "16 h 48 min"),
        ("slack", "200 ms", "1 min 6 s", "6 h", "16 h 48 min"),
    ]


def test_a_table_that_is_cut_keeps_its_note() -> None:
    view = View("Money", ("plan", "margin"), 1, (("pro", "3"), ("free", "2")), "of all customers")
    assert bounded(view, 2) is view
    assert bounded(view, 1).note == "and 1 more row; of all customers"
    assert bounded(view, 1).rows == (("pro", "3"),)


def test_an_empty_result_has_no_views() -> None:
    assert views({name: [] for name in COLUMNS}) == []


def test_text_from_outside_is_no_markup(tables: Tables) -> None:
    tables["jobs"][0]["kind"] = "[red]rank[/]"
    console = Console(width=80)
    with console.capture() as capture:
        for view in views(tables):
            console.print(to_rich(view))
    assert "[red]rank[/]" in capture.get()
