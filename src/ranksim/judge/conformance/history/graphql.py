"""GraphQL: the arguments of a request's first root field, and a list as the REST call of the same meaning.

As much of the language as arguments need (GraphQL, October 2021, section 2.9): names, variables, numbers,
strings of one line, lists and objects. What cannot be read has no arguments; nothing is guessed.

Of lists (S4, U83) only what is sure is mapped: a document of one connection and of nothing else, whose
arguments all are those of the list, and a reply that shows every item by its id. Anything else is left as it
stands.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from ranksim.core.contract.facts import JobKind
from ranksim.core.surface.operation_schemas import WIRES

Json = Any

_TOKEN: Final = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|\$?[_A-Za-z]\w*|[{}()\[\]:!=@]|\.\.\.|#[^\n]*'
)
_PLAIN: Final = {"true": True, "false": False, "null": None}

DEEPEST: Final = 20
"""Lists and objects within each other; a document with more is not read."""


def arguments(query: Json, variables: Json) -> dict[str, Json]:
    """Return them by name; variables that were not given are left out. Empty where they cannot be read."""
    parsed = _parsed(query) if isinstance(query, str) else None
    return _put_in(parsed or {}, variables)


def sure_arguments(query: Json, variables: Json) -> dict[str, Json] | None:
    """Return them where they are all that a document says of what it asks for, else None."""
    parsed = _parsed(query) if _is_simple(query) else None
    return None if parsed is None else _put_in(parsed, variables)


def _is_simple(query: Json) -> bool:
    """Return whether a document is one operation of one field that shows what it selects by its own names.

    One with directives, fragments, defaults of variables, aliases within the reply or arguments there may do,
    or show, something else than its arguments and the names in its reply say.
    """
    if not isinstance(query, str) or '"""' in query:
        return False
    depth = operations = roots = 0
    inside = False
    for token in _TOKEN.findall(query):
        if token[0] in "@=." or (depth > 1 and token == ":"):
            return False
        if token in "()":
            inside = token == "("
        elif inside or token[0] == "#":
            continue
        elif token == "{":
            operations += depth == 0
            depth += 1
        elif token == "}":
            depth -= 1
        elif depth == 1:  # the field, or its alias and a colon before
            roots += -1 if token == ":" else 1
    return (depth, operations, roots) == (0, 1, 1)


class _Variable(str):
    """The name of a variable, where a value stands."""

    __slots__ = ()


def _put_in(parsed: Mapping[str, Json], variables: Json) -> dict[str, Json]:
    given: Mapping[str, Json] = variables if isinstance(variables, dict) else {}
    return {name: _filled(value, given) for name, value in parsed.items() if not _absent(value, given)}


def _absent(value: Json, given: Mapping[str, Json]) -> bool:
    return isinstance(value, _Variable) and value not in given


def _filled(value: Json, given: Mapping[str, Json]) -> Json:
    if isinstance(value, _Variable):
        return given.get(value)
    if isinstance(value, dict):
        return {name: _filled(item, given) for name, item in value.items() if not _absent(item, given)}
    if isinstance(value, list):
        return [_filled(item, given) for item in value]
    return value


@lru_cache(maxsize=1024)
def _parsed(query: str) -> dict[str, Json] | None:
    """Return the arguments as they stand, None where they cannot be read."""
    if '"""' in query:
        return None
    tokens = iter([match for match in _TOKEN.findall(query) if match[0] != "#"])
    try:
        for token in tokens:  # what stands before the fields: the operation, its name and variables
            if token == "(":
                while next(tokens) != ")":
                    pass
            elif token == "{":
                break
        next(tokens)  # the field, or its alias
        token = next(tokens)
        if token == ":":
            next(tokens)
            token = next(tokens)
        return _members(tokens, ")", 0) if token == "(" else {}
    except (StopIteration, ValueError):
        return None


def _members(tokens: Iterator[str], end: str, depth: int) -> dict[str, Json]:
    """Read `name: value` up to a bracket. Raises ValueError or StopIteration where it cannot be read."""
    members: dict[str, Json] = {}
    while (name := next(tokens)) != end:
        if next(tokens) != ":":
            raise ValueError(name)
        members[name] = _value(next(tokens), tokens, depth)
    return members


def _value(token: str, tokens: Iterator[str], depth: int) -> Json:
    if depth > DEEPEST:
        raise ValueError("too deep")
    if token == "{":
        return _members(tokens, "}", depth + 1)
    if token == "[":
        items = []
        while (inner := next(tokens)) != "]":
            items.append(_value(inner, tokens, depth + 1))
        return items
    if token[0] == "$":
        return _Variable(token[1:])
    if token[0] == '"' or token[0].isdigit() or token[0] == "-":
        return json.loads(token)
    if token[0].isalpha() or token[0] == "_":
        return _PLAIN.get(token, token)
    raise ValueError(token)


def snaked(value: Json) -> Json:
    """Rename the members of GraphQL values as REST has them: resetsAt is resets_at."""
    if isinstance(value, dict):
        return {_snaked_name(name): snaked(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [snaked(inner) for inner in value]
    return value


@lru_cache(maxsize=4096)
def _snaked_name(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


# Lists

LISTS: Final = frozenset(
    f"{noun}.list"
    for noun in (
        *("domains", "keyword_lists", "keywords", "labels"),
        *("competitors", "scans", "jobs", "keyword_briefs"),
    )
)
"""What is mapped; of endpoints and their deliveries too much depends on the form of a field."""

ENUMS: Final = ("kind", "status")
"""Fields and arguments of a job that GraphQL may write in capitals."""


def query_of(operation: str, body: Json) -> dict[str, str] | None:
    """Return what a REST call of the list would have as its query; None where that is not sure.

    `first` is the limit and `after` the cursor, as in Relay's connections.
    """
    sent = body if isinstance(body, dict) else {}
    given = sure_arguments(sent.get("query"), sent.get("variables")) if operation in LISTS else None
    if given is None:
        return None
    query = dict[str, str]()
    for name, value in snaked({name: value for name, value in given.items() if value is not None}).items():
        if name == "first" and type(value) is int and value > 0:
            query["limit"] = str(value)
        elif name == "after" and isinstance(value, str):
            query["cursor"] = value
        elif name in WIRES[operation].filters and isinstance(value, str | int):
            query[name] = _plain(name, value)
        else:
            return None
    return query


def _plain(name: str, value: Json) -> str:
    """Write an argument as REST does; GraphQL may write an enum in capitals."""
    return str(value).lower() if isinstance(value, bool) or name in ENUMS else str(value)


def page_of(operation: str, connection: Json, query: dict[str, str]) -> dict[str, Json] | None:
    """Return a connection as the collection that REST would answer with; None where that is not sure.

    A last page may have an `endCursor`, so whether more is there is `hasNextPage`. It is left out of a reply
    that does not tell both, and where it denies more although no `first` asked for a page: a connection need
    not look then (Relay's specification).
    """
    nodes = _nodes(connection) if isinstance(connection, dict) else None
    if nodes is None or not all(isinstance(node.get("id"), str | int) for node in nodes):
        return None
    if operation == "jobs.list" and not _are_jobs(nodes):
        return None
    page: dict[str, Json] = {"data": nodes}
    page_info = connection.get("pageInfo")
    if isinstance(page_info, dict) and "endCursor" in page_info:
        more = page_info.get("hasNextPage")
        if more is True or (more is False and "limit" in query):
            page |= {"has_more": more, "next_cursor": page_info["endCursor"] if more else None}
    return page


def _are_jobs(nodes: list[dict[str, Json]]) -> bool:
    """Write the enums of nodes as REST does; return whether they have the kinds of jobs."""
    for node in nodes:
        node.update({name: _plain(name, node[name]) for name in ENUMS if name in node})
    return all(node.get("kind") in set(JobKind) for node in nodes)


def _nodes(connection: dict[str, Json]) -> list[dict[str, Json]] | None:
    """Return the items in the names of REST, from `nodes` or from `edges`; None where there are neither."""
    nodes, edges = connection.get("nodes"), connection.get("edges")
    if not isinstance(nodes, list) and isinstance(edges, list):
        nodes = [edge.get("node") if isinstance(edge, dict) else None for edge in edges]
    if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
        return None
    return [snaked(node) for node in nodes]
