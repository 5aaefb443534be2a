"""The tables of a result as people read them, in a terminal or on a page.

A `View` is a table ready to show: text in cells, durations with their unit, money in dollars, counts with
thousands separators, and the interval where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ranksim.report import units

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table
    from rich.text import Text

Row: TypeAlias = Mapping[str, Any]
Tables: TypeAlias = Mapping[str, Sequence[Row]]

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


@dataclass(frozen=True, slots=True)
class View:
    """A table ready to show: title, headings, rows of text; columns from `words` on are numbers.

    A page shows one that `leads` above its plots.
    """

    title: str
    headings: tuple[str, ...]
    words: int
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    leads: bool = False


def views(tables: Tables, top: int | None = None) -> list[View]:
    """The views of a result that have rows, in order; `top` bounds the rows of each."""
    makers = (calls, refusals, resources, jobs, waits, endpoints, attempts, delays)
    return [bounded(view, top) for view in (make(tables) for make in makers) if view.rows]


def calls(tables: Tables) -> View:
    """Calls by operation and outcome, all clients together, the most frequent first."""
    rows = [
        (row["operation"], row["outcome"], units.text(row["status"]), _counted(row))
        for row in sorted(tables.get("operations", ()), key=lambda row: -float(row["count"]))
    ]
    return View("Calls", ("operation", "outcome", "status", "count"), 3, tuple(rows))


def refusals(tables: Tables) -> View:
    """Refusals by code, in the order of the checks, all clients and operations together."""
    rows = [
        (CHECKS[row["check"]], row["code"], _counted(row), _spanned(row, "share", "share"))
        for row in tables.get("codes", ())
    ]
    return View("Refusals", ("check", "code", "count", "share"), 2, tuple(rows))


def resources(tables: Tables) -> View:
    """Slots, allowances and provider cost of each account, at the end and highest; the fullest first."""
    rows = [
        (
            row["account"],
            "provider cost" if row["resource"] == "spend" else row["resource"],
            _spanned(row, "last", row["unit"]),
            _spanned(row, "highest", row["unit"]),
            units.write(row["unit"], row["limit"]),
        )
        for row in sorted(tables.get("levels", ()), key=_emptiness)
    ]
    headings = ("account", "resource", "at the end", "highest", "limit")
    return View("Slots, allowances and provider cost", headings, 2, tuple(rows))


def _emptiness(row: Row) -> float:
    return -float(row["highest"]) / row["limit"] if row["limit"] else 0.0


def jobs(tables: Tables) -> View:
    """Jobs by kind: how many were queued, joined and ended."""
    columns = ("queued", "done", "failed", "joined")
    rows = [_counts(row, "kind", *columns) for row in tables.get("jobs", ())]
    return View("Jobs", ("kind", *columns), 1, tuple(rows))


def waits(tables: Tables) -> View:
    """How long jobs wait for a worker, and how busy the workers are."""
    quantiles = ("wait_p50", "wait_p95", "wait_p99")
    rows = [
        (
            str(row["kind"]),
            units.write("duration", row["wait_mean"], row.get("low"), row.get("high")),
            *(_spanned(row, quantile, "duration") for quantile in quantiles),
            _spanned(row, "utilisation", "share"),
        )
        for row in tables.get("jobs", ())
    ]
    together = [
        f"{_spanned(row, 'max_waiting', 'count')} {row['kind']}"
        for row in tables.get("jobs", ())
        if row["max_waiting"] and row["utilisation"] is not None and row["utilisation"] < MOSTLY_IDLE
    ]
    notes = []
    if together:
        most = ", ".join(together)
        notes.append(
            f"Busy is a mean over the whole run; jobs that come together wait, up to {most} at once."
        )
    if any(row.get("wait_p95_low") is not None for row in tables.get("jobs", ())):
        notes.append(OF_A_RUN)
    headings = ("kind", "mean", "p50", "p95", "p99", "busy")
    return View("Waits for a worker", headings, 1, tuple(rows), " ".join(notes))


MOSTLY_IDLE = 0.5
"""Workers who are busy for less than this share of a run, while jobs wait, have peaks."""


OF_A_RUN = (
    "Quantiles are those of a replication, averaged. Of times that are mostly 0, or have a heavy tail, few "
    "replications show too little: their intervals hold less often than they say, with 100 as often."
)
"""What is told of quantiles over replications."""


def endpoints(tables: Tables) -> View:
    """What became of the webhook events of each endpoint."""
    rows = [
        (
            *_counts(row, "endpoint", "events", "acknowledged"),
            _counted(row, "lost"),
            *(_spanned(row, column, "count") for column in ("pending", "duplicates", "disabled")),
        )
        for row in tables.get("endpoints", ())
    ]
    headings = ("endpoint", "events", "acknowledged", "lost", "pending", "sent twice", "disabled")
    unsent = [
        f"{_spanned(row, 'lost_suppressed', 'count')} for {row['endpoint']}"
        for row in tables.get("endpoints", ())
        if row["lost_suppressed"]
    ]
    note = f"Lost and never sent, as failures had disabled the endpoint: {', '.join(unsent)}."
    return View("Webhook endpoints", headings, 1, tuple(rows), note if unsent else "")


def attempts(tables: Tables) -> View:
    """Webhook attempts by their number, all endpoints together."""
    rows = [_counts(row, "attempt", "sent", "acknowledged", "failed") for row in tables.get("attempts", ())]
    return View("Webhook attempts", ("attempt", "sent", "acknowledged", "failed"), 1, tuple(rows))


def delays(tables: Tables) -> View:
    """From event to acknowledgement, by quantile."""
    groups = _grouped(tables.get("delays", ()), "endpoint")
    quantiles = list(dict.fromkeys(row["quantile"] for row in tables.get("delays", ())))
    rows = []
    for (endpoint,), group in groups.items():
        by_quantile = {row["quantile"]: (row["delay"], row.get("low"), row.get("high")) for row in group}
        nothing = (None, None, None)
        rows.append(
            (
                endpoint,
                *(units.write("duration", *by_quantile.get(quantile, nothing)) for quantile in quantiles),
            )
        )
    names = (quantile_name(quantile) for quantile in quantiles)
    note = OF_A_RUN if any(row.get("low") is not None for row in tables.get("delays", ())) else ""
    return View("Delays of webhook deliveries", ("endpoint", *names), 1, tuple(rows), note)


def quantile_name(quantile: float) -> str:
    """The short name of a quantile: p95 of 0.95, max of 1."""
    return "max" if quantile == 1 else f"p{quantile * 100:g}"


@dataclass(frozen=True, slots=True)
class FittedView:
    """A view on a terminal: as a table where its numbers and words fit whole, else row by row, stacked."""

    view: View

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, or the rows, whichever loses nothing."""
        columns = [_widths(self.view, index) for index in range(len(self.view.headings))]
        spare = options.max_width - sum(least for least, _ in columns) - BETWEEN * len(columns)
        if spare < 0:
            yield _stacked(self.view, options.max_width)
        else:
            yield _table(self.view, _shared_out(columns, spare))


BETWEEN = 2
"""Columns of a terminal between two of a table, and behind the last."""


def _widths(view: View, index: int) -> tuple[int, int]:
    """The least width of a column, at which no word and no number breaks, and its whole width."""
    heading, cells = view.headings[index], [row[index] for row in view.rows]
    words = heading.split() if index >= view.words else " ".join((heading, *cells)).split()
    widest = max(map(len, (heading, *cells)))
    return max(map(len, (*(cells if index >= view.words else ()), *words)), default=0), widest


def _shared_out(columns: Sequence[tuple[int, int]], spare: int) -> list[int]:
    """The width of each column: what is spare goes to whichever lacks most."""
    widths = [least for least, _ in columns]
    lacking = [widest - least for least, widest in columns]
    for _ in range(min(spare, sum(lacking))):
        most = lacking.index(max(lacking))
        widths[most] += 1
        lacking[most] -= 1
    return widths


WIDEST = 100_000
"""Columns of what has no width, such as a pipe."""


def to_rich(view: View) -> FittedView:
    """The view for a terminal, which breaks text between words where it is narrow, and never a number."""
    return FittedView(view)


def _table(view: View, widths: Sequence[int]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(view.title, style="bold"), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0),
        caption=Text(view.note) if view.note else None, caption_justify="left", show_edge=False,
    )  # fmt: skip
    for index, (heading, width) in enumerate(zip(view.headings, widths, strict=True)):
        side: Literal["left", "right"] = "right" if index >= view.words else "left"
        table.add_column(Text(heading), justify=side, width=width, overflow="fold")
    for row in view.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _stacked(view: View, width: int) -> Text:
    """The rows one below the other, a line a cell; a cell with a word too long stands below its heading."""
    from rich.text import Text

    label = max(map(len, view.headings), default=0) + 1
    title = _filled("", view.title, width)
    lines: list[str] = []
    for at, row in enumerate(view.rows):
        lines += [""] if at else []
        for heading, cell in zip(view.headings, row, strict=True):
            longest = max(map(len, cell.split()), default=0)
            if label + longest <= width:
                lines += _filled(f"{heading:{label}}", cell, width)
            else:
                lines += _filled("", heading, width)
                lines += _filled("  " if longest + 2 <= width else "", cell, width)
    text = Text(no_wrap=True, overflow="ignore")
    text.append("\n".join(title), style="bold")
    text.append("\n".join(["", *lines, *_filled("", view.note, width)][not title :]))
    return text


def _filled(before: str, text: str, width: int) -> list[str]:
    """Lines of a text behind something, broken between words, or in one that is longer than a line."""
    further = " " * len(before)
    return wrap(text, width, initial_indent=before, subsequent_indent=further, break_on_hyphens=False) or (
        [before.rstrip()] if before.strip() else []
    )


def bounded(view: View, top: int | None) -> View:
    """The first rows of a view, noting how many more there are beside what it notes anyway."""
    left_out = len(view.rows) - top if top is not None else 0
    if left_out <= 0:
        return view
    more = f"And {left_out:,} more {'row' if left_out == 1 else 'rows'}."
    return replace(view, rows=view.rows[:top], note=f"{more} {view.note}".rstrip())


def _grouped(rows: Iterable[Row], *columns: str) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return groups


def _counted(row: Row, column: str = "count") -> str:
    """A count with the interval of its table."""
    return units.write("count", row[column], row.get("low"), row.get("high"))


def _spanned(row: Row, column: str, quantity: str) -> str:
    """A value with the interval that stands beside it in the row."""
    return units.write(quantity, row.get(column), row.get(f"{column}_low"), row.get(f"{column}_high"))


def _counts(row: Row, name: str, *columns: str) -> tuple[str, ...]:
    return (str(row[name]), *(_spanned(row, column, "count") for column in columns))
