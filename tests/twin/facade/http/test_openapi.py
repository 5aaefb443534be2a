"""The OpenAPI document is valid, whole, honest about what is assumed, and true of the answers."""

import json
import re
from typing import Any

import pytest
from tests.kit import traces

from ranksim.core.contract.facts import EVENT_TYPES
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.views import TEST_EVENT
from ranksim.core.service.bodies import DomainBody, validate_body
from ranksim.core.service.calls import Answer, Attempt, Call
from ranksim.core.service.operations import OPERATIONS, TABLE
from ranksim.core.service.service import Service
from ranksim.core.surface.operation_schemas import WIRES
from ranksim.judge.conformance.webhooks import attempts
from ranksim.twin.facade.http.openapi import openapi_document
from ranksim.twin.facade.http.strictness import query_parameters


@pytest.fixture(scope="module")
def whole() -> Any:
    return openapi_document(Policy())


def found(whole: Any, part: Any) -> Any:
    """Follow a reference."""
    while "$ref" in part:
        _, _, kind, name = part["$ref"].split("/")
        part = whole["components"][kind][name]
    return part


def described(whole: Any, name: str) -> Any:
    operation = OPERATIONS[name]
    return whole["paths"][f"/v1/{operation.path}"][operation.method.lower()]


def errors(whole: Any, schema: Any, value: Any) -> list[str]:
    import jsonschema

    validator = jsonschema.Draft202012Validator(
        {"anyOf": [schema], "components": whole["components"]}, format_checker=jsonschema.FormatChecker()
    )
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


VARIED = {
    "default": {},
    "other-assumptions": {
        "assumptions": {
            "page_limit_over": "refuse",
            "retry_after_format": "http_date",
            "reset_format": "epoch",
            "weekly_exhaustion_code": "allowance_exhausted",
            "tracking_class": "expensive",
            "idempotency_key_max": 64,
        },
        "statuses": {"invalid_cursor": 422, "cooldown_active": 429, "job_joined": 202, "dry_run": 202},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("changes", VARIED.values(), ids=VARIED)
def test_the_document_is_valid(changes: Any) -> None:
    import openapi_spec_validator  # loads slowly

    openapi_spec_validator.validate(openapi_document(Policy().replace(**changes)))


@pytest.mark.fact("S1", "S5", "S6", "U107")
def test_every_operation_is_there_and_what_is_assumed_says_so(whole: Any) -> None:
    there = {said["operationId"]: said for methods in whole["paths"].values() for said in methods.values()}
    assert set(there) == set(OPERATIONS)
    for operation in TABLE:
        assert ("x-assumption" in there[operation.name]) != operation.shown


def test_every_schema_is_referred_to(whole: Any) -> None:
    named = re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(whole))
    assert set(named) == set(whole["components"]["schemas"])


def test_assumptions_are_named_by_their_numbers(whole: Any) -> None:
    marks = re.findall(r'"x-assumption": "([^"]*)"', json.dumps(whole))
    assert len(marks) > 100
    assert all(re.fullmatch(r"U\d+(, U\d+)*", mark) for mark in marks)


@pytest.mark.fact("S39", "S68")
def test_only_event_types_need_no_key(whole: Any) -> None:
    assert whole["security"] == [{"bearer": []}]
    assert [name for name in OPERATIONS if "security" in described(whole, name)] == ["webhook_events.list"]


@pytest.mark.fact("S28", "S30", "S31", "U110")
@pytest.mark.parametrize("name", OPERATIONS)
def test_parameters_and_body(whole: Any, name: str) -> None:
    said, operation, wire = described(whole, name), OPERATIONS[name], WIRES[name]
    given = {found(whole, part)["name"] for part in said["parameters"]}
    assert given - {"X-Request-Id"} == (
        set(re.findall(r"{(\w+)}", operation.path))
        | set(wire.filters)
        | ({"limit", "cursor"} if wire.paged and not operation.keyless else set())
        | ({"Idempotency-Key"} if operation.method == "POST" else set())
    )
    assert ("requestBody" in said) == (wire.body is not None)


def test_nothing_in_a_body_has_a_default_as_generators_would_require_it(whole: Any) -> None:
    bodies = {
        name: schema
        for name, schema in whole["components"]["schemas"].items()
        if name.endswith(("Body", "Patch")) or name in ("Geography", "Pairing") or name.startswith("Briefs")
    }
    assert len(bodies) > 15
    fields = [field for schema in bodies.values() for field in schema["properties"].values()]
    assert [field for field in fields if "default" in field] == []
    flag = bodies["JobBody"]["properties"]["dry_run"]
    assert flag == {"type": "boolean", "description": "false unless it is sent."}


@pytest.mark.fact("U36")
def test_an_empty_cursor_is_none_by_the_document_and_by_the_service(whole: Any) -> None:
    (cursor,) = (part for part in described(whole, "domains.list")["parameters"] if "Cursor" in str(part))
    assert errors(whole, found(whole, cursor)["schema"], "")
    service = Service(Policy(), 1)
    key = service.issue_key(service.open_account("a", "pro", 0), "k", 0)
    assert service.handle(Call("domains.list", key, query={"cursor": ""}), 0).reply.code == "invalid_cursor"


@pytest.mark.fact("U108")
@pytest.mark.parametrize(
    "text",
    [
        *("a", " a ", "a b", "\ta\n", "a\x85", "\u2003ä"),
        *("", " ", "\x1f", "a\tb", "a\0b", "\0", "\x7f", "a\x80"),
    ],
)
def test_the_document_and_the_service_take_the_same_texts(whole: Any, text: str) -> None:
    schema = whole["components"]["schemas"]["DomainBody"]["properties"]["label"]["anyOf"][0]
    found = validate_body(DomainBody, Policy(), {"host": "a.example", "label": text})
    assert isinstance(found, DomainBody) == (not errors(whole, schema, text))


@pytest.mark.fact("U100", "U24")
@pytest.mark.parametrize("name", OPERATIONS)
def test_no_query_parameter_that_is_described_is_refused_as_unknown(whole: Any, name: str) -> None:
    said = described(whole, name)
    given = {
        part["name"] for part in (found(whole, part) for part in said["parameters"]) if part["in"] == "query"
    }
    assert given <= set(query_parameters(name))
    assert "validation_failed" in found(whole, said["responses"]["422"])["x-codes"]


@pytest.mark.fact("S105", "S107", "S94", "E36")
def test_every_answer_has_the_headers_and_a_problem_body_unless_it_is_good(whole: Any) -> None:
    for name in OPERATIONS:
        for status, part in described(whole, name)["responses"].items():
            answer = found(whole, part)
            needed = {"X-Request-Id", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}
            assert needed <= set(answer["headers"])
            assert all(found(whole, answer["headers"][header])["required"] for header in needed)
            if status >= "400":
                assert list(answer["content"]) == ["application/problem+json"]
        assert "Retry-After" in found(whole, described(whole, name)["responses"]["429"])["headers"]


@pytest.mark.fact("S29", "S8", "S9", "S11")
@pytest.mark.parametrize("name", OPERATIONS)
def test_what_the_service_answers_is_described(stage: Any, whole: Any, name: str) -> None:
    """Statuses, codes, bodies and, where a body was good or invalid, the body's schema."""
    said = described(whole, name)
    for sample in stage.samples():
        if sample.operation != name:
            continue
        reply = stage.handle(sample)
        answer = found(whole, said["responses"][str(reply.status)])
        if reply.body is None:
            assert "content" not in answer
            continue
        kind = reply.headers.get("Content-Type", "application/json")
        assert errors(whole, answer["content"][kind]["schema"], reply.body) == [], sample.name
        assert not reply.code or reply.code in answer["x-codes"]
        if "requestBody" in said:
            schema = said["requestBody"]["content"]["application/json"]["schema"]
            wrong = errors(whole, schema, sample.body)
            assert bool(wrong) == (reply.code == "validation_failed"), (sample.name, wrong)


def test_links_lead_somewhere(whole: Any) -> None:
    leads = [
        link
        for name in OPERATIONS
        for part in described(whole, name)["responses"].values()
        for link in found(whole, part).get("links", {}).values()
    ]
    assert len(leads) > 20
    for link in leads:
        target = described(whole, link["operationId"])
        known = {found(whole, part)["name"] for part in target["parameters"]}
        assert set(link.get("parameters", {})) <= known
        for field in link.get("requestBody", {}):
            body = found(whole, target["requestBody"]["content"]["application/json"]["schema"])
            assert field in body["properties"]


@pytest.mark.fact("S77", "S78", "S79", "S80", "S81", "S82", "S83")
@pytest.mark.parametrize("event_type", [*EVENT_TYPES, TEST_EVENT])
def test_what_is_delivered_is_described_and_held_by_its_judge(whole: Any, event_type: str) -> None:
    ends = {"job.completed": "done", "job.failed": "failed"}
    service = Service(Policy(), 1, pooled=["crawl"])
    key = service.issue_key(service.open_account("a", "pro", 0), "k", 0)

    def call(operation: str, body: Any = None, **path: str) -> tuple[Any, list[Any]]:
        step = service.handle(Call(operation, key, path, body=body), 0)
        reply, tasks = step.reply, step.tasks
        assert reply.body is not None
        return reply.body["data"], tasks

    domain = call("domains.create", {"host": "a.example"})[0]["id"]
    endpoint = call("webhooks.create", {"url": "https://b.example"})[0]["id"]
    if event_type == TEST_EVENT:
        call("webhooks.test", id=endpoint)
        [attempt] = service.advance(1).tasks
    else:
        job = call("jobs.create", {"kind": "crawl", "domain_id": domain})[0]["id"]
        [attempt] = service.ended(job, ends[event_type], 1).tasks
    assert isinstance(attempt, Attempt)
    said = whole["webhooks"][event_type]["post"]
    schema = said["requestBody"]["content"]["application/json"]["schema"]
    assert errors(whole, schema, json.loads(attempt.body)) == []
    for parameter in said["parameters"]:
        value: Any = attempt.headers[parameter["name"]]
        if parameter["schema"]["type"] == "integer":
            value = int(value)
        assert errors(whole, parameter["schema"], value) == []
    service.attempted(attempt.attempt, Answer(200), 2)
    event = attempt.headers["Service-Event-Id"]
    came = traces.hook(0, event=event, type=event_type, body=attempt.body.decode())
    tally = traces.judged(attempts, [traces.created(), came])
    assert traces.found(tally, attempts.BODY) == "held"


@pytest.mark.parametrize(
    ("changes", "path", "expected"),
    [
        ({}, "components parameters Limit schema", {"type": "integer", "minimum": 1, "default": 50}),
        (
            {"assumptions": {"page_limit_over": "refuse"}},
            "components parameters Limit schema maximum",
            200,
        ),
        ({"assumptions": {"tracking_class": "expensive"}}, "paths /v1/scans post x-rate-class", "expensive"),
        ({"statuses": {"created": 200}}, "paths /v1/labels post responses 200 x-assumption", "U104"),
        (
            {"assumptions": {"retry_after_format": "http_date"}},
            "components headers RetryAfter schema",
            {"type": "string"},
        ),
        (
            {"facts": {"webhook_delays": ["90s", "1h"]}},
            "webhooks job.failed post responses default description",
            "Failed: tried again after 1m30s, 1h.",
        ),
        (
            {"facts": {"webhook_delays": []}},
            "webhooks job.failed post responses default description",
            "Failed, and not tried again.",
        ),
        (
            {"facts": {"webhook_delays": ["90s", "1h"]}},
            "webhooks webhook.test post parameters 3 schema maximum",
            3,
        ),
        (
            {"facts": {"webhook_timeout": "3s"}},
            "webhooks job.failed post responses 2XX description",
            "Received. It must come within 3s.",
        ),
        (
            {"facts": {"idempotency_retention": "2d"}},
            "components parameters IdempotencyKey description",
            "Makes the work be done once: a repeat within 2d gets the first response.",
        ),
    ],
)
def test_the_document_follows_the_policy(changes: Any, path: str, expected: Any) -> None:
    part = openapi_document(Policy().replace(**changes))
    for step in path.split():
        part = part[int(step) if isinstance(part, list) else step]
    assert part == expected
