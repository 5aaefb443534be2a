"""A run told: its tables for people, its summary on a terminal, and its page."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ranksim.report import units
from ranksim.report.heading import (
    Heading,
    answer_of,
    changed_limits,
    headline_numbers,
    most_telling,
    run_overview,
    tiles_of,
)
from ranksim.report.mentions import foldable, with_links
from ranksim.report.page import (
    BAD,
    MOST_ROWS,
    assumptions_of,
    figure,
    html_document,
    page_footer,
    plots,
    table,
    tables_of,
)
from ranksim.report.table_spec import views_of
from ranksim.report.tables import Row, Tables, View, bounded

if TYPE_CHECKING:
    from rich.console import RenderableType

TOP = 12
"""Rows of each table that a summary shows."""

MOST_NOTES = 8


def summary(heading: Heading, tables: Tables) -> list[RenderableType]:
    """What to print, in order."""
    from rich.text import Text

    parts: list[RenderableType] = [Text(heading.title or heading.name, style="bold"), Text(heading.line)]
    if heading.averaged:
        parts.append(Text(heading.averaged))
    parts += [Text(), Text(heading.verdict, style=_style(heading))]
    if heading.verdicts:
        parts.append(_verdicts(heading))
    else:
        parts.append(Text(run_overview(tables)))
    parts += map(Text, heading.made_up)
    parts += [
        Text(),
        Text(", ".join(f"{value} {label}" for label, value in headline_numbers(heading, tables))),
    ]
    parts += [part for line in heading.readings.deciding_sentences() for part in (Text(), Text(line))]
    for view in run_views(tables, TOP):
        parts += [Text(), view]
    if heading.overrides:
        numbers = ", ".join(number for number, _, _ in heading.overrides)
        parts += [Text(), Text(f"Assumptions that differ from their default: {numbers}")]
    if heading.readings.tried:
        parts += [Text(), *map(Text, heading.readings.other_sentences())]
    if heading.notes:
        parts += [Text(), Text("Notes", style="bold")]
        parts += [Text(f"  {note}") for note in heading.notes[:MOST_NOTES]]
        if len(heading.notes) > MOST_NOTES:
            parts.append(Text(f"  and {len(heading.notes) - MOST_NOTES} more"))
    return parts


def _verdicts(heading: Heading) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    for verdict in heading.verdicts:
        word = Text("  holds", style="green") if verdict.holds else Text("  failed", style="bold red")
        grid.add_row(word, Text(verdict.text, overflow="fold"))
    return grid


def _style(heading: Heading) -> str:
    if not heading.verdicts:
        return ""
    return "green" if all(verdict.holds for verdict in heading.verdicts) else "bold red"


CHECKS = (
    "before the checks",
    "1 capability",
    "2 subscription",
    "3 cost ceiling",
    "4 quota",
    "5 slots",
    "6 cooldown",
)
"""The six checks by number (S59 to S65); 0 is what is refused before them."""

ATTEMPTS = {"attempt": "text", **dict.fromkeys(("sent", "acknowledged", "failed"), "count")}
ENDPOINTS = {
    "endpoint": "text",
    **dict.fromkeys(("events", "acknowledged", "lost", "pending", "duplicates", "disabled"), "count"),
}
JOBS = {"kind": "text", **dict.fromkeys(("queued", "done", "failed", "joined"), "count")}
WAITS = {
    "kind": "text",
    **dict.fromkeys(("wait_mean", "wait_p50", "wait_p95", "wait_p99"), "duration"),
    "utilisation": "share",
}

MOSTLY_IDLE = 0.5
"""Workers who are busy for less than this share of a run, while jobs wait, have peaks."""

OF_A_RUN = (
    "Quantiles are those of a replication, averaged. Of times that are mostly 0, or have a heavy tail, few "
    "replications show too little: their intervals hold less often than they say, with 100 as often."
)
"""What is told of quantiles over replications."""


def run_views(tables: Tables, top: int | None = None) -> list[View]:
    """Return the tables of a run that have rows, for people, in order; `top` bounds the rows of each."""
    made = [
        *_calls(tables.get("operations", ())),
        *_refusals(tables.get("codes", ())),
        *_resources(tables),
        *views_of("Jobs", tables.get("jobs", ()), JOBS),
        *_waits(tables.get("jobs", ())),
        *_endpoints(tables.get("endpoints", ())),
        *views_of("Webhook attempts", tables.get("attempts", ()), ATTEMPTS),
        *_delays(tables.get("delays", ())),
    ]
    return [bounded(view, top) for view in made]


def _calls(rows: Sequence[Row]) -> list[View]:
    """Calls by operation and outcome, all clients together, the most frequent first."""
    columns = {**dict.fromkeys(("operation", "outcome", "status"), "text"), "count": "count"}
    return views_of("Calls", sorted(rows, key=lambda row: -float(row["count"])), columns, main="count")


def _refusals(rows: Sequence[Row]) -> list[View]:
    """Refusals by code, in the order of the checks, all clients and operations together."""
    columns = {"check": "text", "code": "text", "count": "count", "share": "share"}
    return views_of(
        "Refusals", [{**row, "check": CHECKS[row["check"]]} for row in rows], columns, main="count"
    )


def _resources(tables: Tables) -> list[View]:
    """Slots, allowances and provider cost of each account, at the end and highest; the fullest first."""
    rows = tables.get("levels", ())
    fullest = sorted(rows, key=lambda row: -float(row["highest"]) / row["limit"] if row["limit"] else 0.0)
    changed = changed_limits(tables)
    named = [_readable(row, changed) for row in fullest]
    columns = {"account": "text", "resource": "text", "last": "", "highest": "", "limit": ""}
    note = "A limit that changed is told as it was at the end." if changed else ""
    title = "Slots, allowances and provider cost"
    return views_of(title, named, columns, note, {"last": "at the end"})


def _readable(row: Row, changed: Collection[tuple[str, str]]) -> Row:
    """Name provider cost; end intervals of all else at its limit, if that never changed: none exceeds it."""
    if row["resource"] == "spend":
        return {**row, "resource": "provider cost"}
    if (row["account"], row["resource"]) in changed or not row["limit"]:
        return row
    within = (name for name in ("last", "highest") if row[name] <= row["limit"])
    ends = ((f"{name}_high", row.get(f"{name}_high")) for name in within)
    return {**row, **{name: min(end, row["limit"]) for name, end in ends if end is not None}}


def _waits(rows: Sequence[Row]) -> list[View]:
    """How long jobs wait for a worker, and how busy the workers are."""
    together = [
        f"{_spanned(row, 'max_waiting')} {row['kind']}"
        for row in rows
        if row["max_waiting"] and row["utilisation"] is not None and row["utilisation"] < MOSTLY_IDLE
    ]
    notes = []
    if together:
        most = ", ".join(together)
        notes.append(
            f"Busy is a mean over the whole run; jobs that come together wait, up to {most} at once."
        )
    if any(row.get("wait_p95_low") is not None for row in rows):
        notes.append(OF_A_RUN)
    headings = {column: column.removeprefix("wait_") for column in WAITS} | {"utilisation": "busy"}
    return views_of("Waits for a worker", rows, WAITS, " ".join(notes), headings, main="wait_mean")


def _endpoints(rows: Sequence[Row]) -> list[View]:
    """What became of the webhook events of each endpoint."""
    unsent = ", ".join(
        f"{_spanned(row, 'lost_suppressed')} for {row['endpoint']}" for row in rows if row["lost_suppressed"]
    )
    note = f"Lost and never sent, as failures had disabled the endpoint: {unsent}." if unsent else ""
    return views_of("Webhook endpoints", rows, ENDPOINTS, note, {"duplicates": "sent twice"}, main="lost")


def _delays(rows: Sequence[Row]) -> list[View]:
    """From event to acknowledgement, a column a quantile."""
    columns = {row["quantile"]: _quantile(row["quantile"]) for row in rows}
    by_endpoint: dict[str, dict[str, Any]] = {}
    for row in rows:
        empty = {"endpoint": row["endpoint"], **dict.fromkeys(columns.values())}
        name = columns[row["quantile"]]
        delay = {name: row["delay"], f"{name}_low": row.get("low"), f"{name}_high": row.get("high")}
        by_endpoint.setdefault(row["endpoint"], empty).update(delay)
    quantities = {"endpoint": "text", **dict.fromkeys(columns.values(), "duration")}
    note = OF_A_RUN if any(row.get("low") is not None for row in rows) else ""
    return views_of("Delays of webhook deliveries", list(by_endpoint.values()), quantities, note)


def _quantile(quantile: float) -> str:
    """The short name of a quantile: p95 of 0.95, max of 1."""
    return "max" if quantile == 1 else f"p{quantile * 100:g}"


def _spanned(row: Row, column: str) -> str:
    """A count with the interval that stands beside it in the row."""
    return units.in_prose("count", row[column], row.get(f"{column}_low"), row.get(f"{column}_high"))


# The page


SHOWN_BY = (
    ("rate_limited", "windows"),
    ("limited", "windows"),
    ("cost_cap", "spend"),
    ("quota", "meters"),
    ("slot", "slots"),
    ("endpoints.", "timeline"),
    ("deliveries.", "timeline"),
    (".delay", "delays"),
    ("endpoints.", "deliveries"),
    ("jobs.", "jobs"),
    ("spend.", "spend"),
    ("meters.", "meters"),
    ("windows.", "windows"),
    ("refus", "refusals"),
    ("calls.", "windows"),
    ("clients.", "windows"),
)
"""What a metric's name has in it, and the plot that shows what it tells; the first that is drawn does."""


def run_page(heading: Heading, tables: Tables, drawn: Mapping[str, str]) -> str:
    """The page as text: the question, the answer, the figure that shows it, then the rest.

    `drawn` maps the name of a plot to its SVG; there may be none.
    """
    title = heading.title or heading.name
    first = _shows(heading, drawn)
    version = f"ranksim {escape(heading.version)}, seed {heading.seed}"
    parts = [
        *_head(heading, title, tables),
        *(figure(name, drawn[name]) for name in first),
        *_expectations(heading),
        *tables_of(run_views(tables, MOST_ROWS)),
        *plots({name: svg for name, svg in drawn.items() if name not in first}, "Further figures"),
        *assumptions_of(heading.rests_on, heading.overrides, heading.readings),
        *_notes(heading),
        *page_footer(heading.command, f"{version}: the same seed, the same result. "),
    ]
    return html_document(title, parts)


def _head(heading: Heading, title: str, tables: Tables) -> list[str]:
    parts = [f"<h1>{foldable(title)}</h1>"]
    parts += [f'<p class="soft">{escape(line)}</p>' for line in (heading.line, heading.averaged) if line]
    parts += [
        f"<p>{escape(paragraph)}</p>" for paragraph in heading.description.split("\n\n") if paragraph.strip()
    ]
    parts.append(f'<p class="answer">{foldable(answer_of(heading, tables))}</p>')
    failed = any(not verdict.holds for verdict in heading.verdicts)
    kind = "bad" if failed else "good" if heading.verdicts else "soft"
    parts.append(f'<p class="{kind}">{escape(heading.verdict)}</p>')
    parts += [f"<p>{foldable(note)}</p>" for note in heading.made_up]
    parts += [f'<p class="bad">{foldable(wrong.text)}</p>' for wrong in heading.verdicts if not wrong.holds]
    parts.append('<ul class="numbers">')
    parts += [
        f"<li><b{'' if good else BAD}>{escape(value)}</b>{escape(label)}</li>"
        for value, label, good in tiles_of(heading, tables)
    ]
    parts.append("</ul>")
    return parts


def _expectations(heading: Heading) -> list[str]:
    if not heading.verdicts:
        return []
    rows = [
        f'<tr><td class="{"good" if verdict.holds else "bad"}">{"holds" if verdict.holds else "failed"}</td>'
        f"<td>{foldable(verdict.text)}</td></tr>"
        for verdict in heading.verdicts
    ]
    return ["<h2>Expectations</h2>", *table(("verdict", "found"), 2, rows)]


def _shows(heading: Heading, drawn: Mapping[str, str]) -> list[str]:
    """Name the plot that shows the answer: of the first expectation that fails, or of the first there is.

    Where nothing is expected none does: all stand below.
    """
    if not heading.verdicts:
        return []
    candidates = [
        plot
        for verdict in most_telling(heading.verdicts)
        for word, plot in SHOWN_BY
        if word in verdict.text.partition(" ")[0]
    ]
    return [name for name in [*candidates, "refusals", *drawn] if name in drawn][:1]


def _notes(heading: Heading) -> list[str]:
    if not heading.notes:
        return []
    return ["<h2>Notes</h2>", "<ul>", *(f"<li>{with_links(note)}</li>" for note in heading.notes), "</ul>"]
