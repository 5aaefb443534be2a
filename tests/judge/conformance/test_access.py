"""Keys, environments and scope: what one call shows, and what a key that was accepted may not be refused."""

from typing import Any

import pytest
from tests.kit.traces import Entry, call, found, judged, policy_of

from ranksim.judge.conformance.calls import access

REFUSED: dict[str, Any] = {"code": "unauthorized", "status": 401}


def read(sent: float, operation: str = "domains.list", data: Any = (), **more: Any) -> Entry:
    return call(operation, sent, sent + 1, None if "code" in more else list(data), **more)


def get(sent: float, which: str, **more: Any) -> Entry:
    return call("domains.get", sent, sent + 1, {"id": which}, path={"id": which}, **more)


def endpoint(bound: str | None, shown: Any = "as asked", **more: Any) -> Entry:
    data = {"id": "whk_1"} if shown == "as asked" else {"id": "whk_1", "domain_id": shown}
    body = {"url": "https://a.example", "domain_id": bound}
    return call("webhooks.create", 0, 1, None if "code" in more else data, body=body, key="scoped", **more)


def made(*keywords: Any) -> Entry:
    body = {"list_id": "kwl_2", "keywords": ["one"]}
    return call("keywords.create", 2, 3, {"created": list(keywords), "slots_added": 0}, body=body)


def asked(which: str) -> Entry:
    return call("keywords.get", 4, 5, {"id": which}, path={"id": which}, key="scoped")


KEYWORD = (
    call("keyword_lists.create", 0, 1, {"id": "kwl_2", "domain_id": "dom_2"}, body={"domain_id": "dom_2"}),
    made({"id": "kw_1", "list_id": "kwl_2"}),
)

TWO = [{"id": "dom_1"}, {"id": "dom_2"}]

TABLE: dict[str, tuple[str, list[Entry], str]] = {
    "no key, refused": (access.KEY, [read(0, key=None, **REFUSED)], "held"),
    "no key, answered": (access.KEY, [read(0, key=None)], "broken"),
    "an unknown key, answered": (access.KEY, [read(0, key="unknown")], "broken"),
    "a key that the header does not name": (access.KEY, [read(0, key="someone")], "nothing"),
    "no key, another status": (access.KEY, [read(0, key=None, code="forbidden", status=403)], "differs 12"),
    "the web app, which has no key": (access.KEY, [read(0, key=None, surface="app")], "nothing"),
    "event types without a key": (access.PUBLIC, [read(0, "webhook_events.list", key=None)], "held"),
    "event types refused": (access.PUBLIC, [read(0, "webhook_events.list", key=None, **REFUSED)], "broken"),
    "event types refused to a bad key": (
        access.PUBLIC,
        [read(0, "webhook_events.list", key="unknown", **REFUSED)],
        "open",
    ),
    "a key accepted": (access.ACCEPTED, [read(0)], "held"),
    "a key refused in between": (access.ACCEPTED, [read(0), read(2, **REFUSED), read(4)], "broken"),
    "a key withdrawn": (access.ACCEPTED, [read(0), read(2, **REFUSED), read(4, **REFUSED)], "held"),
    "a key issued late": (access.ACCEPTED, [read(0, **REFUSED), read(2)], "held"),
    "a key refused beside its last success": (
        access.ACCEPTED,
        [read(0), call("domains.list", 2, 9, **REFUSED), read(4)],
        "held",
    ),
    "elsewhere, refused": (access.ENVIRONMENT, [read(0, environment="sandbox", **REFUSED)], "held"),
    "elsewhere, answered": (access.ENVIRONMENT, [read(0, environment="sandbox")], "broken"),
    "its own domain": (access.SCOPE, [read(0, key="scoped", data=TWO[:1])], "held"),
    "all domains": (access.SCOPE, [read(0, key="scoped", data=TWO)], "broken"),
    "another domain by its id": (access.SCOPE, [get(0, "dom_2"), get(2, "dom_2", key="scoped")], "broken"),
    "another domain that a list shows": (
        access.SCOPE,
        [read(0, data=TWO), get(2, "dom_2", key="scoped")],
        "broken",
    ),
    "a keyword in a list of another domain": (access.SCOPE, [*KEYWORD, asked("kw_1")], "broken"),
    "a keyword of another domain, made beside others": (
        access.SCOPE,
        [made({"id": "kw_2", "domain_id": "dom_2"}), asked("kw_2")],
        "broken",
    ),
    "a keyword in a list that nobody knows": (access.SCOPE, [KEYWORD[1], asked("kw_1")], "nothing"),
    "another domain refused": (
        access.SCOPE,
        [get(0, "dom_2"), get(2, "dom_2", key="scoped", code="not_found", status=404)],
        "held",
    ),
    "an id of which nothing is known": (access.SCOPE, [get(0, "dom_9", key="scoped")], "nothing"),
    "an endpoint for its domain": (access.ENDPOINTS, [endpoint("dom_1")], "held"),
    "an endpoint for the account": (access.ENDPOINTS, [endpoint(None)], "broken"),
    "an endpoint for another domain": (access.ENDPOINTS, [endpoint("dom_2")], "broken"),
    "an endpoint bound by the deployment": (access.ENDPOINTS, [endpoint(None, "dom_1")], "held"),
    "an endpoint refused": (access.ENDPOINTS, [endpoint(None, code="forbidden", status=403)], "held"),
    "an endpoint failed": (access.ENDPOINTS, [endpoint(None, code="internal_error", status=500)], "nothing"),
}


@pytest.mark.fact("S1", "S3", "S39", "S68", "S70", "S71", "E48")
@pytest.mark.parametrize(("rule", "entries", "expected"), TABLE.values(), ids=TABLE)
def test_access(rule: str, entries: list[Entry], expected: str) -> None:
    assert found(judged(access, entries), rule) == expected


def test_a_trace_that_declares_no_keys_says_nothing_of_them() -> None:
    tally = judged(access, [read(0, key=None)], keys=False)
    assert {found(tally, rule.name) for rule in access.RULES} == {"nothing"}


def test_a_pinned_status_is_a_deviation() -> None:
    policy = policy_of(statuses={"unauthorized": 401})
    tally = judged(access, [read(0, key=None, code="forbidden", status=403)], policy)
    assert found(tally, access.KEY) == "broken"


@pytest.mark.fact("S68")
def test_a_refusal_for_another_reason_does_not_show_that_a_key_is_wanted() -> None:
    def cases(**more: Any) -> list[str]:
        finding = judged(access, [read(0, key=None, **more)]).findings()
        return [
            case.name for one in finding if one.rule.name == access.KEY for case in one.cases if case.held
        ]

    assert cases(**REFUSED) == ["no key, read"]
    assert cases(code="not_found", status=404) == []
