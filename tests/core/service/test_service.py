"""One call through the service: the order of its stages, access, request ids, headers, error bodies."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ranksim.core.clock import HOUR, MINUTE, SECOND
from ranksim.core.contract.assumptions import Statuses
from ranksim.core.contract.facts import Decision, Facts
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.register import register
from ranksim.core.contract.yamlfile import read_yaml
from ranksim.core.errors import BadInput
from ranksim.core.service import errors
from ranksim.core.service.calls import Call, Fault, Reply
from ranksim.core.service.errors import TEXTS
from ranksim.core.service.operations import OPERATIONS, TABLE
from ranksim.core.service.service import FAULTS, Service

RATE_HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
PROBLEM_FIELDS = [
    "type",
    "title",
    "status",
    "code",
    "detail",
    "remedy",
    "meta",
    "request_id",
    "documentation_url",
]


# The order of one call


@pytest.mark.fact("U86", "U17", "U24", "S60", "S61")
def test_a_call_passes_its_stages_in_order(open_desk: Any) -> None:
    """Everything is wrong at first; each row mends one fault and meets the next."""
    plan = open_desk().policy.catalogue.plans["desk"].model_dump()
    desk = open_desk(
        {"capabilities": ()},
        facts={"rates": {"expensive": 1}},
        catalogue={"plans": {"able": plan | {"cost_ceiling": 0}, "willing": plan}},
    )
    desk.set_status("past_due")
    desk.job("crawl", idempotency_key="used")
    call: dict[str, Any] = {
        "key": "",
        "fault": Fault("invalid_request"),
        "idempotency_key": "used",
        "body": {"kind": "nonsense"},
    }
    rows: list[tuple[str, Callable[[], Any]]] = [
        ("unauthorized", lambda: None),
        ("rate_limited", lambda: call.update(key=desk.key)),
        ("invalid_request", lambda: desk.wait(MINUTE)),
        ("idempotency_mismatch", lambda: call.update(fault=None)),
        ("validation_failed", lambda: call.update(idempotency_key="")),
        ("not_found", lambda: call.update(body={"kind": "crawl", "domain_id": "dom_none"})),
        ("entitlement_required", lambda: call.update(body={"kind": "crawl", "domain_id": desk.domain})),
        ("subscription_inactive", lambda: desk.change_plan("able")),
        ("cost_cap_reached", lambda: desk.set_status("active")),
        ("", lambda: desk.change_plan("willing")),
    ]
    for code, mend in rows:
        mend()
        sent = {**call, "idempotency_key": call["idempotency_key"] or None}
        reply = desk.call("jobs.create", sent.pop("body"), **sent)
        assert reply.code == code
        if code not in ("unauthorized", "rate_limited"):
            desk.wait(MINUTE)


@pytest.mark.fact("U86")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_form_comes_before_the_idempotency_key(desk: Any, fault: str) -> None:
    desk.must(desk.job("crawl", idempotency_key="k"))
    body = {"kind": "crawl", "domain_id": desk.domain}
    reply = desk.call("jobs.create", body, idempotency_key="k", fault=Fault(fault))
    assert (reply.code, reply.outcome) == (fault, "error")
    assert reply.status == getattr(Statuses(), fault)


@pytest.mark.fact("U86", "U32")
def test_a_malformed_idempotency_key_comes_before_the_body(desk: Any) -> None:
    assert desk.call("jobs.create", {}, idempotency_key="").code == "idempotency_key_invalid"


@pytest.mark.fact("U24", "S97")
def test_an_unknown_operation_is_not_found(desk: Any) -> None:
    for operation in ("", "reports.create"):
        reply = desk.call(operation, method="POST")
        assert (reply.status, reply.code) == (404, "not_found")


def test_work_that_fell_due_precedes_a_call_of_the_same_instant(desk: Any) -> None:
    job = desk.must(desk.job())
    desk.now += 4 * MINUTE
    assert desk.service.next_due() == desk.now
    assert desk.get("jobs.get", kind="rank_run", id=job["id"])["status"] == "done"


# What charges a window


@pytest.mark.fact("U87", "S102", "S103")
@pytest.mark.parametrize(
    ("method", "limit"), [("GET", "600"), ("HEAD", "600"), ("POST", "120"), ("PUT", "120"), ("DELETE", "120")]
)
def test_an_unknown_path_is_charged_by_its_method(desk: Any, method: str, limit: str) -> None:
    assert desk.call("", method=method).headers["RateLimit-Limit"] == limit


@pytest.mark.fact("U87")
def test_an_error_charges_the_key_like_a_success(desk: Any) -> None:
    before = remaining(desk.call("labels.list"))
    desk.call("labels.get", id="none")
    desk.call("labels.list", query={"limit": "0"})
    desk.call("labels.list", fault=Fault("method_not_allowed"))
    desk.call("", method="GET")
    assert remaining(desk.call("labels.list")) == before - 5


@pytest.mark.fact("U8", "U9", "U87")
@pytest.mark.parametrize(
    ("status", "call"),
    [
        (401, Call("jobs.create", key="wrong")),
        (401, Call("jobs.create")),
        (401, Call("", method="POST")),
        (200, Call("webhook_events.list")),
        (200, Call("webhook_events.list", key="wrong")),
        (204, Call("", method="OPTIONS")),
        (204, Call("jobs.create", method="OPTIONS")),
    ],
)
def test_what_needs_no_key_or_has_none_charges_its_caller(open_desk: Any, status: int, call: Call) -> None:
    desk = open_desk(facts={"rates": {"read": 3}})
    before = desk.service.save()
    call.caller = "192.0.2.1"
    for left in "2", "1", "0":
        reply = desk.service.handle(call, desk.now).reply
        assert (reply.status, reply.headers["RateLimit-Limit"]) == (status, "3")
        assert reply.headers["RateLimit-Remaining"] == left
    limited = desk.service.handle(call, desk.now).reply
    assert (limited.status, limited.code) == (429, "rate_limited")
    call.caller = "192.0.2.2"
    elsewhere = desk.service.handle(call, desk.now).reply
    assert (elsewhere.status, remaining(elsewhere)) == (status, 2)
    assert keys_in(desk.service) == keys_in(Service.restore(before, desk.policy))


@pytest.mark.fact("U87", "S39")
def test_the_list_of_event_types_charges_the_caller_though_a_key_is_sent(desk: Any) -> None:
    assert remaining(desk.call("webhook_events.list")) == 599
    assert remaining(desk.call("labels.list")) == 599


def remaining(reply: Reply) -> int:
    return int(reply.headers["RateLimit-Remaining"])


def keys_in(service: Service) -> Any:
    return service.state.keys


# Access


@pytest.mark.fact("S68", "S39", "U12")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("token", [None, "", "rk_live_unknown"])
def test_everything_but_the_list_of_event_types_needs_a_key(
    desk: Any, operation: str, token: str | None
) -> None:
    reply = desk.service.handle(Call(operation, key=token), desk.now).reply
    if operation == "webhook_events.list":
        assert reply.status == 200
        assert [shown["type"] for shown in reply.body["data"]] == ["job.completed", "job.failed"]
    else:
        assert (reply.status, reply.code) == (401, "unauthorized")
        assert reply.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.fact("S68")
def test_a_withdrawn_key_is_unknown(desk: Any) -> None:
    desk.service.withdraw_key(desk.key, desk.now)
    assert desk.call("domains.list").code == "unauthorized"
    with pytest.raises(BadInput, match="no such API key"):
        desk.service.withdraw_key("rk_live_unknown", desk.now)


@pytest.mark.fact("S3", "E48")
@pytest.mark.parametrize("order", ["auth_first", "limiter_first"])
@pytest.mark.parametrize(("home", "abroad"), [("production", "sandbox"), ("sandbox", "production")])
def test_a_key_of_the_other_environment_is_like_an_unknown_one(
    open_desk: Any, home: str, abroad: str, order: str
) -> None:
    desk = open_desk(environment=home, assumptions={"limiter_order": order})
    assert desk.call("domains.list").status == 200
    unknown = desk.call("jobs.create", key="unknown", environment=abroad, request_id="same", caller="a")
    foreign = desk.call("jobs.create", environment=abroad, request_id="same", caller="b")
    assert foreign.status == 401
    assert (foreign.body, foreign.headers) == (unknown.body, unknown.headers)
    assert remaining(desk.job("crawl", dry_run=True)) == 19


@pytest.mark.fact("S2")
def test_the_sandbox_has_the_same_rules(open_desk: Any) -> None:
    def life(environment: str) -> tuple[list[Any], Any]:
        desk = open_desk(environment=environment, words=["a", "b"], scan=True)
        replies = [desk.job(), desk.job(), desk.job("crawl"), desk.briefs("x"), desk.keywords("c")]
        replies += [desk.job("crawl"), desk.call("account.usage"), desk.call("slots.get")]
        return [(reply.status, reply.body, reply.headers) for reply in replies], desk.picture()

    live, test = life("production"), life("sandbox")
    assert live[0] == test[0]
    for part in set(live[1]) - {"keys", "accounts"}:
        assert live[1][part] == test[1][part]


@pytest.mark.fact("S2")
def test_the_sandbox_has_no_consequences_in_production(open_desk: Any) -> None:
    desk = open_desk(words=["a"], scan=True)
    account = desk.service.open_account("twin", "desk", desk.now, environment="sandbox")
    test_key = desk.service.issue_key(account, "test", desk.now)
    reads = ("account.usage", "slots.get", "jobs.list", "domains.list", "keywords.list")
    before = [desk.call(read).body for read in reads]
    sandbox = {"key": test_key, "environment": "sandbox"}
    domain = desk.made("domains.create", {"host": "twin.example"}, **sandbox)["id"]
    desk.must(desk.job("crawl", domain=domain, **sandbox))
    desk.must(desk.briefs("x", domain=domain, **sandbox))
    assert desk.job("crawl", **sandbox).code == "not_found"
    assert [desk.call(read).body for read in reads] == before


@pytest.mark.fact("S70", "U13", "U97")
def test_a_domain_scoped_key_sees_its_own_domain(desk: Any) -> None:
    other = desk.new_domain("other.example")
    bound = desk.token("bound", desk.domain)
    assert [shown["id"] for shown in desk.get("domains.list", key=bound)] == [desk.domain]
    assert desk.get("domains.get", id=desk.domain, key=bound)["host"] == "desk.example"
    assert desk.call("domains.get", id=other, key=bound).code == "not_found"
    assert desk.call("account.usage", key=bound).code == "forbidden"
    assert desk.must(desk.job("crawl", key=bound))["domain_id"] == desk.domain
    assert desk.job("crawl", domain=other, key=bound).code == "not_found"


# Request ids


@pytest.mark.fact("S107", "U79")
@pytest.mark.parametrize(
    ("sent", "used"),
    [
        ("abc", True),
        ("x" * 255, True),
        (" {odd}, but printable; ~!", True),
        (None, False),
        ("", False),
        ("x" * 256, False),
        ("ümlaut", False),
        ("two\nlines", False),
        ("delete\x7f", False),
    ],
)
def test_a_request_id_is_used_as_given_if_it_can_be(desk: Any, sent: str | None, used: bool) -> None:
    for operation in ("domains.list", "domains.get"):
        reply = desk.call(operation, id="none", request_id=sent)
        given = reply.headers["X-Request-Id"]
        assert given == sent if used else re.fullmatch(r"req_\d{12}", given)


@pytest.mark.fact("S107")
def test_every_request_has_an_id_of_its_own(desk: Any) -> None:
    ids = {desk.call("domains.list").headers["X-Request-Id"] for _ in range(10)}
    assert len(ids) == 10


# Errors: how each code is provoked

Provoke = Callable[[Any, dict[str, Any]], Reply]


def limited(open_desk: Any, given: dict[str, Any]) -> Reply:
    given["facts"] = {"rates": {"read": 1}} | given.get("facts", {})
    desk = open_desk(**given)
    desk.call("domains.list")
    return reply_of(desk.call("domains.list"))


def reply_of(reply: Any) -> Reply:
    assert isinstance(reply, Reply)
    return reply


def endpoint(desk: Any, **body: Any) -> str:
    return str(desk.made("webhooks.create", {"url": "https://hooks.example/", **body})["id"])


def fault(code: str) -> Provoke:
    return lambda open_desk, given: reply_of(open_desk(**given).call("domains.list", fault=Fault(code)))


def bound(operation: str) -> Provoke:
    def call(open_desk: Any, given: dict[str, Any]) -> Reply:
        desk = open_desk(**given)
        key, other = desk.token("bound", desk.domain), desk.new_domain("other.example")
        return reply_of(desk.call(operation, id=other, key=key))

    return call


def wrong_cursor(open_desk: Any, given: dict[str, Any]) -> Reply:
    return reply_of(open_desk(**given).call("keywords.list", query={"cursor": "nonsense"}))


def mismatch(open_desk: Any, given: dict[str, Any]) -> Reply:
    desk = open_desk(**given)
    desk.job("crawl", idempotency_key="k")
    return reply_of(desk.job("ai_scan", idempotency_key="k"))


def in_progress(open_desk: Any, given: dict[str, Any]) -> Reply:
    desk = open_desk(**given)
    desk.job("crawl", idempotency_key="k", written=False)
    return reply_of(desk.job("crawl", idempotency_key="k"))


def past_due(open_desk: Any, given: dict[str, Any]) -> Reply:
    desk = open_desk(**given)
    desk.set_status("past_due")
    return reply_of(desk.job("crawl"))


def exhausted(open_desk: Any, given: dict[str, Any]) -> Reply:
    desk = open_desk(**given)
    desk.must(desk.briefs(*map(str, range(8))))
    return reply_of(desk.briefs("x", "y", "z"))


def weekly(open_desk: Any, given: dict[str, Any]) -> Reply:
    return exhausted(open_desk, {**given, "assumptions": {"weekly_exhaustion_code": "allowance_exhausted"}})


def cooling(open_desk: Any, given: dict[str, Any]) -> Reply:
    desk = open_desk(**given)
    desk.must(desk.job("crawl"))
    desk.wait(HOUR + 1)
    return reply_of(desk.job("crawl"))


def disabled(open_desk: Any, given: dict[str, Any]) -> Reply:
    desk = open_desk(**given)
    return reply_of(desk.call("webhooks.test", id=endpoint(desk, enabled=False)))


PROVOKE: dict[str, Provoke] = {
    "unauthorized": lambda open_desk, given: reply_of(open_desk(**given).call("domains.list", key="wrong")),
    "forbidden": bound("account.get"),
    "not_found": lambda open_desk, given: reply_of(open_desk(**given).call("domains.get", id="none")),
    "out_of_scope": bound("domains.get"),
    "method_not_allowed": fault("method_not_allowed"),
    "payload_too_large": fault("payload_too_large"),
    "unsupported_media_type": fault("unsupported_media_type"),
    "invalid_request": fault("invalid_request"),
    "internal_error": fault("internal_error"),
    "validation_failed": lambda open_desk, given: reply_of(open_desk(**given).call("jobs.create", {})),
    "invalid_cursor": wrong_cursor,
    "idempotency_key_invalid": lambda open_desk, given: reply_of(
        open_desk(**given).job(idempotency_key="x" * 256)
    ),
    "idempotency_mismatch": mismatch,
    "idempotency_in_progress": in_progress,
    "rate_limited": limited,
    "entitlement_required": lambda open_desk, given: reply_of(
        open_desk({"capabilities": ()}, **given).job("crawl")
    ),
    "subscription_inactive": past_due,
    "cost_cap_reached": lambda open_desk, given: reply_of(
        open_desk({"cost_ceiling": "0 USD"}, **given).job("crawl")
    ),
    "quota_exhausted": exhausted,
    "allowance_exhausted": weekly,
    "slot_limit_exceeded": lambda open_desk, given: reply_of(
        open_desk({"slot_limit": 1}, words=["a", "b"], **given).scan()
    ),
    "cooldown_active": cooling,
    "endpoint_disabled": disabled,
}
"""Code (or case, for out_of_scope) to what provokes it at a new desk."""

DEFAULT_STATUS = {
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "out_of_scope": 404,
    "method_not_allowed": 405,
    "payload_too_large": 413,
    "unsupported_media_type": 415,
    "invalid_request": 400,
    "internal_error": 500,
    "validation_failed": 422,
    "invalid_cursor": 400,
    "idempotency_key_invalid": 400,
    "idempotency_mismatch": 422,
    "idempotency_in_progress": 409,
    "rate_limited": 429,
    "entitlement_required": 403,
    "subscription_inactive": 402,
    "cost_cap_reached": 402,
    "quota_exhausted": 402,
    "allowance_exhausted": 402,
    "slot_limit_exceeded": 402,
    "cooldown_active": 409,
    "endpoint_disabled": 409,
}


def test_every_code_is_provoked() -> None:
    assert set(PROVOKE) == set(DEFAULT_STATUS) == set(TEXTS)


@pytest.mark.fact("S11", "S94", "S95", "S96", "S97", "E36", "U25")
@pytest.mark.parametrize("code", PROVOKE)
def test_an_error_is_a_complete_error_body(open_desk: Any, code: str) -> None:
    reply = PROVOKE[code](open_desk, {})
    shown = "not_found" if code == "out_of_scope" else code
    body = reply.body
    assert body is not None
    assert list(body) == PROBLEM_FIELDS
    assert (body["code"], body["status"]) == (shown, reply.status)
    assert reply.code == shown
    assert body["type"] == body["documentation_url"]
    assert re.fullmatch(rf"https://[a-z.-]+/api/errors#{shown}", body["type"])
    assert body["request_id"] == reply.headers["X-Request-Id"]
    assert all(isinstance(body[text], str) and body[text] for text in ("title", "detail", "remedy"))
    assert isinstance(body["meta"], dict)
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert all(reply.headers[name].isdigit() for name in RATE_HEADERS)


@pytest.mark.fact("U12", "U14", "U16", "U17", "U18", "U19", "U20", "U21", "U22", "U23", "U24", "S98", "S100")
@pytest.mark.parametrize(("code", "status"), DEFAULT_STATUS.items())
def test_the_status_of_a_code(open_desk: Any, code: str, status: int) -> None:
    assert PROVOKE[code](open_desk, {}).status == status


@pytest.mark.fact("U13", "U16", "U17", "U19", "U20", "U21", "U22", "U23")
@pytest.mark.parametrize("code", PROVOKE)
def test_a_policy_changes_the_status_of_a_code(open_desk: Any, code: str) -> None:
    in_facts = f"{code}_status" in Facts.model_fields
    given = {"facts": {f"{code}_status": 418}} if in_facts else {"statuses": {code: 418}}
    reply = PROVOKE[code](open_desk, given)
    assert reply.body is not None
    assert (reply.status, reply.body["status"]) == (418, 418)


@pytest.mark.fact("S97")
def test_the_eight_named_codes_and_the_limit_of_traffic_exist() -> None:
    checks = [refusal.code for refusal in Decision if 1 <= refusal <= 6]
    assert {*checks, "invalid_cursor", "idempotency_mismatch", "rate_limited"} <= set(PROVOKE)


@pytest.mark.fact("S98", "S99", "U7", "U26")
@pytest.mark.parametrize(
    ("code", "meta"),
    [
        (
            "quota_exhausted",
            {
                "metric": "keyword_brief_refreshes",
                "used": 8,
                "limit": 10,
                "resets_at": "2026-03-09T00:00:00Z",
            },
        ),
        (
            "cost_cap_reached",
            {"spent": "0.00", "ceiling": "0.00", "currency": "USD", "resets_at": "2026-04-04T10:00:00Z"},
        ),
        ("slot_limit_exceeded", {"used": 0, "held": 0, "limit": 1, "requested": 2}),
        ("cooldown_active", {"available_at": "2026-03-05T10:00:00Z", "retry_after": 23 * 3600}),
        ("rate_limited", {"class": "read", "limit": 1, "window_seconds": 60, "retry_after": 60}),
        ("entitlement_required", {}),
        ("subscription_inactive", {}),
        ("idempotency_mismatch", {}),
        ("invalid_cursor", {}),
    ],
)
def test_meta_has_the_numbers_behind_a_refusal(open_desk: Any, code: str, meta: dict[str, Any]) -> None:
    reply = PROVOKE[code](open_desk, {})
    assert reply.body is not None
    assert reply.body["meta"] == meta


BESIDE_U26 = {
    "quota_exhausted": "metric, used, limit, resets_at",  # S98
    "allowance_exhausted": "metric, used, limit, resets_at",  # the same by another name (U53)
    "rate_limited": "class, limit, window_seconds, retry_after",  # U7
    "validation_failed": "errors",  # the fields at fault; U26 does not say so
}
SHORT = {"cost": "cost_cap_reached", "slots": "slot_limit_exceeded", "cooldown": "cooldown_active"}
"""What U26 calls a code."""


@pytest.mark.fact("U26")
@pytest.mark.parametrize("code", PROVOKE)
def test_the_meta_of_a_code_is_what_the_assumption_says(open_desk: Any, code: str) -> None:
    [said] = [entry.default for entry in register() if entry.number == 26]
    *parts, rest = said.split("; ")
    assert rest == "otherwise empty"
    told = {SHORT[short]: names for short, names in (part.split(": ") for part in parts)}
    names = (BESIDE_U26 | told).get(code)
    reply = PROVOKE[code](open_desk, {})
    assert reply.body is not None
    assert list(reply.body["meta"]) == (names.split(", ") if names else [])


SPECIFICATION = Path(errors.__file__).parents[2] / "data" / "specification.yaml"


@pytest.mark.parametrize("code", PROVOKE)
def test_the_meta_of_a_code_is_what_explain_says(open_desk: Any, codes: Any, code: str) -> None:
    reply = PROVOKE[code](open_desk, {})
    assert reply.body is not None
    assert codes[code].get("meta", []) == list(reply.body["meta"])


@pytest.fixture(scope="module")
def codes() -> Any:
    """What `data/specification.yaml` says of each code, as `ranksim explain` tells it."""
    return read_yaml(SPECIFICATION).data["codes"]


@pytest.mark.fact("U23", "S100")
def test_who_says_when_to_come_back(open_desk: Any) -> None:
    waits = {code: PROVOKE[code](open_desk, {}).headers.get("Retry-After") for code in PROVOKE}
    assert {code: wait for code, wait in waits.items() if wait is not None} == {
        "rate_limited": "60",
        "cooldown_active": str(23 * 3600),
    }


# Successes


SUCCESS: dict[str, Callable[[Any], Reply]] = {
    "created": lambda desk: reply_of(desk.keywords("new")),
    "job_accepted": lambda desk: reply_of(desk.job("crawl")),
    "job_joined": lambda desk: (desk.job(), reply_of(desk.job()))[1],
    "dry_run": lambda desk: reply_of(desk.job("crawl", dry_run=True)),
    "deleted": lambda desk: reply_of(desk.call("keyword_lists.delete", id=desk.list)),
    "test_accepted": lambda desk: reply_of(desk.call("webhooks.test", id=endpoint(desk))),
    "preflight": lambda desk: reply_of(desk.call("domains.list", method="OPTIONS", key="")),
}


@pytest.mark.fact("U40", "U72", "U80", "U84", "U104")
@pytest.mark.parametrize(
    ("case", "status"),
    [
        ("created", 201),
        ("job_accepted", 202),
        ("job_joined", 200),
        ("dry_run", 200),
        ("deleted", 204),
        ("test_accepted", 202),
        ("preflight", 204),
    ],
)
def test_the_status_of_a_success(open_desk: Any, case: str, status: int) -> None:
    assert SUCCESS[case](open_desk()).status == status
    assert SUCCESS[case](open_desk(statuses={case: 299})).status == 299


@pytest.mark.fact("S105", "S107", "E36")
@pytest.mark.parametrize("case", SUCCESS)
def test_every_success_carries_the_headers(desk: Any, case: str) -> None:
    reply = SUCCESS[case](desk)
    assert reply.headers["X-Request-Id"]
    assert all(reply.headers[name].isdigit() for name in RATE_HEADERS)


@pytest.mark.fact("S105", "S107")
@pytest.mark.parametrize("operation", TABLE, ids=lambda operation: operation.name)
def test_every_operation_carries_the_headers(desk: Any, operation: Any) -> None:
    reply = desk.call(operation.name, id="none", kind="crawl")
    assert reply.headers["X-Request-Id"]
    assert all(reply.headers[name].isdigit() for name in RATE_HEADERS)


@pytest.mark.fact("S8", "S9", "S11")
@pytest.mark.parametrize("operation", TABLE, ids=lambda operation: operation.name)
def test_a_success_is_an_envelope(open_desk: Any, operation: Any) -> None:
    desk = open_desk(words=["a"], scan=True)
    reply = desk.call(operation.name, id=desk.domain, kind="crawl")
    if reply.code:
        assert "data" not in reply.body
    elif operation.method == "DELETE":
        assert reply.body is None
    elif isinstance(reply.body["data"], list):
        assert set(reply.body) - {"notice"} == {"data", "has_more", "next_cursor"}
        assert (reply.body["has_more"], reply.body["next_cursor"]) == (False, None)
    else:
        assert list(reply.body) == ["data"]
        assert isinstance(reply.body["data"], dict)


# What the API itself does not offer


def test_bad_names_are_bad_input(desk: Any) -> None:
    service, now = desk.service, desk.now
    with pytest.raises(BadInput, match=r"^pooled: expected job kinds .* found 'brief'$"):
        Service(Policy(), pooled=("crawl", "brief"))
    with pytest.raises(BadInput, match="account: there is none with the id 'acc_none'"):
        service.change_plan("acc_none", "desk", now)
    with pytest.raises(BadInput, match="account: there is none with the id 'acc_none'"):
        service.handle(Call("domains.list", surface="app", account="acc_none"), now)
    with pytest.raises(BadInput, match="outcome: expected one of done, failed, found 'error'"):
        service.ended("job_none", "error", now)


@pytest.mark.fact("S4")
def test_the_web_app_acts_for_its_account(desk: Any) -> None:
    reply = desk.job("crawl", key="", surface="app", account=desk.account)
    assert reply.status == 202
    assert (reply.operation, reply.account) == ("jobs.create", desk.account)
    assert desk.job("crawl").code == "cooldown_active"


def test_a_reply_names_its_operation_and_account(desk: Any) -> None:
    for reply, account in (
        (desk.call("domains.list"), desk.account),
        (desk.call("domains.list", fault=Fault("not_found")), desk.account),
        (desk.call("domains.list", key="wrong"), ""),
        (desk.call("webhook_events.list", key="wrong"), ""),
    ):
        assert reply.account == account
        assert reply.operation


def test_the_clock_of_a_reply_is_the_callers(desk: Any) -> None:
    desk.wait(30 * SECOND + 1)
    assert desk.made("labels.create", {"domain_id": desk.domain, "name": "x"})["created_at"] == (
        "2026-03-04T10:00:30.000001Z"
    )
