"""The table of operations: what the API offers, what of it spends, and what it leaves out."""

from typing import Any

import pytest

from ranksim.core.contract.facts import SPENDING_OPERATIONS
from ranksim.core.service.calls import Reply
from ranksim.core.service.operations import OPERATIONS, TABLE


def meta(reply: Reply) -> Any:
    assert reply.body is not None
    return reply.body["meta"]


@pytest.mark.fact("S51", "S29")
def test_seven_things_spend_through_four_operations() -> None:
    spending = {operation.name for operation in TABLE if operation.spends}
    assert spending == {"jobs.create", "keyword_briefs.create", "keywords.create", "scans.create"}
    assert len(SPENDING_OPERATIONS) == 7
    assert all(OPERATIONS[name].method == "POST" for name in spending)


@pytest.mark.fact("S29")
@pytest.mark.parametrize("spend", SPENDING_OPERATIONS)
@pytest.mark.parametrize("flag", ["true", 1, 0, []])
def test_dry_run_is_a_boolean(open_desk: Any, spend: str, flag: Any) -> None:
    desk = open_desk(words=["shoes"], scan=True)
    before = desk.picture()
    reply = desk.spend(spend, dry_run=flag)
    assert (reply.code, [error["field"] for error in meta(reply)["errors"]]) == (
        "validation_failed",
        ["dry_run"],
    )
    assert desk.picture() == before


@pytest.mark.fact("S5", "S42")
@pytest.mark.parametrize(
    ("resource", "doings"),
    [
        ("domains", "list create get update delete"),
        ("keyword_lists", "list create get update delete"),
        ("keywords", "list create get update delete"),
        ("labels", "list create get update delete"),
        ("competitors", "list create get update delete"),
        ("scans", "list create get update delete"),
        ("slots", "get"),
        ("jobs", "list create get"),
        ("positions", "list history"),
        ("account", "get usage entitlements"),
        ("webhooks", "list create get update delete test"),
    ],
)
def test_complete_resources_have_their_operations(resource: str, doings: str) -> None:
    offered = {name.partition(".")[2] for name in OPERATIONS if name.startswith(f"{resource}.")}
    assert offered == set(doings.split())


@pytest.mark.fact("S6")
@pytest.mark.parametrize(
    "resource", ["crawled_pages", "analyses", "ai_visibility", "backlinks", "integrations"]
)
def test_read_only_resources_have_no_operation_that_writes(resource: str) -> None:
    offered = [operation for operation in TABLE if operation.name.startswith(f"{resource}.")]
    assert offered
    assert {operation.method for operation in offered} == {"GET"}


@pytest.mark.fact("S7", "S72")
@pytest.mark.parametrize(
    "absent",
    [
        *("report", "schedule", "suggest", "research", "lookup", "share"),
        *("key/", "keys", "subscription", "billing", "plan", "add_on", "invoice"),
        *("dismiss", "activate", "curat", "question"),
    ],
)
def test_what_the_api_does_not_offer(absent: str) -> None:
    offered = [f"{operation.name} {operation.path}/" for operation in TABLE]
    assert not [name for name in offered if absent in name]


@pytest.mark.fact("S7")
def test_the_account_is_only_read() -> None:
    methods = {operation.method for operation in TABLE if operation.path.startswith("account")}
    assert methods == {"GET"}


@pytest.mark.fact("S28")
def test_every_post_takes_an_idempotency_key(open_desk: Any) -> None:
    """Sent twice under one key, each POST makes one thing and tells of it twice."""
    desk = open_desk({"capabilities": ()})
    bodies: dict[str, Any] = {
        "domains.create": {"host": "other.example"},
        "keyword_lists.create": {"domain_id": desk.domain, "name": "l"},
        "labels.create": {"domain_id": desk.domain, "name": "l"},
        "competitors.create": {"domain_id": desk.domain, "host": "rival.example"},
        "keywords.create": {"list_id": desk.list, "keywords": ["a"]},
        "scans.create": {
            "domain_id": desk.domain,
            "list_ids": [desk.list],
            "engine_devices": ["google/mobile"],
            "geographies": [{"country": "DE"}],
        },
        "jobs.create": {"kind": "crawl", "domain_id": desk.domain},
        "keyword_briefs.create": {"domain_id": desk.domain, "keywords": ["a"]},
        "webhooks.create": {"url": "https://receiver.example/"},
        "webhooks.test": None,
    }
    assert set(bodies) == {operation.name for operation in TABLE if operation.method == "POST"}
    hook = desk.made("webhooks.create", {"url": "https://receiver.example/"})["id"]
    for number, (operation, body) in enumerate(bodies.items()):
        path = hook if operation == "webhooks.test" else ""
        first = desk.call(operation, body, id=path, idempotency_key=f"k{number}")
        desk.wait(0)
        before = desk.picture()
        again = desk.call(operation, body, id=path, idempotency_key=f"k{number}")
        assert (again.outcome, again.status) == ("replayed", first.status), operation
        assert desk.picture() == before
