"""The goal in virtual time: of 500 right limiters none is called broken, of broken ones nearly all are.

pytest -m heavy tests/judge/limits -s
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from tests.judge.limits.limiters import Limiter, play, racing, replicas, rotating, ruled

from ranksim.core.clock import MILLISECOND, SECOND, Micros
from ranksim.core.rules import windows
from ranksim.judge.limits.judged import JudgedLimit, LimitVerdict
from ranksim.judge.limits.probes import Probes

SEEDS = range(5000, 5050)
MOST, SOON = 1000, 500
KINDS = (*windows.NAMES, "rotating")


def made(kind: str, limit: int, length: Micros, phase: Micros) -> Limiter:
    return rotating(limit, length) if kind == "rotating" else ruled(kind, limit, length, phase=phase)


def right_and_broken(seed: int) -> tuple[int, Micros, Micros, dict[str, Limiter], dict[str, Limiter]]:
    """A limit with its length and latency, and limiters by name, right ones and broken ones."""
    draw = Random(seed)
    limit, length = draw.randint(5, 40), draw.choice((1, 2, 3, 5)) * SECOND
    phase, latency = draw.randrange(length), draw.choice((1, 2, 4, 8)) * MILLISECOND
    off = draw.uniform(0.05, 0.2)
    right = {kind: made(kind, limit, length, phase) for kind in KINDS}
    right |= {
        f"{kind} refused": ruled(kind, limit, length, refused=True, phase=phase)
        for kind in windows.NAMES
        if kind != "clock"
    }
    broken: dict[str, Limiter] = {}
    for kind in KINDS:
        broken[f"{kind}, replicas"] = replicas(*(made(kind, limit, length, phase) for _ in range(2)))
        broken[f"{kind}, one more"] = made(kind, limit + 1, length, phase)
        broken[f"{kind}, one fewer"] = made(kind, limit - 1, length, phase)
        broken[f"{kind}, fast"] = made(kind, limit, round(length * (1 - off)), phase)
        broken[f"{kind}, slow"] = made(kind, limit, round(length * (1 + off)), phase)
    for log in (False, True):
        broken[f"{'log' if log else 'first_hit'}, race"] = racing(
            limit, length, latency * draw.randint(1, 4), log=log
        )
    return limit, length, latency, right, broken


def judged(
    limit: int, length: Micros, latency: Micros, limiter: Limiter, seed: int
) -> tuple[JudgedLimit, int]:
    probes = Probes(limit, length, MOST, 10**12, Random(seed))
    play(probes.program(0), limiter, Random(seed + 1), latency)
    assert probes.judged is not None
    return probes.judged, len(probes.calls)


@pytest.mark.heavy
def test_right_ones_hold_and_broken_ones_are_caught() -> None:
    counts: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for seed in SEEDS:
        limit, length, latency, right, broken = right_and_broken(seed)
        for name, limiter in right.items():
            found, _ = judged(limit, length, latency, limiter, seed)
            assert found.verdict != LimitVerdict.BROKEN, (seed, name, found.evidence)
            assert found.algorithm in (name.split()[0], None), (seed, name, found.algorithm)
            counts["right"] += 1
            counts["named"] += found.algorithm is not None
        for name, limiter in broken.items():
            found, calls = judged(limit, length, latency, limiter, seed)
            caught = found.verdict == LimitVerdict.BROKEN and calls <= SOON
            counts["broken"] += 1
            counts["caught"] += caught
            missed[name] += not caught
    print(f"{dict(counts)}; missed {dict(+missed)}")
    assert counts["right"] >= 500
    assert counts["named"] >= 0.9 * counts["right"]
    assert counts["caught"] >= 0.95 * counts["broken"]
