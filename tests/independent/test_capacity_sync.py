"""How long a sync takes: call by call through five windows written from their definitions, in µs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any

import pytest

Page = Callable[[str], dict[str, Any]]

SECOND = 1_000_000
LIMIT, LENGTH = 120, 60 * SECOND
KINDS = ("first_hit", "clock", "sliding_log", "sliding_counter", "gcra")


class Calls:
    """The admitted calls of a key in one kind of window, oldest first."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.admitted: list[int] = []
        self.opened = -LENGTH
        self.tokens, self.filled = LIMIT * LENGTH, 0  # a token is LENGTH, and LIMIT come in a µs

    def room(self, now: int) -> bool:
        """Whether a call would be admitted now."""
        begins = now - now % LENGTH
        if self.kind == "first_hit":
            return now >= self.opened + LENGTH or self._since(self.opened) < LIMIT
        if self.kind == "clock":
            return self._since(begins) < LIMIT
        if self.kind == "sliding_log":
            return len(self.admitted) - bisect_right(self.admitted, now - LENGTH) < LIMIT
        if self.kind == "sliding_counter":
            before = self._since(begins - LENGTH) - self._since(begins)
            return self._since(begins) + before * (begins + LENGTH - now) // LENGTH < LIMIT
        return self.level(now) >= LENGTH

    def level(self, now: int) -> int:
        return min(LIMIT * LENGTH, self.tokens + (now - self.filled) * LIMIT)

    def take(self, now: int) -> bool:
        if not self.room(now):
            return False
        if self.kind == "first_hit" and now >= self.opened + LENGTH:
            self.opened = now
        self.tokens, self.filled = self.level(now) - LENGTH, now
        self.admitted.append(now)
        return True

    def opens(self, now: int) -> int:
        """How long until there is room, if nobody calls before; by halving."""
        if self.room(now):
            return 0
        low, high = 0, 2 * LENGTH
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.room(now + middle) else (middle, high)
        return high

    def _since(self, begins: int) -> int:
        return len(self.admitted) - bisect_left(self.admitted, begins)


def sync(kind: str, way: str, requests: int, others: int = 0, pace: int = 0) -> tuple[int, int, int]:
    """(time to the last call, refusals, refusals of the others), who call evenly, half a gap off."""
    calls, now, refused, others_refused, done, other = Calls(kind), 0, 0, 0, 0, 0

    def let_others(until: int) -> None:
        nonlocal other, others_refused
        while others and (at := (2 * other + 1) * LENGTH // (2 * others)) <= until:
            others_refused += not calls.take(at)
            other += 1

    while True:
        let_others(now)
        if way == "wait" and (pause := calls.opens(now)):
            now += pause
            continue
        if calls.take(now):
            done += 1
            if done == requests:
                break
            now += pace
        else:
            refused += 1
            now += pace or max(1, -(-calls.opens(now) // SECOND)) * SECOND
    if way == "paced":
        let_others(now + LENGTH)
    return now, refused, others_refused


@pytest.mark.slow
@pytest.mark.example(
    "docs/capacity.md",
    'plans["first_hit", "wait"].time == 2 * MINUTE',
    'plans["first_hit", "paced"].time == 299 * SECOND // 2',
    'plans["gcra", "wait"].time == 90 * SECOND',
    'plans["gcra", "retry"].refused == 90',
)
def test_three_hundred_requests(page: Page) -> None:
    names = page("docs/capacity.md")
    plans = {(p.window, p.way): p for p in names["sync_time"](names["Sync"](30_000, batch=100)).plans}
    assert len(plans) == 15
    for (kind, way), plan in plans.items():
        time, refused, _ = sync(kind, way, 300, pace=plan.pace or 0)
        assert (plan.time, plan.refused) == (time, refused), (kind, way)
    assert plans["first_hit", "wait"].time == (-(-300 // 120) - 1) * 60_000_000
    assert plans["gcra", "wait"].time == (300 - 120) * 500_000


@pytest.mark.slow
@pytest.mark.example(
    "docs/capacity.md",
    "shared.best.pace == SECOND and shared.best.time == 299 * SECOND",
    "(shared.best.refused, shared.best.others_refused) == (0, 0)",
    '("retry", 120)',
)
def test_others_with_the_same_key(page: Page) -> None:
    shared = page("docs/capacity.md")["shared"]
    for plan in shared.plans:
        time, refused, others = sync(plan.window, plan.way, 300, others=60, pace=plan.pace or 0)
        found = (plan.time, plan.refused, plan.others_refused)
        assert found == (time, refused, others), (plan.window, plan.way)
    # 120 in a minute less 60 of others.
    assert (shared.best.pace, shared.best.time) == (1_000_000, 299_000_000)
    assert (shared.best.refused, shared.best.others_refused) == (0, 0)


@pytest.mark.slow
@pytest.mark.example("docs/capacity.md", "safe_pace == -(-MINUTE // 119)")
def test_the_pace_that_is_right_under_all_five(page: Page) -> None:
    names = page("docs/capacity.md")
    safe = names["sync_time"](names["Sync"](30_000, batch=100)).safe_pace
    for a_minute, refused in ((120, True), (119, False)):
        pace = -(-LENGTH // a_minute)
        assert any(sync(kind, "paced", 300, pace=pace)[1] for kind in KINDS) is refused
    assert safe == -(-60_000_000 // 119)


@pytest.mark.slow
@pytest.mark.example(
    "docs/capacity.md",
    "assert many.sync.requests == 1000",
    'plan.way == "wait" and plan.window == "first_hit"} == {8 * MINUTE}',
)
def test_a_request_is_for_one_list(page: Page) -> None:
    many = page("docs/capacity.md")["many"]
    requests = sum(-(-10 // 100) for _ in range(1000))
    times = {plan.time for plan in many.plans if (plan.window, plan.way) == ("first_hit", "wait")}
    assert (many.sync.requests, times) == (requests, {sync("first_hit", "wait", requests)[0]})
    assert times == {(-(-requests // 120) - 1) * 60_000_000}


@pytest.mark.slow
@pytest.mark.example(
    "docs/capacity.md",
    "assert weekly.sync.requests == 640",
    'plan.way == "wait" and plan.window == "first_hit"} == { 5 * MINUTE }',
)
def test_a_removal_is_a_request_of_its_own(page: Page) -> None:
    weekly = page("docs/capacity.md")["weekly"]
    requests = 40 * (15 + -(-15 // 100))
    times = {plan.time for plan in weekly.plans if (plan.window, plan.way) == ("first_hit", "wait")}
    assert (weekly.sync.requests, times) == (requests, {sync("first_hit", "wait", requests)[0]})
    assert times == {(-(-requests // 120) - 1) * 60_000_000}
