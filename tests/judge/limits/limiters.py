"""Limiters in virtual time, right and broken, and what plays probes against them."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from ranksim.core.clock import DISTANT_PAST, Micros
from ranksim.core.rules import windows
from ranksim.core.rules.books import Window
from ranksim.judge.limits.calls import LimitedCall
from ranksim.judge.limits.driver import ProbeRequest
from ranksim.judge.limits.probes import Probing, Volley

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


@dataclass
class VirtualClock:
    """A clock that the prober moves."""

    t: Micros = 0

    def now(self) -> Micros:
        return self.t


class VirtualProber:
    """Carries out probes in virtual time, each call taking about `latency` µs both ways.

    `headers` makes what a reply says of (instant, whether it was admitted).
    """

    def __init__(
        self,
        limiter: Limiter,
        draw: Random,
        latency: Micros,
        headers: Callable[[Micros, int], dict[str, str]] = lambda now, admitted: {},
    ) -> None:
        self.limiter, self.draw, self.latency, self.headers = limiter, draw, latency, headers
        self.clock, self.number = VirtualClock(), 0

    def play(self, program: Probing) -> None:
        with suppress(StopIteration):
            volley = next(program)
            while True:
                volley = program.send(self.volley(volley))

    def volley(self, volley: Volley, endpoint: ProbeRequest | None = None) -> list[LimitedCall]:
        now = self.clock.t = max(self.clock.t, volley.at)
        lanes, sends = [now] * volley.lanes, []
        for nth in range(volley.count):
            sent = heapq.heappop(lanes)
            if volley.pace:
                sent = max(sent, now + nth * volley.pace)
            took = round(self.latency * self.draw.uniform(0.6, 2.0))
            sends.append((sent + round(took * self.draw.uniform(0.2, 0.8)), sent, sent + took))
            heapq.heappush(lanes, sent + took + 50)
        calls = [self._call(*times) for times in sorted(sends)]
        self.clock.t = max(now, *(call.done for call in calls))
        return sorted(calls, key=lambda call: call.sent)

    def close(self) -> None:
        pass

    def _call(self, arrived: Micros, sent: Micros, done: Micros) -> LimitedCall:
        self.number += 1
        admitted = self.limiter(arrived)
        headers = self.headers(arrived, admitted)
        return LimitedCall(f"x{self.number}", sent, done, 200 if admitted else 429, headers)


def play(program: Probing, limiter: Limiter, draw: Random, latency: Micros) -> None:
    """Carry out probes in virtual time."""
    VirtualProber(limiter, draw, latency).play(program)
