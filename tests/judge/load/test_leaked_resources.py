"""What is told of things that a run made and nobody removed."""

from __future__ import annotations

import json
from typing import Any

from ranksim.judge.deployment.cleanup import Left
from ranksim.judge.load.leaked_resources import created_in, left_over


def call(operation: str, status: int | None, path: str = "", **data: object) -> dict[str, Any]:
    return {
        "kind": "exchange",
        "operations": [operation],
        "api_key": "main",
        "path": path,
        "status": status,
        "effect": "unknown" if status is None else "yes",
        "response": json.dumps({"data": data}),
    }


def test_what_was_made_and_not_removed_is_listed() -> None:
    lines = [
        {"ranksim_trace": 1},
        {"kind": "note"},
        call("domains.create", 201, id="dom_1"),
        call("domains.create", 201, id="dom_2"),
        call("keyword_lists.create", 201, id="list_1", domain_id="dom_1"),
        call("scans.create", 201, id="scan_1", domain_id="dom_2"),
        call("webhooks.create", 201, id="hook_1", domain_id=None),
        call("labels.create", 201, id="label_1", domain_id="dom_2"),
        call("domains.create", 422),
        call("domains.delete", 204, "/v1/domains/dom_1"),
        call("webhooks.delete", 403, "/v1/webhooks/hook_1"),
    ]
    assert left_over(lines) == [
        Left("scans", "main", "it was not removed", ("scan_1",)),
        Left("webhooks", "main", "it was not removed", ("hook_1",)),
        Left("labels", "main", "it was not removed", ("label_1",)),
        Left("domains", "main", "it was not removed", ("dom_2",)),
    ]


def test_what_got_no_reply_may_have_made_something() -> None:
    assert left_over([call("domains.create", None)]) == [
        Left("domains", "main", "1 call without a reply may have made some")
    ]


def test_what_was_created_is_told_by_what_was_asked_for() -> None:
    """What a deployment answers may name anything, so that it would be removed."""
    lines = [
        call("domains.create", 201, id="ranksim-bad-x") | {"body": '{"host": "ranksim-1f-a-b.example.com"}'},
        call("keywords.create", None) | {"body": '{"keywords": ["ranksim-2 walk 1"]}'},
        call("webhooks.create", 201) | {"body": '{"url": "http://127.0.0.1:9/run/0/1"}'},
        call("domains.list", 200) | {"body": "ranksim-3-x"},
    ]
    created = created_in(lines)
    assert (created.marks, created.urls) == ({"ranksim-1f", "ranksim-2"}, ("http://127.0.0.1:9/run/0/1",))
