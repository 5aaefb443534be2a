"""GraphQL documents for some operations, as far as their fields can be guessed (U83).

The specification shows no schema; a deployment with other names refuses them, and `explore` finds that out.
"""

from __future__ import annotations

from typing import Any

from ranksim.callers.steps import Send

PAGE = "pageInfo { hasNextPage endCursor }"

READS = {
    "domains.list": f"query {{ domains(first: 50) {{ nodes {{ id host label createdAt }} {PAGE} }} }}",
    "keyword_lists.list": f"query {{ keywordLists(first: 50) {{ nodes {{ id name domainId }} {PAGE} }} }}",
    "keywords.list": f"query {{ keywords(first: 50) {{ nodes {{ id keyword listId }} {PAGE} }} }}",
    "scans.list": f"query {{ scans(first: 50) {{ nodes {{ id name active }} {PAGE} }} }}",
    "jobs.list": f"query {{ jobs(first: 50) {{ nodes {{ id kind status domainId }} {PAGE} }} }}",
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


def over_graphql(send: Send) -> Send | None:
    """Return the GraphQL twin of a call, or None where there is none here."""
    body = send.body or {}
    variables: dict[str, Any] = {}
    if send.operation in READS:
        query = READS[send.operation]
    elif send.operation == "jobs.create":
        query = DRY_RUN if body.get("dry_run") is True else START
        variables = {"kind": str(body["kind"]).upper(), "domain": body["domain_id"]}
    elif send.operation in UPDATES and body.keys() <= UPDATES[send.operation][1]:
        query, variables = UPDATES[send.operation][0], {"id": send.path["id"], "input": body}
    else:
        return None
    return Send(
        send.operation,
        send.key,
        body={"query": query, "variables": variables},
        idempotency_key=send.idempotency_key,
        surface="graphql",
        environment=send.environment,
        planned=send.planned,
    )
