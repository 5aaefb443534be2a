"""Fixed windows from the first hit: a chain of windows whose openings are known within intervals (U1).

A window opens at the first admitted call that no window covers, lasts its length and admits `limit` calls.
Where one opening is known to lie in [low, high], so does the next, one window and the next call later; each
admitted call and each refusal narrows it, and when nothing is left the calls cannot have been windowed so.
"""

from dataclasses import dataclass, field

import numpy as np

from ranksim.core.clock import DISTANT_FUTURE, Micros, format_millis
from ranksim.judge.conformance.rate.group_bounds import overfilled, overfilled_from
from ranksim.judge.conformance.rate.sliding import most_counted, refused_too_early
from ranksim.judge.conformance.rate.window_calls import HIDDEN, NONE, CallIntervals, Ints, Mask, WindowCalls
from ranksim.judge.conformance.verdict.verdicts import Evidence

AFTER_ALL = DISTANT_FUTURE * 2 - 1


def check_first_hit(calls: WindowCalls, refused_count: bool) -> Evidence | None:
    """A window from its first hit admits at most `limit` calls, and refuses only when it has as many."""
    evidence = overfilled(calls, beside=calls.limit - 1)
    if evidence is not None or refused_count:
        return evidence or _check_extended(calls)
    evidence = refused_too_early(calls, refused_count)
    return evidence or (Chain(calls).check() if calls.exclusive else None)


def _check_extended(calls: WindowCalls) -> Evidence | None:
    """A refused call makes its window last a whole length from then (the other side of U4).

    Necessary: no call is admitted less than a window after a refusal; a refusal comes less than a window
    after another, or has `limit` calls less than a window before it. The first call after a window without
    any opens one, which admits `limit`.
    """
    refused = calls.refused
    if not len(refused):
        return None
    evidence = overfilled_from(calls, opened_after_silence(calls))
    if evidence is not None:
        return evidence
    admitted = calls.admitted
    order = np.argsort(refused.done, kind="stable")
    latest = np.maximum.accumulate(refused.sent[order])
    index = np.searchsorted(refused.ends, admitted.sent, "right") - 1
    soon = (index >= 0) & (admitted.done < latest[np.maximum(index, 0)] + calls.short)
    if soon.any():
        which = int(np.argmax(soon))
        before = int(np.argmax(refused.sent == latest[index[which]]))
        says = (
            f"admitted at {calls.clock(admitted.done[which])}, less than {format_millis(calls.length)} after "
            f"a refusal at {calls.clock(refused.sent[before])} or later, which extends the window"
        )
        return calls.evidence(says, int(refused.who[before]), int(admitted.who[which]))
    return _first_refusals(calls) if calls.exclusive else None


def opened_after_silence(calls: WindowCalls) -> Ints:
    """Return when the calls were sent before which none came for a window: with each a window opens."""
    if not calls.exclusive:
        return NONE
    counted = calls.possible.joined(calls.refused)
    ended = np.maximum.accumulate(counted.done)
    return counted.sent[1:][counted.sent[1:] - ended[:-1] >= calls.long]


def _first_refusals(calls: WindowCalls) -> Evidence | None:
    """The first of some refusals, a window after all earlier ones, has `limit` calls before it."""
    refused = calls.refused
    latest = np.concatenate(
        [[-AFTER_ALL if calls.fresh else calls.start], np.maximum.accumulate(refused.done)]
    )
    first = np.flatnonzero(refused.sent - calls.long > latest[:-1])
    first = first[~_may_be_refused(calls, refused.sent[first])]
    if not len(first):
        return None
    soonest = np.minimum.reduceat(refused.done, first)
    few = np.flatnonzero(most_counted(calls.possible, refused.sent[first], soonest, calls.long) < calls.limit)
    if not len(few):
        return None
    says = (
        f"refused although fewer than {calls.limit} calls, and no refused one, came in the "
        f"{format_millis(calls.length)} before"
    )
    return calls.evidence(says, int(refused.who[first[few[0]]]))


def _may_be_refused(calls: WindowCalls, t: Ints) -> Mask:
    """Whether a call whose fate is unknown may have been refused less than a window before each instant."""
    unsure = calls.possible.begun(t) - calls.admitted.begun(t)
    ended = calls.possible.before(t - calls.long) - calls.admitted.before(t - calls.long)
    return np.asarray(unsure > ended)


@dataclass(slots=True)
class Chain:
    """The windows of one key and class, opening after opening.

    The present window opens in [low, high]. Every call at `after` or later is in it or in a later one, and so
    is every call admitted at `admitted_after` or later. `low_who` and `high_who` are the calls that say so.
    With `stated`, replies that say they are the first of their window are believed.
    """

    calls: WindowCalls
    stated: bool = False
    low: Micros = 0
    high: Micros = 0
    after: Micros = 0
    admitted_after: Micros = 0
    low_who: int = HIDDEN
    high_who: int = HIDDEN
    alone: Ints = field(init=False)
    earliest: Ints = field(init=False)

    def __post_init__(self) -> None:
        possible = self.calls.possible
        busy = np.concatenate([[-AFTER_ALL], np.maximum.accumulate(possible.done)])[:-1]
        quiet = possible.sent - self.calls.long >= busy
        quiet[:1] = self.calls.fresh
        self.alone = np.flatnonzero(quiet)
        by_end = possible.sent[np.argsort(possible.done, kind="stable")]
        self.earliest = np.minimum.accumulate(by_end[::-1])[::-1]

    def check(self) -> Evidence | None:
        """Follow the chain from each point where it is known."""
        at = -AFTER_ALL
        while self._find(at):
            while True:
                evidence = self._narrow() or self._crowded()
                if evidence is not None:
                    return evidence
                if not self._next():
                    return None
                if self.high - self.low >= self.calls.length:
                    break
            at = self.high
        return None

    # Finding the chain

    def _find(self, at: Micros) -> bool:
        """Find the next opening that is known by itself."""
        finders = (
            (self._silence, self._refusal, self._opener) if self.stated else (self._silence, self._refusal)
        )
        options = [option for finder in finders if (option := finder(at)) is not None]
        if not options:
            return False
        self.low, self.high, self.admitted_after, self.after, self.low_who, self.high_who = min(options)
        return True

    def _silence(self, at: Micros) -> tuple[int, int, int, int, int, int] | None:
        """The first call that comes a window after all before it opens one."""
        possible = self.calls.possible
        for index in self.alone[np.searchsorted(possible.sent[self.alone], at) :]:
            low = int(possible.sent[index])
            high, who = self._first_admitted(low)
            if high - low < self.calls.length // 2:
                return low, high, low, low, int(possible.who[index]), who
        return None

    def _refusal(self, at: Micros) -> tuple[int, int, int, int, int, int] | None:
        """Between a refusal and a later admission a window ended, and the next one opened."""
        refused = self.calls.refused
        for index in range(int(np.searchsorted(refused.sent, at, "left")), len(refused)):
            low, done = int(refused.sent[index]), int(refused.done[index])
            high, who = self._first_admitted(done)
            if high == AFTER_ALL:
                return None
            if high - low < self.calls.length // 2:
                return low, high, done, high, int(refused.who[index]), who
        return None

    def _opener(self, at: Micros) -> tuple[int, int, int, int, int, int] | None:
        """A reply that says it is the first of its window."""
        stated = self.calls.stated
        for index in np.flatnonzero((stated.counted == 1) & (stated.sent >= at)):
            low, high, who = int(stated.sent[index]), int(stated.done[index]), int(stated.who[index])
            if high - low < self.calls.length // 2:
                return low, high, high, high, who, who
        return None

    # Following it

    def _narrow(self) -> Evidence | None:
        """Refusals that only the present window explains keep it open until then, so it opened later."""
        calls, possible = self.calls, self.calls.possible
        for _ in range(4):
            alone = self._refused_before(self._filled(self.low + calls.short))
            if alone is None or alone[0] - calls.long <= self.low:
                break
            self.low, self.low_who = alone[0] - calls.long, alone[1]
        if self.low > self.high:
            says = (
                f"refused at {calls.clock(self.low + calls.long)} or later, though the window that opened by "
                f"{calls.clock(self.high)} must have ended, and too few calls came since to fill another"
            )
            return calls.evidence(says, self.high_who, self.low_who)
        empty = self._refused_before(self._filled(self.low))
        if empty is not None:
            begun = int(np.searchsorted(possible.sent, empty[2], "right"))
            count = max(0, begun - int(np.searchsorted(possible.ends, self.low, "left")))
            says = (
                f"refused by {calls.clock(empty[2])}, when at most {count} calls can have been in a window "
                f"that opened no sooner than {calls.clock(self.low)}, and {calls.limit} are allowed"
            )
            return calls.evidence(says, self.low_who, empty[1])
        return None

    def _filled(self, opened: Micros) -> Micros:
        """Until when fewer than `limit` calls can have come into a window that opened then or later."""
        possible = self.calls.possible
        index = self.calls.limit - 1 + int(np.searchsorted(possible.ends, opened, "left"))
        return int(possible.sent[index]) if index < len(possible) else AFTER_ALL

    def _refused_before(self, t: Micros) -> tuple[int, int, int] | None:
        """A late refusal of this window or a later one, over before `t`: when sent, who, when done."""
        refused = self.calls.refused
        begun = int(np.searchsorted(refused.sent, t, "left"))
        first = int(np.searchsorted(refused.sent, self.after, "left"))
        for index in range(begun - 1, max(first, begun - 256) - 1, -1):
            if refused.done[index] < t:
                return int(refused.sent[index]), int(refused.who[index]), int(refused.done[index])
        return None

    def _crowded(self) -> Evidence | None:
        """No call is admitted before the window ends once it is full, or once a call was refused in it."""
        calls = self.calls
        soonest, lasts = self.low + calls.short, f"lasts {format_millis(calls.length)}"
        full, full_who = self._beyond_limit()
        if full < soonest:
            says = (
                f"{calls.limit + 1} calls were admitted between {calls.clock(self.admitted_after)} and "
                f"{calls.clock(full)}, in a window that opened no sooner than {calls.clock(self.low)} "
                f"and {lasts}"
            )
            return calls.evidence(says, self.low_who, self.high_who, full_who)
        again, again_who, refused_who = self._after_refusal()
        if again < soonest:
            says = (
                f"admitted by {calls.clock(again)} after a refusal, in a window that opened no sooner than "
                f"{calls.clock(self.low)} and {lasts}"
            )
            return calls.evidence(says, self.low_who, refused_who, again_who)
        return None

    def _next(self) -> bool:
        """Go on to the next window; False when no further call is known to open one."""
        calls = self.calls
        full, full_who = self._beyond_limit()
        again, again_who, _ = self._after_refusal()
        plain, plain_who = self._first_admitted(self.high + calls.long)
        high, who = min((plain, plain_who), (full, full_who), (again, again_who))
        if high == AFTER_ALL:
            return False
        soonest = self.low + calls.short
        first = int(np.searchsorted(calls.possible.ends, soonest, "left"))
        low = max(soonest, int(self.earliest[first])) if first < len(self.earliest) else soonest
        refused = self._refusal_after(self.after)
        self.after = min(self.high + calls.long, high)
        self.admitted_after = self.after if refused is None else min(self.after, refused[0])
        self.low, self.high, self.low_who, self.high_who = low, high, self.high_who, who
        return True

    # Looking up

    def _first_admitted(self, t: Micros) -> tuple[int, int]:
        """By when a call sent at `t` or later was admitted, and which it was."""
        admitted = self.calls.admitted
        return _soonest(admitted, int(np.searchsorted(admitted.sent, t, "left")))

    def _beyond_limit(self) -> tuple[int, int]:
        """By when one call more than `limit` was admitted, counting from `admitted_after`."""
        admitted = self.calls.admitted
        index = int(np.searchsorted(admitted.sent, self.admitted_after, "left")) + self.calls.limit
        if index >= len(admitted):
            return AFTER_ALL, HIDDEN
        return int(admitted.ends[index]), int(admitted.ends_who[index])

    def _after_refusal(self) -> tuple[int, int, int]:
        """By when a call was admitted after a refusal, counting from `after`; the call and the refusal."""
        refused = self._refusal_after(self.after)
        if refused is None:
            return AFTER_ALL, HIDDEN, HIDDEN
        return (*self._first_admitted(refused[0]), refused[1])

    def _refusal_after(self, t: Micros) -> tuple[int, int] | None:
        """By when a call sent at `t` or later was refused, and which it was."""
        refused = self.calls.refused
        index = int(np.searchsorted(refused.sent, t, "left"))
        return _soonest(refused, index) if index < len(refused) else None


def _soonest(side: CallIntervals, index: int) -> tuple[int, int]:
    """The end of a call at `index` or soon after that ended first, and which it is."""
    if index >= len(side):
        return AFTER_ALL, HIDDEN
    offset = int(np.argmin(side.done[index : index + 256]))
    return int(side.done[index + offset]), int(side.who[index + offset])
