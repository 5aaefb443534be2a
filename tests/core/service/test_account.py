"""What a key reads of its account: account, entitlements, usage, briefs."""

from typing import Any

import pytest

from ranksim.core.clock import DAY
from ranksim.core.contract.policy import CATALOGUES, shipped_catalogue


@pytest.mark.fact("U109", "S17", "U51")
def test_the_account(desk: Any) -> None:
    account = desk.get("account.get")
    assert account == {
        "id": desk.account,
        "name": "desk",
        "plan": "desk",
        "status": "active",
        "billing_anchor": "2026-03-04T10:00:00Z",
        "period_start": "2026-03-04T10:00:00Z",
        "period_end": "2026-04-04T10:00:00Z",
    }
    desk.wait(31 * DAY)
    account = desk.get("account.get")
    assert (account["period_start"], account["period_end"]) == (
        "2026-04-04T10:00:00Z",
        "2026-05-04T10:00:00Z",
    )


@pytest.mark.fact("U109", "U60")
def test_the_entitlements(desk: Any) -> None:
    assert desk.get("account.entitlements") == {
        "capabilities": [
            "rank_tracking",
            "site_crawl",
            "site_optimization",
            "ai_visibility",
            "keyword_briefs",
        ],
        "dimensions": {"engine_devices": 4, "geographies": 3},
        "slot_limit": 20,
        "page_cap": 10,
        "call_cap": 10,
        "cooldown_seconds": {"rank_run": 3600, "crawl": 86_400, "site_optimization": 86_400, "ai_scan": 0},
    }


@pytest.mark.fact("S38", "U109", "U96", "S101", "U55")
def test_usage_lists_every_metered_allowance_and_the_cost(open_desk: Any) -> None:
    desk = open_desk(pooled=["crawl"])
    desk.must(desk.briefs("a", "b"))
    desk.must(desk.job("crawl"))
    assert desk.get("account.usage") == {
        "metrics": [
            {
                "metric": "research_lookups",
                "used": 0,
                "limit": 100,
                "remaining": 100,
                "period": "month",
                "resets_at": "2026-04-04T10:00:00Z",
            },
            {
                "metric": "keyword_brief_refreshes",
                "used": 2,
                "limit": 10,
                "remaining": 8,
                "period": "week",
                "resets_at": "2026-03-09T00:00:00Z",
            },
        ],
        "cost": {
            "settled": "1.00",
            "reserved": "1.00",
            "spent": "2.00",
            "ceiling": "10.00",
            "currency": "USD",
            "resets_at": "2026-04-04T10:00:00Z",
        },
    }


@pytest.mark.fact("S101", "S108", "S110", "U55")
@pytest.mark.parametrize("name", CATALOGUES)
def test_briefs_are_weekly_and_every_other_allowance_monthly(name: str) -> None:
    for plan in shipped_catalogue(name).plans.values():
        assert "research_lookups" in plan.quotas
        for metric, quota in plan.quotas.items():
            assert quota.period == ("week" if metric == "keyword_brief_refreshes" else "month")


@pytest.mark.parametrize(
    ("amount", "text"),
    [("0.000001 USD", "0.000001"), ("0.1 USD", "0.10"), ("7 USD", "7.00"), ("1234.5678 USD", "1234.5678")],
)
def test_money_is_shown_exactly(open_desk: Any, amount: str, text: str) -> None:
    assert open_desk({"cost_ceiling": amount}).get("account.usage")["cost"]["ceiling"] == text


@pytest.mark.fact("U15", "U97", "S70")
def test_a_scoped_key_reads_nothing_of_the_account_and_spends_on_its_domain(desk: Any) -> None:
    other = desk.new_domain("other.example")
    scoped = desk.token("scoped", desk.domain)
    for operation in ("account.get", "account.usage", "account.entitlements", "slots.get"):
        reply = desk.call(operation, key=scoped)
        assert (reply.status, reply.code) == (403, "forbidden")
    assert desk.call("domains.create", {"host": "new.example"}, key=scoped).code == "forbidden"
    assert desk.job("crawl", key=scoped).status == 202
    assert desk.briefs("a", key=scoped).status == 201
    assert desk.keywords("a", key=scoped).status == 201
    assert desk.scan(key=scoped).status == 201
    for reply in (
        desk.job("crawl", domain=other, key=scoped),
        desk.briefs("a", domain=other, key=scoped),
        desk.keywords("a", list_id=desk.new_list(other), key=scoped),
        desk.scan(domain=other, key=scoped),
    ):
        assert (reply.status, reply.code) == (404, "not_found")
    elsewhere = desk.must(desk.keywords("b", list_id=desk.new_list(other)))["created"][0]["id"]
    assert desk.call("keyword_briefs.create", {"keyword_id": elsewhere}, key=scoped).status == 404


@pytest.mark.fact("S36", "U99", "S70", "U110")
def test_reading_briefs_touches_no_allowance_and_counts_as_a_read(desk: Any) -> None:
    other = desk.new_domain("other.example")
    desk.must(desk.briefs(*"abcdefgh"))
    desk.must(desk.briefs("i", "j", domain=other))
    before = desk.picture()
    reply = desk.call("keyword_briefs.list")
    assert desk.picture() == before
    assert [brief["keyword"] for brief in desk.must(reply)] == list("abcdefghij")
    assert (reply.headers["RateLimit-Limit"], reply.headers["RateLimit-Remaining"]) == ("600", "599")
    assert [brief["keyword"] for brief in desk.get("keyword_briefs.list", query={"domain_id": other})] == [
        "i",
        "j",
    ]
    scoped = desk.token("scoped", other)
    assert {brief["domain_id"] for brief in desk.get("keyword_briefs.list", key=scoped)} == {other}
    desk.wait(60 * DAY)
    assert len(desk.get("keyword_briefs.list")) == 10
