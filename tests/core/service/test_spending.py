"""The seven operations that spend: what each buys and costs, what refuses it, what a dry run tells."""

from typing import Any

import pytest

from ranksim.core.clock import HOUR, MINUTE, iso
from ranksim.core.contract.facts import SPENDING_OPERATIONS
from ranksim.core.service.calls import Call, Reply
from ranksim.core.service.operations import TABLE

JOBS = ("rank_run", "crawl", "site_optimization", "ai_scan")


def said(*replies: Reply) -> list[str | int]:
    """What each reply says: its error code, or its status."""
    return [reply.code or reply.status for reply in replies]


def meta(reply: Reply) -> Any:
    assert reply.body is not None
    return reply.body["meta"]


# What each buys


@pytest.mark.fact("S52", "S53", "S54", "S55", "S56", "S57", "S58", "S35", "U47", "U54", "U101")
@pytest.mark.parametrize(
    ("spend", "settled", "reserved", "briefs", "slots"),
    [
        pytest.param("rank_run", "0.00", "0.20", 0, 0, id="rank_run: a page for each of 2 tracked tuples"),
        pytest.param("crawl", "0.00", "1.00", 0, 0, id="crawl: pages up to the cap of 10"),
        pytest.param("site_optimization", "0.00", "2.00", 0, 0, id="site_optimization: the same pages"),
        pytest.param("ai_scan", "0.00", "3.00", 0, 0, id="ai_scan: questions up to the cap of 10"),
        pytest.param("keyword_briefs", "0.50", "0.00", 1, 0, id="keyword_briefs: a unit for a keyword"),
        pytest.param("keywords", "0.00", "0.00", 0, 1, id="keywords: a slot, and no cost"),
        pytest.param("scans", "0.00", "0.00", 0, 2, id="scans: slots, and no cost"),
    ],
)
def test_what_each_operation_spends(
    open_desk: Any, spend: str, settled: str, reserved: str, briefs: int, slots: int
) -> None:
    desk = open_desk(words=["shoes", "boots"], scan=True)
    reply = desk.spend(spend)
    assert (reply.status, reply.outcome) == (202 if spend in JOBS else 201, "granted")
    assert desk.cost()[:2] == (settled, reserved)
    assert desk.usage()["used"] == briefs
    assert desk.usage("research_lookups")["used"] == 0
    assert desk.slots()["used"] == 2 + slots


@pytest.mark.fact("S52", "S53", "S54", "S55", "U46")
@pytest.mark.parametrize(
    ("kind", "seconds"),
    [("rank_run", 3600), ("crawl", 86_400), ("site_optimization", 86_400), ("ai_scan", 0)],
)
def test_what_each_kind_cools_down(open_desk: Any, kind: str, seconds: int) -> None:
    desk = open_desk()
    started = desk.now
    desk.must(desk.job(kind))
    desk.wait(30 * MINUTE)
    reply = desk.job(kind)
    if seconds == 0:
        assert reply.outcome == "granted"
        return
    assert (reply.code, reply.status) == ("cooldown_active", 409)
    left = seconds - 1800
    assert meta(reply) == {"available_at": iso(started + seconds * 1_000_000), "retry_after": left}
    assert reply.headers["Retry-After"] == str(left)
    desk.at(started + seconds * 1_000_000 - 1)
    assert desk.job(kind).headers["Retry-After"] == "1"
    desk.wait(1)
    assert desk.job(kind).outcome == "granted"


@pytest.mark.fact("U47", "S53", "S55")
@pytest.mark.parametrize(
    ("cap", "small", "large"),
    [("truncate", [202, 202, 202], [202, 202, 202]), ("refuse", ["entitlement_required"] * 3, [202] * 3)],
)
def test_work_beyond_a_cap(open_desk: Any, cap: str, small: list[Any], large: list[Any]) -> None:
    kinds = ("crawl", "site_optimization", "ai_scan")
    for plan, expected in (({}, small), ({"page_cap": 10**9, "call_cap": 80}, large)):
        plan = {**plan, "cost_ceiling": "99999999 USD"}
        desk = open_desk(plan, assumptions={"cap": cap}, pooled=kinds)
        assert said(*(desk.job(kind) for kind in kinds)) == expected
        assert all((task.units == 10) is (expected is small) for task in desk.tasks)


@pytest.mark.fact("S34", "S13", "S14")
def test_a_job_is_one_of_four_kinds_and_answered_under_data(desk: Any) -> None:
    for kind in JOBS:
        reply = desk.job(kind)
        job = reply.body["data"]
        assert {"id", "kind", "status", "domain_id", "error_detail", "finished_at"} <= set(job)
        assert (job["kind"], job["domain_id"]) == (kind, desk.domain)
    reply = desk.job("backlinks")
    assert (reply.code, meta(reply)["errors"][0]["field"]) == ("validation_failed", "kind")


@pytest.mark.fact("S57", "E43", "E47", "U64", "U109")
def test_keywords_count_once_and_only_where_a_scan_covers_their_list(desk: Any) -> None:
    answer = desk.must(desk.keywords("shoes", " Shoes", "SHOES", "boots"))
    assert [made["keyword"] for made in answer["created"]] == ["shoes", "boots"]
    assert (answer["list_id"], answer["already_present"], answer["slots_added"]) == (desk.list, 2, 0)
    assert desk.slots()["used"] == 0
    desk.must(desk.scan(("google/desktop", "google/mobile"), ("DE", "FR")))
    assert desk.slots()["used"] == 8
    assert desk.must(desk.keywords("shoes", "socks", "socks"))["slots_added"] == 4
    assert desk.slots()["used"] == 12
    # The list of no scan is free of slots, even at the limit.
    assert desk.keywords(*(f"word {n}" for n in range(30)), list_id=desk.new_list()).status == 201


@pytest.mark.fact("S58", "S33", "S23", "S24", "S25")
def test_a_scan_counts_every_tuple_and_every_scan_counts_for_itself(desk: Any) -> None:
    desk.must(desk.keywords("shoes"))
    desk.must(desk.scan(("google/desktop", "google/mobile"), ("DE", "FR")))
    assert desk.slots()["active"] == 4
    desk.must(desk.scan(("google/desktop", "google/mobile"), ("DE", "FR")))
    assert desk.slots()["active"] == 8
    desk.must(desk.scan(active=False))
    assert desk.slots()["active"] == 8


@pytest.mark.fact("S33", "S58", "U59")
@pytest.mark.parametrize(
    ("option", "code", "status"),
    [("entitlement_required", "entitlement_required", 403), ("slot_limit_exceeded",) * 2 + (402,)],
)
def test_a_scan_beyond_the_plans_dimensions(open_desk: Any, option: str, code: str, status: int) -> None:
    desk = open_desk(assumptions={"dimension_refusal": option})
    pairings = [f"google/device-{number}" for number in range(5)]
    places = ["DE", "FR", "IT", "ES"]
    assert desk.scan(pairings[:4], places[:3]).status == 201
    for reply in (desk.scan(pairings, places[:1]), desk.scan(pairings[:1], places, active=False)):
        assert (reply.code, reply.status) == (code, status)


@pytest.mark.fact("U54", "U65", "U109")
def test_briefs_are_counted_by_keyword(open_desk: Any) -> None:
    desk = open_desk(words=["shoes", "boots"])
    answer = desk.must(desk.briefs("shoes", "Shoes ", "boots"))
    assert [brief["keyword"] for brief in answer["briefs"]] == ["shoes", "boots"]
    assert answer["id"] == answer["briefs"][0]["id"]
    assert desk.usage()["used"] == 2
    words = [word["id"] for word in desk.get("keywords.list")]
    for body in ({"keyword_ids": words}, {"keyword_id": words[0]}):
        desk.must(desk.call("keyword_briefs.create", body))
    assert desk.usage()["used"] == 5
    assert len(desk.get("keyword_briefs.list")) == 5


# Refusals and their numbers


@pytest.mark.fact("S98", "S63", "S108", "U53", "U26")
def test_the_meta_of_quota_exhausted(desk: Any) -> None:
    desk.must(desk.briefs(*(f"word {number}" for number in range(8))))
    reply = desk.briefs("a", "b", "c")
    assert (reply.code, reply.status) == ("quota_exhausted", 402)
    assert meta(reply) == {
        "metric": "keyword_brief_refreshes",
        "used": 8,
        "limit": 10,
        "resets_at": "2026-03-09T00:00:00Z",
    }


@pytest.mark.fact("S99", "S62", "U26", "U96")
def test_the_meta_of_cost_cap_reached(open_desk: Any) -> None:
    desk = open_desk({"cost_ceiling": "3.5 USD"})
    desk.must(desk.job("ai_scan"))
    desk.must(desk.briefs("shoes"))
    reply = desk.job("crawl")
    assert (reply.code, reply.status) == ("cost_cap_reached", 402)
    assert meta(reply) == {
        "spent": "3.50",
        "ceiling": "3.50",
        "currency": "USD",
        "resets_at": "2026-04-04T10:00:00Z",
    }


@pytest.mark.fact("S64", "U26", "S26")
def test_the_meta_of_slot_limit_exceeded(open_desk: Any) -> None:
    desk = open_desk({"slot_limit": 4}, words=["a", "b", "c"], scan=True)
    desk.call("keywords.delete", id=desk.get("keywords.list")[0]["id"])
    reply = desk.keywords("d", "e")
    assert (reply.code, reply.status) == ("slot_limit_exceeded", 402)
    assert meta(reply) == {"used": 3, "held": 1, "limit": 4, "requested": 2}
    # A word whose slot is held asks for none.
    assert meta(desk.keywords("a", "d", "e"))["requested"] == 2


@pytest.mark.fact("S60", "S61", "U26")
def test_entitlement_and_health_have_no_numbers(open_desk: Any) -> None:
    desk = open_desk({"capabilities": ("rank_tracking",)})
    assert (desk.job("crawl").code, meta(desk.job("crawl"))) == ("entitlement_required", {})
    desk.set_status("past_due")
    assert (desk.job().code, meta(desk.job())) == ("subscription_inactive", {})


@pytest.mark.fact("E11", "S63")
def test_a_refusal_by_a_later_check_takes_nothing_of_the_quota(open_desk: Any) -> None:
    quotas = {"words": {"limit": 10, "period": "month", "consumed_by": ("keywords", "crawl")}}
    desk = open_desk({"quotas": quotas, "slot_limit": 2}, words=["a"], scan=True)
    assert desk.usage("words")["used"] == 1
    assert said(desk.keywords("b", "c")) == ["slot_limit_exceeded"]
    desk.must(desk.job("crawl"))
    desk.wait(HOUR)
    assert said(desk.job("crawl")) == ["cooldown_active"]
    assert desk.usage("words")["used"] == 2


@pytest.mark.fact("E14", "S63")
def test_one_more_spend_than_the_allowance_is_refused_once(desk: Any) -> None:
    """All arrive at one instant, from two keys."""
    keys = [desk.key, desk.token("second")]
    replies = [desk.briefs(f"word {number}", key=keys[number % 2]) for number in range(11)]
    assert said(*replies) == [201] * 10 + ["quota_exhausted"]
    assert desk.usage()["used"] == 10


@pytest.mark.fact("E15", "U49")
@pytest.mark.parametrize(
    ("timing", "second"),
    [("reserve", "cost_cap_reached"), ("acceptance", "cost_cap_reached"), ("completion", 202)],
)
def test_two_jobs_at_once_just_below_the_ceiling(open_desk: Any, timing: str, second: str | int) -> None:
    desk = open_desk({"cost_ceiling": "3.000001 USD"}, assumptions={"cost_timing": timing})
    desk.must(desk.job("crawl"))
    assert said(desk.job("site_optimization"), desk.job("ai_scan")) == [202, 202]
    assert said(desk.job("ai_scan")) == [second]


@pytest.mark.fact("E13", "S61", "S67", "S36")
@pytest.mark.parametrize("trouble", ["at the ceiling", "past due"])
def test_reads_go_on_when_spending_stops(open_desk: Any, trouble: str) -> None:
    desk = open_desk({"cost_ceiling": "1 USD"}, words=["shoes"], scan=True)
    job = desk.must(desk.job("crawl"))
    scan = desk.get("scans.list")[0]["id"]
    if trouble == "past due":
        desk.set_status("past_due")
    code = "subscription_inactive" if trouble == "past due" else "cost_cap_reached"
    assert said(*(desk.spend(spend) for spend in SPENDING_OPERATIONS)) == [code] * 7
    ids = {
        "jobs.get": job["id"],
        "scans.get": scan,
        "domains.get": desk.domain,
        "keyword_lists.get": desk.list,
    }
    for operation in TABLE:
        if operation.method == "GET" and ("{id}" not in operation.path or operation.name in ids):
            call = desk.call(operation.name, id=ids.get(operation.name, ""), kind="crawl")
            assert call.status == 200, operation.name
    # What costs nothing can still be changed.
    assert desk.call("scans.update", {"name": "still"}, id=scan).status == 200
    assert desk.call("labels.create", {"domain_id": desk.domain, "name": "l"}).status == 201


@pytest.mark.fact("E37", "S106")
def test_two_keys_share_what_their_account_may_spend(desk: Any) -> None:
    second = desk.token("second")
    desk.must(desk.briefs("a", "b"))
    assert meta(desk.briefs(*"abcdefghi", key=second))["used"] == 2
    desk.must(desk.job("crawl"))
    assert said(desk.job("crawl", key=second)) == ["cooldown_active"]
    assert desk.job("rank_run").outcome == "granted"
    assert desk.job("rank_run", key=second).outcome == "joined"


@pytest.mark.fact("E38", "S4")
def test_rest_graphql_and_app_share_cooldown_and_quota(desk: Any) -> None:
    desk.must(desk.job("crawl", surface="graphql"))
    assert said(desk.job("crawl")) == ["cooldown_active"]
    desk.must(desk.briefs(*"abcdef"))
    calls = [
        Call("jobs.create", desk.key, body={"kind": kind, "domain_id": desk.domain}, surface="graphql")
        for kind in ("crawl", "ai_scan")
    ]
    briefs = {"domain_id": desk.domain, "keywords": ["x", "y", "z", "w", "v"]}
    calls.append(Call("keyword_briefs.create", desk.key, body=briefs, surface="graphql"))
    replies = desk.service.handle_batch(calls, desk.now).replies
    assert said(*replies) == ["cooldown_active", 202, "quota_exhausted"]
    app = desk.call("keyword_briefs.create", briefs, key="", surface="app", account=desk.account)
    assert said(app) == ["quota_exhausted"]


# Dry runs


@pytest.mark.fact("S66", "U56", "U89", "U104")
@pytest.mark.parametrize("spend", SPENDING_OPERATIONS)
def test_a_dry_run_that_would_be_granted_changes_nothing(open_desk: Any, spend: str) -> None:
    desk = open_desk(words=["shoes"], scan=True)
    before = desk.picture()
    reply = desk.spend(spend, dry_run=True)
    assert desk.picture() == before
    assert (reply.status, reply.outcome, reply.code) == (200, "dry_run", "")
    assert desk.must(reply) == {
        "dry_run": True,
        "allowed": True,
        "would_join": None,
        "refusal": None,
        "checks": [
            {"check": name, "ok": True, "code": None, "meta": None}
            for name in ("capability", "subscription", "cost_ceiling", "quota", "slots", "cooldown")
        ],
    }
    assert desk.spend(spend, dry_run=False).outcome == "granted"


@pytest.mark.fact("S66", "U56", "U89", "E12")
@pytest.mark.parametrize("option", ["report", "live_error"])
def test_a_dry_run_that_would_be_refused_twice_over(open_desk: Any, option: str) -> None:
    desk = open_desk({"cost_ceiling": "1 USD"}, assumptions={"dry_run_reply": option})
    desk.must(desk.job("crawl"))
    before = desk.picture()
    dry, live = desk.job("crawl", dry_run=True), desk.job("crawl")
    assert desk.picture() == before
    assert (dry.code, dry.check, live.code) == ("cost_cap_reached", 3, "cost_cap_reached")
    if option == "live_error":
        assert (dry.status, dry.body["meta"]) == (402, live.body["meta"])
        return
    assert dry.status == 200
    said_ = dry.body["data"]
    assert said_["allowed"] is False
    assert said_["refusal"] == {name: live.body[name] for name in ("code", "status", "detail", "meta")}
    failing = {check["check"]: check for check in said_["checks"] if not check["ok"]}
    assert {name: check["code"] for name, check in failing.items()} == {
        "cost_ceiling": "cost_cap_reached",
        "cooldown": "cooldown_active",
    }
    assert failing["cost_ceiling"]["meta"] == live.body["meta"]
    assert failing["cooldown"]["meta"]["retry_after"] == 86_400


@pytest.mark.fact("E49", "U89", "U45")
@pytest.mark.parametrize("join", ["after_health", "before_checks"])
def test_a_dry_run_of_a_running_rank_run_tells_that_it_would_join(open_desk: Any, join: str) -> None:
    desk = open_desk({"cost_ceiling": "0.10 USD"}, assumptions={"join": join}, words=["a"], scan=True)
    running = desk.must(desk.job())
    before = desk.picture()
    told = desk.must(desk.job(dry_run=True))
    assert desk.picture() == before
    assert (told["allowed"], told["would_join"], told["refusal"]) == (True, running["id"], None)
    assert all(check["ok"] for check in told["checks"])
    desk.set_status("past_due")
    told = desk.must(desk.job(dry_run=True))
    assert told["would_join"] == (None if join == "after_health" else running["id"])
    assert told["allowed"] is all(check["ok"] for check in told["checks"])
