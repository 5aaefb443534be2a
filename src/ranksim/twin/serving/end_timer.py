"""When a connection ends unless that is put off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class EndTimer:
    """Calls `end` when it is due, unless it was set anew.

    One timer a connection runs all the while, and looks when it goes off whether anything is due: to set and
    cancel one for each request would take a tenth of what a request takes here.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
        self._loop, self._end = loop, end
        self.due: float | None = None
        """When it ends, by the loop's clock; None for never."""
        self._timer: asyncio.TimerHandle | None = None
        self._rings = 0.0

    def set(self, seconds: float) -> None:
        """End in so many seconds."""
        self.due = self._loop.time() + seconds
        if self._timer is not None:
            if self._rings <= self.due:
                return  # it looks again
            self._timer.cancel()
        self._rings = self.due
        self._timer = self._loop.call_at(self.due, self._ring)

    def cancel(self) -> None:
        """Never end, and let go of what would: it holds this timer, and would wait for the collector."""
        self.due, self._end = None, _nothing
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self._timer = None
        if self.due is None:
            return
        left = self.due - self._loop.time()
        if left > 0:
            self.set(left)
        else:
            self._end()


def _nothing() -> None:
    """What ends when nothing does."""
