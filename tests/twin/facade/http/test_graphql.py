"""GraphQL says and does what REST says and does, in one request or several."""

import asyncio
import json
from collections.abc import Collection, Sequence
from typing import Any

import graphql as core
import pytest

from ranksim.core.contract.facts import RateClass
from ranksim.core.service.calls import Call, Fault, Reply
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.surface import graphql as surface
from ranksim.core.surface.graphql import GraphqlResponse
from ranksim.core.surface.graphql_schema import FIELDS, SCHEMA, snake
from ranksim.core.surface.operation_schemas import WIRES
from ranksim.twin.facade.http import graphql
from ranksim.twin.facade.http.requests import call_of
from ranksim.twin.facade.http.response_schemas import name_of, view_schemas

ROOTS = {
    name: field
    for kind in (SCHEMA.query_type, SCHEMA.mutation_type)
    if kind is not None
    for name, field in kind.fields.items()
}


class Twin:
    """A service at one instant."""

    def __init__(self, stage: Any) -> None:
        self.service, self.now, self.policy, self.key = (
            stage.service.fork(),
            stage.now,
            stage.policy,
            stage.key,
        )

    async def commit(self) -> None: ...

    def admits(self, call: Call, classes: Collection[RateClass]) -> bool:
        return self.service.admits(call, classes, self.now)

    def call_batch(self, calls: Sequence[Call]) -> list[Reply]:
        replies = self.service.handle_batch(calls, self.now).replies
        return replies

    def send(
        self,
        payload: Any,
        written: bool = True,
        environment: str = "production",
        fault: str = "",
        **headers: str,
    ) -> GraphqlResponse:
        """Send a request with the first key; `headers` as idempotency_key="k"."""
        headers = {"authorization": f"Bearer {self.key}"} | headers
        given = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
        call = call_of({"method": "POST"}, given, "", environment)
        call.surface, call.fault = "graphql", Fault(fault) if fault else None
        call.raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        response = asyncio.run(graphql.GraphqlEndpoint(self).execute(call, headers.get("accept", "")))
        if written:
            for reply in response.replies:
                self.service.written(reply, self.now)
        return response

    def ask(self, query: str, **variables: Any) -> Any:
        response = self.send({"query": query, "variables": variables})
        assert response.status == 200, response.body
        return json.loads(response.body)


@pytest.fixture
def twin(stage: Any) -> Twin:
    return Twin(stage)


# Every operation, over both surfaces


def test_every_operation_has_one_field() -> None:
    assert sorted(FIELDS.values()) == sorted(OPERATIONS)
    assert set(FIELDS) == set(ROOTS)
    assert SCHEMA.mutation_type is not None
    for name, operation in FIELDS.items():
        assert (name in SCHEMA.mutation_type.fields) == (OPERATIONS[operation].method != "GET")


@pytest.mark.fact("S4", "U33", "U83")
@pytest.mark.parametrize("idempotency_key", [None, "key"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_both_surfaces_answer_alike_and_leave_the_same_state(
    stage: Any, operation: str, idempotency_key: str | None
) -> None:
    for sample in stage.samples():
        if sample.operation != operation:
            continue
        twin, service = Twin(stage), stage.service.fork()
        reply = stage.handle(sample, service, idempotency_key=idempotency_key)
        headers = {} if idempotency_key is None else {"idempotency_key": idempotency_key}
        response = twin.send(sample.in_graphql(), written=False, **headers)
        assert twin.service.save() == service.save(), sample.name
        assert response.status == 200, response.body
        body = json.loads(response.body)
        [name] = body["data"]
        if sample.code:
            [error] = body["errors"]
            assert error["extensions"] == reply.body
            assert (error["path"], error["message"]) == ([name], reply.body["detail"])
        else:
            assert "errors" not in body
            data = sample.data_of(body, reply.status, reply.body)
            assert data == (reply.body or {}).get("data"), sample.name
        limits = {name: value for name, value in reply.headers.items() if name.startswith(("X-", "Rate"))}
        assert len(limits) == 4
        assert limits.items() <= response.headers.items()


# The types are the shapes


def shape_of(kind: Any) -> tuple[str, bool]:
    """Give the JSON type of a field and whether it may be null."""
    nullable = not isinstance(kind, core.GraphQLNonNull)
    inner = kind if nullable else kind.of_type
    if isinstance(inner, core.GraphQLList):
        return "array", nullable
    names = {"ID": "string", "String": "string", "DateTime": "string", "Date": "string", "Int": "integer"}
    names |= {"Boolean": "boolean", "JobKind": "string", "JobStatus": "string", "JSON": "object"}
    return names.get(inner.name, inner.name), nullable


def shape_in(schema: Any) -> tuple[str, bool]:
    """Give the same of a property of a shape."""
    if "anyOf" in schema:
        return shape_in(schema["anyOf"][0])[0], True
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2], False
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return kinds[0], "null" in kinds


SCHEMAS = view_schemas()
UNSEEN = {"Problem", "EventJob", "JobEventData", "JobEvent", "TestEventData", "TestDelivery"}


@pytest.mark.parametrize("shape", [shape for shape in SCHEMAS if shape not in UNSEEN])
def test_every_shape_has_its_type(shape: str) -> None:
    fields = {snake(name): shape_of(field.type) for name, field in SCHEMA.type_map[shape].fields.items()}
    assert fields == {name: shape_in(schema) for name, schema in SCHEMAS[shape]["properties"].items()}


@pytest.mark.parametrize("operation", [name for name, wire in WIRES.items() if wire.body])
def test_every_body_has_its_input(operation: str) -> None:
    [name] = [name for name, called in FIELDS.items() if called == operation]
    given = ROOTS[name].args["input"].type.of_type
    required = {snake(n) for n, field in given.fields.items() if core.is_required_input_field(field)}
    model = WIRES[operation].body
    assert model is not None
    assert {snake(n) for n in given.fields} == set(model.model_fields)
    assert required == {n for n, field in model.model_fields.items() if field.is_required()}


@pytest.mark.fact("U110", "S44")
@pytest.mark.parametrize("name", [name for name in FIELDS if WIRES[FIELDS[name]].paged])
def test_every_list_takes_its_filters_and_is_a_connection(name: str) -> None:
    wire = WIRES[FIELDS[name]]
    arguments = {snake(argument) for argument in ROOTS[name].args} - {"id"}
    if name == "webhookEvents":
        assert arguments == set()
        return
    assert arguments == {"first", "after", *wire.filters}
    kind = core.get_named_type(ROOTS[name].type)
    [(_, view)] = wire.answers
    shape = name_of(view)
    assert kind.name == f"{shape}Connection"
    assert set(kind.fields) == {"edges", "nodes", "pageInfo"} | ({"notice"} if wire.notices else set())
    edge = core.get_named_type(kind.fields["edges"].type)
    assert {n: str(field.type) for n, field in edge.fields.items()} == {
        "cursor": "String!",
        "node": f"{shape}!",
    }


# One request


def codes(response: GraphqlResponse) -> list[str]:
    return [error["extensions"]["code"] for error in json.loads(response.body).get("errors", [])]


def remaining(response: GraphqlResponse) -> tuple[int, int]:
    return int(response.headers["RateLimit-Limit"]), int(response.headers["RateLimit-Remaining"])


@pytest.mark.fact("U11", "S4")
def test_aliases_fragments_and_variables_make_one_request(twin: Twin, stage: Any) -> None:
    twin.now += 60_000_000
    query = """
        query Two($id: ID!, $none: ID = "none", $with: Boolean!) {
          first: domain(id: $id) { ...Said }
          second: domain(id: $id) { host label }
          ...More
          ... on Query { missing: domain(id: $none) { id } }
          skipped: slots @include(if: $with) { used }
        }
        fragment More on Query { keywords(first: 2, domainId: $id) { nodes { text: keyword } } }
        fragment Said on Domain { id host }
    """
    response = twin.send({"query": query, "variables": {"id": stage.ids["domain"], "with": False}})
    body = json.loads(response.body)
    assert body["data"] == {
        "first": {"id": stage.ids["domain"], "host": "www.example.com"},
        "second": {"host": "www.example.com", "label": "www.example.com"},
        "keywords": {"nodes": [{"text": "shoes"}, {"text": "boots"}]},
        "missing": None,
    }
    [error] = body["errors"]
    assert error["path"] == ["missing"]
    assert error["extensions"]["code"] == "not_found"
    assert (response.status, remaining(response)) == (200, (600, 599))


@pytest.mark.fact("U11")
def test_the_dearest_field_decides_the_class(twin: Twin, stage: Any) -> None:
    twin.now += 60_000_000
    job = f'createJob(input: {{kind: AI_SCAN, domainId: "{stage.ids["domain"]}"}}) {{ job {{ id kind }} }}'
    label = f'createLabel(input: {{domainId: "{stage.ids["domain"]}", name: "x"}}) {{ id }}'
    response = twin.send({"query": f"mutation {{ a: {label} b: {job} c: {job} }}"})
    data = json.loads(response.body)["data"]
    assert list(data) == ["a", "b", "c"]
    assert data["b"]["job"]["kind"] == "AI_SCAN"
    assert data["b"] != data["c"]
    assert remaining(response) == (20, 19)


@pytest.mark.fact("E38", "S4")
def test_a_refusal_leaves_the_other_fields(twin: Twin, stage: Any) -> None:
    crawl = f'createJob(input: {{kind: CRAWL, domainId: "{stage.ids["domain"]}"}}) {{ job {{ status }} }}'
    response = twin.send({"query": f"mutation {{ a: {crawl} b: {crawl} }}"})
    assert json.loads(response.body)["data"] == {"a": {"job": {"status": "QUEUED"}}, "b": None}
    assert codes(response) == ["cooldown_active"]
    assert "Retry-After" not in response.headers
    assert json.loads(response.body)["errors"][0]["extensions"]["meta"]["retry_after"] == 86_400


@pytest.mark.fact("S66", "U56")
def test_a_dry_run_that_would_be_refused_says_so(twin: Twin, stage: Any) -> None:
    asked = f'kind: CRAWL, domainId: "{stage.ids["domain"]}"'
    said = "dryRun { allowed refusal { code } checks { check ok } }"
    twin.ask(f"mutation {{ createJob(input: {{{asked}}}) {{ job {{ id }} }} }}")
    body = twin.ask(f"mutation {{ createJob(input: {{{asked}, dryRun: true}}) {{ {said} }} }}")
    assert "errors" not in body
    report = body["data"]["createJob"]["dryRun"]
    assert (report["allowed"], report["refusal"]["code"]) == (False, "cooldown_active")
    assert [row["check"] for row in report["checks"] if not row["ok"]] == ["cooldown"]


@pytest.mark.fact("U33", "U31", "S47")
def test_a_repeated_request_is_replayed(twin: Twin, stage: Any) -> None:
    job = f'createJob(input: {{kind: AI_SCAN, domainId: "{stage.ids["domain"]}"}}) {{ job {{ id }} }}'
    request = {"query": f"mutation {{ a: {job} b: {job} }}"}
    first, again = (twin.send(request, idempotency_key="k") for _ in range(2))
    assert json.loads(first.body) == json.loads(again.body)
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    other = twin.send({"query": f"mutation {{ a: {job.replace('AI_SCAN', 'CRAWL')} }}"}, idempotency_key="k")
    assert codes(other) == ["idempotency_mismatch"]


@pytest.mark.fact("U92", "E7")
def test_a_request_is_in_flight_until_it_is_written(twin: Twin, stage: Any) -> None:
    job = f'createJob(input: {{kind: AI_SCAN, domainId: "{stage.ids["domain"]}"}}) {{ job {{ id }} }}'
    twin.send({"query": f"mutation {{ {job} }}"}, written=False, idempotency_key="k")
    again = twin.send({"query": f"mutation {{ {job} }}"}, idempotency_key="k")
    assert codes(again) == ["idempotency_in_progress"]


@pytest.mark.fact("S44", "S46", "U83")
def test_a_walk_can_begin_behind_any_item(twin: Twin) -> None:
    query = """query ($after: String) {
        jobs(first: 5, after: $after) { edges { cursor node { id } } pageInfo { hasNextPage endCursor } } }"""
    whole = twin.ask("{ jobs { nodes { id } } }")["data"]["jobs"]["nodes"]
    found, after = [], None
    while True:
        page = twin.ask(query, after=after)["data"]["jobs"]
        found += page["edges"]
        after = page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            break
    assert [edge["node"] for edge in found] == whole
    behind = twin.ask(query, after=found[1]["cursor"])["data"]["jobs"]["edges"]
    assert behind == found[2:7]


@pytest.mark.fact("S10", "U82")
def test_a_notice_is_no_error(stage: Any) -> None:
    twin = Twin(stage)
    twin.key = twin.service.issue_key(twin.service.open_account("empty", "pro", twin.now), "k", twin.now)
    shown = twin.ask("{ positions { nodes { url } pageInfo { startCursor } notice { code } } }")
    assert shown == {
        "data": {
            "positions": {"nodes": [], "pageInfo": {"startCursor": None}, "notice": {"code": "no_positions"}}
        }
    }


def test_introspection_is_a_read_and_needs_a_key(twin: Twin) -> None:
    twin.now += 60_000_000
    response = twin.send({"query": core.get_introspection_query()})
    assert (response.status, remaining(response)) == (200, (600, 599))
    client = core.build_client_schema(json.loads(response.body)["data"])
    assert core.print_schema(client) == core.print_schema(SCHEMA)
    assert twin.ask("{ __typename slots { used } }")["data"]["__typename"] == "Query"
    assert twin.send({"query": "{ __typename }"}, authorization="Bearer no").status == 401


@pytest.mark.fact("S39")
def test_event_types_need_no_key(twin: Twin) -> None:
    query = {"query": "{ webhookEvents { type } }"}
    response = twin.send(query, authorization="")
    assert json.loads(response.body)["data"]["webhookEvents"][0] == {"type": "job.completed"}


# What is refused as a whole

MANY_JOBS = (
    "jobs(first: 200) { nodes { id kind status progress } edges { node { id kind status progress } } }"
)


@pytest.mark.fact("U83", "U24", "S96", "E36")
@pytest.mark.parametrize(
    ("payload", "status", "code", "says"),
    [
        (b"\xff", 400, "invalid_request", "not JSON"),
        (b'{"query": "{slots{used}}", "x": NaN}', 400, "invalid_request", "not JSON"),
        (b"[" * 100_000, 400, "invalid_request", "not JSON"),
        (b"[]", 400, "invalid_request", '"query"'),
        ({"query": 1}, 400, "invalid_request", '"query"'),
        ({"query": "{slots{used}}", "variables": []}, 400, "invalid_request", '"variables"'),
        ({"query": "{slots{used}}", "operationName": 1}, 400, "invalid_request", '"operationName"'),
        ({"query": ""}, 400, "invalid_request", "Syntax Error"),
        ({"query": "{"}, 400, "invalid_request", "Syntax Error"),
        ({"query": "{ " + "slots{used} " * 2_000 + "}"}, 400, "invalid_request", "tokens"),
        ({"query": "{ nothing }"}, 422, "validation_failed", "Cannot query field"),
        ({"query": "{ domain { id } }"}, 422, "validation_failed", "required"),
        ({"query": "{ slots }"}, 422, "validation_failed", "selection of subfields"),
        ({"query": "{ ...A } fragment A on Query { ...A }"}, 422, "validation_failed", "spread"),
        (
            {"query": "query A { slots { used } } query B { slots { used } }"},
            422,
            "validation_failed",
            "oper",
        ),
        (
            {"query": "query A { slots { used } }", "operationName": "B"},
            422,
            "validation_failed",
            "Unknown operation",
        ),
        ({"query": "query ($id: ID!) { domain(id: $id) { id } }"}, 422, "validation_failed", "$id"),
        ({"query": "subscription { slots }"}, 422, "validation_failed", "subscription"),
        (
            {"query": "{" + " ".join(f"a{n}: slots {{ used }}" for n in range(21)) + "}"},
            422,
            "validation_failed",
            "root fields",
        ),
        (
            {"query": "{__schema{types{" + "fields{type{" * 7 + "name" + "}}" * 7 + "}}}"},
            422,
            "validation_failed",
            "deeper",
        ),
        ({"query": "{" + "a{" * 900 + "b" + "}" * 900 + "}"}, 400, "invalid_request", "too deeply"),
        (
            {"query": "{" + " ".join(f"a{n}: {MANY_JOBS}" for n in range(20)) + "}"},
            422,
            "validation_failed",
            "values",
        ),
    ],
)
def test_a_request_that_does_not_fit_is_refused(
    twin: Twin, payload: Any, status: int, code: str, says: str
) -> None:
    before = twin.service.fork().state
    response = twin.send(payload, x_request_id="mine")
    errors = json.loads(response.body)["errors"]
    assert (response.status, {error["extensions"]["code"] for error in errors}) == (status, {code})
    assert says in " ".join(error["message"] for error in errors)
    for error in errors:
        assert set(error["extensions"]) == set(SCHEMAS["Problem"]["properties"])
        assert error["extensions"]["request_id"] == response.headers["X-Request-Id"] == "mine"
        assert error["extensions"]["detail"] == error["message"]
    assert remaining(response)[0] == 120
    assert twin.service.state.serial == before.serial


def test_fragments_that_multiply_are_counted_at_once(twin: Twin) -> None:
    fragments = " ".join(
        f"fragment F{n} on Query {{ a{n}: slots {{ used }} ...F{n + 1} ...F{n + 1} }}" for n in range(40)
    )
    query = f"{{ ...F0 }} {fragments} fragment F40 on Query {{ slots {{ used }} }}"
    response = twin.send({"query": query})
    assert response.status == 422
    assert "fields, more than" in json.loads(response.body)["errors"][0]["message"]


@pytest.mark.fact("U83", "S68", "U12")
@pytest.mark.parametrize("payload", [{"query": "{ slots { used } }"}, {"query": "{"}, b"nothing"])
def test_access_comes_before_all_else(twin: Twin, payload: Any) -> None:
    response = twin.send(payload, authorization="Basic x")
    assert (response.status, codes(response)) == (401, ["unauthorized"])
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert {"X-Request-Id", "RateLimit-Limit", "RateLimit-Reset"} <= set(response.headers)


@pytest.mark.fact("U83", "S100")
@pytest.mark.parametrize(
    "query", ["{ slots { used } }", "{ __typename }", "{ slots { used } domains { nodes { id } } }"]
)
def test_a_limited_request_is_refused_as_a_whole(twin: Twin, query: str) -> None:
    twin.now += 60_000_000
    for _ in range(600):
        assert twin.send({"query": query}).status == 200
    response = twin.send({"query": query})
    assert (response.status, codes(response)) == (429, ["rate_limited"])
    assert response.headers["Retry-After"] == "60"
    assert "data" not in json.loads(response.body)


@pytest.mark.fact("U86")
@pytest.mark.parametrize(
    ("fault", "status"),
    [("payload_too_large", 413), ("unsupported_media_type", 415), ("method_not_allowed", 405)],
)
def test_a_fault_of_the_http_request_is_answered(twin: Twin, fault: str, status: int) -> None:
    response = twin.send(b"", fault=fault)
    assert (response.status, codes(response)) == (status, [fault])


@pytest.mark.parametrize(
    ("accept", "sent"),
    [
        ("*/*", "application/json"),
        ("application/graphql-response+json, application/json;q=0.9", "application/graphql-response+json"),
    ],
)
def test_the_answer_has_the_type_that_is_accepted(twin: Twin, accept: str, sent: str) -> None:
    assert twin.send({"query": "{ slots { used } }"}, accept=accept).headers["Content-Type"] == sent


@pytest.mark.fact("S3", "E48")
def test_a_key_of_the_other_environment_is_unknown(twin: Twin) -> None:
    assert twin.send({"query": "{ slots { used } }"}, environment="sandbox").status == 401


def test_absent_and_null_differ_in_an_update(twin: Twin, stage: Any) -> None:
    query = 'mutation ($input: UpdateDomainInput!) { updateDomain(id: "%s", input: $input) { path label } }'
    change = query % stage.ids["domain"]
    assert twin.ask(change, input={"label": "L"})["data"]["updateDomain"] == {"path": "/shop", "label": "L"}
    assert twin.ask(change, input={"path": None})["data"]["updateDomain"] == {"path": None, "label": "L"}
    assert twin.ask(change, input={"label": None})["errors"][0]["extensions"]["code"] == "validation_failed"


def test_a_document_is_read_once(twin: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "{ slots { used held } account { id } }"
    twin.ask(query)
    monkeypatch.setattr(surface, "parse", None)
    monkeypatch.setattr(surface, "validate", None)
    assert set(twin.ask(query)["data"]) == {"slots", "account"}
