"""A histogram of whole numbers in bounded memory: exact count, sum and extremes, quantiles within 1 %.

Buckets are as wide as their place on a logarithmic scale allows: below 256 each value has its own, above it
every power of two is cut into 128. So a bucket is at most 1/128 of its values wide, and its middle is off by
at most 1/256. The layout is that of G. Tene's HdrHistogram.
"""

from __future__ import annotations

from typing import Any

from ranksim.inference.quantiles import rank_of

PARTS = 128
"""Buckets in each power of two."""


class Histogram:
    """Counts of whole numbers >= 0, such as durations in µs."""

    __slots__ = ("buckets", "count", "high", "low", "total")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.count = 0
        self.total = 0
        self.low = 0
        self.high = 0

    def add(self, value: int) -> None:
        """Count a value. Raises ValueError for a negative one."""
        if value < 0:
            raise ValueError(f"a histogram counts values from 0, not {value}")
        bucket = bucket_of(value)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.low = min(self.low, value) if self.count else value
        self.high = max(self.high, value)
        self.count += 1
        self.total += value

    def merge(self, other: Histogram) -> None:
        """Add everything that another histogram counted."""
        if not other.count:
            return
        for bucket, times in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + times
        self.low = min(self.low, other.low) if self.count else other.low
        self.high = max(self.high, other.high)
        self.count += other.count
        self.total += other.total

    @property
    def mean(self) -> float | None:
        """The exact mean, or None of nothing."""
        return self.total / self.count if self.count else None

    def quantile(self, q: float) -> int | None:
        """The smallest value that a share `q` of all values do not exceed, within 1 %; None of nothing.

        0 gives the minimum and 1 the maximum, both exact. Raises ValueError when `q` is not in [0, 1].
        """
        if not 0 <= q <= 1:
            raise ValueError(f"a quantile lies between 0 and 1, not at {q}")
        if not self.count:
            return None
        rank = rank_of(q, self.count)
        if rank == 1 or rank == self.count:
            return self.low if rank == 1 else self.high
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= rank:
                return min(max(middle_of(bucket), self.low), self.high)
        raise AssertionError("the buckets hold fewer values than were counted")

    def to_plain(self) -> dict[str, Any]:
        """Return the histogram as numbers and lists, for JSON and pickling."""
        buckets = [[bucket, self.buckets[bucket]] for bucket in sorted(self.buckets)]
        return {"buckets": buckets, "total": self.total, "low": self.low, "high": self.high}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Histogram:
        """Read what `to_plain` gave."""
        histogram = cls()
        histogram.buckets = dict(plain["buckets"])
        histogram.count = sum(histogram.buckets.values())
        histogram.total, histogram.low, histogram.high = plain["total"], plain["low"], plain["high"]
        return histogram


def bucket_of(value: int) -> int:
    """The bucket that counts a value: values below 2 * PARTS have one each."""
    shift = max(0, value.bit_length() - (2 * PARTS - 1).bit_length())
    return shift * PARTS + (value >> shift)


def middle_of(bucket: int) -> int:
    """The middle of the values that a bucket counts, rounded down."""
    shift = max(0, bucket // PARTS - 1)
    lowest = (bucket - shift * PARTS) << shift
    return lowest + ((1 << shift) - 1) // 2
