"""GraphQL over the one service layer: a root field is a call of an operation (S4, U11, U33, U83).

A document is parsed, measured (`graphql_cost`) and validated, which is remembered. Executing it goes twice
over the root fields: first to ask, each field becoming a call; then, when the service has answered all calls
of the request at once and charged it once, to answer. Resolvers are plain functions over the dicts that REST
sends. `execute` does all of it; the facade does the same steps, the long ones in a thread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from graphql import (
    DocumentNode,
    ExecutionResult,
    GraphQLError,
    GraphQLResolveInfo,
    OperationDefinitionNode,
    OperationType,
    OverlappingFieldsCanBeMergedRule,
    execute_sync,
    parse,
    specified_rules,
    validate,
)

from ranksim.core.contract.assumptions import GraphqlLimits
from ranksim.core.contract.policy import Policy
from ranksim.core.service.calls import Body, Call, Fault, Reply
from ranksim.core.service.errors import problem
from ranksim.core.service.operations import OPERATIONS, Operation
from ranksim.core.surface.graphql_cost import conflict, extent_of, measured
from ranksim.core.surface.graphql_schema import FIELDS, JSON_NAMES, SCHEMA
from ranksim.core.surface.json_body import parse_json
from ranksim.core.surface.operation_schemas import WIRES

MOST_ERRORS = 20
MOST_KNOWN = 512
"""Documents that are remembered."""

RULES = tuple(rule for rule in specified_rules if rule is not OverlappingFieldsCanBeMergedRule)
"""What a document is validated by, besides `conflict`, which stands for a rule that is quadratic."""

GRAPHQL_JSON = "application/graphql-response+json"

MADE = {
    "keywords.create": "added",
    "scans.create": "scan",
    "jobs.create": "job",
    "keyword_briefs.create": "made",
}
"""Where the payload of a spending operation holds what it made, when it was no dry run."""


class GraphqlResponse(NamedTuple):
    """The answer to a GraphQL request; report the `replies` as written once it is sent.

    `kept`: what led to it is, for certain, so that nothing can undo it any more.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    replies: list[Reply]
    kept: bool = False


def execute(
    policy: Policy, call: Call, call_batch: Callable[[Sequence[Call]], list[Reply]], accept: str = ""
) -> GraphqlResponse:
    """Answer one GraphQL request.

    `call` is the request as a whole: who asks, the body as sent (`raw`), and the `fault` of its HTTP form;
    `accept` the media types that its sender takes. `call_batch` answers the calls of a request, in order; one
    reply stands for all if it is refused. What is refused before execution has its own status: 401 and 429,
    400 what cannot be read, 422 what does not fit the schema or is too large. Else the status is 200, and a
    refused field carries its error body in `errors[].extensions` (U83).
    """
    request = GraphqlRequest(policy, copied(call, raw=None, fault=None))
    refusal = Refusal(call.fault.code, []) if call.fault else _read(call.raw or b"", request)
    replies = call_batch(request.charged(refusal, call.fault))
    refused = request.refused(replies, refusal, accept)
    return refused or GraphqlResponse(
        200, graphql_headers(policy, accept, replies), request.answered(), replies
    )


def _read(raw: bytes, request: GraphqlRequest) -> Refusal | None:
    """Read a request and run it once, to ask; gives why it is refused, or None."""
    limits = request.policy.assumptions.graphql_limits
    if (refusal := read_request_body(raw, request)) is not None:
        return refusal
    document = KNOWN.get((request.text, limits)) or parse_document(request.text, limits)
    if isinstance(document, Refusal):
        return document
    if not document.valid:
        document = validated(document)
        remember(request.text, limits, document)
    return document if isinstance(document, Refusal) else collect_calls(document, request, limits)


# Reading a request


@dataclass(slots=True)
class Refusal:
    """Why a request is refused before it is executed: an error code, and what GraphQL says."""

    code: str
    errors: list[GraphQLError]
    method: str = "POST"
    """The method that decides the class in which it is charged (U112)."""


class Document(NamedTuple):
    """A document that was parsed and is not too large; whether it is `valid` may be unknown yet."""

    node: DocumentNode
    writes: bool
    """Whether all it can do is write."""
    values: int
    """How many values of the schema it asks for."""
    valid: bool = False


@dataclass(slots=True)
class GraphqlRequest:
    """One request: the calls that its root fields make, by response key, and then their replies."""

    policy: Policy
    base: Call
    text: str = ""
    document: DocumentNode | None = None
    operation_name: str | None = None
    variables: dict[str, Any] | None = None
    calls: dict[str, Call] = field(default_factory=dict)
    replies: dict[str, Reply] | None = None
    items: int = 0
    values: int = 0
    result: ExecutionResult = field(default_factory=lambda: ExecutionResult(None, None))

    def run(self) -> ExecutionResult:
        """Execute the document: the root fields ask while there are no replies, then they answer."""
        assert self.document is not None
        return execute_sync(
            SCHEMA,
            self.document,
            self,
            variable_values=self.variables,
            operation_name=self.operation_name,
            field_resolver=_resolve,
        )

    def ask(self, info: GraphQLResolveInfo[Any], arguments: dict[str, Any]) -> None:
        """Note the call that a root field makes."""
        operation = OPERATIONS[FIELDS[info.field_name]]
        call = self.calls[str(info.path.key)] = _call(self.base, operation, dict(arguments))
        selected = sum(extent_of(node.selection_set, info.fragments, {}).fields for node in info.field_nodes)
        items = _page_size(self.policy, operation, call)
        self.items += items
        self.values += selected * items

    def answer(self, info: GraphQLResolveInfo[Any]) -> Any:
        """Return what a root field resolves to, or raise its refusal."""
        assert self.replies is not None
        key = str(info.path.key)
        reply, call = self.replies[key], self.calls[key]
        body = reply.body or {}
        if reply.code and "data" not in body:  # a dry run that would be refused is answered with its report
            raise GraphQLError(body["detail"], extensions=body)
        operation = OPERATIONS[call.operation]
        data = body.get("data")
        if data is None:
            return {"id": call.path["id"]}
        if operation.spends:
            return {"dry_run" if "dry_run" in data else MADE[operation.name]: data}
        return _connection(reply, body) if WIRES[operation.name].paged and not operation.keyless else data

    def answered(self) -> bytes:
        """Execute the document, whose calls are answered, and write what came of it."""
        return _dump((self.run() if self.calls else self.result).formatted)

    def stand_in(self, method: str, fault: Fault | None = None) -> Call:
        """Make the call that is charged for a request without calls: a read, or a refused write."""
        return copied(self.base, method=method, fault=fault)

    def charged(self, refusal: Refusal | None, fault: Fault | None = None) -> list[Call]:
        """Return the calls to answer: those of its root fields, or one that stands for what is charged.

        `fault` is what is wrong with the HTTP form of a request that is refused.
        """
        if refusal is None:
            return list(self.calls.values()) or [self.stand_in("GET")]
        return [self.stand_in(refusal.method, fault or Fault("invalid_request"))]

    def refused(self, replies: list[Reply], refusal: Refusal | None, accept: str) -> GraphqlResponse | None:
        """Take in the replies; return the response where the whole request is refused, else None."""
        is_complete = len(replies) == max(1, len(self.calls))
        if refusal is None and is_complete and replies[0].code not in ("unauthorized", "rate_limited"):
            self.replies = dict(zip(self.calls, replies, strict=True)) if self.calls else {}
            if not self.calls:  # what was charged stands for no operation, as of an introspection
                replies[0].status, replies[0].code, replies[0].outcome = 200, "", "ok"
            return None
        return _refuse(self.policy, accept, replies, refusal)


def _resolve(source: Any, info: GraphQLResolveInfo[Any], **arguments: Any) -> Any:
    """Resolve a field: of a request, whose root fields ask and then answer, or of what the service shows."""
    if not isinstance(source, GraphqlRequest):
        return source.get(JSON_NAMES[info.field_name])
    return source.ask(info, arguments) if source.replies is None else source.answer(info)


def copied(base: Call, **changes: Any) -> Call:
    """Return a call like another, but for some fields."""
    kept = {name: getattr(base, name) for name in Call.__dataclass_fields__}
    return Call(**(kept | changes))


def read_request_body(payload: bytes, request: GraphqlRequest) -> Refusal | None:
    """Read the body of a request: its document, with variables and the operation's name beside it."""
    try:
        sent = parse_json(payload)
    except ValueError:
        return _unreadable("The body is not JSON in UTF-8.")
    if not isinstance(sent, dict) or not isinstance(sent.get("query"), str):
        return _unreadable('The body is not a JSON object with a document under "query".')
    request.variables, request.operation_name = sent.get("variables"), sent.get("operationName")
    if not isinstance(request.variables, dict | None):
        return _unreadable('"variables" is not an object.')
    if not isinstance(request.operation_name, str | None):
        return _unreadable('"operationName" is not text.')
    request.text = sent["query"]
    return None


KNOWN: dict[tuple[str, GraphqlLimits], Document | Refusal] = {}


def remember(text: str, limits: GraphqlLimits, document: Document | Refusal) -> None:
    """Remember what a document came to, and forget the oldest of too many."""
    while len(KNOWN) >= MOST_KNOWN:
        KNOWN.pop(next(iter(KNOWN)), None)
    KNOWN[text, limits] = document


def parse_document(text: str, limits: GraphqlLimits) -> Document | Refusal:
    """Parse a document and measure it."""
    if len(text) > limits.characters:
        return _too_large(f"The document has {len(text)} characters, more than {limits.characters}.")
    try:
        node = parse(text, max_tokens=limits.tokens)
    except GraphQLError as error:
        return Refusal("invalid_request", [error])
    values = measured(node, limits, SCHEMA)
    if isinstance(values, str):
        return _too_large(values)
    operations = [part for part in node.definitions if isinstance(part, OperationDefinitionNode)]
    return Document(node, all(part.operation is OperationType.MUTATION for part in operations), values)


def validated(document: Document) -> Document | Refusal:
    """Validate a document."""
    errors = validate(SCHEMA, document.node, RULES, max_errors=MOST_ERRORS)
    if not errors and (error := conflict(document.node)) is not None:
        errors = [error]
    return Refusal("validation_failed", errors) if errors else document._replace(valid=True)


def collect_calls(document: Document, request: GraphqlRequest, limits: GraphqlLimits) -> Refusal | None:
    """Run a request once, to ask; gives why it is refused, or None."""
    request.document, request.values = document.node, document.values
    request.result = request.run()
    if request.result.data is None:
        return Refusal("validation_failed", request.result.errors or [])
    if len(request.calls) > limits.root_fields:
        return _too_large(f"More than {limits.root_fields} root fields.")
    if request.values > limits.values:
        return _too_large(f"The request asks for {request.values} values, more than {limits.values}.")
    if request.items > limits.items:
        return _too_large(f"The request asks for {request.items} items, more than {limits.items}.")
    return None


def _unreadable(message: str) -> Refusal:
    return Refusal("invalid_request", [GraphQLError(message)])


def _too_large(message: str) -> Refusal:
    return Refusal("validation_failed", [GraphQLError(message)])


def _page_size(policy: Policy, operation: Operation, call: Call) -> int:
    if not WIRES[operation.name].paged:
        return 1
    limit = call.query.get("limit", str(policy.facts.page_default))
    return max(1, min(int(limit), policy.facts.page_max))


def _call(base: Call, operation: Operation, arguments: dict[str, Any]) -> Call:
    """Make the call of an operation from a root field's arguments."""
    path = {name: str(arguments.pop(name)) for name in re.findall(r"{(\w+)}", operation.path)}
    body: Body | None = arguments.pop("input", None)
    given = {"first": "limit", "after": "cursor"}
    query = {
        given.get(name, name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in arguments.items()
        if value is not None
    }
    return copied(base, operation=operation.name, method=operation.method, path=path, query=query, body=body)


# Answering


def _connection(reply: Reply, body: Body) -> Body:
    """Make a Relay connection of a page (S9, S44)."""
    cursors = reply.cursors
    return {
        "nodes": body["data"],
        "edges": [
            {"cursor": cursor, "node": node} for cursor, node in zip(cursors, body["data"], strict=True)
        ],
        "page_info": {
            "has_next_page": body["has_more"],
            "has_previous_page": False,
            "start_cursor": cursors[0] if cursors else None,
            "end_cursor": cursors[-1] if cursors else None,
        },
        "notice": body.get("notice"),
    }


def _refuse(policy: Policy, accept: str, replies: list[Reply], refusal: Refusal | None) -> GraphqlResponse:
    """Refuse a whole request: for access or traffic, which come first, or for what is wrong with it."""
    [reply] = replies
    body = reply.body or {}
    errors: list[dict[str, Any]] = []
    for error in refusal.errors if refusal is not None and reply.code == "invalid_request" else ():
        assert refusal is not None
        detail = problem(policy, refusal.code, error.message).body or {}
        errors.append({**error.formatted, "extensions": detail | {"request_id": body["request_id"]}})
        reply.status, reply.code = detail["status"], refusal.code
    errors = errors or [{"message": body["detail"], "extensions": body}]
    sent = graphql_headers(policy, accept, replies)
    for name in ("Retry-After", "WWW-Authenticate"):
        if name in reply.headers:
            sent[name] = reply.headers[name]
    return GraphqlResponse(reply.status, sent, _dump({"errors": errors}), replies)


def graphql_headers(policy: Policy, accept: str, replies: list[Reply]) -> dict[str, str]:
    """Return the headers that belong to the request, not to one of its fields."""
    last, marker = replies[-1].headers, policy.assumptions.replay_header
    sent = {"Content-Type": GRAPHQL_JSON if GRAPHQL_JSON in accept else "application/json"}
    sent |= {
        name: value for name, value in last.items() if name == "X-Request-Id" or name.startswith("RateLimit-")
    }
    if marker is not None and all(reply.outcome == "replayed" for reply in replies):
        sent[marker] = "true"
    return sent


def _dump(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
