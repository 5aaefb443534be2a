"""What of the service's events is noted down, and as what."""

from typing import Any, get_args

import pytest

from ranksim.core.clock import MINUTE, instant
from ranksim.core.service.calls import Attempt
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
    ServiceEvent,
    SlotsFreed,
    SlotsHeld,
    SlotsTaken,
    UnitsUsed,
    WindowRefused,
)
from ranksim.twin.facade.event_log import EventLog
from ranksim.twin.facade.logged_event import WORDS, AnsweredCall

AT = instant("2026-03-04T10:00:00Z")

ATTEMPT = Attempt(
    7,
    3,
    "whk_1",
    "acc_1",
    "https://a.example",
    "evt_1",
    "job.completed",
    2,
    {"Service-Event-Id": "evt_1"},
    b"{}",
)

TOLD = {
    "attempt_id": 7, "delivery_id": 3, "endpoint_id": "whk_1", "account_id": "acc_1", "url": "https://a.example",
    "event_id": "evt_1", "event_type": "job.completed", "attempt": 2,
}  # fmt: skip


def answered(**more: Any) -> AttemptAnswered:
    usual = {
        "at": AT, "account": "acc_1", "endpoint": "whk_1", "delivery": 3, "attempt": 7, "number": 2,
        "outcome": "retried", "status_code": 500, "error": None, "next_attempt_at": AT + MINUTE,
    }  # fmt: skip
    return AttemptAnswered(**usual | more)


def noted(*events: ServiceEvent, attempt: Attempt | None = None) -> list[tuple[str, dict[str, Any]]]:
    log = EventLog()
    log.observe(events, attempt)
    assert all(one.at == AT for one in log)
    return [(one.what, one.details) for one in log]


def test_a_job_that_ended() -> None:
    ended = JobEnded(AT, "acc_1", "dom_1", "job_1", "crawl", "failed", 0, "blocked")
    details = {"job_id": "job_1", "kind": "crawl", "domain_id": "dom_1", "account_id": "acc_1"}
    assert noted(ended) == [("job.failed", details | {"error_detail": "blocked"})]
    assert noted(ended._replace(outcome="done", error=None))[0][0] == "job.done"


def test_a_granted_call_names_the_job_that_it_made() -> None:
    """In a batch, too: a job is queued before the call that made it is granted."""
    queued = [
        JobQueued(AT, "acc_1", "dom_1", f"job_{n}", kind) for n, kind in ((1, "crawl"), (2, "rank_run"))
    ]
    jobs, words = CallGranted(AT, "acc_1", "jobs.create"), CallGranted(AT, "acc_1", "keywords.create")
    job = {"account_id": "acc_1", "domain_id": "dom_1"}
    crawl, run = {"job_id": "job_1", "kind": "crawl"}, {"job_id": "job_2", "kind": "rank_run"}
    assert noted(queued[0], jobs, words, queued[1], jobs) == [
        ("job.queued", job | crawl),
        ("call.granted", job | crawl | {"operation": "jobs.create"}),
        ("call.granted", {"operation": "keywords.create", "account_id": "acc_1"}),
        ("job.queued", job | run),
        ("call.granted", job | run | {"operation": "jobs.create"}),
    ]


@pytest.mark.parametrize(
    ("due", "shown"), [(AT + MINUTE, "2026-03-04T10:01:00Z"), (None, None)], ids=["retried", "over"]
)
def test_an_answered_attempt(due: int | None, shown: str | None) -> None:
    said = {"status_code": 500, "error": None, "next_attempt_at": shown}
    assert noted(answered(next_attempt_at=due), attempt=ATTEMPT) == [("attempt.answered", TOLD | said)]


@pytest.mark.parametrize("by_account", [False, True])
def test_an_endpoint_disabled(by_account: bool) -> None:
    disabled = EndpointDisabled(AT, "acc_1", "whk_1", "failures", by_account)
    details = {"endpoint_id": "whk_1", "account_id": "acc_1", "reason": "failures"}
    assert noted(disabled) == [("endpoint.disabled", details)]


OF_THE_ACCOUNT = {"account_id": "acc_1"}
OF_THE_JOB = OF_THE_ACCOUNT | {"domain_id": "dom_1", "job_id": "job_1", "kind": "crawl"}


@pytest.mark.parametrize(
    ("event", "what", "details"),
    [
        (
            CallRefused(AT, "acc_1", "jobs.create", 6, "cooldown_active"),
            "call.refused",
            {"operation": "jobs.create", "check": 6, "code": "cooldown_active"},
        ),
        (CallJoined(AT, "acc_1", "jobs.create"), "call.joined", {"operation": "jobs.create"}),
        (
            WindowRefused(AT, "acc_1", "demo", "jobs.list", "read"),
            "call.limited",
            {"key": "demo", "operation": "jobs.list", "rate_class": "read"},
        ),
        (
            PeriodTurned(AT, "acc_1", "lookups", AT + MINUTE),
            "period.turned",
            {"metric": "lookups", "ends": "2026-03-04T10:01:00Z"},
        ),
        (UnitsUsed(AT, "acc_1", "lookups", 3), "units.used", {"metric": "lookups", "units": 3}),
        (CostReserved(AT, "acc_1", 150_000), "cost.reserved", {"amount": "0.15 USD"}),
        (
            CostSettled(AT, "acc_1", 120_000, 150_000),
            "cost.settled",
            {"amount": "0.12 USD", "released": "0.15 USD"},
        ),
        (SlotsTaken(AT, "acc_1", 4, 1), "slots.taken", {"slots": 4, "revived": 1}),
        (SlotsHeld(AT, "acc_1", 4), "slots.held", {"slots": 4}),
        (SlotsFreed(AT, "acc_1", 4), "slots.freed", {"slots": 4}),
        (JobStarted(AT, "acc_1", "dom_1", "job_1", "crawl"), "job.started", OF_THE_JOB),
        (
            DeliveryQueued(AT, "acc_1", "whk_1", 3, "evt_1"),
            "delivery.queued",
            {"endpoint_id": "whk_1", "delivery_id": 3, "event_id": "evt_1"},
        ),
        (
            DeliveryCancelled(AT, "acc_1", "whk_1", 3),
            "delivery.cancelled",
            {"endpoint_id": "whk_1", "delivery_id": 3},
        ),
        (
            DeliverySuppressed(AT, "acc_1", "whk_1", "dom_1", "job_1", False),
            "delivery.suppressed",
            {"endpoint_id": "whk_1", "domain_id": "dom_1", "job_id": "job_1", "by_account": False},
        ),
        (EndpointEnabled(AT, "acc_1", "whk_1"), "endpoint.enabled", {"endpoint_id": "whk_1"}),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_every_other_event(event: ServiceEvent, what: str, details: dict[str, Any]) -> None:
    assert noted(event) == [(what, OF_THE_ACCOUNT | details)]


def test_there_is_a_word_for_every_event() -> None:
    """Attempts are logged as they go out, and what was answered to which."""
    logged_otherwise = {JobEnded, AttemptMade, AttemptAnswered}
    assert {WORDS[kind] for kind in set(get_args(ServiceEvent)) - logged_otherwise} == {
        "call.granted", "call.refused", "call.joined", "call.limited", "period.turned", "units.used",
        "cost.reserved", "cost.settled", "slots.taken", "slots.held", "slots.freed", "job.queued",
        "job.started", "delivery.queued", "delivery.cancelled", "delivery.suppressed", "endpoint.disabled",
        "endpoint.enabled",
    }  # fmt: skip
    assert noted(AttemptMade(AT, "acc_1", "whk_1", 3, 7, 1), answered()) == []


CALL = AnsweredCall(
    AT, 12, "rest", "production", "POST", "/v1/jobs", ("jobs.create",), "acc_1", "demo",
    409, "cooldown_active", 6, "refused", "", ("fault_1",), 1_250, "dry=1", "after",
)  # fmt: skip


def test_a_call() -> None:
    log = EventLog()
    log.add(CALL)
    assert [one.to_dict() for one in log] == [
        {
            "seq": 1, "at": "2026-03-04T10:00:00Z", "what": "call", "number": 12, "surface": "rest",
            "environment": "production", "method": "POST", "path": "/v1/jobs", "query": "dry=1",
            "operations": ["jobs.create"],
            "account_id": "acc_1", "key": "demo", "status": 409, "dropped": "after",
            "code": "cooldown_active", "check": 6, "outcome": "refused", "rate_class": None,
            "faults": ["fault_1"], "ms": 1.25,
        }
    ]  # fmt: skip


def test_the_last_are_remembered_and_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ranksim.twin.facade.event_log.KEPT", 3)
    log = EventLog()
    for _ in range(5):
        log.add(CALL)
    assert [one.seq for one in log] == [3, 4, 5]
    assert [event.seq for event in log.since(4)] == [5]
    assert [event.seq for event in log.since(0, 2)] == [4, 5]
    assert log.since(5) == []


def test_an_advance_gathers_what_it_tells_of_however_much_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ranksim.twin.facade.event_log.KEPT", 2)
    log = EventLog()
    log.gather()
    ended = JobEnded(AT, "acc_1", "dom_1", "job_1", "crawl", "done", 0, None)
    log.observe([ended, UnitsUsed(AT, "acc_1", "lookups", 3)] * 3)
    log.add(CALL)
    assert [(one.seq, one.what) for one in log.gathered()] == [
        (1, "job.done"),
        (3, "job.done"),
        (5, "job.done"),
    ]
    assert not log.gathers
