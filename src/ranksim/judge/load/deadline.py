"""One deadline for a whole call over HTTP, and a bound on its reply.

A timeout of a socket is for each read alone, which a byte a second, or interim replies without end
(100 Continue), would outlast.
"""

from __future__ import annotations

import http.client
import io
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ranksim.core.clock import DISTANT_FUTURE, SECOND, Micros


@dataclass(frozen=True, slots=True)
class Deadline:
    """The instant (µs) by which a call must be through, of a clock that tells `now`."""

    now: Callable[[], Micros]
    instant: Micros

    @classmethod
    def of(cls, now: Callable[[], Micros], timeout: float, until: Micros = DISTANT_FUTURE) -> Deadline:
        """Return the one that is so many seconds from now, and no later than an instant."""
        return cls(now, min(until, now() + round(timeout * SECOND)))

    def left(self) -> float:
        """Return the seconds that are left. Raises TimeoutError where none are."""
        left = (self.instant - self.now()) / SECOND
        if left <= 0:
            raise TimeoutError
        return left


class _ReplyStream(io.RawIOBase):
    """What comes over a socket until a call's deadline, and no more of it than a reply may have."""

    def __init__(self, sock: socket.socket, deadline: Deadline, largest: int) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._deadline = deadline
        self._largest = self._room = largest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._deadline.left())
        count = self._raw.readinto(buffer)
        self._room -= count or 0
        if self._room < 0:
            raise http.client.HTTPException(f"a reply of more than {self._largest} bytes")
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """A reply that is read until a deadline."""

    def __init__(
        self, sock: socket.socket, *args: Any, deadline: Deadline, largest: int, **options: Any
    ) -> None:
        super().__init__(sock, *args, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_ReplyStream(sock, deadline, largest))


def bound(connection: http.client.HTTPConnection, deadline: Deadline, largest: int) -> None:
    """Have the next request of an open connection sent and its reply read, of so many bytes, by a deadline.

    Either raises TimeoutError where it is not; the reply raises HTTPException where it is too long.
    """
    connection.response_class = partial(  # type: ignore[assignment]  # a factory does; typeshed knows classes
        _Response, deadline=deadline, largest=largest
    )
    connection.sock.settimeout(deadline.left())
