"""Deployments that conform and answer, list or sign in another way than ranksim: nothing deviates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.kit.traces import Entry, a_job, a_trace, an_endpoint, call, error, hook, policy_of

from ranksim.bridges.rehearsal import rehearse
from ranksim.bridges.rehearsal_worlds import make_world
from ranksim.core.contract.policy import Policy
from ranksim.core.trace import Exchange, Trace
from ranksim.judge.conformance.compare import compare
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.profiles import profile


def rates(limit: int | str, remaining: int, reset: int | str = 60) -> dict[str, str]:
    return {
        "RateLimit-Limit": str(limit),
        "RateLimit-Remaining": str(remaining),
        "RateLimit-Reset": str(reset),
    }


def label(sent: float, remaining: int, *, once: str | None = None, id: str = "l1", **more: Any) -> Exchange:
    data, body = {"id": id, "name": id}, {"domain_id": "d", "name": id}
    headers = rates(120, remaining) | more.pop("headers", {})
    return call(
        "labels.create", sent, sent + 0.1, data, status=201, body=body, once=once, headers=headers, **more
    )


def refused(sent: float, given: str, asked: str = "") -> Exchange:
    reply = error("cooldown_active", 409)
    body = {"kind": "crawl", "domain_id": "d"}
    answer = {"code": "cooldown_active", "status": 409, "reply": reply | {"request_id": "a"}}
    headers = rates(20, 19) | {"X-Request-Id": given}
    return call(
        "jobs.create", sent, sent + 0.1, body=body, once="k", headers=headers, request_id=given, **answer
    )


def read_job(sent: float, finished: str) -> Exchange:
    job = a_job(finished_at=finished)
    path = {"kind": "crawl", "id": "job_1"}
    return call(
        "jobs.get", sent, sent + 1, job, path=path, headers=rates(600, 599 - int(sent), 60 - int(sent))
    )


def brief_page(sent: float, *ids: str, more: str | None = None, cursor: str | None = None) -> Exchange:
    query = {} if cursor is None else {"cursor": cursor}
    items = [{"id": id} for id in ids]
    return call("keyword_briefs.list", sent, sent + 1, items, more=more, query=query)


def refreshed(sent: float, id: str) -> Exchange:
    data = {"id": f"set {sent}", "briefs": [{"id": id, "keyword": "a"}]}
    return call("keyword_briefs.create", sent, sent + 1, data, status=201, body={"keyword_ids": ["k"]})


CASES: dict[str, tuple[Sequence[str], Sequence[Entry]]] = {
    "a replay with the first request's id": (
        ("header.request_id_echo", "error.request_id"),
        [
            refused(0, "a"),
            refused(1, "a").model_copy(
                update={"request_headers": {"Idempotency-Key": "k", "X-Request-Id": "b"}}
            ),
            refused(2, "b"),
        ],
    ),
    "several values in a header": (
        ("rate.headers", "rate.remaining"),
        [label(0, 119, headers={"RateLimit-Limit": "120, 120;w=60"}), label(1, 118, id="l2")],
    ),
    "a fraction of a second": (("rate.headers",), [label(0, 119, headers={"RateLimit-Reset": "59.7"})]),
    "a status that is 404.0": (
        ("error.body",),
        [call("domains.get", 0, 1, code="not_found", status=404, path={"id": "x"})],
    ),
    "an instant that is cut": (
        ("job.final",),
        [read_job(1, "2026-03-02T09:00:00Z"), read_job(3, "2026-03-02T09:00:00.250+00:00")],
    ),
    "a brief that is refreshed stays and moves": (
        ("paging.once", "paging.complete"),
        [
            brief_page(0, "b3", "b2", "b1"),
            brief_page(2, "b3", more="c"),
            refreshed(4, "b1"),
            brief_page(6, "b2", cursor="c"),
            refreshed(8, "b3"),
            brief_page(10, "b3", "b1", "b2"),
        ],
    ),
    "a retry of an event from before a change": (
        ("webhook.types", "webhook.scope"),
        [
            call("webhooks.get", 0, 1, an_endpoint(event_types=["job.failed"]), path={"id": "whk_1"}),
            hook(2, attempt=3, endpoint="whk_1"),
        ],
    ),
}


@pytest.mark.parametrize(("rules", "entries"), CASES.values(), ids=CASES.keys())
def test_another_reply_is_no_deviation(rules: Sequence[str], entries: Sequence[Entry]) -> None:
    entries = [
        one.model_copy(update={"response": one.response.replace('"status": 404', '"status": 404.0')})
        if isinstance(one, Exchange)
        else one
        for one in entries
    ]
    judgement = compare(a_trace(entries))
    assert [piece.says for rule in rules for piece in judgement.finding(rule).evidence] == []


@pytest.fixture(scope="module")
def burst() -> Trace:
    service, target = make_world(Policy(), seed=1)
    return rehearse(profile("burst"), service, target, seed=3)


FORMS = ("{0}, {0};w=60", "{0};w=60", '{0} , {0}; w=60; comment="a, b", 9000;w=3600')


@pytest.mark.slow
@pytest.mark.fact("S100", "S102", "S103", "S104", "S105", "S106", "U5")
@pytest.mark.parametrize("form", FORMS)
def test_a_limit_may_be_told_with_its_policies(burst: Trace, form: str) -> None:
    """S105 names the headers and no text shows their form; the drafts list policies after the limit."""
    listed = [
        one.model_copy(
            update={
                "response_headers": {
                    name: form.format(text) if name.lower() == "ratelimit-limit" else text
                    for name, text in one.response_headers.items()
                }
            }
        )
        for one in burst.exchanges
    ]
    assert any(form.format(20) in one.response_headers.values() for one in listed)
    told, plain = (
        compare(Trace(burst.header, those, burst.deliveries)) for those in (listed, burst.exchanges)
    )
    assert [(one.rule.name, one.verdict, one.held) for one in told.findings] == [
        (one.rule.name, one.verdict, one.held) for one in plain.findings
    ]
    assert told.finding("rate.headers").verdict == told.finding("rate.classes").verdict == "conforms"


@pytest.mark.fact("S105")
@pytest.mark.parametrize("text", ["", "many", "w=60", "-1", "limit=120"])
@pytest.mark.parametrize("name", ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"])
def test_a_header_without_its_number_tells_nothing(name: str, text: str) -> None:
    found = compare(a_trace([label(0, 119, headers={name: text})])).finding("rate.headers")
    assert found.verdict == "deviates"
    assert name in found.evidence[0].says


WRITES = [label(n, 119 - n, once=f"k{n}", id=f"l{n}") for n in range(6)]
REPLAYED = [*WRITES, label(200, 114, once="k5", id="l5")]


def test_a_replay_may_carry_the_first_headers() -> None:
    assert not compare(a_trace(REPLAYED)).finding("rate.remaining").broken


def test_a_deployment_that_marks_replays_marks_all_of_them() -> None:
    """So what carries no mark was counted, and must agree."""
    marked = label(6, 113, once="k4", id="l4", headers={"Idempotent-Replayed": "true"})
    assert compare(a_trace([*REPLAYED, marked])).finding("rate.remaining").broken


@pytest.mark.parametrize(("reset", "breaks"), [(61, False), (62, True)])
def test_a_reset_may_be_rounded_twice_and_no_more(reset: int, breaks: bool) -> None:
    """An end that is rounded up less an instant that is rounded down."""
    entries = [label(0, 119, headers={"RateLimit-Reset": str(reset)}), label(1, 118, id="l2")]
    pinned = policy_of(window="first_hit", refused_calls_count=False)
    assert bool(compare(a_trace(entries), pinned).finding("rate.remaining").broken) == breaks


def test_a_cache_tells_nothing_of_the_clock() -> None:
    fresh = call("domains.list", 0, 1, [])
    old = call("domains.list", 100, 101, [], headers={"Date": "Mon, 02 Mar 2026 09:00:30 GMT", "Age": "70"})
    assert read_history(a_trace([fresh, old])).run.offset == read_history(a_trace([fresh])).run.offset
