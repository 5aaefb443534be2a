"""Recorded calls as a warehouse exports them: the rows of a CSV or Parquet file as exchanges of a trace."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from ranksim.core.clock import DAY, MILLISECOND, SECOND, Micros, NoSuchInstant, instant
from ranksim.core.contract.file_kinds import told_other
from ranksim.core.errors import BadInput, no_such, read_at
from ranksim.core.extras import imported
from ranksim.core.records import (
    LONGEST_LINE,
    LogLine,
    Passed,
    decoded,
    log_line,
    quote,
    read_lines,
    read_raw_lines,
)
from ranksim.core.trace import MOST_UNITS, Exchange

REQUIRED = ("time", "method", "path")
LENGTHS = {"duration_s": SECOND, "duration_ms": MILLISECOND}
"""What may say how long a call took, and its unit (µs)."""

FIELDS = (
    *REQUIRED, "account", "status", "body", "error_code", "response", "key", "idempotency_key", *LENGTHS,
    "request_id", "units",
)  # fmt: skip
"""What a column may hold of each call; three are needed, what others lack counts as not recorded."""

UNREADABLE = "in lines or rows that cannot be read"

TABLES = (".csv", ".tsv", ".parquet")
UNNAMED_KEY = "log"  # of all calls of an account whose keys were not recorded
COLUMNS_KEY = b"ranksim_columns"  # in the metadata of a file that `columns.save_columns` wrote

EPOCHS = ((10**8, SECOND), (10**11, MILLISECOND), (10**14, 1))
"""From which number on, to the thousandfold, an epoch is in units of so many µs; so from 1973 to 5138."""

Bad: TypeAlias = Callable[[BadInput], object]
"""Takes what is wrong with a row: it raises that, or else the row is left out."""

Row: TypeAlias = tuple[str, Sequence[str]]  # where it stands, and its values


@dataclass
class Duplicates:
    """Which rows or lines of a recording say all that an earlier one says: how many, and the first of them.

    One that has the request id of the earlier one, too, is the same call, exported a second time, and is left
    out. Others may be two calls within a second, and are not.
    """

    same_calls: int = 0
    first_same: str = ""
    alike: int = 0
    first_alike: str = ""

    def __post_init__(self) -> None:
        self._read: set[int] = set()

    def is_same_call(self, where: str, says: Hashable, request_id: str) -> bool:
        """Return whether a row, which `says` its values, is a call that was read before; count it."""
        content, size = hash(says), len(self._read)
        self._read.add(content)
        if len(self._read) > size:
            return False
        if request_id:
            self.same_calls += 1
            self.first_same = self.first_same or Path(where).name
        else:
            self.alike += 1
            self.first_alike = self.first_alike or Path(where).name
        return bool(request_id)

    @property
    def note(self) -> str:
        """What to know of them, in a sentence or two; "" where there are none."""
        notes = []
        if self.same_calls:
            notes.append(
                "Of calls that stand there more than once, with all values and the request id of an earlier "
                f"one, {self.same_calls:,} were left out, the first at {self.first_same}."
            )
        if self.alike:
            notes.append(
                f"Calls that say in all that is read what an earlier one says: {self.alike:,}, the first at "
                f"{self.first_alike}; each counts, and is billed, as a call of its own, since nothing shows "
                "whether it was made again or exported twice: in a table a request id does, "
                f"--columns-are request_id=COLUMN."
            )
        return " ".join(notes)


def is_parquet(path: Path) -> bool:
    """Return whether a file begins as Parquet files do."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False


def is_table(path: Path) -> bool:
    """Return whether a file is Parquet, or is named as tables are, packed or not: one of text is CSV."""
    return is_parquet(path) or path.name.removesuffix(".gz").removesuffix(".xz").endswith(TABLES)


def columns_with(path: Path, columns_are: Mapping[str, str], account_from: str) -> dict[str, str]:
    """Return which column holds a field, with the one that names the account, if any. Raises BadInput."""
    columns = dict(columns_are)
    if account_from and columns.setdefault("account", account_from) != account_from:
        raise BadInput(f"{path}: --columns-are and --account-from name two columns of accounts; give one")
    return columns


def read_table(
    path: Path,
    columns_are: Mapping[str, str],
    passed: Passed | None,
    bad: Bad,
    *,
    required: Sequence[str] = REQUIRED,
    duplicates: Duplicates | None = None,
) -> Iterator[Exchange]:
    """Read the rows of a CSV file (.gz and .xz too) or a Parquet file as exchanges.

    `columns_are` maps one of `FIELDS` to the name of its column, where that is another. Instants are ISO
    8601, in UTC where they have no zone, or s, ms or µs since 1970; bodies are JSON. A call is sent at its
    time and answered after its duration, at once where none is given; its error code is its `error`. `bad`
    is handed what is wrong with a row, of CSV for each line that its quotes swallow; `duplicates` which rows
    say the same, of which the same calls are left out. Raises BadInput, also for a `required` field without a
    column.
    """
    for field in columns_are:
        if field not in FIELDS:
            raise BadInput(f"--columns-are: {no_such('field of a call', field, FIELDS)}")
    taken = set(columns_are.values())
    column_of = {field: field for field in FIELDS if field not in taken} | dict(columns_are)
    rows = _of_parquet(path, column_of.values()) if is_parquet(path) else _of_csv(path, passed, bad)
    where, header = next(rows, (f"{path}:1", ()))
    places = _places(where, header, column_of, (*required, *columns_are))
    duplicates = Duplicates() if duplicates is None else duplicates
    for where, row in rows:
        try:
            made = _exchange(where, header, row, places)
        except BadInput as error:
            bad(error)
        else:
            says = {field: row[place] for field, place in places.items()}
            if not duplicates.is_same_call(where, tuple(says.values()), says.get("request_id", "").strip()):
                yield made


def _places(
    where: str, header: Sequence[str], column_of: Mapping[str, str], needed: Sequence[str]
) -> dict[str, int]:
    """Return the place of each field in a row. Raises BadInput for a `needed` one without a column."""
    for field in (*needed, *column_of):
        column = column_of.get(field, field)
        if header.count(column) > 1 or (field in needed and column not in header):
            problem = f"found {quote(', '.join(header), 200)}" if column not in header else "found several"
            raise BadInput(
                f"{where}: expected one column {column!r}, the {field} of each call, {problem}; "
                f"name its column: --columns-are {field}=COLUMN"
            )
    return {field: header.index(column) for field, column in column_of.items() if column in header}


def read_log(
    path: Path, account_from: str, passed: Passed | None, bad: Bad, duplicates: Duplicates
) -> Iterator[tuple[str, LogLine]]:
    """Yield the lines of an access log, and where each stands.

    `account_from` is something of it that names an account, or "". `bad` is handed what is wrong with a line;
    `duplicates` which lines say the same. Raises BadInput.
    """
    if account_from not in ("", "address", "user"):
        raise BadInput(
            f"{path}: --account-from: an access log has user or address, found {account_from!r}; "
            "write its calls as CSV, with a column for it"
        )
    for number, raw in enumerate(read_raw_lines(path, passed), 1):
        where = f"{path}:{number}"
        try:
            line = log_line(where, decoded(where, raw))
        except BadInput as error:
            bad(error)
        else:
            duplicates.is_same_call(where, raw.strip(), "")
            yield where, line


# Rows


def _of_csv(path: Path, passed: Passed | None, bad: Bad) -> Iterator[Row]:
    lines = read_lines(path, passed)
    first = next(lines, "").removeprefix("\ufeff")
    csv.field_size_limit(LONGEST_LINE)
    reader = csv.reader(chain([first], lines), delimiter=max(",;\t", key=first.count), strict=True)
    while True:
        before = reader.line_num
        where = f"{path}:{before + 1}"
        try:
            row = next(reader, None)
        except csv.Error as error:
            for _ in range(before, reader.line_num):
                bad(
                    BadInput(
                        f"{where}: expected CSV, in which a quote within quotes is doubled ({error}); "
                        "export it so, as RFC 4180 has it"
                    )
                )
            continue
        if row is None:
            return
        if row:
            yield where, row


def _of_parquet(path: Path, needed: Collection[str]) -> Iterator[Row]:
    """Yield the names of all columns, and then each row; what is not `needed` is left empty in it."""
    arrow = imported("pyarrow", "Parquet needs pyarrow", "plots")
    parquet = imported("pyarrow.parquet", "Parquet needs pyarrow", "plots")
    try:
        file = parquet.ParquetFile(path)
        if COLUMNS_KEY in (file.schema_arrow.metadata or {}):
            raise BadInput(f"{path}: {told_other('columns', 'trace')}")
        header = file.schema_arrow.names
        yield str(path), header
        counter = count(1)
        for batch in file.iter_batches(columns=[name for name in header if name in needed]):
            columns = [_texts(arrow, batch.column(name)) if name in needed else repeat("") for name in header]
            for row in zip(*columns, strict=False):  # without end where nothing is needed
                yield f"{path}: row {next(counter)}", row
    except (OSError, arrow.ArrowException) as error:
        raise BadInput(f"{path}: expected a complete Parquet file ({error}); export it again") from None


def _texts(arrow: Any, column: Any) -> list[str]:
    """Return the values of a column as CSV would have them, instants as µs, structures as JSON."""
    if arrow.types.is_timestamp(column.type):
        column = column.cast(arrow.timestamp("us", column.type.tz), safe=False).cast(arrow.int64())
    return [_text(value) for value in column.to_pylist()]


def _text(value: Any) -> str:
    if value is None or value != value:  # NaN stands for what is missing among numbers
        return ""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, dict):  # in which a structure has all fields, null where they were not given
        return json.dumps({name: field for name, field in value.items() if field is not None}, default=str)
    return str(value)


# Values


def exchange_of(
    where: str,
    at: Micros,
    account: str,
    method: str,
    url: str,
    status: int | None,
    key: str | None = UNNAMED_KEY,
    headers: dict[str, str] | None = None,
    lasted: Micros = 0,
    **replied: Any,
) -> Exchange:
    """Return the exchange of a call to a URL, or to a path with a query; `status` None: without a reply.

    It `lasted` that long (µs).
    """
    try:
        parts = urlsplit(url)
        path, query = parts.path, dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:  # what clients send need not be a URL
        path, query = url, {}
    return Exchange(
        id=where, sent=at, received=None if status is None else at + lasted, operations=(), method=method,
        path=path, query=query, status=status, api_key=key, account=account, request_headers=headers,
        surface="graphql" if path.endswith("/graphql") else "rest", **replied,
    )  # fmt: skip


def _exchange(
    where: str, header: Sequence[str], values: Sequence[str], places: Mapping[str, int]
) -> Exchange:
    """Return the exchange of a row, whose fields have their `places`. Raises BadInput."""
    if len(values) != len(header):
        raise BadInput(
            f"{where}: expected {len(header)} values, as many as the first line has, found {len(values)}; "
            "put values that contain a separator or a line break in quotes"
        )
    row = {field: values[place].strip() for field, place in places.items()}
    at = read_at(f"{where}: time", _instant, row["time"])
    status = read_at(f"{where}: status", _status, row.get("status", ""))
    repeated, wanted = row.get("idempotency_key"), read_at(f"{where}: units", _units, row.get("units", ""))
    lasted = sum(
        read_at(f"{where}: {name}", partial(_length, unit), row.get(name, ""))
        for name, unit in LENGTHS.items()
    )
    return exchange_of(
        where, at, row.get("account", ""), row["method"].upper(), row["path"], status,
        row.get("key") or UNNAMED_KEY, {"Idempotency-Key": repeated} if repeated else None, lasted,
        body=row.get("body"), response=row.get("response") or None, error=row.get("error_code") or None,
        units=wanted,
    )  # fmt: skip


def _units(text: str) -> int | None:
    """Read how many units a job wants; empty where nobody says. Raises ValueError."""
    if not text:
        return None
    with suppress(InvalidOperation):
        number = Decimal(text)  # a column of whole numbers with gaps is written as one of fractions
        if number.is_finite() and 0 <= number <= MOST_UNITS and number == int(number):
            return int(number)
    raise ValueError(
        f"expected a whole number of pages, questions or results, or nothing, found {quote(text)}"
    )


def _instant(text: str) -> Micros:
    """Read ISO 8601, or an epoch whose unit its size tells. Raises ValueError."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        for zone in ("", "Z", "00"):  # as it is; without a zone; with an offset of hours alone
            try:
                at = instant(text.removesuffix(" UTC") + zone)
            except NoSuchInstant:
                raise
            except ValueError:
                continue
            if at >= 0:
                return at
    else:
        for least, unit in EPOCHS:
            if number.is_finite() and least <= number < least * 1000:
                return int(number * unit)
    raise ValueError(
        f"expected an instant such as 2026-03-01T00:00:00Z, or s, ms or µs since 1970, found {quote(text)}; "
        f"name the column of instants: --columns-are time=COLUMN"
    )


def _length(unit: Micros, text: str) -> Micros:
    """Read how long a call took, 0 where nobody says. Raises ValueError."""
    with suppress(InvalidOperation):
        length = Decimal(text or 0) * unit
        if 0 <= length < DAY:
            return math.ceil(length)
    raise ValueError(f"expected a number from 0 on, of less than a day, found {quote(text)}")


def _status(text: str) -> int | None:
    """Read a status, None where no reply was seen. Raises ValueError."""
    digits = text.removesuffix(".0")  # as integers beside missing ones are often exported
    if digits and not re.fullmatch("[1-5][0-9]{2}", digits):
        raise ValueError(f"expected 100 to 599, or nothing where no reply was seen, found {quote(text)}")
    return int(digits) if digits else None
