"""Bounds on what a window can have admitted within a stretch of time, however the calls overlap."""

from __future__ import annotations

import os
import random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.judge.conformance.test_windows import EXPENSIVE, KINDS, READ, WRITE, Judged

from ranksim.core.clock import MINUTE, SECOND
from ranksim.core.rules import windows
from ranksim.core.rules.books import Window
from ranksim.judge.conformance.rate.group_bounds import faster_than_refill, overfilled
from ranksim.judge.conformance.rate.window_calls import NOBODY, NOTHING, CallIntervals, WindowCalls

SCHEDULES = int(os.environ.get("RANKSIM_SCHEDULES", "4000"))
READINGS = [(kind, refused) for kind in windows.NAMES for refused in (False, True)]


def schedule(rng: random.Random, length: int) -> list[int]:
    """Instants of calls: bursts, mostly about an edge of a window, and others evenly between."""
    at, instants = rng.randrange(length), []
    for _ in range(rng.randint(1, 6)):
        width = rng.choice((1, length // 20, length // 3, length))
        instants += [at + rng.randrange(width) for _ in range(rng.randint(1, 14))]
        near = rng.choice((length - width, length - 1, length, length + 1, 2 * length, rng.randrange(length)))
        at = max(0, at + near)
        if rng.random() < 0.3:
            at += -at % length - rng.randint(0, 2)
    return sorted(max(0, one) for one in instants)


def admitted_by(kind: str, limit: int, length: int, counts_refused: bool, instants: list[int]) -> list[int]:
    row = Window(windows.NAMES.index(kind), limit, length, counts_refused)
    windows.start(row)
    ring = [0] * limit
    return [now for now in instants if windows.take(now, row, ring)]


def bound(kind: str, limit: int, length: int, lasts: Any) -> Any:
    """The most calls within [x, x + lasts], as the lemmas of `group_bounds` say."""
    if kind == "sliding_counter":
        return limit - (-limit * lasts // length)
    if kind == "gcra":
        return limit + limit * lasts // length
    beside = {"first_hit": limit - 1, "clock": limit, "sliding_log": 0}[kind]
    return limit * (lasts // length + 1) + beside


@pytest.mark.fact("U1", "U4")
@pytest.mark.parametrize(("kind", "counts_refused"), READINGS)
def test_no_schedule_admits_more_than_a_bound_and_some_admit_as_much(kind: str, counts_refused: bool) -> None:
    rng, met = random.Random(f"{kind} {counts_refused}"), 0
    for _ in range(SCHEDULES // 4):
        limit, length = rng.randint(1, 7), rng.choice((20, 60, 97))
        instants = schedule(rng, length)
        taken = np.array(admitted_by(kind, limit, length, counts_refused, instants))
        first, last = np.triu_indices(len(taken))
        spare = bound(kind, limit, length, taken[last] - taken[first]) - (last - first + 1)
        assert spare.min() >= 0, f"{limit} in {length}: {instants}"
        met += bool((spare[last - first >= limit] == 0).any())
    assert met > 0, "a bound that nothing meets is wider than it need be"


def calls_of(limit: int, length: int, spans: list[tuple[int, int]]) -> WindowCalls:
    sent, done = (np.array(side, np.int64) for side in zip(*sorted(spans), strict=True))
    side = CallIntervals.of(sent, done, np.arange(len(sent)))
    return WindowCalls(
        "", limit, length, 0, SECOND, True, side, side, NOBODY, NOTHING, NAMES, int(sent.min()), 0, True
    )


class _Names:
    def id(self, position: int) -> str:
        return f"x{position}"

    def sent(self, position: int) -> int:
        return position


NAMES = _Names()


@pytest.mark.parametrize(("kind", "counts_refused"), READINGS)
def test_calls_that_overlap_in_any_way_exclude_no_window_that_admitted_them(
    kind: str, counts_refused: bool
) -> None:
    """Of each call only an interval is known; what is told of a limit one lower may be excluded, and is."""
    rng, excluded = random.Random(f"overlap {kind} {counts_refused}"), 0
    for _ in range(SCHEDULES // 4):
        limit, length = rng.randint(2, 6), 60
        taken = admitted_by(kind, limit, length, counts_refused, schedule(rng, length))
        wide = rng.choice((1, 5, 30, 120))
        spans = [(at - rng.randrange(wide), at + rng.randrange(wide)) for at in taken]
        for allowed in (limit, limit - 1):
            calls = calls_of(allowed, length, spans)
            if kind in ("gcra", "sliding_counter"):
                found = faster_than_refill(calls, rounded_up=kind == "sliding_counter")
            else:
                beside = {"first_hit": allowed - 1, "clock": allowed, "sliding_log": 0}[kind]
                found = overfilled(calls, beside)
            assert found is None or allowed < limit, f"{limit} in {length}: {spans}"
            excluded += found is not None
    assert excluded > 0


# Limiters that admit too many at once


@pytest.mark.fact("S102", "U1", "U4")
def test_thousands_admitted_at_once_deviate(limiters: ModuleType) -> None:
    """All overlap wholly, none was refused, and nothing else is known."""
    calls = [
        limiters.Sent(limiters.START, limiters.START + number * 100, limiters.START + SECOND, READ)
        for number in range(5000)
    ]
    for headers in (False, True):
        judged = Judged(limiters.history(limiters.Limiter(beyond=10_000), calls, headers=headers))
        assert judged["rate.read"] == "deviates"


@pytest.mark.fact("S102", "S103", "U1", "U4")
@pytest.mark.parametrize("rate_class", [READ, WRITE])
def test_more_than_twice_the_limit_by_many_callers_deviate(limiters: ModuleType, rate_class: Any) -> None:
    """1,400 reads within 0.7 s by 100 callers, each of whom waits for its reply, and refusals afterwards."""
    limit = limiters.LIMITS[rate_class]
    beyond = limit * 4 // 3
    network, calls, free = limiters.Network(random.Random(7), 20_000), [], [limiters.START] * 100
    for _ in range(limit + beyond + 100):
        user = min(range(100), key=free.__getitem__)
        calls.append(network.send(free[user], rate_class))
        free[user] = calls[-1].received + 1
    judged = Judged(limiters.history(limiters.Limiter(beyond=beyond), calls, headers=False))
    assert judged["rate.read" if rate_class == READ else "rate.write"] == "deviates"


def check_then_act(limiters: ModuleType, limit: int, recorded_after: int) -> Any:
    """A limiter that counts what was recorded, admits, and records a little later: a race of threads."""

    class CheckThenAct(limiters.Limiter):
        def call(self, call: Any) -> tuple[bool, int, int, int]:
            now, log = call.effect, self.rows.setdefault((call.key, 0), ([], []))[0]
            counted = sum(now - MINUTE < at <= now for at in log)
            if counted >= limit:
                return (
                    False,
                    int(call.rate_class),
                    0,
                    min(at for at in log if at > now - MINUTE) + MINUTE - now,
                )
            log.append(now + recorded_after)
            return True, int(call.rate_class), limit - counted - 1, MINUTE

    return CheckThenAct()


@pytest.mark.fact("S103", "U1", "U4")
@pytest.mark.parametrize("headers", [False, True])
def test_a_limiter_that_checks_before_it_counts_deviates(limiters: ModuleType, headers: bool) -> None:
    """A third more than the limit within 0.2 s, twice, each time refused afterwards."""
    rng = random.Random(3)
    network, calls = limiters.Network(rng, 30_000), []
    for at in (5, 5 + 97):
        burst = limiters.START + at * SECOND
        calls += [network.send(burst + number * 600, WRITE) for number in range(220)]
        calls += [network.send(burst + SECOND + number * 700_000, WRITE) for number in range(100)]
    limiter = check_then_act(limiters, limiters.LIMITS[WRITE], 40_000)
    judged = Judged(limiters.history(limiter, calls, headers=headers))
    assert judged["rate.write"] == "deviates", judged.findings["rate.write"]
    evidence = judged.findings["rate.write"].evidence[0]
    assert [case.name for case in judged.findings["rate.write"].cases if case.broken] == ["key main, no more"]
    assert "admitted" in evidence.says, "the reading that comes closest fails on what was admitted"
    assert {name for name, _ in evidence.readings} == {
        name if not refused else f"{name}, refused calls counted"
        for name, refused in READINGS
        if not (name == "clock" and refused)
    }
    assert all(against.exchanges for _, against in evidence.readings)


@pytest.mark.fact("U1")
@pytest.mark.parametrize("kind", KINDS)
def test_evidence_is_what_the_closest_reading_fails_on(limiters: ModuleType, kind: str) -> None:
    """A limiter of seven more than the limit: its own algorithm would explain all under that limit."""
    calls = limiters.Network(random.Random(kind), 2_000).burst(EXPENSIVE, 3, cycles=3)
    found = Judged(limiters.history(limiters.Limiter(kind, beyond=7), calls)).findings["rate.expensive"]
    assert [case.name for case in found.cases if case.broken] == ["key main, no more"]
    assert "admitted" in found.evidence[0].says
    assert found.evidence[0].exchanges in [against.exchanges for _, against in found.evidence[0].readings]


@pytest.mark.fact("S102", "S103", "S104", "U1", "U4")
@pytest.mark.parametrize("counts_refused", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_conforming_limiter_in_a_race_raises_no_alarm(
    limiters: ModuleType, kind: str, counts_refused: bool
) -> None:
    """Everybody at once, again and again, about the edges of windows."""
    rng = random.Random(f"race {kind} {counts_refused}")
    for rate_class in (WRITE, EXPENSIVE):
        network = limiters.Network(rng, rng.choice((2_000, 60_000, 600_000)))
        calls, at = [], limiters.START
        for _ in range(5):
            users = limiters.LIMITS[rate_class] * 3
            calls += [network.send(at + rng.random() * SECOND, rate_class) for _ in range(users)]
            at += rng.choice((MINUTE - 2 * SECOND, MINUTE - SECOND, MINUTE, MINUTE + SECOND, 30 * SECOND))
        judged = Judged(limiters.history(limiters.Limiter(kind, counts_refused), calls))
        assert judged.deviating == {}
