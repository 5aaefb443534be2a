"""Prices, ceilings and trade-offs: ten customers brief by brief, in exact amounts."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from itertools import count
from typing import Any

import pytest

pytestmark = pytest.mark.slow

Page = Callable[[str], dict[str, Any]]

USD = 1_000_000
BRIEF = Decimal("0.03")
ASKED = 4 * 30


def month(ceiling: Decimal, asked: int = ASKED) -> tuple[Decimal, int]:
    """(spent, refused) of a customer: the brief that crosses the ceiling is still made."""
    spent, refused = Decimal(0), 0
    for _ in range(asked):
        if spent < ceiling:
            spent += BRIEF
        else:
            refused += 1
    return spent, refused


def total(price: Decimal, ceiling: Decimal) -> tuple[Decimal, Decimal, Decimal]:
    """(revenue, cost, margin) of ten customers."""
    spent, _ = month(ceiling)
    return 10 * price, 10 * spent, 10 * (price - spent)


A, B = total(Decimal(30), Decimal(90)), total(Decimal(20), Decimal("1.50"))


@pytest.mark.example(
    "docs/pricing.md",
    'money == {"revenue": (300, 200), "cost": (36, 15), "margin": (264, 185)}',
    'found.row("margin")["difference"] == -79 * USD',
)
def test_money(page: Page) -> None:
    names = page("docs/pricing.md")
    assert names["money"] == {
        name: (float(a), float(b)) for name, a, b in zip(("revenue", "cost", "margin"), A, B, strict=True)
    }
    margin = names["found"].row("margin")
    assert (margin["a"], margin["b"]) == (264 * USD, 185 * USD) == (A[2] * USD, B[2] * USD)
    assert margin["difference"] == (B[2] - A[2]) * USD == -79 * USD


@pytest.mark.example(
    "docs/pricing.md",
    'found.row("hit_cost_cap_reached")["b"]) == (0, 1)',
    '17 < found.row("blocked")["b"] / DAY < 18',
    "at the 51st brief, half way through the thirteenth day",
)
def test_who_meets_the_ceiling_and_for_how_long(page: Page) -> None:
    found = page("docs/pricing.md")["found"]
    assert (found.row("hit_cost_cap_reached")["a"], found.row("hit_cost_cap_reached")["b"]) == (0, 1)
    assert (month(Decimal(90))[1], month(Decimal("1.50"))[1]) == (0, ASKED - 50)
    # Four a day are six hours apart, the first within the first six: the 51st after 12.5 to 12.75 days.
    assert 30 - (50 * 6 + 6) / 24 <= found.row("blocked")["b"] / (86_400 * USD) <= 30 - 50 * 6 / 24


@pytest.mark.example(
    "docs/pricing.md",
    '("price", "30 USD", "20 USD"), ("cost_ceiling", "90 USD", "1.5 USD")',
    "compare(customers, a, a, replications=2).differences} == {0}",
)
def test_what_b_changes(page: Page) -> None:
    names = page("docs/pricing.md")

    def leaves(value: Any, at: str = "") -> dict[str, Any]:
        if not isinstance(value, dict):
            return {at: value}
        return {
            path: leaf
            for name, inner in value.items()
            for path, leaf in leaves(inner, f"{at}.{name}").items()
        }

    a, b = (leaves(names[side].model_dump(mode="json")) for side in "ab")
    differ = {
        path.removeprefix("."): (a.get(path), b.get(path)) for path in {*a, *b} if a.get(path) != b.get(path)
    }
    assert differ == {one.path: (one.a, one.b) for one in names["found"].changes}
    assert set(differ) == {"plans.pro.price", "plans.pro.cost_ceiling"}
    same = names["compare"](names["customers"], names["a"], names["a"], replications=2)
    assert all(row["a"] == row["b"] and row["difference"] == 0 for row in same.differences)


@pytest.mark.example(
    "docs/pricing.md",
    '(fewer.row("customers")["a"], fewer.row("customers")["b"]) == (10, 8)',
    'abs(fewer.row("margin")["b"] - 8 * (45 - 3.60) * USD) < 1',
    "dollars == [27.17, 37.92, 4.35, 15.17]",
)
def test_who_leaves(page: Page) -> None:
    names = page("docs/pricing.md")

    def stay(share: str, now: int, then: int) -> Decimal:
        return 1 - Decimal(share) * (Decimal(then) / now - 1)

    left = 10 * stay("0.4", 30, 45)
    assert (names["fewer"].row("customers")["b"], left) == (8, 8)
    assert names["fewer"].row("margin")["b"] == pytest.approx(
        float(left * (45 - month(Decimal(90))[0])) * USD
    )
    points = [
        10 * stay("0.1", 30, price) * (price - month(ceiling)[0])
        for ceiling in (Decimal("1.50"), Decimal(10))
        for price in (4, 5)
    ]
    assert [point["margin"] / USD for point in names["elastic"].points] == pytest.approx(
        [*map(float, points)]
    )


@pytest.mark.example(
    "docs/pricing.md",
    '(hit["a"], hit["of"], hit["base"]) == (0, 20, "customers")',
    'abs(hit["a_high"] - (1 - 0.025 ** (1 / 20)))',
    "nobody of 1,000 means up to 0.37 %",
)
def test_nobody_of_twenty(page: Page) -> None:
    """The largest chance with which twenty customers all escape 2.5 % of the time."""
    hit = page("docs/pricing.md")["found"].row("hit_quota_exhausted")
    assert (hit["a"], hit["b"], hit["of"]) == (0, 0, 2 * 10)

    def largest(customers: int) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if (1 - middle) ** customers > 0.025 else (low, middle)
        return low

    assert hit["a_high"] == hit["b_high"] == pytest.approx(largest(20))
    assert round(100 * largest(1000), 2) == 0.37


@pytest.mark.example(
    "docs/pricing.md",
    'needs["A", "pro"] == (10, 0)',
    'needs["B", "starter + brief_pack"] == (10, 10 * (29 + 15 - 20) * USD)',
)
def test_the_cheapest_plan_that_would_have_been_enough(page: Page) -> None:
    names = page("docs/pricing.md")
    for side, catalogue in (("A", names["a"]), ("B", names["b"])):
        stated = catalogue.model_dump(mode="json")
        pack = stated["add_ons"]["brief_pack"]
        enough = []
        for name, plan in stated["plans"].items():
            lacks = 4 * 7 - plan["quotas"]["keyword_brief_refreshes"]["limit"]
            packs = max(0, math.ceil(lacks / pack["amount"]))
            if not month(amount(plan["cost_ceiling"]))[1] and "keyword_briefs" in plan["capabilities"]:
                bill = amount(plan["price"]) + packs * amount(pack["price"])
                enough.append((bill, f"{name} + brief_pack" if packs else name))
        bill, cheapest = min(enough)
        more = bill - amount(stated["plans"]["pro"]["price"])
        assert names["needs"][side, cheapest] == (10, 10 * more * USD)
    assert names["needs"]["B", "starter + brief_pack"] == (10, 10 * (29 + 15 - 20) * USD)


def amount(text: str) -> Decimal:
    return Decimal(text.removesuffix(" USD"))


@pytest.mark.example(
    "docs/pricing.md", "fewest(risk=0.01, level=0.95) == 299", "0.99**298 > 0.05 > 0.99**299"
)
@pytest.mark.parametrize(("risk", "level"), [(0.01, 0.95), (0.05, 0.95), (0.001, 0.99)])
def test_how_many_customers_without_a_loss_are_enough(page: Page, risk: float, level: float) -> None:
    chance, customers = 1.0, 0
    while chance >= 1 - level:
        chance, customers = chance * (1 - risk), customers + 1
    assert page("docs/pricing.md")["fewest"](risk=risk, level=level) == customers
    assert customers == 299 or risk != 0.01


@pytest.mark.example(
    "docs/pricing.md",
    "(plan.even, plan.even_low) == (3.6 * USD, None)",
    "(plan.safe, plan.needless) == (3 * USD, False)",
    "at 1.01 USD a month a ceiling of 1 USD lets 34 briefs for 1.02 USD pass",
)
def test_where_a_plan_breaks_even(page: Page) -> None:
    plan = page("docs/pricing.md")["plan"]
    cost = ASKED * BRIEF
    assert (plan.even, plan.even_low, plan.even_high) == (float(cost) * USD, None, None)

    def safe(price: str) -> int:
        """The highest ceiling, in dollars, below the first under which a customer costs more than it pays."""
        return next(dollars for dollars in count() if month(Decimal(dollars + 1))[0] > Decimal(price))

    assert (plan.safe, plan.needless) == (safe("3") * USD, cost <= 3) == (3 * USD, False)
    assert (safe("1.02"), safe("1.01")) == (1, 0)
    assert month(Decimal(1)) == (34 * BRIEF, ASKED - 34)
    assert str(34 * BRIEF) == "1.02"


@pytest.mark.example(
    "docs/pricing.md",
    "points == [ (25, 1, False),",
    'frontier.points[1]["change"] == (35 - 264) * USD',
)
def test_what_is_not_beaten(page: Page) -> None:
    names = page("docs/pricing.md")
    grid = [
        (total(Decimal(price), Decimal(ceiling))[2], month(Decimal(ceiling))[1] > 0)
        for ceiling in ("1.50", "10")
        for price in (4, 5)
    ]
    best = [
        not any(m >= margin and b <= blocked and (m, b) != (margin, blocked) for m, b in grid)
        for margin, blocked in grid
    ]
    expected = [(float(margin), int(blocked), one) for (margin, blocked), one in zip(grid, best, strict=True)]
    assert names["points"] == expected == [(25, 1, False), (35, 1, True), (4, 0, False), (14, 0, True)]
    assert names["frontier"].points[1]["change"] == (grid[1][0] - A[2]) * USD == (35 - 264) * USD
