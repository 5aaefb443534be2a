"""Sliding counters: the calls of this clock window, and those of the one before, weighed (U1).

The window before weighs as much as a window that ends now still covers of it. Where the edges of the clock
windows stand is unknown, so the circle of phases is cut into cells. A cell has bounds for what is counted at
a call, closer ones the smaller it is; when some call breaks the bounds of each cell, no sliding counter
counted the calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ranksim.core.clock import DISTANT_FUTURE, Micros, format_millis
from ranksim.judge.conformance.rate.group_bounds import faster_than_refill, overfilled_from
from ranksim.judge.conformance.rate.window_calls import CallIntervals, Ints, WindowCalls
from ranksim.judge.conformance.verdict.verdicts import Evidence

FIRST, LAST = 8, 256
"""The circle is cut into `FIRST` cells; those that are left are halved until there would be `LAST`."""

MOST = 4000
"""Calls of a kind that are held against each cell."""

ANY = np.iinfo(np.int64).max
"""Stands for no bound."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The phases [low, low + width] of clock windows of `length` µs."""

    low: int
    width: int
    length: int

    def least(self, counted: CallIntervals, sent: Ints, done: Ints) -> Ints:
        """Return how many calls are counted for certain before each call that took effect in [sent, done].

        Calls that may be of its window or of the one before are weighed as those before, which is less; so
        are all of them, where it may be of the window before itself.
        """
        edge = self._edge(done)
        before = counted.before(sent)
        now = np.maximum(0, before - counted.begun_before(edge + self.width))
        both = np.maximum(now, before - counted.begun_before(edge - self.length + self.width))
        least: Ints = now + (both - now) * np.maximum(0, self.length - (done - edge)) // self.length
        return least

    def most(self, possible: CallIntervals, sent: Ints, done: Ints) -> Ints:
        """Return how much may be counted at each call that took effect in [sent, done], in 1/length of one.

        Calls that may be of its window or of the one before are counted in its own, where they weigh more;
        and where it may be of the window before itself, that one is taken, which holds all of them.
        """
        edge = self._edge(done)
        edge = np.where(sent < edge + self.width, edge - self.length, edge)
        both = possible.begun(done) - possible.before(edge - self.length)
        now = possible.begun(done) - possible.before(edge)
        weight = (both - now) * np.clip(self.length - (sent - edge - self.width), 0, self.length)
        return np.where(sent < edge + self.width, ANY, now * self.length + weight)

    def least_together(self, admitted: CallIntervals, done: Ints) -> Ints:
        """Return how many calls the last of those counted for certain that one window admitted by `done`.

        Whichever of them came last, it found all others, and what the window before weighs at the latest.
        """
        edge = self._edge(done)
        now = np.searchsorted(admitted.ends, done, "right") - admitted.begun_before(edge + self.width)
        before = admitted.before(edge) - admitted.begun_before(edge - self.length + self.width)
        least: Ints = (
            np.maximum(0, now) + np.maximum(0, before) * (self.length - (done - edge)) // self.length
        )
        return least

    def _edge(self, done: Ints) -> Ints:
        """The first place where the window of each call may begin, unless it is of the window before."""
        return self.low + (done - self.low) // self.length * self.length


def check_counter(calls: WindowCalls, refused_count: bool, *, stated: bool = False) -> Evidence | None:
    """No call is admitted when what is certainly counted leaves no room, and none is refused when what may be
    counted leaves some; no group is admitted that is more than `group_bounds` allow. `stated`: an admitted
    reply states no fewer, and no more than may be (S105).
    """
    if not stated and (evidence := faster_than_refill(calls, rounded_up=True)) is not None:
        return evidence
    who = _excluded(calls, refused_count, stated=stated)
    if who is None:
        return None
    done = "admitted a call that was refused or refused one that was admitted"
    says = (
        f"wherever the edges of clock windows of {format_millis(calls.length)} stand, a sliding counter of "
        f"{calls.limit} would have {'told another RateLimit-Remaining' if stated else done}"
    )
    return calls.evidence(says, who)


def check_anchored_counter(
    calls: WindowCalls, refused_count: bool, low: Micros, high: Micros
) -> Evidence | None:
    """A sliding counter, a window of which begins with the first call from `low` on, which came by `high`."""
    evidence = overfilled_from(calls, np.array([low], np.int64))
    if evidence is not None:
        return evidence
    tests = _Tests.of(calls, refused_count, stated=False)
    who = tests.broken(Cell(low - tests.drift, high - low + 2 * tests.drift, calls.length))
    if who is None:
        return None
    says = (
        f"a sliding counter of {calls.limit}, whose windows of {format_millis(calls.length)} begin at "
        f"{calls.clock(low)}, would have refused a call that was admitted or admitted one that was refused"
    )
    return calls.evidence(says, who)


def _excluded(calls: WindowCalls, refused_count: bool, *, stated: bool) -> int | None:
    """Return a call that excludes the last cell, when each is excluded by one; None while a cell is left."""
    tests = _Tests.of(calls, refused_count, stated=stated)
    who: int | None = None
    for number in range(FIRST):
        who = _cell_excluded(tests, calls.length * number // FIRST, calls.length * (number + 1) // FIRST)
        if who is None:
            return None
    return who


def _cell_excluded(tests: _Tests, low: int, high: int) -> int | None:
    """Return a call that excludes the phases [low, high], or the last part of them when each is excluded."""
    length, drift = tests.calls.length, tests.drift
    who = tests.broken(Cell(low - drift, high - low + 2 * drift, length))
    if who is not None or (high - low) * LAST <= length:
        return who
    middle = (low + high) // 2
    who = _cell_excluded(tests, low, middle)
    return None if who is None else _cell_excluded(tests, middle, high)


@dataclass(frozen=True, slots=True)
class _Tests:
    """What is held against each cell: positions among the admitted, the refused and the stated calls."""

    calls: WindowCalls
    counted: CallIntervals
    possible: CallIntervals
    since: Micros
    """From when on no more than the possible calls may be counted."""
    drift: Micros
    """How far the clocks may have drifted apart in all this time."""
    own: int
    """Whether a refused call is among the possible ones itself."""
    admitted: Ints
    refused: Ints
    stated: Ints

    @classmethod
    def of(cls, calls: WindowCalls, refused_count: bool, *, stated: bool) -> _Tests:
        possible, since = calls.may_count(refused_count)
        if not calls.exclusive:
            since = DISTANT_FUTURE  # what others left behind has no bound
        return cls(
            calls,
            counted=calls.admitted.joined(calls.refused) if refused_count else calls.admitted,
            possible=possible,
            since=since,
            drift=_drift(calls),
            own=int(refused_count),
            admitted=_crowded(calls),
            refused=_some(np.flatnonzero(calls.refused.sent >= since)),
            stated=_some(np.arange(len(calls.stated) if stated else 0)),
        )

    def broken(self, cell: Cell) -> int | None:
        """Return a call that no phase of this cell explains, if there is one."""
        for wrong in (self._admitted_over, self._refused_under, self._told_otherwise):
            who = wrong(cell)
            if len(who):
                return int(who[0])
        return None

    def _admitted_over(self, cell: Cell) -> Ints:
        side, which = self.calls.admitted, self.admitted
        least = cell.least(self.counted, side.sent[which], side.done[which]) + 1
        together = cell.least_together(side, side.done[which])
        return side.who[which[np.maximum(least, together) > self.calls.limit]]

    def _refused_under(self, cell: Cell) -> Ints:
        side, which = self.calls.refused, self.refused
        most = cell.most(self.possible, side.sent[which], side.done[which])
        return side.who[which[most <= (self.calls.limit - 1 + self.own) * cell.length]]

    def _told_otherwise(self, cell: Cell) -> Ints:
        stated, which = self.calls.stated, self.stated
        sent, done, counted = stated.sent[which], stated.done[which], stated.counted[which]
        few = counted < np.minimum(1 + cell.least(self.counted, sent, done), self.calls.limit)
        many = (counted - 1) * cell.length >= cell.most(self.possible, sent, done)
        return stated.who[which[few | (many & (sent >= self.since))]]


def _drift(calls: WindowCalls) -> Micros:
    span = max(
        int(side.sent[-1]) - calls.start
        for side in (calls.admitted, calls.refused, calls.possible)
        if len(side)
    )
    return calls.slack + span // (calls.length // max(1, calls.slack))


def _crowded(calls: WindowCalls) -> Ints:
    """The admitted calls before which most others came within two windows."""
    side = calls.admitted
    if len(side) <= MOST:
        return np.arange(len(side))
    count = side.before(side.sent) - side.begun(side.sent - 2 * calls.length)
    return np.sort(np.argpartition(count, -MOST)[-MOST:])


def _some(which: Ints) -> Ints:
    """At most `MOST` of these positions, evenly."""
    return which[:: -(-len(which) // MOST) or 1]
