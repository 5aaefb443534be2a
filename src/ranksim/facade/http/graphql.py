"""GraphQL over the one service layer: a root field is a call of an operation (S4, U11, U33, U83).

A document is parsed, measured and validated, which is remembered. Executing it goes twice over the root
fields: first to ask, each field becoming a call; then, when the service has answered all calls of the request
at once and charged it once, to answer. Resolvers are plain functions over the dicts that REST sends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple, Protocol

from graphql import (
    DocumentNode,
    ExecutionResult,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLEnumType,
    GraphQLError,
    GraphQLInputObjectType,
    GraphQLObjectType,
    GraphQLResolveInfo,
    GraphQLSchema,
    OperationDefinitionNode,
    SelectionSetNode,
    build_schema,
    execute_sync,
    parse,
    validate,
)

from ranksim.contract.policy import Policy
from ranksim.facade.http.requests import parse_json
from ranksim.facade.http.wires import WIRES
from ranksim.service.calls import Body, Call, Fault, Reply
from ranksim.service.errors import problem
from ranksim.service.operations import OPERATIONS, Operation

MOST_TOKENS = 5_000
MOST_OPERATIONS = 20
"""Root fields of one request."""
MOST_DEPTH = 15
"""How deep selections may nest."""
MOST_VALUES = 40_000
"""Values that one request may ask for: the fields selected, times the items of their page."""
MOST_ERRORS = 20
LONGEST_CACHED = 20_000
"""Characters of a document that is worth remembering."""

GRAPHQL_JSON = "application/graphql-response+json"

SDL = files("ranksim.facade.http").joinpath("schema.graphql").read_text(encoding="utf-8")
"""The schema, in the language in which people read it."""

FIELDS = {
    "domains": "domains.list",
    "domain": "domains.get",
    "createDomain": "domains.create",
    "updateDomain": "domains.update",
    "deleteDomain": "domains.delete",
    "keywordLists": "keyword_lists.list",
    "keywordList": "keyword_lists.get",
    "createKeywordList": "keyword_lists.create",
    "updateKeywordList": "keyword_lists.update",
    "deleteKeywordList": "keyword_lists.delete",
    "keywords": "keywords.list",
    "keyword": "keywords.get",
    "createKeywords": "keywords.create",
    "updateKeyword": "keywords.update",
    "deleteKeyword": "keywords.delete",
    "labels": "labels.list",
    "label": "labels.get",
    "createLabel": "labels.create",
    "updateLabel": "labels.update",
    "deleteLabel": "labels.delete",
    "competitors": "competitors.list",
    "competitor": "competitors.get",
    "createCompetitor": "competitors.create",
    "updateCompetitor": "competitors.update",
    "deleteCompetitor": "competitors.delete",
    "scans": "scans.list",
    "scan": "scans.get",
    "createScan": "scans.create",
    "updateScan": "scans.update",
    "deleteScan": "scans.delete",
    "slots": "slots.get",
    "jobs": "jobs.list",
    "job": "jobs.get",
    "createJob": "jobs.create",
    "keywordBriefs": "keyword_briefs.list",
    "createKeywordBriefs": "keyword_briefs.create",
    "positions": "positions.list",
    "positionHistory": "positions.history",
    "account": "account.get",
    "usage": "account.usage",
    "entitlements": "account.entitlements",
    "webhooks": "webhooks.list",
    "webhook": "webhooks.get",
    "createWebhook": "webhooks.create",
    "updateWebhook": "webhooks.update",
    "deleteWebhook": "webhooks.delete",
    "testWebhook": "webhooks.test",
    "webhookDeliveries": "webhook_deliveries.list",
    "webhookEvents": "webhook_events.list",
    "crawledPages": "crawled_pages.list",
    "analyses": "analyses.list",
    "analysisFindings": "analyses.findings",
    "aiVisibility": "ai_visibility.list",
    "aiVisibilityIndustries": "ai_visibility.industries",
    "backlinks": "backlinks.list",
    "integrations": "integrations.list",
}
"""Root field to operation."""

MADE = {
    "keywords.create": "added",
    "scans.create": "scan",
    "jobs.create": "job",
    "keyword_briefs.create": "made",
}
"""Where the payload of a spending operation holds what it made, when it was no dry run."""


class AnswersCalls(Protocol):
    """What answers the calls of a request: the twin."""

    policy: Policy

    def call_batch(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer the calls of one request, in order; one reply stands for all if it is refused."""


class GraphqlResponse(NamedTuple):
    """The answer to a GraphQL request; report the `replies` as written once it is sent."""

    status: int
    headers: dict[str, str]
    body: bytes
    replies: list[Reply]


async def execute(twin: AnswersCalls, call: Call, accept: str = "") -> GraphqlResponse:
    """Answer one GraphQL request.

    `call` is the request as a whole: who asks, the body as sent (`raw`), and the `fault` of its HTTP form;
    `accept` the media types that its sender takes. What is refused before execution has its own status: 401
    and 429, 400 what cannot be read, 422 what does not fit the schema. Else the status is 200, and a refused
    field carries its error body in `errors[].extensions` (U83).
    """
    request = GraphqlRequest(twin.policy, _copy(call, raw=None, fault=None))
    refusal = Refusal(call.fault.code, []) if call.fault else _ask(call.raw or b"", request)
    if refusal is not None:
        form = call.fault.code if call.fault else "invalid_request"
        replies = twin.call_batch([request.stand_in("POST", Fault(form))])
        return _refuse(twin.policy, accept, replies, refusal)
    calls = list(request.calls.values()) or [request.stand_in("GET")]
    replies = twin.call_batch(calls)
    if len(replies) < len(calls) or replies[0].code in ("unauthorized", "rate_limited"):
        return _refuse(twin.policy, accept, replies, None)
    if request.calls:
        request.replies = dict(zip(request.calls, replies, strict=True))
        result = request.run()
    else:
        result = request.result
    return GraphqlResponse(200, _headers(twin.policy, accept, replies), _dump(result.formatted), replies)


# Reading a request


@dataclass(slots=True)
class Refusal:
    """Why a request is refused before it is executed: an error code, and what GraphQL says."""

    code: str
    errors: list[GraphQLError]


@dataclass(slots=True)
class GraphqlRequest:
    """One request: the calls that its root fields make, by response key, and then their replies."""

    policy: Policy
    base: Call
    document: DocumentNode | None = None
    operation_name: str | None = None
    variables: dict[str, Any] | None = None
    calls: dict[str, Call] = field(default_factory=dict)
    replies: dict[str, Reply] | None = None
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
        )

    def ask(self, operation: Operation, info: GraphQLResolveInfo[Any], arguments: dict[str, Any]) -> None:
        """Note the call that a root field makes."""
        call = self.calls[str(info.path.key)] = _call(self.base, operation, dict(arguments))
        selected = sum(_extent(node.selection_set, info.fragments, {})[0] for node in info.field_nodes)
        self.values += selected * _page_size(self.policy, operation, call)

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

    def stand_in(self, method: str, fault: Fault | None = None) -> Call:
        """Make the call that is charged for a request without calls: a read, or a refused write."""
        return _copy(self.base, method=method, fault=fault)


def _copy(base: Call, **changes: Any) -> Call:
    kept = {name: getattr(base, name) for name in Call.__dataclass_fields__}
    return Call(**(kept | changes))


def _ask(payload: bytes, request: GraphqlRequest) -> Refusal | None:
    """Read the request and run it once, to ask; gives why it is refused, or None."""
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
    text = sent["query"]
    read = _read_cached if len(text) <= LONGEST_CACHED else _read
    found = read(text)
    if isinstance(found, Refusal):
        return found
    request.document = found
    request.result = request.run()
    if request.result.data is None:
        return Refusal("validation_failed", request.result.errors or [])
    if len(request.calls) > MOST_OPERATIONS:
        return _too_large(f"More than {MOST_OPERATIONS} root fields.")
    if request.values > MOST_VALUES:
        return _too_large(f"The request asks for {request.values} values, more than {MOST_VALUES}.")
    return None


def _unreadable(message: str) -> Refusal:
    return Refusal("invalid_request", [GraphQLError(message)])


def _too_large(message: str) -> Refusal:
    return Refusal("validation_failed", [GraphQLError(message)])


def _read(text: str) -> DocumentNode | Refusal:
    """Parse a document, measure it and validate it."""
    try:
        document = parse(text, max_tokens=MOST_TOKENS)
    except GraphQLError as error:
        return Refusal("invalid_request", [error])
    if refusal := _measure(document):
        return refusal
    errors = validate(SCHEMA, document, max_errors=MOST_ERRORS)
    return Refusal("validation_failed", errors) if errors else document


_read_cached = lru_cache(maxsize=512)(_read)


def _measure(document: DocumentNode) -> Refusal | None:
    """Refuse a document that is too large or too deep, before anything is done with it."""
    parts = document.definitions
    fragments = {part.name.value: part for part in parts if isinstance(part, FragmentDefinitionNode)}
    known: dict[str, tuple[int, int]] = {}
    for part in parts:
        if isinstance(part, OperationDefinitionNode | FragmentDefinitionNode):
            count, depth = _extent(part.selection_set, fragments, known)
            if depth > MOST_DEPTH:
                return _too_large(f"Selections nest deeper than {MOST_DEPTH}.")
            if count > MOST_VALUES:
                return _too_large(f"The document selects {count} fields, more than {MOST_VALUES}.")
    return None


def _extent(
    selections: SelectionSetNode | None,
    fragments: Mapping[str, FragmentDefinitionNode],
    known: dict[str, tuple[int, int]],
) -> tuple[int, int]:
    """Count the fields selected, fragments spread out, and how deep they nest; `known` are fragments'."""
    total = deepest = 0
    for node in () if selections is None else selections.selections:
        if isinstance(node, FieldNode):
            count, depth = _extent(node.selection_set, fragments, known)
            count, depth = count + 1, depth + 1
        elif isinstance(node, FragmentSpreadNode):
            name = node.name.value
            if name not in known:
                known[name] = (0, 0)  # a fragment that spreads itself is refused by validation
                if name in fragments:
                    known[name] = _extent(fragments[name].selection_set, fragments, known)
            count, depth = known[name]
        else:
            count, depth = _extent(getattr(node, "selection_set", None), fragments, known)
        total, deepest = total + count, max(deepest, depth)
    return total, deepest


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
    query = {given.get(name, name): _text(value) for name, value in arguments.items() if value is not None}
    return _copy(base, operation=operation.name, method=operation.method, path=path, query=query, body=body)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
    status = reply.status
    for error in refusal.errors if refusal is not None and reply.code == "invalid_request" else ():
        assert refusal is not None
        said = problem(policy, refusal.code, error.message).body or {}
        status = said["status"]
        errors.append({**error.formatted, "extensions": said | {"request_id": body["request_id"]}})
    errors = errors or [{"message": body["detail"], "extensions": body}]
    sent = _headers(policy, accept, replies)
    for name in ("Retry-After", "WWW-Authenticate"):
        if name in reply.headers:
            sent[name] = reply.headers[name]
    return GraphqlResponse(status, sent, _dump({"errors": errors}), replies)


def _headers(policy: Policy, accept: str, replies: list[Reply]) -> dict[str, str]:
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


# The schema


def snake(name: str) -> str:
    """Return the name that JSON has for a GraphQL name: createdAt → created_at."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _build() -> GraphQLSchema:
    """Build the schema: names of the service on every field and value, a resolver on every field."""
    schema = build_schema(SDL)
    for kind in schema.type_map.values():
        if kind.name.startswith("__"):
            continue
        if isinstance(kind, GraphQLEnumType):
            for name, value in kind.values.items():
                value.value = name.lower()
        elif isinstance(kind, GraphQLInputObjectType):
            for name, given in kind.fields.items():
                given.out_name = snake(name)
        elif isinstance(kind, GraphQLObjectType):
            for name, shown in kind.fields.items():
                for argument in shown.args:
                    shown.args[argument].out_name = snake(argument)
                root = kind in (schema.query_type, schema.mutation_type)
                shown.resolve = _root_field(OPERATIONS[FIELDS[name]]) if root else _plain_field(snake(name))
    return schema


def _root_field(operation: Operation) -> Any:
    def resolve(request: GraphqlRequest, info: GraphQLResolveInfo[Any], **arguments: Any) -> Any:
        if request.replies is None:
            return request.ask(operation, info, arguments)
        return request.answer(info)

    return resolve


def _plain_field(key: str) -> Any:
    def resolve(source: Body, _: GraphQLResolveInfo[Any]) -> Any:
        return source.get(key)

    return resolve


SCHEMA = _build()
