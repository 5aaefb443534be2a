"""GraphQL: several calls in one request, on the same keys, limits and books as REST."""

from typing import Any

import pytest

from ranksim.core.clock import HOUR, MINUTE
from ranksim.core.service.calls import Body, Call, Reply


def gql(desk: Any, operation: str, body: Body | None = None, **more: Any) -> Call:
    """Make one field's call."""
    return Call(operation, **{"key": desk.key, "surface": "graphql", "body": body, **more})


def job(desk: Any, kind: str = "crawl", **more: Any) -> Call:
    return gql(desk, "jobs.create", {"kind": kind, "domain_id": desk.domain}, **more)


def send(desk: Any, *calls: Call, written: bool = True) -> list[Reply]:
    step = desk.service.handle_batch(calls, desk.now)
    replies, tasks = step.replies, step.tasks
    desk.tasks += tasks
    for reply in replies:
        if written:
            desk.service.written(reply, desk.now)
    return list(replies)


def statuses(replies: list[Reply]) -> list[int]:
    return [reply.status for reply in replies]


def shown(reply: Reply) -> tuple[int, int]:
    return int(reply.headers["RateLimit-Limit"]), int(reply.headers["RateLimit-Remaining"])


# One request


@pytest.mark.fact("S4", "U83")
def test_the_calls_of_a_request_are_answered_in_order(desk: Any) -> None:
    label = {"domain_id": desk.domain, "name": "x"}
    replies = send(
        desk,
        gql(desk, "labels.create", label),
        gql(desk, "labels.create", {}),
        gql(desk, "labels.list"),
        gql(desk, "domains.get", path={"id": "dom_none"}),
        gql(desk, "reports.create"),
    )
    assert [reply.code for reply in replies] == ["", "validation_failed", "", "not_found", "not_found"]
    assert [reply.operation for reply in replies[:2]] == ["labels.create"] * 2
    assert replies[2].body is not None
    assert len(replies[2].body["data"]) == 1


@pytest.mark.fact("S96", "S105", "S107")
def test_every_reply_of_a_request_carries_its_headers(desk: Any) -> None:
    replies = send(desk, gql(desk, "domains.list", request_id="one"), gql(desk, "labels.create", {}))
    common = dict(replies[0].headers)
    assert common["X-Request-Id"] == "one"
    assert {name: replies[1].headers[name] for name in common} == common
    assert replies[1].body is not None
    assert replies[1].body["request_id"] == "one"
    assert "Content-Type" not in common


@pytest.mark.fact("S68", "U83")
def test_a_request_without_a_key_is_refused_as_a_whole(desk: Any) -> None:
    picture = desk.picture()
    host = {"host": "stolen.example"}
    for calls in (
        [job(desk, key="wrong"), gql(desk, "domains.list", key="wrong")],
        [gql(desk, "webhook_events.list", key=None), gql(desk, "domains.create", host, key=None)],
    ):
        [reply] = send(desk, *calls)
        assert (reply.status, reply.code) == (401, "unauthorized")
    assert desk.picture() == picture


@pytest.mark.fact("S39", "U87")
def test_a_request_for_event_types_alone_needs_no_key(desk: Any) -> None:
    events = gql(desk, "webhook_events.list", key=None)
    replies = send(desk, events, events)
    assert statuses(replies) == [200, 200]
    assert shown(replies[0]) == (600, 599)


@pytest.mark.fact("U83", "S100")
def test_a_request_beyond_the_limit_is_refused_as_a_whole(open_desk: Any) -> None:
    desk = open_desk(facts={"rates": {"expensive": 1}})
    send(desk, job(desk))
    picture = desk.picture()
    [reply] = send(desk, gql(desk, "labels.list"), job(desk, "ai_scan"))
    assert (reply.status, reply.code) == (429, "rate_limited")
    assert reply.headers["Retry-After"] == "60"
    assert desk.picture() == picture


# What it charges


@pytest.mark.fact("U11", "S4")
def test_a_request_is_one_unit_of_its_dearest_class(desk: Any) -> None:
    desk.wait(MINUTE)
    reads = send(desk, *[gql(desk, "labels.list")] * 5)
    assert shown(reads[-1]) == (600, 599)
    both = send(
        desk, gql(desk, "labels.list"), gql(desk, "labels.create", {}), gql(desk, "labels.create", {})
    )
    assert shown(both[0]) == shown(both[-1]) == (120, 119)
    dear = send(desk, gql(desk, "labels.create", {}), job(desk), gql(desk, "labels.list"))
    assert shown(dear[0]) == (20, 19)
    assert shown(desk.call("labels.list")) == (600, 598)
    assert shown(desk.call("labels.create", {})) == (120, 118)
    assert shown(desk.job("ai_scan")) == (20, 18)


@pytest.mark.fact("U11")
def test_each_field_may_be_a_unit(open_desk: Any) -> None:
    desk = open_desk(assumptions={"graphql_cost": "field"})
    desk.wait(MINUTE)
    replies = send(
        desk, gql(desk, "labels.list"), gql(desk, "labels.create", {}), gql(desk, "labels.list"), job(desk)
    )
    assert shown(replies[0]) == (20, 19)
    assert shown(desk.call("labels.list")) == (600, 597)
    assert shown(desk.call("labels.create", {})) == (120, 118)
    assert shown(desk.job("ai_scan")) == (20, 18)


@pytest.mark.fact("U11", "U4")
@pytest.mark.parametrize("window", ["first_hit", "clock", "sliding_log", "sliding_counter", "gcra"])
def test_a_request_with_more_fields_than_are_left_takes_none(open_desk: Any, window: str) -> None:
    desk = open_desk(
        assumptions={"graphql_cost": "field", "window": window}, facts={"rates": {"expensive": 3}}
    )
    fields = [gql(desk, "labels.list"), *[job(desk, "ai_scan")] * 2]
    assert statuses(send(desk, *fields)) == [200, 202, 202]
    [refused] = send(desk, *fields)
    assert (refused.status, shown(refused)) == (429, (3, 1))
    assert int(refused.headers["Retry-After"]) >= 1
    assert shown(desk.call("labels.list"))[1] == 598
    assert desk.job("ai_scan").status == 202
    assert desk.job("ai_scan").status == 429


@pytest.mark.fact("U11", "U3")
def test_fields_that_debit_writes_need_room_for_all(open_desk: Any) -> None:
    desk = open_desk(
        assumptions={"graphql_cost": "field", "expensive_debits_write": True}, facts={"rates": {"write": 3}}
    )
    desk.wait(MINUTE)
    fields = [gql(desk, "labels.create", {}), job(desk, "ai_scan", request_id="x")]
    assert statuses(send(desk, *fields)) == [422, 202]
    [refused] = send(desk, *fields)
    assert (refused.status, shown(refused)) == (429, (3, 1))
    assert shown(desk.job("ai_scan")) == (20, 18)
    assert shown(desk.job("ai_scan")) == (3, 0)


@pytest.mark.fact("U11")
def test_graphql_may_have_buckets_of_its_own(open_desk: Any) -> None:
    desk = open_desk(assumptions={"graphql_cost": "separate"}, facts={"rates": {"expensive": 1}})
    assert shown(send(desk, gql(desk, "labels.list"))[0]) == (600, 599)
    assert shown(desk.call("labels.list")) == (600, 599)
    assert statuses(send(desk, job(desk, "ai_scan"))) == [202]
    assert desk.job("ai_scan").status == 202
    assert statuses(send(desk, job(desk, "ai_scan"))) == [429]
    assert desk.job("ai_scan").status == 429


@pytest.mark.fact("U10", "U11")
def test_a_free_dry_run_shows_the_window_of_its_surface(open_desk: Any) -> None:
    desk = open_desk(assumptions={"graphql_cost": "separate", "dry_run_class": "free"})
    desk.must(desk.job("ai_scan"))
    dry = gql(desk, "jobs.create", {"kind": "crawl", "domain_id": desk.domain, "dry_run": True})
    assert shown(send(desk, dry)[0]) == (20, 20)
    assert shown(desk.job("crawl", dry_run=True)) == (20, 19)


# One set of books


@pytest.mark.fact("E38", "S4")
def test_alternating_surfaces_evades_no_cooldown(desk: Any) -> None:
    assert statuses(send(desk, job(desk))) == [202]
    assert desk.job("crawl").code == "cooldown_active"
    desk.wait(24 * HOUR)
    desk.must(desk.job("crawl"))
    assert send(desk, job(desk))[0].code == "cooldown_active"
    assert [
        reply.code for reply in send(desk, job(desk, "site_optimization"), job(desk, "site_optimization"))
    ] == [
        "",
        "cooldown_active",
    ]


@pytest.mark.fact("E38", "S4")
def test_alternating_surfaces_evades_no_quota(desk: Any) -> None:
    brief = gql(desk, "keyword_briefs.create", {"domain_id": desk.domain, "keywords": ["a"]})
    for _ in range(5):
        desk.must(desk.briefs("a"))
        assert statuses(send(desk, brief)) == [201]
    assert desk.briefs("a").code == "quota_exhausted"
    assert send(desk, brief)[0].code == "quota_exhausted"
    assert desk.usage()["used"] == 10


@pytest.mark.fact("E38", "S4", "U11")
@pytest.mark.parametrize("cost", ["request", "field"])
def test_alternating_surfaces_evades_no_rate_limit(open_desk: Any, cost: str) -> None:
    desk = open_desk(assumptions={"graphql_cost": cost}, facts={"rates": {"expensive": 4}})
    admitted = 0
    for _ in range(4):
        admitted += desk.job("crawl", dry_run=True).status == 200
        admitted += statuses(send(desk, job(desk, "ai_scan")))[0] == 202
    assert admitted == 4


@pytest.mark.fact("E38", "S4")
def test_alternating_surfaces_evades_no_slots_and_no_ceiling(open_desk: Any) -> None:
    desk = open_desk({"slot_limit": 2, "cost_ceiling": "1 USD"}, words=["a"], scan=True)
    words = gql(desk, "keywords.create", {"list_id": desk.list, "keywords": ["b"]})
    assert statuses(send(desk, words)) == [201]
    assert desk.keywords("c").code == "slot_limit_exceeded"
    assert statuses(send(desk, job(desk))) == [202]
    assert desk.job("ai_scan").code == "cost_cap_reached"


@pytest.mark.fact("S4", "S70")
def test_permissions_are_the_same(desk: Any) -> None:
    bound = desk.token("bound", desk.domain)
    desk.new_domain("other.example")
    replies = send(desk, gql(desk, "account.usage", key=bound), gql(desk, "domains.list", key=bound))
    assert replies[0].code == "forbidden"
    assert replies[1].body is not None
    assert [domain["id"] for domain in replies[1].body["data"]] == [desk.domain]


# Idempotency-Keys


@pytest.mark.fact("U33", "S47")
def test_mutations_honour_the_key_each_in_its_place(desk: Any) -> None:
    calls = [job(desk, "ai_scan", idempotency_key="k") for _ in range(2)]
    first = send(desk, *calls)
    again = send(desk, *calls)
    assert statuses(first) == [202, 202]
    assert [reply.body for reply in again] == [reply.body for reply in first]
    assert [reply.outcome for reply in again] == ["replayed", "replayed"]
    assert first[0].body != first[1].body
    marks = [reply.headers.get("Idempotent-Replayed") for reply in (*first, *again)]
    assert marks == [None, None, "true", "true"]


@pytest.mark.fact("U92")
def test_every_mutation_of_a_request_is_in_flight(desk: Any) -> None:
    calls = [job(desk, "ai_scan", idempotency_key="k") for _ in range(2)]
    first = send(desk, *calls, written=False)
    assert [reply.code for reply in send(desk, *calls)] == ["idempotency_in_progress"] * 2
    desk.service.written(first[1], desk.now)
    assert [reply.code for reply in send(desk, *calls)] == ["idempotency_in_progress", ""]


def test_no_key_of_a_client_meets_the_place_of_another(desk: Any) -> None:
    """The second mutation under "k" is not the first under any key that can be written."""
    label = {"domain_id": desk.domain, "name": "x"}
    send(desk, *[gql(desk, "labels.create", label, idempotency_key="k")] * 2)
    for key in ("k #1", "k 1", "1 k", "1k"):
        assert send(desk, gql(desk, "labels.create", label, idempotency_key=key))[0].outcome == "ok"
