"""Sliding logs and token buckets: windows without edges, checked by counting (U1 sliding_log, gcra)."""

import numpy as np

from ranksim.core.clock import Micros, format_millis
from ranksim.judge.conformance.rate.group_bounds import faster_than_refill, least_opened, opened, overfilled
from ranksim.judge.conformance.rate.window_calls import CallIntervals, Ints, WindowCalls
from ranksim.judge.conformance.verdict.verdicts import Evidence


def check_log(calls: WindowCalls, refused_count: bool) -> Evidence | None:
    """A sliding log admits at most `limit` calls in any window, and refuses only with that many in it.

    Necessary: no `limit` + 1 admitted calls lie within less than a window for certain; and before every
    refusal, `limit` calls may lie within one. With `refused_count` refused calls are in the log as well.
    """
    evidence = overfilled(calls, beside=0) or (_log_full(calls) if refused_count else None)
    return evidence or refused_too_early(calls, refused_count)


def _log_full(calls: WindowCalls) -> Evidence | None:
    """A call is admitted although so many others, refused ones counted, are certainly in the log."""
    logged = calls.admitted.joined(calls.refused).within(calls.short)
    late = calls.admitted.within(calls.short)
    # Certainly before this call, and certainly less than a window before it.
    count = logged.before(late.sent) - logged.begun(late.done - calls.short)
    if not len(late) or count.max() < calls.limit:
        return None
    worst = int(np.argmax(count >= calls.limit))
    first = int(logged.begun(late.done[worst : worst + 1] - calls.short)[0])
    says = (
        f"admitted although {int(count[worst])} calls, refused ones counted, had come within the "
        f"{format_millis(calls.length)} before, and {calls.limit} are allowed"
    )
    return calls.evidence(says, int(logged.who[first]), int(late.who[worst]))


def most_counted(possible: CallIntervals, sent: Ints, done: Ints, length: Micros) -> Ints:
    """Count the calls that a window of this length at an instant of [sent, done] may hold."""
    counted: Ints = possible.begun(done) - np.searchsorted(possible.ends, sent - length, "right")
    return counted


def refused_too_early(calls: WindowCalls, refused_count: bool) -> Evidence | None:
    """Before a refusal, `limit` calls may lie within one window: so for logs, and for fixed windows."""
    refused = calls.refused
    if not calls.exclusive or not len(refused):
        return None
    possible = calls.possible.joined(refused) if refused_count else calls.possible
    most = most_counted(possible, refused.sent, refused.done, calls.long) - int(refused_count)  # itself
    few = np.flatnonzero(most < calls.limit)
    if not len(few):
        return None
    which = int(few[np.argmin(most[few])])
    return _refused_early(calls, which, int(most[which]))


def _refused_early(calls: WindowCalls, which: int, most: int) -> Evidence:
    refused = calls.refused
    says = (
        f"refused at {calls.clock(refused.done[which])}, when at most {most} calls can have been counted in "
        f"{format_millis(calls.length)}, and {calls.limit} are allowed"
    )
    return calls.evidence(says, int(refused.who[which]))


def check_gcra(calls: WindowCalls, refused_count: bool) -> Evidence | None:
    """A bucket of `limit` tokens refills in one window; a call takes one.

    Necessary: the calls admitted within [x, y] are at most `limit` plus what refills from x to y; and before
    a refusal some x has so many possible calls that less than one token may be left. With `refused_count`
    refused calls take tokens too.
    """
    evidence = faster_than_refill(calls, rounded_up=False) or (
        _bucket_empty(calls) if refused_count else None
    )
    return evidence or _bucket_too_few(calls, refused_count)


def _bucket_empty(calls: WindowCalls) -> Evidence | None:
    """A call is admitted although so many others, refused ones counted, certainly drained the bucket."""
    side, drained = calls.admitted, calls.admitted.joined(calls.refused)
    over = drained_at_least(calls, side.sent, side.done, refused_count=True) > calls.limit
    if not over.any():
        return None
    last = int(np.argmax(over))
    ends = side.done[last : last + 1]
    first = int(np.argmin(opened(drained, calls)[: int(drained.begun(ends)[0])]))
    lasted = int(ends[0] - drained.sent[first])
    count = int(drained.before(ends + 1)[0]) - first
    says = (
        f"{count} calls were counted in {format_millis(lasted)} from {calls.clock(drained.sent[first])}; a "
        f"bucket of {calls.limit} that refills in {format_millis(calls.length)} holds out for "
        f"{calls.limit + lasted * calls.limit // calls.length}"
    )
    return calls.evidence(says, int(drained.who[first]), int(side.who[last]))


def drained_at_least(calls: WindowCalls, sent: Ints, done: Ints, refused_count: bool) -> Ints:
    """How many tokens the bucket lacks for certain once a call of [sent, done] was admitted, rounded up."""
    side = calls.admitted.joined(calls.refused) if refused_count else calls.admitted
    taken = side.before(sent) * calls.short - (done - calls.start) * calls.limit
    lacking = np.where(side.begun(sent) > 0, taken - least_opened(side, sent, calls), 0)
    most: Ints = 1 - (-np.maximum(0, lacking) // calls.short)
    return most


def drained_at_most(calls: WindowCalls, drained: CallIntervals, sent: Ints, done: Ints) -> Ints:
    """How many tokens the bucket may lack after what came by `done`, rounded up."""
    most = (
        drained.begun(done) * calls.long + _longest(drained, sent, calls) - (sent - calls.start) * calls.limit
    )
    rounded: Ints = -(-most // calls.long)
    return rounded


def _bucket_too_few(calls: WindowCalls, refused_count: bool) -> Evidence | None:
    refused = calls.refused
    if not calls.exclusive or not len(refused):
        return None
    possible, since = calls.may_count(refused_count)
    most = drained_at_most(calls, possible, refused.sent, refused.done) - int(refused_count)
    few = np.flatnonzero((most < calls.limit) & (refused.sent >= since))
    if not len(few):
        return None
    which = int(few[np.argmin(most[few])])
    return _refused_early(calls, which, int(max(0, most[which])))


def _longest(drained: CallIntervals, t: Ints, calls: WindowCalls) -> Ints:
    """The largest x * limit - #(done < x) * window over x <= t: which start drains most until later."""
    window, base = calls.long, calls.start
    here = (t - base) * calls.limit - drained.before(t) * window
    if not len(drained):
        return here
    past = drained.ends[drained.ends <= int(t.max())]
    if not len(past):
        return here
    starts = (past - base) * calls.limit - np.searchsorted(past, past, "left") * window
    best = np.maximum.accumulate(starts)
    index = np.searchsorted(past, t, "right") - 1
    earlier = np.where(index >= 0, best[np.maximum(index, 0)], here)
    longest: Ints = np.maximum(here, earlier)
    return longest
