"""No run of a limiter is called impossible by the conditions of its own algorithm, however calls overlap."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest
from tests.judge.limits.limiters import Limiter, rotating, ruled

from ranksim.core.clock import MILLISECOND, SECOND, Micros
from ranksim.judge.conformance.rate.elimination import CHECKS
from ranksim.judge.limits.calls import CallTable, LimitedCall

SEEDS = range(60)


def arrivals(draw: Random, length: Micros) -> list[Micros]:
    """Bursts, drips and idle times, in order."""
    now, instants = 0, []
    for _ in range(draw.randint(3, 9)):
        now += draw.choice((0, length // 7, length // 2, length, 2 * length, 5 * length // 2))
        pace = draw.choice((0, 0, 500, length // 9, length // 30))
        for _ in range(draw.randint(1, 25)):
            instants.append(now)
            now += round(pace * draw.uniform(0.3, 1.5)) + draw.randrange(300)
    return instants


def observed(instants: Iterable[Micros], take: Limiter, draw: Random) -> list[LimitedCall]:
    """What a caller observes: each call took effect somewhere within the time it took."""
    spread = draw.choice((MILLISECOND, 20 * MILLISECOND, 300 * MILLISECOND))
    calls = []
    for number, instant in enumerate(instants):
        before, after = draw.randrange(spread), draw.randrange(spread)
        status = 200 if take(instant) else 429
        calls.append(LimitedCall(f"x{number}", instant - before, instant + after, status))
    return calls


def contradiction(name: str, calls: list[LimitedCall], limit: int, length: Micros, refused: bool) -> str:
    table = CallTable(sorted(calls, key=lambda call: call.sent))
    against = CHECKS[name](table.window(limit, length, exclusive=True), refused)
    return "" if against is None else against.says


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rotating_counter_explains_itself(seed: int) -> None:
    draw = Random(seed)
    limit, length = draw.randint(1, 12), draw.choice((1, 2)) * SECOND
    calls = observed(arrivals(draw, length), rotating(limit, length), draw)
    assert contradiction("rotating", calls, limit, length, refused=True) == "", seed


@pytest.mark.parametrize("kind", ["first_hit", "sliding_counter", "sliding_log", "gcra"])
@pytest.mark.parametrize("refused", [False, True])
def test_each_of_the_five_explains_itself(kind: str, refused: bool) -> None:
    for seed in SEEDS:
        draw = Random(seed)
        limit, length = draw.randint(1, 12), draw.choice((1, 2)) * SECOND
        take = ruled(kind, limit, length, refused=refused, phase=draw.randrange(length))
        calls = observed(arrivals(draw, length), take, draw)
        assert contradiction(kind, calls, limit, length, refused) == "", seed


def queued(limit: int, length: Micros, draw: Random, instants: Iterable[Micros]) -> list[LimitedCall]:
    """A leaky bucket with a queue: what enters waits for its turn, one each length / limit."""
    spacing, free, calls = -(-length // limit), 0, []
    take = ruled("gcra", limit, length)
    for number, instant in enumerate(instants):
        before = draw.randrange(2 * MILLISECOND)
        if take(instant):
            free = max(free + spacing, instant)
            calls.append(LimitedCall(f"x{number}", instant - before, free + draw.randrange(MILLISECOND), 200))
        else:
            calls.append(LimitedCall(f"x{number}", instant - before, instant + MILLISECOND, 429))
    return calls


@pytest.mark.parametrize("seed", SEEDS)
def test_a_queue_explains_itself(seed: int) -> None:
    draw = Random(seed)
    limit, length = draw.randint(2, 12), draw.choice((1, 2)) * SECOND
    calls = queued(limit, length, draw, arrivals(draw, length))
    assert contradiction("queue", calls, limit, length, refused=False) == "", seed


@pytest.mark.parametrize("seed", SEEDS)
def test_a_call_that_is_held_up_on_its_way_to_a_queue_contradicts_nothing(seed: int) -> None:
    """It was sent a spacing before what it seems, once; the same in each round is no accident."""
    draw = Random(seed)
    limit, length = draw.randint(5, 12), 2 * SECOND
    rounds = [at * 3 * length for at in range(4)]
    calls = queued(limit, length, draw, [at + number * 100 for at in rounds for number in range(limit + 4)])

    def sent_early(*late: int) -> list[LimitedCall]:
        return [
            replace(call, sent=call.sent - 3 * length // 2) if number in late else call
            for number, call in enumerate(calls)
        ]

    assert contradiction("queue", sent_early(), limit, length, refused=False) == ""
    each = limit + 4
    assert contradiction("queue", sent_early(each), limit, length, refused=False) == "", seed
    assert contradiction("queue", sent_early(each, 2 * each), limit, length, refused=False) != "", seed
    together = sent_early(each, each + 1, each + 2)
    assert contradiction("queue", together, limit, length, refused=False) != "", seed


def at_once(limit: int, draw: Random, instants: Iterable[Micros]) -> list[LimitedCall]:
    """A limit of calls under way."""
    ends: list[Micros] = []
    calls = []
    for number, instant in enumerate(instants):
        while ends and ends[0] <= instant:
            heapq.heappop(ends)
        done = instant + draw.randint(1, 400) * MILLISECOND
        status = 200 if len(ends) < limit else 429
        if status == 200:
            heapq.heappush(ends, done)
        calls.append(LimitedCall(f"x{number}", instant - draw.randrange(MILLISECOND), done, status))
    return calls


@pytest.mark.parametrize("seed", SEEDS)
def test_a_limit_of_calls_at_once_explains_itself(seed: int) -> None:
    draw = Random(seed)
    limit = draw.randint(1, 6)
    calls = at_once(limit, draw, arrivals(draw, SECOND))
    assert contradiction("concurrency", calls, limit, SECOND, refused=False) == "", seed


def test_what_each_cannot_explain() -> None:
    """A call refused while nothing is under way; a burst without a queue; a window that begins elsewhere."""
    alone = [LimitedCall("a", 0, 1000, 200), LimitedCall("b", SECOND, SECOND + 1000, 429)]
    assert "at most 0 other calls" in contradiction("concurrency", alone, 1, 5 * SECOND, refused=False)
    burst = [LimitedCall(f"x{at}", at * 1000, at * 1000 + 900, 200) for at in range(5)]
    assert "add evenly" in contradiction("queue", burst, 5, SECOND, refused=False)
    assert contradiction("gcra", burst, 5, SECOND, refused=False) == ""
    # after an idle time a window begins with the first call: one more than the limit is too many
    first = [LimitedCall("o", 0, 1000, 200)]
    starts = [9 * SECOND + at * 150_000 for at in range(6)]
    later = [LimitedCall(f"y{start}", start, start + 900, 200) for start in starts]
    assert "after a silence" in contradiction("rotating", first + later, 5, SECOND, refused=True)


def test_calls_of_one_window_are_counted_together_however_they_overlap() -> None:
    """Six at once of five, twice: an edge would stand in either, and they are no whole windows apart."""
    calls = [
        LimitedCall(f"{begin}-{at}", begin, begin + 50_000, 200)
        for begin in (0, 4_300_000)
        for at in range(6)
    ]
    assert contradiction("sliding_counter", calls[:6], 5, SECOND, refused=False) == ""
    assert "wherever the edges" in contradiction("sliding_counter", calls, 5, SECOND, refused=False)
