"""The timer of a connection's end."""

from __future__ import annotations

import asyncio
import gc
import weakref

from ranksim.twin.serving.end_timer import EndTimer


class Ended:
    """Holds the timer that ends it, as a connection does."""

    def __init__(self) -> None:
        self.timer = EndTimer(asyncio.get_running_loop(), self.end)

    def end(self) -> None:
        """End."""


async def _is_kept() -> bool:
    thing = Ended()
    thing.timer.set(60.0)
    thing.timer.cancel()
    kept = weakref.ref(thing)
    del thing
    await asyncio.sleep(0)  # the loop lets go of a handle that was cancelled
    return kept() is not None


def test_what_was_cancelled_is_let_go_of_without_the_collector() -> None:
    """A server collects seldom: a circle would keep each connection that came and went."""
    gc.disable()
    try:
        assert not asyncio.run(_is_kept())
    finally:
        gc.enable()
