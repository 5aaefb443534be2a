"""The largest portfolio of the agency: one more keyword until something does not fit."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

Page = Callable[[str], dict[str, Any]]

SLOTS, CEILING, PAGE = 160_000, Decimal(2400), Decimal("0.0004")


def most(cost_a_month: Decimal) -> tuple[int, int]:
    """How many keywords of 12 slots the slots carry, and how many the ceiling."""
    by_slots = by_spend = 0
    while 12 * (by_slots + 1) <= SLOTS:
        by_slots += 1
    while cost_a_month * (by_spend + 1) <= CEILING:
        by_spend += 1
    return by_slots, by_spend


@pytest.mark.slow
@pytest.mark.example(
    "docs/capacity.md",
    '(160_000 // 12, "keyword slots")',
    'allows["provider cost a month"] == int(2400 / 0.1488) == 16_129',
    "13,333 keywords",
)
def test_run_once_a_day(page: Page) -> None:
    names = page("docs/capacity.md")
    assert str(12 * 31 * PAGE) == "0.1488"
    slots, spend = most(12 * 31 * PAGE)
    assert (slots, spend) == (13_333, 16_129)
    assert (names["agency"].most, names["agency"].binding.name) == (slots, "keyword slots")
    assert names["allows"]["provider cost a month"] == spend


@pytest.mark.slow
@pytest.mark.example("docs/capacity.md", '(int(2400 / (2 * 0.1488)), "cost_cap_reached")')
def test_run_twice_a_day(page: Page) -> None:
    often = page("docs/capacity.md")["often"]
    slots, spend = most(12 * 62 * PAGE)
    assert spend < slots
    assert (often.most, often.binding.refusal) == (spend, "cost_cap_reached")


@pytest.mark.slow
@pytest.mark.example(
    "docs/capacity.md", "--plan pro --grow domains --keywords 100 --pairings 2 --briefs 5 --crawls 4"
)
def test_domains_of_pro(command: Callable[..., Any]) -> None:
    """The page's command. A crawl is of 100 pages, and briefs are rounded up domain by domain."""
    flags = "--plan pro --grow domains --keywords 100 --pairings 2 --briefs 5 --crawls 4"
    found = command("capacity", "portfolio", *flags.split())
    a_month = 31 * 100 * 2 * PAGE + -(-5 * 31 // 7) * Decimal("0.03") + 4 * 100 * Decimal("0.0001")
    allows = {row["name"]: row["allows"] for row in found["tables"]["answer"]}
    assert allows["keyword_brief_refreshes a week"] == 50 // 5 == 10
    assert allows["keyword slots"] == 5000 // (100 * 2)
    assert allows["provider cost a month"] == 90 // a_month == 28
    spend = next(row for row in found["tables"]["answer"] if row["name"] == "provider cost a month")
    assert Decimal(spend["need"]) / 1_000_000 == 10 * a_month == Decimal("32.10")
