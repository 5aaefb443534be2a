"""A list that is asked for over GraphQL as the REST call with the same meaning (S4, U83).

Only what is sure is mapped: a document of one connection and of nothing else, whose arguments all are those
of the list, and a reply that shows every item by its id. Anything else is left as it stands.
"""

from typing import Final

from ranksim.core.contract.facts import JobKind
from ranksim.core.surface.operation_schemas import WIRES
from ranksim.judge.conformance.history.fields import snaked
from ranksim.judge.conformance.history.graphql_arguments import sure_arguments
from ranksim.judge.conformance.history.observation import Json

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
