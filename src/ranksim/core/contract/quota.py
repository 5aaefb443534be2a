"""`600/60s`: how many calls in how long, as people write it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND, Micros, duration, format_duration
from ranksim.core.errors import BadInput

WORDS = {"s": SECOND, "sec": SECOND, "second": SECOND, "min": MINUTE, "minute": MINUTE}
WORDS |= {"m": MINUTE, "h": HOUR, "hour": HOUR, "d": DAY, "day": DAY}

MOST = 1_000_000
"""The largest number of calls of a limit that can be judged."""


@dataclass(frozen=True, slots=True)
class RateQuota:
    """`limit` calls in `length` µs."""

    limit: int
    length: Micros

    @classmethod
    def parse(cls, text: str) -> RateQuota:
        """Read `600/60s`, `20/2s`, `100/min`. Raises BadInput for anything else."""
        match = re.fullmatch(r"\s*([\d_]{1,9})\s*(?:/|in|per)\s*([\w.]+)\s*", text)
        try:
            if match is None:
                raise ValueError
            limit, unit = int(match[1]), match[2].lower()
            length = WORDS.get(unit) or duration(unit)
        except ValueError:
            raise BadInput(
                f"limit: expected calls and a time such as 600/60s, 20/2s or 100/min, found {text!r}"
            ) from None
        if not (1 <= limit <= MOST and SECOND // 100 <= length <= 366 * DAY):
            raise BadInput(f"limit: expected 1 to {MOST:,} calls in 10 ms to a year, found {text!r}")
        return cls(limit, length)

    def __str__(self) -> str:
        return f"{self.limit:,} in {format_duration(self.length)}"
