"""What generated requests must not do, each with its reason; loaded by schemathesis as its hooks."""

import json
from typing import Any

import schemathesis


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Change a request that is meant to be good so that it can be."""
    if not case.meta.generation.mode.is_positive:
        # A quoted key is counted inside its quotes (U32), which the maximum length of a schema cannot say.
        for name, value in (case.headers or {}).items():
            if name == "Idempotency-Key" and isinstance(value, str):
                case.headers[name] = value.replace('"', "'")
        return
    if case.query:
        # A cursor is opaque: one that no page gave is refused as invalid_cursor (S44, U36).
        case.query.pop("cursor", None)
    if case.headers and "Idempotency-Key" in case.headers:
        # A key that went with another request is refused as idempotency_mismatch (S48): each gets its own.
        case.headers["Idempotency-Key"] = f"{case.id}{case.headers['Idempotency-Key']}"[:255]


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Take the refusals out of an answer of GraphQL, so that what is left is the server's fault.

    Every error of a resolver counts as one otherwise, but a refusal of the API is an error by design (U83):
    an id that does not exist, a host that is none.
    """
    if not case.path.endswith("/graphql"):
        return
    answer = json.loads(response.content)
    if response.status_code == 200 and "errors" in answer:
        answer["errors"] = [error for error in answer["errors"] if not _is_refusal(error)]
        response.content = json.dumps(answer).encode()


def _is_refusal(error: Any) -> bool:
    said = error.get("extensions", {})
    return {"code", "detail", "meta", "request_id"} <= set(said) and 400 <= said["status"] < 500
