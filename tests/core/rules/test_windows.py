"""The five rate windows: tables, an independent program, references from the definitions, properties."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable, Iterator
from fractions import Fraction
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import time_machine
from hypothesis import example, given
from hypothesis import strategies as st

from ranksim.core.clock import MINUTE, SECOND, instant
from ranksim.core.rules import windows
from ranksim.core.rules.books import Window, record_dtype
from ranksim.core.rules.windows import (
    CLOCK,
    FIRST_HIT,
    GCRA,
    NAMES,
    QUEUE,
    ROTATING,
    SLIDING_COUNTER,
    SLIDING_LOG,
)
from ranksim.core.rules.windows import KINDS as ALL_NAMES

if TYPE_CHECKING:
    import limits

KINDS = range(6)
NOON = instant("2026-03-02T12:00:00Z")


class Limiter:
    """One row with its ring."""

    def __init__(self, kind: int, limit: int = 20, length: int = MINUTE, **options: int) -> None:
        self.w = Window(kind=kind, limit=limit, length=length, **options)
        self.ring = [0] * limit
        windows.start(self.w)

    def take(self, now: int) -> int:
        return windows.take(now, self.w, self.ring)

    def burst(self, now: int, calls: int) -> int:
        return sum(self.take(now) for _ in range(calls))

    def remaining(self, now: int) -> int:
        return windows.remaining(now, self.w, self.ring)

    def reset_after(self, now: int) -> int:
        return windows.reset_after(now, self.w, self.ring)

    def retry_after(self, now: int) -> int:
        return windows.retry_after(now, self.w, self.ring)

    def would_take(self, now: int) -> int:
        return copy.deepcopy(self).take(now)


def seconds(number: float) -> int:
    return round(number * SECOND)


def test_kinds_and_their_names() -> None:
    assert [NAMES[kind] for kind in (FIRST_HIT, CLOCK, SLIDING_LOG, SLIDING_COUNTER, GCRA)] == [
        "first_hit",
        "clock",
        "sliding_log",
        "sliding_counter",
        "gcra",
    ]


# Tables


@pytest.mark.fact("U1")
@pytest.mark.parametrize(
    ("kind", "phase", "admitted"),
    [
        (FIRST_HIT, 45, [1, 19, 0, 20, 0]),
        (CLOCK, 45, [1, 19, 1, 0, 20]),
        (CLOCK, 0, [1, 19, 0, 20, 0]),  # a clock window that starts at :00 looks like first hit
        (SLIDING_LOG, 45, [1, 19, 0, 1, 19]),
        (GCRA, 45, [1, 19, 1, 10, 10]),
        (SLIDING_COUNTER, 0, [1, 19, 0, 1, 9]),
    ],
)
@pytest.mark.parametrize("used_before", [0, 20])
def test_the_probe_that_tells_the_kinds_apart(
    kind: int, phase: int, admitted: list[int], used_before: int
) -> None:
    limiter = Limiter(kind)
    begin = NOON + seconds(phase)
    limiter.burst(begin - seconds(120), used_before)
    probe = [(0, 1), (29, 19), (35, 1), (60.5, 20), (89.5, 20)]
    assert [limiter.burst(begin + seconds(at), calls) for at, calls in probe] == admitted


@pytest.mark.fact("E35")
@pytest.mark.parametrize(
    ("kind", "before", "within_a_second"),
    [
        (CLOCK, 0, 40),
        (FIRST_HIT, 1, 39),  # the call before opened the window, so that its end is where a clock window ends
        (SLIDING_LOG, 0, 20),
        (SLIDING_COUNTER, 0, 21),  # by then the 20 weigh 19
        (GCRA, 0, 20),
    ],
)
def test_fixed_windows_let_forty_calls_pass_in_a_second_across_their_edge(
    kind: int, before: int, within_a_second: int
) -> None:
    limiter = Limiter(kind)
    assert limiter.burst(NOON, before) == before
    early = limiter.burst(NOON + seconds(59.5), 20)
    late = limiter.burst(NOON + seconds(60.499), 20)
    assert early + late == within_a_second


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("now", [0, 59 * SECOND, NOON, NOON + 1])
@pytest.mark.parametrize("full_reset", [0, 1])
def test_a_started_row_is_a_full_allowance(kind: int, now: int, full_reset: int) -> None:
    limiter = Limiter(kind, full_reset=full_reset)
    assert (limiter.remaining(now), limiter.reset_after(now), limiter.retry_after(now)) == (20, 0, 0)
    assert limiter.burst(now, 30) == 20
    windows.start(limiter.w)
    assert limiter.remaining(now) == 20


# Times are told at 20 s, after calls at 5 s and 15 s have used up a limit of two in a minute.
@pytest.mark.fact("U88")
@pytest.mark.parametrize(
    ("kind", "reset", "full_reset", "next_admitted"),
    [
        (FIRST_HIT, 45, 45, 45),  # the window opened at 5 s
        (CLOCK, 40, 40, 40),  # the window ends at 60 s
        (SLIDING_LOG, 45, 55, 45),  # one call leaves at 65 s, the other at 75 s
        (
            SLIDING_COUNTER,
            40,
            70.000001,
            40.000001,
        ),  # two weigh less than two after 60 s, than one after 90 s
        (GCRA, 45, 45, 15),  # half a token is left, and each takes 30 s
    ],
)
def test_what_a_reply_tells(kind: int, reset: float, full_reset: float, next_admitted: float) -> None:
    for option, expected in [(0, reset), (1, full_reset)]:
        limiter = Limiter(kind, limit=2, full_reset=option)
        assert [limiter.take(NOON + seconds(at)) for at in (5, 15, 20)] == [1, 1, 0]
        assert limiter.reset_after(NOON + seconds(20)) == seconds(expected)
        assert limiter.retry_after(NOON + seconds(20)) == seconds(next_admitted)


# A limit of two in a minute is used up at 0 s, and two more calls are refused at 20 s.
@pytest.mark.fact("U4", "U88")
@pytest.mark.parametrize(
    ("kind", "ignored", "counted"),
    [
        (FIRST_HIT, 40, 60),  # the window now runs from the refusals
        (CLOCK, 40, 40),  # nothing more to lose
        (SLIDING_LOG, 40, 60),  # the refusals are the newest two in the log
        (SLIDING_COUNTER, 40.000001, 70.000001),  # four weigh less than two only after half a window
        (GCRA, 10, 70),  # two thirds of a token were there; then two more are owed
    ],
)
def test_whether_a_refused_call_counts(kind: int, ignored: float, counted: float) -> None:
    for option, expected in [(0, ignored), (1, counted)]:
        limiter = Limiter(kind, limit=2, counts_refused=option)
        assert limiter.burst(NOON, 2) == 2
        assert limiter.burst(NOON + seconds(20), 2) == 0
        assert limiter.retry_after(NOON + seconds(20)) == seconds(expected)


# An independent program, `limits`: a grid of 1/64 s and a length of 64 s keep its floats exact.

GRID = SECOND // 64
gaps_on_grid = st.lists(st.just(0) | st.integers(0, 64) | st.integers(0, 130 * 64), max_size=60)


@pytest.fixture
def storage() -> limits.storage.MemoryStorage:
    """The store of `limits` without its housekeeping thread, which only frees memory."""
    import limits

    storage = limits.storage.MemoryStorage()
    storage.timer.cancel()
    storage.timer = SimpleNamespace(is_alive=lambda: True)
    return storage


@pytest.mark.fact("U1", "U4")
@pytest.mark.parametrize(
    ("kind", "strategy", "longer"),
    [
        (FIRST_HIT, "FixedWindowRateLimiter", 0),
        # Its log keeps a call that is exactly 64 s old and ours does not, so ours is a microsecond longer.
        (SLIDING_LOG, "MovingWindowRateLimiter", 1),
        (SLIDING_COUNTER, "SlidingWindowCounterRateLimiter", 0),
    ],
    ids=["first_hit", "sliding_log", "sliding_counter"],
)
def test_windows_agree_with_limits(
    kind: int, strategy: str, longer: int, storage: limits.storage.MemoryStorage
) -> None:
    import limits

    oracle = getattr(limits.strategies, strategy)(storage)

    @given(st.integers(1, 5), st.integers(0, 64 * 64), gaps_on_grid)
    @example(limit=1, phase=0, gaps=[0, 64 * 64])
    def check(limit: int, phase: int, gaps: list[int]) -> None:
        storage.reset()
        item = limits.RateLimitItemPerSecond(limit, 64)
        limiter = Limiter(kind, limit, 64 * SECOND + longer)
        now = NOON + phase * GRID
        admitted = set[int]()
        with time_machine.travel(now / SECOND, tick=False) as traveller:
            for gap in gaps:
                now += gap * GRID
                traveller.move_to(now / SECOND)
                # where a call is exactly 64 s old its log counts it in `hit` and not in what remains
                if not (longer and now - 64 * SECOND in admitted):
                    assert limiter.remaining(now) == oracle.get_window_stats(item, "key").remaining
                took = limiter.take(now)
                assert took == oracle.hit(item, "key")
                if took:
                    admitted.add(now)

    check()


# References, written from the definitions, with all of the past at hand


def first_hit(limit: int, length: int, counts_refused: int) -> Iterator[int]:
    opened, used, admitted = -(10**9), 0, 0
    while True:
        now = yield admitted
        if now >= opened + length:
            opened, used = now, 0
        admitted = int(used < limit)
        used += admitted
        if counts_refused and not admitted:
            opened = now


def clock(limit: int, length: int, counts_refused: int) -> Iterator[int]:
    times, admitted = [], 0
    while True:
        now = yield admitted
        admitted = int(sum(t // length == now // length for t in times) < limit)
        times += [now] * admitted


def sliding_log(limit: int, length: int, counts_refused: int) -> Iterator[int]:
    times, admitted = [], 0
    while True:
        now = yield admitted
        admitted = int(sum(now - length < t <= now for t in times) < limit)
        times += [now] * (admitted or counts_refused)


def sliding_counter(limit: int, length: int, counts_refused: int) -> Iterator[int]:
    times, admitted = [], 0
    while True:
        now = yield admitted
        count = sum(t // length == now // length for t in times)
        previous = sum(t // length == now // length - 1 for t in times)
        covered = 1 - Fraction(now % length, length)
        admitted = int(previous * covered // 1 + count + 1 <= limit)
        times += [now] * (admitted or counts_refused)


def gcra(limit: int, length: int, counts_refused: int) -> Iterator[int]:
    tokens, since, admitted = Fraction(limit), 0, 0
    while True:
        now = yield admitted
        tokens, since = min(Fraction(limit), tokens + Fraction((now - since) * limit, length)), now
        admitted = int(tokens >= 1)
        tokens -= admitted or counts_refused


def rotating(limit: int, length: int, counts_refused: int) -> Iterator[int]:
    opened, count, previous, admitted = -(10**9), 0, 0, 0
    while True:
        now = yield admitted
        if now - opened >= 2 * length:
            opened, count, previous = now, 0, 0
        elif now - opened >= length:
            opened, count, previous = opened + length, 0, count
        covered = 1 - Fraction(now - opened, length)
        admitted = int(previous * covered // 1 + count + 1 <= limit)
        count += admitted or counts_refused


REFERENCES: list[Callable[[int, int, int], Iterator[int]]] = [
    first_hit,
    clock,
    sliding_log,
    sliding_counter,
    gcra,
    rotating,
]

# Lengths of a few microseconds, so that calls meet the edges all the time.
small_limits = st.integers(1, 6)
small_lengths = st.integers(1, 12) | st.integers(1, 200)
flags = st.integers(0, 1)
small_gaps = st.lists(st.integers(0, 3) | st.integers(0, 60) | st.integers(0, 500), max_size=40)


@pytest.mark.fact("U1", "U4")
@pytest.mark.parametrize("kind", KINDS, ids=ALL_NAMES[:QUEUE])
@given(small_limits, small_lengths, flags, small_gaps)
def test_windows_agree_with_their_definitions(
    kind: int, limit: int, length: int, counts_refused: int, gaps: list[int]
) -> None:
    limiter = Limiter(kind, limit, length, counts_refused=counts_refused)
    reference = REFERENCES[kind](limit, length, counts_refused)
    next(reference)
    now = 0
    for gap in gaps:
        now += gap
        assert limiter.take(now) == reference.send(now)


# Properties of what a reply tells


@pytest.mark.fact("U88")
@pytest.mark.parametrize("kind", KINDS, ids=ALL_NAMES[:QUEUE])
@given(small_limits, small_lengths, flags, small_gaps)
def test_replies_tell_the_truth(
    kind: int, limit: int, length: int, counts_refused: int, gaps: list[int]
) -> None:
    limiter = Limiter(kind, limit, length, counts_refused=counts_refused, full_reset=1)
    now = 0
    for gap in gaps:
        now += gap
        tells_the_truth(limiter, now)
        left = limiter.remaining(now)
        admitted = limiter.take(now)
        tells_the_truth(limiter, now)
        if admitted:
            assert limiter.remaining(now) == left - 1
        else:
            assert left == 0
            assert limiter.remaining(now) == 0
            assert limiter.retry_after(now) >= 1


def tells_the_truth(limiter: Limiter, now: int) -> None:
    before = copy.deepcopy((limiter.w, limiter.ring))
    left, wait, reset = limiter.remaining(now), limiter.retry_after(now), limiter.reset_after(now)
    assert (limiter.w, limiter.ring) == before
    assert copy.deepcopy(limiter).burst(now, limiter.w.limit + 1) == left
    assert wait >= 0
    assert limiter.would_take(now + wait) == 1
    if wait:
        assert limiter.would_take(now + wait - 1) == 0
    assert reset >= 0
    assert limiter.remaining(now + reset) == limiter.w.limit
    if reset:
        assert limiter.remaining(now + reset - 1) < limiter.w.limit


@pytest.mark.parametrize("kind", KINDS, ids=ALL_NAMES[:QUEUE])
@given(small_limits, small_lengths, flags, small_gaps, st.lists(st.integers(0, 100), max_size=20))
def test_an_idle_allowance_only_grows_within_a_window(
    kind: int, limit: int, length: int, counts_refused: int, gaps: list[int], idle: list[int]
) -> None:
    limiter = Limiter(kind, limit, length, counts_refused=counts_refused)
    now = 0
    for gap in gaps:
        now += gap
        limiter.take(now)
    left = limiter.remaining(now)
    for gap in idle:
        now += gap
        assert left <= limiter.remaining(now) <= limit
        left = limiter.remaining(now)


@pytest.mark.parametrize("kind", KINDS, ids=ALL_NAMES[:QUEUE])
@given(small_limits, small_lengths, small_gaps)
def test_no_more_is_admitted_than_promised(kind: int, limit: int, length: int, gaps: list[int]) -> None:
    limiter = Limiter(kind, limit, length)
    now, admitted = 0, []
    for gap in gaps:
        now += gap
        admitted += [now] * limiter.take(now)
    for k, end in enumerate(admitted):
        within = [t for t in admitted[: k + 1] if t > end - length]
        if kind == CLOCK:
            assert sum(t // length == end // length for t in admitted) <= limit
        if kind == SLIDING_LOG:
            assert len(within) <= limit
        if kind in (FIRST_HIT, GCRA):
            assert len(within) <= 2 * limit - 1
        assert len(within) <= 2 * limit
        if kind == GCRA:
            for j, begin in enumerate(admitted[: k + 1]):
                assert k - j + 1 <= limit + Fraction((end - begin) * limit, length)


@pytest.mark.fact("U4")
@pytest.mark.parametrize("kind", range(ROTATING), ids=NAMES)  # in a rotating one they may begin a window
@given(small_limits, small_lengths, small_gaps)
def test_refused_calls_change_nothing_by_default(kind: int, limit: int, length: int, gaps: list[int]) -> None:
    limiter, spared = Limiter(kind, limit, length), Limiter(kind, limit, length)
    now = 0
    for gap in gaps:
        now += gap
        if limiter.take(now):
            assert spared.take(now) == 1
        for later in (now, now + 1, now + length):
            assert limiter.remaining(later) == spared.remaining(later)
            assert limiter.retry_after(later) == spared.retry_after(later)
            assert limiter.reset_after(later) == spared.reset_after(later)


# Compiled


@pytest.mark.compiled
def test_the_same_functions_compile_and_agree() -> None:
    numba = pytest.importorskip("numba")
    from numba.extending import register_jitable

    # A copy of the module, so that registering its functions leaves nothing behind.
    spec = importlib.util.spec_from_file_location("windows_to_compile", windows.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for function in [f for f in vars(module).values() if isinstance(f, FunctionType)]:
        register_jitable(function)
    start, take, remaining = module.start, module.take, module.remaining
    reset_after, retry_after = module.reset_after, module.retry_after

    @numba.njit
    def replay(times, rows, ring, told):
        w = rows[0]
        start(w)
        for k in range(len(times)):
            now = times[k]
            told[k, 0] = take(now, w, ring)
            told[k, 1] = remaining(now, w, ring)
            told[k, 2] = reset_after(now, w, ring)
            told[k, 3] = retry_after(now, w, ring)

    dice = np.random.default_rng(7)
    gaps = dice.choice(
        [0, 1, 7, 50, 400, MINUTE, 10**12], size=4_000, p=[0.3, 0.3, 0.2, 0.1, 0.06, 0.03, 0.01]
    )
    times = NOON + np.cumsum(gaps)
    for kind in KINDS:
        for option in range(4):
            for limit, length in [(1, 1), (5, 97), (20, MINUTE), (600, MINUTE)]:
                limiter = Limiter(kind, limit, length, counts_refused=option % 2, full_reset=option // 2)
                rows = np.zeros(1, dtype=record_dtype(Window))
                for name in rows.dtype.names:
                    rows[0][name] = getattr(limiter.w, name)
                ring, told = np.zeros(limit, dtype=np.int64), np.zeros((len(times), 4), dtype=np.int64)
                replay(times, rows, ring, told)
                expected = [
                    [limiter.take(t), limiter.remaining(t), limiter.reset_after(t), limiter.retry_after(t)]
                    for t in times.tolist()
                ]
                assert told.tolist() == expected
                assert [int(rows[0][name]) for name in rows.dtype.names] == [
                    getattr(limiter.w, name) for name in rows.dtype.names
                ]
                assert ring.tolist() == limiter.ring


@given(st.sampled_from(KINDS), st.integers(1, 9), st.integers(0, 30), st.integers(1, 9))
def test_another_limit_counts_what_was_counted(kind: int, limit: int, calls: int, other: int) -> None:
    limiter = Limiter(kind, limit)
    taken = limiter.burst(NOON, calls)
    limiter.ring = windows.set_limit(NOON, limiter.w, limiter.ring, other)
    assert limiter.remaining(NOON) == max(0, other - taken)
    assert limiter.burst(NOON, 20) == max(0, other - taken)


def test_calls_leave_a_log_of_another_limit_when_they_are_as_old_as_it_is_long() -> None:
    limiter = Limiter(SLIDING_LOG, 4)
    admitted = [limiter.take(NOON + second * SECOND) for second in (0, 1, 2, 3, 4)]
    limiter.ring = windows.set_limit(NOON + 5 * SECOND, limiter.w, limiter.ring, 2)
    assert admitted == [1, 1, 1, 1, 0]
    assert limiter.retry_after(NOON + 5 * SECOND) == MINUTE - 3 * SECOND
    limiter.ring = windows.set_limit(NOON + 5 * SECOND, limiter.w, limiter.ring, 3)
    assert limiter.burst(NOON + 5 * SECOND, 5) == 1
    assert limiter.retry_after(NOON + 5 * SECOND) == MINUTE - 3 * SECOND


@given(
    st.sampled_from(KINDS),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 9 * SECOND), max_size=40),
    st.integers(0, 99 * SECOND),
)
def test_the_calls_that_a_row_counts_make_the_same_row_again(
    kind: int, refused: bool, full: bool, gaps: list[int], after: int
) -> None:
    """Counted again at their instants, which may be refused there, they leave and reset as before."""
    limiter = Limiter(kind, 5, counts_refused=int(refused), full_reset=int(full))
    now = NOON
    for gap in gaps:
        now += gap
        limiter.take(now)
    now += after
    again = Limiter(kind, 5, counts_refused=int(refused), full_reset=int(full))
    for at, calls in windows.counted_calls(now, limiter.w, limiter.ring).items():
        assert at <= now
        windows.count_calls(at, again.w, again.ring, calls)
    for later in range(now, now + 2 * MINUTE, 3 * SECOND + 1):
        assert (again.remaining(later), again.reset_after(later), again.retry_after(later)) == (
            limiter.remaining(later), limiter.reset_after(later), limiter.retry_after(later)
        )  # fmt: skip
