"""Algorithms beyond those that U1 leaves open: what other limiters do, as necessary conditions.

Each is held against the calls of a window like the five of `rules.windows`; `limit` L calls in `length` W.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, Micros, format_millis
from ranksim.judge.conformance.rate.counter import check_anchored_counter, check_counter
from ranksim.judge.conformance.rate.group_bounds import faster_than_refill, overfilled
from ranksim.judge.conformance.rate.sliding import check_gcra
from ranksim.judge.conformance.rate.window_calls import HIDDEN, NOBODY, CallIntervals, Ints, WindowCalls
from ranksim.judge.conformance.verdict.verdicts import Evidence

FEWEST_GAPS = 5
"""Replies one after another by which a queue is known."""


def check_rotating(calls: WindowCalls, refused_count: bool) -> Evidence | None:
    """A sliding counter whose windows begin anew with the first call after an idle time (HAProxy).

    Lemma: its windows follow each other without a gap until a call comes 2 W after one began; the call
    before is then at least W old. So between two gaps of W it is a sliding counter at one phase, in which
    what was counted before may count on, and need not; and after a gap of 2 W a window begins with a call.
    """
    for stretch in _busy_stretches(calls, refused_count):
        possible = _between(calls.possible, DISTANT_PAST, stretch.after)
        if refused_count:
            possible = possible.joined(_between(calls.refused, DISTANT_PAST, stretch.first))
        part = replace(
            calls,
            admitted=_between(calls.admitted, stretch.first, stretch.after),
            refused=_between(calls.refused, stretch.first, stretch.after),
            possible=possible,
            fresh=calls.fresh or stretch.anchored,
        )
        if not len(part.admitted):
            continue
        evidence = (
            check_anchored_counter(part, refused_count, stretch.first, stretch.done)
            if stretch.anchored
            else check_counter(part, refused_count)
        )
        if evidence is not None:
            return evidence
    return None


def check_queue(calls: WindowCalls, refused_count: bool) -> Evidence | None:
    """A leaky bucket with a queue (nginx without `nodelay`): L calls wait at most, one leaves every W / L.

    Lemma: a call leaves the queue within [sent, done], so n calls admitted within [x, y] are at most
    1 + floor(L (y - x) / W). What may enter is a bucket of L that refills in W. A refusal does not wait, so
    a call enters within the time that the slowest refusal took, but for one that was held up on its way: what
    contradicts the bucket does so by more than one call, or again a window later.
    """
    if calls.length >= calls.limit and calls.limit > 1:
        spacing = replace(calls, limit=1, length=calls.length // calls.limit)
        spacing = replace(spacing, slack=max(1, spacing.length // 200))
        evidence = faster_than_refill(spacing, rounded_up=False)
        if evidence is not None:
            return evidence
    if not len(calls.refused):
        return None
    slowest = int((calls.refused.done - calls.refused.sent).max())
    admitted, possible = (_within(side, slowest) for side in (calls.admitted, calls.possible))
    entered = replace(calls, admitted=admitted, possible=possible)
    evidence = check_gcra(entered, refused_count)
    return evidence if evidence is not None and _is_sure(entered, refused_count) else None


def _is_sure(calls: WindowCalls, refused_count: bool) -> bool:
    """Whether what contradicts a bucket is more than one call that was held up on its way explains."""

    def contradicted(first: Micros, after: Micros) -> bool:
        admitted, refused = (_between(side, first, after) for side in (calls.admitted, calls.refused))
        return check_gcra(replace(calls, admitted=admitted, refused=refused), refused_count) is not None

    fewer = replace(calls.allowing(max(1, calls.limit - 1)), admitted=NOBODY)
    more = replace(calls.allowing(calls.limit + 1), refused=NOBODY)
    if any(check_gcra(other, refused_count) is not None for other in (fewer, more)):
        return True
    instants = np.unique(np.concatenate([calls.admitted.sent, calls.refused.sent]))
    first = bisect_left(instants, True, key=lambda sent: contradicted(DISTANT_PAST, int(sent) + 1))
    return contradicted(int(instants[first]) + calls.long, DISTANT_FUTURE)


def waits_in_turn(calls: WindowCalls) -> bool:
    """Whether calls that come together are answered one by one, about W / L apart, and one alone at once."""
    side, spacing = calls.admitted, calls.length / calls.limit
    order = np.argsort(side.done, kind="stable")
    sent, done = side.sent[order], side.done[order]
    gaps = np.diff(done)[sent[1:] < done[:-1]]
    if len(gaps) < FEWEST_GAPS or int((done - sent).min()) * 4 > spacing:
        return False
    middle = float(np.median(gaps))
    even = np.abs(gaps - middle) < middle / 8
    return bool(0.7 * spacing < middle < 1.4 * spacing and even.mean() > 0.75)


def check_concurrency(calls: WindowCalls, refused_count: bool) -> Evidence | None:
    """At most L calls are under way at once.

    Lemma: a call is refused only while L others are under way, each of which was sent before the refusal was
    answered, and answered after it was sent.

    Where each is under way for the length or until it is answered, if that is later (`lasting`): a call that
    took the length or longer came, at the latest, the length before its answer, so no L + 1 of these come
    within less than the length for certain; and one that was answered sooner (a clock that stands still holds
    back nothing) may be under way for the length from its answer on.
    """
    if calls.lasting:
        admitted, possible = calls.admitted, calls.possible
        long = admitted.done - admitted.sent >= calls.long
        entered = CallIntervals(admitted.sent[long], admitted.done[long] - calls.short, admitted.who[long])
        evidence = overfilled(replace(calls, admitted=entered), beside=0)
        if evidence is not None:
            return evidence
        late = possible.done + calls.long * (possible.done - possible.sent < calls.long)
        calls = replace(calls, possible=CallIntervals(possible.sent, late, possible.who))
    refused = calls.refused
    if not calls.exclusive or not len(refused):
        return None
    others = _most_at_once(calls.possible, refused)
    few = np.flatnonzero(others < calls.limit)
    if not len(few):
        return None
    which = int(few[np.argmin(others[few])])
    says = (
        f"refused at {calls.clock(refused.done[which])}, when at most {int(others[which])} other calls were "
        f"under way, and {calls.limit} are allowed; a limit in {format_millis(calls.length)} is none of "
        "calls at once"
    )
    return calls.evidence(says, int(refused.who[which]))


def _most_at_once(possible: CallIntervals, refused: CallIntervals) -> Ints:
    """How many calls may have been under way at one instant of each refused call."""
    at_once = possible.begun(possible.sent) - possible.before(possible.sent)
    first, last = possible.begun_before(refused.sent), possible.begun(refused.done)
    here = possible.begun(refused.sent) - possible.before(refused.sent)
    most = [
        max(int(there), int(at_once[begin:end].max(initial=0)))
        for there, begin, end in zip(here, first, last, strict=True)
    ]
    return np.array(most, np.int64)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Calls sent in [first, after), before which all may have been idle; the first took effect by `done`.

    `anchored`: all was idle for two windows before, and nobody else calls, so one begins with the first.
    """

    first: Micros
    done: Micros
    after: Micros
    anchored: bool


def _busy_stretches(calls: WindowCalls, refused_count: bool) -> Iterator[_Stretch]:
    """Yield the stretches between which windows may have begun anew."""
    counted = calls.possible.joined(calls.refused) if refused_count else calls.possible
    recorded = counted.who != HIDDEN
    sent, done = counted.sent[recorded], counted.done[recorded]
    if not len(sent):
        return
    latest, ended = np.maximum.accumulate(sent), np.maximum.accumulate(done)
    first, opened, anchored = DISTANT_PAST, 0, False
    for at in np.flatnonzero(done[1:] - latest[:-1] >= calls.short) + 1:
        if anchored:
            passed = max(0, (int(latest[at - 1]) - opened) // calls.long)
            if int(done[at]) < first + (passed + 2) * calls.short:
                continue  # the window of the call before, or the one after it, is not over
        yield _Stretch(first, opened, int(sent[at]), anchored)
        first = int(sent[at])
        anchored = calls.exclusive and first - int(ended[at - 1]) >= 2 * calls.long
        # calls that overlap the first may have come before it
        opened = int(done[at:][sent[at:] <= done[at]].min())
    yield _Stretch(first, opened, DISTANT_FUTURE, anchored)


def _within(side: CallIntervals, longest: Micros) -> CallIntervals:
    """Return calls that took effect within so many µs after they were sent; hidden ones as they are."""
    done = np.where(side.who == HIDDEN, side.done, np.minimum(side.done, side.sent + longest))
    return CallIntervals(side.sent, done, side.who)


def _between(side: CallIntervals, first: int, after: int) -> CallIntervals:
    chosen = np.flatnonzero((side.sent >= first) & (side.sent < after))
    return CallIntervals(side.sent[chosen], side.done[chosen], side.who[chosen])
