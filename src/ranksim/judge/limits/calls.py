"""Calls under a rate limit, as they were observed, and as the checks of windows take them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ranksim.core.clock import MILLISECOND, SECOND, Micros
from ranksim.judge.conformance.rate.elimination import DRIFT
from ranksim.judge.conformance.rate.ledger import ADMITTED, REFUSED, UNSURE
from ranksim.judge.conformance.rate.window_calls import (
    NOTHING,
    CallIntervals,
    Mask,
    StatedCounts,
    WindowCalls,
    hidden_calls,
)
from ranksim.judge.limits.dialects import Stated, read_headers

REFUSALS = (429,)
"""Statuses with which a limit refuses, where nothing else is agreed (RFC 6585)."""

ROUNDING = MILLISECOND
"""By how much a limiter's clock may be coarser than ours: many count in milliseconds."""


@dataclass(frozen=True, slots=True)
class LimitedCall:
    """A call: [sent, done] in µs of the caller's clock; `status` is None where no reply was observed.

    `key` is who is limited, `weight` how much of the limit it takes; `request_headers` are in lower case.
    """

    id: str
    sent: Micros
    done: Micros
    status: int | None
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "GET"
    path: str = "/"
    key: str = ""
    weight: int = 1
    request_headers: Mapping[str, str] = field(default_factory=dict)

    def outcome(self, refusals: Collection[int]) -> int:
        """Return ADMITTED, REFUSED, or UNSURE: an error may come from before the limiter or after it."""
        if self.status is None:
            return UNSURE
        if self.status in refusals:
            return REFUSED
        return ADMITTED if 200 <= self.status < 400 else UNSURE

    @property
    def stated(self) -> Stated:
        """What its headers say of the limit."""
        return read_headers(self.headers)


@dataclass(frozen=True, slots=True)
class CallTable:
    """Calls that one limit counts, in order of sending; names them by their positions.

    `mixed`: a refusal need not say that this limit was reached, as where another counts the call, too, or
    where calls weigh more than one; such a call may or may not have counted.
    """

    calls: Sequence[LimitedCall]
    refusals: Collection[int] = REFUSALS
    mixed: bool = False

    def id(self, position: int) -> str:
        """Return the id of the call at this position."""
        return self.calls[position].id

    def sent(self, position: int) -> Micros:
        """Return when it was sent."""
        return self.calls[position].sent

    def window(
        self, limit: int, length: Micros, *, exclusive: bool, about: str = "calls", lasting: bool = False
    ) -> WindowCalls:
        """Return the calls as those of one window of `limit` in `length` µs.

        Without `exclusive` others may use the window, so no refusal comes too early. `lasting`: each call is
        under way for `length`.
        """
        start = self.calls[0].sent - ROUNDING
        outcome = np.array([call.outcome(self.refusals) for call in self.calls])
        if self.mixed:
            outcome[outcome == REFUSED] = UNSURE
        admitted, refused = self._side(outcome == ADMITTED), self._side(outcome == REFUSED)
        stated = self._stated(limit)
        hidden = hidden_calls(limit, start, length)  # whatever headers say: they may lie
        return WindowCalls(
            about=about,
            limit=limit,
            length=length,
            slack=max(1, length // DRIFT),
            second=SECOND,
            exclusive=exclusive,
            admitted=admitted,
            possible=admitted.joined(self._side(outcome == UNSURE)).joined(hidden),
            refused=refused,
            stated=stated,
            log=self,
            start=start,
            began=self.calls[0].sent,
            lasting=lasting,
        )

    def _side(self, chosen: Mask) -> CallIntervals:
        who = np.flatnonzero(chosen)
        who = np.repeat(who, [self.calls[int(at)].weight for at in who])
        calls = [self.calls[int(at)] for at in who]
        sent = np.array([call.sent - ROUNDING for call in calls], np.int64)
        done = np.array([call.done + ROUNDING for call in calls], np.int64)
        return CallIntervals.of(sent, done, who)

    def _stated(self, limit: int) -> StatedCounts:
        """What admitted replies say is left of this limit; its Reset is rounded as each library likes."""
        rows = [
            (call.sent - ROUNDING, call.done + ROUNDING, at, limit - stated.remaining)
            for at, call in enumerate(self.calls)
            if call.outcome(self.refusals) == ADMITTED
            and (stated := call.stated).remaining is not None
            and stated.limit in (limit, None)
        ]
        if not rows:
            return NOTHING
        sent, done, who, counted = (np.array(column, np.int64) for column in zip(*rows, strict=True))
        return StatedCounts(sent, done, who, counted, np.ones_like(sent), np.zeros_like(sent))
