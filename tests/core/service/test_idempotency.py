"""Idempotency-Keys through the service: done once, replayed, refused, forgotten."""

from typing import Any

import pytest

from ranksim.core.clock import DAY, HOUR, MINUTE, SECOND
from ranksim.core.service.calls import Attempt, Fault, Reply
from ranksim.core.service.operations import TABLE

MARK = "Idempotent-Replayed"


def is_replay(reply: Reply) -> bool:
    return reply.headers.get(MARK) == "true" and reply.outcome == "replayed"


def without_id(reply: Reply) -> Any:
    return {name: value for name, value in (reply.body or {}).items() if name != "request_id"}


# Once


def valid_body(desk: Any, operation: str) -> dict[str, Any]:
    """Give a body that a POST accepts at a desk."""
    bodies: dict[str, dict[str, Any]] = {
        "domains.create": {"host": "new.example"},
        "keyword_lists.create": {"domain_id": desk.domain, "name": "more"},
        "keywords.create": {"list_id": desk.list, "keywords": ["a"]},
        "labels.create": {"domain_id": desk.domain, "name": "x"},
        "competitors.create": {"domain_id": desk.domain, "host": "rival.example"},
        "scans.create": {
            "domain_id": desk.domain,
            "list_ids": [desk.list],
            "engine_devices": ["google/desktop"],
            "geographies": [{"country": "DE"}],
        },
        "jobs.create": {"kind": "ai_scan", "domain_id": desk.domain},
        "keyword_briefs.create": {"domain_id": desk.domain, "keywords": ["a"]},
        "webhooks.create": {"url": "https://hooks.example/"},
        "webhooks.test": {},
    }
    return bodies[operation]


POSTS = [operation.name for operation in TABLE if operation.method == "POST"]


@pytest.mark.fact("S28", "S47", "U31")
@pytest.mark.parametrize("operation", POSTS)
def test_a_repeated_post_gets_the_original_response_and_works_once(desk: Any, operation: str) -> None:
    desk.keywords("tracked")
    hook = desk.made("webhooks.create", {"url": "https://hooks.example/"})["id"]
    body = valid_body(desk, operation)
    first = desk.call(operation, body, id=hook, idempotency_key="k")
    assert first.status in (201, 202)
    assert MARK not in first.headers
    desk.wait(1)
    picture = desk.picture()
    for _ in range(2):
        again = desk.call(operation, body, id=hook, idempotency_key="k")
        assert (again.status, again.body) == (first.status, first.body)
        assert is_replay(again)
        assert desk.picture() == picture
    other = desk.call(operation, body, id=hook, idempotency_key="other")
    assert not is_replay(other)
    assert desk.picture() != picture


@pytest.mark.fact("U33")
@pytest.mark.parametrize(("operation", "status"), [("labels.update", 200), ("labels.delete", 204)])
def test_other_methods_ignore_the_key(desk: Any, operation: str, status: int) -> None:
    label = desk.made("labels.create", {"domain_id": desk.domain, "name": "x"})["id"]
    first = desk.call(operation, {"name": "y"}, id=label, idempotency_key="k")
    second = desk.call(operation, {"name": "z"}, id=label, idempotency_key="k")
    assert first.status == status
    assert second.status == (200 if operation == "labels.update" else 404)
    assert desk.call(operation, {"name": "y"}, id=label, idempotency_key="x" * 300).code != (
        "idempotency_key_invalid"
    )


@pytest.mark.fact("E31")
def test_a_repeated_test_event_is_one_event(desk: Any) -> None:
    hook = desk.made("webhooks.create", {"url": "https://hooks.example/"})["id"]
    replies = [desk.call("webhooks.test", id=hook, idempotency_key="k") for _ in range(3)]
    desk.wait(0)
    sent = [task for task in desk.tasks if isinstance(task, Attempt)]
    assert [task.event for task in sent] == [replies[0].body["data"]["event_id"]]
    assert replies[2].body == replies[0].body


@pytest.mark.fact("E32", "S21")
def test_the_secret_is_shown_once_and_by_a_replay_of_the_creation(desk: Any) -> None:
    body = {"url": "https://hooks.example/"}
    first = desk.call("webhooks.create", body, idempotency_key="k").body["data"]
    assert first["secret"]
    assert desk.call("webhooks.create", body, idempotency_key="k").body["data"] == first
    hook = first["id"]
    changed = desk.call("webhooks.update", {"event_types": []}, id=hook).body["data"]
    for shown in (desk.get("webhooks.get", id=hook), *desk.get("webhooks.list"), changed):
        assert shown["id"] == hook
        assert "secret" not in shown


@pytest.mark.fact("E6")
def test_a_replay_shows_the_job_as_it_was_first(desk: Any) -> None:
    first = desk.job("crawl", idempotency_key="k")
    desk.wait(HOUR)
    assert desk.shown(first)["status"] == "done"
    again = desk.job("crawl", idempotency_key="k")
    assert again.body == first.body
    assert again.body["data"]["finished_at"] is None


# The same key, another request


@pytest.mark.fact("S48", "U17")
def test_another_body_is_a_mismatch(desk: Any) -> None:
    first = desk.job("crawl", idempotency_key="k")
    other = desk.job("ai_scan", idempotency_key="k")
    assert (other.status, other.code) == (422, "idempotency_mismatch")
    assert desk.job("crawl", idempotency_key="k").body == first.body


@pytest.mark.fact("S48", "U28")
def test_another_path_is_a_mismatch(desk: Any) -> None:
    one, two = (desk.made("webhooks.create", {"url": f"https://h.example/{n}"})["id"] for n in (1, 2))
    desk.must(desk.call("webhooks.test", id=one, idempotency_key="k"))
    assert desk.call("webhooks.test", id=two, idempotency_key="k").code == "idempotency_mismatch"
    assert desk.job("crawl", idempotency_key="k").code == "idempotency_mismatch"


@pytest.mark.fact("U28")
@pytest.mark.parametrize(("option", "code"), [("canonical", ""), ("raw", "idempotency_mismatch")])
def test_whether_json_written_anew_is_the_same(open_desk: Any, option: str, code: str) -> None:
    desk = open_desk(assumptions={"fingerprint": option})
    body = {"kind": "crawl", "domain_id": desk.domain}
    desk.must(desk.call("jobs.create", body, idempotency_key="k", raw=b"one"))
    again = desk.call("jobs.create", dict(reversed(body.items())), idempotency_key="k", raw=b"two")
    assert again.code == code


@pytest.mark.fact("E1")
def test_a_dry_run_and_the_real_call_are_two_requests(desk: Any) -> None:
    desk.must(desk.job("crawl", dry_run=True, idempotency_key="k"))
    assert desk.job("crawl", idempotency_key="k").code == "idempotency_mismatch"
    assert desk.job("crawl", dry_run=False, idempotency_key="k").code == "idempotency_mismatch"


@pytest.mark.fact("E2")
def test_a_replayed_dry_run_is_stale(desk: Any) -> None:
    desk.must(desk.job("crawl", dry_run=True, idempotency_key="k"))
    desk.must(desk.job("crawl"))
    desk.wait(HOUR)
    replayed = desk.job("crawl", dry_run=True, idempotency_key="k")
    assert is_replay(replayed)
    assert replayed.body["data"]["allowed"]
    assert not desk.job("crawl", dry_run=True).body["data"]["allowed"]


@pytest.mark.fact("E2")
def test_a_dry_run_of_false_is_another_request_than_none(desk: Any) -> None:
    desk.must(desk.job("crawl", idempotency_key="k"))
    assert desk.job("crawl", dry_run=False, idempotency_key="k").code == "idempotency_mismatch"


@pytest.mark.fact("U32")
def test_a_quoted_key_is_the_bare_one(desk: Any) -> None:
    desk.must(desk.job("crawl", idempotency_key="k"))
    assert is_replay(desk.job("crawl", idempotency_key='"k"'))


# Whose keys


@pytest.mark.fact("U27")
@pytest.mark.parametrize(("scope", "shared"), [("api_key", False), ("account", True)])
def test_whose_keys_share_a_name_space(open_desk: Any, scope: str, shared: bool) -> None:
    desk = open_desk(assumptions={"idempotency_scope": scope})
    desk.must(desk.job("ai_scan", idempotency_key="k"))
    assert is_replay(desk.job("ai_scan", idempotency_key="k", key=desk.token("second"))) is shared
    stranger = desk.service.open_account("stranger", "desk", desk.now)
    key = desk.service.issue_key(stranger, "k", desk.now)
    assert desk.job("ai_scan", idempotency_key="k", key=key).code == "not_found"


@pytest.mark.fact("S4", "U27")
def test_rest_and_graphql_share_the_keys(desk: Any) -> None:
    first = desk.job("crawl", idempotency_key="k")
    again = desk.job("crawl", idempotency_key="k", surface="graphql")
    assert is_replay(again)
    assert again.body == first.body


# What is kept


@pytest.mark.fact("E3", "U29", "U93")
def test_a_refusal_is_replayed_though_its_cause_has_passed(desk: Any) -> None:
    desk.must(desk.job("crawl"))
    desk.wait(23 * HOUR)
    refused = desk.job("crawl", idempotency_key="k")
    assert (refused.code, refused.headers["Retry-After"]) == ("cooldown_active", "3600")
    desk.wait(2 * HOUR)
    again = desk.job("crawl", idempotency_key="k")
    assert is_replay(again)
    assert (again.status, again.code, again.check) == (409, "cooldown_active", 6)
    assert without_id(again) == without_id(refused)
    assert again.headers["Retry-After"] == "3600"
    assert desk.job("crawl", idempotency_key="new").status == 202


@pytest.mark.fact("U93", "U6")
@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("seconds", ["3600", "1800", "1"]),
        (
            "http_date",
            [
                "Thu, 05 Mar 2026 10:00:00 GMT",
                "Thu, 05 Mar 2026 10:00:00 GMT",
                "Thu, 05 Mar 2026 10:30:01 GMT",
            ],
        ),
    ],
)
def test_retry_after_of_a_replay_may_be_counted_anew(open_desk: Any, written: str, told: list[str]) -> None:
    desk = open_desk(assumptions={"replayed_retry_after": "refreshed", "retry_after_format": written})
    desk.must(desk.job("crawl"))
    found = []
    for wait in 23 * HOUR + 500_000, 30 * MINUTE - 400_000, HOUR:
        desk.wait(wait)
        found.append(desk.job("crawl", idempotency_key="k").headers["Retry-After"])
    assert found == told


@pytest.mark.fact("E5", "S96", "S107")
def test_a_replayed_error_has_headers_and_an_id_of_its_own(desk: Any) -> None:
    desk.must(desk.job("crawl"))
    first = desk.job("crawl", idempotency_key="k", request_id="first")
    again = desk.job("crawl", idempotency_key="k", request_id="again")
    assert [reply.headers["X-Request-Id"] for reply in (first, again)] == ["first", "again"]
    assert [reply.body["request_id"] for reply in (first, again)] == ["first", "again"]
    assert without_id(first) == without_id(again)
    left = [int(reply.headers["RateLimit-Remaining"]) for reply in (first, again)]
    assert left == [18, 17]
    assert again.headers["Content-Type"] == first.headers["Content-Type"]


@pytest.mark.fact("E4", "U93")
def test_a_replay_passes_the_limiter_whose_refusal_is_not_kept(open_desk: Any) -> None:
    desk = open_desk(facts={"rates": {"expensive": 1}})
    first = desk.job("crawl", idempotency_key="k")
    limited = desk.job("crawl", idempotency_key="k")
    assert (limited.status, limited.code) == (429, "rate_limited")
    desk.wait(MINUTE)
    assert desk.job("crawl", idempotency_key="k").body == first.body
    assert desk.job("ai_scan", idempotency_key="new").status == 429
    desk.wait(MINUTE)
    assert desk.job("ai_scan", idempotency_key="new").status == 202


@pytest.mark.fact("U29", "U93", "U86")
@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"key": "wrong"}, "unauthorized"),
        ({"fault": Fault("not_found")}, "not_found"),
        ({"fault": Fault("method_not_allowed")}, "method_not_allowed"),
        ({"fault": Fault("payload_too_large")}, "payload_too_large"),
        ({"fault": Fault("unsupported_media_type")}, "unsupported_media_type"),
        ({"fault": Fault("invalid_request")}, "invalid_request"),
        ({"body": {"kind": "crawl"}}, "validation_failed"),
        ({"body": {"kind": "crawl", "domain_id": "dom_none"}}, "not_found"),
    ],
)
def test_early_refusals_are_not_kept(desk: Any, wrong: dict[str, Any], code: str) -> None:
    right = {"kind": "crawl", "domain_id": desk.domain}
    body = wrong.pop("body", right)
    assert desk.call("jobs.create", body, idempotency_key="k", **wrong).code == code
    mended = desk.call("jobs.create", right, idempotency_key="k")
    assert mended.status == 202
    assert not is_replay(mended)


@pytest.mark.fact("U93")
def test_a_refusal_for_the_scope_of_a_key_is_not_kept(desk: Any) -> None:
    bound = desk.token("bound", desk.domain)
    url = {"url": "https://hooks.example/"}
    refused = desk.call("webhooks.create", url, key=bound, idempotency_key="k")
    assert (refused.status, refused.code) == (403, "forbidden")
    body = url | {"domain_id": desk.domain}
    assert desk.call("webhooks.create", body, key=bound, idempotency_key="k").status == 201


@pytest.mark.fact("U29", "U93")
@pytest.mark.parametrize("stores", ["all", "success"])
@pytest.mark.parametrize(
    ("plan", "mend", "statuses"),
    [
        ({"capabilities": ()}, lambda desk: desk.change_plan("able"), {}),
        ({}, lambda desk: desk.set_status("active"), {}),
        ({"cost_ceiling": "0 USD"}, lambda desk: desk.change_plan("able"), {}),
        ({"cost_ceiling": "0 USD"}, lambda desk: desk.change_plan("able"), {"cost_cap_reached": 429}),
    ],
)
def test_refusals_of_the_checks_are_kept_or_only_successes_are(
    open_desk: Any, plan: dict[str, Any], mend: Any, statuses: dict[str, int], stores: str
) -> None:
    able = open_desk().policy.catalogue.plans["desk"].model_dump()
    given = {"assumptions": {"idempotency_stores": stores}, "statuses": statuses}
    desk = open_desk(plan, **given, catalogue={"plans": {"able": able}})
    if not plan:
        desk.set_status("past_due")
    refused = desk.job("crawl", idempotency_key="k")
    assert refused.check in (1, 2, 3)
    mend(desk)
    again = desk.job("crawl", idempotency_key="k")
    assert is_replay(again) is (stores == "all")
    assert again.status == (refused.status if stores == "all" else 202)


@pytest.mark.fact("U93")
def test_a_dry_run_is_kept_though_it_would_be_refused(open_desk: Any) -> None:
    desk = open_desk(assumptions={"idempotency_stores": "success"})
    desk.must(desk.job("crawl"))
    first = desk.job("crawl", dry_run=True, idempotency_key="k")
    assert not first.body["data"]["allowed"]
    desk.wait(23 * HOUR)
    assert desk.job("crawl", dry_run=True, idempotency_key="k").body == first.body


@pytest.mark.fact("U93")
def test_what_is_not_kept_may_be_said_otherwise(open_desk: Any) -> None:
    desk = open_desk(assumptions={"idempotency_not_stored": []})
    assert desk.job("crawl", domain="dom_none", idempotency_key="k").code == "not_found"
    assert is_replay(desk.job("crawl", domain="dom_none", idempotency_key="k"))


@pytest.mark.fact("U31")
@pytest.mark.parametrize("header", ["X-Replay", None])
def test_the_mark_of_a_replay_may_be_another_or_none(open_desk: Any, header: str | None) -> None:
    desk = open_desk(assumptions={"replay_header": header})
    first = desk.job("crawl", idempotency_key="k")
    again = desk.job("crawl", idempotency_key="k")
    assert set(again.headers) - set(first.headers) == ({header} if header else set())
    assert again.outcome == "replayed"


# In flight


@pytest.mark.fact("E7", "U18", "U92")
def test_a_key_in_flight_is_refused_until_the_reply_is_written(desk: Any) -> None:
    winner = desk.briefs("a", idempotency_key="k", written=False)
    picture = desk.picture()
    for _ in range(2):
        loser = desk.briefs("a", idempotency_key="k")
        assert (loser.status, loser.code) == (409, "idempotency_in_progress")
        assert desk.picture() == picture
    assert desk.usage()["used"] == 1
    other = desk.briefs("b", idempotency_key="k")
    assert other.code == "idempotency_mismatch"
    desk.service.written(winner, desk.now)
    again = desk.briefs("a", idempotency_key="k")
    assert is_replay(again)
    assert again.body == winner.body
    assert desk.usage()["used"] == 1


@pytest.mark.fact("U92")
def test_a_refusal_is_in_flight_too_and_an_early_one_is_not(desk: Any) -> None:
    desk.must(desk.job("crawl"))
    assert desk.job("crawl", idempotency_key="k", written=False).code == "cooldown_active"
    assert desk.job("crawl", idempotency_key="k").code == "idempotency_in_progress"
    assert desk.job("crawl", domain="dom_none", idempotency_key="early", written=False).code == "not_found"
    assert desk.job("ai_scan", idempotency_key="early").status == 202


@pytest.mark.fact("U92")
def test_keys_may_not_be_in_flight_at_all(open_desk: Any) -> None:
    desk = open_desk(assumptions={"in_flight_until": "never"})
    first = desk.job("crawl", idempotency_key="k", written=False)
    assert desk.job("crawl", idempotency_key="k", written=False).body == first.body


def test_writing_a_reply_without_a_key_is_nothing(desk: Any) -> None:
    picture = desk.picture()
    desk.service.written(desk.call("domains.list", written=False), desk.now)
    assert desk.picture() == picture


# How long


@pytest.mark.fact("S47", "S111", "U30")
@pytest.mark.parametrize(("after", "replayed"), [(0, True), (DAY - 1, True), (DAY, False), (DAY + 1, False)])
def test_a_key_is_kept_for_24_hours_and_the_end_is_exclusive(desk: Any, after: int, replayed: bool) -> None:
    first = desk.job("ai_scan", idempotency_key="k")
    desk.wait(after)
    again = desk.job("ai_scan", idempotency_key="k")
    assert is_replay(again) is replayed
    assert (again.body == first.body) is replayed


@pytest.mark.fact("S111")
def test_after_24_hours_another_body_is_no_mismatch(desk: Any) -> None:
    desk.must(desk.job("ai_scan", idempotency_key="k"))
    desk.wait(DAY)
    second = desk.job("crawl", idempotency_key="k")
    assert second.status == 202
    desk.wait(DAY - 1)
    assert desk.job("crawl", idempotency_key="k").body == second.body


@pytest.mark.fact("U30")
@pytest.mark.parametrize("in_flight", ["written", "never"])
@pytest.mark.parametrize(("begins", "kept_until"), [("acceptance", 0), ("response", HOUR)])
def test_the_24_hours_may_begin_with_the_response(
    open_desk: Any, begins: str, kept_until: int, in_flight: str
) -> None:
    desk = open_desk(assumptions={"idempotency_from": begins, "in_flight_until": in_flight})
    reply = desk.job("ai_scan", idempotency_key="k", written=False)
    desk.wait(HOUR)
    desk.service.written(reply, desk.now)
    desk.wait(DAY - HOUR + kept_until - 1)
    assert is_replay(desk.job("ai_scan", idempotency_key="k"))
    desk.wait(1)
    assert not is_replay(desk.job("ai_scan", idempotency_key="k"))


@pytest.mark.fact("S111")
def test_the_retention_comes_from_the_policy(open_desk: Any) -> None:
    desk = open_desk(facts={"idempotency_retention": "10s"})
    desk.must(desk.job("ai_scan", idempotency_key="k"))
    desk.wait(10 * SECOND)
    assert not is_replay(desk.job("ai_scan", idempotency_key="k"))


@pytest.mark.fact("S111")
def test_old_keys_are_forgotten(desk: Any) -> None:
    for number in range(5):
        desk.must(desk.keywords(f"word {number}", idempotency_key=f"k{number}"))
        desk.wait(HOUR)
    assert len(desk.service.state.stored) == 5
    desk.wait(DAY - 3 * HOUR)
    desk.must(desk.keywords("more", idempotency_key="more"))
    assert len(desk.service.state.stored) == 3
