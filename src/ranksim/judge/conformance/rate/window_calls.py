"""The calls of one rate window, as arrays: what was certainly admitted, possibly admitted, and refused.

All checks of windows count intervals. A call took effect at one instant of [sent, done]; so at least
#(done < y) - #(sent < x) calls fell into [x, y), and at most #(sent <= y) - #(done < x) into [x, y].
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, Micros, format_millis
from ranksim.judge.conformance.verdict.verdicts import Evidence

Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

HIDDEN = -1
"""Stands for a call before the trace began, which nobody recorded."""

NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class CallIntervals:
    """Calls of one outcome in order of sending: [sent, done] in µs, `who` is a position in the history.

    `ends` and `ends_who` are `done` and `who` in order of `done`.
    """

    sent: Ints
    done: Ints
    who: Ints
    ends: Ints = field(init=False)
    ends_who: Ints = field(init=False)

    def __post_init__(self) -> None:
        order = np.argsort(self.done, kind="stable")
        object.__setattr__(self, "ends", self.done[order])
        object.__setattr__(self, "ends_who", self.who[order])

    def __len__(self) -> int:
        return len(self.sent)

    @classmethod
    def of(cls, sent: Ints, done: Ints, who: Ints) -> CallIntervals:
        """Sort calls by sending."""
        order = np.argsort(sent, kind="stable")
        return cls(sent[order], done[order], who[order])

    def joined(self, other: CallIntervals) -> CallIntervals:
        """Return both sides' calls as one."""
        if not len(other):
            return self
        return CallIntervals.of(
            np.concatenate([self.sent, other.sent]),
            np.concatenate([self.done, other.done]),
            np.concatenate([self.who, other.who]),
        )

    def within(self, length: Micros) -> CallIntervals:
        """Return the calls that took less than `length`; longer ones leave open when they took effect."""
        short = self.done - self.sent < length
        return (
            self if bool(short.all()) else CallIntervals(self.sent[short], self.done[short], self.who[short])
        )

    def before(self, t: Ints) -> Ints:
        """Count the calls that took effect before each instant for certain."""
        return np.searchsorted(self.ends, t, "left")

    def begun(self, t: Ints) -> Ints:
        """Count the calls that may have taken effect by each instant."""
        return np.searchsorted(self.sent, t, "right")

    def begun_before(self, t: Ints) -> Ints:
        """Count the calls that may have taken effect before each instant."""
        return np.searchsorted(self.sent, t, "left")


NOBODY = CallIntervals(NONE, NONE, NONE)


@dataclass(frozen=True, slots=True)
class StatedCounts:
    """What headers said: `counted` calls in the window, this one included, which ends in [low, high].

    `counted` is RateLimit-Limit less -Remaining, the end is from -Reset read as seconds rounded up; parallel
    to `sent`, `done` and `who`. `low > high` where -Reset was missing.
    """

    sent: Ints
    done: Ints
    who: Ints
    counted: Ints
    low: Ints
    high: Ints

    def __len__(self) -> int:
        return len(self.sent)


NOTHING = StatedCounts(NONE, NONE, NONE, NONE, NONE, NONE)


class Log(Protocol):
    """Names the calls of a run by their positions."""

    def id(self, position: int) -> str:
        """Return the id of the call at this position."""

    def sent(self, position: int) -> Micros:
        """Return when it was sent."""


@dataclass(frozen=True, slots=True)
class WindowCalls:
    """All calls that one window may have counted, under one reading of what counts where.

    `limit` calls in `length` µs are promised. `slack` is how far the clocks of client and deployment may
    drift apart in one window. `possible` holds the admitted calls, those whose fate is unknown, and, unless
    the window is known to have been fresh, `limit` hidden ones before the trace. Without `exclusive` others
    may have used the window too, so nothing can be said of refusals. `stated` is what admitted replies say.
    """

    about: str
    limit: int
    length: Micros
    slack: Micros
    second: Micros
    exclusive: bool
    admitted: CallIntervals
    possible: CallIntervals
    refused: CallIntervals
    stated: StatedCounts
    log: Log
    start: Micros
    """When the first of them can have been sent."""
    began: Micros
    """When the trace began, from which evidence counts."""
    fresh: bool = False
    lasting: bool = False
    """Whether `limit` are at once, each of which is under way for `length`."""

    @property
    def short(self) -> Micros:
        """The window at its shortest, as the client's clock may measure it."""
        return self.length - self.slack

    @property
    def long(self) -> Micros:
        """The window at its longest, likewise."""
        return self.length + self.slack

    def may_count(self, refused_count: bool) -> tuple[CallIntervals, Micros]:
        """Return all calls that may be counted, and the instant from which there were no more.

        Refused calls before the trace, if they count, may be any number; but once a call is admitted they can
        be no more than `limit`, and a window later none weighs as less than it is.
        """
        if not refused_count:
            return self.possible, DISTANT_PAST
        possible = self.possible.joined(self.refused)
        if self.fresh:
            return possible, DISTANT_PAST
        if not len(self.admitted):
            return possible, DISTANT_FUTURE
        admitted = int(self.admitted.ends[0])
        done = np.where(possible.who == HIDDEN, np.maximum(possible.done, admitted), possible.done)
        return CallIntervals.of(possible.sent, done, possible.who), admitted + self.long

    def allowing(self, limit: int) -> WindowCalls:
        """Return them under another limit; as many calls as it are hidden before the trace, if any are."""
        hidden = np.flatnonzero(self.possible.who == HIDDEN)
        if not len(hidden):
            return replace(self, limit=limit)
        kept = np.flatnonzero(self.possible.who != HIDDEN)
        place = np.concatenate([np.repeat(hidden[:1], limit), kept])
        possible = CallIntervals.of(
            self.possible.sent[place], self.possible.done[place], self.possible.who[place]
        )
        return replace(self, limit=limit, possible=possible)

    def clock(self, t: int) -> str:
        """Write an instant as the time since the trace began."""
        return format_millis(int(t) - self.began)

    def evidence(self, says: str, *who: int) -> Evidence:
        """Make evidence of the calls at these positions; hidden ones have no name."""
        involved = sorted({int(call) for call in who if call != HIDDEN})
        at = min((self.log.sent(call) for call in involved), default=None)
        expected = f"{self.limit} calls in {format_millis(self.length)}, and headers that count them so"
        return Evidence(says, tuple(self.log.id(call) for call in involved), (), self.about, at, expected)


def began_fresh(admitted: CallIntervals, refused: CallIntervals, stated: StatedCounts) -> bool:
    """Return whether the window was unused when the trace came to it: its first call says it is the first."""
    if not len(admitted) or not len(stated):
        return False
    first = (stated.sent <= int(admitted.ends[0])) & (stated.counted == 1)
    if not first.any():
        return False
    return not len(refused) or int(refused.sent[0]) > int(stated.done[first].min())


def hidden_calls(limit: int, start: Micros, length: Micros) -> CallIntervals:
    """As many calls as fit, sometime before the trace: what the window may have held already."""
    return CallIntervals(
        np.full(limit, start - length, np.int64),
        np.full(limit, start, np.int64),
        np.full(limit, HIDDEN, np.int64),
    )
