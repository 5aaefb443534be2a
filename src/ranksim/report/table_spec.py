"""What the columns of a table of an answer are, and how its rows become a table for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from ranksim.report import units
from ranksim.report.tables import View

Row = dict[str, Any]
Tables = dict[str, list[Row]]
Columns = Mapping[str, str]
"""Column to its quantity: a key of `units.FORMATS`, "date", "text", or "" for the unit of the row; "value" is
text that stands as numbers do."""

ENDS = ("", "_low", "_high")
"""A column, and the ends of its interval."""

NONE: Columns = MappingProxyType({})


class TableSpec(NamedTuple):
    """What the columns of a table are: those that people are shown, in order, and others with a quantity.

    Shown columns of text come first. The numbers of the `metrics` have a name in JSON: what the row has in
    its `keys` and the column, without the unit at its end, with points between and no spaces: agency.price.
    Rows of one name are added up. A table with a `title` is shown to people as it is. The ends of the
    interval of the `main` column are named `low` and `high` alone. Files and frames have the `columns` of
    the rows, unless these are given.
    """

    visible: Columns = NONE
    others: Columns = NONE
    keys: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    headings: Mapping[str, str] = NONE
    title: str = ""
    main: str = ""
    columns: tuple[str, ...] = ()

    @property
    def quantities(self) -> dict[str, str]:
        """By column its quantity."""
        return {**self.visible, **self.others}

    def with_ends(self, quantities: Iterable[str]) -> dict[str, str]:
        """Return the columns of some quantities, and the ends of their intervals, by name."""
        of = {column: quantity for column, quantity in self.quantities.items() if quantity in quantities}
        return {f"{column}{end}": quantity for column, quantity in of.items() for end in ENDS}

    def in_files(self, rows: Sequence[Row]) -> list[Row]:
        """Return rows as files have them: the name of a column of money, of µUSD, ends in _uusd there."""
        names = self.named(self.columns or tuple(rows[0]), "uusd")
        return [{name: row[column] for column, name in names.items()} for row in rows]

    def named(self, columns: Iterable[str], unit: str) -> dict[str, str]:
        """Return columns and their names where those of money end in a `unit`, "usd" or "uusd"."""
        names = {column: column for column in columns}
        for column in (name for name, quantity in self.quantities.items() if quantity == "money"):
            of = column.removesuffix("_uusd")
            names |= {f"{column}{end}": f"{of}_{unit}{end}" for end in ENDS if f"{column}{end}" in names}
        return names

    def without_empty(self, rows: Sequence[Row]) -> TableSpec:
        """Return the table that shows people only columns with a value in one of some rows."""
        visible = {
            name: of for name, of in self.visible.items() if any(row[name] is not None for row in rows)
        }
        return self._replace(visible=visible)

    def view(self, title: str, rows: Sequence[Row], note: str = "") -> list[View]:
        """Return rows of the table for people, or no view where there are no rows."""
        return views_of(title, rows, self.visible, note, self.headings, self.main)


def row_unit(row: Mapping[str, Any]) -> str:
    """Return the unit that a row says its numbers are in."""
    return str(row.get("unit", row.get("quantity", "count")))


def views_of(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    columns: Columns,
    note: str = "",
    headings: Mapping[str, str] = NONE,
    main: str = "",
) -> list[View]:
    """Return rows as a table for people, or no view where there are no rows.

    `columns` are as in `TableSpec`; `headings` has those that are not the column's name. A column whose name
    is followed by `_low` and `_high` shows its interval; the ends of the `main` one are named that alone.
    """
    words = sum(quantity == "text" for quantity in columns.values())
    ends = {column: "" if column == main else f"{column}_" for column in columns}
    cells = tuple(
        tuple(
            units.write(
                quantity or row_unit(row),
                row[column],
                row.get(f"{ends[column]}low"),
                row.get(f"{ends[column]}high"),
            )
            for column, quantity in columns.items()
        )
        for row in rows
    )
    named = {**HEADINGS, **headings}
    titles = tuple(named.get(column, column.replace("_", " ")) for column in columns)
    return [View(title, titles, words, cells, note)] if rows else []


HEADINGS = {
    "add_ons": "add-ons",
    "cost": "provider cost",
    "even": "breaks even at",
    "upper": "share at most",
    "revenue": "revenue (invoices)",
    **{f"{what}{side}": f"{what.replace('_', ' ')}{side.upper()}"
       for what in ("", "under_", "potential_", "revenue_", "margin_") for side in "ab"},
}  # fmt: skip
"""Columns whose name alone does not say whose money it is, and those of two sides."""
