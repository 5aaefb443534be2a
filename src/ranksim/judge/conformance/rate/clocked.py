"""Windows that stand on a clock, at whatever phase fits (U1).

Where the windows' edges stand is not stated, so it is an unknown phase on a circle of one window's length.
Each pair of calls forbids an arc of it; when the arcs cover the circle, no such windows counted the calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ranksim.core.clock import format_millis
from ranksim.judge.conformance.rate.group_bounds import overfilled
from ranksim.judge.conformance.rate.window_calls import HIDDEN, NONE, Ints, WindowCalls
from ranksim.judge.conformance.verdict.verdicts import Evidence


@dataclass(frozen=True, slots=True)
class Arcs:
    """Forbidden stretches (low, high] of time: no edge of a window stands there, nor any multiple away.

    `who` and `other` are the calls that forbid it.
    """

    low: Ints
    high: Ints
    who: Ints
    other: Ints

    def joined(self, other: Arcs) -> Arcs:
        """Return the arcs of both."""
        return Arcs(
            np.concatenate([self.low, other.low]),
            np.concatenate([self.high, other.high]),
            np.concatenate([self.who, other.who]),
            np.concatenate([self.other, other.other]),
        )

    def shrunk(self, calls: WindowCalls) -> Arcs:
        """Shrink by drift, which grows with the time since the trace began; drop what is left empty."""
        drift = calls.slack + np.abs(self.low - calls.start) // (calls.length // max(1, calls.slack))
        low, high = self.low + drift, self.high - drift
        kept = high > low
        return Arcs(low[kept], high[kept], self.who[kept], self.other[kept])

    def covering(self, length: int) -> list[int] | None:
        """Return the calls of a few arcs that together cover the circle, or None when some phase is left.

        Greedy: from the end of what is covered, the arc that reaches furthest. Arcs are taken closed, and
        what they forbid has already been shrunk by more than the edges matter.
        """
        if not len(self.low):
            return None
        size = np.minimum(self.high - self.low, length)
        begin = self.low % length
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], begin[order] + size[order]
        # Twice round, so that arcs over the seam are met where they continue.
        begin, end = np.concatenate([begin, begin + length]), np.concatenate([end, end + length])
        reach = np.maximum.accumulate(end)
        best = np.maximum.accumulate(np.where(end == reach, np.arange(len(end)), 0))
        start = int(np.argmax(size[order]))
        chosen, reached, goal = [start], int(end[start]), int(begin[start]) + length
        while reached < goal:
            index = int(np.searchsorted(begin, reached, "right")) - 1
            if reach[index] <= reached:
                return None
            chosen.append(int(best[index]))
            reached = int(reach[index])
        arcs = order[np.array(chosen) % len(order)]
        return sorted({*self.who[arcs].tolist(), *self.other[arcs].tolist()})


def check_clock(calls: WindowCalls, refused_count: bool) -> Evidence | None:
    """A clock window admits at most `limit` calls and refuses only once it has as many.

    Wherever the edges stand, no group is admitted that is more than `group_bounds` allow. One stands within
    every stretch that admits `limit` + 1 calls for certain, and between a refusal and a later admission; none
    stands between a refusal and the last moment since which `limit` calls may have come before it. Refused
    calls change nothing (`refused_count`).
    """
    evidence = overfilled(calls, beside=calls.limit)
    if evidence is not None:
        return evidence
    arcs = clock_arcs(calls)
    who = arcs.covering(calls.length)
    if who is None:
        return None
    says = (
        f"wherever the edges of clock windows of {format_millis(calls.length)} stand, these calls exclude "
        f"it: more than {calls.limit} would be admitted in one, or fewer than {calls.limit} and then a "
        "refusal"
    )
    return calls.evidence(says, *who)


def clock_arcs(calls: WindowCalls) -> Arcs:
    """Return the stretches in which no edge of a clock window can stand."""
    arcs = _crowded(calls)
    if calls.exclusive and len(calls.refused):
        arcs = arcs.joined(_unfilled(calls))
    if len(calls.refused):
        arcs = arcs.joined(_between(calls))
    return arcs.shrunk(calls)


def _crowded(calls: WindowCalls) -> Arcs:
    """An edge stands in (x, y] when `limit` + 1 calls were admitted in it; so none in (y, x + length]."""
    side = calls.admitted
    if len(side) <= calls.limit:
        return Arcs(NONE, NONE, NONE, NONE)
    first = np.arange(len(side) - calls.limit)
    low, high = side.sent[first], side.ends[first + calls.limit]
    tight = high - low < calls.length
    first = first[tight]
    return Arcs(high[tight], low[tight] + calls.length, side.who[first], side.ends_who[first + calls.limit])


def _between(calls: WindowCalls) -> Arcs:
    """An edge stands between a refusal and a later admission."""
    refused, admitted = calls.refused, calls.admitted
    order = np.argsort(refused.done, kind="stable")
    index = np.searchsorted(refused.ends, admitted.sent, "right") - 1
    later = np.flatnonzero(index >= 0)
    index = index[later]
    latest = np.maximum.accumulate(refused.sent[order])
    position = np.maximum.accumulate(np.where(refused.sent[order] == latest, np.arange(len(order)), 0))
    low, high = latest[index], admitted.done[later]
    tight = high - low < calls.length
    who = refused.who[order][position[index]]
    return Arcs(high[tight], low[tight] + calls.length, who[tight], admitted.who[later][tight])


def _unfilled(calls: WindowCalls) -> Arcs:
    """The window of a refusal begins no later than the last instant with `limit` possible calls since."""
    refused, possible = calls.refused, calls.possible
    index = possible.begun(refused.done) - calls.limit
    latest = np.where(index >= 0, possible.ends[np.maximum(index, 0)], refused.sent - 2 * calls.length)
    tight = latest < refused.sent
    who = np.where(index >= 0, possible.ends_who[np.maximum(index, 0)], HIDDEN)
    return Arcs(latest[tight], refused.sent[tight], refused.who[tight], who[tight])


def open_phases(arcs: Arcs, length: int) -> list[tuple[int, int]]:
    """Return the stretches of [0, length) in which the phase may lie."""
    begin = arcs.low % length
    end = begin + np.minimum(arcs.high - arcs.low, length)
    begin, end = np.concatenate([begin - length, begin]), np.concatenate([end - length, end])
    order = np.argsort(begin, kind="stable")
    reached, phases = 0, []
    for low, high in zip(begin[order].tolist(), end[order].tolist(), strict=True):
        if low > reached:
            phases.append((reached, min(low, length)))
        reached = max(reached, high)
        if reached >= length:
            break
    if reached < length:
        phases.append((reached, length))
    return phases
