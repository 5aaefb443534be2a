"""Records of other origin: access logs and series of counts, read bit by bit, and the JSON of strangers."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

from pydantic_core import from_json

from ranksim.core.clock import Micros, NoSuchInstant, instant
from ranksim.core.errors import BadInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}

DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)

Passed: TypeAlias = Callable[[float], object]
"""Told now and then which share of a file has been read."""

LONGEST_LINE = 128 << 20
"""Bytes that a line may have: an entry with the longest reply that is read, with room for its escapes."""

OFTEN = 1_000
"""Lines of a file between two shares."""

LONGEST_COUNT = 15
"""Digits that a count may have, so that any sum of counts fits 64 bits."""


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file for reading, unpacked by its suffix, and as it is stored.

    Raises BadInput, also for damage met while reading.
    """
    path = Path(path)
    try:
        with path.open("rb") as stored:
            if path.suffix not in OPENERS:
                yield stored, stored
                return
            with OPENERS[path.suffix](stored, "rb") as file:
                yield file, stored
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; check the path, which is read from {Path.cwd()}") from None
    except DAMAGED:
        raise BadInput(f"{path}: is damaged or cut short; expected a complete {path.suffix} file") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give a readable file") from None


def read_lines(path: str | Path, passed: Passed | None = None) -> Iterator[str]:
    """Read the lines of a text file, unpacked by its suffix, .gz or .xz. Raises BadInput."""
    for number, line in enumerate(read_raw_lines(path, passed), 1):
        yield decoded(f"{path}:{number}", line)


def read_whole(path: str | Path) -> bytes:
    """Read a file whole, unpacked by its suffix, .gz or .xz. Raises BadInput."""
    with _opened(path) as (file, _):
        return file.read()


def decoded(where: str, line: bytes) -> str:
    """Return a line of a text file as text. Raises BadInput, which names where it stands."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise BadInput(f"{where}: expected UTF-8 text; give a text file") from None


def read_raw_lines(path: str | Path, passed: Passed | None = None) -> Iterator[bytes]:
    """Read the lines of a text file as they are stored, unpacked as `read_lines` does. Raises BadInput."""
    with _opened(path) as (file, stored):
        size = os.fstat(stored.fileno()).st_size if passed is not None else 0
        for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE + 1), b""), 1):
            if len(line) > LONGEST_LINE:
                most = f"{LONGEST_LINE >> 20} MiB"
                raise BadInput(f"{path}:{number}: is longer than {most}; expected text in lines")
            if passed is not None and size and number % OFTEN == 0:
                passed(stored.tell() / size)
            yield line


def quote(line: str, most: int = 60) -> str:
    """Quote a line for an error message, cut where it is long."""
    text = line.strip()
    return repr(text if len(text) <= most else text[:most] + "…") if text else "an empty line"


def parsed(text: str | None) -> Any:
    """Parse the JSON of a stranger; None where there is none, it is not JSON, or nested hundreds deep."""
    if not text:
        return None
    try:
        return from_json(text)
    except ValueError as error:
        return None if "recursion" in str(error) else _parsed_slowly(text)


def parsed_object(text: str | None) -> dict[str, Any] | None:
    """Parse a JSON object of a stranger; None for anything else."""
    value = parsed(text)
    return value if isinstance(value, dict) else None


def _parsed_slowly(text: str) -> Any:
    """Parse JSON that the fast reader refuses for a lone surrogate, which no report could print."""
    try:
        value = json.loads(text)
        return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


class LogLine(NamedTuple):
    """One request of an access log; `t` in µs, to the second; `bytes` of the response; `user` "" for none."""

    t: Micros
    client: str
    method: str
    path: str
    status: int
    bytes: int
    user: str = ""


MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_LOG_LINE = re.compile(
    r"(?P<client>\S+) \S+ (?P<user>\S+) "
    r"\[(?P<day>[0-9]{2})/(?P<month>[A-Z][a-z]{2})/(?P<year>[0-9]{4})"
    r":(?P<time>[0-9:]{8}) (?P<zone>[+-][0-9]{4})\] "
    r'"(?P<method>[A-Z]+) (?P<path>\S+) HTTP/[0-9.]+" (?P<status>[0-9]{3}) (?P<bytes>[0-9]+|-)(?: ".*)?\s*'
)


def read_access_log(path: str | Path, passed: Passed | None = None) -> Iterator[LogLine]:
    """Read an access log in common or combined format, line by line; .gz and .xz are unpacked.

    Referrer and user agent are not looked at. Raises BadInput naming the line that is broken.
    """
    for number, line in enumerate(read_lines(path, passed), 1):
        yield log_line(f"{path}:{number}", line)


def log_line(where: str, line: str) -> LogLine:
    """Return what a line of an access log says. Raises BadInput, which names where it stands."""
    try:
        return _log_line(line)
    except ValueError as error:
        why = f", where {error}" if isinstance(error, NoSuchInstant) else ""
        raise BadInput(
            f"{where}: expected a line of an access log, such as 'host - - "
            f'[17/May/2015:10:05:03 +0000] "GET /path HTTP/1.1" 200 512\', found {quote(line)}{why}'
        ) from None


def _log_line(line: str) -> LogLine:
    match = _LOG_LINE.fullmatch(line)
    if match is None:
        raise ValueError("not a line of an access log")
    part = match.groupdict()
    month = MONTHS.index(part["month"]) + 1
    t = instant(f"{part['year']}-{month:02d}-{part['day']}T{part['time']}{part['zone']}")
    size = 0 if part["bytes"] == "-" else int(part["bytes"])
    user = "" if part["user"] == "-" else part["user"]
    return LogLine(t, part["client"], part["method"], part["path"], int(part["status"]), size, user)


def read_rates(path: str | Path, chunk: int = 1 << 16) -> Iterator[NDArray[np.int64]]:
    """Read a series of counts, whole numbers between blanks, in chunks of some thousand; .gz and .xz too.

    Raises BadInput naming the line of what is no count.
    """
    import numpy as np  # read late: few who read records read counts

    number, rest = 1, ""
    with _opened(path) as (file, _):
        while True:
            data = file.read(chunk)
            text = rest + data.decode("ascii", errors="replace")
            cut = len(text) if not data else max(text.rfind(" "), text.rfind("\n")) + 1
            complete, rest = text[:cut], text[cut:]
            words = complete.split()
            if words:
                if not "".join(words).isdecimal() or max(map(len, words)) > LONGEST_COUNT:
                    _refuse_counts(path, number, complete)
                yield np.array([int(word) for word in words], dtype=np.int64)
            number += complete.count("\n")
            if not data:
                return


def _refuse_counts(path: str | Path, first: int, text: str) -> None:
    for number, line in enumerate(text.split("\n"), first):
        for word in line.split():
            if not word.isdecimal() or len(word) > LONGEST_COUNT:
                raise BadInput(
                    f"{path}:{number}: expected counts, whole numbers between blanks, found {word[:40]!r}"
                )
