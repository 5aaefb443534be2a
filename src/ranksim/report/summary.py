"""The summary of a run for a terminal: heading, verdict, and the tables, each cut to its first rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranksim.report.heading import Heading, numbers_of
from ranksim.report.tables import Tables, to_rich, views

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
    parts += [Text(), Text(", ".join(f"{value} {label}" for label, value in numbers_of(heading, tables)))]
    for view in views(tables, TOP):
        parts += [Text(), to_rich(view)]
    if heading.overrides:
        numbers = ", ".join(number for number, _, _ in heading.overrides)
        parts += [Text(), Text(f"Assumptions that differ from their default: {numbers}")]
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
