"""A call as HTTP has it: its method, path, headers and body; and what a reply says of its effect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import quote

from ranksim.core.callers.steps import Send
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.service.routes import fill

CHARACTERS = ":-._~!$&'()*+,;=@"
"""What may stand in a path parameter as it is."""


def method_of(send: Send) -> str:
    """Return the HTTP method of a call."""
    if send.surface == "preflight":
        return "OPTIONS"
    return "POST" if send.surface == "graphql" else OPERATIONS[send.operation].method


def path_of(send: Send) -> str:
    """Return the path of a REST call as a trace has it."""
    filled = {name: quote(str(value), safe=CHARACTERS) for name, value in send.path.items()}
    return "/v1/" + fill(send.operation, filled)


def headers_of(send: Send, body: bytes | None) -> dict[str, str]:
    """Return the headers that a call brings along by itself."""
    headers = {} if body is None else {"Content-Type": "application/json"}
    if send.idempotency_key is not None:
        headers["Idempotency-Key"] = send.idempotency_key
    if send.request_id is not None:
        headers["X-Request-Id"] = send.request_id
    if send.origin:
        headers["Origin"] = send.origin
    if send.surface == "preflight":
        headers["Access-Control-Request-Method"] = OPERATIONS[send.operation].method
        headers["Access-Control-Request-Headers"] = "authorization, content-type, idempotency-key"
    return headers


def encode_body(send: Send) -> bytes | None:
    """Return the bytes that a call's body is sent as, or None without one."""
    if send.raw is not None or send.body is None:
        return send.raw
    return json_text(send.body).encode()


def json_text(body: Mapping[str, Any]) -> str:
    """Serialise a body."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def effect_of(send: Send, method: str, status: int, body: Any) -> Literal["yes", "none", "unknown"]:
    """Classify what a reply says of its call's effect: "yes", "none", or "unknown" after a server's error."""
    if send.surface == "graphql":
        query = str((send.body or {}).get("query", "")).lstrip()
        if not query.startswith("mutation"):
            return "none"
        return "yes" if status < 300 and isinstance(body, dict) and not body.get("errors") else "unknown"
    if method in ("GET", "HEAD", "OPTIONS"):
        return "none"
    if status >= 500 or status < 200:
        return "unknown"
    asked_dry = (send.body or {}).get("dry_run") is True or send.query.get("dry_run") == "true"
    return "yes" if status < 300 and not asked_dry else "none"


@lru_cache(maxsize=256)
def lower(name: str) -> str:
    """Return a header's name in lower case."""
    return name.lower()
