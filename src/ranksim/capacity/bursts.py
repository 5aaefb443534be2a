"""Starts of jobs that come together: how many the rate limit puts off, and for how long (S104, U1, U6)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from ranksim.capacity.sync import RateWindow
from ranksim.capacity.workload import TRIES, Workload
from ranksim.clock import MINUTE, SECOND, Micros
from ranksim.contract.policy import Policy
from ranksim.rules import windows


@dataclass(frozen=True, slots=True)
class Burst:
    """What becomes of `starts` of jobs within `spread` (µs).

    `refused` counts calls answered 429, `given_up` the starts whose last try was one of them; `late` is how
    long the last start that was let in had to wait (µs).
    """

    starts: int
    spread: Micros
    refused: int
    given_up: int
    late: Micros

    def plus(self, other: Burst) -> Burst:
        """This burst and one on another key."""
        return Burst(
            self.starts + other.starts,
            self.spread,
            self.refused + other.refused,
            self.given_up + other.given_up,
            max(self.late, other.late),
        )


def burst(starts: int, policy: Policy, *, spread: Micros = 0, keys: int = 1, tries: int = TRIES) -> Burst:
    """Start jobs evenly over `spread` (µs; 0: at one instant), dealt over the keys in turn.

    Whoever is refused calls again when Retry-After has gone (U6), `tries` times in all. Every call is taken
    by `rules.windows` under the algorithm that the policy names, each key with a fresh allowance.
    """
    said = policy.assumptions
    window = RateWindow(
        said.window, policy.facts.rates.expensive, policy.facts.rate_window, int(said.refused_calls_count)
    )
    whole = Burst(0, spread, 0, 0, 0)
    for key in range(keys):
        mine = [spread * number // starts for number in range(key, starts, keys)]
        whole = whole.plus(_of_one_key(mine, spread, window, tries))
    return whole


def burst_of(load: Workload, policy: Policy) -> Burst:
    """Return what becomes of the starts of one occasion of a workload."""
    return burst(load.starts, policy, spread=load.spread, keys=load.keys, tries=load.tries)


def most_started(load: Workload, policy: Policy) -> int:
    """Return how many starts of one occasion are let in before one is given up, as a workload makes them."""

    def gives_up(starts: int) -> bool:
        return burst_of(replace(load, starts=starts), policy).given_up > 0

    return _first(gives_up) - 1


def enough_keys(load: Workload, policy: Policy) -> int:
    """Return how many keys start all that a workload starts at one occasion."""
    return _first(lambda keys: not burst_of(replace(load, keys=keys), policy).given_up)


def enough_spread(load: Workload, policy: Policy) -> Micros:
    """Return a spread of the starts of one occasion (whole minutes, µs) with which none is given up."""
    minutes = _first(lambda n: not burst_of(replace(load, spread=n * MINUTE), policy).given_up)
    return minutes * MINUTE


def _first(holds: Callable[[int], bool]) -> int:
    """Return the first whole number from 1 for which something holds that then holds for all."""
    high = 1
    while not holds(high):
        high *= 2
    return bisect_left(range(high + 1), True, lo=high // 2 + 1, key=holds)


def _of_one_key(planned: list[Micros], spread: Micros, window: RateWindow, tries: int) -> Burst:
    row, ring = window.open()
    due = [(at, number, 1) for number, at in enumerate(planned)]
    heapify(due)
    refused = given_up = late = 0
    while due:
        now, number, tried = heappop(due)
        if windows.take(now, row, ring):
            late = max(late, now - planned[number])
            continue
        refused += 1
        if tried == tries:
            given_up += 1
            continue
        wait = max(1, -(-windows.retry_after(now, row, ring) // SECOND)) * SECOND
        heappush(due, (now + wait, number, tried + 1))
    return Burst(len(planned), spread, refused, given_up, late)
