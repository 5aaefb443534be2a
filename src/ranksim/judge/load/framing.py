"""Where HTTP/1.1 messages begin and end in a stream of bytes, without changing any (RFC 9112).

Enough to see what a proxy passes on: heads, bodies by length, in chunks or up to the end of the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

MOST_HEAD = 1 << 17
"""Bytes of a head; a stream with a larger one is no HTTP to us, and is passed on unseen."""

CHUNKED, TO_THE_END, UNSEEN = -1, -2, -3
"""Lengths of bodies that no number says: in chunks, until the connection closes, or of another protocol."""


class NotHttp(ValueError):
    """What came is no HTTP/1.1 message."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first line of a message and its headers, in order, names as they were sent."""

    first: str
    headers: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, raw: bytes) -> Head:
        """Parse a head, its blank line included. Raises NotHttp."""
        first, *lines = raw.decode("latin-1").replace("\r\n", "\n").rstrip("\n").split("\n")
        headers = []
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise NotHttp(line)
            headers.append((name, value.strip()))
        if len(first.split(" ")) < 2:
            raise NotHttp(first)
        return cls(first, tuple(headers))

    def get(self, name: str) -> str:
        """Return the values of a header, joined by commas; "" for none."""
        return ", ".join(value for other, value in self.headers if other.lower() == name)

    def joined(self) -> dict[str, str]:
        """Return the headers by name, those that came several times joined by commas."""
        return {name: self.get(name.lower()) for name, _ in self.headers}

    @property
    def length(self) -> int | None:
        """The stated length of the body: a number, CHUNKED, or None where none is stated. Raises NotHttp."""
        if "chunked" in self.get("transfer-encoding").lower():
            return CHUNKED
        stated = self.get("content-length").split(",")[0].strip()
        if stated and not stated.isdigit():
            raise NotHttp(stated)
        return int(stated) if stated else None


class StreamPiece(NamedTuple):
    """A piece of a message: its bytes as they came, and of a body what they carry, chunk sizes left out."""

    kind: Literal["head", "body", "end"]
    raw: bytes
    payload: bytes = b""


class Framer:
    """Cuts a stream into pieces; `length_of` tells of a head how long its body is, None for a head next."""

    def __init__(self, length_of: Callable[[bytes], int | None]) -> None:
        self._length_of = length_of
        self._pending = bytearray()
        self._head = b""
        self._until_closed = False
        self._pieces = self._messages()

    def feed(self, data: bytes) -> Iterator[StreamPiece]:
        """Yield the pieces that are whole once these bytes came. Raises NotHttp."""
        self._pending += data
        while (piece := next(self._pieces)) is not None:
            yield piece

    @property
    def ends_with_connection(self) -> bool:
        """Whether the body under way ends where the connection does."""
        return self._until_closed

    def rest(self) -> bytes:
        """Return what came and is no piece yet."""
        head, self._head = self._head, b""
        return head + self._take(len(self._pending))

    def _take(self, count: int) -> bytes:
        taken = bytes(self._pending[:count])
        del self._pending[:count]
        return taken

    def _line(self) -> Iterator[bytes | None]:
        """Yield None until a line is here, and then the line."""
        while (end := self._pending.find(b"\n")) < 0:
            if len(self._pending) > MOST_HEAD:
                raise NotHttp("a line without end")
            yield None
        yield self._take(end + 1)

    def _messages(self) -> Iterator[StreamPiece | None]:
        """Yield all pieces, message by message; None where more bytes are wanted."""
        while True:
            while not self._head.endswith((b"\n\r\n", b"\n\n")):
                for line in self._line():
                    if line is None:
                        yield None
                        continue
                    self._head += line
                if self._head.strip() == b"":
                    break  # blank lines before a request count for nothing (section 2.2)
                if len(self._head) > MOST_HEAD:
                    raise NotHttp("a head without end")
            raw, self._head = self._head, b""
            yield StreamPiece("head", raw)
            if not raw.strip():
                continue
            length = self._length_of(raw)
            if length is None:
                continue
            if length == CHUNKED:
                yield from self._chunks()
            elif length in (TO_THE_END, UNSEEN):
                yield from self._rest()
            else:
                yield from self._counted(length)
            yield StreamPiece("end", b"")

    def _counted(self, length: int) -> Iterator[StreamPiece | None]:
        while length:
            part = self._take(min(length, len(self._pending)))
            if not part:
                yield None
                continue
            length -= len(part)
            yield StreamPiece("body", part, part)

    def _rest(self) -> Iterator[StreamPiece | None]:
        self._until_closed = True
        while True:
            part = self._take(len(self._pending))
            yield StreamPiece("body", part, part) if part else None

    def _chunks(self) -> Iterator[StreamPiece | None]:
        size = -1
        while size:
            for line in self._line():
                if line is None:
                    yield None
                    continue
                yield StreamPiece("body", line)
                try:
                    size = int(line.split(b";")[0].strip(), 16)
                except ValueError:
                    raise NotHttp("a chunk without a size") from None
            yield from self._counted(size)
            if size:
                for line in self._line():
                    yield None if line is None else StreamPiece("body", line)
        blank = False
        while not blank:  # trailers
            for line in self._line():
                if line is None:
                    yield None
                    continue
                blank = not line.strip()
                yield StreamPiece("body", line)
