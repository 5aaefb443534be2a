"""How slots fill: day by day with a list of words, and the tail of a Poisson sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest
from dateutil.relativedelta import relativedelta

Page = Callable[[str], dict[str, Any]]


def use_by_day(
    start: date, days: int, words: int, a_day: int, slots: int, limit: int
) -> list[tuple[int, int]]:
    """(slots used, words refused so far) at the end of each day, a day's removals before its additions.

    A removed word holds its slots to the end of the billing month, which begins at `start` and, in later
    months, on that day or on the month's last.
    """
    held, refused, found = 0, 0, []
    months = 1
    for number in range(days):
        if start + timedelta(days=number) == start + relativedelta(months=months):
            held, months = 0, months + 1
        words, held = words - a_day, held + a_day
        for _ in range(a_day):
            if (words + held + 1) * slots <= limit:
                words += 1
            else:
                refused += 1
        found.append(((words + held) * slots, refused))
    return found


@pytest.mark.slow
@pytest.mark.example(
    "docs/capacity.md",
    "steady.room == 250",
    "(1, 25, 26, 31)] == [4040, 5000, 5000, 5000]",
    "refused_by for n in (25, 26)] == [0, 1]",
    "steady.days[31].used_mean == 3800",
    "that is 25 days; on the 26th one is refused",
)
def test_ten_in_and_ten_out_a_day(page: Page) -> None:
    steady = page("docs/capacity.md")["steady"]
    expected = use_by_day(date(2026, 3, 1), 32, 1000, 10, 4, 5000)
    assert [day.used_mean for day in steady.days] == [used for used, _ in expected]
    assert [day.refused_by for day in steady.days] == [float(refused > 0) for _, refused in expected]
    assert next(n for n, (_, refused) in enumerate(expected, 1) if refused) == 26
    assert steady.room == (5000 - 4 * 1000) / 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "start", [date(2026, 1, 31), date(2028, 1, 30), date(2026, 5, 31), date(2026, 2, 28)]
)
def test_billing_months_end_where_the_calendar_has_no_such_day(page: Page, start: date) -> None:
    names = page("docs/capacity.md")
    churn = names["Churn"](1000, 2, 2, adds=12, removals=12, law="fixed")
    found = names["slot_use"](churn, 5000, start=names["instant"](start.isoformat()), days=95)
    expected = use_by_day(start, 95, 1000, 12, 4, 5000)
    assert [day.used_mean for day in found.days] == [used for used, _ in expected]


@pytest.mark.slow
@pytest.mark.example("docs/capacity.md", "0.48 < random.days[24].refused_by < 0.49")
def test_fresh_words_at_random(page: Page) -> None:
    """P(N > 250) of a Poisson number with mean 10 a day."""
    random = page("docs/capacity.md")["random"]
    for day in (20, 25, 28):
        mean = 10 * day
        fits = math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(251))
        assert random.days[day - 1].refused_by == pytest.approx(1 - fits, abs=1e-9)
