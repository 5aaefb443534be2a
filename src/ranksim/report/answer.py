"""Answers to questions, ready ones and studies: one base class, and what columns of tables are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ranksim.core.errors import BadInput, check_kind, one_among
from ranksim.core.extras import imported
from ranksim.report.document import MetricShown, as_text, document
from ranksim.report.table_spec import Row, Tables, TableSpec, row_unit
from ranksim.report.tables import ALL, View, bounded, fragment, further, requested
from ranksim.report.terminal import Styled, print_out, rendered

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ranksim.report.assumptions import Basis


class ReadyAnswer(ABC):
    """An answer to a question: its sentence, notes, tables and plots, from which every form is made.

    A question subclasses it: `kind` names the command, `title` heads its page, `TABLES` declares the tables,
    of which the first is the one that answers, and `plots` names what `plot` draws.
    """

    __slots__ = ()

    kind: ClassVar[str]
    TABLES: ClassVar[Mapping[str, TableSpec]]

    @property
    @abstractmethod
    def title(self) -> str:
        """The title of the page and of the document."""

    @property
    @abstractmethod
    def sentence(self) -> str:
        """The answer in a sentence or two."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the answer beside its sentence."""
        return ()

    @property
    def plots(self) -> tuple[str, ...]:
        """The names of the plots."""
        return ()

    @property
    @abstractmethod
    def tables(self) -> Tables:
        """The answer as plain rows, by table."""

    def rows(self) -> list[Row]:
        """The rows of the table that answers."""
        return self.tables[self._answering]

    @property
    def _answering(self) -> str:
        """The name of the table that answers."""
        return next(iter(self.TABLES))

    def views(self) -> list[View]:
        """The tables that have a title, for people."""
        tables = self.tables
        titled = ((table, tables[name]) for name, table in self.TABLES.items() if table.title)
        return [view for table, rows in titled for view in table.view(table.title, rows)]

    def plot(self, name: str = "", ax: Axes | None = None) -> Axes:
        """Draw one of `plots`, the first unless it is named.

        Raises BadInput when there is no such plot, or no matplotlib.
        """
        if not self.plots:
            raise BadInput("plot: there is nothing to draw here; `frame()` has the rows")
        name = name or self.plots[0]
        if name not in self.plots:
            raise BadInput(f"plot: expected {one_among(self.plots, name)}")
        return self._drawn(name, ax)

    @abstractmethod
    def _drawn(self, name: str, ax: Axes | None) -> Axes:
        """Draw one of `plots` into Axes, or a figure of its own."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.sentence}>"

    def _repr_html_(self) -> str:
        views = self.views()
        lines = [*self.notes, *further(views, "frame(NAME) has one")]
        return fragment(self.sentence, lines, requested(views))

    def summary(self) -> str:
        """Return the text that the command line prints."""
        views = self.views()
        more = further(views, "frame(NAME) has one")
        return printed(self.sentence, self.notes, requested(views), below=more)

    def frame(self, name: str = "", integers: bool = False) -> pd.DataFrame:
        """Return a table of the answer as a pandas frame: datetimes, timedeltas, and money in dollars.

        With `integers` they stay µs and µUSD. Without a `name` it is the table that answers. The names of
        columns of money end in `_usd`, with `integers` in `_uusd`; rows with a `unit` or `quantity` give the
        unit of what they compare, and `NAME.UNIT`, such as differences.money, has those of one unit, which
        their columns name: `a_usd`, with `integers` `a_uusd` and of times `a_us`. Raises BadInput when
        there is no such table, or no pandas.
        """
        from ranksim.report.frames import named_by_unit, rows_named

        name = name or self._answering
        table = name.partition(".")[0]
        frame = self._frame(table, rows_named(self.tables, name), integers)
        return named_by_unit(frame, name, self._by_row(table, frame), integers)

    def _by_row(self, table: str, frame: pd.DataFrame) -> list[str]:
        """Return the columns of a frame of a table that are in the unit of their row."""
        quantities = self._spec(table).quantities
        return [name for name in map(str, frame) if name in COMPARED or quantities.get(name) == ""]

    def _frame(self, name: str, rows: Sequence[Row], integers: bool) -> pd.DataFrame:
        """Return rows of a table as a frame; see `frame`."""
        from ranksim.report.frames import (
            typed_without_rows,
            with_number_ends,
            with_units,
            with_units_of_rows,
        )

        pandas = imported("pandas", "frames need pandas", "plots")
        table = self._spec(name)
        quantities = table.quantities
        frame: pd.DataFrame = pandas.DataFrame(rows, columns=table.columns or None)
        frame = typed_without_rows(frame, quantities)
        if integers:
            return with_number_ends(frame).rename(columns=table.named(map(str, frame), "uusd"))
        frame = with_units_of_rows(frame, self._by_row(name, frame))
        converted = {column: "money" for column in map(str, frame) if column.endswith("_uusd")}
        converted |= table.with_ends(CONVERTED)
        frame = with_units(frame, {column: of for column, of in converted.items() if column in frame})
        return with_number_ends(frame).rename(columns=table.named(map(str, frame), "usd"))

    def _spec(self, name: str) -> TableSpec:
        return self.TABLES.get(name, TableSpec())

    @property
    def metrics(self) -> dict[str, MetricShown]:
        """The numbers that have a name, as in JSON; what is not known of a row is None."""
        tables = self.tables
        metrics: dict[str, MetricShown] = {}
        for table_name, table in self.TABLES.items():
            for row in tables.get(table_name, ()) if table.metrics else ():
                words = [str(row[key]).replace(" ", "_") for key in table.keys if row[key] not in (None, "")]
                for column in table.metrics:
                    name = ".".join([*words, column.removesuffix("_uusd")])
                    number = _metric(row, column, table.quantities[column])
                    if name in metrics and number["value"] is not None:
                        number["value"] += metrics[name]["value"] or 0
                    metrics[name] = number
        return metrics

    def fields(self) -> dict[str, Any]:
        """Return fields of the document that are not those of every answer."""
        return {}

    def to_json(self) -> str:
        """Return the answer as JSON text."""
        shared = {
            "answer": self.sentence,
            "notes": self.notes,
            "metrics": self.metrics,
            "tables": self.tables,
        }
        return as_text(document(self.kind, self.title, **shared | self.fields()))

    def page(self, plots: bool = True) -> str:
        """Return the answer as an HTML page, with `plots` or without. Raises BadInput without matplotlib."""
        from ranksim.report.figure import to_svg

        return self._page({name: to_svg(self._figure(name)) for name in self.plots} if plots else {})

    def _page(self, images: Mapping[str, str], basis: Basis | None = None) -> str:
        from ranksim.report.page import tables_page

        return tables_page(self.title, [self.sentence, *self.notes], self.views(), images, basis)

    def save(self, directory: str | Path, plots: bool = True, basis: Basis | None = None) -> None:
        """Write result.json, tables/, plots/ and page.html, all or nothing, as `--out` does.

        The directory must be new, empty, or an answer written earlier, which is replaced. `basis` is what the
        page says of the question and of what the answer rests on. Raises BadInput.
        """
        check_kind("directory", directory, str | Path, "the path of a directory")
        from ranksim.core.files import new_directory, write_text
        from ranksim.report.frames import in_columns, save_tables

        with new_directory(Path(directory)) as folder:
            write_text(folder / "result.json", self.to_json())
            (folder / "tables").mkdir()
            filled = {name: self._spec(name).in_files(rows) for name, rows in self.tables.items() if rows}
            times = {name: self._spec(name).with_ends(TIMES) for name in filled}
            save_tables({name: in_columns(rows) for name, rows in filled.items()}, times, folder / "tables")
            images: dict[str, str] = {}
            if plots:
                from ranksim.report.figure import save_figure

                (folder / "plots").mkdir()
                for name in self.plots:
                    images[name] = save_figure(self._figure(name), folder / "plots" / f"{name}.png")
            write_text(folder / "page.html", self._page(images, basis))

    def _figure(self, name: str) -> Figure:
        from ranksim.report.figure import new_figure

        figure = new_figure()
        self.plot(name, figure.subplots())
        return figure


COMPARED = ("a", "b", "difference", "low", "high", "need", "there", "need_grown")
"""Columns that are in the unit of their row."""

TIMES = ("instant", "duration", "date")
"""Quantities that have a type in files."""

CONVERTED = (*TIMES, "money")
"""Quantities that have a type, or another unit, in a frame."""


def _metric(row: Row, column: str, unit: str) -> MetricShown:
    if column == "difference":
        return {"unit": row["difference_unit"], "value": row[column], "low": row["low"], "high": row["high"]}
    low, high = (row.get(f"{column}_{end}") for end in ("low", "high"))
    return {"unit": unit or row_unit(row), "value": row[column], "low": low, "high": high}


def printed(
    sentence: str,
    notes: Sequence[str],
    views: Sequence[View],
    most: int | None = None,
    below: Sequence[str] = (),
) -> Styled:
    """Return an answer as a terminal shows it, with lines `below`; `most` bounds the rows of each table."""
    from rich.text import Text

    tables = (part for view in views for part in (Text(), bounded(view, most)))
    last = (part for line in below for part in (Text(), Text(line)))
    return rendered([Text(sentence), *map(Text, notes), *tables, *last])


def show_answer(
    answer: ReadyAnswer,
    as_json: bool,
    out: Path | None,
    plots: bool,
    basis: Basis | None = None,
    most: int | None = None,
    tables: Collection[str] = (),
) -> None:
    """Print an answer, as text or as JSON, and write it into the directory `out`, if there is one.

    `most` bounds the rows that are printed of each table, and `tables` names those that are, if any; `basis`
    is as in `ReadyAnswer.save`. Of a table that has no rows to show that is told.
    """
    if out is not None:
        answer.save(out, plots, basis)
    if as_json:
        print_out(answer.to_json())
        return
    views = answer.views()
    names = [*dict.fromkeys(view.table for view in views)]
    more = [] if tables else further(views, f"--tables NAME shows one, --tables {ALL} shows all")
    if absent := [name for name in tables if name not in (ALL, *names)]:
        of = ", ".join(names) or "no table"
        more.append(f"No rows to show: {', '.join(absent)}; this answer has {of}.")
    print_out(printed(answer.sentence, answer.notes, requested(views, tables), most, more))
    if out is not None:
        print_out(f"\nWritten to {out}\n")
