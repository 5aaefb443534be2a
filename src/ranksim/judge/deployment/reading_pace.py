"""Reading alone, at a pace that leaves rate limits to those whose they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ranksim.core.callers.steps import Pause, Received, Send, relayed, silence
from ranksim.core.callers.target import Target
from ranksim.core.clock import MINUTE, SECOND, Micros
from ranksim.core.contract.facts import Facts, RateClass
from ranksim.core.service.operations import OPERATIONS

UNANSWERED: Micros = MINUTE
"""How long after a call without a reply it may still come to be counted."""

UNAUTHORIZED = 401

LOOKS: Micros = SECOND // 10
"""Between two looks at whether calls under way were answered."""


def reads(send: Send) -> bool:
    """Return whether a call is a GET, or a query over GraphQL."""
    if OPERATIONS[send.operation].method != "GET":
        return False
    query = str((send.body or {}).get("query", "")).lstrip()
    return send.surface == "rest" or (send.surface == "graphql" and query.startswith(("query", "{")))


def stated_number(received: Received, header: str) -> int | None:
    """Return the number that a RateLimit header begins with, None where it has none."""
    text = received.header(header).partition(",")[0].strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


@dataclass(slots=True)
class _Bucket:
    """The calls that a deployment counts together: those of a key, or those without a valid one."""

    percent: int
    window: Micros
    _under_way: Counter[str] = field(default_factory=Counter)
    _ended: list[tuple[Micros, str]] = field(default_factory=list)
    """By when each call was counted, and its operation."""
    _limits: dict[str, int] = field(default_factory=dict)
    _silent_until: Micros = 0

    def wait(self, operation: str, now: Micros) -> Micros:
        """Return how long a call must wait at least (µs)."""
        if self._silent_until > now:
            return self._silent_until - now
        past, limit = now - self.window, self._limit(operation)
        self._ended = [(ended, name) for ended, name in self._ended if ended > past]
        ends = sorted(ended for ended, name in self._ended if self._limit(name) == limit)
        under_way = sum(count for name, count in self._under_way.items() if self._limit(name) == limit)
        beyond = under_way + len(ends) - self._most(limit)
        if beyond < 0:
            return 0
        return ends[beyond] - past if beyond < len(ends) else LOOKS

    def began(self, operation: str) -> None:
        """Note that a call is sent."""
        self._under_way[operation] += 1

    def ended(self, operation: str, instant: Micros) -> None:
        """Note by when a call is counted there, at the latest."""
        self._under_way[operation] -= 1
        self._ended.append((instant, operation))

    def learn(self, operation: str, received: Received) -> None:
        """Take in what a reply states of its limit."""
        stated, left = (stated_number(received, f"ratelimit-{name}") for name in ("limit", "remaining"))
        if stated is not None:
            self._limits[operation] = max(1, stated)
        if received.status == 429 or (left is not None and left < self._most(self._limit(operation))):
            self._silent_until = received.received + self.window

    def _most(self, limit: int) -> int:
        return max(1, limit * self.percent // 100)

    def _limit(self, operation: str) -> int:
        """Return the limit of an operation; before it is stated, the least that is."""
        usual = Facts().rates.of(RateClass.READ)
        stated = self._limits.get(operation)
        return min(usual, stated if stated is not None else min(self._limits.values(), default=usual))


@dataclass(slots=True)
class ReadingPace:
    """Admits so many calls of a key in any window (µs) as are `percent` of their limit, and one at least.

    The limit is that of reads (S102), or what replies state where that is less; operations of one limit share
    it. A deployment counts a call before it answers, so a later one is sent when the window has passed since
    the reply: however long either is under way, no window there has more. Where a reply says that others left
    less than this part of a limit, or refuses, nothing is sent with the key for a window. Calls without a key
    that is valid where they go share what an address may call.
    """

    target: Target
    percent: int
    held_back: int = 0
    """Calls that would not have read."""
    _buckets: dict[str, _Bucket] = field(default_factory=dict)

    def wait(self, send: Send, now: Micros) -> Micros:
        """Return how long a call must wait at least (µs); 0 where it may be sent, and is under way now."""
        buckets = self._of(send)
        wait = max(bucket.wait(send.operation, now) for bucket in buckets)
        if not wait:
            for bucket in buckets:
                bucket.began(send.operation)
        return wait

    def saw(self, send: Send, received: Received) -> None:
        """Take in a reply, or that none came."""
        self.gave_up(send, received.received + (0 if received.status else UNANSWERED))
        if received.status != UNAUTHORIZED or not self._is_home(send):  # else it counts elsewhere
            self._of(send)[-1].learn(send.operation, received)

    def gave_up(self, send: Send, ended: Micros) -> None:
        """Note by when a call is counted there, at the latest."""
        for bucket in self._of(send):
            bucket.ended(send.operation, ended)

    def _of(self, send: Send) -> list[_Bucket]:
        """Return where a call is counted: by its key, and by its address where the key is not valid."""
        names = [send.key] * (send.key in self.target.keys) + [""] * (not self._is_home(send))
        window = -(-Facts().rate_window // self.target.traffic_scale)
        return [self._buckets.setdefault(name, _Bucket(self.percent, window)) for name in names]

    def _is_home(self, send: Send) -> bool:
        own = self.target.environment_of(send.key)
        return send.key in self.target.keys and send.environment in ("", own)


def reading(program: Generator[Any, Any, Any], pace: ReadingPace) -> Generator[Any, Any, Any]:
    """Run a program of which only what reads is sent, at a pace; all else is answered like silence."""
    return relayed(program, partial(_paced_reading, pace))


def _paced_reading(pace: ReadingPace, send: Send) -> Generator[Any, Any, Received]:
    if not reads(send):
        pace.held_back += 1
        return (yield from silence())
    now: Micros = yield Pause(0)
    while wait := pace.wait(send, now):
        now = yield Pause(wait)
    try:
        answer: Received = yield send
    except GeneratorExit:
        pace.gave_up(send, now + UNANSWERED)
        raise
    pace.saw(send, answer)
    return answer
