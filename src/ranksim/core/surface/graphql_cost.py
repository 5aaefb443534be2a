"""What a GraphQL document costs, measured before anything is done with it (U111).

Everything here is linear in the document and in the schema. What a document asks of the service depends on
its variables too, and is measured when they are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLEnumType,
    GraphQLError,
    GraphQLInputObjectType,
    GraphQLObjectType,
    GraphQLSchema,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    print_ast,
)

from ranksim.core.contract.assumptions import GraphqlLimits

Fragments = Mapping[str, FragmentDefinitionNode]


class Extent(NamedTuple):
    """How much a selection selects, fragments spread out."""

    fields: int
    depth: int
    aliases: int


NOTHING = Extent(0, 0, 0)


def fragments_of(document: DocumentNode) -> dict[str, FragmentDefinitionNode]:
    """Return the fragments of a document, by name."""
    return {
        part.name.value: part for part in document.definitions if isinstance(part, FragmentDefinitionNode)
    }


def measured(document: DocumentNode, limits: GraphqlLimits, schema: GraphQLSchema) -> int | str:
    """Return how many values of the schema a document asks for, or in what it is too large.

    It need not be valid.
    """
    fragments = fragments_of(document)
    extents: dict[str, Extent] = {}
    for part in document.definitions:
        if not isinstance(part, OperationDefinitionNode | FragmentDefinitionNode):
            continue
        extent = extent_of(part.selection_set, fragments, extents)
        if extent.depth > limits.depth:
            return f"Selections nest deeper than {limits.depth}."
        if extent.fields > limits.fields_selected:
            return f"The document selects {extent.fields} fields, more than {limits.fields_selected}."
        if extent.aliases > limits.aliases:
            return f"The document has {extent.aliases} aliases, more than {limits.aliases}."
    values = sum(
        introspected(part.selection_set, fragments, schema)
        for part in document.definitions
        if isinstance(part, OperationDefinitionNode)
    )
    if values > limits.values:
        return f"The document asks for {values} values of the schema, more than {limits.values}."
    return values


def extent_of(
    selections: SelectionSetNode | None, fragments: Fragments, extents: dict[str, Extent]
) -> Extent:
    """Measure a selection; `extents` are those of the fragments that were measured."""
    fields = deepest = aliases = 0
    for node in () if selections is None else selections.selections:
        if isinstance(node, FieldNode):
            inner = extent_of(node.selection_set, fragments, extents)
            inner = Extent(inner.fields + 1, inner.depth + 1, inner.aliases + (node.alias is not None))
        elif isinstance(node, FragmentSpreadNode):
            name = node.name.value
            if name not in extents:
                extents[name] = NOTHING  # a fragment that spreads itself is refused by validation
                if name in fragments:
                    extents[name] = extent_of(fragments[name].selection_set, fragments, extents)
            inner = extents[name]
        else:
            inner = extent_of(getattr(node, "selection_set", None), fragments, extents)
        fields, aliases = fields + inner.fields, aliases + inner.aliases
        deepest = max(deepest, inner.depth)
    return Extent(fields, deepest, aliases)


def _spread(sets: Iterable[SelectionSetNode], fragments: Fragments) -> Iterator[FieldNode]:
    """Walk the fields of selections, fragments spread out, each once."""
    seen: set[str] = set()
    waiting: list[SelectionNode] = [node for selection in sets for node in selection.selections]
    for node in waiting:
        if isinstance(node, FieldNode):
            yield node
        elif isinstance(node, FragmentSpreadNode):
            name = node.name.value
            if name not in seen and name in fragments:
                seen.add(name)
                waiting += fragments[name].selection_set.selections
        elif isinstance(node, InlineFragmentNode):
            waiting += node.selection_set.selections


# What a document asks of the schema


def introspected(selections: SelectionSetNode, fragments: Fragments, schema: GraphQLSchema) -> int:
    """Count the values of the schema that an operation asks for."""
    total = 0
    for node in _spread([selections], fragments):
        if node.selection_set is None:
            continue
        if node.name.value == "__schema":
            total += _count_values([node.selection_set], {id(schema): (schema, 1)}, fragments)
        elif node.name.value == "__type":
            total += max(
                _count_values([node.selection_set], {id(kind): (kind, 1)}, fragments)
                for kind in _widest(schema)
            )
    return total


def _widest(schema: GraphQLSchema) -> list[Any]:
    """Return the types with most to tell: which one is asked for may stand in a variable."""
    kinds = schema.type_map.values()
    return [max(kinds, key=lambda kind: len(getattr(kind, what, ()))) for what in ("fields", "values")]


def _count_values(
    sets: list[SelectionSetNode], things: dict[int, tuple[Any, int]], fragments: Fragments
) -> int:
    """Count what is told of some parts of the schema, each as often as it is told of."""
    total = 0
    times = sum(count for _, count in things.values())
    for node in _spread(sets, fragments):
        total += times
        if node.selection_set is None:
            continue
        inner: dict[int, tuple[Any, int]] = {}
        for thing, count in things.values():
            for part in _parts(thing, node.name.value):
                before = inner.get(id(part))
                inner[id(part)] = (part, count if before is None else before[1] + count)
        if inner:
            total += _count_values([node.selection_set], inner, fragments)
    return total


OWNERS = {"fields": GraphQLObjectType, "inputFields": GraphQLInputObjectType, "enumValues": GraphQLEnumType}
"""Which kind of type has what, by the field of introspection that tells of it."""

ATTRIBUTES = {
    "types": "type_map",
    "queryType": "query_type",
    "mutationType": "mutation_type",
    "ofType": "of_type",
    "inputFields": "fields",
    "enumValues": "values",
}
"""What graphql-core calls the parts that such a field leads to, where it calls them otherwise."""


def _parts(thing: Any, name: str) -> Iterable[Any]:
    """Return what a field of introspection leads to, from a part of the schema."""
    kind = OWNERS.get(name)
    if kind is not None and not isinstance(thing, kind):
        return []
    part = getattr(thing, ATTRIBUTES.get(name, name), None)
    if isinstance(part, dict):
        return part.values()
    if name == "directives":
        return part or ()
    return [part] if name == "type" or (part is not None and name in ATTRIBUTES) else []


# Fields that are one in the answer


def conflict(document: DocumentNode) -> GraphQLError | None:
    """Return the first two fields of one name in the answer that do not say the same, in linear time.

    The schema has no interfaces and no unions, so fields that meet are of one type, and it is enough to
    compare each with the first of its name. The document must be valid but for this.
    """
    fragments = fragments_of(document)
    printed: dict[int, dict[str, str]] = {}
    waiting = [
        [part.selection_set] for part in document.definitions if isinstance(part, OperationDefinitionNode)
    ]
    for sets in waiting:
        by_name: dict[str, list[FieldNode]] = {}
        for node in _spread(sets, fragments):
            by_name.setdefault((node.alias or node.name).value, []).append(node)
        for name, nodes in by_name.items():
            for other in nodes[1:]:
                if why := _differing(nodes[0], other, printed):
                    text = f"Fields '{name}' conflict because {why}. Use different aliases on the fields"
                    return GraphQLError(f"{text} to fetch both if this was intentional.", [nodes[0], other])
            inner = [node.selection_set for node in nodes if node.selection_set is not None]
            if inner:
                waiting.append(inner)
    return None


def _differing(first: FieldNode, other: FieldNode, printed: dict[int, dict[str, str]]) -> str | None:
    if first.name.value != other.name.value:
        return f"'{first.name.value}' and '{other.name.value}' are different fields"
    if (first.arguments or other.arguments) and _arguments(first, printed) != _arguments(other, printed):
        return "they have differing arguments"
    return None


def _arguments(node: FieldNode, printed: dict[int, dict[str, str]]) -> dict[str, str]:
    if id(node) not in printed:
        printed[id(node)] = {given.name.value: print_ast(given.value) for given in node.arguments or ()}
    return printed[id(node)]
