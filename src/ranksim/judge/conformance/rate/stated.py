"""Whether RateLimit-Remaining and -Reset agree with what was done, under one algorithm (S105, U88).

Each admitted reply says how many calls its window has counted and, within a second, when the window ends. How
a deployment rounds is not stated but always the same, so ends are compared with each other to the µs, and
with instants within a second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ranksim.core.clock import format_millis
from ranksim.judge.conformance.rate.clocked import Arcs
from ranksim.judge.conformance.rate.counter import check_counter
from ranksim.judge.conformance.rate.first_hit import Chain
from ranksim.judge.conformance.rate.sliding import drained_at_least, drained_at_most, most_counted
from ranksim.judge.conformance.rate.window_calls import NONE, Ints, Mask, WindowCalls
from ranksim.judge.conformance.verdict.verdicts import Evidence


def check_stated(calls: WindowCalls, window: str, refused_count: bool) -> Evidence | None:
    """Hold what admitted replies say against the calls; None where it may all be true."""
    if not len(calls.stated):
        return None
    return (
        _out_of_range(calls, window, refused_count)
        or _too_many_counted(calls, window, refused_count)
        or _too_few_counted(calls, window, refused_count)
        or (_edges(calls, window) if window in ("first_hit", "clock") else None)
        or (_openers(calls) if window == "first_hit" and not refused_count else None)
        or (check_counter(calls, refused_count, stated=True) if window == "sliding_counter" else None)
    )


def _out_of_range(calls: WindowCalls, window: str, refused_count: bool) -> Evidence | None:
    """An admitted call is counted, at most `limit` are, and no window ends later than its length from now."""
    stated = calls.stated
    wrong = np.flatnonzero((stated.counted < 1) | (stated.counted > calls.limit))
    if len(wrong):
        left = calls.limit - int(stated.counted[wrong[0]])
        says = f"an admitted call is told RateLimit-Remaining {left} of {calls.limit}"
        return calls.evidence(says, int(stated.who[wrong[0]]))
    if window in ("sliding_counter", "rotating") or (window == "gcra" and refused_count):
        return None  # these may take longer than one length to empty
    late = np.flatnonzero(stated.high - stated.done > calls.length + calls.second)  # rounded twice
    if not len(late):
        return None
    reset = int(stated.high[late[0]] - stated.done[late[0]]) // calls.second
    says = f"RateLimit-Reset is {reset}, beyond the {calls.length // calls.second}s of the window"
    return calls.evidence(says, int(stated.who[late[0]]))


def _too_many_counted(calls: WindowCalls, window: str, refused_count: bool) -> Evidence | None:
    """No more calls are counted than can have come."""
    if not calls.exclusive:
        return None
    stated = calls.stated
    fixed = window in ("first_hit", "clock")  # these count no refused calls while they admit any
    possible, since = calls.may_count(refused_count and not fixed)
    if window == "gcra":
        most = drained_at_most(calls, possible, stated.sent, stated.done)
    else:
        back = 2 if window in ("sliding_counter", "rotating") else 1
        most = most_counted(possible, stated.sent, stated.done, back * calls.long)
    most = np.where(stated.sent < since, calls.limit, most)
    return _first(calls, stated.counted > most, stated.counted, most, "at most {} can have been counted")


def _too_few_counted(calls: WindowCalls, window: str, refused_count: bool) -> Evidence | None:
    """No fewer calls are counted than came for certain; fixed windows are judged by their edges."""
    stated, side = calls.stated, calls.admitted
    if window == "gcra":
        least = drained_at_least(calls, stated.sent, stated.done, refused_count)
    elif window == "sliding_log":
        counted = side.joined(calls.refused) if refused_count else side
        short = counted.within(calls.short)
        least = 1 + np.maximum(0, short.before(stated.sent) - short.begun(stated.done - calls.short))
        least = np.minimum(least, calls.limit)
    else:
        return None
    return _first(calls, stated.counted < least, stated.counted, least, "at least {} were")


def _first(calls: WindowCalls, wrong: Mask, stated: Ints, bound: Ints, what: str) -> Evidence | None:
    indices = np.flatnonzero(wrong)
    if not len(indices):
        return None
    which = indices[0]
    says = (
        f"RateLimit-Remaining is {calls.limit - int(stated[which])} of {calls.limit}: {int(stated[which])} "
        f"counted, but {what.format(int(bound[which]))}"
    )
    return calls.evidence(says, int(calls.stated.who[which]))


# Fixed windows: each has one end, and counts 1, 2, 3, …


@dataclass(frozen=True, slots=True)
class StatedEnds:
    """The statements that tell an end, in its order, and the bounds of the end of each window.

    `stating` are their positions, `first` where among them each window begins, `which` the window of each.
    `low_who` and `high_who` are the calls that state the bounds.
    """

    stating: Ints
    first: Ints
    which: Ints
    low: Ints
    high: Ints
    low_who: Ints
    high_who: Ints

    @classmethod
    def of(cls, calls: WindowCalls) -> StatedEnds | None:
        """Group what replies state by windows; None where none states an end."""
        stated = calls.stated
        stating = np.flatnonzero(
            (stated.high >= stated.low) & (stated.done - stated.sent < calls.length // 4)
        )
        if not len(stating):
            return None
        middle = (stated.low[stating] + stated.high[stating]) // 2
        order = np.argsort(middle, kind="stable")
        begins = np.concatenate([[True], np.diff(middle[order]) > calls.length // 2])
        first, stating = np.flatnonzero(begins), stating[order]
        low, high, who = stated.low[stating], stated.high[stating], stated.who[stating]
        spans = list(zip(first, [*first[1:], len(stating)], strict=True))
        return cls(
            stating,
            first,
            np.cumsum(begins) - 1,
            np.maximum.reduceat(low, first),
            np.minimum.reduceat(high, first),
            who[[begin + int(np.argmax(low[begin:end])) for begin, end in spans]],
            who[[begin + int(np.argmin(high[begin:end])) for begin, end in spans]],
        )


def _edges(calls: WindowCalls, window: str) -> Evidence | None:
    """One window has one end, no two of its calls have one number, and numbers follow the order of calls."""
    ends = StatedEnds.of(calls)
    if ends is None:
        return None
    return (
        _one_number_twice(calls, ends)
        or _out_of_order(calls, ends)
        or _ends_apart(calls, ends)
        or (_too_soon(calls, ends) if window == "first_hit" else _no_phase(calls, ends))
    )


def _one_number_twice(calls: WindowCalls, ends: StatedEnds) -> Evidence | None:
    """Two admitted replies of one window never state the same Remaining: one of them was not counted."""
    stated, stating = calls.stated, ends.stating
    order = np.lexsort((stated.counted[stating], ends.which))
    number, window = stated.counted[stating][order], ends.which[order]
    twice = np.flatnonzero((np.diff(number) == 0) & (np.diff(window) == 0))
    if not len(twice):
        return None
    call, other = stating[order[twice[0]]], stating[order[twice[0] + 1]]
    says = (
        f"two calls of one window are both told RateLimit-Remaining {calls.limit - int(number[twice[0]])}: "
        "one was not counted"
    )
    return calls.evidence(says, int(stated.who[call]), int(stated.who[other]))


def _out_of_order(calls: WindowCalls, ends: StatedEnds) -> Evidence | None:
    """A call that was over before another was sent has the lower number in their window."""
    stated = calls.stated
    order = ends.stating[np.lexsort((stated.counted[ends.stating], ends.which))]
    # The running latest sending restarts with each window.
    latest = np.concatenate(
        [np.maximum.accumulate(part) for part in np.split(stated.sent[order], ends.first[1:])]
    )
    wrong = np.flatnonzero(latest > stated.done[order])
    if not len(wrong):
        return None
    later = order[wrong[0]]
    same = order[ends.which == ends.which[wrong[0]]]
    before = same[np.argmax(stated.sent[same] == latest[wrong[0]])]
    says = (
        f"RateLimit-Remaining {calls.limit - int(stated.counted[before])} was told after "
        f"{calls.limit - int(stated.counted[later])} in one window"
    )
    return calls.evidence(says, int(stated.who[later]), int(stated.who[before]))


def _ends_apart(calls: WindowCalls, ends: StatedEnds) -> Evidence | None:
    """All replies of a window state one end."""
    apart = np.flatnonzero(ends.low > ends.high + calls.slack)
    if not len(apart):
        return None
    which = apart[0]
    says = (
        f"RateLimit-Reset ends one window both after {calls.clock(ends.low[which])} and before "
        f"{calls.clock(ends.high[which])}"
    )
    return calls.evidence(says, int(ends.low_who[which]), int(ends.high_who[which]))


def _too_soon(calls: WindowCalls, ends: StatedEnds) -> Evidence | None:
    """Windows from first hits end at least one length apart."""
    soon = np.flatnonzero(ends.high[1:] < ends.low[:-1] + calls.short)
    if not len(soon):
        return None
    which = soon[0]
    says = (
        f"RateLimit-Reset ends two windows of {format_millis(calls.length)} less than "
        f"{format_millis(int(ends.high[which + 1]) - int(ends.low[which]))} apart"
    )
    return calls.evidence(says, int(ends.low_who[which]), int(ends.high_who[which + 1]))


def _no_phase(calls: WindowCalls, ends: StatedEnds) -> Evidence | None:
    """Windows on a clock end whole lengths apart."""
    arcs = _arcs(calls, ends)
    who = arcs.covering(calls.length)
    if who is None:
        return None
    says = f"the ends that RateLimit-Reset tells are not whole windows of {format_millis(calls.length)} apart"
    return calls.evidence(says, *who)


def _arcs(calls: WindowCalls, ends: StatedEnds) -> Arcs:
    """Return the phases that the stated ends exclude, as `clocked` counts them."""
    return Arcs(ends.high, ends.low + calls.length, ends.low_who, ends.high_who).shrunk(calls)


def edge_arcs(calls: WindowCalls) -> Arcs:
    """Return the phases that the stated ends exclude; rounding is up or down, which adds a second."""
    ends = StatedEnds.of(calls)
    if ends is None:
        return Arcs(NONE, NONE, NONE, NONE)
    arcs = _arcs(calls, ends)
    kept = arcs.high - arcs.low > calls.second
    return Arcs(arcs.low[kept] + calls.second, arcs.high[kept], arcs.who[kept], arcs.other[kept])


def _openers(calls: WindowCalls) -> Evidence | None:
    """A reply that states the first call opens a window: at least one length after the one before did."""
    stated = calls.stated
    first = np.flatnonzero(stated.counted == 1)
    call, other = first[:-1], first[1:]  # whichever of them came first
    lasted = np.maximum(stated.done[other] - stated.sent[call], stated.done[call] - stated.sent[other])
    soon = np.flatnonzero(lasted < calls.short)
    if len(soon):
        says = (
            f"RateLimit-Remaining starts again after {format_millis(int(lasted[soon[0]]))} at most, and a "
            f"window lasts {format_millis(calls.length)}"
        )
        return calls.evidence(says, int(stated.who[call[soon[0]]]), int(stated.who[other[soon[0]]]))
    timed = first[stated.high[first] >= stated.low[first]]
    wrong = (stated.low[timed] > stated.done[timed] + calls.long) | (
        stated.high[timed] + calls.second < stated.sent[timed] + calls.short
    )
    if wrong.any():
        which = timed[np.argmax(wrong)]
        reset = (int(stated.high[which]) - int(stated.done[which])) // calls.second
        says = f"the first call of a window of {format_millis(calls.length)} is told RateLimit-Reset {reset}"
        return calls.evidence(says, int(stated.who[which]))
    return Chain(calls, stated=True).check() if calls.exclusive else None
