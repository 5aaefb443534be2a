"""Which check refuses, through the whole service, when several would."""

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

import pytest

from ranksim.core.clock import HOUR, MINUTE
from ranksim.core.contract.facts import SPENDING_OPERATIONS

CODES = {
    1: "entitlement_required",
    2: "subscription_inactive",
    3: "cost_cap_reached",
    4: "quota_exhausted",
    5: "slot_limit_exceeded",
    6: "cooldown_active",
}
STATUSES = {1: 403, 2: 402, 3: 402, 4: 402, 5: 402, 6: 409}
NAMES = ("capability", "subscription", "cost_ceiling", "quota", "slots", "cooldown")

OF_THE_PLAN = (1, 3, 4, 5)
"""The checks that a change of plan makes fail or pass."""

WIDENS = ("keywords", "scans")


def checks_of(operation: str) -> tuple[int, ...]:
    """The checks that can fail: only what widens tracking needs slots."""
    return tuple(check for check in CODES if check != 5 or operation in WIDENS)


def plan_name(faults: Iterable[int]) -> str:
    return "plan" + "".join(str(fault) for fault in faults if fault in OF_THE_PLAN)


def plan_of(operation: str, faults: Iterable[int]) -> dict[str, Any]:
    every = ("rank_tracking", "site_crawl", "site_optimization", "ai_visibility", "keyword_briefs")
    return {
        "price": "0 USD",
        "capabilities": () if 1 in faults else every,
        "cost_ceiling": "1 USD" if 3 in faults else "100 USD",
        "quotas": {
            "work": {"limit": 1 if 4 in faults else 100, "period": "month", "consumed_by": (operation,)}
        },
        "slot_limit": 1 if 5 in faults else 100,
        "cooldowns": {operation: "1h"},
        "dimensions": {"max_engine_devices": 4, "max_geographies": 3},
        "page_cap": 10,
        "call_cap": 10,
    }


@pytest.fixture
def shop(open_desk: Any) -> Callable[..., Any]:
    """Opens a desk where an operation has been done half an hour ago, and certain checks now refuse it."""

    def open_shop(operation: str, faults: Iterable[int] = (), **policy: Any) -> Any:
        subsets = [set_ for size in range(5) for set_ in combinations(OF_THE_PLAN, size)]
        plans = {plan_name(set_): plan_of(operation, set_) for set_ in subsets}
        desk = open_desk(
            catalogue={"plans": plans},
            facts={"rates": {"expensive": 1000}},
            words=["shoes"],
            scan=True,
            **policy,
        )
        desk.change_plan(plan_name(()))
        desk.wait(HOUR)  # what the desk began with may be done again
        # A dollar is spent, a slot is used, and one unit of work is done.
        desk.must(desk.job("crawl", domain=desk.new_domain("other.example")))
        desk.must(desk.spend(operation))
        desk.wait(30 * MINUTE)
        break_(desk, faults)
        return desk

    return open_shop


def break_(desk: Any, faults: Iterable[int]) -> None:
    """Make exactly these checks refuse (6 refuses until an hour is over, and is mended by waiting)."""
    faults = tuple(faults)
    desk.change_plan(plan_name(faults))
    desk.set_status("past_due" if 2 in faults else "active")
    if 6 not in faults:
        desk.wait(HOUR)


def sets_for(operation: str, *sizes: int) -> list[tuple[int, ...]]:
    return [faults for size in sizes for faults in combinations(checks_of(operation), size)]


@pytest.mark.fact("S60", "S61", "S62", "S63", "S64", "S65", "S97", "S98")
@pytest.mark.parametrize("operation", SPENDING_OPERATIONS)
def test_each_check_refuses_by_itself(shop: Any, operation: str) -> None:
    assert shop(operation).spend(operation).status < 300
    for fault in checks_of(operation):
        reply = shop(operation, [fault]).spend(operation)
        assert (reply.code, reply.status, reply.check) == (CODES[fault], STATUSES[fault], fault)
        assert reply.outcome == "refused"


@pytest.mark.fact("S59", "E12")
@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        (1, 2, "entitlement_required"),
        (1, 3, "entitlement_required"),
        (1, 4, "entitlement_required"),
        (1, 5, "entitlement_required"),
        (1, 6, "entitlement_required"),
        (2, 3, "subscription_inactive"),
        (2, 4, "subscription_inactive"),
        (2, 5, "subscription_inactive"),
        (2, 6, "subscription_inactive"),
        (3, 4, "cost_cap_reached"),
        (3, 5, "cost_cap_reached"),
        (3, 6, "cost_cap_reached"),
        (4, 5, "quota_exhausted"),
        (4, 6, "quota_exhausted"),
        (5, 6, "slot_limit_exceeded"),
    ],
)
def test_of_two_failing_checks_the_first_refuses(shop: Any, first: int, second: int, code: str) -> None:
    for operation in SPENDING_OPERATIONS:
        if {first, second} <= set(checks_of(operation)):
            reply = shop(operation, [first, second]).spend(operation)
            assert (reply.code, reply.check) == (code, first), operation


@pytest.mark.fact("S59", "S66", "E12", "U89")
@pytest.mark.parametrize("operation", SPENDING_OPERATIONS)
def test_a_dry_run_shows_every_failing_check_and_refuses_by_the_first(shop: Any, operation: str) -> None:
    hot = shop(operation, [6])
    cool = shop(operation)
    for faults in sets_for(operation, 0, 1, 2, 3, 4, 5, 6):
        desk = hot if 6 in faults else cool
        desk.change_plan(plan_name(faults))
        desk.set_status("past_due" if 2 in faults else "active")
        before = desk.picture()
        reply = desk.spend(operation, dry_run=True)
        assert desk.picture() == before
        body = desk.must(reply)
        expected = [
            (name, number not in faults, CODES[number] if number in faults else None)
            for number, name in enumerate(NAMES, start=1)
        ]
        assert [(check["check"], check["ok"], check["code"]) for check in body["checks"]] == expected
        assert body["allowed"] is (not faults)
        assert (body["refusal"] or {}).get("code") == (CODES[faults[0]] if faults else None)
        assert (reply.status, reply.outcome, reply.check) == (200, "dry_run", min(faults, default=0))


@pytest.mark.fact("S59", "E11")
@pytest.mark.parametrize("operation", SPENDING_OPERATIONS)
def test_mending_one_fault_after_the_other_walks_through_the_checks_in_order(
    shop: Any, operation: str
) -> None:
    checks = checks_of(operation)
    desk = shop(operation, checks)
    for mended in range(len(checks)):
        before = desk.picture()
        reply = desk.spend(operation)
        assert reply.code == CODES[checks[mended]]
        assert desk.picture() == before
        break_(desk, checks[mended + 1 :])
    assert desk.spend(operation).status < 300


@pytest.mark.fact("S59", "E12")
def test_of_three_failing_checks_the_first_refuses(shop: Any) -> None:
    for faults in sets_for("scans", 3):
        assert shop("scans", faults).spend("scans").code == CODES[faults[0]]


@pytest.mark.fact("U95", "E19")
def test_a_patch_that_widens_under_all_six_checks_keeps_their_order(shop: Any) -> None:
    for faults in sets_for("scans", 1, 2):
        desk = shop("scans", faults, assumptions={"patch_checks": "all"})
        scan = desk.get("scans.list")[0]["id"]
        wider = {"engine_devices": ["google/desktop", "google/mobile"]}
        reply = desk.call("scans.update", wider, id=scan)
        by = [fault for fault in faults if fault != 4]  # a PATCH asks for no metered unit
        assert reply.code == (CODES[by[0]] if by else "")


@pytest.mark.fact("U86")
@pytest.mark.parametrize("operation", SPENDING_OPERATIONS)
def test_a_bad_body_and_a_wrong_id_come_before_the_six_checks(shop: Any, operation: str) -> None:
    desk = shop(operation, checks_of(operation))
    name = {
        "keyword_briefs": "keyword_briefs.create",
        "keywords": "keywords.create",
        "scans": "scans.create",
    }.get(operation, "jobs.create")
    assert desk.call(name, {"dry_run": True}).code == "validation_failed"
    where = {"list_id": "list_0"} if operation == "keywords" else {"domain": "dom_0"}
    assert desk.spend(operation, **where).code == "not_found"
