"""The documents behind the pages with forms: an example of everything, which is taken as it stands."""

from typing import Any

import jsonschema
from graphql import OperationDefinitionNode, build_client_schema, parse, print_schema, validate
from graphql.execution.values import get_variable_values
from pydantic import TypeAdapter

from ranksim.core.contract.policy import Policy
from ranksim.core.service.operations import OPERATIONS, TABLE
from ranksim.core.surface.graphql_cost import measured
from ranksim.core.surface.graphql_schema import FIELDS, SCHEMA
from ranksim.twin.facade.control.document import control_document, describe_control
from ranksim.twin.facade.control.routes import PREFIX, ROUTES
from ranksim.twin.facade.http.examples import describe_graphql, describe_service, examples
from ranksim.twin.facade.http.openapi import openapi_document

Json = dict[str, Any]


def operations(described: Json) -> dict[tuple[str, str], Json]:
    return {
        (method.upper(), path): operation
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    }


def without_examples(part: Any) -> Any:
    if isinstance(part, list):
        return [without_examples(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {name: without_examples(one) for name, one in part.items() if name != "example"}


def test_every_operation_is_described_with_examples_that_its_schemas_take() -> None:
    described = describe_service(Policy())
    assert without_examples(described) == openapi_document(Policy())
    found = operations(described)
    assert list(found) == [(one.method, f"/v1/{one.path}") for one in TABLE]
    for (method, path), operation in found.items():
        bodies = (
            [operation["requestBody"]] if method in ("POST", "PATCH") and "requestBody" in operation else []
        )
        answers = [one for status, one in operation["responses"].items() if status < "3" and "content" in one]
        shown = [one["content"]["application/json"] for one in (*bodies, *answers)]
        shown = [one for one in shown if "example" in one]
        assert len(shown) >= len(bodies) + (method != "DELETE"), path
        for one in shown:
            schema = one["schema"] | {"components": described["components"]}
            jsonschema.Draft202012Validator(schema).validate(one["example"])


def test_every_refusal_has_an_example_that_its_codes_and_its_schema_take() -> None:
    described = describe_service(Policy())
    refusals = described["components"]["responses"]
    assert len(refusals) > 15
    for name, refusal in refusals.items():
        [content] = refusal["content"].values()
        schema = content["schema"] | {"components": described["components"]}
        jsonschema.Draft202012Validator(schema).validate(content["example"])
        assert content["example"]["code"] in name.split(".")


def test_the_control_api_is_described_with_bodies_that_it_takes() -> None:
    described = describe_control()
    assert without_examples(described) == without_examples(control_document())
    found = operations(described)
    commands = {(one.method, PREFIX + one.path) for one in ROUTES}
    assert found.keys() == commands | {("GET", f"{PREFIX}/events")}
    for route in ROUTES:
        body = found[route.method, PREFIX + route.path].get("requestBody")
        assert (body is None) == (route.body is None)
        if body is not None:
            example = body["content"]["application/json"]["example"]
            taken = dict if route.body is str else route.body  # text may be JSON
            TypeAdapter(taken).validate_python(example, strict=False)


def test_the_graphql_page_has_the_schema_an_example_of_each_root_field_and_the_limits() -> None:
    shown = describe_graphql(Policy().replace(assumptions={"graphql_limits": {"depth": 14}}))
    assert print_schema(build_client_schema(shown["schema"])) == print_schema(SCHEMA)
    assert shown["examples"].keys() == FIELDS.keys()
    for name, example in shown["examples"].items():
        node = parse(example["query"])
        assert isinstance(measured(node, Policy().assumptions.graphql_limits, SCHEMA), int), name
        assert validate(SCHEMA, node) == [], name
        [one] = node.definitions
        assert isinstance(one, OperationDefinitionNode)
        declared = one.variable_definitions or ()
        assert not isinstance(get_variable_values(SCHEMA, declared, example["variables"]), list), name
    assert "\n# - 14 levels of selections, one in another\n" in shown["about"]
    assert "\n# - 2,000 tokens of the document\n" in shown["about"]
    assert parse(f"{shown['about']}\n{shown['examples']['slots']['query']}")


def test_every_operation_has_an_example_that_the_service_answered() -> None:
    found = examples(Policy())
    assert found.keys() == OPERATIONS.keys()
    assert {name: one.status for name, one in found.items() if one.status >= 300} == {}
    assert [name for name, one in found.items() if (one.answer or {}).get("data") == []] == []
    brief = found["keyword_briefs.create"]
    assert (brief.target, brief.status) == ("/v1/keyword-briefs", 201)


def test_the_pages_are_made_where_no_plan_allows_anything() -> None:
    """Then there is nothing to read, change or delete, and the example is of the list or a refusal."""
    plans = {name: {"capabilities": (), "slot_limit": 0} for name in Policy().catalogue.plans}
    policy = Policy().replace(catalogue={"plans": plans})
    assert describe_service(policy)["paths"].keys() == openapi_document(policy)["paths"].keys()
    assert describe_graphql(policy)["examples"].keys() == FIELDS.keys()
