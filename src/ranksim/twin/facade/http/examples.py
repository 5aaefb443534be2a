"""Examples of each operation for the pages with forms, made by calling a service under the same policy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from graphql import (
    GraphQLEnumType,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLList,
    GraphQLNonNull,
    get_named_type,
    introspection_from_schema,
    is_leaf_type,
)

from ranksim.core.callers.http import path_of
from ranksim.core.callers.portfolio import Actor
from ranksim.core.callers.request_factory import RequestFactory
from ranksim.core.callers.requests import domain_body, job_body, named_body
from ranksim.core.callers.steps import Send
from ranksim.core.clock import DAY, MINUTE, Micros, instant
from ranksim.core.contract.facts import JobKind
from ranksim.core.contract.policy import Policy
from ranksim.core.service.calls import Answer, Attempt, Call, Reply, Step
from ranksim.core.service.errors import problem
from ranksim.core.service.operations import OPERATIONS, TABLE
from ranksim.core.service.service import Service
from ranksim.core.surface.graphql_schema import FIELDS, SCHEMA
from ranksim.twin.facade.http.openapi import openapi_document
from ranksim.twin.facade.http.response_schemas import Schema

START = "2026-03-02T09:00:00Z"
LAST = ("delete",)
"""Actions that come last, when there is nothing left to show of the thing."""

MOST_ITEMS = 1
"""How many items of a list an example shows."""

DEEP = 3
"""How many levels of an answer a GraphQL example asks for."""

FIRST = 10
"""Items of a page that a GraphQL example asks for."""

ABOUT_GRAPHQL = (
    "A root field is a call of an operation: it passes the same checks as over REST, counts against the",
    "same limits, and gives the same data. Write your API key into the headers below.",
    "A request is let in by access and the rate limit before its document is looked at. Beyond these it is",
    "refused, and costs one unit of the write class (U111, U112):",
)
"""What the GraphQL page begins with."""


@dataclass(frozen=True, slots=True)
class ExampleExchange:
    """One request and what was answered; None where there is no body."""

    target: str
    body: dict[str, Any] | None
    status: int
    answer: dict[str, Any] | None


def examples(policy: Policy) -> dict[str, ExampleExchange]:
    """Return an example for each operation that can be exercised, by its name."""
    caller = _ExampleCaller(policy)
    names = sorted((operation.name for operation in TABLE), key=lambda name: name.rpartition(".")[2] in LAST)
    creates = [name for name in names if name.endswith(".create")]
    for number, name in enumerate(creates):
        caller.call(name, number)
    caller.run_jobs()
    return {name: caller.example(name, 100 + number) for number, name in enumerate(names)}


class _ExampleCaller:
    """Calls for an account on the largest plan, which has a domain."""

    def __init__(self, policy: Policy) -> None:
        self._now: Micros = instant(START)
        self._service = Service(policy, seed=1)
        plan = max(policy.catalogue.plans.items(), key=lambda named: named[1].slot_limit)[0]
        account = self._service.open_account("example", plan, self._now)
        self._key = self._service.issue_key(account, "example", self._now)
        domain = self._domain = self._made("domains.create", domain_body("example.com"))
        listed = self._made("keyword_lists.create", named_body(domain, "brand"))
        actor = Actor(
            "example", account, keys={"example": self._key}, domains=[domain],
            hosts={"example.com": domain}, lists={domain: [listed]},
        )  # fmt: skip
        self._factory = RequestFactory(
            "example", actor, self._service.state, [operation.name for operation in TABLE]
        )

    def call(self, name: str, number: int) -> tuple[Send, Reply]:
        """Make a request of an operation, and learn from its answer."""
        send = self._factory.make(name, number)
        reply = self._ask(
            Call(send.operation, key=self._key, path=send.path, query=send.query, body=send.body)
        )
        self._factory.learn(send, reply.status, reply.body)
        return send, reply

    def example(self, name: str, number: int) -> ExampleExchange:
        """Make a request of an operation as an example."""
        send, reply = self.call(name, number)
        if send.operation != name:  # nothing of the kind was known yet: it looked at the list instead
            send, reply = self.call(name, number)
        query = f"?{urlencode(send.query)}" if send.query else ""
        answer = dict(reply.body or {})
        if isinstance(answer.get("data"), list):
            answer["data"] = answer["data"][:MOST_ITEMS]
        return ExampleExchange(path_of(send) + query, send.body, reply.status, answer or None)

    def run_jobs(self) -> None:
        """Run a job of each kind, and let three days pass, in which they end and webhooks are taken."""
        for kind in JobKind:
            self._ask(Call("jobs.create", key=self._key, body=job_body(kind, self._domain)))
        end = self._now + 3 * DAY
        while (due := self._service.next_due()) is not None and due <= end:
            self._follow(self._service.advance(due), due)
        self._now = end

    def _made(self, name: str, body: dict[str, object]) -> str:
        data = (self._ask(Call(name, key=self._key, body=body)).body or {})["data"]
        return str(data["id"])

    def _ask(self, call: Call) -> Reply:
        self._now += MINUTE  # so that no rate window refuses an example
        step = self._service.handle(call, self._now)
        self._service.written(step.reply, self._now)
        self._follow(step, self._now)
        return step.reply

    def _follow(self, step: Step, now: Micros) -> None:
        for task in step.tasks:
            if isinstance(task, Attempt):
                self._follow(self._service.attempted(task.attempt, Answer(200), now), now)


# What the pages show


DETAIL = "What is wrong with this call."
REQUEST_ID = "req_000000000001"
"""What stands in an example of a refusal, which says what of its own call was wrong."""


def describe_service(policy: Policy) -> Schema:
    """Return the service's document with an example of each body, answer and refusal."""
    described, exchanges = openapi_document(policy), examples(policy)
    for methods in described["paths"].values():
        for operation in methods.values():
            exchange = exchanges[operation["operationId"]]
            # Where the plans allow nothing to be made, the example may be of the list instead, or a refusal.
            if exchange.body is not None and "requestBody" in operation:
                operation["requestBody"]["content"]["application/json"]["example"] = exchange.body
            for content in operation["responses"].get(str(exchange.status), {}).get("content", {}).values():
                content["example"] = exchange.answer
    for response in described["components"]["responses"].values():
        refused = problem(policy, response["x-codes"][0], DETAIL).body or {}
        for content in response["content"].values():
            content["example"] = {**refused, "request_id": REQUEST_ID}
    return described


def describe_graphql(policy: Policy) -> dict[str, Any]:
    """Return the schema as introspection tells it, an example of each root field, and the limits."""
    exchanges, limits = examples(policy), policy.assumptions.graphql_limits
    queries = {}
    for name, operation in FIELDS.items():
        query, variables = graphql_example(name, exchanges[operation])
        queries[name] = {"query": query, "variables": variables}
    lines = [
        *ABOUT_GRAPHQL,
        *(
            f"- {getattr(limits, name):,} {field.description or name}"
            for name, field in type(limits).model_fields.items()
        ),
    ]
    about = "".join(f"# {line}\n" for line in lines)
    return {"schema": introspection_from_schema(SCHEMA), "examples": queries, "about": about}


def graphql_example(name: str, exchange: ExampleExchange) -> tuple[str, dict[str, Any]]:
    """Return a query of a root field and its variables, those of the exchange over REST.

    It asks for all that the answer has within a few levels, and for a short page.
    """
    mutation = SCHEMA.mutation_type
    writes = mutation is not None and name in mutation.fields
    root = mutation if writes else SCHEMA.query_type
    assert root is not None
    field = root.fields[name]
    variables = _variables(field, name, exchange)
    declared = ", ".join(f"${variable}: {field.args[variable].type}" for variable in variables)
    passed = [f"{variable}: ${variable}" for variable in variables] + [f"first: {FIRST}"] * (
        "first" in field.args
    )
    given = f"({', '.join(passed)})" if passed else ""
    head = f"{'mutation' if writes else 'query'}{f' ({declared})' if declared else ''}"
    selected = _selected(get_named_type(field.type), 1)
    return f"{head} {{\n  {name}{given}{selected}\n}}", variables


def _variables(field: GraphQLField, name: str, exchange: ExampleExchange) -> dict[str, Any]:
    path = OPERATIONS[FIELDS[name]].path
    pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/?]+)", f"/v1/{path}")
    match = re.match(pattern, exchange.target)  # none where the example is of the list instead
    given: dict[str, Any] = {**(match.groupdict() if match else {}), "input": exchange.body or {}}
    return {
        argument_name: _written(argument.type, given[argument_name])
        for argument_name, argument in field.args.items()
        if argument_name in given
    }


def _written(kind: Any, value: Any) -> Any:
    """Write what REST takes as GraphQL does."""
    if isinstance(kind, GraphQLNonNull):
        return _written(kind.of_type, value)
    if isinstance(kind, GraphQLList) and isinstance(value, list):
        return [_written(kind.of_type, item) for item in value]
    if isinstance(kind, GraphQLEnumType):
        return value.upper()
    if isinstance(kind, GraphQLInputObjectType) and isinstance(value, str):  # "google/mobile"
        return dict(zip(kind.fields, value.split("/"), strict=True))
    if isinstance(kind, GraphQLInputObjectType):
        return {
            name: _written(field.type, value[field.out_name or name])
            for name, field in kind.fields.items()
            if (field.out_name or name) in value
        }
    return value


def _selected(kind: Any, depth: int) -> str:
    """Select the fields of a type that want no arguments; nothing of a leaf."""
    if is_leaf_type(kind):
        return ""
    lines = []
    for name, field in kind.fields.items():
        inner = get_named_type(field.type)
        if name == "edges" or (not is_leaf_type(inner) and depth >= DEEP):
            continue
        lines.append(f"{'  ' * (depth + 1)}{name}{_selected(inner, depth + 1)}")
    return " {\n" + "\n".join(lines) + f"\n{'  ' * depth}}}"
