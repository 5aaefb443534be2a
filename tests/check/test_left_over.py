"""What is told of things that a run made and nobody removed."""

from __future__ import annotations

import json
from typing import Any

from ranksim.check.left_over import left_over


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
        "domains dom_2 with the key main",
        "scans scan_1 with the key main",
        "webhooks hook_1 with the key main",
    ]


def test_what_got_no_reply_may_have_made_something() -> None:
    assert left_over([call("domains.create", None)]) == [
        "what 1 calls made, if anything, whose replies were not seen"
    ]
