"""The OpenAPI 3.1 document of the control API, made from its table of routes."""

from __future__ import annotations

import re
from copy import deepcopy
from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from ranksim.core.service.errors import PROBLEM_JSON
from ranksim.twin.facade.control.command import Json, Problem, Route
from ranksim.twin.facade.control.routes import PREFIX, ROUTES
from ranksim.twin.facade.event_stream import EventsQuery
from ranksim.twin.facade.http.openapi import describe_default

Schema = dict[str, Any]

ABOUT = """\
What moves the time of this fake deployment, opens its accounts, saves and restores its world, breaks its
answers on purpose, and tells what happened. It is no part of the service: nothing here is counted against a
limit. Durations are text such as `36m`, instants ISO 8601, amounts text such as `0.15 USD`."""

TAGS = {
    "clock": "Time, which goes forward only.",
    "world": "Saving a world, trying something, going back.",
    "state": "All state, as data.",
    "accounts": "Accounts, keys and plans, which the service's own API does not manage.",
    "faults": "Faults on purpose, and limits switched off.",
    "requests": "The journal of requests.",
    "jobs": "Jobs, whose end can be decided.",
    "webhooks": "Webhook deliveries and their attempts.",
    "events": "What happens, as it happens.",
}

TAG_OF = {
    "reset": "world",
    "export": "world",
    "fork": "world",
    "snapshots": "world",
    "plans": "accounts",
    "keys": "accounts",
    "limits": "faults",
    "overview": "state",
    "deliveries": "webhooks",
    "attempts": "webhooks",
    "trigger": "webhooks",
}

SCHEMAS = "#/components/schemas/"


@cache
def control_document() -> Schema:
    """Build the document."""
    schemas: Schema = {}
    paths: Schema = {}
    for route in ROUTES:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route, schemas)
    paths[PREFIX + "/events"] = {"get": _events(schemas)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Control of a fake deployment",
            "version": "1",
            "description": ABOUT,
            "contact": {"name": "Whoever runs this deployment"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Where one is wanted."}
            },
            "responses": {"Problem": _content("What went wrong.", _schema(Problem, schemas), PROBLEM_JSON)},
            "schemas": dict(sorted(schemas.items())),
        },
    }


def describe_control() -> Schema:
    """Return the document with a body that each command takes as its example, for the page with forms."""
    described = deepcopy(control_document())
    for route in ROUTES:
        if route.example is not None:
            operation = described["paths"][PREFIX + route.path][route.method.lower()]
            operation["requestBody"]["content"]["application/json"]["example"] = route.example
    return described


def _operation(route: Route, schemas: Schema) -> Schema:
    summary, _, more = (route.command.__doc__ or "").strip().partition(". ")
    operation: Schema = {
        "operationId": route.command.__name__,
        "tags": [_tag(route.path)],
        "summary": summary.rstrip("."),
        "responses": {
            str(route.status): _content(
                "Done.", _schema(route.answer, schemas, "serialization"), route.media
            ),
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    operation["description"] = more or f"{operation['summary']}."
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]
    if route.query is not None:
        parameters += _parameters(route.query)
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        schema = {"type": "object"} if route.body == Json else _schema(route.body, schemas)
        content = {"application/json": {"schema": schema}}
        if route.body is str:
            content = {
                "application/json": {"schema": {"type": "object"}},
                "application/yaml": {"schema": schema},
            }
        operation["requestBody"] = {"required": not _may_be_empty(route.body), "content": content}
    return operation


def _may_be_empty(body: type[Any]) -> bool:
    """Return whether nothing is a body too."""
    try:
        TypeAdapter(body).validate_python({})
    except ValidationError:
        return False
    return body != Json


def _events(schemas: Schema) -> Schema:
    return {
        "operationId": "events",
        "tags": ["events"],
        "summary": "Follow what happens, as server-sent events",
        "description": "Each has the number of a happening as its id, so that a client that was cut off can "
        "go on after it (Last-Event-ID), its kind as its name, and its members as JSON.",
        "parameters": _parameters(EventsQuery),
        "responses": {
            "200": _content("A stream without end.", {"type": "string"}, "text/event-stream"),
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }


def _tag(path: str) -> str:
    first = path.split("/")[1]
    return TAG_OF.get(first, first)


def _content(description: str, schema: Schema, content_type: str = "application/json") -> Schema:
    return {"description": description, "content": {content_type: {"schema": schema}}}


def _parameters(model: type[BaseModel]) -> list[Schema]:
    made = model.model_json_schema()
    return [
        {"name": name, "in": "query", "schema": _not_null(schema)}
        for name, schema in made["properties"].items()
    ]


def _not_null(schema: Schema) -> Schema:
    """Drop null from a schema: a query parameter is there or is left out."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    return choices[0] if len(choices) == 1 else {name: v for name, v in schema.items() if name != "title"}


def _schema(answer: Any, schemas: Schema, mode: Any = "validation") -> Schema:
    """Return the schema of a type, and put those that it refers to under components."""
    adapter: TypeAdapter[Any] = TypeAdapter(answer)
    made = adapter.json_schema(ref_template=SCHEMAS + "{model}", mode=mode)
    parts = made.pop("$defs", {})
    if mode == "validation":
        for part in (made, *parts.values()):
            for field in part.get("properties", {}).values():
                describe_default(field)
    schemas.update(parts)
    title = made.get("title")
    if title is None or "properties" not in made:
        return made
    schemas[title] = made
    return {"$ref": SCHEMAS + title}
