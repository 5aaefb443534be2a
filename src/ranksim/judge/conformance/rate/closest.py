"""Of a window that no reading explains: the reading that comes closest, and what each one fails on.

Closest is the reading that would explain all under the limit nearest to the stated one. Where none does, as
where too many are admitted now and then, it is one that fails on one side alone: on what was admitted, or on
what was refused.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from ranksim.judge.conformance.rate.elimination import CHECKS, Examined
from ranksim.judge.conformance.rate.ledger import Interpretation
from ranksim.judge.conformance.rate.window_calls import NOBODY, CallIntervals, WindowCalls
from ranksim.judge.conformance.verdict.verdicts import Evidence

NO_MORE, NO_FEWER = "no more", "no fewer"
"""The two sides of a limit: a refusal came where it was reached, and none before."""

NEAR: Final = (1, 2, 3)
"""Calls by which another limit may differ from the one stated, beside a twentieth and a tenth of it."""


def near(limit: int, side: str) -> list[int]:
    """Return the limits near one that would admit more, or fewer, the nearest first."""
    sign = 1 if side == NO_MORE else -1
    apart = {*NEAR, limit // 20, limit // 10} - {0}
    return [limit + sign * beyond for beyond in sorted(apart) if limit + sign * beyond > 0]


def closest(examined: Examined) -> tuple[str, Evidence]:
    """Return on which side a limit was not kept, and what the closest reading fails on there."""
    under = {reading: examined.window.calls(reading) for reading in examined.against}
    limit = examined.calls.limit
    one_sided = dict(_one_sided(under))
    others = {*near(limit, NO_MORE), *near(limit, NO_FEWER), *(other for other, _ in one_sided.values())}
    explaining = _explaining(examined, others)
    if not explaining and one_sided:
        reading = min(one_sided, key=lambda name: abs(one_sided[name][0] - limit))
        explaining = [(reading, one_sided[reading][1])]
    if len({side for _, side in explaining}) == 1:
        reading, side = explaining[0]
        return side, _fails(side, reading, under[reading]) or examined.against[reading]
    against = next(iter(examined.against.values()))
    refused = {examined.calls.log.id(int(name)) for name in examined.calls.refused.who}
    return NO_MORE if refused.isdisjoint(against.exchanges[-1:]) else NO_FEWER, against


def _explaining(examined: Examined, limits: set[int]) -> list[tuple[Interpretation, str]]:
    """Return the readings that explain all under the nearest of other limits, and on which side it is."""
    limit = examined.calls.limit
    for apart in sorted({abs(other - limit) for other in limits}):
        explaining = [
            (reading, NO_MORE if other > limit else NO_FEWER)
            for other in {limit + apart, limit - apart} & limits
            for reading in examined.against
            if examined.window.contradicts(reading, other) is None
        ]
        if explaining:
            return explaining
    return []


def _one_sided(
    under: dict[Interpretation, WindowCalls],
) -> Iterator[tuple[Interpretation, tuple[int, str]]]:
    """Return the readings that fail on one side alone, each with the nearest limit that mends it."""
    for reading, calls in under.items():
        failed = [side for side in (NO_MORE, NO_FEWER) if _fails(side, reading, calls) is not None]
        if len(failed) == 1:
            [side] = failed
            more = range(calls.limit, len(calls.admitted) + 1)
            others = more if side == NO_MORE else range(calls.limit, 1, -1)
            apart = bisect_left(
                others, True, key=lambda limit: _fails(side, reading, calls.allowing(limit)) is None
            )
            yield reading, (calls.limit + (apart if side == NO_MORE else -apart), side)


def _fails(side: str, reading: Interpretation, calls: WindowCalls) -> Evidence | None:
    """Return what a reading fails on where only what was admitted is looked at, or what was refused."""
    if side == NO_MORE:
        calls = replace(calls, refused=NOBODY)
    elif len(calls.admitted):
        first = [int(np.argmin(calls.admitted.done))]
        kept = calls.admitted
        calls = replace(calls, admitted=CallIntervals(kept.sent[first], kept.done[first], kept.who[first]))
    return CHECKS[reading.window](calls, reading.refused_count)


def with_readings(evidence: Evidence, examined: Examined) -> Evidence:
    """Return evidence with what each reading fails on: of each algorithm the one nearest to the default."""
    failed: dict[str, Evidence] = {}
    for reading, against in examined.against.items():
        counted = ", refused calls counted" if reading.refused_count else ""
        failed.setdefault(f"{reading.window}{counted}", against)
    return replace(evidence, readings=tuple(failed.items()))
