"""A histogram of whole numbers in bounded memory: exact count, sum and extremes, quantiles within 0.4 %.

Up to `EXACT` distinct values are counted one by one, so that their quantiles are exact. Beyond, buckets are
as wide as their place on a logarithmic scale allows: below 256 each value has its own, above it every power
of two is cut into 128. So a bucket is at most 1/128 of its values wide, and its middle is off by at most
1/256. The layout is that of G. Tene's HdrHistogram.
"""

from __future__ import annotations

from typing import Any

from ranksim.inference.quantiles import rank_of

PARTS = 128
"""Buckets in each power of two."""

EXACT = 512
"""Distinct values up to which each is counted by itself."""


class Histogram:
    """Counts of whole numbers >= 0, such as durations in µs: by value where `exact`, else by bucket."""

    __slots__ = ("count", "exact", "high", "low", "times", "total")

    def __init__(self) -> None:
        self.times: dict[int, int] = {}
        self.exact = True
        self.count = 0
        self.total = 0
        self.low = 0
        self.high = 0

    def add(self, value: int) -> None:
        """Count a value. Raises ValueError for a negative one."""
        if value < 0:
            raise ValueError(f"a histogram counts values from 0, not {value}")
        key = value if self.exact else bucket_of(value)
        self.times[key] = self.times.get(key, 0) + 1
        self.low = min(self.low, value) if self.count else value
        self.high = max(self.high, value)
        self.count += 1
        self.total += value
        if self.exact and len(self.times) > EXACT:
            self.times, self.exact = self._by_bucket(), False

    def _by_bucket(self) -> dict[int, int]:
        if not self.exact:
            return self.times
        buckets: dict[int, int] = {}
        for value, times in self.times.items():
            bucket = bucket_of(value)
            buckets[bucket] = buckets.get(bucket, 0) + times
        return buckets

    def merge(self, other: Histogram) -> None:
        """Add everything that another histogram counted."""
        if not other.count:
            return
        is_exact = self.exact and other.exact and len(self.times.keys() | other.times.keys()) <= EXACT
        counted = dict(self.times if is_exact else self._by_bucket())
        for key, times in (other.times if is_exact else other._by_bucket()).items():
            counted[key] = counted.get(key, 0) + times
        self.times, self.exact = counted, is_exact
        self.low = min(self.low, other.low) if self.count else other.low
        self.high = max(self.high, other.high)
        self.count += other.count
        self.total += other.total

    @property
    def mean(self) -> float | None:
        """The exact mean, or None of nothing."""
        return self.total / self.count if self.count else None

    def quantile(self, q: float) -> int | None:
        """The smallest value that a share `q` of all values do not exceed; None of nothing.

        It is exact, or within 0.4 % where there are more than `EXACT` distinct values. 0 gives the minimum
        and 1 the maximum, both exact. Raises ValueError when `q` is not in [0, 1].
        """
        if not 0 <= q <= 1:
            raise ValueError(f"a quantile lies between 0 and 1, not at {q}")
        if not self.count:
            return None
        rank = rank_of(q, self.count)
        if rank == 1 or rank == self.count:
            return self.low if rank == 1 else self.high
        seen = 0
        for key in sorted(self.times):
            seen += self.times[key]
            if seen >= rank:
                return key if self.exact else min(max(middle_of(key), self.low), self.high)
        raise AssertionError("the buckets hold fewer values than were counted")

    def within(self, bound: int) -> int:
        """Return how many values do not exceed a bound; of buckets those of its own all count."""
        last = bound if self.exact else bucket_of(bound)
        return sum(times for key, times in self.times.items() if key <= last)

    def to_plain(self) -> dict[str, Any]:
        """Return the histogram as numbers and lists, for JSON and pickling."""
        times = [[key, self.times[key]] for key in sorted(self.times)]
        counted = "values" if self.exact else "buckets"
        return {counted: times, "total": self.total, "low": self.low, "high": self.high}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Histogram:
        """Read what `to_plain` gave."""
        histogram = cls()
        histogram.exact = "values" in plain
        histogram.times = dict(plain["values" if histogram.exact else "buckets"])
        histogram.count = sum(histogram.times.values())
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
