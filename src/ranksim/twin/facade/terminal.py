"""Telling what happens on a terminal, as it happens, and outside of the way of requests."""

from __future__ import annotations

import asyncio
from typing import TextIO

from ranksim.twin.facade.event_lines import line_of
from ranksim.twin.facade.logged_event import LoggedEvent
from ranksim.twin.facade.twin import Twin

TOGETHER_SECONDS = 0.05
"""How long lines are gathered: under load one write tells of many calls."""


class Terminal:
    """Writes a line for each call and each webhook attempt of a twin, in a thread that no request waits for.

    Where more happens than is remembered while a terminal is slow, a line says how much was left out.
    """

    def __init__(self, twin: Twin, stream: TextIO) -> None:
        self._twin, self._stream = twin, stream
        self._told = twin.event_log.last
        self._following: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to tell, on the running event loop."""
        self._following = asyncio.create_task(self._follow())

    @property
    def ended(self) -> bool:
        """Whether nobody is told any more."""
        return self._following is not None and self._following.done()

    async def stop(self) -> None:
        """Tell the rest, and end."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
            await self._tell()

    async def _follow(self) -> None:
        while True:
            await self._twin.event_log.wait(self._told)
            await asyncio.sleep(TOGETHER_SECONDS)
            if not await self._tell():
                return

    async def _tell(self) -> bool:
        """Write what has happened since; return whether anybody can read it."""
        events = self._twin.event_log.since(self._told)
        if not events:
            return True
        missed = events[0].seq - self._told - 1
        self._told = events[-1].seq
        return await asyncio.to_thread(self._write, events, missed)

    def _write(self, events: list[LoggedEvent], missed: int) -> bool:
        lines = [f"({missed:,} more happened than could be written)"] if missed else []
        lines += [line for line in map(line_of, events) if line is not None]
        try:
            self._stream.write("".join(f"{line}\n" for line in lines))
            self._stream.flush()
        except OSError:  # the terminal is gone
            return False
        return True
