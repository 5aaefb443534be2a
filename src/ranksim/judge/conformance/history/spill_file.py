"""Records kept out of memory while a long trace is judged: in a temporary file once they are many."""

import marshal
from array import array
from dataclasses import fields
from io import FileIO
from operator import attrgetter
from tempfile import TemporaryFile
from typing import Any, Final, Generic, TypeVar, cast
from weakref import finalize

from ranksim.core.errors import BadInput

T = TypeVar("T")

IN_MEMORY: Final = 4 << 20
"""Bytes that wait in memory before they are written: a short trace needs no file."""

NEAR: Final = 256
"""Records last looked at that are kept as they are, one of those whose numbers agree modulo this: judges look
at one exchange many times in a row."""


class SpillFile(Generic[T]):
    """Records by number, put once and looked at often; what is looked at is shared and not to be changed.

    `kind` is a dataclass of two fields or more, whose values are of the types that JSON has, tuples and
    bytes. The file has no name, goes with the shelf, and lies where TMPDIR says.
    """

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._values = attrgetter(*(about.name for about in fields(cast(Any, kind))))
        self._file: FileIO | None = None
        self._ends = array("Q", [0])
        self._waiting = bytearray()
        self._written = 0
        """Bytes in the file; what waits comes after them."""
        self._near: dict[int, tuple[int, T]] = {}

    def put(self, record: T) -> None:
        """Put the next record. Raises BadInput when there is no room for it."""
        self._waiting += marshal.dumps(self._values(record))
        number = len(self._ends) - 1
        self._near[number % NEAR] = number, record
        self._ends.append(self._written + len(self._waiting))
        if len(self._waiting) >= IN_MEMORY:
            self._write()

    def _write(self) -> None:
        waiting = bytes(self._waiting)
        try:
            if self._file is None:
                self._file = TemporaryFile(buffering=0)  # noqa: SIM115  # finalize closes it, with the shelf
                finalize(self, self._file.close)
            self._file.seek(self._written)
            done = 0
            while done < len(waiting):
                done += self._file.write(waiting[done:])
        except OSError as error:
            raise BadInput(
                f"the temporary file that a long trace needs cannot be written ({error.strerror}); "
                "let TMPDIR name a directory with about as much room as the trace takes"
            ) from None
        self._written += len(waiting)
        self._waiting.clear()

    def __getitem__(self, number: int) -> T:
        """The record with this number, from 0 on."""
        near = self._near.get(number % NEAR)
        if near is not None and near[0] == number:
            return near[1]
        begin, end = self._ends[number : number + 2]
        if self._file is not None and begin < self._written:
            self._file.seek(begin)
            data = self._file.read(end - begin)
        else:
            data = bytes(self._waiting[begin - self._written : end - self._written])
        detail = self._kind(*marshal.loads(data))
        self._near[number % NEAR] = number, detail
        return detail
