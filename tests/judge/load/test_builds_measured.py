"""Builds that were really loaded: one a fifth slower is told, equal ones are not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path

import pytest
from tests.kit.slow_proxy import slowed

from ranksim.judge.conformance.compare import Judgement
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.conformance.report.builds import compare_builds
from ranksim.judge.load.loading import load as load_deployment
from ranksim.testing import Server

LOADS = 5


def always(seconds: float) -> Callable[[int], float]:
    """Delay each piece by as much, whatever the number of connections."""
    return lambda opened: seconds


@pytest.mark.heavy
def test_a_build_that_is_a_fifth_slower_is_told_by_its_load(tmp_path: Path) -> None:
    """Of 25 pairs nine in ten, of 20 equal pairs at most one; loads by turns, since machines change."""
    sides: dict[float, list[Judgement]] = {0.05: [], 0.06: []}
    with Server(clock="real", start=None) as deployment:
        deployment.limits.off("rate", "cooldown")
        for number, seconds in product(range(LOADS), sides):
            out = tmp_path / f"{seconds}-{number}"
            with slowed(deployment.url, always(seconds)) as url:
                trace = load_deployment(
                    url, key=deployment.key, users=10, length="25s", out=out, spend_cap="none"
                )
            sides[seconds].append(Judgement((), (), {}, (read_history(trace),)))
    slow = [compare_builds(a, b).latencies[0] for a, b in product(sides[0.05], sides[0.06])]
    equal = [compare_builds(a, b).latencies[0] for side in sides.values() for a, b in combinations(side, 2)]
    print("slow", [(round(row.low or 0, 3), round(row.high or 0, 3)) for row in slow])
    print("equal", [(round(row.low or 0, 3), round(row.high or 0, 3)) for row in equal])
    assert sum(row.says == "slower" for row in slow) >= 23
    assert sum(row.says in ("slower", "faster") for row in equal) <= 1
