"""What a load or a check under way has recorded so far, and its trace once there is one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from ranksim.core.clock import SECOND, Micros
from ranksim.core.errors import BadInput
from ranksim.judge.load.merging import Merged, joined
from ranksim.twin.view.recording import Shown, TraceEvents

PARTS = ".parts-*"
TRACES = ("trace.jsonl", "trace.jsonl.gz")

RARELY = 10
"""Reading takes at most one part in so many of the time: a long recording is read again less often."""


class NothingYet(BadInput):
    """Nothing is recorded there yet; a load or check that begins may still do so."""


class GrowingRun:
    """The directory of `ranksim check --out` or `check load --out`, read anew while it grows.

    `wall` is the instant in µs, as whoever records tells it. Raises NothingYet.
    """

    def __init__(self, directory: Path, wall: Callable[[], Micros]) -> None:
        self._directory, self._wall = directory, wall
        self._events: TraceEvents | None = None
        self._again, self._whole = 0.0, False
        self._read()
        if self._events is None:
            where = f"{directory}: holds no recording yet"
            raise NothingYet(f"{where}; expected what --out of `ranksim check load` or `ranksim check` names")

    def overview(self) -> Shown:
        """Return from when to when it goes so far, and whether more may come."""
        self._read()
        recording = self._trace_events().overview()["recording"]
        return {"recording": {**recording, "grows": not self._whole, "name": self._directory.name}}

    def until(self, instant: Micros) -> Shown:
        """Return the last events up to an instant."""
        return self._trace_events().until(instant)

    def exchange(self, number: int) -> Shown | None:
        """Return the exchange of an event as the control API shows those of its journal."""
        return self._trace_events().exchange(number)

    def _trace_events(self) -> TraceEvents:
        assert self._events is not None  # or this was not made
        return self._events

    def _read(self) -> None:
        began = time.monotonic()
        if self._whole or began < self._again:
            return
        traces = [path for name in TRACES if (path := self._directory / name).exists()]
        parts = sorted(self._directory.glob(PARTS))
        try:
            if parts:
                lines = joined(parts[-1], Merged(), self._wall() - SECOND)
                self._events = TraceEvents(json.dumps(line) for line in lines)
            elif traces:
                self._events, self._whole = TraceEvents(traces[0]), True
        except (BadInput, OSError):  # nothing has been recorded yet, or it is just being made a trace
            if self._whole or (traces and not parts):
                raise
        self._again = began + RARELY * (time.monotonic() - began)
