"""A limiter of one's own, conforming or off on purpose, and the traces of calls to it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from ranksim.core.clock import DISTANT_FUTURE, MINUTE, SECOND, instant
from ranksim.core.contract.facts import RateClass
from ranksim.core.rules import windows
from ranksim.core.rules.books import Window
from ranksim.core.trace import Header, TraceKey
from ranksim.judge.conformance.history.history import History, ObservedRun
from ranksim.judge.conformance.history.observation import Observation, ObservationDetail
from ranksim.judge.conformance.history.spill_file import SpillFile

START = instant("2026-03-04T10:00:17Z")

LIMITS = (600, 120, 20)
OPERATIONS = (("domains.list", "GET"), ("domains.create", "POST"), ("jobs.create", "POST"))
"""An operation of each class and its method."""


@dataclass(frozen=True)
class Sent:
    """One call: when it was sent, took effect and was answered (None: lost)."""

    sent: int
    effect: int
    received: int | None
    rate_class: RateClass = RateClass.EXPENSIVE
    key: str = "main"
    dry: bool = False


@dataclass
class Limiter:
    """The five algorithms with their variants, and what a deviating one may do.

    `beyond` calls more than the limit are admitted, though headers tell of the limit; `shared` lets all keys
    of the account use one window; `rounds` is how seconds are rounded in headers.
    """

    kind: str = "first_hit"
    refused_count: bool = False
    full_reset: bool = False
    debits_write: bool = False
    free_dry_runs: bool = False
    beyond: int = 0
    length: int = MINUTE
    shared: bool = False
    rounds: str = "ceil"
    rows: dict[tuple[str, int], tuple[Window, list[int]]] = field(default_factory=dict)

    def row(self, owner: str, rate_class: int) -> tuple[Window, list[int]]:
        name = ("" if self.shared else owner, rate_class)
        if name not in self.rows:
            limit = LIMITS[rate_class] + self.beyond
            row = Window(
                windows.NAMES.index(self.kind), limit, self.length, self.refused_count, self.full_reset
            )
            windows.start(row)
            self.rows[name] = row, [0] * limit
        return self.rows[name]

    def call(self, call: Sent) -> tuple[bool, int, int, int]:
        """Admitted or not, the class that the headers tell of, what remains and until when (µs)."""
        classes = [int(call.rate_class)]
        if self.debits_write and call.rate_class == RateClass.EXPENSIVE:
            classes.append(int(RateClass.WRITE))
        rows = [(number, *self.row(call.key, number)) for number in classes]
        now = call.effect
        if not (call.dry and self.free_dry_runs):
            for number, row, ring in rows:
                if not windows.remaining(now, row, ring):
                    windows.take(now, row, ring)
                    wait = max(1, windows.retry_after(now, row, ring))
                    return False, number, windows.remaining(now, row, ring), wait
            for _, row, ring in rows:
                windows.take(now, row, ring)
        number, row, ring = rows[0]
        return True, number, windows.remaining(now, row, ring), windows.reset_after(now, row, ring)

    def seconds(self, us: int) -> int:
        if self.rounds == "ceil":
            return -(-us // SECOND)
        return us // SECOND if self.rounds == "floor" else (us + SECOND // 2) // SECOND


def history(
    limiter: Limiter, calls: Iterable[Sent], *, exclusive: bool = True, headers: bool = True
) -> History:
    """What a recorder saw of these calls, answered in order of effect."""
    shelf = SpillFile(ObservationDetail)
    seen = [
        _seen(limiter, index, call, headers, shelf)
        for index, call in enumerate(sorted(calls, key=lambda one: one.effect))
    ]
    seen.sort(key=lambda one: (one.sent, one.index))
    keys = {one.key: TraceKey(account="acme") for one in seen}
    run = ObservedRun(Header(exclusive=exclusive, keys=keys), began=seen[0].sent if seen else None)
    return History(run, seen)


def _seen(
    limiter: Limiter, index: int, call: Sent, headers: bool, shelf: SpillFile[ObservationDetail]
) -> Observation:
    admitted, number, left, reset = limiter.call(call)
    operation, method = OPERATIONS[call.rate_class]
    lost = call.received is None
    shelf.put(ObservationDetail("/v1/any"))
    seen = Observation(
        shelf,
        index=index,
        id=f"x{index}",
        sent=call.sent,
        received=DISTANT_FUTURE if call.received is None else call.received,
        key=call.key,
        account="acme",
        environment="production",
        surface="rest",
        operation=operation,
        method=method,
        status=0 if lost else 200 if admitted else 429,
        code="" if lost or admitted else "rate_limited",
        happened=None if lost else True,
        dry_run=call.dry,
    )
    if headers and not lost:
        seen.limit, seen.remaining = LIMITS[number], max(0, left - limiter.beyond)
        seen.reset = limiter.seconds(reset)
        seen.retry_after = None if admitted else max(1, -(-reset // SECOND))
    return seen


# Calls


@dataclass
class Network:
    """Latencies before and after the effect, lognormal about `typical` µs, and the share of lost replies."""

    rng: random.Random
    typical: int = 5_000
    loss: float = 0.0

    def send(self, at: float, rate_class: RateClass, key: str = "main", dry: bool = False) -> Sent:
        before, after = (200 + int(self.rng.lognormvariate(0, 0.7) * self.typical) for _ in range(2))
        effect = int(at) + before
        lost = self.rng.random() < self.loss
        return Sent(int(at), effect, None if lost else effect + after, rate_class, key, dry)

    def burst(
        self,
        rate_class: RateClass,
        users: int = 1,
        *,
        cycles: int = 2,
        probe: int = 400_000,
        key: str = "main",
    ) -> list[Sent]:
        """1.3 times the limit from some users at once, then probes for a window; again, off phase."""
        calls, at = [], START + 5 * SECOND
        for _ in range(cycles):
            free = [at] * users
            for _ in range(LIMITS[rate_class] * 13 // 10):
                user = min(range(users), key=lambda number: free[number])
                calls.append(self.send(free[user], rate_class, key))
                free[user] = (calls[-1].received or calls[-1].effect) + 1
            now = max(free) + probe
            while now < at + 63 * SECOND:
                calls.append(self.send(now, rate_class, key))
                now = (calls[-1].received or calls[-1].effect) + probe
            at = now + 125 * SECOND + int(self.rng.random() * MINUTE)
        return calls

    def steady(
        self, rate_class: RateClass, load: float = 1.5, *, lasts: int = 300 * SECOND, key: str = "main"
    ) -> list[Sent]:
        """Poisson arrivals at `load` times the limit."""
        calls, at = [], float(START)
        while at < START + lasts:
            calls.append(self.send(at, rate_class, key))
            at += self.rng.expovariate(LIMITS[rate_class] * load / MINUTE)
        return calls
