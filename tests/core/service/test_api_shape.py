"""The shape of the API as a whole: paths, timestamps, walks, the reads that cost nothing."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ranksim.core.clock import DAY, HOUR, MINUTE, instant
from ranksim.core.rules.paging import bind, encode
from ranksim.core.service.calls import Answer, Attempt
from ranksim.core.service.operations import TABLE

SHOWN = {
    ("GET", "domains"),
    ("GET", "keywords"),
    ("POST", "keywords"),
    ("POST", "scans"),
    ("POST", "jobs"),
    ("GET", "jobs/{kind}/{id}"),
    ("POST", "keyword-briefs"),
    ("GET", "keyword-briefs"),
    ("GET", "slots"),
    ("GET", "account/usage"),
    ("GET", "webhook-events"),
    ("GET", "webhook-deliveries"),
    ("POST", "webhooks/{id}/test"),
}
"""Every endpoint that the specification shows, after /v1/."""

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")


# The table of paths


@pytest.mark.fact("U107")
def test_the_endpoints_that_are_shown_are_the_specified_ones() -> None:
    assert {(operation.method, operation.path) for operation in TABLE if operation.shown} == SHOWN


@pytest.mark.fact("U107")
@pytest.mark.parametrize("operation", TABLE, ids=lambda operation: operation.name)
def test_paths_stand_below_the_prefix_and_are_regular(operation: Any) -> None:
    assert re.fullmatch(r"[a-z-]+(/([a-z-]+|\{id\}|\{kind\}))*", operation.path)
    collection, _, doing = operation.name.partition(".")
    assert operation.path.startswith(collection.replace("_", "-"))
    if doing in ("get", "update", "delete") and collection not in ("slots", "account"):
        assert operation.path.endswith("/{id}")
    if doing in ("list", "create"):
        assert operation.path == collection.replace("_", "-")
    methods = {"create": "POST", "test": "POST", "update": "PATCH", "delete": "DELETE"}
    assert operation.method == methods.get(doing, "GET")


def test_no_two_operations_answer_one_request() -> None:
    assert len({(operation.method, operation.path) for operation in TABLE}) == len(TABLE)
    assert len({operation.name for operation in TABLE}) == len(TABLE)


# Timestamps


def busy(open_desk: Any) -> Any:
    """Open a desk where something of every resource has happened, at instants that are no whole seconds."""
    desk = open_desk(words=["a", "b"], scan=True)
    desk.made("labels.create", {"domain_id": desk.domain, "name": "x"})
    desk.made("competitors.create", {"domain_id": desk.domain, "host": "rival.example"})
    desk.made("webhooks.create", {"url": "https://hooks.example/"})
    for kind in ("rank_run", "crawl", "site_optimization", "ai_scan"):
        desk.wait(1_234_567)
        desk.must(desk.job(kind))
    desk.must(desk.briefs("c"))
    desk.wait(HOUR)
    for attempt in [task for task in desk.tasks if isinstance(task, Attempt)]:
        desk.answer(attempt, Answer(500))
    return desk


def replies(desk: Any) -> Iterator[tuple[str, Any]]:
    """Make every call that reads, and some that refuse."""
    analysis = desk.get("analyses.list")[0]["id"]
    job = desk.get("jobs.list")[0]["id"]
    hook = desk.get("webhooks.list")[0]["id"]
    ids = {"analyses": analysis, "jobs": job, "webhooks": hook, "domains": desk.domain}
    for operation in TABLE:
        if operation.method == "GET":
            collection = operation.name.partition(".")[0]
            first = ids.get(collection) or next(iter(listed(desk, collection)), "")
            yield operation.name, desk.call(operation.name, id=first, kind="rank_run").body
    yield "cooldown", desk.job("crawl").body
    yield "quota", desk.briefs(*"abcdefghijk").body
    yield "dry run", desk.job("crawl", dry_run=True).body
    yield "accepted", desk.job("ai_scan").body
    yield "test", desk.call("webhooks.test", id=hook).body


def listed(desk: Any, collection: str) -> list[str]:
    if f"{collection}.list" not in {operation.name for operation in TABLE}:
        return []
    return [item["id"] for item in desk.get(f"{collection}.list") if "id" in item]


def leaves(body: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Walk the values of a reply, each with the name of its field."""
    if isinstance(body, dict):
        for key, value in body.items():
            yield from leaves(value, key)
    elif isinstance(body, list):
        for value in body:
            yield from leaves(value, name)
    else:
        yield name, body


@pytest.mark.fact("S17")
def test_every_timestamp_is_iso_8601_in_utc(open_desk: Any) -> None:
    desk = busy(open_desk)
    names: set[str] = set()
    for what, body in replies(desk):
        assert body is not None, what
        assert body.get("code") in (None, "cooldown_active", "quota_exhausted"), what
        for name, value in leaves(body):
            looks = isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d.", value) is not None
            if (name.endswith(("_at", "_start", "_end", "_anchor")) and value is not None) or looks:
                assert TIMESTAMP.fullmatch(value), (what, name, value)
                assert instant(value) > 0
                names.add(name)
    assert names >= {
        "created_at",
        "finished_at",
        "last_full_crawl_at",
        "resets_at",
        "next_attempt_at",
        "available_at",
        "period_start",
        "period_end",
        "billing_anchor",
    }


@pytest.mark.fact("S17", "S82", "S83")
def test_a_delivery_names_things_and_tells_time_in_the_same_way(open_desk: Any) -> None:
    desk = busy(open_desk)
    sent = [task for task in desk.tasks if isinstance(task, Attempt)]
    assert len(sent) >= 4
    for attempt in sent:
        body = json.loads(attempt.body)
        assert list(body) == ["id", "type", "created_at", "data"]
        job = ["id", "kind", "status", "domain_id", "error_detail", "finished_at"]
        assert [list(body["data"]), list(body["data"]["job"])] == [["job"], job]
        for value in (body["created_at"], body["data"]["job"]["finished_at"]):
            assert TIMESTAMP.fullmatch(value)


# Walks


def walk(desk: Any, operation: str, **query: str) -> list[str]:
    """Follow next_cursor, unchanged, until has_more is false."""
    found: list[str] = []
    for _ in range(1_000):
        page = desk.call(operation, query=query).body
        found += [item["id"] for item in page["data"]]
        if not page["has_more"]:
            assert page["next_cursor"] is None
            return found
        query["cursor"] = page["next_cursor"]
    raise AssertionError("the walk does not end")


WALKED = {
    "domains": lambda desk, n: {"host": f"d{n}.example"},
    "keyword_lists": lambda desk, n: {"domain_id": desk.domain, "name": f"list {n}"},
    "labels": lambda desk, n: {"domain_id": desk.domain, "name": f"label {n}"},
    "competitors": lambda desk, n: {"domain_id": desk.domain, "host": f"c{n}.example"},
    "webhooks": lambda desk, n: {"url": f"https://hooks.example/{n}"},
}


@pytest.mark.fact("S30", "S43", "S44", "S9", "E40", "U34", "U37", "U105")
@pytest.mark.parametrize("resource", WALKED)
def test_pages_have_50_items_unless_asked_and_200_at_most(open_desk: Any, resource: str) -> None:
    desk = open_desk(facts={"rates": {"write": 1000}})
    ids = [item["id"] for item in desk.get(f"{resource}.list")]
    while len(ids) < 201:
        ids.append(desk.made(f"{resource}.create", WALKED[resource](desk, len(ids)))["id"])

    def length(**query: str) -> tuple[int, bool]:
        page = desk.call(f"{resource}.list", query=query).body
        return len(page["data"]), page["has_more"]

    assert length() == (50, True)
    assert length(limit="1") == (1, True)
    assert length(limit="200") == (200, True)
    assert length(limit="201") == length(limit="9999") == (200, True)
    for limit in ("7", "50", "67", "200"):
        assert walk(desk, f"{resource}.list", limit=limit) == ids
    assert desk.call(f"{resource}.delete", id=ids[-1]).status == 204
    assert length(limit="200") == (200, False)


@pytest.mark.fact("S31", "S45", "U35", "U36", "U110")
def test_a_cursor_belongs_to_its_query(open_desk: Any) -> None:
    desk = open_desk(words=["a", "b", "c"])
    cursor = desk.call("keywords.list", query={"limit": "1", "list_id": desk.list}).body["next_cursor"]
    good = {"limit": "1", "list_id": desk.list, "cursor": cursor}
    assert desk.call("keywords.list", query=good).status == 200
    assert desk.call("keywords.list", query=good | {"limit": "2"}).status == 200
    for wrong in ({"list_id": "other"}, {"label_id": "x"}, {"keyword": "b"}, {"domain_id": desk.domain}):
        reply = desk.call("keywords.list", query=good | wrong)
        assert (reply.status, reply.code) == (400, "invalid_cursor")
    del good["list_id"]
    assert desk.call("keywords.list", query=good).code == "invalid_cursor"
    assert desk.call("labels.list", query={"cursor": cursor}).code == "invalid_cursor"


@pytest.mark.fact("S46", "E39")
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    writes=st.lists(
        st.lists(st.tuples(st.booleans(), st.integers(0, 99)), max_size=4), min_size=1, max_size=12
    ),
    limit=st.integers(1, 4),
)
def test_a_walk_stays_correct_while_others_write(open_desk: Any, writes: Any, limit: int) -> None:
    """What was there all along is seen once, nothing is seen twice, and order is kept."""
    desk = open_desk(facts={"rates": {"write": 1000}})
    for number in range(8):
        desk.made("labels.create", {"domain_id": desk.domain, "name": str(number)})
    there = [item["id"] for item in desk.get("labels.list")]
    always = set(there)
    found: list[str] = []
    query = {"limit": str(limit)}
    for step in [*writes, *[[]] * 100]:
        page = desk.call("labels.list", query=query).body
        found += [item["id"] for item in page["data"]]
        if not page["has_more"]:
            break
        query["cursor"] = page["next_cursor"]
        for create, which in step:
            if create or not there:
                there.append(desk.made("labels.create", {"domain_id": desk.domain, "name": "x"})["id"])
            else:
                gone = there.pop(which % len(there))
                assert desk.call("labels.delete", id=gone).status == 204
                always.discard(gone)
    assert found == sorted(set(found))
    assert always <= set(found)


@pytest.mark.fact("E41", "S70")
@pytest.mark.parametrize("resource", ["keyword_lists", "labels", "competitors", "webhooks"])
def test_a_cursor_shows_a_scoped_key_nothing_of_other_domains(desk: Any, resource: str) -> None:
    other = desk.new_domain("other.example")
    bodies = [
        {"domain_id": domain, "name": "x", "host": "rival.example", "url": "https://hooks.example/"}
        for domain in (desk.domain, other, other, desk.domain)
    ]
    made = [desk.made(f"{resource}.create", body) for body in bodies]
    cursor = encode(made[0]["id"], bind(f"{resource}.list", desk.account, {}))
    own = desk.token("bound", desk.domain)
    for key, shown in (desk.key, made[1:]), (own, made[3:]):
        page = desk.get(f"{resource}.list", query={"cursor": cursor}, key=key)
        assert [item["id"] for item in page] == [item["id"] for item in shown]


# What is taken, and what is shown of it


@pytest.mark.fact("S32", "S29", "S57")
def test_keywords_are_added_to_a_list_and_spend_slots(open_desk: Any) -> None:
    desk = open_desk(words=["a"], scan=True)
    body = {"list_id": desk.list, "keywords": ["b", "c"], "dry_run": True}
    assert desk.made("keywords.create", body)["allowed"]
    assert desk.slots()["used"] == 1
    made = desk.made("keywords.create", body | {"dry_run": False})
    assert (made["list_id"], made["slots_added"]) == (desk.list, 2)
    assert [keyword["keyword"] for keyword in made["created"]] == ["b", "c"]
    assert desk.slots()["used"] == 3
    for wrong in ({"list_id": 1}, {"keywords": "b"}, {"keywords": [1]}, {"dry_run": "true"}):
        assert desk.call("keywords.create", body | wrong).code == "validation_failed"


@pytest.mark.fact("U41", "S34")
def test_a_job_is_for_the_domain_that_its_body_names(desk: Any) -> None:
    other = desk.new_domain("other.example")
    job = desk.made("jobs.create", {"kind": "crawl", "domain_id": other})
    assert (job["kind"], job["domain_id"]) == ("crawl", other)
    assert desk.call("jobs.create", {"kind": "crawl"}).code == "validation_failed"


@pytest.mark.fact("S35", "S56", "S108", "U54")
def test_briefs_are_bounded_by_the_weekly_allowance(desk: Any) -> None:
    desk.must(desk.briefs(*map(str, range(9))))
    assert desk.briefs("x", "y").code == "quota_exhausted"
    desk.must(desk.briefs("x"))
    assert desk.briefs("y").code == "quota_exhausted"
    monday = instant("2026-03-09T00:00:00Z")
    desk.at(monday - 1)
    assert desk.briefs("y").code == "quota_exhausted"
    desk.at(monday)
    desk.must(desk.briefs("y"))
    assert desk.usage()["used"] == 1


@pytest.mark.fact("S22", "S91")
def test_a_disabled_endpoint_shows_its_state_and_the_reason(desk: Any) -> None:
    hook = desk.made("webhooks.create", {"url": "https://hooks.example/"})["id"]
    for _ in range(20):
        shown = desk.get("webhooks.get", id=hook)
        assert (shown["enabled"], shown["disabled_reason"]) == (True, None)
        desk.must(desk.call("webhooks.test", id=hook))
        desk.tasks = []
        desk.at(desk.now)
        [attempt] = desk.tasks
        desk.answer(attempt, Answer(500))
    for shown in (desk.get("webhooks.get", id=hook), *desk.get("webhooks.list")):
        assert (shown["enabled"], shown["disabled_reason"]) == (False, "20 consecutive failed deliveries")


# Reads that cost nothing


@pytest.mark.fact("S36", "E13", "S61", "S67")
def test_briefs_are_read_without_end(open_desk: Any) -> None:
    desk = open_desk({"cost_ceiling": "1 USD"})
    desk.must(desk.briefs("a", "b"))
    assert desk.briefs("c").code == "cost_cap_reached"
    desk.set_status("past_due")
    picture = desk.picture()
    for _ in range(50):
        assert [brief["keyword"] for brief in desk.get("keyword_briefs.list")] == ["a", "b"]
    assert desk.picture() == picture


@pytest.mark.fact("U99", "S102")
def test_reading_briefs_counts_as_reading(open_desk: Any) -> None:
    desk = open_desk(facts={"rates": {"read": 2}})
    assert [desk.call("keyword_briefs.list").status for _ in range(3)] == [200, 200, 429]


@pytest.mark.fact("S38", "S101", "S108", "S110", "E21")
def test_every_metered_allowance_has_a_reset_of_its_own(desk: Any) -> None:
    desk.wait(2 * DAY + 3 * MINUTE)
    assert [
        (shown["metric"], shown["period"], shown["resets_at"])
        for shown in desk.get("account.usage")["metrics"]
    ] == [
        ("research_lookups", "month", "2026-04-04T10:00:00Z"),
        ("keyword_brief_refreshes", "week", "2026-03-09T00:00:00Z"),
    ]
