"""Limiters in virtual time, right and broken, and what plays probes against them."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from random import Random

from ranksim.core.clock import DISTANT_PAST, Micros
from ranksim.core.rules import windows
from ranksim.core.rules.books import Window
from ranksim.judge.limits.calls import LimitedCall
from ranksim.judge.limits.probes import Probing

Limiter = Callable[[Micros], int]
"""Decides a call at an instant: 1 admitted, 0 refused; calls come in order of time."""


def ruled(kind: str, limit: int, length: Micros, *, refused: bool = False, phase: Micros = 0) -> Limiter:
    """One of the five algorithms of the rulebook."""
    window = Window(windows.NAMES.index(kind), limit, length, refused)
    ring = [0] * limit
    windows.start(window)
    return lambda now: windows.take(now + phase, window, ring)


def rotating(limit: int, length: Micros) -> Limiter:
    """HAProxy's: two counters that rotate, begun anew when idle; refused calls count."""
    state = [DISTANT_PAST, 0, 0]

    def take(now: Micros) -> int:
        tick, current, previous = state
        if now - tick >= length:
            tick, current, previous = tick + length, 0, current
            if now - tick >= length:
                tick, previous = now, 0
        current += 1
        state[:] = [tick, current, previous]
        return int(current + previous * (tick + length - now) // length <= limit)

    return take


def replicas(*limiters: Limiter) -> Limiter:
    """Several that share nothing, in turn."""
    turns = deque(limiters)

    def take(now: Micros) -> int:
        turns.rotate()
        return turns[0](now)

    return take


def racing(limit: int, length: Micros, delay: Micros, *, log: bool) -> Limiter:
    """Checks first, counts `delay` later: a fixed window from the first call, or a log."""
    pending: list[Micros] = []
    counted: deque[Micros] = deque()

    def take(now: Micros) -> int:
        while pending and pending[0] <= now:
            counted.append(heapq.heappop(pending))
        while counted and counted[0] <= now - length:
            if log:
                counted.popleft()
            else:
                opened = counted[0]
                while counted and counted[0] < opened + length:
                    counted.popleft()
        if len(counted) >= limit:
            return 0
        heapq.heappush(pending, now + delay)
        return 1

    return take


def play(program: Probing, limiter: Limiter, draw: Random, latency: Micros) -> None:
    """Carry out probes in virtual time, each call taking about `latency` µs both ways."""
    seen: list[LimitedCall] | None = None
    now = number = 0
    while True:
        try:
            burst = program.send(seen) if seen is not None else next(program)  # type: ignore[arg-type]
        except StopIteration:
            return
        now = max(now, burst.at)
        lanes, sends = [now] * burst.lanes, []
        for nth in range(burst.count):
            sent = heapq.heappop(lanes)
            if burst.pace:
                sent = max(sent, now + nth * burst.pace)
            took = round(latency * draw.uniform(0.6, 2.0))
            sends.append((sent + round(took * draw.uniform(0.2, 0.8)), sent, sent + took))
            heapq.heappush(lanes, sent + took + 50)
        seen = []
        for arrived, sent, done in sorted(sends):
            number += 1
            status = 200 if limiter(arrived) else 429
            seen.append(LimitedCall(f"x{number}", sent, done, status))
        seen.sort(key=lambda call: call.sent)
        now = max(now, *(call.done for call in seen))
