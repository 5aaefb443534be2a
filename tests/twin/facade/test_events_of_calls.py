"""What is told of each call: refused, limited, broken by a fault, over REST and over GraphQL."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ranksim.testing import World


@pytest.fixture
def world() -> Iterator[World]:
    with World(plan="pro", seed=1, control_token="") as made:
        yield made


def calls(world: World) -> list[dict[str, Any]]:
    """What was told of calls, without what differs from run to run."""
    shown = [one.to_dict() for one in world.twin.event_log if one.what == "call"]
    assert all(0 < one["ms"] < 600_000 for one in shown)
    return shown


def told(world: World, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(one[name] for name in names) for one in calls(world)]


def test_a_call_and_why_it_was_refused(world: World) -> None:
    client = world.client()
    domain = client.post("/v1/domains", json={"host": "a.example"}).json()["data"]["id"]
    for _ in range(2):
        client.post("/v1/jobs", json={"kind": "crawl", "domain_id": domain})
    client.get("/v1/jobs?limit=1")
    account = world.twin.service.state.keys[world.key].account
    assert told(world, "number", "method", "path", "operations", "status", "code", "check", "outcome") == [
        (1, "POST", "/v1/domains", ["domains.create"], 201, None, None, "ok"),
        (2, "POST", "/v1/jobs", ["jobs.create"], 202, None, None, "granted"),
        (3, "POST", "/v1/jobs", ["jobs.create"], 409, "cooldown_active", 6, "refused"),
        (4, "GET", "/v1/jobs", ["jobs.list"], 200, None, None, "ok"),
    ]
    assert set(told(world, "account_id", "key", "environment", "surface")) == {
        (account, "demo", "production", "rest")
    }
    words = [one.what for one in world.twin.event_log]
    assert words.index("call.granted") < words.index("call.refused")


def test_a_call_that_a_rate_window_refused(world: World) -> None:
    client = world.client()
    for _ in range(21):
        client.post("/v1/jobs", json={})
    assert told(world, "status", "code", "rate_class")[-1] == (429, "rate_limited", "expensive")


def test_a_key_that_is_none_is_nobodys(world: World) -> None:
    world.client("wrong").get("/v1/jobs")
    assert told(world, "status", "code", "key", "account_id") == [(401, "unauthorized", None, None)]


def test_a_graphql_request_is_one_call_and_tells_of_the_first_field_that_was_refused(world: World) -> None:
    wanted = '{ account { id } domain(id: "none") { id } }'
    world.client().post("/graphql", json={"query": wanted})
    assert told(world, "surface", "path", "operations", "status", "code") == [
        ("graphql", "/graphql", ["account.get", "domains.get"], 200, "not_found")
    ]


@pytest.mark.fact("U83", "U112")
@pytest.mark.parametrize(
    ("query", "status", "code", "outcome"),
    [
        ("{ __typename }", 200, None, "ok"),
        ("{ __schema { queryType { name } } }", 200, None, "ok"),
        ("{ account { nothing } }", 422, "validation_failed", "error"),
        ("{ account {", 400, "invalid_request", "error"),
        (
            "{" + " ".join(f"a{n}: account {{ id }}" for n in range(30)) + "}",
            422,
            "validation_failed",
            "error",
        ),
    ],
)
def test_a_graphql_request_without_calls_is_told_as_it_is_answered(
    world: World, query: str, status: int, code: str | None, outcome: str
) -> None:
    answer = world.client().post("/graphql", json={"query": query})
    assert answer.status_code == status
    assert told(world, "status", "code", "outcome", "key") == [(status, code, outcome, "demo")]
    errors = answer.json().get("errors", [])
    assert {one["extensions"]["code"] for one in errors} == ({code} if code else set())
    assert dict(world.twin.replies) == {("", status): 1}


def test_a_refused_mutation_counts_as_refused(world: World) -> None:
    client = world.client()
    domain = client.post("/v1/domains", json={"host": "a.example"}).json()["data"]["id"]
    again = f'mutation {{ createJob(input: {{kind: CRAWL, domainId: "{domain}"}}) {{ job {{ id }} }} }}'
    assert [client.post("/graphql", json={"query": again}).status_code for _ in range(2)] == [200, 200]
    client.post("/graphql", json={"query": "{ __typename }"})
    assert client.get("/_ranksim/overview").json()["answered"] == {"2xx": 3, "4xx": 1}


def test_the_query_of_a_call_is_told(world: World) -> None:
    client = world.client()
    client.get("/v1/jobs?limit=1&status=done")
    client.get("/v1/jobs?limt=" + "3" * 1_000)
    client.get("/v1/jobs")
    (one, *_), (two, *_), (three, *_) = told(world, "query")
    assert (one, two[:8], len(two), three) == ("limit=1&status=done", "limt=333", 300, None)


def test_what_a_fault_did_is_told_with_its_rule(world: World) -> None:
    client = world.client()
    for rule in (
        {"operation": "jobs.list", "error_rate": 1, "times": 1},
        {"operation": "domains.list", "drop_after_rate": 1, "times": 1},
        {"operation": "labels.list", "drop_before_rate": 1, "times": 1},
    ):
        client.post("/_ranksim/faults", json=rule)
    client.get("/v1/jobs")
    for path in ("/v1/domains", "/v1/labels"):
        with pytest.raises(httpx.TransportError):
            client.get(path)
    client.get("/v1/jobs")
    assert told(world, "operations", "status", "dropped", "code", "faults", "outcome", "number") == [
        (["jobs.list"], 500, None, "internal_error", ["fault_1"], "error", 1),
        (["domains.list"], 200, "after", None, ["fault_2"], "ok", 2),
        (["labels.list"], None, "before", None, ["fault_3"], "dropped", None),
        (["jobs.list"], 200, None, None, [], "ok", 3),
    ]
    account = world.twin.service.state.keys[world.key].account
    assert set(told(world, "key", "account_id")) == {("demo", account)}
    assert world.twin.replies == {("jobs.list", 500): 1, ("jobs.list", 200): 1}
    assert [one.shown()["dropped"] for one in world.requests.search()] == [False, True, False]
    assert "answered 200, which was dropped)" in world.requests.search()[1].text()


def test_a_long_path_is_cut(world: World) -> None:
    world.client().get("/v1/" + "x" * 5_000)
    assert [len(path) for (path,) in told(world, "path")] == [300]


def test_what_was_administered_is_told_without_a_token(world: World) -> None:
    client = world.client()
    opened = client.post("/_ranksim/accounts", json={"name": "acme", "plan": "starter"}).json()
    client.patch(f"/_ranksim/accounts/{opened['id']}", json={"plan": "pro", "status": "past_due"})
    key = opened["keys"][0]["key"]
    client.delete(f"/_ranksim/keys/{key}")
    client.patch("/_ranksim/limits", json={"rate": False})
    client.post("/_ranksim/faults", json={"error_rate": 0.5})
    client.delete("/_ranksim/faults/fault_1")
    client.delete("/_ranksim/faults")
    client.post("/_ranksim/snapshots", json={"name": "one"})
    client.delete("/_ranksim/snapshots/one")
    client.delete("/_ranksim/requests")
    world.clock.advance("1h")
    client.post("/_ranksim/reset")
    account = opened["id"]
    assert [(one.what, one.details) for one in world.twin.event_log] == [
        ("account.opened", {"account_id": account, "name": "acme", "plan": "starter"}),
        ("key.issued", {"account_id": account, "name": "default"}),
        ("account.changed", {"account_id": account, "plan": "pro"}),
        ("account.changed", {"account_id": account, "status": "past_due"}),
        ("key.withdrawn", {"account_id": account, "name": "default"}),
        ("limits.changed", {"off": ["rate"]}),
        ("fault.added", {"fault_id": "fault_1", "operation": "*"}),
        ("fault.removed", {"fault_id": "fault_1"}),
        ("faults.cleared", {}),
        ("snapshot.saved", {"name": "one"}),
        ("snapshot.dropped", {"name": "one"}),
        ("requests.cleared", {"count": 0}),
        ("clock.advanced", {"since": "2026-03-02T09:00:00Z"}),
        ("world.began", {"world_id": world.twin.world_id}),
    ]
