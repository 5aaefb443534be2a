"""How many calls a window can have admitted in a stretch of time, however they overlap (U1, U4).

Each check of one call asks what had certainly come before it, and where all calls overlap nothing had. Of a
group it does not matter which came first: of the calls admitted, at least #(done <= y) - #(sent < x) took
effect in [x, y]. With L calls in W, no algorithm of `rules.windows` admits more in [x, y], D = y - x, than
told here. Whether refused calls count makes no difference: they make no room.

CLOCK: k L + L, where D < k W.
    At most k edges stand in [x, y], so k + 1 windows meet it, of at most L calls each.
FIRST_HIT: k L + L - 1, where D < k W.
    Windows open at least W apart, and a refused call can but put the next one off. So k open in [x, y] at
    most, and the call that opened the one before came before x.
SLIDING_LOG: k L, where D < k W.
    A call is admitted only if the L-th newest in the log is W old. So of L + 1 calls that were admitted, the
    last comes at least W after the first, and of k L + 1 it comes k W after.
SLIDING_COUNTER: L + ceil(L D / W).
    Let n calls be admitted in a clock window, and b in the next one within s of its edge. The last of them
    found b - 1 + floor(n (W - s) / W) counted at least, and was admitted; so b <= L - floor(n (W - s) / W)
    and n + b <= L + ceil(n s / W) <= L + ceil(L s / W), since n <= L. Where [x, y] meets one edge, n is what
    came since x, and s <= D. Where it meets k, D >= (k - 1) W + s, and the k - 1 windows before the last two
    have at most L calls each.
GCRA: L + floor(L D / W).
    The bucket holds at most L tokens at x, L D / W flow in until y, each call admitted takes one and leaves
    no less than none; what refused calls take is missing.
"""

from typing import Final

import numpy as np

from ranksim.core.clock import format_millis
from ranksim.judge.conformance.rate.window_calls import CallIntervals, Ints, WindowCalls
from ranksim.judge.conformance.verdict.verdicts import Evidence

SPANS: Final = (1, 2, 3)
"""Lengths of a window within which calls are counted."""

TWO_WINDOWS: Final = "meets two windows"
"""What evidence says of calls that no one window can have admitted."""


def overfilled(calls: WindowCalls, beside: int) -> Evidence | None:
    """Return calls admitted in less than k windows that are more than k times `limit` and `beside`."""
    for spans in SPANS:
        most = spans * calls.limit + beside
        lasts = spans * calls.short
        side = calls.admitted.within(lasts)
        if len(side) <= most:
            continue
        count = side.before(side.sent + lasts) - side.begun_before(side.sent)
        first = int(np.argmax(count))
        if count[first] <= most:
            continue
        last = int(np.searchsorted(side.ends, side.sent[first] + lasts, "left")) - 1
        met = TWO_WINDOWS if spans == 1 else f"meets {spans + 1} windows"
        says = (
            f"{int(count[first])} calls were admitted between {calls.clock(side.sent[first])} and "
            f"{calls.clock(side.ends[last])}, less than {format_millis(spans * calls.length)} apart, "
            + (f"which {met} of {calls.limit} at most" if beside else f"and {most} are allowed")
        )
        return calls.evidence(says, int(side.who[first]), int(side.ends_who[last]))
    return None


def overfilled_from(calls: WindowCalls, opening: Ints) -> Evidence | None:
    """Return calls of one window that are more than `limit`: one opens with the first call from each instant.

    Whichever of the calls that overlap it comes first, the window lasts `length` from the instant at least.
    """
    side = calls.admitted.within(calls.short)
    count = side.before(opening + calls.short) - side.begun_before(opening)
    over = np.flatnonzero(count > calls.limit)
    if not len(over):
        return None
    first = opening[over[:1]]
    says = (
        f"{int(count[over[0]])} calls were admitted in the window of {format_millis(calls.length)} that "
        f"opened at {calls.clock(int(first[0]))} or later, after a silence"
    )
    begun, ended_by = int(side.begun_before(first)[0]), int(side.before(first + calls.short)[0])
    return calls.evidence(says, int(side.who[begun]), int(side.ends_who[ended_by - 1]))


def faster_than_refill(calls: WindowCalls, *, rounded_up: bool) -> Evidence | None:
    """Return calls that are more than `limit` and what a length of time adds evenly, `rounded_up` or down."""
    side = calls.admitted
    if len(side) <= calls.limit:
        return None
    taken = np.arange(1, len(side) + 1) * calls.short - (side.ends - calls.start) * calls.limit
    over = taken - least_opened(side, side.ends, calls) - calls.limit * calls.short
    excess = np.flatnonzero(over >= calls.short if rounded_up else over > 0)
    if not len(excess):
        return None
    last = int(excess[0])
    first = int(np.argmin(opened(side, calls)[: int(side.begun(side.ends[last : last + 1])[0])]))
    lasted = int(side.ends[last] - side.sent[first])
    added = lasted * calls.limit
    says = (
        f"{last + 1 - first} calls were admitted in {format_millis(lasted)} from "
        f"{calls.clock(side.sent[first])}; {calls.limit} and what {format_millis(calls.length)} add evenly "
        f"are {calls.limit + (-(-added // calls.short) if rounded_up else added // calls.short)} at most"
    )
    return calls.evidence(says, int(side.who[first]), int(side.ends_who[last]))


def opened(side: CallIntervals, calls: WindowCalls) -> Ints:
    """For each call: calls sent before it, times the window, less what refilled until it."""
    bounds: Ints = np.arange(len(side)) * calls.short - (side.sent - calls.start) * calls.limit
    return bounds


def least_opened(side: CallIntervals, t: Ints, calls: WindowCalls) -> Ints:
    """The smallest `opened` of a call sent by each instant."""
    least = np.minimum.accumulate(opened(side, calls))
    bounds: Ints = least[np.maximum(side.begun(t) - 1, 0)]
    return bounds
