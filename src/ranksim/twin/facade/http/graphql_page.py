"""What a browser that opens /graphql sees: a form to send queries, examples of the schema, the limits."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any

from graphql import (
    GraphQLEnumType,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLList,
    GraphQLNonNull,
    get_named_type,
    is_leaf_type,
)

from ranksim.core.contract.policy import Policy
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.surface.graphql import FIELDS, SCHEMA
from ranksim.twin.facade.http.examples import ExampleExchange, examples
from ranksim.twin.facade.http.reference import CALLER, HEAD

DEEP = 3
"""How many levels of an answer an example asks for."""

FIRST = 10
"""Items of a page that an example asks for."""

PAGE = """\
{head}<body class="alone"><main><h1>GraphQL</h1>
<p>A root field is a call of an operation: it passes the same checks as over REST, counts against the same
limits, and gives the same data. Programs send <code>POST</code> here with a JSON body of <code>query</code>
and <code>variables</code>; the whole <a href="/schema.graphql">schema</a> and the
<a href="/docs">reference</a> say what there is.</p>
{caller}
<form id="graphql" data-method="POST" data-path="/graphql" data-whose="key" aria-label="Query">
<label class="wide">example <select id="example">{examples}</select></label>
<label class="wide">query <textarea id="query" rows="12" spellcheck="false"></textarea></label>
<label class="wide">variables <textarea id="variables" rows="6" spellcheck="false"></textarea></label>
<button>Send</button></form>
<h2>Limits</h2>
<p>A request is let in by access and the rate limit before its document is looked at. Beyond these it is
refused, and costs one unit of the write class (U111, U112):</p>
<ul id="limits">{limits}</ul>
</main></body></html>"""


def graphql_page(policy: Policy) -> str:
    """Write the page."""
    answered = examples(policy)
    options = []
    for name, operation in FIELDS.items():
        query, variables = example_of(name, answered[operation])
        sent = json.dumps(variables, indent=2) if variables else ""
        options.append(
            f'<option data-query="{escape(query)}" data-variables="{escape(sent)}">{escape(name)}</option>'
        )
    said = policy.assumptions.graphql_limits
    limits = "".join(
        f"<li>{getattr(said, name):,} {escape(field.description or name)}</li>"
        for name, field in type(said).model_fields.items()
    )
    return PAGE.format(
        head=HEAD.format(title="GraphQL"), caller=CALLER, examples="".join(options), limits=limits
    )


def example_of(name: str, exchange: ExampleExchange) -> tuple[str, dict[str, Any]]:
    """Return a query of a root field and its variables, those of the exchange over REST.

    It asks for all that the answer has within a few levels, and for a short page.
    """
    mutation = SCHEMA.mutation_type
    writes = mutation is not None and name in mutation.fields
    root = mutation if writes else SCHEMA.query_type
    assert root is not None
    field = root.fields[name]
    variables = _variables(field, name, exchange)
    declared = ", ".join(f"${one}: {field.args[one].type}" for one in variables)
    passed = [f"{one}: ${one}" for one in variables] + [f"first: {FIRST}"] * ("first" in field.args)
    given = f"({', '.join(passed)})" if passed else ""
    head = f"{'mutation' if writes else 'query'}{f' ({declared})' if declared else ''}"
    selected = _selected(get_named_type(field.type), 1)
    return f"{head} {{\n  {name}{given}{selected}\n}}", variables


def _variables(field: GraphQLField, name: str, exchange: ExampleExchange) -> dict[str, Any]:
    path = OPERATIONS[FIELDS[name]].path
    pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/?]+)", f"/v1/{path}")
    found = re.match(pattern, exchange.target)
    assert found is not None
    given: dict[str, Any] = {**found.groupdict(), "input": json.loads(exchange.body or "{}")}
    return {one: _written(argument.type, given[one]) for one, argument in field.args.items() if one in given}


def _written(kind: Any, value: Any) -> Any:
    """Write what REST takes as GraphQL does."""
    if isinstance(kind, GraphQLNonNull):
        return _written(kind.of_type, value)
    if isinstance(kind, GraphQLList) and isinstance(value, list):
        return [_written(kind.of_type, one) for one in value]
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
