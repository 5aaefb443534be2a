"""The planner's question: slots, provider cost and price by multiplication, refusals by counting minutes."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

Page = Callable[[str], dict[str, Any]]

SLOTS, PRICE, PAGE, A_MINUTE, TRIES = 160_000, 2_990, Decimal("0.0004"), 20, 5


def one_night(starts: int) -> tuple[int, int]:
    """Calls refused, and starts given up after the fifth: each minute twenty pass, the rest come again."""
    refused = 0
    for _ in range(TRIES):
        starts = max(0, starts - A_MINUTE)
        refused += starts
    return refused, starts


@pytest.mark.slow
@pytest.mark.example(
    "docs/capacity.md",
    '("agency", 2_990_000_000, 446_400_000)',
    '("job starts in a burst", 5 * 20 + 1)',
    "slots.breaks_at == 160_000 // 1200 + 1",
    "36,000 slots, and 36,000 pages × 31 days",
    "ranksim capacity fit --domains 30 --keywords 300 --pairings 4 --run-every 1d --growth 2",
)
def test_the_plan(page: Page, command: Callable[..., Any]) -> None:
    names = page("docs/capacity.md")
    cost = 30 * 300 * 4 * 31 * PAGE
    assert str(cost) == "446.4000"
    plan = names["plan"]
    assert (plan.now.price, plan.now.cost) == (PRICE * 10**6, int(cost * 10**6))
    domains = 1
    while domains * 300 * 4 <= SLOTS:
        domains += 1
    assert names["slots"].breaks_at == domains == 134
    domains = 1
    while not one_night(domains)[1]:
        domains += 1
    assert names["first"].breaks_at == domains == 101
    flags = "--domains 30 --keywords 300 --pairings 4 --run-every 1d --growth 2"
    row = command("capacity", "fit", *flags.split())["tables"]["answer"][-1]
    assert (row["plan"], row["provider_cost_grown_uusd"]) == ("agency", int(2 * cost * 10**6))


@pytest.mark.slow
@pytest.mark.example(
    "docs/capacity.md", "== (10, 40 + 20)", "(lost.burst.given_up, lost.cheapest()) == (130 - 5 * 20, None)"
)
def test_the_starts_of_a_night(page: Page) -> None:
    answer = page("docs/capacity.md")["answer"]
    assert (
        (answer.burst.refused, answer.burst_grown.refused) == (one_night(30)[0], one_night(60)[0]) == (10, 60)
    )
    assert one_night(130)[1] == page("docs/capacity.md")["lost"].burst.given_up == 30


@pytest.mark.slow
@pytest.mark.example(
    "docs/capacity.md",
    '("keyword slots", 160_000 // (12 * (300 + 5 * 15)) + 1)',
    "ranksim capacity fit --scenario scenarios/agency-month.yaml",
)
def test_the_agency_of_the_scenario(page: Page, command: Callable[..., Any]) -> None:
    """A longest month has five Mondays; on each 5 % of 300 words of a domain are held, and as many added."""
    held = sum(300 * 5 // 100 for day in range(31) if day % 7 == 0)
    domains = 1
    while domains * (300 + held) * 4 * 3 <= SLOTS:
        domains += 1
    assert page("docs/capacity.md")["tightest"].breaks_at == domains == 36
    row = command("capacity", "fit", "--scenario", "scenarios/agency-month.yaml")["tables"]["answer"][-1]
    assert (row["plan"], row["breaks_at"]) == ("agency", 36)
