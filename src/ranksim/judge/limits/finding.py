"""Which limit an API has, where nobody says: read from its headers, or found by meeting it."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from typing import Final

from ranksim.core.clock import HOUR, MINUTE, SECOND, Micros
from ranksim.core.contract.quota import RateQuota
from ranksim.judge.conformance.rate.ledger import ADMITTED, REFUSED
from ranksim.judge.limits.calls import LimitedCall
from ranksim.judge.limits.probes import MOST_LANES, Volley

ROUND: Final = tuple(
    [count * SECOND for count in (1, 2, 3, 5, 10, 15, 20, 30)]
    + [count * MINUTE for count in (1, 2, 5, 10, 15, 30)]
    + [HOUR, 24 * HOUR]
)
"""Lengths that people choose."""

POLLS: Final = 80
"""Single calls, at most, by which the end of a window is awaited."""


def stated_quota(calls: Sequence[LimitedCall]) -> RateQuota | None:
    """Return what headers state as a limit and its length, the Reset of a first call for a length."""
    stated = [call.stated for call in calls if call.stated.limit is not None]
    if not stated:
        return None
    limit = stated[0].limit or 1
    length = next((each.length for each in stated if each.length), None)
    if length is None:
        seconds = [each.reset.seconds for each in stated if each.reset.seconds]
        seconds += [each.retry_after.seconds for each in stated if each.retry_after.seconds]
        if not seconds:
            return None
        length = next((each for each in ROUND if each >= max(seconds) * SECOND), None)
    return None if length is None or limit < 1 else RateQuota(limit, length)


def find_quotas(
    now: Micros, most: int, until: Micros, refusals: Collection[int]
) -> Generator[Volley, list[LimitedCall], tuple[list[LimitedCall], list[RateQuota]]]:
    """Meet the limit: burst until a call is refused, wait until one is admitted, and burst again.

    Returns all calls with the limits that they may be of, the likeliest first; none where it was not met.
    """
    calls = yield Volley(now, 1)
    quota = stated_quota(calls)
    if quota is not None:
        return calls, [quota]
    size = 8
    while not _refused(calls, refusals):
        if len(calls) + size > most // 2 or calls[-1].done > until:
            return calls, []
        calls += yield Volley(0, size, MOST_LANES)
        size *= 2
    quota = stated_quota(calls)
    if quota is not None:
        return calls, [quota]
    limit = sum(call.outcome(refusals) == ADMITTED for call in calls)
    opened = calls[0].sent
    gap = max(20_000, (calls[-1].done - opened) // 4)
    for _ in range(POLLS):
        if calls[-1].done + gap > until:
            return calls, []
        calls += yield Volley(calls[-1].done + gap, 1)
        if calls[-1].outcome(refusals) == ADMITTED:
            break
        gap = max(gap, (calls[-1].done - opened) // 8)
    else:
        return calls, []
    low, high = calls[-2].sent - opened, calls[-1].done - opened
    waited = (low, high), (low * limit, high * limit)  # a whole window; or what refills one call of a bucket
    lengths = [length for begin, end in waited for length in ROUND if begin - gap <= length <= end + gap]
    return calls, [RateQuota(limit, length) for length in lengths or [(low + high) // 2]]


def _refused(calls: Sequence[LimitedCall], refusals: Collection[int]) -> bool:
    return any(call.outcome(refusals) == REFUSED for call in calls)
