"""What the specification leaves open about spending: one script under each option of an assumption."""

from typing import Any

import pytest

from ranksim.core.clock import HOUR, MINUTE, instant
from ranksim.core.contract.facts import SPENDING_OPERATIONS
from ranksim.core.service.calls import Reply

SUNDAY = instant("2026-03-08T23:59:59Z")
MONDAY = instant("2026-03-09T00:00:00Z")
MONTH_ENDS = instant("2026-04-04T10:00:00Z")

JOBS = ("rank_run", "crawl", "site_optimization", "ai_scan")


def said(*replies: Reply) -> list[str | int]:
    """What each reply says: its error code, or its status."""
    return [reply.code or reply.status for reply in replies]


def meta(reply: Reply) -> Any:
    assert reply.body is not None
    return reply.body["meta"]


@pytest.mark.fact("U45", "S52", "E8")
@pytest.mark.parametrize(
    ("join", "again", "at_ceiling", "past_due", "without_cooldown"),
    [
        ("after_health", "joined", "joined", "subscription_inactive", "joined"),
        ("before_checks", "joined", "joined", "joined", "joined"),
        ("after_checks", "cooldown_active", "cost_cap_reached", "subscription_inactive", "joined"),
        ("never", "cooldown_active", "cost_cap_reached", "subscription_inactive", "granted"),
    ],
)
def test_where_a_running_rank_run_is_joined(
    open_desk: Any, join: str, again: str, at_ceiling: str, past_due: str, without_cooldown: str
) -> None:
    def outcome(reply: Reply) -> str:
        return reply.code or reply.outcome

    desk = open_desk(assumptions={"join": join}, words=["a"], scan=True)
    desk.must(desk.job())
    assert outcome(desk.job()) == again
    for kind in ("crawl", "site_optimization", "ai_scan", "ai_scan", "ai_scan"):
        desk.must(desk.job(kind))
    assert outcome(desk.job()) == at_ceiling
    desk.set_status("past_due")
    assert outcome(desk.job()) == past_due
    desk = open_desk({"cooldowns": {}}, assumptions={"join": join}, words=["a"], scan=True)
    desk.must(desk.job())
    assert outcome(desk.job()) == without_cooldown


@pytest.mark.fact("U46")
@pytest.mark.parametrize(("scope", "other"), [("domain", 202), ("account", "cooldown_active")])
def test_what_a_cooldown_covers(open_desk: Any, scope: str, other: Any) -> None:
    desk = open_desk(assumptions={"cooldown_scope": scope})
    second = desk.new_domain("other.example")
    desk.must(desk.job("crawl"))
    assert said(desk.job("crawl"), desk.job("crawl", domain=second)) == ["cooldown_active", other]
    assert desk.job("site_optimization", domain=second).status == 202


@pytest.mark.fact("U46", "E10")
@pytest.mark.parametrize(
    ("start", "mid_run", "after_70_minutes", "after_80_minutes"),
    [("acceptance", "cooldown_active", 202, "cooldown_active"), ("finish", 202, "cooldown_active", 202)],
)
def test_where_a_cooldown_begins(
    open_desk: Any, start: str, mid_run: Any, after_70_minutes: Any, after_80_minutes: Any
) -> None:
    """A crawl takes 20 minutes and cools down for an hour."""
    desk = open_desk({"cooldowns": {"crawl": "1h"}}, assumptions={"cooldown_from": start})
    desk.must(desk.job("crawl"))
    assert said(desk.job("crawl")) == [mid_run]
    desk.wait(70 * MINUTE)
    assert said(desk.job("crawl")) == [after_70_minutes]
    desk.wait(10 * MINUTE)
    assert said(desk.job("crawl")) == [after_80_minutes]


@pytest.mark.fact("U46", "U106")
@pytest.mark.parametrize("start", ["acceptance", "finish"])
@pytest.mark.parametrize("spend", ["keyword_briefs", "keywords", "scans"])
def test_what_is_no_job_cools_down_from_its_acceptance(open_desk: Any, start: str, spend: str) -> None:
    desk = open_desk({"cooldowns": {spend: "1h"}}, assumptions={"cooldown_from": start})
    assert said(desk.spend(spend), desk.spend(spend)) == [201, "cooldown_active"]
    desk.wait(HOUR)
    assert said(desk.spend(spend)) == [201]


@pytest.mark.fact("U46", "U106")
def test_briefs_of_several_domains_mind_the_cooldown_of_each(open_desk: Any) -> None:
    desk = open_desk({"cooldowns": {"keyword_briefs": "1h"}})
    second = desk.new_domain("second.example")
    words = {
        domain: desk.must(desk.keywords("word", list_id=desk.new_list(domain)))["created"][0]["id"]
        for domain in (desk.domain, second)
    }

    def both(*domains: str, **call: Any) -> Any:
        return desk.call("keyword_briefs.create", {"keyword_ids": [words[one] for one in domains]}, **call)

    desk.must(desk.briefs("word", domain=second))
    desk.wait(20 * MINUTE)
    assert said(both(desk.domain, second), both(second, desk.domain)) == ["cooldown_active"] * 2
    assert both(desk.domain, second).body["meta"]["retry_after"] == 40 * 60
    assert said(desk.briefs("word")) == [201]
    assert both(second, desk.domain).body["meta"]["retry_after"] == 60 * 60
    desk.wait(HOUR)
    assert said(both(desk.domain, second)) == [201]
    assert said(desk.briefs("word"), desk.briefs("word", domain=second)) == ["cooldown_active"] * 2


@pytest.mark.fact("U46", "E50")
@pytest.mark.parametrize(("arms", "next_"), [(False, 202), (True, "cooldown_active")])
@pytest.mark.parametrize("start", ["acceptance", "finish"])
def test_whether_a_failed_run_arms_the_cooldown(open_desk: Any, arms: bool, next_: Any, start: str) -> None:
    assumptions = {"failed_run_arms": arms, "cooldown_from": start}
    desk = open_desk(assumptions=assumptions, pooled=["crawl"])
    crawl = desk.job("crawl")
    desk.wait(MINUTE)
    desk.ended(crawl, "failed")
    assert said(desk.job("crawl")) == [next_]


@pytest.mark.fact("U91")
@pytest.mark.parametrize(("option", "next_"), [("previous", "cooldown_active"), ("clear", 202)])
def test_the_cooldown_after_an_older_run_failed(open_desk: Any, option: str, next_: Any) -> None:
    """Two crawls overlap; the first fails, and the second's acceptance counts or does not."""
    desk = open_desk(
        {"cooldowns": {"crawl": "1h"}}, assumptions={"cooldown_after_failure": option}, pooled=["crawl"]
    )
    first = desk.job("crawl")
    desk.wait(HOUR)
    second = desk.job("crawl")
    desk.must(second)
    desk.wait(MINUTE)
    desk.ended(first, "failed")
    assert said(desk.job("crawl")) == [next_]


@pytest.mark.fact("U91", "E50")
def test_the_cooldown_after_the_newer_run_failed_is_that_of_the_older(open_desk: Any) -> None:
    desk = open_desk({"cooldowns": {"crawl": "1h"}}, pooled=["crawl"])
    first = desk.job("crawl")
    desk.wait(HOUR)
    second = desk.job("crawl")
    desk.wait(MINUTE)
    desk.ended(first)
    assert said(desk.job("crawl")) == ["cooldown_active"]
    desk.ended(second, "failed")
    assert said(desk.job("crawl")) == [202]


@pytest.mark.fact("U48")
@pytest.mark.parametrize(
    ("gate", "outcomes"),
    [
        ("at_ceiling", [202, 202, "cost_cap_reached", "cost_cap_reached"]),
        ("would_exceed", [202, "cost_cap_reached", 202, "cost_cap_reached"]),
    ],
)
def test_when_the_ceiling_refuses(open_desk: Any, gate: str, outcomes: list[Any]) -> None:
    """AI scans at 3 USD, a crawl at 1 USD and a brief at 0.50 USD under a ceiling of 4 USD."""
    desk = open_desk({"cost_ceiling": "4 USD"}, assumptions={"cost_gate": gate})
    replies = [desk.job("ai_scan"), desk.job("ai_scan"), desk.job("crawl"), desk.briefs("a")]
    assert said(*replies) == outcomes


@pytest.mark.fact("U49", "U96", "E16")
@pytest.mark.parametrize(
    ("timing", "accepted", "done", "failed"),
    [
        ("reserve", ("0.00", "1.00", "1.00"), ("0.75", "0.00", "0.75"), ("0.00", "0.00", "0.00")),
        ("acceptance", ("1.00", "0.00", "1.00"), ("1.00", "0.00", "1.00"), ("1.00", "0.00", "1.00")),
        ("completion", ("0.00", "0.00", "0.00"), ("0.75", "0.00", "0.75"), ("0.00", "0.00", "0.00")),
    ],
)
def test_when_cost_is_booked(
    open_desk: Any, timing: str, accepted: tuple[str], done: tuple[str], failed: tuple[str]
) -> None:
    for outcome, expected in (("done", done), ("failed", failed)):
        desk = open_desk(assumptions={"cost_timing": timing}, pooled=["crawl"])
        crawl = desk.job("crawl")
        assert desk.cost() == accepted
        desk.wait(HOUR)
        desk.ended(crawl, outcome, cost=750_000 if outcome == "done" else None)
        assert desk.cost() == expected
        # Work of last month leaves this month alone.
        desk = open_desk(assumptions={"cost_timing": timing}, pooled=["crawl"])
        desk.at(MONTH_ENDS - 1)
        crawl = desk.job("crawl")
        desk.wait(1)
        assert desk.cost() == ("0.00", "0.00", "0.00")
        desk.must(desk.briefs("a"))
        desk.ended(crawl, outcome)
        assert desk.cost() == ("0.50", "0.00", "0.50")


@pytest.mark.fact("U96", "S99")
@pytest.mark.parametrize(
    ("option", "spent", "next_"),
    [("settled_and_reserved", "3.50", "cost_cap_reached"), ("settled", "0.50", 202)],
)
def test_what_counts_as_spent(open_desk: Any, option: str, spent: str, next_: Any) -> None:
    desk = open_desk({"cost_ceiling": "3 USD"}, assumptions={"spent_counts": option})
    desk.must(desk.briefs("a"))
    desk.must(desk.job("ai_scan"))
    assert desk.cost() == ("0.50", "3.00", spent)
    assert said(desk.job("crawl")) == [next_]
    desk.wait(HOUR)
    assert said(desk.briefs("b")) == ["cost_cap_reached"]


@pytest.mark.fact("U101", "U49")
@pytest.mark.parametrize("timing", ["reserve", "acceptance", "completion"])
def test_a_brief_settles_at_acceptance_whenever_jobs_do(open_desk: Any, timing: str) -> None:
    desk = open_desk(assumptions={"cost_timing": timing})
    desk.must(desk.briefs("a", "b", "c"))
    assert desk.cost() == ("1.50", "0.00", "1.50")


@pytest.mark.fact("U50")
@pytest.mark.parametrize(
    ("grant", "outcomes", "used", "settled"),
    [
        ("all_or_nothing", [8, "quota_exhausted", 1, 1, "quota_exhausted"], 10, "5.00"),
        ("partial", [8, 2, *["quota_exhausted"] * 3], 10, "5.00"),
    ],
)
def test_a_request_for_more_than_is_left(
    open_desk: Any, grant: str, outcomes: list[Any], used: int, settled: str
) -> None:
    desk = open_desk(assumptions={"quota_grant": grant})
    replies = [desk.briefs(*words) for words in ("abcdefgh", "ijklm", "n", "o", "p")]
    assert [reply.code or len(reply.body["data"]["briefs"]) for reply in replies] == outcomes
    assert (desk.usage()["used"], desk.cost()[0]) == (used, settled)


@pytest.mark.fact("U50", "U106")
@pytest.mark.parametrize(
    ("grant", "created"), [("all_or_nothing", "quota_exhausted"), ("partial", ["a", "b", "c"])]
)
def test_a_part_of_the_keywords_is_added_where_parts_are_granted(
    open_desk: Any, grant: str, created: Any
) -> None:
    quotas = {"words": {"limit": 3, "period": "month", "consumed_by": ("keywords",)}}
    desk = open_desk({"quotas": quotas}, assumptions={"quota_grant": grant})
    desk.must(desk.scan())
    reply = desk.keywords(*"abcde")
    assert (reply.code or [word["keyword"] for word in reply.body["data"]["created"]]) == created
    added = 0 if reply.code else 3
    assert (desk.usage("words")["used"], desk.slots()["active"]) == (added, added)


@pytest.mark.fact("U50", "U106")
@pytest.mark.parametrize(
    ("refund", "next_", "used"), [("never", "quota_exhausted", 1), ("on_failure", 202, 1)]
)
def test_the_quota_of_failed_work(open_desk: Any, refund: str, next_: Any, used: int) -> None:
    quotas = {"scans": {"limit": 1, "period": "month", "consumed_by": ("ai_scan",)}}
    desk = open_desk({"quotas": quotas}, assumptions={"quota_refund": refund}, pooled=["ai_scan"])
    first = desk.job("ai_scan")
    assert said(desk.job("ai_scan")) == ["quota_exhausted"]
    desk.ended(first, "failed")
    assert desk.usage("scans")["used"] == (1 if refund == "never" else 0)
    again = desk.job("ai_scan")
    assert said(again) == [next_]
    if not again.code:
        desk.ended(again)
    assert desk.usage("scans")["used"] == 1


@pytest.mark.fact("U51", "S110", "E20", "U102")
@pytest.mark.parametrize(
    ("month", "resets"),
    [
        (
            "anchor",
            ["2026-01-31T09:30:00Z", "2026-02-28T09:30:00Z", "2026-03-31T09:30:00Z", "2026-04-30T09:30:00Z"],
        ),
        (
            "calendar",
            ["2026-02-01T00:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"],
        ),
    ],
)
def test_where_a_billing_month_ends(open_desk: Any, month: str, resets: list[str]) -> None:
    opened, anchor = instant("2026-01-31T09:00:00Z"), instant("2025-12-31T09:30:00Z")
    desk = open_desk(assumptions={"month": month}, now=opened, anchor=anchor)
    seen = []
    for now in (
        "2026-01-31T09:29:59Z",
        "2026-01-31T09:30:00Z",
        "2026-02-28T09:30:00Z",
        "2026-03-31T09:30:00Z",
    ):
        desk.at(instant(now))
        seen.append(desk.slots()["resets_at"])
        assert desk.usage("research_lookups")["resets_at"] == seen[-1]
        assert desk.get("account.get")["period_end"] == seen[-1]
    assert seen == resets


@pytest.mark.fact("U52", "S108")
@pytest.mark.parametrize(
    ("offset", "resets_at"),
    [("0s", "2026-03-09T00:00:00Z"), ("-1h", "2026-03-08T23:00:00Z"), ("9h", "2026-03-09T09:00:00Z")],
)
def test_when_monday_begins(open_desk: Any, offset: str, resets_at: str) -> None:
    desk = open_desk(assumptions={"week_offset": offset})
    desk.must(desk.briefs(*"abcdefghij"))
    assert desk.usage()["resets_at"] == resets_at
    desk.at(instant(resets_at) - 1)
    assert said(desk.briefs("a")) == ["quota_exhausted"]
    desk.wait(1)
    assert said(desk.briefs("a")) == [201]
    assert desk.usage()["used"] == 1


@pytest.mark.fact("E21", "S38", "S108", "S110")
def test_weekly_and_monthly_allowances_reset_apart(open_desk: Any) -> None:
    quotas = {
        "research_lookups": {"limit": 10, "period": "month", "consumed_by": ("ai_scan",)},
        "keyword_brief_refreshes": {"limit": 10, "period": "week", "consumed_by": ("keyword_briefs",)},
    }
    desk = open_desk({"quotas": quotas})
    desk.must(desk.briefs("a"))
    desk.must(desk.job("ai_scan"))

    def shown() -> dict[str, tuple[int, str]]:
        metrics = desk.get("account.usage")["metrics"]
        return {metric["metric"]: (metric["used"], metric["resets_at"]) for metric in metrics}

    monthly = (1, "2026-04-04T10:00:00Z")
    desk.at(SUNDAY)
    assert shown() == {
        "research_lookups": monthly,
        "keyword_brief_refreshes": (1, "2026-03-09T00:00:00Z"),
    }
    desk.at(MONDAY)
    assert shown() == {
        "research_lookups": monthly,
        "keyword_brief_refreshes": (0, "2026-03-16T00:00:00Z"),
    }
    desk.at(MONTH_ENDS)
    assert shown() == {
        "research_lookups": (0, "2026-05-04T10:00:00Z"),
        "keyword_brief_refreshes": (0, "2026-04-06T00:00:00Z"),
    }


@pytest.mark.fact("U53")
@pytest.mark.parametrize("code", ["quota_exhausted", "allowance_exhausted"])
def test_the_code_of_a_week_used_up(open_desk: Any, code: str) -> None:
    quotas = {
        "briefs": {"limit": 0, "period": "week", "consumed_by": ("keyword_briefs",)},
        "scans": {"limit": 0, "period": "month", "consumed_by": ("ai_scan",)},
    }
    desk = open_desk({"quotas": quotas}, assumptions={"weekly_exhaustion_code": code})
    weekly, monthly = desk.briefs("a"), desk.job("ai_scan")
    assert (weekly.code, weekly.status, weekly.check) == (code, 402, 4)
    assert (monthly.code, monthly.status) == ("quota_exhausted", 402)
    assert desk.must(desk.briefs("a", dry_run=True))["refusal"]["code"] == code


@pytest.mark.fact("U58", "U90", "S56", "S57", "S58", "S62")
@pytest.mark.parametrize(
    ("assumptions", "at_ceiling", "without_capabilities"),
    [
        pytest.param({}, ["cost_cap_reached"] * 7, ["entitlement_required"] * 7, id="all six always"),
        pytest.param(
            {"ceiling_stops_tracking": False},
            [*["cost_cap_reached"] * 5, 201, 201],
            ["entitlement_required"] * 7,
            id="the ceiling does not stop tracking",
        ),
        pytest.param(
            {"checks_apply": "table"},
            [*["cost_cap_reached"] * 4, 201, 201, 201],
            [202, 202, "entitlement_required", "entitlement_required", 201, 201, 201],
            id="by the table",
        ),
    ],
)
def test_which_checks_apply(
    open_desk: Any, assumptions: Any, at_ceiling: list[Any], without_capabilities: list[Any]
) -> None:
    desk = open_desk({"cost_ceiling": "0 USD"}, assumptions=assumptions)
    assert said(*(desk.spend(spend) for spend in SPENDING_OPERATIONS)) == at_ceiling
    desk = open_desk({"capabilities": ()}, assumptions=assumptions)
    assert said(*(desk.spend(spend) for spend in SPENDING_OPERATIONS)) == without_capabilities
    desk.set_status("past_due")
    health = {"subscription_inactive", "entitlement_required"}
    assert set(said(*(desk.spend(spend) for spend in SPENDING_OPERATIONS))) <= health


@pytest.mark.fact("U106")
def test_any_operation_may_consume_a_metric_and_cool_down(open_desk: Any) -> None:
    for spend in SPENDING_OPERATIONS:
        quotas = {"work": {"limit": 2, "period": "month", "consumed_by": (spend,)}}
        desk = open_desk({"quotas": quotas, "cooldowns": {spend: "1h"}})
        outcomes = []
        for _ in range(3):
            for _ in range(2):
                outcomes += said(desk.spend(spend))
                desk.list = desk.new_list()  # where the keyword is new again
            desk.wait(HOUR)
        granted = 202 if spend in JOBS else 201
        mid = 200 if spend == "rank_run" else "cooldown_active"  # a rank run in progress is joined
        late = mid if spend == "rank_run" else "quota_exhausted"
        assert outcomes == [granted, mid, granted, late, *["quota_exhausted"] * 2], spend
        assert desk.usage("work")["used"] == 2


# Slots


@pytest.mark.fact("U62", "S27", "E42")
@pytest.mark.parametrize(
    ("narrowing", "held", "added"), [("held", 4, "slot_limit_exceeded"), ("freed", 0, 201)]
)
def test_what_a_narrower_scan_leaves(open_desk: Any, narrowing: str, held: int, added: Any) -> None:
    desk = open_desk({"slot_limit": 8}, assumptions={"narrowing": narrowing}, words=["a", "b"])
    wide = desk.must(desk.scan(("google/desktop", "google/mobile"), ("DE", "FR")))
    desk.must(desk.call("scans.update", {"geographies": [{"country": "DE"}]}, id=wide["id"]))
    shown = desk.slots()
    assert (shown["active"], shown["held"]) == (4, held)
    assert said(desk.keywords("c")) == [added]
    desk.must(desk.call("scans.update", {"active": False}, id=wide["id"]))
    assert (desk.slots()["active"], desk.slots()["held"]) == (0, 2 * held)


@pytest.mark.fact("U63", "E18", "S26")
@pytest.mark.parametrize(
    ("option", "same", "slots"),
    [("consumes_hold", 201, (2, 0)), ("counts_again", "slot_limit_exceeded", (1, 1))],
)
def test_adding_again_at_the_limit(open_desk: Any, option: str, same: Any, slots: tuple[int, int]) -> None:
    desk = open_desk({"slot_limit": 2}, assumptions={"re_add": option}, words=["a", "b"], scan=True)
    desk.call("keywords.delete", id=desk.get("keywords.list")[1]["id"])
    assert said(desk.keywords("c")) == ["slot_limit_exceeded"]
    assert said(desk.keywords("B")) == [same]
    assert (desk.slots()["active"], desk.slots()["held"]) == slots
    desk.at(MONTH_ENDS - 1)
    assert desk.slots()["held"] == slots[1]
    desk.wait(1)
    assert desk.slots()["held"] == 0


@pytest.mark.fact("U64")
@pytest.mark.parametrize(
    ("option", "outcome", "active"),
    [("refuse_whole", "slot_limit_exceeded", 1), ("partial", ["b", "c"], 3)],
)
def test_more_keywords_than_there_is_room_for(open_desk: Any, option: str, outcome: Any, active: int) -> None:
    desk = open_desk({"slot_limit": 3}, assumptions={"over_slots": option}, words=["a"], scan=True)
    reply = desk.keywords("a", "b", "b", "c", "d")
    assert (reply.code or [word["keyword"] for word in reply.body["data"]["created"]]) == outcome
    assert desk.slots()["active"] == active
    full = desk.keywords("x") if active == 3 else desk.keywords("x", "y", "z")
    assert said(full) == ["slot_limit_exceeded"]
    assert desk.keywords("a", "A").status == 201


@pytest.mark.fact("U95", "E19", "S33")
@pytest.mark.parametrize(
    ("checks", "incapable", "past_due", "beyond", "too_many", "cooling"),
    [
        ("dimensions_slots", 200, 200, "entitlement_required", "slot_limit_exceeded", 200),
        (
            "all",
            "entitlement_required",
            "subscription_inactive",
            "entitlement_required",
            "slot_limit_exceeded",
            "cooldown_active",
        ),
        ("none", 200, 200, 200, 200, 200),
    ],
)
def test_the_checks_of_a_patch_that_widens(
    open_desk: Any, checks: str, incapable: Any, past_due: Any, beyond: Any, too_many: Any, cooling: Any
) -> None:
    def patched(
        status: str = "active", words: int = 1, wait: int = HOUR, plan: str = "desk", **patch: Any
    ) -> Any:
        bare = {**open_desk.PLAN, "capabilities": ()}
        desk = open_desk(
            {"slot_limit": 6, "cooldowns": {"scans": "1h"}},
            assumptions={"patch_checks": checks},
            catalogue={"plans": {"bare": bare}},
            words=[f"word {number}" for number in range(words)],
        )
        scan = desk.must(desk.scan())["id"]
        desk.wait(wait)
        desk.set_status(status)
        desk.change_plan(plan)
        before = desk.picture()
        reply = desk.call("scans.update", patch, id=scan)
        assert (desk.picture() == before) is (reply.status != 200)
        if wait and reply.status == 200 and (status, plan) == ("active", "desk"):
            # Only under all six checks does a PATCH arm a cooldown.
            assert said(desk.scan(active=False)) == ["cooldown_active" if checks == "all" else 201]
        return said(reply)[0]

    wider = {"engine_devices": ["google/desktop", "google/mobile"]}
    places = [{"country": country} for country in ("DE", "FR", "IT", "ES")]
    assert patched(**wider) == 200
    assert patched(plan="bare", **wider) == incapable
    assert patched(status="past_due", **wider) == past_due
    assert patched(geographies=places) == beyond
    assert patched(words=4, **wider) == too_many
    assert patched(wait=0, **wider) == cooling
    # What does not widen is not checked at all.
    assert patched(status="past_due", wait=0, name="other") == 200
