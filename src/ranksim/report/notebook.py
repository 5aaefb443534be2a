"""Results as a notebook shows them: a title, a few lines and tables, as HTML without style sheet."""

from collections.abc import Iterable
from html import escape

from ranksim.report.tables import View, bounded

MOST_ROWS = 12
"""Rows of one table that a notebook shows."""


def fragment(title: str, lines: Iterable[str], views: Iterable[View]) -> str:
    """Return HTML for a cell of a notebook, which brings colours and fonts of its own."""
    parts = [f"<p><b>{escape(title)}</b></p>", *(f"<p>{escape(line)}</p>" for line in lines if line)]
    for view in views:
        parts += _table(bounded(view, MOST_ROWS))
    return "\n".join(["<div>", *parts, "</div>"])


def _table(view: View) -> list[str]:
    rows = [_row("th", view.headings, view.words), *(_row("td", row, view.words) for row in view.rows)]
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
