"""A rate limit judged from calls under it: whether it holds, by which algorithm, how near it was tested."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product

import numpy as np

from ranksim.core.clock import Micros
from ranksim.judge.conformance.rate.elimination import (
    NO_FEWER,
    NO_MORE,
    Examined,
    WindowReadings,
    closest,
    examine,
    nearest_limits,
    with_readings,
)
from ranksim.judge.conformance.rate.ledger import Interpretation
from ranksim.judge.conformance.rate.window_calls import WindowCalls
from ranksim.judge.conformance.verdict.verdicts import Evidence
from ranksim.judge.limits.calls import REFUSALS, CallTable, LimitedCall

ALGORITHMS: Mapping[str, str] = {
    "first_hit": "fixed window from the first call",
    "clock": "fixed window on the clock",
    "sliding_log": "sliding log",
    "sliding_counter": "sliding counter",
    "rotating": "sliding counter that begins anew when idle",
    "gcra": "token bucket",
    "queue": "leaky bucket with a queue",
    "concurrency": "limit of calls at once",
}
"""What each algorithm is called, in words of the trade."""

SPECIAL: Mapping[str, str] = {"queue": "gcra"}
"""Algorithms that are a case of another: what the first explains, the second does, too."""

NO_EFFECT = ("clock", "queue", "concurrency")
"""Where it makes no difference whether refused calls count."""


class LimitVerdict(StrEnum):
    """What can be said of a limit."""

    HOLDS = "holds"
    BROKEN = "broken"
    OPEN = "open"


@dataclass(slots=True)
class LimitReadings(WindowReadings):
    """The calls under one limit: each algorithm, with and without refused calls counted, is open."""

    counted: WindowCalls
    algorithms: Collection[str] = tuple(ALGORITHMS)
    _against: dict[tuple[Interpretation, bool], Evidence | None] = field(default_factory=dict)

    def readings(self) -> list[Interpretation]:
        """Return each algorithm without refused calls counted, then with them."""
        return [
            Interpretation(name, refused)
            for refused, name in product((False, True), self.algorithms)
            if not (refused and name in NO_EFFECT)
        ]

    def calls(self, reading: Interpretation) -> WindowCalls:
        """Return the calls, which every reading counts alike."""
        return self.counted


@dataclass(frozen=True, slots=True)
class JudgedLimit:
    """What calls show of a limit of `limit` calls in `length` µs.

    `algorithms` are those that explain all of them, the special before the general; `pinned` has the calls
    by which the limit would have been caught one higher ("no more") and one lower ("no fewer"); `evidence`
    is what contradicts it. `refused_count`: whether refused calls count, None where that is open.
    """

    limit: int
    length: Micros
    verdict: LimitVerdict
    calls: WindowCalls
    algorithms: tuple[str, ...]
    refused_count: bool | None
    excluded: Mapping[str, Evidence]
    pinned: Mapping[str, Sequence[str]]
    evidence: Evidence | None = None
    side: str = ""
    nearest: int | None = None
    """The limit that explains all, where this one does not."""

    @property
    def holds(self) -> bool:
        """Whether it was tested on both sides, and kept."""
        return self.verdict == LimitVerdict.HOLDS

    @property
    def algorithm(self) -> str | None:
        """The algorithm, where one explains the calls alone, or as a special case of the other."""
        general = {SPECIAL[name] for name in self.algorithms if name in SPECIAL}
        names = [name for name in self.algorithms if name not in general]
        return names[0] if len(names) == 1 and self.verdict != LimitVerdict.BROKEN else None


def judge_limit(
    calls: Sequence[LimitedCall],
    limit: int,
    length: Micros,
    *,
    exclusive: bool = True,
    refusals: Collection[int] = REFUSALS,
    about: str = "calls",
) -> JudgedLimit:
    """Judge `limit` calls in `length` µs from calls that it counts, in any order.

    `refusals` are the statuses by which it refuses. Without `exclusive` others may use the limit, too.
    """
    table = CallTable(sorted(calls, key=lambda call: call.sent), refusals)
    readings = LimitReadings(table.window(limit, length, exclusive=exclusive, about=about))
    return _judged(examine(readings, {}, every=True), limit, length)


def _judged(examined: Examined[LimitReadings], limit: int, length: Micros) -> JudgedLimit:
    calls = examined.calls
    acting = [reading for reading in examined.acting if _told_apart(reading, calls)]
    excluded: dict[str, Evidence] = {}
    for reading, against in examined.against.items():
        if reading not in examined.acting:
            excluded[reading.window] = against
    names = tuple(name for name in ALGORITHMS if any(reading.window == name for reading in acting))
    for name in names:
        excluded.pop(name, None)
    counting = {reading.refused_count for reading in acting if reading.window not in NO_EFFECT}
    refused_count = next(iter(counting)) if len(counting) == 1 and len(calls.refused) else None
    if not acting:
        side, evidence = closest(examined)
        return JudgedLimit(
            limit,
            length,
            LimitVerdict.BROKEN,
            calls,
            (),
            None,
            excluded,
            {},
            with_readings(evidence, examined),
            side,
            _explained_limit(examined),
        )
    pinned = _pinned(examined)
    verdict = LimitVerdict.HOLDS if len(pinned) == 2 else LimitVerdict.OPEN
    return JudgedLimit(limit, length, verdict, calls, names, refused_count, excluded, pinned)


def _told_apart(reading: Interpretation, calls: WindowCalls) -> bool:
    """Whether a reading is more than possible: a queue shows where calls overlap that wait for each other."""
    if reading.window == "concurrency":
        return False  # it promises nothing of windows
    if reading.window != "queue":
        return True
    took = calls.admitted.done - calls.admitted.sent
    spacing = calls.length // calls.limit
    return bool(len(took)) and int(took.min()) * 4 < spacing and int(np.sort(took)[-1]) > 2 * spacing


def _pinned(examined: Examined[LimitReadings]) -> dict[str, Sequence[str]]:
    """Return on which side the limit was pinned, and the calls that pin it."""
    limit = examined.calls.limit
    if len(examined.calls.admitted) < limit or not len(examined.calls.refused):
        return {}
    excluding = {side: examined.window.excludes(nearest_limits(limit, side)) for side in (NO_MORE, NO_FEWER)}
    return {side: against.exchanges for side, against in excluding.items() if against is not None}


def _explained_limit(examined: Examined[LimitReadings]) -> int | None:
    """Return the nearest limit under which a reading explains all."""
    limit = examined.calls.limit
    sides = (nearest_limits(limit, side) for side in (NO_MORE, NO_FEWER))
    near = sorted({other for side in sides for other in side}, key=lambda other: abs(other - limit))
    for other in near:
        if any(examined.window.contradicts(reading, other) is None for reading in examined.against):
            return other
    return None
