"""What of the service's events is noted down, and as what."""

from typing import Any

import pytest

from ranksim.clock import MINUTE, instant
from ranksim.facade.event_log import EventLog
from ranksim.service.calls import Attempt
from ranksim.service.events import (
    AttemptAnswered,
    CallGranted,
    CallRefused,
    EndpointDisabled,
    JobEnded,
    JobQueued,
    ServiceEvent,
)

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
    usual = {"operation": "jobs.create", "account_id": "acc_1", "domain_id": "dom_1"}
    assert noted(queued[0], jobs, words, queued[1], jobs) == [
        ("call.granted", usual | {"job_id": "job_1", "kind": "crawl"}),
        ("call.granted", {"operation": "keywords.create", "account_id": "acc_1"}),
        ("call.granted", usual | {"job_id": "job_2", "kind": "rank_run"}),
    ]


@pytest.mark.parametrize(
    ("due", "shown"), [(AT + MINUTE, "2026-03-04T10:01:00Z"), (None, None)], ids=["retried", "over"]
)
def test_an_answered_attempt(due: int | None, shown: str | None) -> None:
    said = {"status_code": 500, "error": None, "next_attempt_at": shown}
    assert noted(answered(next_attempt_at=due), attempt=ATTEMPT) == [("attempt.answered", TOLD | said)]


def test_an_endpoint_disabled_after_failures_but_not_by_its_account() -> None:
    by_failures = EndpointDisabled(AT, "acc_1", "whk_1", "failures", by_account=False)
    details = {"endpoint_id": "whk_1", "account_id": "acc_1", "reason": "failures"}
    assert noted(by_failures) == [("endpoint.disabled", details)]
    assert noted(by_failures._replace(by_account=True)) == []


def test_what_nobody_follows_is_not_noted() -> None:
    assert noted(CallRefused(AT, "acc_1", "jobs.create", 6, "cooldown_active"), answered()) == []
