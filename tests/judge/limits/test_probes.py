"""Probes in virtual time: which algorithm a limiter has, and what is wrong with it, from 500 calls."""

from __future__ import annotations

from random import Random

import pytest
from tests.judge.limits.limiters import Limiter, play, racing, replicas, rotating, ruled

from ranksim.core.clock import MILLISECOND, SECOND, Micros
from ranksim.core.rules import windows
from ranksim.judge.limits.judged import LimitVerdict
from ranksim.judge.limits.probes import ROUNDS, Probes, round_calls

DISTANT = 10**12


def drawn(seed: int) -> tuple[int, Micros, Micros, Micros, Random]:
    """A limit, its length, a phase of clock windows, and how long a call takes."""
    draw = Random(seed)
    length = draw.choice((1, 2, 3, 5)) * SECOND
    return draw.randint(5, 40), length, draw.randrange(length), draw.choice((1, 2, 4, 8)) * MILLISECOND, draw


def probed(
    limit: int, length: Micros, limiter: Limiter, draw: Random, latency: Micros, most: int = 500
) -> Probes:
    probes = Probes(limit, length, most, DISTANT, Random(draw.random()))
    play(probes.program(0), limiter, draw, latency)
    return probes


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", windows.NAMES)
def test_a_right_limiter_is_named(kind: str, seed: int) -> None:
    limit, length, phase, latency, draw = drawn(seed)
    probes = probed(limit, length, ruled(kind, limit, length, phase=phase), draw, latency)
    assert probes.judged is not None
    assert (probes.judged.verdict, probes.judged.algorithm) == (LimitVerdict.HOLDS, kind), seed
    assert len(probes.calls) <= 500


@pytest.mark.parametrize("kind", ["first_hit", "sliding_log", "sliding_counter", "gcra"])
def test_whether_refused_calls_count_is_found(kind: str) -> None:
    limit, length, phase, latency, draw = drawn(11)
    probes = probed(limit, length, ruled(kind, limit, length, refused=True, phase=phase), draw, latency)
    assert probes.judged is not None
    assert (probes.judged.algorithm, probes.judged.refused_count) == (kind, True)


@pytest.mark.slow
def test_a_counter_that_begins_anew_is_told_from_one_on_the_clock() -> None:
    """In most runs, and never named otherwise: a phase on the clock may fit all of its beginnings."""
    named = []
    for seed in range(8):
        limit, length, _, latency, draw = drawn(seed)
        probes = probed(limit, length, rotating(limit, length), draw, latency, most=1000)
        assert probes.judged is not None
        assert probes.judged.verdict != LimitVerdict.BROKEN, seed
        named.append(probes.judged.algorithm)
    assert set(named) <= {"rotating", None}
    assert named.count("rotating") >= 6


@pytest.mark.parametrize("form", ["one more", "one fewer", "fast", "slow", "two replicas"])
@pytest.mark.parametrize("kind", windows.NAMES)
def test_a_broken_limiter_is_caught(kind: str, form: str) -> None:
    limit, length, phase, latency, draw = drawn(21)
    made, lasts = limit, length
    match form:
        case "one more":
            made += 1
        case "one fewer":
            made -= 1
        case "fast":
            lasts = length * 9 // 10
        case "slow":
            lasts = length * 11 // 10
    limiter = ruled(kind, made, lasts, phase=phase)
    if form == "two replicas":
        limiter = replicas(limiter, ruled(kind, made, lasts, phase=phase))
    probes = probed(limit, length, limiter, draw, latency)
    assert probes.judged is not None
    assert probes.judged.verdict == LimitVerdict.BROKEN
    assert probes.judged.evidence is not None
    assert probes.judged.evidence.exchanges
    at_once = probes.judged.at_once
    assert (at_once is not None and at_once >= 1.9 * limit) == (form == "two replicas"), at_once


@pytest.mark.parametrize("log", [False, True])
def test_a_check_that_races_is_caught(log: bool) -> None:
    limit, length, _, latency, draw = drawn(33)
    probes = probed(limit, length, racing(limit, length, 3 * latency, log=log), draw, latency)
    assert probes.judged is not None
    assert (probes.judged.verdict, probes.judged.side) == (LimitVerdict.BROKEN, "no more")
    assert probes.judged.at_once is not None


def test_off_by_one_names_the_limit_that_is_kept() -> None:
    limit, length, _, latency, draw = drawn(5)
    probes = probed(limit, length, ruled("gcra", limit + 1, length), draw, latency)
    assert probes.judged is not None
    assert probes.judged.nearest == limit + 1


def test_it_ends_with_the_calls_or_with_the_time() -> None:
    most = round_calls(ROUNDS[0], 20)
    short = Probes(20, SECOND, most + 3, DISTANT, Random(1))
    play(short.program(0), ruled("gcra", 20, SECOND), Random(1), MILLISECOND)
    assert (len(short.calls), short.ended) == (most, "calls")
    brief = Probes(20, SECOND, 500, 2 * SECOND, Random(1))
    play(brief.program(0), ruled("gcra", 20, SECOND), Random(1), MILLISECOND)
    assert brief.ended == "time"
    assert brief.judged is not None
    assert brief.judged.verdict != LimitVerdict.BROKEN
