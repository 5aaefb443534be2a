"""How many admission decisions a second the rules make interpreted: rate window, six checks, booking.

As drivers call them: `take`, then `decide`, then `book` if it is granted and no dry run.
"""

from collections.abc import Callable
from typing import Any

import pytest

from ranksim.core.clock import DAY, MINUTE
from ranksim.core.rules import windows
from ranksim.core.rules.admission import admit
from ranksim.core.rules.books import Ask, Books, Cooldown, Meter, Terms, Window

CALLS = 100_000


def decisions(kind: int) -> int:
    """Make CALLS decisions, one each 400 ms, a tenth of them dry runs; give how many were granted."""
    window = Window(kind=kind, limit=120, length=MINUTE)
    windows.start(window)
    ring = [0] * 120
    books = Books(capabilities=3, ceiling=10**12, slot_limit=10**9)
    meter, cooldown, terms = Meter(limit=10**9), Cooldown(length=0), Terms()
    ask = Ask(checks=126, capability=1, estimate=1_000, units=1, slots=1)
    granted, now = 0, 20_000 * DAY
    for number in range(CALLS):
        now += 400_000
        if windows.take(now, window, ring):
            ask.dry_run = number % 10 == 0
            granted += admit(now, ask, books, meter, cooldown, terms) == 0
    return granted


@pytest.mark.parametrize("kind", range(5), ids=windows.NAMES)
def test_decisions(benchmark: Callable[..., Any], kind: int) -> None:
    granted = benchmark.pedantic(decisions, args=(kind,), rounds=3, iterations=1)
    assert 0 < granted <= CALLS
    mean = benchmark.stats.stats.mean
    benchmark.extra_info["decisions_per_second"] = round(CALLS / mean)
