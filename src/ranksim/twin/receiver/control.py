"""Control of a webhook receiver over HTTP, under `/_receiver`, by whoever sends its token."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from ranksim.core.errors import BadInput
from ranksim.twin.serving.asgi import Scope
from ranksim.twin.serving.control_auth import refusal, take_token
from ranksim.twin.serving.parsing import whole_number

if TYPE_CHECKING:
    from ranksim.twin.receiver.receiver import Receiver

CONTROL = "/_receiver"
"""The reserved prefix: paths below it are never recorded."""

EVERY_PATH = "*"

CONTROLS = {
    f"GET {CONTROL}/clock": "the receiver's clock, µs since the epoch",
    f"GET {CONTROL}/requests": "what came; filters path, event, type, attempt",
    f"DELETE {CONTROL}/requests": "forget what came",
    f"GET {CONTROL}/scripts": "what each path answers, by attempt",
    f"PUT {CONTROL}/scripts": 'set one: {"path": "/hooks", "script": [500, "302:/moved", "200+2s"]}',
    f"POST {CONTROL}/secrets": 'verify with a secret: {"secret": "whsec_...", "path": "/hooks"}',
}
"""What can be asked of a receiver over HTTP; a path left out means all paths."""


def answer(receiver: Receiver, scope: Scope, body: bytes | None) -> tuple[int, Any]:
    """Answer a control request: status and JSON."""
    refused = refusal(receiver.token, scope, receiver.control_names)
    if refused is not None:
        return refused[0], {"error": refused[1]}
    take_token(scope)
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    try:
        match scope["method"], scope["path"].removeprefix(CONTROL):
            case ("GET", "" | "/"):
                return 200, CONTROLS
            case ("GET", "/clock"):
                return 200, {"now": receiver.clock()}
            case ("GET", "/requests"):
                return 200, _list(receiver, query)
            case ("DELETE", "/requests"):
                receiver.clear()
                return 200, _list(receiver, {})
            case ("GET", "/scripts"):
                return 200, receiver.scripts()
            case ("PUT", "/scripts"):
                command = _object(body, "path", "script")
                steps = command.get("script")
                receiver.script(
                    *(steps if isinstance(steps, list) else [steps]), path=command.get("path", EVERY_PATH)
                )
                return 200, receiver.scripts()
            case ("POST", "/secrets"):
                command = _object(body, "path", "secret")
                if not isinstance(command.get("secret"), str):
                    raise BadInput("secret: expected text, the endpoint's signing secret")
                receiver.trust(command["secret"], command.get("path", EVERY_PATH))
                return 201, {"secrets": receiver.count_secrets()}
    except BadInput as error:
        return 400, {"error": str(error)}
    return 404, {"error": f"nothing there; GET {CONTROL} lists what is"}


def _list(receiver: Receiver, query: Mapping[str, str]) -> Any:
    attempt = whole_number(query["attempt"]) if "attempt" in query else None
    if attempt is None and "attempt" in query:
        raise BadInput(f"attempt: expected a number, found {query['attempt']!r}")
    if unknown := query.keys() - {"path", "event", "type", "attempt"}:
        raise BadInput(f"{min(unknown)}: no such filter; there are path, event, type and attempt")
    requests = receiver.select(
        query.get("path"),
        query.get("event"),
        query.get("type"),
        attempt,
    )
    return {"count": len(requests), "requests": [request.to_dict() for request in requests]}


def _object(body: bytes | None, *names: str) -> dict[str, Any]:
    """Read a JSON object that has no other fields. Raises BadInput."""
    try:
        command = json.loads(body or b"")
    except (ValueError, RecursionError):
        command = None
    if not isinstance(command, dict) or command.keys() - set(names):
        raise BadInput(f"body: expected a JSON object with {' and '.join(names)}")
    return command
