"""A fleet's quota by hand, and bills and blocked time from what each customer was and did."""

from __future__ import annotations

import math
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import pairwise
from typing import Any

import pytest
from dateutil.relativedelta import relativedelta

pytestmark = pytest.mark.slow

Page = Callable[[str], dict[str, Any]]

DAY = 86_400_000_000


@pytest.mark.example(
    "docs/fleet.md",
    'account["keyword_brief_refreshes_wanted"] == 140',
    'account["quota_exhausted"] == 140 - 50',
    'account["brief_pack_needed"] == 2',
)
def test_a_week_of_briefs(page: Page) -> None:
    account = page("docs/fleet.md")["account"]
    left, refused = 50, 0
    for _ in range(20 * 7):
        left, refused = (left - 1, refused) if left else (left, refused + 1)
    assert account["keyword_brief_refreshes_wanted"] == 20 * 7 == 140
    assert account["quota_exhausted"] == refused == 90
    assert account["brief_pack_needed"] == math.ceil(refused / 50) == 2


COMING_AND_GOING = """
accounts: 60
start: 2028-01-20T00:00:00Z
length: 75d
joins: 0.5
churn: 0.3
seed: 4
segments:
  shops:
    plans: {pro: {weight: 1, add_ons: {brief_pack: 2}}, starter: 2}
    usage: {keyword_briefs: 12}
    arrivals: steady
"""
"""Through 29 February and months of 31 days; the same customers in every run."""

PRICES = {"pro": 129 + 2 * 15, "starter": 29}


def instant(us: Any) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(us))


def test_bills(page: Page) -> None:
    """A thirtieth of the price for each day served, and three cents for each brief that passed."""
    names, pricing = page("docs/fleet.md"), page("docs/pricing.md")
    population = names["rs"].Population.parse(COMING_AND_GOING)
    accounts = names["rs"].simulate_fleet(population).accounts
    plans = [str(plan) for plan in names["rs"].simulate_fleet(population).plan_names]
    revenue = dict.fromkeys(PRICES, Decimal(0))
    for account, plan in zip(accounts, plans, strict=True):
        days = Decimal(int(account["leaves"] - account["joins"])) / DAY
        paid = PRICES[plan] * days / 30 * 1_000_000
        revenue[plan] += paid.to_integral_value(ROUND_HALF_EVEN)
        assert account["spend"] == 30_000 * account["admitted"]
        assert (
            account["admitted"] + account["quota_exhausted"] + account["cost_cap_reached"] == account["calls"]
        )
    sold = pricing["Policy"]().catalogue
    found = pricing["compare"](population, sold, sold, replications=2)
    for plan, paid in revenue.items():
        on = plans.count(plan)
        assert abs(found.row("revenue", plan)["a"] - int(paid)) <= 2 * on  # plan and add-on, each rounded
    assert found.row("revenue")["a"] == sum(found.row("revenue", plan)["a"] for plan in PRICES)


def test_billing_months(page: Page) -> None:
    """A month ends at the hour it began, on that day or on the last day of a month that has no such day."""
    rs = page("docs/fleet.md")["rs"]
    result = rs.simulate_fleet(rs.Population.parse(COMING_AND_GOING.replace("accounts: 60", "accounts: 400")))
    clipped = 0
    for account in result.accounts:
        months = [row for row in result.by_month if row["account"] == account["account"]]
        assert months[0]["begins"] == account["joins"]
        assert months[-1]["ends"] == account["leaves"]
        assert sum(row["spend"] for row in months) == account["spend"]
        assert max(row["spend"] for row in months) == account["spend_peak"]
        ends = [instant(row["ends"]) for row in months[:-1]]
        assert all(a["ends"] == b["begins"] for a, b in pairwise(months))
        anchor = instant(account["joins"])
        if anchor > datetime(2028, 1, 20, tzinfo=UTC):  # who joined: months from then on
            assert ends == [anchor + relativedelta(months=n) for n in range(1, len(ends) + 1)]
        elif ends:  # who was there: some day of the month, seen in the longest
            day = max(end.day for end in ends)
            assert [end.day for end in ends] == [min(day, monthrange(end.year, end.month)[1]) for end in ends]
            assert len({end.timetz() for end in ends}) == 1
            assert [(end.year, end.month) for end in ends] == [
                ((ends[0] + relativedelta(months=n)).year, (ends[0] + relativedelta(months=n)).month)
                for n in range(len(ends))
            ]
        clipped += len({end.day for end in ends}) > 1
    assert clipped > 10  # or nobody's month ended on 29 February for want of a 31st
