"""Answers to ready questions, those of capacity and of pricing: their form, printing, results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ranksim.core.errors import BadInput, listed
from ranksim.core.extras import imported
from ranksim.report import units
from ranksim.report.document import Kind, as_text, document
from ranksim.report.tables import View, bounded, to_rich
from ranksim.report.terminal import Styled, rendered

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from ranksim.report.basis import Basis

Row = dict[str, Any]
Tables = dict[str, list[Row]]
Quantities = Mapping[str, Mapping[str, str]]
"""By table, the columns that are instants, durations, money or dates."""


class ReadyAnswer(Protocol):
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


def views_of(title: str, rows: Sequence[Row], columns: Mapping[str, str], note: str = "") -> list[View]:
    """Return rows as a table for people, or none where there are no rows.

    `columns` maps a column to its quantity (a key of `units.FORMATS`) or "text"; columns of text come first.
    A column whose name is followed by `_low` and `_high` shows its interval.
    """
    words = sum(quantity == "text" for quantity in columns.values())
    cells = tuple(tuple(_cell(row, column, quantity) for column, quantity in columns.items()) for row in rows)
    headings = tuple(HEADINGS.get(column, column.replace("_", " ")) for column in columns)
    return [View(title, headings, words, cells, note)] if rows else []


HEADINGS = {
    "add_ons": "add-ons",
    "cost": "provider cost",
    "even": "breaks even at",
    "upper": "share at most",
    "revenue": "revenue (invoices)",
    **{f"{what}{side}": f"{what.replace('_', ' ')}{side.upper()}"
       for what in ("", "under_", "uplift_") for side in "ab"},
}  # fmt: skip
"""Columns whose name alone does not say whose money it is, and those of two sides."""


def _cell(row: Row, column: str, quantity: str) -> str:
    return units.write(quantity, row[column], row.get(f"{column}_low"), row.get(f"{column}_high"))


class FramedAnswer(Protocol):
    """An answer whose tables become frames: `quantities` says what columns of which table are."""

    @property
    def quantities(self) -> Quantities:
        """What the columns are; the first table is the one that answers."""

    def tables(self) -> Tables:
        """The answer as plain rows, by table."""


def answer_frame(answer: FramedAnswer, name: str = "", integers: bool = False) -> pd.DataFrame:
    """Return a table of an answer as a pandas frame: datetimes, timedeltas, and money in dollars.

    With `integers` they stay µs and µUSD. Without a `name` it is the table that answers. Columns `…_uusd` are
    named `…_usd`; rows with a `unit` or `quantity` tell it of what they compare. Raises BadInput when there
    is no such table, or no pandas.
    """
    from ranksim.report.frames import with_number_ends, with_units, with_units_of_rows

    tables, name = answer.tables(), name or next(iter(answer.quantities))
    rows = tables.get(name)
    if rows is None:
        raise BadInput(f"frame: expected one of {listed(tables, name)}, found {name!r}")
    pandas = imported("pandas", "frames need pandas", "plots")
    frame: pd.DataFrame = pandas.DataFrame(rows)
    if integers:
        return with_number_ends(frame)
    frame = with_units_of_rows(frame, [name for name in COMPARED if name in frame])
    known = {column: "money" for column in map(str, frame) if column.endswith("_uusd")}
    for column, quantity in answer.quantities.get(name, {}).items():
        known |= dict.fromkeys((column, f"{column}_low", f"{column}_high"), quantity)
    return with_number_ends(
        with_units(frame, {column: of for column, of in known.items() if column in frame})
    )


COMPARED = ("a", "b", "difference", "low", "high", "need", "there", "need_grown")
"""Columns that are in the unit of their row."""


def printed(sentence: str, notes: Sequence[str], views: Sequence[View], most: int | None = None) -> Styled:
    """Return an answer as a terminal shows it; `most` bounds the rows of each table."""
    from rich.text import Text

    tables = (part for shown in views for part in (Text(), to_rich(bounded(shown, most))))
    return rendered([Text(sentence), *map(Text, notes), *tables])


def told(kind: Kind, answer: ReadyAnswer, title: str) -> str:
    """The answer as JSON text."""
    from ranksim.report.named import metrics_of

    tables = answer.tables()
    named = metrics_of(kind, tables)
    return as_text(
        document(kind, title, answer=answer.sentence, notes=answer.notes, metrics=named, tables=tables)
    )


def write(
    kind: Kind,
    answer: ReadyAnswer,
    title: str,
    out: Path,
    plots: bool = True,
    basis: Basis | None = None,
) -> None:
    """Write result.json, tables/, plots/ and page.html into a directory, all or nothing. Raises BadInput.

    `basis` is what the page tells of the question and of what the answer rests on.
    """
    from ranksim.core.files import new_directory, write_text
    from ranksim.report.frames import save_tables
    from ranksim.report.page import tables_page

    with new_directory(out) as folder:
        write_text(folder / "result.json", told(kind, answer, title))
        (folder / "tables").mkdir()
        filled = {name: rows for name, rows in answer.tables().items() if rows}
        save_tables(filled, {name: tuple(rows[0]) for name, rows in filled.items()}, folder / "tables")
        images: dict[str, str] = {}
        if plots:
            (folder / "plots").mkdir()
            images = {name: _saved(answer, name, folder / "plots") for name in answer.plots}
        page = tables_page(title, [answer.sentence, *answer.notes], answer.views(), images, basis)
        write_text(folder / "page.html", page)


def _saved(answer: ReadyAnswer, name: str, folder: Path) -> str:
    from ranksim.report.figure import new_figure, save

    figure = new_figure()
    answer.draw(name, figure.subplots())
    return save(figure, folder / f"{name}.png")
