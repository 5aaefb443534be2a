"""The GraphQL schema, as people read it and as it is executed, with the operations behind its root fields."""

from __future__ import annotations

import re
from importlib.resources import files

from graphql import GraphQLEnumType, GraphQLInputObjectType, GraphQLObjectType, GraphQLSchema, build_schema

from ranksim.core.service.operations import OPERATIONS

SDL = files("ranksim.core.surface").joinpath("schema.graphql").read_text(encoding="utf-8")
"""The schema, in the language in which people read it."""

NOUNS = tuple(dict.fromkeys(name.partition(".")[0] for name in OPERATIONS))

IRREGULAR = {
    "keywords.create": "createKeywords",
    "keyword_briefs.create": "createKeywordBriefs",
    "slots.get": "slots",
    "positions.history": "positionHistory",
    "account.get": "account",
    "account.usage": "usage",
    "account.entitlements": "entitlements",
    "analyses.findings": "analysisFindings",
    "ai_visibility.industries": "aiVisibilityIndustries",
}
"""Operations that are not called as others are."""


def _place(operation: str) -> tuple[int, bool]:
    """Return where an operation stands in the schema: by its noun, first what reads."""
    return NOUNS.index(operation.partition(".")[0]), OPERATIONS[operation].method != "GET"


def _root_field(operation: str) -> str:
    """Name the root field of an operation: domains, domain, createDomain for domains.list, get and create."""
    noun, _, action = operation.partition(".")
    words = [action, *noun.split("_")]
    if action != "list":
        words[-1] = words[-1].removesuffix("s")
    first, *rest = words[1:] if action in ("list", "get") else words
    return IRREGULAR.get(operation) or first + "".join(word.capitalize() for word in rest)


FIELDS = {_root_field(operation): operation for operation in sorted(OPERATIONS, key=_place)}
"""Root field to operation."""


def snake(name: str) -> str:
    """Return the name that JSON has for a GraphQL name: createdAt → created_at."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _build() -> GraphQLSchema:
    """Build the schema, with the names of the service for every argument, field of an input and value."""
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
            for field in kind.fields.values():
                for name, argument in field.args.items():
                    argument.out_name = snake(name)
    return schema


SCHEMA = _build()

JSON_NAMES = {
    name: snake(name)
    for kind in SCHEMA.type_map.values()
    if isinstance(kind, GraphQLObjectType)
    for name in kind.fields
}
"""Field of the schema to the name that JSON has for it."""
