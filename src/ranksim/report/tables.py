"""The tables of a result as people read them, in a terminal, a notebook or on a page.

A `View` is a table ready to show: text in cells, durations with their unit, money in dollars, counts with
thousands separators, and the interval where there is one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table
    from rich.text import Text

Row: TypeAlias = Mapping[str, Any]
Tables: TypeAlias = Mapping[str, Sequence[Row]]


@dataclass(frozen=True, slots=True)
class View:
    """A table ready to show: title, headings, rows of text; columns from `words` on are numbers.

    It belongs to the `table` of an answer. One that is `folded` is shown on request alone, and on a page at a
    click. A page shows one that `leads` above its plots. On a terminal it is a table where its numbers and
    words fit whole, and text is broken between words alone; else its rows are stacked.
    """

    title: str
    headings: tuple[str, ...]
    words: int
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    leads: bool = False
    table: str = ""
    folded: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = [_widths(self, index) for index in range(len(self.headings))]
        spare = options.max_width - sum(least for least, _ in columns) - BETWEEN * len(columns)
        yield _stacked(self, options.max_width) if spare < 0 else _table(self, widths_within(columns, spare))


BETWEEN = 2
"""Columns of a terminal between two of a table, and behind the last."""


def _widths(view: View, index: int) -> tuple[int, int]:
    """The least width of a column, at which no word and no number breaks, and its whole width."""
    heading, cells = view.headings[index], [row[index] for row in view.rows]
    words = heading.split() if index >= view.words else " ".join((heading, *cells)).split()
    widest = max(map(len, (heading, *cells)))
    return max(map(len, (*(cells if index >= view.words else ()), *words)), default=0), widest


def widths_within(columns: Sequence[tuple[int, int]], spare: int) -> list[int]:
    """The width of each column: what is spare goes to whichever lacks most."""
    widths = [least for least, _ in columns]
    lacking = [widest - least for least, widest in columns]
    for _ in range(min(spare, sum(lacking))):
        most = lacking.index(max(lacking))
        widths[most] += 1
        lacking[most] -= 1
    return widths


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


# Which tables are shown

ALL = "all"
"""What requests all tables."""


def of_table(name: str, views: Iterable[View], *, folded: bool = False) -> list[View]:
    """Return views as those of a table of an answer by its name, to be shown on request alone if `folded`."""
    return [replace(view, table=name, folded=folded) for view in views]


def requested(views: Sequence[View], names: Collection[str] = ()) -> list[View]:
    """Return the views of the tables of these names, or of ALL; without any those that are not folded."""
    return [view for view in views if ALL in names or (view.table in names if names else not view.folded)]


def further(views: Sequence[View], how: str) -> list[str]:
    """Return a line that names the tables that are folded and says `how` they are shown, if there are any."""
    names = dict.fromkeys(view.table for view in views if view.folded)
    begun = {view.table for view in views if not view.folded}
    listed = [name for name in names if name not in begun]
    listed += [f"more of {name}" for name in names if name in begun]
    return [f"Further tables: {', '.join(listed)}; {how}."] if names else []


# In a cell of a notebook

IN_A_CELL = 12
"""Rows of one table that a notebook shows."""


def fragment(title: str, lines: Iterable[str], views: Iterable[View], answer: str = "") -> str:
    """Return HTML for a cell of a notebook, which brings colours and fonts of its own."""
    parts = [f"<p><b>{escape(text)}</b></p>" for text in (title, answer) if text]
    parts += [f"<p>{escape(line)}</p>" for line in lines if line]
    for view in views:
        parts += _in_html(bounded(view, IN_A_CELL))
    return "\n".join(["<div>", *parts, "</div>"])


def _in_html(view: View) -> list[str]:
    rows = [
        _row("th", view.headings, view.words),
        *(_row("td", row, view.words) for row in view.rows),
    ]
    note = f"<p><small>{escape(view.note)}</small></p>" if view.note else ""
    caption = f'<caption style="text-align: left">{escape(view.title)}</caption>'
    return [f"<table>{caption}", *rows, "</table>", *([note] if note else [])]


def _row(tag: str, cells: Iterable[str], words: int) -> str:
    sides = (("left" if at < words else "right", cell) for at, cell in enumerate(cells))
    return (
        "<tr>"
        + "".join(f'<{tag} style="text-align: {side}">{escape(c)}</{tag}>' for side, c in sides)
        + "</tr>"
    )
