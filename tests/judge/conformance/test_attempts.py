"""Attempts as they come: signed, timely, whole, wanted; and what is listed and shown of endpoints."""

from typing import Any

import pytest
from tests.kit.traces import (
    HOUR,
    START,
    Entry,
    a_job,
    an_endpoint,
    at,
    attempt,
    call,
    created,
    found,
    hook,
    judged,
    listed,
    policy_of,
)

from ranksim.core.clock import SECOND
from ranksim.core.contract.policy import Policy
from ranksim.core.trace import Note
from ranksim.judge.conformance.verdict.verdicts import Tally, Verdict
from ranksim.judge.conformance.webhooks import attempts, views

READ = call("domains.list", -20, -19.9, [])
"""Any call: its Date tells the deployment's clock."""


def start(key: str = "main", job: str = "job_1") -> Entry:
    body = {"kind": "crawl", "domain_id": "dom_1"}
    return call("jobs.create", -5, -4, a_job(id=job, status="queued"), status=202, body=body, key=key)


def a_test(event: str, **more: Any) -> Entry:
    return call("webhooks.test", -5, -4, {"event_id": event}, status=202, path={"id": "whk_1"}, **more)


def shown(sent: float, **fields: Any) -> Entry:
    return call("webhooks.get", sent, sent + 1, an_endpoint(**fields), path={"id": "whk_1"})


def changed(sent: float, received: float | None, **fields: Any) -> Entry:
    return call("webhooks.update", sent, received, an_endpoint(**fields), path={"id": "whk_1"}, body=fields)


OLD: dict[str, Any] = {"t": -400, "valid": False}
JOB_BODY = {"id": "evt_1", "type": "job.completed", "created_at": "2026-03-02T09:00:00Z"}
FAILED: dict[str, Any] = {"status": "failed", "error_detail": "timeout"}
DISABLED: dict[str, Any] = {"enabled": False, "disabled_reason": "20 consecutive failed deliveries"}

TABLE: dict[str, tuple[str, list[Entry], str]] = {
    "verified": (attempts.SIGNATURE, [created(), hook(0)], "held"),
    "not verified": (attempts.SIGNATURE, [created(), hook(0, valid=False)], "broken"),
    "in capitals": (
        attempts.SIGNATURE,
        [created(), hook(0, headers={"service-signature": "t=1772442000,v1=" + "A" * 64})],
        "broken",
    ),
    "with an unknown secret": (attempts.SIGNATURE, [created(), hook(0, valid=None)], "open"),
    "refused for its age": (attempts.SIGNATURE, [created(), hook(0, **OLD)], "open"),
    "at nobody's path": (attempts.SIGNATURE, [created(2), hook(0, valid=False)], "nothing"),
    "at a path of two endpoints": (
        attempts.SIGNATURE,
        [created(1), created(2, url="https://r.example/hooks/1"), hook(0, valid=False)],
        "nothing",
    ),
    "at a path that a lost call may have taken": (
        attempts.SIGNATURE,
        [
            created(),
            call("webhooks.create", -9, None, body={"url": "https://r.example/hooks/1"}),
            hook(0, valid=False),
        ],
        "nothing",
    ),
    "signed as it came": (attempts.FRESH, [READ, created(), hook(0)], "held"),
    "signed 20 s before": (attempts.FRESH, [READ, created(), hook(0, t=-20)], "held"),
    "signed a minute before": (attempts.FRESH, [READ, created(), hook(0, t=-60)], "open"),
    "signed five minutes before": (attempts.FRESH, [READ, created(), hook(0, t=-290)], "open"),
    "signed six minutes before": (attempts.FRESH, [READ, created(), hook(0, t=-360)], "broken"),
    "signed a minute ahead": (attempts.FRESH, [READ, created(), hook(0, t=60)], "broken"),
    "a retry signed as the first": (
        attempts.FRESH,
        [READ, created(), hook(0, status=500), hook(60, attempt=2, t=0)],
        "differs 68",
    ),
    "a retry signed a while before it came": (
        attempts.FRESH,
        [READ, created(), hook(0, status=500), hook(300, attempt=2, t=200)],
        "held",
    ),
    "a retry signed in between": (
        attempts.FRESH,
        [READ, created(), hook(0, status=500), hook(900, attempt=2, t=400)],
        "broken",
    ),
    "all headers": (attempts.HEADERS, [created(), hook(0)], "held"),
    **{
        f"without {name}": (attempts.HEADERS, [created(), hook(0, headers={name: ""})], "broken")
        for name in (
            "content-type",
            "service-signature",
            "service-event-id",
            "service-event-type",
            "service-delivery-attempt",
        )
    },
    "attempt 0": (attempts.HEADERS, [created(), hook(0, attempt=0)], "broken"),
    "a whole body": (attempts.BODY, [created(), hook(0)], "held"),
    "another id inside": (attempts.BODY, [created(), hook(0, body=JOB_BODY | {"id": "evt_9"})], "broken"),
    "no job inside": (attempts.BODY, [created(), hook(0, body=JOB_BODY | {"data": {}})], "broken"),
    **{
        f"a job without {name}": (
            attempts.BODY,
            [
                created(),
                hook(
                    0,
                    body=JOB_BODY | {"data": {"job": {k: v for k, v in a_job().items() if k != name}}},
                ),
            ],
            "broken",
        )
        for name in sorted(attempts.JOB_FIELDS)
    },
    "a test's body": (attempts.BODY, [created(), hook(0, type="webhook.test")], "held"),
    "a test's body that is none": (
        attempts.BODY,
        [created(), hook(0, type="webhook.test", body="hello")],
        "broken",
    ),
    "completed": (attempts.OUTCOME, [created(), hook(0)], "held"),
    "completed with a reason": (
        attempts.OUTCOME,
        [created(), hook(0, job={"error_detail": "oops"})],
        "broken",
    ),
    "failed": (attempts.OUTCOME, [created(), hook(0, type="job.failed", job=FAILED)], "held"),
    "failed and done": (
        attempts.OUTCOME,
        [created(), hook(0, type="job.failed", job={"error_detail": "oops"})],
        "broken",
    ),
    "failed without a reason": (
        attempts.OUTCOME,
        [created(), hook(0, type="job.failed", job={"status": "failed"})],
        "broken",
    ),
    "one event of a job": (
        attempts.EVENT,
        [created(), start(), hook(0, status=500), hook(60, attempt=2)],
        "held",
    ),
    "two events of a job": (
        attempts.EVENT,
        [created(), start(), hook(0), hook(1, event="evt_2")],
        "broken",
    ),
    "two events of an invented job": (
        attempts.EVENT,
        [created(), hook(0), hook(1, event="evt_2")],
        "nothing",
    ),
    "one event of two jobs": (
        attempts.EVENT,
        [created(), hook(0), hook(60, attempt=2, job={"id": "job_2"})],
        "broken",
    ),
    "a body that changes": (
        attempts.EVENT,
        [created(), hook(0), hook(60, attempt=2, job={"progress": 7})],
        "differs 68",
    ),
    "a type that it takes": (attempts.TYPES, [created(event_types=["job.completed"]), hook(0)], "held"),
    "all types": (attempts.TYPES, [created(), hook(0)], "held"),
    "a type that it does not take": (
        attempts.TYPES,
        [created(event_types=["job.failed"]), hook(0)],
        "broken",
    ),
    "a type that it took before": (
        attempts.TYPES,
        [created(), changed(-5, -4, event_types=["job.failed"]), hook(0)],
        "held",
    ),
    "a type that a lost call may let in": (
        attempts.TYPES,
        [created(event_types=["job.failed"]), changed(-5, None, event_types=[]), hook(0)],
        "nothing",
    ),
    "a test that it does not take": (
        attempts.TYPES,
        [created(event_types=["job.failed"]), a_test("evt_1"), hook(0, type="ping")],
        "nothing",
    ),
    "a later type": (
        attempts.TYPES,
        [created(event_types=["job.failed"]), hook(0, type="domain.verified")],
        "open",
    ),
    "its domain": (attempts.SCOPE, [created(domain_id="dom_1"), hook(0)], "held"),
    "another domain": (attempts.SCOPE, [created(domain_id="dom_2"), hook(0)], "broken"),
    "another account's job": (attempts.SCOPE, [created(), start("other"), hook(0)], "broken"),
    "listed as answered": (views.LISTED, [created(), hook(0), listed(9, attempt())], "held"),
    "listed otherwise": (
        views.LISTED,
        [created(), hook(0, status=500), listed(9, attempt())],
        "broken",
    ),
    "listed without an answer": (
        views.LISTED,
        [created(), hook(0), listed(9, attempt(status=None))],
        "open",
    ),
    "answered slowly, listed otherwise": (
        views.LISTED,
        [created(), hook(0, 6), listed(9, attempt(status=500))],
        "open",
    ),
    "answered twice, listed once": (
        views.LISTED,
        [created(), hook(0, status=500), hook(3), listed(9, attempt())],
        "nothing",
    ),
    "no secret shown": (views.SECRET, [created(), shown(0)], "held"),
    "the secret shown again": (views.SECRET, [created(), shown(0, secret="hidden:1")], "broken"),
    "the secret listed again": (
        views.SECRET,
        [created(), call("webhooks.list", 0, 1, [an_endpoint(secret="hidden:1")])],
        "broken",
    ),
    "another text shown": (views.SECRET, [created(), shown(0, secret="hidden:mask")], "open"),
    "a reason": (views.REASON, [created(), shown(0, **DISABLED)], "held"),
    "no reason": (views.REASON, [created(), shown(0, enabled=False)], "broken"),
    "no reason, and changed after": (
        views.REASON,
        [created(), shown(0, enabled=False), changed(5, 6, enabled=True)],
        "broken",
    ),
    "no reason for what was asked": (
        views.REASON,
        [created(), changed(-5, -4, enabled=False), shown(0, enabled=False)],
        "nothing",
    ),
}


@pytest.mark.fact("S22")
@pytest.mark.parametrize(
    ("entries", "exclusive", "conforms"),
    [
        ([created(), shown(0, **DISABLED)], True, True),
        ([created(), shown(0, **DISABLED)], False, False),
        ([created(), changed(-5, -4, **DISABLED), shown(0, **DISABLED)], True, False),
        ([created(**DISABLED), shown(0, **DISABLED)], True, False),
    ],
    ids=["by its failures", "perhaps by others", "by a call", "from the first"],
)
def test_a_reason_tells_of_failures_alone(entries: list[Entry], exclusive: bool, conforms: bool) -> None:
    tally = judged(attempts, entries, exclusive=exclusive)
    [finding] = [one for one in tally.findings() if one.rule.name == views.REASON]
    assert finding.held
    assert finding.verdict == (Verdict.CONFORMS if conforms else Verdict.UNDECIDED)


@pytest.mark.fact("S18", "S19", "S20", "S21", "S22", "S40", "S74", "S76", "S77", "S78", "S79", "S80", "S81")
@pytest.mark.fact("S82", "S83", "S84", "S85", "S86", "E9", "E23", "E27", "E28", "E29", "E32", "E33", "E34")
@pytest.mark.parametrize(("rule", "entries", "expected"), TABLE.values(), ids=TABLE)
def test_webhooks(rule: str, entries: list[Entry], expected: str) -> None:
    assert found(judged(attempts, entries), rule) == expected


def test_a_field_that_is_not_there_is_another_wire_form() -> None:
    endpoint = {
        name: value for name, value in an_endpoint(enabled=False).items() if name != "disabled_reason"
    }
    entries = [created(), call("webhooks.get", 0, 1, endpoint, path={"id": "whk_1"})]
    assert found(judged(attempts, entries), views.REASON) == "differs 73"


def test_a_pinned_signing_time_is_a_deviation() -> None:
    entries = [READ, created(), hook(0, status=500), hook(60, attempt=2, t=0)]
    assert found(judged(attempts, entries, policy_of(signature_time="attempt")), attempts.FRESH) == "broken"


def test_what_the_receiver_found_wrong_is_told() -> None:
    problem = "it is what HMAC-SHA256 gives over the raw body, without t"
    wrong = hook(0, valid=False).model_copy(update={"problem": problem})
    [piece] = judged(attempts, [created(), wrong]).breaches().values()
    assert piece.says.endswith(f"does not verify over the raw body: {problem}")


def test_no_age_excuses_a_signature_without_a_time() -> None:
    """However little a policy tolerates: only what states its time may be refused for its age (S86)."""
    unsigned = hook(0, valid=False)
    unsigned = unsigned.model_copy(update={"signature": unsigned.signature.model_copy(update={"t": None})})
    strict = Policy().replace(facts={"signature_tolerance": "20s"})
    assert found(judged(attempts, [created(), unsigned], strict), attempts.SIGNATURE) == "broken"


@pytest.mark.parametrize(
    ("t", "expected"),
    [(10, "held"), (600, "held"), (-60 * 25 + 600, "held"), (7200, "broken"), (-2 * HOUR, "broken")],
)
def test_under_scaled_time_t_is_of_either_clock(t: float, expected: str) -> None:
    note = Note.model_validate({"t": at(-60), "business": at(-HOUR), "rate": 60})
    assert found(judged(attempts, [note, READ, created(), hook(10, t=t)]), attempts.FRESH) == expected


@pytest.mark.parametrize(("t", "expected"), [(10, "held"), (600, "open"), (-2 * HOUR, "open")])
def test_where_nobody_knows_business_time_it_may_have_signed(t: float, expected: str) -> None:
    note = Note.model_validate({"t": at(-60), "rate": 60})
    assert found(judged(attempts, [note, READ, created(), hook(10, t=t)]), attempts.FRESH) == expected


def test_with_a_changing_pace_age_stays_open() -> None:
    notes: list[Entry] = [
        Note.model_validate({"t": START + n * SECOND, "business": START, "rate": n + 1}) for n in range(2)
    ]
    assert found(judged(attempts, [*notes, READ, created(), hook(10, t=-90)]), attempts.FRESH) == "open"


def test_a_retry_of_a_test_is_no_evidence_of_retries() -> None:
    test = a_test("evt_t")
    tally = judged(
        attempts, [created(), test, hook(1, event="evt_t", status=500), hook(2, attempt=2, event="evt_t")]
    )
    assert exercised(tally, attempts.SIGNATURE) == {"test"}
    tally = judged(attempts, [created(), hook(1, status=500), hook(2, attempt=2)])
    assert exercised(tally, attempts.SIGNATURE) == {"first attempt", "retry"}


def exercised(tally: Tally, rule: str) -> set[str]:
    [finding] = [one for one in tally.findings() if one.rule.name == rule]
    return {case.name for case in finding.cases if case.conforms}
