"""A call alone, in a batch of one, charged the long way and not read: the same reply, tasks, events, state.

The plain call over REST has a short way through the service; these hold it to the others.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from ranksim.core.service.calls import Call

from .test_state_machine import Stories
from .ways import EveryWay

POLICIES = (
    {},
    {"expensive_debits_write": True, "window": "sliding_log"},
    {"dry_run_class": "read", "window": "sliding_counter", "reset_reports": "full"},
    {"dry_run_class": "free", "window": "gcra", "reset_format": "epoch"},
    {"limiter_order": "limiter_first", "window": "clock", "tracking_class": "expensive"},
)


@pytest.mark.slow
@pytest.mark.fact("S4", "S9", "U86")
def test_any_story_goes_every_way(open_desk: Any) -> None:
    class EveryWayDesk(open_desk):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            self.service = EveryWay(self.service)

    run_state_machine_as_test(
        lambda: Stories(EveryWayDesk),
        settings=settings(
            max_examples=15,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )


@pytest.mark.fact("S68", "S102", "S103", "S104", "U10", "U86")
@pytest.mark.parametrize("assumptions", POLICIES, ids=str)
def test_charges_and_refusals_go_every_way(open_desk: Any, assumptions: dict[str, Any]) -> None:
    desk = open_desk(
        assumptions=assumptions, facts={"rates": {"read": 4, "write": 3, "expensive": 2}}, words=["a"]
    )
    desk.service = EveryWay(desk.service)
    crawl = {"kind": "crawl", "domain_id": desk.domain}
    calls = [
        Call("jobs.create", desk.key, body={**crawl, "dry_run": True}),
        Call("jobs.create", desk.key, body=crawl, idempotency_key="once"),
        Call("keywords.list", desk.key),
        Call("keywords.list", desk.key, query={"limit": "1", "nothing": "x"}),
        Call("keywords.list", desk.key, query={"cursor": "x"}),
        Call("labels.create", desk.key, body={"domain_id": desk.domain, "name": "x"}, request_id="mine"),
        Call("labels.create", desk.key, body={}),
        Call("webhook_events.list", desk.key),
        Call("webhook_events.list", caller="there"),
        Call("keywords.list", "wrong"),
        Call("keywords.list", desk.key, environment="sandbox"),
        Call("", desk.key, method="DELETE"),
        Call("domains.list", desk.key, method="OPTIONS"),
        Call("domains.list", surface="app", account=desk.account),
    ]
    for number in range(4):
        for call in calls:
            desk.service.handle(call, desk.now + number * 7_000_000)
    desk.service.waive(["rate"], desk.now + 28_000_000)
    for call in calls:
        desk.service.handle(call, desk.now + 28_000_000)
