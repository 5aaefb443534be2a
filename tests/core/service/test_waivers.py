"""Limits that are switched off: they refuse nobody, and all else is booked as ever."""

from typing import Any

import pytest

from ranksim.core.clock import MINUTE
from ranksim.core.errors import BadInput
from ranksim.core.service.service import Service


def waive(desk: Any, *limits: str) -> None:
    desk.service.waive(limits, desk.now)


def lack_capability(desk: Any) -> Any:
    return desk.job("crawl")


def owe(desk: Any) -> Any:
    desk.set_status("past_due")
    return desk.job("crawl")


def reach_the_ceiling(desk: Any) -> Any:
    desk.must(desk.job("ai_scan"))
    return desk.job("ai_scan")


def use_up_the_quota(desk: Any) -> Any:
    return desk.briefs(*"abcdefghijk")


def fill_the_slots(desk: Any) -> Any:
    desk.must(desk.scan())
    return desk.keywords(*map(str, range(21)))


def run_twice(desk: Any) -> Any:
    desk.must(desk.job("crawl"))
    desk.wait(30 * MINUTE)
    return desk.job("crawl")


REFUSED = [
    ("capability", lack_capability, {"capabilities": ("rank_tracking",)}, "entitlement_required"),
    ("subscription", owe, {}, "subscription_inactive"),
    ("cost_ceiling", reach_the_ceiling, {"cost_ceiling": "3 USD"}, "cost_cap_reached"),
    ("quota", use_up_the_quota, {}, "quota_exhausted"),
    ("slots", fill_the_slots, {}, "slot_limit_exceeded"),
    ("cooldown", run_twice, {}, "cooldown_active"),
]


@pytest.mark.parametrize(("limit", "ask", "plan", "code"), REFUSED)
def test_a_waived_check_refuses_nobody(
    open_desk: Any, limit: str, ask: Any, plan: dict[str, Any], code: str
) -> None:
    others = [name for name, *_ in REFUSED if name != limit]
    for waived, expected in ((others, code), ([limit], "")):
        desk = open_desk(plan)
        waive(desk, *waived)
        assert ask(desk).code == expected
    waive(desk)
    assert ask(open_desk(plan)).code == code


def test_what_a_waived_check_minds_is_booked(desk: Any) -> None:
    waive(desk, "quota")
    desk.must(desk.briefs(*"abcdefghijk"))
    assert desk.usage()["used"] == 11
    waive(desk)
    assert desk.briefs("l").code == "quota_exhausted"


@pytest.mark.fact("U50", "U64")
def test_a_waived_check_cuts_nothing_where_parts_are_granted(open_desk: Any) -> None:
    assumptions = {"quota_grant": "partial", "over_slots": "partial"}
    for waived, briefs, words in (("rate",), 10, 1), (("quota", "slots"), 11, 2):
        desk = open_desk({"slot_limit": 2}, assumptions=assumptions, words=["a"], scan=True)
        waive(desk, *waived)
        assert len(desk.must(desk.briefs(*map(str, range(11))))["briefs"]) == briefs
        assert len(desk.must(desk.keywords("b", "c"))["created"]) == words
        assert (desk.usage()["used"], desk.slots()["used"]) == (briefs, words + 1)


def test_a_waived_check_passes_in_a_dry_run(desk: Any) -> None:
    desk.set_status("past_due")
    waive(desk, "subscription")
    report = desk.must(desk.job("crawl", dry_run=True))
    assert report["allowed"]
    assert [check["ok"] for check in report["checks"]] == [True] * 6


@pytest.mark.parametrize("mode", ["all", "dimensions_slots"])
def test_a_waiver_holds_for_a_widened_scan_too(open_desk: Any, mode: str) -> None:
    desk = open_desk({"slot_limit": 1}, assumptions={"patch_checks": mode}, words=["a"], scan=True)
    scan = desk.get("scans.list")[0]["id"]
    wider = {"geographies": [{"country": "DE"}, {"country": "FR"}]}
    assert desk.call("scans.update", wider, id=scan).code == "slot_limit_exceeded"
    waive(desk, "slots")
    desk.must(desk.call("scans.update", wider, id=scan))


@pytest.mark.parametrize("who", [{}, {"key": "wrong", "caller": "192.0.2.1"}, {"surface": "graphql"}])
def test_waived_rate_limits_do_not_count(open_desk: Any, who: dict[str, Any]) -> None:
    desk = open_desk(facts={"rates": {"read": 2, "write": 2, "expensive": 2}})
    left = "RateLimit-Remaining"
    assert desk.call("domains.list", **who).headers[left] == "1"
    waive(desk, "rate")
    for _ in range(5):
        reply = desk.call("domains.list", **who)
        assert (reply.code != "rate_limited", reply.headers[left]) == (True, "1")
    waive(desk)
    assert desk.call("domains.list", **who).headers[left] == "0"
    assert desk.call("domains.list", **who).code == "rate_limited"


def test_waivers_are_of_the_state(desk: Any) -> None:
    waive(desk, "cooldown", "rate")
    restored = Service.restore(desk.service.save(), desk.policy)
    assert restored.state.waived == desk.service.state.waived == 1 << 6 | 1


def test_an_unknown_limit_waives_nothing(desk: Any) -> None:
    with pytest.raises(BadInput, match=r"limit: expected one of rate, capability, .*, found 'speed'"):
        waive(desk, "quota", "speed")
    assert desk.service.state.waived == 0
