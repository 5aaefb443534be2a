"""How many workers a peak needs: a queue played with a heap, and Erlang's sum."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

Page = Callable[[str], dict[str, Any]]


def in_time(arrivals: Sequence[float], workers: int, takes: float, within: float) -> float:
    """The share of jobs that start within so long, first come first served."""
    free, started = [0.0] * workers, 0
    for came in arrivals:
        begins = max(came, heapq.heappop(free))
        heapq.heappush(free, begins + takes)
        started += begins - came <= within
    return started / len(arrivals)


def all_busy(workers: int, load: float) -> float:
    """The chance that a job waits in M/M/c (A. K. Erlang, 1917), as a sum over the states."""
    states = [load**k / math.factorial(k) for k in range(workers)]
    last = load**workers / math.factorial(workers) * workers / (workers - load)
    return last / (math.fsum(states) + last)


@pytest.mark.slow
@pytest.mark.example("docs/capacity.md", "monday.kinds[0].by_simulation) == (285, 285)")
def test_all_at_one_instant(page: Page) -> None:
    monday = page("docs/capacity.md")["monday"].kinds[0]
    enough = [workers for workers in range(1, 601) if in_time([0.0] * 600, workers, 4, 5) >= 0.95]
    assert (monday.by_formula, monday.by_simulation) == (min(enough), min(enough)) == (285, 285)


@pytest.mark.slow
@pytest.mark.example("docs/capacity.md", "abs(erlang_c(2, 1.0) - 1 / 3)")
@pytest.mark.parametrize(("workers", "load"), [(2, 1.0), (1, 0.75), (7, 3.3), (44, 40.0)])
def test_who_waits(page: Page, workers: int, load: float) -> None:
    assert page("docs/capacity.md")["erlang_c"](workers, load) == pytest.approx(all_busy(workers, load))
    if (workers, load) == (2, 1.0):
        assert all_busy(workers, load) == pytest.approx(1 / 3)


@pytest.mark.slow
@pytest.mark.example(
    "docs/capacity.md",
    "spread.peak.load == 40",
    "36 <= spread.by_simulation <= spread.by_formula <= 44",
    "600 × 4 min / 60 min = 40 workers",
)
def test_spread_over_an_hour(page: Page) -> None:
    spread = page("docs/capacity.md")["spread"]
    assert spread.peak.load == 600 * 4 / 60
    # Waiting ends at rate (c - a) / (4 min x (1 + 0) / 2): arrivals vary as exponentials do, durations not.
    late = {c: all_busy(c, 40.0) * math.exp(-(c - 40) * 5 / (4 * (1 + 0) / 2)) for c in range(41, 60)}
    assert spread.by_formula == min(c for c, chance in late.items() if chance <= 0.05)
    rng = random.Random(20261122)
    hours = [sorted(rng.uniform(0, 60) for _ in range(600)) for _ in range(200)]
    mean = {c: math.fsum(in_time(hour, c, 4, 5) for hour in hours) / 200 for c in range(34, 46)}
    needed = min(c for c, share in mean.items() if share >= 0.95)
    assert needed <= spread.by_simulation <= spread.by_formula
    assert spread.by_simulation - needed <= 3  # which had five runs to be sure by


@pytest.mark.slow
@pytest.mark.example("docs/capacity.md", "(needed.jobs, needed.by_simulation) == (80, 10)")
def test_two_instants_of_two_days(page: Page) -> None:
    occasions = [day * 1440.0 + hour * 60 for day in (0, 1) for hour in (2, 14)]
    arrivals = [at for at in occasions for _ in range(20)]
    enough = [workers for workers in range(1, 81) if in_time(arrivals, workers, 4, 5) >= 0.95]
    needed = page("docs/capacity.md")["needed"]
    assert (needed.jobs, needed.by_simulation) == (len(arrivals), min(enough)) == (80, 10)
