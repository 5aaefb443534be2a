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
    pinned_sides,
    with_readings,
)
from ranksim.judge.conformance.rate.ledger import Interpretation
from ranksim.judge.conformance.rate.other_algorithms import waits_in_turn
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

NO_EFFECT = ("clock", "queue", "concurrency")
"""Where it makes no difference whether refused calls count."""


FAR, FAR_SHARE = 2, 1.1
"""More than so many calls beyond a limit, and than so many times as many, are no mistake in counting."""


class LimitVerdict(StrEnum):
    """What can be said of a limit."""

    HOLDS = "holds"
    BROKEN = "broken"
    OPEN = "open"


@dataclass(slots=True)
class LimitReadings(WindowReadings):
    """The calls under one limit: each algorithm, with and without refused calls counted, is open."""

    counted: WindowCalls
    _against: dict[tuple[Interpretation, bool], Evidence | None] = field(default_factory=dict)

    def readings(self) -> list[Interpretation]:
        """Return each algorithm, then with refused calls counted; a queue alone where one shows.

        Of calls that are stated to be under way for the length, concurrency alone: no other promises that.
        """
        if self.counted.lasting:
            return [Interpretation("concurrency")]
        if waits_in_turn(self.counted):
            return [Interpretation("queue")]
        names = [name for name in ALGORITHMS if name != "queue"]
        return [
            Interpretation(name, refused)
            for refused, name in product((False, True), names)
            if not (refused and name in NO_EFFECT)
        ]

    def calls(self, reading: Interpretation) -> WindowCalls:
        """Return the calls, which every reading counts alike."""
        return self.counted


@dataclass(frozen=True, slots=True)
class JudgedLimit:
    """What calls show of a limit of `limit` calls in `length` µs.

    `algorithms` are those that explain all of them; `pinned` has the calls
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
    at_once: int | None = None
    """How many calls were admitted at once after a silence, where that is far more than the limit."""

    @property
    def holds(self) -> bool:
        """Whether it was tested on both sides, and kept."""
        return self.verdict == LimitVerdict.HOLDS

    @property
    def algorithm(self) -> str | None:
        """The algorithm, where one alone explains the calls."""
        alone = len(self.algorithms) == 1 and self.verdict != LimitVerdict.BROKEN
        return self.algorithms[0] if alone else None


def judge_limit(
    calls: Sequence[LimitedCall],
    limit: int,
    length: Micros,
    *,
    exclusive: bool = True,
    refusals: Collection[int] = REFUSALS,
    mixed: bool = False,
    about: str = "calls",
    lasting: bool = False,
) -> JudgedLimit:
    """Judge `limit` calls in `length` µs from calls that it counts, in any order.

    `refusals` are the statuses by which it refuses. Without `exclusive` others may use the limit, too;
    `mixed`: a refusal need not be of this limit. `lasting`: each call is under way for `length`, and
    `limit` are at once.
    """
    table = CallTable(sorted(calls, key=lambda call: call.sent), refusals, mixed)
    readings = LimitReadings(table.window(limit, length, exclusive=exclusive, about=about, lasting=lasting))
    return _judged(examine(readings, {}, every=True), limit, length)


def _judged(examined: Examined[LimitReadings], limit: int, length: Micros) -> JudgedLimit:
    calls = examined.calls
    # a limit of calls at once promises nothing of windows
    acting = [reading for reading in examined.acting if calls.lasting or reading.window != "concurrency"]
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
            _admitted_at_once(calls) if side == NO_MORE else None,
        )
    pinned = pinned_sides(examined) if len(calls.refused) else {}
    verdict = LimitVerdict.HOLDS if len(pinned) == 2 else LimitVerdict.OPEN
    return JudgedLimit(limit, length, verdict, calls, names, refused_count, excluded, pinned)


def _admitted_at_once(calls: WindowCalls) -> int | None:
    """Return how many calls were admitted in a quarter of a window after a silence, if far too many.

    A clock that is fast, or a limit that is off by one, admits no more than the limit at once.
    """
    counted = calls.admitted.joined(calls.refused)
    opening = counted.sent[1:][
        counted.sent[1:] - np.maximum.accumulate(counted.done)[:-1] >= 2 * calls.length
    ]
    if not len(opening):
        return None
    side = calls.admitted
    most = int((side.before(opening + calls.length // 4) - side.begun_before(opening)).max())
    return most if most > max(calls.limit + FAR, calls.limit * FAR_SHARE) else None


def _explained_limit(examined: Examined[LimitReadings]) -> int | None:
    """Return the nearest limit under which a reading explains all."""
    limit = examined.calls.limit
    sides = (nearest_limits(limit, side) for side in (NO_MORE, NO_FEWER))
    near = sorted({other for side in sides for other in side}, key=lambda other: abs(other - limit))
    for other in near:
        if any(examined.window.contradicts(reading, other) is None for reading in examined.against):
            return other
    return None
