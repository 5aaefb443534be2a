"""GraphQL documents for some operations, as far as their fields can be guessed (U83).

The specification shows no schema; a deployment with other names refuses them, and `explore` finds that out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ranksim.core.callers.steps import Received, Send


def _listing(name: str, selection: str, *filters: str) -> str:
    """Return a document that reads a page of a list."""
    given = "".join(f", ${filter_name}: ID" for filter_name in filters)
    passed = "".join(f", {filter_name}: ${filter_name}" for filter_name in filters)
    return (
        f"query ($first: Int, $after: String{given})"
        f" {{ {name}(first: $first, after: $after{passed})"
        f" {{ nodes {{ {selection} }} pageInfo {{ hasNextPage endCursor }} }} }}"
    )


READS = {
    "domains.list": _listing("domains", "id host label createdAt"),
    "keyword_lists.list": _listing("keywordLists", "id name domainId", "domainId"),
    "keywords.list": _listing("keywords", "id keyword listId domainId", "domainId", "listId"),
    "labels.list": _listing("labels", "id name domainId", "domainId"),
    "scans.list": _listing("scans", "id name active domainId", "domainId"),
    "jobs.list": _listing("jobs", "id kind status domainId", "domainId"),
    "slots.get": "query { slots { active held used limit available resetsAt } }",
    "account.get": "query { account { id name plan status } }",
}
"""Operation to a document that reads the same."""

DRY_RUN = """
mutation ($kind: JobKind!, $domain: ID!) {
  createJob(input: {kind: $kind, domainId: $domain, dryRun: true}) {
    job { id }
    dryRun { allowed }
  }
}
"""

START = """
mutation ($kind: JobKind!, $domain: ID!) {
  createJob(input: {kind: $kind, domainId: $domain}) { job { id kind status domainId } }
}
"""

UPDATES = {
    "domains.update": (
        "mutation ($id: ID!, $input: UpdateDomainInput!)"
        " { updateDomain(id: $id, input: $input) { id label } }",
        {"label"},
    ),
    "labels.update": (
        "mutation ($id: ID!, $input: UpdateLabelInput!) { updateLabel(id: $id, input: $input) { id name } }",
        {"name"},
    ),
}
"""Operation to a document that makes such an update, and the fields that it may have."""


ARGUMENTS = {"limit": "first", "cursor": "after", "domain_id": "domainId", "list_id": "listId"}
"""Query parameters as GraphQL has them."""


def over_graphql(send: Send) -> Send | None:
    """Return the GraphQL twin of a call, or None where there is none here."""
    body = send.body or {}
    variables: dict[str, Any] = {}
    if send.operation in READS:
        query = READS[send.operation]
        variables = {ARGUMENTS.get(name, ""): value for name, value in send.query.items()}
        limit = send.query.get("limit", "1")
        if not (limit.isascii() and limit.isdigit() and all(f"${name}:" in query for name in variables)):
            return None
        if "first" in variables:
            variables["first"] = int(limit)
    elif send.operation == "jobs.create":
        query = DRY_RUN if body.get("dry_run") is True else START
        variables = {"kind": str(body["kind"]).upper(), "domain": body["domain_id"]}
    elif send.operation in UPDATES and body.keys() <= UPDATES[send.operation][1]:
        query, variables = UPDATES[send.operation][0], {"id": send.path["id"], "input": body}
    else:
        return None
    document = {"query": query, "variables": variables}
    return replace(send, path={}, query={}, body=document, request_id=None, surface="graphql")


def nodes_in(answer: Received) -> list[Any]:
    """Return the items of a page."""
    nodes = _connection(answer).get("nodes")
    return nodes if isinstance(nodes, list) else []


def cursor_after(answer: Received) -> str:
    """Return the cursor of the page after this one, "" of a last page: that may have an `endCursor`, too."""
    page_info = _connection(answer).get("pageInfo")
    if not isinstance(page_info, dict) or page_info.get("hasNextPage") is not True:
        return ""
    return str(page_info.get("endCursor") or "")


def _connection(answer: Received) -> dict[str, Any]:
    data = answer.data
    field = next(iter(data.values()), None) if isinstance(data, dict) else None
    return field if isinstance(field, dict) else {}
