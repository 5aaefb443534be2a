"""The wall clock: the only place where the facade and the receiver read it."""

from __future__ import annotations

import time

from ranksim.core.clock import Micros

_ANCHOR = time.time_ns() // 1000 - time.monotonic_ns() // 1000
"""Wall time is read once; from then on the monotonic clock counts, whoever sets the wall clock."""


def wall() -> Micros:
    """Read the wall clock: µs since the epoch, never going back."""
    return _ANCHOR + time.monotonic_ns() // 1000
