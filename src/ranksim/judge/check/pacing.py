"""A pace that rate limits admit, for all programs that share keys: what is refused tells nothing but that."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from ranksim.core.callers.steps import Pause, Received, Send, Until
from ranksim.core.clock import Micros
from ranksim.core.contract.facts import Facts
from ranksim.core.service.operations import OPERATIONS
from ranksim.judge.deployment.reading_pace import UNAUTHORIZED, stated_number

SHARE = 9
"""Tenths of a limit that are used: a class may be counted in another one, too (U87)."""

SPARE = 10

LEFT = 6
"""Tenths that are used where calls that never wait were sent with the key within a window."""


@dataclass(slots=True)
class Pacer:
    """Says when a call may be sent, by what was sent with its key within a window (µs).

    Any number of calls that keeps to it is admitted under each way of counting a window. Limits are those of
    S102 to S104, until a reply to an operation states a smaller one. Calls of one key that have one limit
    share it: what counts in another class than we think, or in none, states another limit, and neither waits
    for calls of our class nor has them wait. Calls that are for an instant never wait, and come in turn after
    each other: the others leave them room.
    """

    window: Micros
    _sent: dict[tuple[str, int], list[Micros]] = field(default_factory=dict)
    _limits: dict[tuple[str, str], int] = field(default_factory=dict)
    _met: dict[tuple[str, int], Micros] = field(default_factory=dict)
    """When a call that never waits was last sent."""

    def when(self, send: Send, now: Micros, *, waits: bool = True) -> Micros:
        """Return when a call may be sent, and count it there; now, if it never `waits`."""
        limit = self._limit(send)
        if limit is None:
            return now
        shared = send.key, limit
        sent = self._sent.setdefault(shared, [])
        del sent[: bisect_right(sent, now - self.window)]
        if not waits:
            self._met[shared] = now
        met = now - self._met.get(shared, now - self.window) < self.window
        most = max(1, limit * (LEFT if met else SHARE) // SPARE)
        at = now if len(sent) < most or not waits else sent[-most] + self.window
        insort(sent, at)
        return at

    def wait_for(self, send: Send, count: int, now: Micros) -> Micros:
        """Return how long it takes at most until so many more calls like one were admitted."""
        limit = self._limit(send)
        if limit is None:
            return 0
        sent = self._sent.get((send.key, limit), [])
        free = limit - (len(sent) - bisect_right(sent, now - self.window))
        beyond = count - max(0, free)
        return self.window * -(-beyond // limit) if beyond > 0 else 0

    def saw(self, send: Send, received: Received) -> None:
        """Learn the limit of an operation from a reply; of no key that is unknown, which has another."""
        limit, stated = self._limit(send), stated_number(received, "ratelimit-limit")
        if limit is not None and received.status != UNAUTHORIZED and stated is not None:
            self._limits[send.key, send.operation] = max(1, min(limit, stated))

    def _limit(self, send: Send) -> int | None:
        """Calls of this key and operation in a window; None for one without a key, or that is unknown."""
        operation = OPERATIONS.get(send.operation)
        if operation is None or not send.key:
            return None
        return self._limits.get((send.key, send.operation), Facts().rates.of(operation.rate))


def paced(program: Generator[Any, Any, Any], pacer: Pacer, *, waits: bool = True) -> Generator[Any, Any, Any]:
    """Run a program at a pace that rate limits admit; one that never `waits` has others wait for it."""
    answer: Any = None
    while True:
        try:
            step = program.send(answer)
        except StopIteration as end:
            return end.value
        if not isinstance(step, Send):
            answer = yield step
            continue
        now = yield Pause(0)
        at = pacer.when(step, now, waits=waits)
        if at > now:
            yield Until(at)
        answer = yield step
        pacer.saw(step, answer)
