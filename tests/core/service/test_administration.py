"""What the API does not offer: opening accounts, keys, plans, add-ons, health."""

from typing import Any

import pytest

from ranksim.core.clock import HOUR, MINUTE, WEEK, instant
from ranksim.core.contract.policy import CATALOGUES, shipped_catalogue
from ranksim.core.errors import BadInput
from ranksim.core.money import money
from ranksim.core.service.service import Service

SECOND_PLAN: dict[str, Any] = {
    "price": "0 USD",
    "capabilities": ("rank_tracking",),
    "quotas": {"research_lookups": {"limit": 7, "period": "month"}},
    "slot_limit": 1,
    "dimensions": {"max_engine_devices": 1, "max_geographies": 1},
    "cost_ceiling": "1 USD",
    "cooldowns": {"crawl": "2h"},
    "page_cap": 5,
    "call_cap": 5,
}


def catalogue(**plan: Any) -> dict[str, Any]:
    return {"plans": {"other": SECOND_PLAN | plan}}


def said(*replies: Any) -> list[Any]:
    return [reply.code or reply.status for reply in replies]


# Opening


def test_a_new_account_has_used_nothing(desk: Any) -> None:
    assert desk.usage()["used"] == desk.usage("research_lookups")["used"] == 0
    assert desk.cost() == ("0.00", "0.00", "0.00")
    assert desk.slots()["used"] == 0


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"plan": "gold"}, "plan: expected one of .*pro.*, found 'gold'"),
        ({"status": "late"}, "account status: expected one of active, .*, found 'late'"),
        ({"environment": "test"}, "environment: expected one of production, sandbox, found 'test'"),
        ({"add_ons": {"gold_pack": 1}}, "add-on: expected one of .*brief_pack.*, found 'gold_pack'"),
        ({"add_ons": {"brief_pack": -1}}, "add-on brief_pack: expected a count of 0 or more, found -1"),
    ],
)
def test_a_bad_name_opens_nothing(how: dict[str, Any], expected: str) -> None:
    service = Service()
    before = service.save()
    with pytest.raises(BadInput, match=expected):
        service.open_account("a", **{"plan": "pro", "now": 0, **how})
    assert service.save() == before


def test_a_bad_name_changes_nothing(desk: Any) -> None:
    before = desk.service.save()
    for change, wrong in (
        (desk.change_plan, ("gold",)),
        (desk.set_status, ("late",)),
        (desk.set_add_on, ("gold_pack", 1)),
        (desk.set_add_on, ("brief_pack", -1)),
    ):
        with pytest.raises(BadInput):
            change(*wrong)
    with pytest.raises(BadInput, match="there is none with the id 'acc_9'"):
        desk.service.change_plan("acc_9", "pro", desk.now)
    with pytest.raises(BadInput, match="account 'desk' has no domain 'dom_9'"):
        desk.token("k", domain="dom_9")
    assert desk.service.save() == before


# Keys


@pytest.mark.fact("S1", "S3")
@pytest.mark.parametrize(("environment", "prefix"), [("production", "rk_live_"), ("sandbox", "rk_test_")])
def test_a_key_is_of_its_accounts_environment(open_desk: Any, environment: str, prefix: str) -> None:
    desk = open_desk(environment=environment)
    assert desk.key.startswith(prefix)
    other = "sandbox" if environment == "production" else "production"
    assert desk.call("account.get").status == 200
    assert desk.call("account.get", environment=other).code == "unauthorized"


def test_keys_differ_and_one_withdrawn_is_unknown(desk: Any) -> None:
    tokens = {desk.key, desk.token("first"), desk.token("second")}
    assert len(tokens) == 3
    desk.service.withdraw_key(desk.key, desk.now)
    assert said(*(desk.call("account.get", key=token) for token in sorted(tokens - {desk.key}))) == [200, 200]
    assert desk.call("account.get").code == "unauthorized"


# Health


@pytest.mark.fact("U57", "S61")
@pytest.mark.parametrize(
    ("status", "spends", "spends_if_only_canceled_is_inactive"),
    [
        ("active", 202, 202),
        ("trialing", 202, 202),
        ("past_due", "subscription_inactive", 202),
        ("unpaid", "subscription_inactive", 202),
        ("canceled", "subscription_inactive", "subscription_inactive"),
    ],
)
def test_which_statuses_can_spend(
    open_desk: Any, status: str, spends: Any, spends_if_only_canceled_is_inactive: Any
) -> None:
    canceled = {"inactive_statuses": ["canceled"]}
    for assumptions, expected in (({}, spends), (canceled, spends_if_only_canceled_is_inactive)):
        desk = open_desk(assumptions=assumptions)
        desk.set_status(status)
        assert said(desk.job("crawl")) == [expected]
        assert desk.get("account.get")["status"] == status
        desk.set_status("active")
        assert said(desk.job("ai_scan")) == [202]


# Add-ons


@pytest.mark.fact("S109", "U54")
def test_add_ons_stack_and_count_at_once(desk: Any) -> None:
    desk.must(desk.briefs(*(f"word {number}" for number in range(10))))
    assert said(desk.briefs("a")) == ["quota_exhausted"]
    for count, limit in ((1, 60), (2, 110), (0, 10), (3, 160)):
        desk.set_add_on("brief_pack", count)
        assert (desk.usage()["used"], desk.usage()["limit"]) == (10, limit)
        assert desk.usage()["remaining"] == limit - 10
    assert said(desk.briefs("a")) == [201]
    desk.set_add_on("brief_pack", 0)
    assert (desk.usage()["used"], desk.usage()["remaining"]) == (11, 0)
    desk.at(instant("2026-03-09T00:00:00Z"))
    assert desk.usage()["remaining"] == 10
    assert desk.usage("research_lookups")["limit"] == 100


def test_an_add_on_adds_to_its_own_metric(open_desk: Any) -> None:
    pack = {"metric": "research_lookups", "amount": 7, "price": "1 USD"}
    desk = open_desk(catalogue={"add_ons": {"lookup_pack": pack}})
    desk.set_add_on("lookup_pack", 2)
    desk.set_add_on("brief_pack", 1)
    assert (desk.usage("research_lookups")["limit"], desk.usage()["limit"]) == (114, 60)


@pytest.mark.fact("S109")
@pytest.mark.parametrize("name", CATALOGUES)
def test_the_add_on_for_briefs_is_fifty_for_fifteen_dollars(name: str) -> None:
    add_on = shipped_catalogue(name).add_ons["brief_pack"]
    assert (add_on.amount, add_on.price) == (50, money("15 USD"))
    weekly = [plan.quotas.get(add_on.metric) for plan in shipped_catalogue(name).plans.values()]
    assert {quota.period for quota in weekly if quota} == {"week"}


def test_an_account_opens_with_its_add_ons() -> None:
    service = Service()
    account = service.open_account("a", "pro", 0, add_ons={"brief_pack": 2})
    assert service.state.accounts[account].meters["keyword_brief_refreshes"].limit == 150


# Plans


def test_a_change_of_plan_counts_at_once_and_keeps_what_is_used(open_desk: Any) -> None:
    desk = open_desk(catalogue=catalogue(), words=["a", "b"], scan=True)
    desk.must(desk.job("crawl"))
    desk.must(desk.briefs("a"))
    desk.wait(90 * MINUTE)
    desk.change_plan("other")
    assert desk.get("account.get")["plan"] == "other"
    assert desk.cost() == ("1.50", "0.00", "1.50")
    shown = desk.slots()
    assert (shown["used"], shown["limit"], shown["available"]) == (2, 1, 0)
    assert [metric["metric"] for metric in desk.get("account.usage")["metrics"]] == ["research_lookups"]
    assert desk.usage("research_lookups")["limit"] == 7
    entitled = desk.get("account.entitlements")
    assert (entitled["capabilities"], entitled["slot_limit"]) == (["rank_tracking"], 1)
    assert said(desk.job("crawl"), desk.keywords("c")) == ["entitlement_required", "cost_cap_reached"]
    # More than the plan allows may go on being tracked; only nothing is added.
    assert said(desk.call("scans.update", {"name": "n"}, id=desk.get("scans.list")[0]["id"])) == [200]


@pytest.mark.fact("S63")
def test_changing_plans_to_and_fro_gives_no_fresh_allowance(open_desk: Any) -> None:
    desk = open_desk(catalogue=catalogue())
    desk.must(desk.briefs(*"abcdefghij"))
    desk.change_plan("other")
    desk.set_add_on("brief_pack", 1)
    desk.set_add_on("brief_pack", 0)
    desk.change_plan("desk")
    assert desk.usage()["used"] == 10
    assert said(desk.briefs("a")) == ["quota_exhausted"]
    desk.wait(WEEK)
    assert said(desk.briefs("a")) == [201]


@pytest.mark.fact("S38")
def test_an_allowance_that_becomes_monthly_resets_when_it_says(open_desk: Any) -> None:
    monthly = {"limit": 20, "period": "month", "consumed_by": ("keyword_briefs",)}
    plan = {"quotas": {"keyword_brief_refreshes": monthly}, "capabilities": ("keyword_briefs",)}
    desk = open_desk(catalogue=catalogue(**plan, cost_ceiling="99 USD"))
    desk.must(desk.briefs(*"abcdefghij"))
    desk.change_plan("other")
    told = desk.usage()
    assert (told["used"], told["limit"], told["period"]) == (10, 20, "month")
    assert told["resets_at"] == "2026-04-04T10:00:00Z"
    desk.at(instant(told["resets_at"]) - 1)
    assert desk.usage()["used"] == 10
    desk.wait(1)
    assert desk.usage()["used"] == 0
    desk.must(desk.briefs("a"))
    desk.change_plan("desk")
    assert (desk.usage()["used"], desk.usage()["resets_at"]) == (1, "2026-04-06T00:00:00Z")


def test_a_running_cooldown_takes_the_length_of_the_new_plan(open_desk: Any) -> None:
    desk = open_desk(catalogue=catalogue(capabilities=("site_crawl",), cost_ceiling="99 USD"))
    desk.must(desk.job("crawl"))
    desk.wait(2 * HOUR)
    assert said(desk.job("crawl")) == ["cooldown_active"]
    desk.change_plan("other")
    assert said(desk.job("crawl")) == [202]


@pytest.mark.fact("U46", "S65")
@pytest.mark.parametrize("start", ["acceptance", "finish"])
def test_a_run_on_a_plan_without_cooldown_counts_for_the_next_plan(open_desk: Any, start: str) -> None:
    desk = open_desk(
        {"cooldowns": {}},
        pooled=["crawl"],
        assumptions={"cooldown_from": start},
        catalogue=catalogue(capabilities=("site_crawl",), cost_ceiling="99 USD"),
    )
    desk.ended(desk.job("crawl"))
    desk.change_plan("other")
    desk.wait(2 * HOUR - 1)
    assert said(desk.job("crawl")) == ["cooldown_active"]
    desk.wait(1)
    desk.ended(desk.job("crawl"))
    desk.change_plan("desk")
    desk.wait(HOUR)
    desk.ended(desk.job("crawl"))
    desk.change_plan("other")
    desk.wait(HOUR)
    assert said(desk.job("crawl")) == ["cooldown_active"]


@pytest.mark.fact("U91")
def test_a_cooldown_remembers_the_last_run_that_was_done_through_changes_of_plan(open_desk: Any) -> None:
    desk = open_desk(
        pooled=["crawl"], catalogue=catalogue(capabilities=("site_crawl",), cost_ceiling="99 USD")
    )
    desk.ended(desk.job("crawl"))
    desk.wait(2 * HOUR)
    desk.change_plan("other")
    desk.ended(desk.job("crawl"), "failed")
    assert said(desk.job("crawl", dry_run=True)) == [200]
    desk.change_plan("desk")
    assert said(desk.job("crawl")) == ["cooldown_active"]


@pytest.mark.fact("U51", "U102")
@pytest.mark.parametrize(
    ("month", "anchor"), [("anchor", "2026-02-10T13:00:00Z"), ("calendar", "1970-01-01T00:00:00Z")]
)
def test_the_billing_anchor(open_desk: Any, month: str, anchor: str) -> None:
    desk = open_desk(assumptions={"month": month}, anchor=instant("2026-02-10T13:00:00Z"))
    assert desk.get("account.get")["billing_anchor"] == anchor


@pytest.mark.fact("S2")
def test_the_sandbox_has_the_same_rules(open_desk: Any) -> None:
    def story(environment: str) -> list[Any]:
        desk = open_desk({"slot_limit": 2}, environment=environment, words=["a"], scan=True)
        replies = [desk.keywords("b"), desk.keywords("c"), desk.job("crawl"), desk.job("crawl")]
        replies += [desk.briefs(*"abcdefghij"), desk.briefs("k"), desk.call("account.usage")]
        return [(reply.status, reply.code, reply.body) for reply in replies]

    assert story("sandbox") == story("production")
