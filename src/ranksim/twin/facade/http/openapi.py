"""The OpenAPI 3.1 document of a policy's API, made from the table of operations, the bodies and the views.

What the specification does not show carries `x-assumption` with the numbers of the assumptions it rests on.
"""

import re
from collections.abc import Iterator
from typing import Any

from pydantic_core import to_json

from ranksim.core.contract.assumptions import Statuses
from ranksim.core.contract.facts import CHECK_OF, EVENT_TYPES
from ranksim.core.contract.policy import Policy
from ranksim.core.contract.views import TEST_EVENT, Kind
from ranksim.core.service.bodies import CONTROLS, BriefsBody, RequestBody
from ranksim.core.service.deliveries import URL
from ranksim.core.service.errors import PROBLEM_JSON, TEXTS, status_of
from ranksim.core.service.operations import TABLE, Operation
from ranksim.core.surface.operation_schemas import WIRES, Wire
from ranksim.twin.facade.http.components import (
    delivery_operation,
    every_header,
    links_of,
    shared_headers,
    shared_parameters,
)
from ranksim.twin.facade.http.response_schemas import (
    STRING,
    Schema,
    answer_schema,
    name_of,
    ref,
    schema_of,
    view_schemas,
)

ABOUT = """\
Tracks search rankings and analyses sites. This is a fake deployment: every rule is the service's, nothing is
paid. What the service's specification leaves open is marked `x-assumption`.

Production is at `/v1` with live keys, the sandbox at `/sandbox/v1` with test keys; GraphQL is at `/graphql`
and `/sandbox/graphql`. Every response carries X-Request-Id and the three RateLimit headers. An error is a
complete problem body. A query parameter that an operation does not know gets `validation_failed`, unless this
deployment was told to ignore such parameters, as the service is assumed to do (U100)."""

NOUNS = {
    "ai_visibility": ("score of AI visibility", "scores of AI visibility"),
    "analyses": ("analysis", "analyses"),
    "backlinks": ("backlink summary", "backlink summaries"),
    "crawled_pages": ("crawled page", "crawled pages"),
    "webhooks": ("webhook endpoint", "webhook endpoints"),
    "webhook_deliveries": ("delivery attempt", "recent delivery attempts"),
    "webhook_events": ("event type", "event types"),
}
"""Singular and plural of what an operation is about, where its name does not say."""

VERBS = {
    "list": "List {1}",
    "create": "Create one {0}",
    "get": "Read one {0}",
    "update": "Change one {0}",
    "delete": "Delete one {0}",
}

SUMMARIES = {
    "keywords.create": "Add keywords to a list",
    "slots.get": "Read the usage of slots",
    "jobs.create": "Start a job, or join the rank run under way",
    "keyword_briefs.create": "Buy keyword briefs",
    "positions.list": "List the latest position of every keyword and place",
    "positions.history": "List every position of every finished rank run, oldest first",
    "account.get": "Read the account",
    "account.usage": "Read what is used of every metered allowance, and the cost",
    "account.entitlements": "Read what the plan allows",
    "webhooks.test": "Send a test event on the normal delivery path",
    "analyses.findings": "List the findings of one analysis",
    "ai_visibility.industries": "List the industries that AI-visibility scans ask about",
}

FILTER_SCHEMAS: dict[str, Schema] = {
    "active": {"type": "string", "enum": ["true", "false"]},
    "date": {"type": "string", "format": "date"},
}

TRIMMED: Schema = {"minLength": 1, "maxLength": 200}
"""Text that is trimmed before it is looked at: blanks alone, as Python has them, are nothing."""

BLANKS = r"[\s\x1c-\x1f\x85]*"

TRIMMED_PATTERN = rf"^{BLANKS}[^\s{CONTROLS}]([^{CONTROLS}]*[^\s{CONTROLS}])?{BLANKS}$"
"""No control character between the first that is no blank and the last."""

BODY_ASSUMPTIONS = {"KeywordsBody": "", "JobBody": "U41"}
"""What a body rests on, where that is not U108."""

REFINED: dict[tuple[str, str], Schema] = {
    (model, field): extra
    for model in ("EndpointBody", "EndpointPatch")
    for field, extra in (
        ("url", {"pattern": URL}),
        ("event_types", {"items": {"type": "string", "enum": list(EVENT_TYPES)}}),
    )
}
"""What code checks about a field of a body, said as a schema."""


TAGS = {
    "domains": "The sites whose rankings are tracked.",
    "keyword lists": "Lists of keywords of a domain, which scans track.",
    "keywords": "The words of a list, added in one call and removed one by one.",
    "labels": "Names to sort keywords by.",
    "competitors": "Other sites to compare a domain with.",
    "scans": "Which lists are tracked on which engines, devices and places; they take slots.",
    "slots": "How many slots are active, held and left.",
    "jobs": "Paid work on a domain: rank runs, crawls, site optimizations, AI scans.",
    "keyword briefs": "Briefs of keywords, out of a weekly allowance.",
    "positions": "The ranks that rank runs found.",
    "account": "The account of the key: its plan, what it used, and what it is entitled to.",
    "webhooks": "Endpoints that events are delivered to.",
    "webhook deliveries": "The latest delivery attempts, with the status or error seen.",
    "webhook events": "The latest events, whether or not they were delivered.",
    "crawled pages": "The pages that crawls found.",
    "analyses": "What site optimizations found.",
    "ai visibility": "How AI answers mention a domain, as AI scans found.",
    "backlinks": "Links to a domain.",
    "integrations": "Connections to other services.",
}
"""What each resource is, by the tag of its operations."""


def openapi_document(policy: Policy) -> Schema:
    """Build the document."""
    made = _Document(policy)
    paths: Schema = {}
    for operation in TABLE:
        paths.setdefault(f"/v1/{operation.path}", {})[operation.method.lower()] = made.operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Rank tracking",
            "version": "1",
            "description": ABOUT,
            "contact": {"name": "Whoever runs this deployment"},
        },
        "servers": [
            {"url": "/", "description": "Production"},
            {"url": "/sandbox", "description": "Sandbox"},
        ],
        "security": [{"bearer": []}],
        "tags": [
            {"name": tag, "description": TAGS[tag]}
            for tag in dict.fromkeys(_tag(operation) for operation in TABLE)
        ],
        "paths": paths,
        "webhooks": {name: {"post": delivery_operation(policy, name)} for name in (*EVENT_TYPES, TEST_EVENT)},
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "parameters": shared_parameters(policy),
            "headers": shared_headers(policy),
            "responses": made.responses,
            "schemas": dict(sorted((view_schemas() | made.schemas).items())),
        },
    }


class _Document:
    """The parts of a document that its operations share, as they come up."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.responses: Schema = {}
        self.schemas: Schema = {}

    def operation(self, operation: Operation) -> Schema:
        wire = WIRES[operation.name]
        described: Schema = {
            "operationId": operation.name,
            "summary": _summary(operation),
            "tags": [_tag(operation)],
            "x-rate-class": operation.rate_class(self.policy).label,
        }
        charged = f"Counts against the {described['x-rate-class']} rate window of its key."
        spends = "Spends. With `dry_run: true` the six checks run, and nothing is spent. "
        described["description"] = spends * bool(operation.spends) + charged
        if not operation.shown:
            described["x-assumption"] = "U73, U107" if operation.name.startswith("webhooks.") else "U107"
        if operation.keyless:
            described["security"] = []
        described["parameters"] = list(_parameters_of(operation, wire))
        if wire.body is not None:
            described["requestBody"] = {
                "required": operation.method == "POST",
                "content": {"application/json": {"schema": self.body(wire.body)}},
            }
        described["responses"] = self.answers(operation, wire) | self.problems(operation, wire)
        return described

    def body(self, model: type[RequestBody]) -> Schema:
        """Return the schema of a body; what it consists of goes to the shared schemas."""
        name = model.__name__
        made = _tidy(model.model_json_schema(ref_template="#/components/schemas/{model}"))
        for part, schema in made.pop("$defs", {}).items():
            for field in schema["properties"].values():
                describe_default(field)
            self.schemas[part] = schema
        for field, schema in made["properties"].items():
            schema |= REFINED.get((name, field), {})
            if name.endswith("Patch"):
                schema.pop("default", None)
            describe_default(schema)
        made["description"] = f"The body of {', '.join(_takers(model))}."
        if assumption := BODY_ASSUMPTIONS.get(name, "U108"):
            made["x-assumption"] = assumption
        if model is not BriefsBody:
            self.schemas[name] = made
            return ref(name)
        forms = _one_form(made)
        self.schemas |= forms
        return {"anyOf": [ref(form) for form in forms]}

    def answers(self, operation: Operation, wire: Wire) -> Schema:
        """Describe the good answers by status."""
        answers: Schema = {}
        for status_given, view in wire.answers:
            status = (
                status_given if isinstance(status_given, int) else getattr(self.policy.statuses, status_given)
            )
            answer = answers.setdefault(
                str(status),
                {"description": "", "headers": every_header(operation.method)},
            )
            text = "Done." if isinstance(status_given, int) else _sentence(status_given)
            answer["description"] = f"{answer['description']} {text}".strip()
            if assumption := _assumption(status_given):
                answer["x-assumption"] = assumption
            if view is not None:
                name = f"{name_of(view)}{'Page' if wire.paged else 'Answer'}"
                self.schemas[name] = answer_schema(wire, view)
                _add_content(answer, ref(name))
            if links := links_of(operation, status_given):
                answer["links"] = links
        return answers

    def problems(self, operation: Operation, wire: Wire) -> Schema:
        """Describe the refusals by status."""
        by_status: dict[int, list[str]] = {}
        for code in dict.fromkeys(_codes(self.policy, operation, wire)):
            by_status.setdefault(status_of(self.policy, code), []).append(code)
        return {str(status): self.problem(status, codes) for status, codes in sorted(by_status.items())}

    def problem(self, status: int, codes: list[str]) -> Schema:
        name = ".".join(sorted(codes))
        headers = every_header("GET")
        if "rate_limited" in codes:
            headers["Retry-After"] = {"$ref": "#/components/headers/RetryAfter"}
        if "cooldown_active" in codes:
            headers["Retry-After"] = {"$ref": "#/components/headers/RetryAfterCooldown"}
        if "unauthorized" in codes:
            headers["WWW-Authenticate"] = {"$ref": "#/components/headers/WWWAuthenticate"}
        numbers = [number for code in codes if (number := _assumption(code))]
        self.responses[name] = {
            "description": " ".join(f"`{code}`: {TEXTS[code][0]}. {TEXTS[code][1]}" for code in codes),
            "headers": headers,
            "content": {PROBLEM_JSON: {"schema": _problem_of(codes)}},
            "x-codes": codes,
        }
        if numbers:
            self.responses[name]["x-assumption"] = ", ".join(dict.fromkeys(", ".join(numbers).split(", ")))
        return {"$ref": f"#/components/responses/{name}"}


def _problem_of(codes: list[str]) -> Schema:
    """Return the schema of a problem whose code is one of some, by which clients tell them apart."""
    code = {"type": "object", "properties": {"code": {"enum": sorted(codes)}}}
    return {"allOf": [ref("Problem"), code]}


# Words


def _tag(operation: Operation) -> str:
    return operation.name.partition(".")[0].replace("_", " ")


def _summary(operation: Operation) -> str:
    subject, _, verb = operation.name.partition(".")
    plain = subject.replace("_", " ")
    given = SUMMARIES.get(operation.name)
    return given or VERBS[verb].format(*NOUNS.get(subject, (plain.removesuffix("s"), plain)))


def _sentence(field: str) -> str:
    """Return what the policy says of a status: `U104: a resource was created` → `A resource was created.`"""
    text = (Statuses.model_fields[field].description or "").partition(": ")[2]
    return f"{text[:1].upper()}{text[1:]}."


def _assumption(status: int | str) -> str:
    """Return the assumptions that a status, or the status of an error code, rests on, or ""."""
    if status == "rate_limited":
        return "U7"
    if status not in Statuses.model_fields:
        return ""
    return (Statuses.model_fields[str(status)].description or "").partition(":")[0]


# Requests


def _takers(model: type[RequestBody]) -> list[str]:
    return [
        f"{operation.method} /v1/{operation.path}"
        for operation in TABLE
        if WIRES[operation.name].body is model
    ]


def _tidy(schema: Any) -> Any:
    """Leave out the titles and descriptions that the models' code brings along."""
    if isinstance(schema, list):
        return [_tidy(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    tidy = {key: _tidy(value) for key, value in schema.items() if key not in ("title", "description")}
    if TRIMMED.items() <= schema.items():
        del tidy["pattern"]  # of the text once it is trimmed
        tidy["pattern"] = TRIMMED_PATTERN
    if "properties" in schema:
        tidy["properties"] = {name: _tidy(value) for name, value in schema["properties"].items()}
    return tidy


def describe_default(field: Schema) -> None:
    """Describe in words what a field counts as that is left out: generators require what has a `default`."""
    default = field.pop("default", None)
    if default is not None:
        words = f"{to_json(default).decode()} unless it is sent."
        field["description"] = f"{field.get('description', '')} {words}".strip()


def _one_form(body: Schema) -> Schema:
    """Return which of the keyword-brief fields go together: one schema a form."""
    forms = {"BriefsByIds": "keyword_ids", "BriefsById": "keyword_id", "BriefsByWords": "keywords"}
    made: Schema = {}
    for name, field in forms.items():
        properties: Schema = {}
        for other, schema in body["properties"].items():
            wanted = other == field or (other, field) == ("domain_id", "keywords")
            if other in forms.values() and not wanted:
                properties[other] = {"type": "null"}
            else:
                properties[other] = schema["anyOf"][0] if wanted else schema
        required = [field, "domain_id"] if field == "keywords" else [field]
        made[name] = body | {"required": required, "properties": properties}
    return made


def _parameters_of(operation: Operation, wire: Wire) -> Iterator[Schema]:
    for name in re.findall(r"{(\w+)}", operation.path):
        schema: Schema = schema_of(Kind) if name == "kind" else STRING | {"minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    if wire.paged and not operation.keyless:
        yield {"$ref": "#/components/parameters/Limit"}
        yield {"$ref": "#/components/parameters/Cursor"}
    for name in wire.filters:
        yield {
            "name": name,
            "in": "query",
            "description": f"Only those with this {name}.",
            "schema": FILTER_SCHEMAS.get(name, STRING),
            "x-assumption": "U110",
        }
    if operation.method == "POST":
        yield {"$ref": "#/components/parameters/IdempotencyKey"}
    yield {"$ref": "#/components/parameters/RequestId"}


# Answers


def _add_content(answer: Schema, schema: Schema) -> None:
    """Add this body to those that an answer may have, beside those it may have already."""
    content = answer.setdefault("content", {"application/json": {"schema": schema}})["application/json"]
    before = content["schema"]
    if before != schema:
        content["schema"] = {"anyOf": [*before.get("anyOf", [before]), schema]}


def _codes(policy: Policy, operation: Operation, wire: Wire) -> Iterator[str]:
    """Yield the error codes that an operation can answer with."""
    if not operation.keyless:
        yield "unauthorized"
    yield from wire.refusals
    if "{" in operation.path:
        yield "not_found"
    if wire.paged and not operation.keyless:
        yield "invalid_cursor"
    if operation.method in ("POST", "PATCH"):
        yield from ("payload_too_large", "unsupported_media_type")
    yield "validation_failed"
    fields = () if wire.body is None else wire.body.model_fields
    if any(name.endswith("_ids") or name.endswith("_id") for name in fields):
        yield "not_found"
    if operation.method == "POST":
        yield from ("idempotency_key_invalid", "idempotency_mismatch", "idempotency_in_progress")
    if operation.spends or operation.name == "scans.update":
        yield from CHECK_OF
        if policy.assumptions.weekly_exhaustion_code != "quota_exhausted":
            yield policy.assumptions.weekly_exhaustion_code
    yield from ("invalid_request", "rate_limited", "internal_error")
