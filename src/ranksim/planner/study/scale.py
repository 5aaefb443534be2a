"""The values that a parameter takes between two ends: whole numbers, numbers, amounts or durations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ranksim.core.clock import duration, format_duration
from ranksim.core.money import format_money, money

KINDS: dict[str, tuple[Callable[[str], int], Callable[[int], str]]] = {
    "amounts": (money, format_money),
    "durations": (duration, format_duration),
}

UNITS = {"amounts": "money", "durations": "duration"}


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from `low` to `high`, both included, in steps of `step`, of which the last may be smaller.

    `kind` says how they are written.
    """

    kind: str
    low: Fraction
    high: Fraction
    step: Fraction

    @classmethod
    def between(cls, low: Any, high: Any, step: Any = None) -> Scale:
        """Read the ends and the step as a file writes them; whole numbers go by ones. Raises ValueError."""
        kinds = {_kind(value) for value in (low, high, step) if value is not None}
        if kinds == {"whole numbers", "numbers"}:
            kinds = {"numbers"}
        if len(kinds) != 1 or None in (low, high):
            raise ValueError(f"expected two numbers, amounts or durations, found {low!r} and {high!r}")
        kind = kinds.pop()
        first, last = _read(kind, low), _read(kind, high)
        if first >= last:
            raise ValueError(f"expected the lower value first, found {low!r} and {high!r}")
        size = Fraction(1) if step is None else _read(kind, step)
        if size <= 0:
            raise ValueError(f"step: expected more than nothing, found {step!r}")
        return cls(kind, first, last, size)

    @property
    def count(self) -> int:
        """How many values there are."""
        return math.ceil((self.high - self.low) / self.step) + 1

    def value(self, index: int) -> Any:
        """The value at an index from 0, as a file writes it."""
        return self._written(min(self.low + index * self.step, self.high))

    def at(self, share: float) -> Any:
        """The value that lies so far from the low end to the high one, 0 to 1; whole numbers alike likely."""
        if self.kind == "whole numbers":
            return int(self.low + int(Fraction(share) * (self.high - self.low + 1)))
        point = self.low + Fraction(share) * (self.high - self.low)
        return float(point) if self.kind == "numbers" else self._written(Fraction(round(point)))

    def in_unit_of_kind(self, value: Any) -> tuple[str, float | None]:
        """The unit of the values (a key of `units.FORMATS`), and in it one as a file writes it, if any."""
        number = KINDS[self.kind][0](value) if self.kind in KINDS and value is not None else value
        return UNITS.get(self.kind, "count"), number

    def _written(self, value: Fraction) -> Any:
        if self.kind == "whole numbers":
            return int(value)
        return float(value) if self.kind == "numbers" else KINDS[self.kind][1](int(value))


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "truth values"
    if isinstance(value, int | float):
        return "whole numbers" if isinstance(value, int) else "numbers"
    for kind, (read, _) in KINDS.items():
        try:
            read(str(value))
        except ValueError:
            continue
        return kind
    return "text"


def _read(kind: str, value: Any) -> Fraction:
    if kind in ("numbers", "whole numbers"):
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(f"expected a number, found {value!r}")
        if kind == "whole numbers" and not isinstance(value, int):
            raise ValueError(f"expected a whole number, found {value!r}")
        return Fraction(str(value))
    if kind not in KINDS or not isinstance(value, str):
        raise ValueError(f"expected numbers, amounts or durations, found {value!r}")
    return Fraction(KINDS[kind][0](value))
