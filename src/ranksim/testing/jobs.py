"""The jobs of a world inside a test."""

from __future__ import annotations

from contextlib import suppress

from ranksim.facade.advance import AdvanceUnderWay
from ranksim.facade.twin import Twin
from ranksim.serving.loop_thread import LoopThread
from ranksim.testing.clock import settled


class Jobs:
    """The jobs of a world, whose outcome a test may decide; the webhooks of it are answered on return."""

    def __init__(self, twin: Twin, thread: LoopThread) -> None:
        self._twin, self._thread = twin, thread

    def finish(self, job: str, cost: int | None = None) -> None:
        """Let a job be done now, at a `cost` in µUSD (default: its estimate). Raises BadInput."""
        self._end(job, "done", None, cost)

    def fail(self, job: str, error: str = "failed by the test") -> None:
        """Let a job fail now with this error_detail; it costs nothing (U49). Raises BadInput."""
        self._end(job, "failed", error, None)

    def _end(self, job: str, outcome: str, error: str | None, cost: int | None) -> None:
        async def ended() -> None:
            twin = self._twin
            twin.finish_job(job, outcome, error, cost)
            # Where a receiver ends a job, the advance that called the receiver settles this too.
            with suppress(AdvanceUnderWay):
                await settled(twin.advance(by=0))

        self._thread.call(ended())
