"""The tables of a result as files, Parquet where pyarrow is installed, else CSV; and as frames with units."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ranksim.core.errors import BadInput, one_among
from ranksim.core.extras import imported
from ranksim.core.files import new_file
from ranksim.core.money import MICRO_USD
from ranksim.report.table_spec import row_unit
from ranksim.report.tables import Row

if TYPE_CHECKING:
    import pandas as pd


IN_MICROS = ("duration", "instant", "money")
"""Units of numbers that are counted in µs or µUSD, a million to the second or dollar."""


def save_csv(rows: Sequence[Row], path: Path) -> None:
    """Write rows as CSV under the names of the first one, the file whole or not at all. Raises BadInput."""
    with new_file(path) as temporary:
        _csv(in_columns(rows), temporary)


def in_columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Return rows as columns, under the names of the first one."""
    return {column: [row[column] for row in rows] for column in rows[0]}


def save_tables(
    tables: Mapping[str, Mapping[str, list[Any]]],
    quantities: Mapping[str, Mapping[str, str]],
    directory: Path,
) -> None:
    """Write tables, each as its columns, into an existing directory: as Parquet, else as CSV.

    `quantities` says by table which columns are times, and which without any value are "whole". Parquet has
    times as such, and columns without values with the types of others; CSV has times in µs.
    """
    parquet = bool(find_spec("pyarrow"))
    for name, columns in tables.items():
        if parquet:
            _parquet(columns, quantities[name], directory / f"{name}.parquet")
        else:
            _csv(columns, directory / f"{name}.csv")


def _parquet(columns: Mapping[str, list[Any]], quantities: Mapping[str, str], path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    typed = {name: _typed(name, values, quantities.get(name, "")) for name, values in columns.items()}
    pyarrow.parquet.write_table(pyarrow.table(typed), path)


def _typed(name: str, values: list[Any], quantity: str) -> Any:
    """Return a column as Arrow has it; instants, durations and dates are times, to the µs."""
    import pyarrow
    import pyarrow.compute

    if quantity == "date":
        return pyarrow.compute.assume_timezone(pyarrow.array(values).cast(pyarrow.timestamp("us")), "UTC")
    if quantity not in ("instant", "duration"):
        array = pyarrow.array(values)
        types = {str: pyarrow.string(), bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64()}
        of = int if name in WHOLE else _type_of(name, quantity)
        return array.cast(types.get(of, array.type)) if pyarrow.types.is_null(array.type) else array
    micros = [None if value is None else round(value) for value in values]
    return pyarrow.array(
        micros, pyarrow.duration("us") if quantity == "duration" else pyarrow.timestamp("us", "UTC")
    )


def _csv(columns: Mapping[str, list[Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def rows_named(tables: Mapping[str, Sequence[Any]], name: str) -> list[Any]:
    """Return the rows of a table by its name, or by `NAME.UNIT`, such as points.duration, those of one unit.

    A table without rows has none of any unit. Raises BadInput for a table or a unit that there is not.
    """
    table, _, unit = str(name).partition(".")
    if table not in tables:
        raise BadInput(f"frame: expected {one_among(tables, table)}")
    if not unit:
        return list(tables[table])
    units = dict.fromkeys(row_unit(row) for row in tables[table])
    if units and unit not in units:
        raise BadInput(f"frame: {table} has rows of {one_among(units, unit)}")
    return [row for row in tables[table] if row_unit(row) == unit]


def with_units_of_rows(frame: pd.DataFrame, columns: Sequence[str], unit: str = "") -> pd.DataFrame:
    """Return a frame whose rows have a `unit` with durations as timedeltas and money in dollars.

    Instants are UTC datetimes. The column of units is `unit` or, unless named, that or `quantity`. Where rows
    of these stand beside others, all columns are of plain numbers. One without units is returned as it is.
    """
    units = next((name for name in (unit, "unit", "quantity") if name in frame), None)
    if units is None:
        return frame
    pandas = imported("pandas", "frames need pandas", "plots")
    types = {"duration": "timedelta64[us]", "instant": "datetime64[us, UTC]"}
    kinds = {types.get(unit, "") for unit in frame[units]}
    of_all = kinds.pop() if len(kinds) == 1 else ""
    convert = in_unit if of_all else as_number
    for column in columns:
        values = [convert(unit, given) for unit, given in zip(frame[units], frame[column], strict=True)]
        typed = pandas.Series(values, index=frame.index, dtype=object).infer_objects()
        frame[column] = typed.astype(of_all or float) if of_all or typed.isna().all() else typed
    return frame


def in_unit(unit: str, value: float | None) -> Any:
    """Return a number as frames have it: a Timedelta, a UTC Timestamp, dollars, or the number itself."""
    pandas = imported("pandas", "frames need pandas", "plots")
    match unit:
        case _ if value is None:
            return None
        case "duration" | "instant" if isnan(value):
            return pandas.NaT
        case "duration":
            return pandas.Timedelta(round(value), "us")
        case "instant":
            return pandas.Timestamp(round(value), unit="us", tz="UTC")
        case "money":
            return value / MICRO_USD
    return value


def as_number(unit: str, value: float | None) -> float | None:
    """Return a number without a type: seconds, of an instant of the epoch; dollars; or the number itself."""
    return value / MICRO_USD if value is not None and unit in IN_MICROS else value


def named_by_unit(
    frame: pd.DataFrame, name: str, columns: Sequence[str], integers: bool = False
) -> pd.DataFrame:
    """Return a frame requested as `NAME.UNIT` whose `columns` name that unit where no type tells it.

    Money is `a_usd`, as integers `a_uusd`, times as integers `a_us`; `a_low` becomes `a_usd_low`.
    """
    of_unit = {"money": "uusd", "duration": "us", "instant": "us"} if integers else {"money": "usd"}
    suffix = of_unit.get(name.partition(".")[2])
    named = {column: re.sub("(_low|_high)?$", rf"_{suffix}\1", column, count=1) for column in columns}
    return frame.rename(columns=named) if suffix else frame


def typed_without_rows(frame: pd.DataFrame, quantities: Mapping[str, str]) -> pd.DataFrame:
    """Return a frame; one without rows has text and numbers in the columns where tables with rows have them.

    Text is what is named in `TEXT`, or of the quantity "text" or "word"; a "flag" and a "list" are neither.
    """
    columns = map(str, () if len(frame) else frame)
    types = {column: _type_of(column, quantities.get(column, "")) for column in columns}
    return frame.astype({column: "str" if of is str else of for column, of in types.items()})


def _type_of(column: str, quantity: str) -> type:
    """The type of the values of a column that has none, by its quantity, if it is known, or its name."""
    types = {"text": str, "word": str, "flag": bool, "list": object, "whole": int}
    return types.get(quantity or "text" * (column in TEXT), float)


TEXT = (
    "account", "against", "algorithm", "answer", "assumed", "assumption", "client", "code", "days",
    "difference_unit", "endpoint", "found", "high_value", "key", "kind", "low_value", "metric", "operation",
    "outcome", "parameter", "point", "rate_class", "reason", "resource", "says", "settings", "text", "unit",
    "what", "who",
)  # fmt: skip
"""Columns that are text in every table, unless its quantities say otherwise."""

WHOLE = ("attempt", "check", "hour", "replication", "status", "tries")
"""Columns that are whole numbers in every table; in a frame, which may lack some, they are floats."""


def with_number_ends(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame where what has an interval, its ends, and gains are floats, NaN where unknown.

    So it is whatever the rows are: also where all are whole, or none is there. Times stay times.
    """
    for column in map(str, frame):
        number = column.endswith(ENDS) or f"{column}_low" in frame
        kind = frame[column].dtype.kind
        if number and (kind == "i" or (kind == "O" and frame[column].isna().all())):
            frame[column] = frame[column].astype(float)
    return frame


ENDS = ("low", "high", "gain")
"""How the columns are named, alone or after what they are about, of an interval's ends and of gains."""


def with_units(frame: pd.DataFrame, quantities: Mapping[str, str]) -> pd.DataFrame:
    """Return a frame whose instants are UTC datetimes, durations timedeltas, and money dollars.

    Times are rounded to the µs, as in files. `quantities` says which columns (µs, µUSD; a "date" is text) are
    what; `…_uusd` is then named `…_usd`.
    """
    pandas = imported("pandas", "frames need pandas", "plots")
    named = {}
    for column, quantity in quantities.items():
        if quantity == "date":
            frame[column] = pandas.to_datetime(frame[column], utc=True)
            continue
        given = pandas.to_numeric(frame[column])
        match quantity:
            case "instant":
                frame[column] = pandas.to_datetime(given.round(), unit="us", utc=True).dt.as_unit("us")
            case "duration":
                frame[column] = pandas.to_timedelta(given.round(), unit="us").dt.as_unit("us")
            case _:
                frame[column] = given / MICRO_USD
                named[column] = column.replace("_uusd", "_usd")
    return frame.rename(columns=named)
