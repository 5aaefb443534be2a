"""What was acknowledged, counted in a small file beside the state file.

A log that lost its end looks like a shorter one. So after each write of the log, and before anybody hears of
it, its number, the inputs so far and the running CRC are put here. It is never ahead of the log, so it raises
no false alarm; a kill leaves it exact, and after a loss of power it may count too little.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

SLOT = 512
"""Bytes between two slots, which take turns: one is sound whatever tears the other."""

LAYOUT = struct.Struct("<QQI")


class Mark(NamedTuple):
    """How far a log goes: its last write's number, the inputs up to there, and the running CRC."""

    number: int
    inputs: int
    crc: int


class AcknowledgedFile:
    """The file beside `path`; `begin` opens it for writing."""

    def __init__(self, path: Path) -> None:
        self.path = Path(f"{path.resolve()}-acknowledged")
        self._file = -1

    def read(self) -> Mark | None:
        """Return the last mark, or None where there is none that can be read. Raises OSError."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        return max(filter(None, (_parsed(content[at : at + SLOT]) for at in (0, SLOT))), default=None)

    def begin(self, mark: Mark) -> None:
        """Forget what the file says, and begin with a mark, on disk. Raises OSError."""
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(self._file, bytes(2 * SLOT), 0)
        self.write(mark)
        os.fsync(self._file)

    def write(self, mark: Mark) -> None:
        """Note how far the log goes. Raises OSError."""
        fields = LAYOUT.pack(*mark)
        os.pwrite(self._file, fields + crc32(fields).to_bytes(4, "little"), mark.number % 2 * SLOT)

    def close(self, *, remove: bool) -> None:
        """Close the file, and remove it where the log itself says how far it goes."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if remove:
            self.path.unlink(missing_ok=True)


def _parsed(slot: bytes) -> Mark | None:
    fields, check = slot[: LAYOUT.size], slot[LAYOUT.size : LAYOUT.size + 4]
    if len(check) < 4 or crc32(fields) != int.from_bytes(check, "little"):
        return None
    return Mark(*LAYOUT.unpack(fields))
