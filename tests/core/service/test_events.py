"""What a step says: events in the past tense, in order, and nothing where nothing became true."""

from typing import Any

import pytest

from ranksim.core.clock import DAY, HOUR, SECOND
from ranksim.core.contract.facts import JobKind
from ranksim.core.service.calls import Answer, Attempt, Call, Step
from ranksim.core.service.events import (
    AttemptAnswered,
    AttemptMade,
    CallGranted,
    CallJoined,
    CallRefused,
    CostReserved,
    CostSettled,
    DeliveryCancelled,
    DeliveryQueued,
    DeliverySuppressed,
    EndpointDisabled,
    EndpointEnabled,
    JobEnded,
    JobQueued,
    JobStarted,
    PeriodTurned,
    SlotsFreed,
    SlotsHeld,
    SlotsTaken,
    UnitsUsed,
    WindowRefused,
)


def step_of(desk: Any, operation: str, body: Any = None, **path: str) -> Step:
    step: Step = desk.service.handle(Call(operation, desk.key, path=path, body=body), desk.now)
    return step


def crawls(desk: Any) -> Step:
    return step_of(desk, "jobs.create", {"kind": "crawl", "domain_id": desk.domain})


def test_a_granted_job_says_what_was_booked_and_that_it_runs(open_desk: Any) -> None:
    desk = open_desk()
    step = crawls(desk)
    job = step.reply.body["data"]["id"]
    turned, reserved, *rest = step.events
    books = desk.service.state.accounts[desk.account].books
    assert turned == PeriodTurned(desk.now, desk.account, "", books.month_ends)
    assert reserved == CostReserved(desk.now, desk.account, books.reserved)
    assert rest == [
        JobQueued(desk.now, desk.account, desk.domain, job, "crawl"),
        JobStarted(desk.now, desk.account, desk.domain, job, "crawl"),
        CallGranted(desk.now, desk.account, "jobs.create"),
    ]
    due = desk.service.next_due()
    found = desk.service.advance(due)
    cost = desk.service.state.jobs[job].cost
    assert found.events == [
        JobEnded(due, desk.account, desk.domain, job, "crawl", "done", cost, None),
        CostSettled(due, desk.account, cost, reserved.amount),
    ]
    assert found.replies == []


def test_a_job_of_a_pool_starts_and_fails_when_it_is_said_to(open_desk: Any) -> None:
    desk = open_desk(pooled=tuple(JobKind))
    step = crawls(desk)
    job = step.reply.body["data"]["id"]
    assert not any(isinstance(event, JobStarted) for event in step.events)
    began = desk.service.started(job, desk.now + SECOND)
    assert began.events == [JobStarted(desk.now + SECOND, desk.account, desk.domain, job, "crawl")]
    assert desk.service.started(job, desk.now + SECOND).events == []
    ended, settled = desk.service.ended(job, "failed", desk.now + HOUR, error="down").events
    assert ended == JobEnded(desk.now + HOUR, desk.account, desk.domain, job, "crawl", "failed", 0, "down")
    assert (settled.amount, settled.released) == (0, desk.service.state.jobs[job].estimate)
    assert desk.service.ended(job, "done", desk.now + HOUR).events == []


def test_refused_joined_and_read(open_desk: Any) -> None:
    desk = open_desk()
    crawls(desk)
    (refused,) = crawls(desk).events
    assert refused == CallRefused(desk.now, desk.account, "jobs.create", 6, "cooldown_active")
    run = {"kind": "rank_run", "domain_id": desk.domain}
    step_of(desk, "jobs.create", run)
    assert step_of(desk, "jobs.create", run).events == [CallJoined(desk.now, desk.account, "jobs.create")]
    assert step_of(desk, "jobs.create", {**run, "dry_run": True}).events == []
    assert step_of(desk, "jobs.list").events == []
    assert step_of(desk, "jobs.create", {"kind": "nothing"}).events == []


def test_a_window_without_room(open_desk: Any) -> None:
    desk = open_desk(facts={"rates": {"read": 1}})
    step_of(desk, "slots.get")
    key = desk.service.state.keys[desk.key].name
    assert step_of(desk, "slots.get").events == [
        WindowRefused(desk.now, desk.account, key, "slots.get", "read")
    ]
    desk.service.handle(Call("slots.get", "rk_wrong", caller="a"), desk.now)
    (refused,) = desk.service.handle(Call("slots.get", "rk_wrong", caller="a"), desk.now).events
    assert refused == WindowRefused(desk.now, "", "", "slots.get", "read")


def test_slots_and_units(open_desk: Any) -> None:
    desk = open_desk()
    scan = step_of(
        desk,
        "scans.create",
        {
            "domain_id": desk.domain,
            "list_ids": [desk.list],
            "engine_devices": ["google/desktop"],
            "geographies": [{"country": "DE"}],
        },
    )
    words = step_of(desk, "keywords.create", {"list_id": desk.list, "keywords": ["a", "b"]})
    assert SlotsTaken(desk.now, desk.account, 2, 0) in words.events
    word = words.reply.body["data"]["created"][0]["id"]
    assert step_of(desk, "keywords.delete", id=word).events == [SlotsHeld(desk.now, desk.account, 1)]
    again = step_of(desk, "keywords.create", {"list_id": desk.list, "keywords": ["a"]})
    assert SlotsTaken(desk.now, desk.account, 1, 1) in again.events
    held = step_of(desk, "scans.delete", id=scan.reply.body["data"]["id"]).events
    assert held == [SlotsHeld(desk.now, desk.account, 2)]
    desk.now += 7 * DAY
    briefs = step_of(desk, "keyword_briefs.create", {"domain_id": desk.domain, "keywords": ["a", "b"]}).events
    metric = "keyword_brief_refreshes"
    ends = desk.service.state.accounts[desk.account].meters[metric].ends
    assert PeriodTurned(desk.now, desk.account, metric, ends) in briefs
    assert UnitsUsed(desk.now, desk.account, metric, 2) in briefs


def test_slots_that_are_freed_at_once(open_desk: Any) -> None:
    desk = open_desk(assumptions={"narrowing": "freed"}, scan=True)
    step_of(desk, "keywords.create", {"list_id": desk.list, "keywords": ["a"]})
    (scan,) = desk.service.state.scans
    assert step_of(desk, "scans.update", {"active": False}, id=scan).events == [
        SlotsFreed(desk.now, desk.account, 1)
    ]


@pytest.mark.parametrize(
    ("timing", "accepted", "ended"),
    [("acceptance", CostSettled, []), ("completion", None, [CostSettled])],
)
def test_cost_is_settled_when_the_policy_says(open_desk: Any, timing: str, accepted: Any, ended: Any) -> None:
    desk = open_desk(assumptions={"cost_timing": timing})
    costs = [event for event in crawls(desk).events if isinstance(event, CostReserved | CostSettled)]
    assert [type(event) for event in costs] == ([accepted] if accepted else [])
    found = desk.service.advance(desk.service.next_due()).events
    assert [type(event) for event in found] == [JobEnded, *ended]


def test_a_delivery_from_its_event_to_its_end(open_desk: Any) -> None:
    desk = open_desk(facts={"webhook_disable_after": 2})
    endpoint = step_of(desk, "webhooks.create", {"url": "https://example.com/hook"}).reply.body["data"]["id"]
    tested = step_of(desk, "webhooks.test", id=endpoint)
    event = tested.reply.body["data"]["event_id"]
    (queued,) = tested.events
    delivery = queued.delivery
    assert queued == DeliveryQueued(desk.now, desk.account, endpoint, delivery, event)
    made = desk.service.advance(desk.now)
    (task,) = (task for task in made.tasks if isinstance(task, Attempt))
    assert made.events == [AttemptMade(desk.now, desk.account, endpoint, delivery, task.attempt, 1)]
    again = desk.now + 60 * SECOND
    (answered,) = desk.service.attempted(task.attempt, Answer(503), desk.now).events
    assert answered[:6] == (desk.now, desk.account, endpoint, delivery, task.attempt, 1)
    assert answered[6:] == ("retried", 503, None, again)
    step_of(desk, "webhooks.test", id=endpoint)
    second = desk.service.advance(desk.now).tasks[0]
    answered, disabled, cancelled = desk.service.attempted(
        second.attempt, Answer(None, "timeout"), desk.now
    ).events
    assert isinstance(answered, AttemptAnswered)
    assert answered[6:] == ("cancelled", None, "timeout", None)
    reason = desk.service.state.endpoints[endpoint].disabled_reason
    assert disabled == EndpointDisabled(desk.now, desk.account, endpoint, reason, False)
    assert cancelled == DeliveryCancelled(desk.now, desk.account, endpoint, delivery)


@pytest.mark.fact("S22", "S91")
def test_what_a_disabled_endpoint_is_not_sent_is_said(open_desk: Any) -> None:
    desk = open_desk(facts={"webhook_disable_after": 1})

    def hook(**fields: Any) -> str:
        body = {"url": "https://example.com/hook", **fields}
        return str(step_of(desk, "webhooks.create", body).reply.body["data"]["id"])

    failing, off = hook(), hook(enabled=False)
    hook(event_types=["job.failed"], enabled=False)  # which takes no such event
    step_of(desk, "webhooks.test", id=failing)
    (task,) = desk.service.advance(desk.now).tasks
    desk.service.attempted(task.attempt, Answer(500), desk.now)
    job = crawls(desk).reply.body["data"]["id"]
    due = desk.service.next_due()
    ended, *suppressed = desk.service.advance(due).events
    assert isinstance(ended, JobEnded)
    assert [one for one in suppressed if isinstance(one, DeliverySuppressed | DeliveryQueued)] == [
        DeliverySuppressed(due, desk.account, failing, desk.domain, job, False),
        DeliverySuppressed(due, desk.account, off, desk.domain, job, True),
    ]


@pytest.mark.parametrize(("status", "attempts", "outcome"), [(200, 1, "acknowledged"), (500, 6, "exhausted")])
def test_how_a_delivery_ends(open_desk: Any, status: int, attempts: int, outcome: str) -> None:
    desk = open_desk()
    endpoint = step_of(desk, "webhooks.create", {"url": "https://example.com/hook"}).reply.body["data"]["id"]
    step_of(desk, "webhooks.test", id=endpoint)
    made, last = 0, None
    while (due := desk.service.next_due()) is not None:
        for task in desk.service.advance(due).tasks:
            made += 1
            last = desk.service.attempted(task.attempt, Answer(status), due).events[-1]
    assert made == attempts
    assert isinstance(last, AttemptAnswered)
    assert (last.outcome, last.next_attempt_at) == (outcome, None)


def test_an_account_disables_and_enables_its_endpoint(open_desk: Any) -> None:
    desk = open_desk()
    endpoint = step_of(desk, "webhooks.create", {"url": "https://example.com/hook"}).reply.body["data"]["id"]
    step_of(desk, "webhooks.test", id=endpoint)
    off = step_of(desk, "webhooks.update", {"enabled": False}, id=endpoint).events
    assert [type(event) for event in off] == [AttemptMade, EndpointDisabled]
    assert off[1].by_account
    on = step_of(desk, "webhooks.update", {"enabled": True}, id=endpoint).events
    assert on == [EndpointEnabled(desk.now, desk.account, endpoint)]


def test_events_are_told_once_and_are_no_state(open_desk: Any) -> None:
    desk = open_desk()
    crawls(desk)
    twin = desk.service.fork()
    assert twin.advance(desk.now).events == []
    assert desk.service.advance(desk.now).events == []
    ends = [type(event) for event in twin.advance(desk.now + DAY).events]
    assert ends == [JobEnded, CostSettled]
