"""What whoever keeps a world in a file is told: each input, in order."""

from __future__ import annotations

from typing import Any, Protocol

from ranksim.core.clock import Micros


class NotKept(Exception):
    """What was asked for cannot be kept, so it was undone: nothing of it has happened."""


class Record(Protocol):
    """Told of every input of a world, in order: a method, the instant, the arguments.

    Methods are those of `Service`, and some more: "moved" (an advance ended at the instant), "set_clock",
    "began" (another world), "snapshot" (a saved world) and "faults" (the rules, changed or struck). "advance"
    is told where it hands out attempts.
    """

    def __call__(self, method: str, now: Micros, arguments: dict[str, Any]) -> None:
        """Note one input."""
