"""What should have come: tests, and the ends of jobs."""

from typing import Any

import pytest
from tests.kit.traces import Entry, a_job, attempt, call, created, found, hook, judged, listed

from ranksim.judge.conformance.webhooks import completeness

TEST, SENT = completeness.TEST, completeness.SENT
A_CRAWL = {"kind": "crawl", "domain_id": "dom_1"}
LATER = 200
"""Long after all of it."""


def a_test(sent: float = 0, **more: Any) -> Entry:
    data = {"event_id": "evt_t"}
    return call("webhooks.test", sent, sent + 1, data, status=202, path={"id": "whk_1"}, **more)


def job(which: int = 1, sent: float = 0, domain: str = "dom_1", **ended: Any) -> list[Entry]:
    """Start a job, and poll it to its end."""
    name = f"job_{which}"
    body = {"kind": "crawl", "domain_id": domain}
    return [
        call("jobs.create", sent, sent + 1, a_job(id=name, status="queued"), status=202, body=body),
        call(
            "jobs.get",
            sent + 9,
            sent + 10,
            a_job(id=name, domain_id=domain, **ended),
            path={"kind": "crawl", "id": name},
        ),
    ]


def arrival(which: int = 1, **more: Any) -> Entry:
    return hook(5, event=f"evt_{which}", job={"id": f"job_{which}"}, **more)


TABLE: dict[str, tuple[str, list[Entry], str]] = {
    "a test came": (TEST, [created(), a_test(), hook(2, event="evt_t", type="webhook.test")], "held"),
    "a test came elsewhere": (
        TEST,
        [created(), created(2), a_test(), hook(2, event="evt_t", endpoint="/hooks/2")],
        "broken",
    ),
    "a test neither came nor is listed": (TEST, [created(), a_test(), listed(LATER)], "broken"),
    "a test is listed": (TEST, [created(), a_test(), listed(LATER, attempt("evt_t", 1, None))], "open"),
    "a test, and no later list": (TEST, [created(), listed(-1), a_test()], "open"),
    "a test, and a list soon after": (TEST, [created(), a_test(), listed(30)], "open"),
    "a test of an endpoint from before": (TEST, [a_test(), listed(LATER)], "open"),
    "an end came": (SENT, [created(), *job(), arrival()], "held"),
    "an end neither came nor is listed": (SENT, [created(), *job(), listed(LATER)], "broken"),
    "a failure neither came nor is listed": (
        SENT,
        [created(event_types=["job.failed"]), *job(status="failed", error_detail="e"), listed(LATER)],
        "broken",
    ),
    "an end is listed under an event that came elsewhere": (
        SENT,
        [
            created(),
            created(2),
            *job(),
            arrival(endpoint="/hooks/2"),
            listed(LATER, attempt(status=None), attempt(endpoint="whk_2")),
        ],
        "held",
    ),
    "an end may be what is listed": (
        SENT,
        [created(), *job(), listed(LATER, attempt("evt_9", 1, None))],
        "open",
    ),
    "two ends, of which one is listed": (
        SENT,
        [created(), *job(1), *job(2), listed(LATER, attempt("evt_9", 1, None))],
        "broken",
    ),
    "an end of another type": (SENT, [created(event_types=["job.failed"]), *job(), listed(LATER)], "nothing"),
    "an end on another domain": (SENT, [created(domain_id="dom_2"), *job(), listed(LATER)], "nothing"),
    "an endpoint made after the job": (SENT, [*job(), created(1, 2), listed(LATER)], "nothing"),
    "an endpoint made after a call that was lost, and before it was repeated": (
        SENT,
        [
            call("jobs.create", -5, None, body=A_CRAWL, once="k"),
            created(1, -2),
            call("jobs.create", 0, 1, a_job(id="job_1", status="queued"), status=202, body=A_CRAWL, once="k"),
            *job()[1:],
            listed(LATER),
        ],
        "nothing",
    ),
    "an endpoint that was changed": (
        SENT,
        [
            created(),
            call("webhooks.update", 2, None, path={"id": "whk_1"}, body={"enabled": False}),
            *job(),
            listed(LATER),
        ],
        "nothing",
    ),
    "an end, and a list too soon": (SENT, [created(), *job(), listed(40)], "open"),
    "a list that was not read whole": (
        SENT,
        [created(), *job(), call("webhook_deliveries.list", LATER, LATER + 1, [], more="c")],
        "open",
    ),
    "a list that may be cut short": (
        SENT,
        [
            created(),
            *job(),
            call(
                "webhook_deliveries.list",
                LATER,
                LATER + 1,
                [attempt(f"evt_{n}", 1, 200, "whk_7") for n in range(10, 200)],
            ),
        ],
        "open",
    ),
}


@pytest.mark.fact("S41", "S75", "S93", "E30")
@pytest.mark.parametrize(("rule", "entries", "expected"), TABLE.values(), ids=TABLE)
def test_sending(rule: str, entries: list[Entry], expected: str) -> None:
    assert found(judged(completeness, entries), rule) == expected


def test_what_an_endpoint_of_all_types_was_not_told_though_others_were_is_a_case_of_its_own() -> None:
    failed = job(status="failed", error_detail="e")
    to_one = attempt(endpoint="whk_2")
    entries = [created(), created(2, event_types=["job.failed"]), *failed, listed(LATER, to_one)]
    tally = judged(completeness, [*entries, arrival(endpoint="/hooks/2", type="job.failed")])
    [finding] = [one for one in tally.findings() if one.rule.name == SENT]
    broken = {case.name for case in finding.cases if case.broken}
    assert broken == {"job.failed to an endpoint of all types"}
    assert {case.name for case in finding.cases if case.conforms} == {"crawl failed"}


def test_where_others_may_have_changed_the_endpoint_nothing_is_told() -> None:
    tally = judged(completeness, [created(), *job(), listed(LATER)], exclusive=False)
    assert found(tally, SENT) == "nothing"
