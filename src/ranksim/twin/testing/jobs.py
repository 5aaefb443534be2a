"""The jobs of a world inside a test."""

from __future__ import annotations

from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.loop_thread import LoopThread
from ranksim.twin.testing.clock import settled_now


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
            self._twin.finish_job(job, outcome, error, cost)
            await settled_now(self._twin)

        self._thread.call(ended())
