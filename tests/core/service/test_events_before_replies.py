"""What arrives out of order, and how a delivery proves where it comes from."""

from typing import Any

import pytest

from ranksim.core.clock import SECOND
from ranksim.core.rules.webhooks import verify
from ranksim.core.service.calls import Attempt, Call


@pytest.mark.fact("E44")
def test_job_completed_may_be_sent_before_the_reply_of_its_post_is_written(open_desk: Any) -> None:
    desk = open_desk(catalogue={"job_durations": {"crawl": "0s"}})
    desk.must(desk.call("webhooks.create", {"url": "https://a.example/hook", "event_types": []}))
    reply = desk.call(
        "jobs.create", {"kind": "crawl", "domain_id": desk.domain}, idempotency_key="k", written=False
    )
    assert reply.body["data"]["status"] == "queued"
    sent = [task for task in desk.service.advance(desk.now).tasks if isinstance(task, Attempt)]
    assert [task.event_type for task in sent] == ["job.completed"]
    again = desk.call("jobs.create", {"kind": "crawl", "domain_id": desk.domain}, idempotency_key="k")
    assert again.code == "idempotency_in_progress", "the reply is not written yet, the event is out"


@pytest.mark.fact("S74", "S69")
def test_a_delivery_is_authenticated_by_its_signature_and_by_nothing_else(open_desk: Any) -> None:
    desk = open_desk()
    made = desk.must(desk.call("webhooks.create", {"url": "https://a.example/hook", "event_types": []}))
    secret = made["secret"]
    desk.must(desk.call("webhooks.test", id=made["id"]))
    (task,) = [task for task in desk.service.advance(desk.now).tasks if isinstance(task, Attempt)] or [
        task for task in desk.tasks if isinstance(task, Attempt)
    ]
    assert not {"authorization", "cookie"} & {name.lower() for name in task.headers}
    signature = task.headers["Service-Signature"]
    assert verify(secret, signature, task.body, desk.now // SECOND)
    assert not verify("whsec_other", signature, task.body, desk.now // SECOND)


@pytest.mark.fact("S69")
def test_a_cookie_is_no_credential(desk: Any) -> None:
    """A call has no place for a cookie: without a bearer token it is anonymous."""
    assert "cookie" not in Call.__slots__
    assert desk.call("account.get", key="").status == 401
