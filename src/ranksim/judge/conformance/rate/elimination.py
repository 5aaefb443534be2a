"""Which readings of what is open explain the calls of one window: elimination by sound checks.

Of a window that no reading explains, the closest is told, and what each fails on: the reading that would
explain all under the limit nearest to the stated one. Where none does, as where too many are admitted now and
then, it is one that fails on one side alone: on what was admitted, or on what was refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np

from ranksim.judge.conformance.rate.clocked import check_clock
from ranksim.judge.conformance.rate.counter import check_counter
from ranksim.judge.conformance.rate.first_hit import check_first_hit
from ranksim.judge.conformance.rate.ledger import Interpretation
from ranksim.judge.conformance.rate.other_algorithms import (
    check_concurrency,
    check_queue,
    check_rotating,
)
from ranksim.judge.conformance.rate.sliding import check_gcra, check_log
from ranksim.judge.conformance.rate.stated import check_stated
from ranksim.judge.conformance.rate.window_calls import NOBODY, CallIntervals, WindowCalls
from ranksim.judge.conformance.verdict.verdicts import Evidence

Excluded: TypeAlias = Mapping[Interpretation, Evidence]
"""Readings that cannot have admitted and refused some calls, and what shows it."""

Check: TypeAlias = Callable[[WindowCalls, bool], Evidence | None]

CHECKS: dict[str, Check] = {
    "first_hit": check_first_hit,
    "clock": check_clock,
    "sliding_log": check_log,
    "sliding_counter": check_counter,
    "gcra": check_gcra,
    "rotating": check_rotating,
    "queue": check_queue,
    "concurrency": check_concurrency,
}
"""For each algorithm, its necessary conditions: None, or what cannot be. U1 leaves the first five open."""

DRIFT = 5000
"""Clocks of client and deployment may drift apart by one part in so many: 200 ppm."""


class WindowReadings(ABC):
    """The calls of one window under each reading that is open, and what each reading fails on."""

    _against: dict[tuple[Interpretation, bool], Evidence | None]
    """What a reading fails on: in what was admitted and refused, or in what headers say."""

    @abstractmethod
    def readings(self) -> list[Interpretation]:
        """Return the readings that are open and make a difference, the default first, the nearest next."""

    @abstractmethod
    def calls(self, reading: Interpretation) -> WindowCalls:
        """Return the calls under a reading."""

    def contradicts(self, reading: Interpretation, limit: int | None = None) -> Evidence | None:
        """Return what a reading cannot have admitted or refused, under a limit, whatever headers say."""
        calls = self.calls(reading) if limit is None else self.calls(reading).allowing(limit)
        return CHECKS[reading.window](calls, reading.refused_count)

    def fails_on(self, reading: Interpretation, *, stated: bool = False) -> Evidence | None:
        """Return what a reading fails on, which no option changes: it is found out once."""
        if (reading, stated) not in self._against:
            self._against[reading, stated] = (
                check_stated(self.calls(reading), reading.window, reading.refused_count)
                if stated
                else self.contradicts(reading)
            )
        return self._against[reading, stated]

    def excludes(self, limits: Iterable[int]) -> Evidence | None:
        """Return what shows that no reading admits and refuses so under one of these limits, if none does."""
        first: Evidence | None = None
        for limit, reading in product(limits, self.readings()):
            evidence = self.contradicts(reading, limit)
            if evidence is None:
                return None
            first = first or evidence
        return first


W = TypeVar("W", bound=WindowReadings)


@dataclass(slots=True)
class Examined(Generic[W]):
    """What is left of the readings of one window; `calls` are those under the default.

    `acting` holds the readings that explain which calls were admitted and refused; `surviving` those of them
    that agree with what the headers say, too. `against` is the evidence against each other reading.
    """

    window: W
    calls: WindowCalls
    acting: list[Interpretation] = field(default_factory=list)
    surviving: list[Interpretation] = field(default_factory=list)
    against: dict[Interpretation, Evidence] = field(default_factory=dict)

    @property
    def excluded(self) -> Excluded:
        """What is excluded whatever headers say."""
        return {reading: evidence for reading, evidence in self.against.items() if reading not in self.acting}


def examine(window: W, excluded: Excluded, *, every: bool = False) -> Examined[W]:
    """Try the readings of a window, but those that are `excluded` already.

    Ends once the default one survives; with `every` it tries them all.
    """
    readings = window.readings()
    result: Examined[W] = Examined(window, window.calls(readings[0]))
    for reading in readings:
        against = excluded.get(reading) or window.fails_on(reading)
        if against is None:
            result.acting.append(reading)
            against = window.fails_on(reading, stated=True)
        if against is not None:
            result.against[reading] = against
            continue
        result.surviving.append(reading)
        if len(result.surviving) == 1 and not result.against and not every:
            break
    return result


NO_MORE, NO_FEWER = "no more", "no fewer"
"""The two sides of a limit: a refusal came where it was reached, and none before."""

NEAR: Final = (1, 2, 3)
"""Calls by which another limit may differ from the one stated, beside a twentieth and a tenth of it."""


def nearest_limits(limit: int, side: str) -> list[int]:
    """Return the limits near one that would admit more, or fewer, the nearest first."""
    sign = 1 if side == NO_MORE else -1
    apart = {*NEAR, limit // 20, limit // 10} - {0}
    return [limit + sign * beyond for beyond in sorted(apart) if limit + sign * beyond > 0]


def pinned_sides(examined: Examined[Any]) -> dict[str, tuple[str, ...]]:
    """Return on which side the limit was pinned, and the calls that pin it.

    So it is where no reading explains what was admitted and refused by another limit that is near on that
    side: one that an algorithm or a phase excused would have been seen.
    """
    limit = examined.calls.limit
    sides = (NO_MORE, NO_FEWER) if len(examined.calls.admitted) >= limit else ()
    excluding = {side: examined.window.excludes(nearest_limits(limit, side)) for side in sides}
    return {side: against.exchanges for side, against in excluding.items() if against is not None}


# The closest of readings that all fail


def closest(examined: Examined[Any]) -> tuple[str, Evidence]:
    """Return on which side a limit was not kept, and what the closest reading fails on there."""
    under = {reading: examined.window.calls(reading) for reading in examined.against}
    limit = examined.calls.limit
    one_sided = dict(_one_sided(under))
    others = {
        *nearest_limits(limit, NO_MORE),
        *nearest_limits(limit, NO_FEWER),
        *(other for other, _ in one_sided.values()),
    }
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


def _explaining(examined: Examined[Any], limits: set[int]) -> list[tuple[Interpretation, str]]:
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


def _one_sided(under: dict[Interpretation, WindowCalls]) -> Iterator[tuple[Interpretation, tuple[int, str]]]:
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


def with_readings(evidence: Evidence, examined: Examined[Any]) -> Evidence:
    """Return evidence with what each reading fails on: of each algorithm the one nearest to the default."""
    failed: dict[str, Evidence] = {}
    for reading, against in examined.against.items():
        counted = ", refused calls counted" if reading.refused_count else ""
        failed.setdefault(f"{reading.window}{counted}", against)
    return replace(evidence, readings=tuple(failed.items()))
