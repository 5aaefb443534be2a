"""What the answers share: their form, and how they are written into a directory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ranksim.errors import BadInput
from ranksim.report.tables import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = dict[str, Any]
Tables = dict[str, list[Row]]

FEWEST = 2
"""Replications without which there is no interval."""


class Answer(Protocol):
    """What every question is answered with."""

    @property
    def sentence(self) -> str:
        """The answer in a sentence or two."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of how it was found."""

    def tables(self) -> Tables:
        """The answer as plain rows, by table."""

    def views(self) -> list[View]:
        """The answer as tables for people."""

    def draw(self, name: str, ax: Axes | None = None) -> Axes:
        """Draw a plot by name, one of `plots`."""

    @property
    def plots(self) -> tuple[str, ...]:
        """The plots that there are."""


def document(answer: Answer, title: str) -> str:
    """The answer as JSON text; `ranksim_result` marks a file of ours."""
    whole = {
        "ranksim_result": 1,
        "title": title,
        "answer": answer.sentence,
        "notes": list(answer.notes),
        "tables": answer.tables(),
    }
    return json.dumps(whole, indent=1, ensure_ascii=False)


def write(answer: Answer, title: str, out: Path, plots: bool = True) -> None:
    """Write result.json, tables/, plots/ and page.html into a directory, all or nothing. Raises BadInput."""
    from ranksim.files import new_directory
    from ranksim.report.frames import save_tables
    from ranksim.report.page import tables_page

    with new_directory(out) as folder:
        (folder / "result.json").write_text(document(answer, title), encoding="utf-8")
        (folder / "tables").mkdir()
        filled = {name: rows for name, rows in answer.tables().items() if rows}
        save_tables(filled, {name: tuple(rows[0]) for name, rows in filled.items()}, folder / "tables")
        images: dict[str, bytes] = {}
        if plots:
            (folder / "plots").mkdir()
            images = {name: _png(answer, name) for name in answer.plots}
            for name, image in images.items():
                (folder / "plots" / f"{name}.png").write_bytes(image)
        page = tables_page(title, [answer.sentence, *answer.notes], answer.views(), images)
        (folder / "page.html").write_text(page, encoding="utf-8")


def _png(answer: Answer, name: str) -> bytes:
    from ranksim.report.figure import new_figure, to_png

    figure = new_figure()
    answer.draw(name, figure.subplots())
    return to_png(figure)


def check_replications(replications: int) -> None:
    """Raise BadInput unless there are enough replications for an interval."""
    if replications < FEWEST:
        raise BadInput(f"replications: expected at least {FEWEST}, without which there is no interval, found "
                       f"{replications}")  # fmt: skip


def view_of(title: str, rows: Sequence[Row], columns: Mapping[str, str], note: str = "") -> list[View]:
    """A table for people, or none where there are no rows."""
    from ranksim.capacity.shown import view

    return [view(title, rows, columns, note)] if rows else []
