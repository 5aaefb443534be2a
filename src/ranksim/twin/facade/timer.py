"""The timer of a clock that runs: it rings when the next piece of work falls due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ranksim.core.clock import SECOND, Micros
from ranksim.twin.facade.virtual_clock import VirtualClock

LONGEST_SLEEP_S = 3600.0


class Timer:
    """Calls `ring` at the instant that `next_due` returns, where the clock runs by itself."""

    def __init__(
        self, clock: VirtualClock, next_due: Callable[[], Micros | None], ring: Callable[[], None]
    ) -> None:
        self._clock, self._next_due, self._ring = clock, next_due, ring
        self._handle: asyncio.TimerHandle | None = None
        self._armed: Micros | None = None

    def arm(self, *, anew: bool = False) -> None:
        """Set the timer to the next piece of work, `anew` even if that is the same as before."""
        due = self._next_due()
        if due == self._armed and not anew:
            return
        self.stop()
        wait = None if due is None else self._clock.wall_until(due)
        if wait is None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._handle = loop.call_later(min(wait / SECOND, LONGEST_SLEEP_S), self._ring)
        self._armed = due

    def stop(self) -> None:
        """Ring no more until it is armed again."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._armed = None
