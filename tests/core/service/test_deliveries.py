"""Webhook endpoints and their deliveries, driven by a clock of the test's own."""

import json
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import pytest

from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND, iso
from ranksim.core.contract.facts import EVENT_TYPES
from ranksim.core.contract.policy import Policy
from ranksim.core.rules.books import Books
from ranksim.core.rules.webhooks import verify
from ranksim.core.service import deliveries
from ranksim.core.service.calls import Answer, Attempt, Body, Call, Reply
from ranksim.core.service.context import ATTEMPT_DUE, Context, Request
from ranksim.core.service.state import Account, Domain, Endpoint, Job, State

START = 1_772_323_200 * SECOND
ACCOUNT = "acc_0000000001"
URL = "https://receiver.example/hook"

Receiver = Callable[[Attempt], Answer]
Handler = Callable[[Context, Request], Reply]


def fails(_: Attempt) -> Answer:
    return Answer(500)


def succeeds(_: Attempt) -> Answer:
    return Answer(200)


class Twin:
    """One account with two domains, the engine of deliveries, and a receiver that answers its attempts."""

    def __init__(self, **assumptions: Any) -> None:
        self.ctx = Context(policy=Policy().replace(assumptions=assumptions), state=State(seed=7))
        self.now = START
        self.answers: list[tuple[int, int, int, Answer]] = []
        self.made: list[tuple[int, Attempt]] = []
        self.account(ACCOUNT, "dom_1", "dom_2")

    def account(self, number: str, *domains: str) -> None:
        state = self.ctx.state
        state.accounts[number] = Account(number, "a", "production", "pro", "active", START, Books())
        for domain in domains:
            state.domains[domain] = Domain(domain, number, f"{domain}.example", None, domain, START)
            state.accounts[number].domains.append(domain)

    def call(
        self,
        handler: Handler,
        body: Body | None = None,
        id: str = "",
        scope: str | None = None,
        account: str = ACCOUNT,
        **query: str,
    ) -> Reply:
        call = Call(handler.__name__, path={"id": id}, query=query, body=body)
        return handler(self.ctx, Request(call, self.now, self.ctx.state.accounts[account], scope))

    def endpoint(self, **body: Any) -> Endpoint:
        """Create an endpoint."""
        reply = self.call(deliveries.create_endpoint, {"url": URL, **body})
        assert reply.status == 201, reply.body
        assert reply.body is not None
        return self.ctx.state.endpoints[reply.body["data"]["id"]]

    def event(self, domain: str = "dom_1", error: str | None = None) -> None:
        """Finish a job."""
        job = Job(
            id=self.ctx.state.new_id("job"),
            account=ACCOUNT,
            domain=domain,
            kind="crawl",
            status="done" if error is None else "failed",
            created_at=self.now,
            units=1,
            estimate=0,
            month_ends=0,
            finished_at=self.now,
            error_detail=error,
        )
        deliveries.emit_job_event(self.ctx, job, self.now)

    def run(self, receiver: Receiver, until: int = START + 2 * DAY) -> None:
        """Let time pass: due attempts are made, and their answers arrive after their duration."""
        ctx = self.ctx
        while True:
            agenda = ctx.state.agenda
            due = min([heap[0][0] for heap in (agenda, self.answers) if heap], default=until + 1)
            if due > until:
                break
            self.now = max(self.now, due)
            if self.answers and self.answers[0][0] == due:
                _, _, attempt, answer = heappop(self.answers)
                deliveries.attempted(ctx, attempt, answer, self.now)
                continue
            _, _, what, which = heappop(agenda)
            assert what == ATTEMPT_DUE
            deliveries.attempt_due(ctx, which, self.now)
            for task in ctx.tasks:
                assert isinstance(task, Attempt)
                self.made.append((self.now, task))
                answer = receiver(task)
                heappush(self.answers, (self.now + answer.duration, task.attempt, task.attempt, answer))
            ctx.tasks.clear()
        self.now = until

    def minutes(self) -> list[int]:
        """When attempts were made, in minutes since the start."""
        return [(at - START) // MINUTE for at, _ in self.made]

    def recorded(self, **query: str) -> list[Body]:
        reply = self.call(deliveries.list_deliveries, **query)
        assert reply.body is not None
        data: list[Body] = reply.body["data"]
        return data

    def assert_idle(self) -> None:
        """Nothing waits, is out or is kept once everything is done."""
        state = self.ctx.state
        assert not state.deliveries
        assert not state.events
        assert not state.attempts_out
        assert all(not endpoint.waiting for endpoint in state.endpoints.values())


def data(reply: Reply) -> Any:
    assert reply.body is not None
    return reply.body["data"]


# Endpoints


@pytest.mark.fact("U73", "S42", "U104", "U108")
def test_an_endpoint_from_creation_to_deletion() -> None:
    twin = Twin()
    made = twin.call(
        deliveries.create_endpoint, {"url": URL, "event_types": ["job.failed"], "domain_id": "dom_1"}
    )
    assert made.status == 201
    shown = dict(data(made))
    del shown["secret"]
    assert shown == {
        "id": shown["id"],
        "url": URL,
        "event_types": ["job.failed"],
        "domain_id": "dom_1",
        "enabled": True,
        "disabled_reason": None,
        "created_at": iso(START),
    }
    assert data(twin.call(deliveries.get_endpoint, id=shown["id"])) == shown
    assert data(twin.call(deliveries.list_endpoints)) == [shown]
    changed = data(twin.call(deliveries.update_endpoint, {"url": "http://b.example:8080/x"}, id=shown["id"]))
    assert changed == {**shown, "url": "http://b.example:8080/x"}
    gone = twin.call(deliveries.delete_endpoint, id=shown["id"])
    assert (gone.status, gone.body) == (204, None)
    assert twin.call(deliveries.get_endpoint, id=shown["id"]).code == "not_found"
    assert data(twin.call(deliveries.list_endpoints)) == []


@pytest.mark.fact("S21", "E32")
def test_the_secret_is_shown_at_creation_and_never_again() -> None:
    twin = Twin()
    made = data(twin.call(deliveries.create_endpoint, {"url": URL}))
    assert made["secret"].startswith("whsec_")
    assert len(made["secret"]) == 70
    for reply in (
        twin.call(deliveries.get_endpoint, id=made["id"]),
        twin.call(deliveries.list_endpoints),
        twin.call(deliveries.update_endpoint, {"enabled": False}, id=made["id"]),
    ):
        assert made["secret"] not in json.dumps(reply.body)
    assert twin.endpoint().secret != made["secret"]
    assert Twin().endpoint().secret == made["secret"]


@pytest.mark.fact("U73")
@pytest.mark.parametrize("url", ["HTTP://127.0.0.1/", "hTtPs://receiver.example/", f"http://{'a' * 253}/"])
def test_a_scheme_in_any_case_and_a_host_as_long_as_dns_has_them_are_taken(url: str) -> None:
    twin = Twin()
    assert data(twin.call(deliveries.create_endpoint, {"url": url}))["url"] == url


@pytest.mark.fact("U24", "U76", "U84")
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"),
        ({"url": None}, "url"),
        ({"url": 7}, "url"),
        ({"url": ""}, "url"),
        ({"url": "receiver.example/hook"}, "url"),
        ({"url": "ftp://receiver.example/"}, "url"),
        ({"url": "https:///hook"}, "url"),
        ({"url": f"https://{'a' * 254}/"}, "url"),
        ({"url": "https://receiver.example:99999/"}, "url"),
        ({"url": "https://[::1/"}, "url"),
        ({"url": "https://receiver.example/a b"}, "url"),
        ({"url": "https://receiver.example*"}, "url"),
        ({"url": "https://receiver.example:65536/"}, "url"),
        ({"url": "https://user:pass@receiver.example/"}, "url"),
        ({"url": "https://receiver.example/\n"}, "url"),
        ({"url": URL, "event_types": "job.failed"}, "event_types"),
        ({"url": URL, "event_types": ["job.failed", "job.started"]}, "event_types.1"),
        ({"url": URL, "event_types": ["webhook.test"]}, "event_types.0"),
        ({"url": URL, "event_types": [1]}, "event_types.0"),
        ({"url": URL, "domain_id": 1}, "domain_id"),
        ({"url": URL, "enabled": "true"}, "enabled"),
        ({"url": URL, "enabled": None}, "enabled"),
    ],
)
def test_a_bad_body_is_refused_by_field(body: Body, field: str) -> None:
    twin = Twin()
    reply = twin.call(deliveries.create_endpoint, body)
    assert (reply.status, reply.code) == (422, "validation_failed")
    assert reply.body is not None
    assert [error["field"] for error in reply.body["meta"]["errors"]] == [field]
    assert all(set(error) == {"field", "expected"} for error in reply.body["meta"]["errors"])
    assert not twin.ctx.state.endpoints


@pytest.mark.fact("U84")
def test_unknown_fields_are_ignored() -> None:
    twin = Twin()
    assert twin.call(deliveries.create_endpoint, {"url": URL, "secret": "mine", "colour": 1}).status == 201
    assert [endpoint.secret for endpoint in twin.ctx.state.endpoints.values()] != ["mine"]


@pytest.mark.fact("S71", "U13", "U14", "U97")
@pytest.mark.parametrize(
    ("scope", "domain", "status", "code"),
    [
        (None, None, 201, ""),
        (None, "dom_2", 201, ""),
        (None, "dom_9", 404, "not_found"),
        (None, "dom_other", 404, "not_found"),
        ("dom_1", None, 403, "forbidden"),
        ("dom_1", "dom_1", 201, ""),
        ("dom_1", "dom_2", 404, "not_found"),
        ("dom_1", "dom_9", 404, "not_found"),
    ],
)
def test_which_key_may_bind_an_endpoint_to_what(
    scope: str | None, domain: str | None, status: int, code: str
) -> None:
    twin = Twin()
    twin.account("acc_0000000002", "dom_other")
    reply = twin.call(deliveries.create_endpoint, {"url": URL, "domain_id": domain}, scope=scope)
    assert (reply.status, reply.code) == (status, code)
    endpoint = twin.endpoint(domain_id="dom_1")
    if status != 201 or domain != "dom_1":
        patched = twin.call(deliveries.update_endpoint, {"domain_id": domain}, id=endpoint.id, scope=scope)
        assert (patched.status, patched.code) == (200 if status == 201 else status, code)


@pytest.mark.fact("S70", "U13", "U97", "E41")
def test_a_scoped_key_sees_only_endpoints_and_attempts_of_its_domain() -> None:
    twin = Twin()
    wide, own, other = (twin.endpoint(domain_id=domain) for domain in (None, "dom_1", "dom_2"))
    twin.event("dom_1")
    twin.event("dom_2")
    twin.run(succeeds)
    assert [one["id"] for one in data(twin.call(deliveries.list_endpoints, scope="dom_1"))] == [own.id]
    assert {one["endpoint_id"] for one in twin.recorded()} == {wide.id, own.id, other.id}
    seen = data(twin.call(deliveries.list_deliveries, scope="dom_1"))
    assert [one["endpoint_id"] for one in seen] == [own.id]
    for handler in (
        deliveries.get_endpoint,
        deliveries.update_endpoint,
        deliveries.test_endpoint,
        deliveries.delete_endpoint,
    ):
        for endpoint in (wide, other):
            assert twin.call(handler, {}, id=endpoint.id, scope="dom_1").status == 404
        assert twin.call(handler, {}, id=own.id, scope="dom_1").status < 300


@pytest.mark.fact("U110")
def test_endpoints_are_filtered_by_domain() -> None:
    twin = Twin()
    twin.endpoint()
    own = twin.endpoint(domain_id="dom_1")
    assert [one["id"] for one in data(twin.call(deliveries.list_endpoints, domain_id="dom_1"))] == [own.id]


@pytest.mark.fact("U84", "S49", "E29", "E45")
def test_a_patch_merges_and_the_last_one_wins() -> None:
    twin = Twin()
    endpoint = twin.endpoint(event_types=list(EVENT_TYPES), domain_id="dom_1")
    twin.call(deliveries.update_endpoint, {"event_types": []}, id=endpoint.id)
    assert (endpoint.event_types, endpoint.domain, endpoint.url) == ([], "dom_1", URL)
    twin.call(deliveries.update_endpoint, {"domain_id": None}, id=endpoint.id)
    assert endpoint.domain is None
    twin.call(deliveries.update_endpoint, {"url": "https://one.example/"}, id=endpoint.id)
    twin.call(deliveries.update_endpoint, {"url": "https://two.example/"}, id=endpoint.id)
    assert endpoint.url == "https://two.example/"
    refused = twin.call(deliveries.update_endpoint, {"url": None, "enabled": False}, id=endpoint.id)
    assert refused.code == "validation_failed"
    refused = twin.call(deliveries.update_endpoint, {"domain_id": "dom_9", "enabled": False}, id=endpoint.id)
    assert refused.code == "not_found"
    assert endpoint.enabled


@pytest.mark.fact("S39", "S75", "U78")
def test_event_types_are_listed() -> None:
    reply = Twin().call(deliveries.list_event_types)
    assert reply.body is not None
    assert [one["type"] for one in reply.body["data"]] == ["job.completed", "job.failed"]
    assert all(set(one) == {"type", "description"} for one in reply.body["data"])
    assert (reply.body["has_more"], reply.body["next_cursor"]) == (False, None)


# Events


@pytest.mark.fact("S76", "S82", "S79", "S80", "S81")
@pytest.mark.parametrize(("error", "event_type"), [(None, "job.completed"), ("no pages", "job.failed")])
def test_a_finished_job_is_delivered_signed(error: str | None, event_type: str) -> None:
    twin = Twin()
    endpoint = twin.endpoint()
    twin.event(error=error)
    twin.run(succeeds)
    [(at, attempt)] = twin.made
    assert (at, attempt.url, attempt.number, attempt.event_type) == (START, URL, 1, event_type)
    body = json.loads(attempt.body)
    assert (body["id"], body["type"]) == (attempt.event, event_type)
    assert body["data"]["job"]["error_detail"] == error
    assert set(body["data"]["job"]) == {"id", "kind", "status", "domain_id", "error_detail", "finished_at"}
    assert attempt.headers["Service-Event-Id"] == attempt.event
    assert attempt.headers["Service-Delivery-Attempt"] == "1"
    assert verify(endpoint.secret, attempt.headers["Service-Signature"], attempt.body, START // SECOND)
    twin.assert_idle()


@pytest.mark.fact("E28", "U74")
def test_two_endpoints_on_one_url_get_one_event_with_two_secrets() -> None:
    twin = Twin()
    endpoints = [twin.endpoint(), twin.endpoint(domain_id="dom_1")]
    twin.endpoint(domain_id="dom_2")
    twin.event("dom_1")
    twin.run(fails, START)
    attempts = [attempt for _, attempt in twin.made]
    assert [attempt.endpoint for attempt in attempts] == [endpoint.id for endpoint in endpoints]
    assert len({attempt.event for attempt in attempts}) == 1
    assert len({attempt.headers["Service-Signature"] for attempt in attempts}) == 2
    assert [attempt.number for attempt in attempts] == [1, 1]


def test_an_event_that_nobody_takes_is_not_kept() -> None:
    twin = Twin()
    twin.endpoint(event_types=["job.failed"])
    twin.event()
    twin.assert_idle()
    assert not twin.ctx.state.agenda


@pytest.mark.fact("S79", "S81", "S90", "S93")
def test_a_failing_delivery_is_tried_six_times_with_one_event_id() -> None:
    twin = Twin()
    twin.endpoint()
    twin.event()
    twin.run(fails)
    assert twin.minutes() == [0, 1, 6, 36, 156, 516]
    assert [attempt.number for _, attempt in twin.made] == [1, 2, 3, 4, 5, 6]
    assert len({(attempt.event, attempt.body, attempt.delivery) for _, attempt in twin.made}) == 1
    twin.assert_idle()


@pytest.mark.fact("U67")
def test_delays_start_where_the_policy_says() -> None:
    def slow(_: Attempt) -> Answer:
        return Answer(None, "timeout", 10 * SECOND)

    for retry_from, seconds in (("failure", [0, 70, 380]), ("first_attempt", [0, 70, 370])):
        twin = Twin(retry_from=retry_from)
        twin.endpoint()
        twin.event()
        twin.run(slow, START + 10 * MINUTE)
        assert [(at - START) // SECOND for at, _ in twin.made] == seconds


@pytest.mark.fact("U67")
def test_jitter_spreads_retries_within_its_bounds_and_repeats() -> None:
    def retries() -> list[int]:
        twin = Twin(retry_jitter_percent=10)
        twin.endpoint()
        for _ in range(19):
            twin.event()
        twin.run(lambda attempt: Answer(500) if attempt.number == 1 else Answer(200))
        return [at - START for at, attempt in twin.made if attempt.number == 2]

    due = retries()
    assert len(set(due)) == 19
    assert 54 * SECOND < min(due) < 57 * SECOND
    assert 63 * SECOND < max(due) < 66 * SECOND
    assert due == retries()


@pytest.mark.fact("U68", "E23")
@pytest.mark.parametrize(
    ("signature_time", "within"),
    [("attempt", [True] * 6), ("first", [True, True, False, False, False, False])],
)
def test_each_attempt_is_signed_anew(signature_time: str, within: list[bool]) -> None:
    twin = Twin(signature_time=signature_time)
    endpoint = twin.endpoint()
    twin.event()
    twin.run(fails)
    assert within == [
        verify(endpoint.secret, attempt.headers["Service-Signature"], attempt.body, at // SECOND)
        for at, attempt in twin.made
    ]


@pytest.mark.fact("E24", "S88", "S93")
def test_a_late_2xx_is_sent_again() -> None:
    twin = Twin()
    twin.endpoint()
    twin.event()
    twin.run(lambda one: Answer(200, duration=10_100_000 if one.number == 1 else SECOND))
    assert [attempt.number for _, attempt in twin.made] == [1, 2]
    assert len({attempt.event for _, attempt in twin.made}) == 1
    assert [(one["status_code"], one["error"]) for one in twin.recorded()] == [(None, "timeout"), (200, None)]


@pytest.mark.fact("S89")
def test_a_redirect_fails() -> None:
    twin = Twin()
    twin.endpoint()
    twin.event()
    twin.run(lambda one: Answer(302 if one.number == 1 else 204))
    assert twin.minutes() == [0, 1]


# Disabling


@pytest.mark.fact("S91", "E22", "U66")
@pytest.mark.parametrize(
    ("events", "minute"),
    [(25, 0), (20, 0), (19, 1), (10, 1), (9, 6), (7, 6), (6, 36), (5, 36), (4, 156), (3, None), (1, None)],
)
def test_when_always_failing_events_disable_an_endpoint(events: int, minute: int | None) -> None:
    twin = Twin()
    endpoint = twin.endpoint()
    for _ in range(events):
        twin.event()
    twin.run(fails)
    assert endpoint.enabled is (minute is None)
    if minute is None:
        assert max(twin.minutes()) == 516
        assert endpoint.failures == 6 * events
    else:
        assert endpoint.disabled_at == START + minute * MINUTE
        assert endpoint.disabled_reason == "20 consecutive failed deliveries"
        assert max(twin.minutes()) == minute
    twin.assert_idle()


@pytest.mark.fact("U66")
@pytest.mark.parametrize(("events", "enabled"), [(19, True), (20, False)])
def test_exhausted_events_can_be_what_counts(events: int, enabled: bool) -> None:
    twin = Twin(failure_counted="event")
    endpoint = twin.endpoint()
    for _ in range(events):
        twin.event()
    twin.run(fails)
    assert len(twin.made) == 6 * events
    assert endpoint.failures == events
    assert endpoint.enabled is enabled
    assert enabled or endpoint.disabled_at == START + 516 * MINUTE


@pytest.mark.fact("S92")
def test_one_success_starts_the_count_again() -> None:
    twin = Twin()
    endpoint = twin.endpoint()
    for number in range(39):
        twin.call(deliveries.test_endpoint, id=endpoint.id)
        twin.run(succeeds if number == 19 else fails, twin.now)
    assert (endpoint.failures, endpoint.enabled) == (19, True)
    twin.call(deliveries.test_endpoint, id=endpoint.id)
    twin.run(fails, twin.now)
    assert (endpoint.failures, endpoint.enabled) == (20, False)


@pytest.mark.fact("E25", "S92")
@pytest.mark.parametrize(("success_after", "enabled"), [(1, True), (30, False)])
def test_consecutive_follows_the_order_of_completion(success_after: int, enabled: bool) -> None:
    """Twenty failures and a success made at one instant: it matters when the success arrives."""
    twin = Twin()
    endpoint = twin.endpoint()
    for _ in range(21):
        twin.event()
    answers = iter(range(21))

    def receiver(_: Attempt) -> Answer:
        turn = next(answers)
        return (
            Answer(200, duration=success_after * 100_000)
            if turn == 0
            else Answer(500, duration=turn * 90_000)
        )

    twin.run(receiver, START + 10 * SECOND)
    assert endpoint.enabled is enabled
    assert endpoint.failures == (19 if enabled else 0)


@pytest.mark.fact("E26")
def test_a_success_after_disabling_does_not_enable() -> None:
    twin = Twin()
    endpoint = twin.endpoint()
    for _ in range(21):
        twin.event()
    first = {"left": 1}

    def receiver(_: Attempt) -> Answer:
        if first["left"]:
            first["left"] = 0
            return Answer(200, duration=5 * SECOND)
        return Answer(500)

    twin.run(receiver)
    assert not endpoint.enabled
    assert endpoint.disabled_reason == "20 consecutive failed deliveries"
    assert twin.recorded()[-1]["status_code"] == 200
    twin.assert_idle()


@pytest.mark.fact("E27", "U69", "S22")
def test_disabling_cancels_the_retries_of_all_events_of_that_endpoint_only() -> None:
    twin = Twin()
    failing, healthy = twin.endpoint(), twin.endpoint(url="https://other.example/")
    for _ in range(7):
        twin.event()

    def receiver(attempt: Attempt) -> Answer:
        mended = attempt.endpoint == healthy.id and attempt.number == 3
        return Answer(200 if mended else 500)

    # Of the failing endpoint's third attempts the sixth is failure number 20: the seventh is not made.
    twin.run(receiver)
    made = Counter((attempt.endpoint, attempt.number) for _, attempt in twin.made)
    assert [made[failing.id, number] for number in range(1, 7)] == [7, 7, 6, 0, 0, 0]
    assert [made[healthy.id, number] for number in range(1, 7)] == [7, 7, 7, 0, 0, 0]
    assert (failing.enabled, healthy.enabled) == (False, True)
    assert [one["next_attempt_at"] for one in twin.recorded(endpoint_id=failing.id)][-1] is None
    twin.assert_idle()


@pytest.mark.fact("U98")
def test_a_disabled_endpoint_gets_no_events_and_cannot_be_tested() -> None:
    twin = Twin()
    endpoint = twin.endpoint()
    twin.event()
    twin.run(fails, START)
    shown = data(twin.call(deliveries.update_endpoint, {"enabled": False}, id=endpoint.id))
    assert (shown["enabled"], shown["disabled_reason"]) == (False, "disabled by the account")
    twin.assert_idle()
    twin.event()
    reply = twin.call(deliveries.test_endpoint, id=endpoint.id)
    assert (reply.status, reply.code) == (409, "endpoint_disabled")
    twin.run(fails)
    assert len(twin.made) == 1


def test_the_reason_of_a_disabled_endpoint_stays() -> None:
    twin = Twin()
    endpoint = twin.endpoint()
    for _ in range(25):
        twin.event()
    twin.run(lambda _: Answer(500, duration=len(twin.made) * SECOND // 10))  # five arrive after disabling
    assert endpoint.failures == 25
    assert endpoint.disabled_at == START + 2 * SECOND
    twin.call(deliveries.update_endpoint, {"enabled": False}, id=endpoint.id)
    assert endpoint.disabled_reason == "20 consecutive failed deliveries"


@pytest.mark.fact("U70", "U98", "U69")
@pytest.mark.parametrize(
    ("count_on_enable", "failures", "still_enabled"), [("zero", 1, True), ("kept", 21, False)]
)
def test_enabling_again(count_on_enable: str, failures: int, still_enabled: bool) -> None:
    twin = Twin(count_on_enable=count_on_enable)
    endpoint = twin.endpoint()
    for _ in range(20):
        twin.event()
    twin.run(fails, START + MINUTE)
    shown = data(twin.call(deliveries.update_endpoint, {"enabled": True}, id=endpoint.id))
    assert (shown["enabled"], shown["disabled_reason"]) == (True, None)
    twin.run(fails)
    assert len(twin.made) == 20  # none of the old retries
    twin.event()
    twin.run(fails, twin.now)
    assert (endpoint.failures, endpoint.enabled) == (failures, still_enabled)


@pytest.mark.fact("U98", "U69")
def test_an_attempt_that_was_out_while_the_endpoint_was_off_is_not_retried() -> None:
    twin = Twin()
    endpoint = twin.endpoint()
    twin.event()
    twin.run(lambda _: Answer(500, duration=5 * SECOND), START)
    twin.call(deliveries.update_endpoint, {"enabled": False}, id=endpoint.id)
    twin.call(deliveries.update_endpoint, {"enabled": True}, id=endpoint.id)
    twin.call(deliveries.test_endpoint, id=endpoint.id)
    twin.run(fails)
    assert [attempt.event_type for _, attempt in twin.made] == ["job.completed", *["webhook.test"] * 6]
    twin.assert_idle()


@pytest.mark.fact("U69")
def test_paused_retries_resume_and_overdue_ones_at_once() -> None:
    twin = Twin(on_disable="pause")
    endpoint = twin.endpoint()
    for _ in range(7):
        twin.event()
    twin.run(fails, START + 7 * MINUTE)  # disabled at +6, by the sixth of the third attempts
    assert not endpoint.enabled
    assert len(endpoint.waiting) == 7
    assert len(twin.made) == 20
    twin.run(fails, START + 20 * MINUTE)
    twin.call(deliveries.update_endpoint, {"enabled": True}, id=endpoint.id)
    twin.run(fails, START + 30 * MINUTE)
    assert twin.minutes()[20:] == [20]  # the seventh was overdue, the others wait until +36
    twin.call(deliveries.update_endpoint, {"enabled": False}, id=endpoint.id)
    twin.run(fails, START + 3 * HOUR)
    assert len(twin.made) == 21
    for enabled in (True, False, True):
        twin.call(deliveries.update_endpoint, {"enabled": enabled}, id=endpoint.id)
    twin.run(succeeds)
    assert twin.minutes()[21:] == [180] * 7  # once each
    assert [attempt.number for _, attempt in twin.made[20:]] == [3, *[4] * 7]
    twin.assert_idle()


@pytest.mark.fact("U69")
@pytest.mark.parametrize("duration", [0, SECOND])
def test_a_retry_that_was_paused_twice_is_made_once(duration: int) -> None:
    twin = Twin(on_disable="pause")
    endpoint = twin.endpoint()
    twin.event()
    twin.run(fails, START)
    twin.call(deliveries.update_endpoint, {"enabled": False}, id=endpoint.id)
    twin.run(fails, START + 10 * MINUTE)
    for enabled in (True, False, True):
        twin.call(deliveries.update_endpoint, {"enabled": enabled}, id=endpoint.id)
    twin.run(lambda _: Answer(500, duration=duration), START + HOUR)
    assert twin.minutes() == [0, 10, 15, 45]
    assert [attempt.number for _, attempt in twin.made] == [1, 2, 3, 4]


def test_deleting_an_endpoint_cancels_and_still_records_what_was_out() -> None:
    twin = Twin()
    endpoint = twin.endpoint()
    twin.event()
    twin.run(fails, START)
    twin.event()
    twin.run(lambda _: Answer(500, duration=SECOND), START)
    twin.call(deliveries.delete_endpoint, id=endpoint.id)
    twin.run(fails)
    assert len(twin.made) == 2
    assert [one["next_attempt_at"] is None for one in twin.recorded()] == [False, True]
    twin.assert_idle()


# Test events and attempts as shown


@pytest.mark.fact("S41", "U72", "U109", "E30")
def test_a_test_event_takes_the_normal_path_past_the_list_of_types() -> None:
    twin = Twin()
    endpoint = twin.endpoint(event_types=["job.failed"], domain_id="dom_1")
    other = twin.endpoint()
    reply = twin.call(deliveries.test_endpoint, id=endpoint.id)
    assert reply.status == 202
    shown = data(reply)
    assert shown == {
        "event_id": shown["event_id"],
        "type": "webhook.test",
        "endpoint_id": endpoint.id,
        "created_at": iso(START),
    }
    twin.run(fails)
    assert twin.minutes() == [0, 1, 6, 36, 156, 516]
    at, attempt = twin.made[1]
    assert json.loads(attempt.body) == {
        "id": shown["event_id"],
        "type": "webhook.test",
        "created_at": iso(START),
        "data": {"test": True},
    }
    assert verify(endpoint.secret, attempt.headers["Service-Signature"], attempt.body, at // SECOND)
    assert (endpoint.failures, other.failures) == (6, 0)


@pytest.mark.fact("U72", "E30")
def test_twenty_failing_test_events_disable() -> None:
    twin = Twin()
    endpoint = twin.endpoint()
    for _ in range(20):
        twin.call(deliveries.test_endpoint, id=endpoint.id)
    twin.run(fails)
    assert endpoint.disabled_at == START


@pytest.mark.fact("S40", "U75", "U109", "U110")
def test_attempts_are_listed_with_what_was_seen() -> None:
    twin = Twin()
    first, second = twin.endpoint(), twin.endpoint()
    twin.event()
    twin.event()

    def receiver(attempt: Attempt) -> Answer:
        if attempt.endpoint == second.id:
            return Answer(204, duration=1_500)
        return Answer(None, "connection refused") if attempt.number == 1 else Answer(503, duration=2 * SECOND)

    twin.run(receiver, START + 2 * MINUTE)
    events = list(dict.fromkeys(attempt.event for _, attempt in twin.made))
    shown = twin.recorded(endpoint_id=first.id, event_id=events[0])
    assert shown == [
        {
            "id": shown[0]["id"],
            "endpoint_id": first.id,
            "event_id": events[0],
            "event_type": "job.completed",
            "attempt": 1,
            "status_code": None,
            "error": "connection refused",
            "duration_ms": 0,
            "next_attempt_at": iso(START + MINUTE),
            "created_at": iso(START),
        },
        {
            "id": shown[1]["id"],
            "endpoint_id": first.id,
            "event_id": events[0],
            "event_type": "job.completed",
            "attempt": 2,
            "status_code": 503,
            "error": None,
            "duration_ms": 2_000,
            "next_attempt_at": iso(START + 6 * MINUTE + 2 * SECOND),
            "created_at": iso(START + MINUTE + 2 * SECOND),
        },
    ]
    assert len(twin.recorded(endpoint_id=first.id)) == 4
    assert [one["duration_ms"] for one in twin.recorded(endpoint_id=second.id)] == [1, 1]
    assert len(twin.recorded()) == 6
    assert len({one["id"] for one in twin.recorded()}) == 6
    assert twin.recorded(event_id="evt_none") == []


@pytest.mark.fact("S9", "S44", "S45", "U16")
def test_attempts_are_paged_and_the_cursor_is_bound() -> None:
    twin = Twin()
    endpoint = twin.endpoint()
    for _ in range(5):
        twin.event()
    twin.run(succeeds)
    whole = twin.recorded()
    walked: list[Body] = []
    query: dict[str, str] = {}
    for size in (2, 2, 1):
        body = twin.call(deliveries.list_deliveries, limit="2", **query).body
        assert body is not None
        assert len(body["data"]) == size
        assert body["has_more"] is (body["next_cursor"] is not None)
        walked += body["data"]
        if body["has_more"]:
            query = {"cursor": body["next_cursor"]}
    assert walked == whole
    for wrong in ({"endpoint_id": endpoint.id}, {"event_id": whole[0]["event_id"]}):
        reply = twin.call(deliveries.list_deliveries, **query, **wrong)
        assert (reply.status, reply.code) == (400, "invalid_cursor")
    assert twin.call(deliveries.list_deliveries, **query, colour="blue").status == 200
    assert twin.call(deliveries.list_endpoints, **query).code == "invalid_cursor"
    assert twin.call(deliveries.list_deliveries, cursor="").code == "invalid_cursor"
    assert twin.call(deliveries.list_deliveries, limit="0").status == 422


@pytest.mark.fact("U75")
def test_attempts_are_forgotten_after_the_retention() -> None:
    twin = Twin(deliveries_retention="1h")
    endpoint = twin.endpoint()
    twin.event()
    twin.run(succeeds, START + HOUR - 1)
    assert len(twin.recorded()) == 1
    twin.now = START + HOUR
    assert twin.recorded() == []
    for _ in range(2 * deliveries._FORGET + 2):
        twin.call(deliveries.test_endpoint, id=endpoint.id)
        twin.run(succeeds, twin.now + 2 * SECOND)
    state = twin.ctx.state
    kept = state.accounts[ACCOUNT].attempts
    assert list(state.attempts) == kept
    assert len(kept) < deliveries._FORGET + HOUR // (2 * SECOND)
    reply = twin.call(deliveries.list_deliveries, limit="1")
    assert data(reply)[0]["created_at"] > iso(twin.now - HOUR)
