"""Counters that works move and readings state: what a reading may show, given the readings before it.

A reading of an account's used units was true at some instant of its interval, and each work moved the counter
at some instant of its own. So between two readings of one period, v grows at least by what surely happened
after the first and before the second, and at most by what may have happened there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, Micros
from ranksim.judge.conformance.verdict.verdicts import Evidence

UNBOUNDED = 1 << 50
"""Units of a work that nothing bounds."""


@dataclass(slots=True)
class Interval:
    """What was true, or happened, at an instant of [low, high]."""

    low: Micros
    high: Micros


@dataclass(slots=True)
class Increment(Interval):
    """A work as a counter sees it: `least` to `most` units, at an instant of [low, high]."""

    least: int
    most: int
    id: str


ANY_FALL = Increment(DISTANT_PAST, DISTANT_FUTURE, 0, UNBOUNDED, "")
"""What others who use the account may take back at any time."""


@dataclass(slots=True)
class Sample(Interval):
    """A reading of a counter: `value` at an instant of [low, high], in the period that ends at `ends`."""

    value: int
    ends: Micros
    id: str
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """What a mark may show: at least `least` because of the mark `since`, at most `most` because of `until`.

    A bound that nothing gives is -UNBOUNDED or UNBOUNDED, and its mark None.
    """

    mark: Sample
    least: int
    since: Sample | None
    most: int
    until: Sample | None
    carried: bool = False

    @property
    def short(self) -> bool:
        """Whether the mark shows less than it may."""
        return self.since is not None and self.mark.value < self.least

    def breaks(self, *, alone: bool) -> bool:
        """Return whether the mark shows what it may not; too much, only if nobody else uses the account."""
        return self.short or (alone and self.mark.value > self.most)

    @property
    def against(self) -> Sample:
        """The mark before that says so, or that says that it shows more."""
        mark = self.since if self.short else self.until
        return mark or self.mark

    def evidence(self, what: str, about: str, moves: Iterable[Increment]) -> Evidence:
        """Return evidence of both marks, and of the first surely admitted between them if too few show."""
        mark, before, inside = self.mark, self.against, list[Increment]()
        if self.short:
            inside, expected = between(moves, before, mark), f"{self.least} at least"
            says = (
                f"{what} was {before.value}, then surely {sum(m.least for m in inside)} were admitted in "
                f"{len(inside)} calls, and it shows {mark.value} (expected at least {self.least})"
            )
        else:
            emptied, expected = before.ends != mark.ends and not self.carried, f"{self.most} at most"
            says = (
                f"{what} shows {mark.value}, but was {0 if emptied else before.value} before and at most "
                f"{self.most} can have been reached"
            )
        ids = (before.id, *(move.id for move in inside[:1]), mark.id)
        return Evidence(says, tuple(dict.fromkeys(ids)), about=about, at=self.mark.low, expected=expected)


class RunningSums:
    """Sums of amounts up to an instant."""

    def __init__(self, amounts: Iterable[tuple[Micros, int]]) -> None:
        ordered = sorted(amounts)
        self.times = [t for t, _ in ordered]
        self.totals = [0, *accumulate(amount for _, amount in ordered)]

    def upto(self, t: Micros) -> int:
        """Sum what stands at `t` or before."""
        return self.totals[bisect_right(self.times, t)]

    def before(self, t: Micros) -> int:
        """Sum what stands before `t`."""
        return self.totals[bisect_left(self.times, t)]


class SpanSums:
    """Sums of amounts that each fell at one instant of a span: (from, to, amount)."""

    def __init__(self, spans: Iterable[tuple[Micros, Micros, int]]) -> None:
        amounts = list(spans)
        self.begun = RunningSums((low, amount) for low, _, amount in amounts)
        self.ended = RunningSums((high, amount) for _, high, amount in amounts)

    def possibly(self, low: Micros, high: Micros) -> int:
        """Sum what may have fallen in [low, high]."""
        return self.begun.upto(high) - self.ended.before(low)

    def surely(self, low: Micros, high: Micros) -> int:
        """Sum what surely fell after `low` and before `high`, where this is more than nothing."""
        return self.ended.before(high) - self.begun.upto(low)


def bounds(
    marks: Sequence[Sample],
    moves: Sequence[Increment],
    falls: Sequence[Increment] = (),
    *,
    carried: bool = False,
) -> list[Bound]:
    """Bound every mark by the earlier ones, in n log n; what is `carried` begins no period at 0.

    Least: v_i and all that began after mark i and ended before mark j, less what `falls` may have taken
    back between. What lies between is at least nothing, and at least the sum of what ended before j, less
    what began by the end of i; so two running maxima over i suffice. Most: v_i, or 0 for a mark of an earlier
    period unless carried, and all that began by the end of j and had not ended before i.
    """
    sure = SpanSums((m.low, m.high, m.least) for m in moves)
    possible, fallen = (SpanSums((m.low, m.high, m.most) for m in each) for each in (moves, falls))
    ordered = sorted(marks, key=lambda mark: (mark.low, mark.high))
    finished = sorted(marks, key=lambda mark: mark.high)
    reached: dict[Micros, tuple[int, Sample]] = {}
    lows: dict[Micros, tuple[int, Sample]] = {}
    tops: dict[Micros, tuple[int, Sample]] = {}
    emptied: dict[Micros, tuple[int, Sample]] = {}
    bounded, next_finished = [], 0
    for mark in ordered:
        while next_finished < len(finished) and finished[next_finished].high < mark.low:
            past = finished[next_finished]
            kept = past.value + fallen.ended.before(past.low)
            _raise(reached, kept, past)
            _raise(lows, kept - sure.begun.upto(past.high), past)
            ended_before = possible.ended.before(past.low)
            _lower(tops, past.value - ended_before, past)
            _lower(emptied, (past.value if carried else 0) - ended_before, past)
            next_finished += 1
        least, since = -UNBOUNDED, None
        if mark.ends in lows:
            floor, first = lows[mark.ends]
            least, since = max(
                reached[mark.ends],
                (floor + sure.ended.before(mark.low), first),
                key=lambda ceiling: ceiling[0],
            )
            least -= fallen.begun.upto(mark.high)
        ceilings = [ceiling for ends, ceiling in emptied.items() if ends < mark.ends]
        ceilings += [tops[mark.ends]] if mark.ends in tops else []
        top, until = min(ceilings, key=lambda ceiling: ceiling[0], default=(UNBOUNDED, None))
        most = min(UNBOUNDED, top + possible.begun.upto(mark.high))
        bounded.append(Bound(mark, least, since, most, until, carried))
    return bounded


def _raise(best: dict[Micros, tuple[int, Sample]], value: int, mark: Sample) -> None:
    """Keep the highest of a period; of equals the last, between which and a later mark the least lies."""
    if mark.ends not in best or value >= best[mark.ends][0]:
        best[mark.ends] = value, mark


def _lower(best: dict[Micros, tuple[int, Sample]], value: int, mark: Sample) -> None:
    if mark.ends not in best or value <= best[mark.ends][0]:
        best[mark.ends] = value, mark


def between(moves: Iterable[Increment], since: Sample, mark: Sample) -> list[Increment]:
    """Return the moves that surely lie between two marks."""
    return [m for m in moves if m.least and m.low > since.high and m.high < mark.low]
