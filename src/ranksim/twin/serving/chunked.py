"""A body in chunked transfer coding, taken apart as it arrives (RFC 9112, section 7.1).

What stands beside the data, extensions of chunks and trailer fields, is read over and never becomes a header;
how much of it there may be is bounded. Where a segment ends makes no difference.
"""

from __future__ import annotations

import re

FREE = 16
"""Bytes of a chunk's size line that count for nothing: a size of up to so many digits."""

SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?\r\n")
TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n")

LINES_AT_ONCE = 2_000
"""Lines that are read in one go: those of small chunks take long, and others wait meanwhile."""

TOO_LONG = "A chunk of the body is longer than its size says."


class MalformedChunks(Exception):
    """A body is not in chunked transfer coding, or has too much beside its data."""


class ChunkedBody:
    """The chunks of one body. `room` bytes may stand in extensions and trailers."""

    def __init__(self, room: int, too_large: str) -> None:
        self._room, self._too_large = room, too_large
        self._left = 0
        """How much of the data of a chunk is still to come."""
        self._line = b""
        """The beginning of a line that is not complete."""
        self._after_data = self._in_trailers = False
        self.ended = False

    def feed(self, data: bytes, at: int) -> tuple[bytes, int]:
        """Read on from `at`; return the data of chunks, and where what was not read begins.

        So much is read at once; more until the body has `ended`. Raises MalformedChunks.
        """
        parts: list[bytes] = []
        size, lines = len(data), 0
        while at < size and not self.ended and lines < LINES_AT_ONCE:
            if self._left:
                part = data[at : at + self._left]
                parts.append(part)
                self._left -= len(part)
                self._after_data = not self._left
                at += len(part)
                continue
            lines += 1
            end = data.find(b"\n", at) + 1
            self._line += data[at : end or size]
            at = end or size
            if end:
                self._read_line()
            elif self._after_data and self._line != b"\r":
                raise MalformedChunks(TOO_LONG)
            elif len(self._line) - 2 - FREE > self._room:
                raise MalformedChunks(self._too_large)
        return b"".join(parts), at

    def _read_line(self) -> None:
        line, self._line = self._line, b""
        if self._after_data:
            if line != b"\r\n":
                raise MalformedChunks(TOO_LONG)
            self._after_data = False
        elif self._in_trailers:
            self._count(len(line))
            if line == b"\r\n":
                self.ended = True
            elif TRAILER.fullmatch(line) is None:
                raise MalformedChunks("A trailer field is not well-formed.")
        else:
            self._count(len(line) - 2 - FREE)
            match = SIZE.fullmatch(line)
            if match is None:
                raise MalformedChunks("The size of a chunk is not a hexadecimal number.")
            self._left = int(match[1], 16)
            self._in_trailers = not self._left

    def _count(self, beside: int) -> None:
        self._room -= max(0, beside)
        if self._room < 0:
            raise MalformedChunks(self._too_large)
