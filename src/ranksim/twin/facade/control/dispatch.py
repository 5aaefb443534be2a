"""The control API: time, accounts, worlds, faults, what happened; everything under /_ranksim.

`routes.ROUTES` is the whole of it: what is served, and what /_ranksim/openapi.json says of it. It is not part
of the service: nothing here is counted. Who may use it is decided before (`serving.control_auth`).
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from pydantic import ValidationError
from pydantic_core import to_json

from ranksim.core.contract.located import Located, ModelT, explain_mistakes, validate
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Call
from ranksim.core.service.errors import PROBLEM_JSON, TEXTS
from ranksim.twin.facade.advance import AdvanceUnderWay
from ranksim.twin.facade.control.command import Conflict, Missing, Problem, Route
from ranksim.twin.facade.control.document import control_document
from ranksim.twin.facade.control.routes import PREFIX, ROUTES, find
from ranksim.twin.facade.event_stream import EventsQuery, stream_events
from ranksim.twin.facade.http import requests
from ranksim.twin.facade.http.requests import JSON
from ranksim.twin.facade.journal.journaled_service import NotKept
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.asgi import Gone, Header, Receive, Scope, Send
from ranksim.twin.serving.parsing import whole_number

log = logging.getLogger("ranksim.facade")

TITLES = {413: "Request Entity Too Large", 422: "Unprocessable Entity"}
"""Titles that differ from one version of Python to the next."""

FAULTS = {"payload_too_large": 413, "unsupported_media_type": 415, "invalid_request": 400}
"""What can be wrong with the form of a body, and the status that says so."""


class Malformed(BadInput):
    """A body cannot be read."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


async def handle(twin: Twin, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request to the control API by who may use it. Raises Gone."""
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    path = scope["path"].removeprefix(PREFIX)
    commands = find(path)
    if path in ALONE and method == "GET":
        await ALONE[path](twin, scope, receive, send)
    elif method in commands:
        await _command(twin, *commands[method], scope, receive, send)
    elif commands or path in ALONE:
        allow = ", ".join(sorted(commands)) or "GET"
        await problem_response(send, 405, f"This path takes {allow}.", (b"allow", allow.encode()))
    else:
        await problem_response(
            send, 404, f"There is nothing here; {PREFIX}/openapi.json lists what there is."
        )


async def _command(
    twin: Twin, route: Route, values: list[str], scope: Scope, receive: Receive, send: Send
) -> None:
    try:
        given: dict[str, Any] = {}
        if route.query is not None:
            given["query"] = _query(route.query, scope["query_string"])
        if route.body is not None:
            given["body"], raw = await _read(route, scope, receive)
            if route.raw:
                given["raw"] = raw
        answer = await route.command(twin, *values, **given)
    except Malformed as error:
        await problem_response(send, error.status, str(error))
    except Missing as error:
        await problem_response(send, 404, str(error))
    except (Conflict, AdvanceUnderWay) as error:
        await problem_response(send, 409, str(error))
    except BadInput as error:
        await problem_response(send, 422, str(error))
    except (Gone, NotKept):
        raise
    except Exception:
        log.exception("%s %s failed", route.method, scope["path"])
        await problem_response(send, 500, "The control API failed to answer; the log says why.")
    else:
        payload = answer if isinstance(answer, bytes) else to_json(answer)
        media, body = route.media.encode(), scope["method"] != "HEAD"
        await send_json(send, route.status, payload, content_type=media, body=body)


def _query(model: type[ModelT], query: bytes) -> ModelT:
    """Read a query. Raises BadInput."""
    given = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    try:
        return model.model_validate_strings(given)
    except ValidationError as error:
        raise explain_mistakes(model, error, Located("query", given, {})) from None


async def _read(route: Route, scope: Scope, receive: Receive) -> tuple[Any, bytes]:
    """Return a body as the route's model, and its bytes. Raises BadInput, and Gone."""
    read = requests.HttpRequest(Call(""))
    if route.body is str:  # which need not be JSON
        headers = {**dict(scope["headers"]), b"content-type": JSON}
        await requests.read_raw(read, headers, receive, route.most, values=None)
        return _text(_sound(read).raw or b""), b""
    await requests.read_body(read, dict(scope["headers"]), receive, route.most, values=None)
    call = _sound(read)
    body, raw = call.body or {}, call.raw or b""
    if not isinstance(route.body, type):  # any JSON object
        return body, raw
    return validate(route.body, Located("body", body, {})), raw


def _sound(read: requests.HttpRequest) -> Call:
    """Return a call of which the body could be read. Raises Malformed."""
    fault = read.call.fault
    if fault is not None:
        title, remedy = TEXTS[fault.code]
        raise Malformed(FAULTS[fault.code], fault.detail or f"{title}. {remedy}")
    return read.call


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Malformed(400, "The body is no text in UTF-8.") from None


async def send_json(
    send: Send, status: int, payload: bytes, *more: Header, content_type: bytes = JSON, body: bool = True
) -> None:
    """Answer with JSON. There are no CORS headers, on purpose."""
    length = (b"content-length", b"%d" % len(payload))
    headers = [(b"content-type", content_type), length, (b"cache-control", b"no-store"), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": payload if body else b""})


async def problem_response(send: Send, status: int, detail: str, *more: Header) -> None:
    """Answer with a problem body (RFC 9457)."""
    title = TITLES.get(status) or HTTPStatus(status).phrase
    problem: Problem = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    await send_json(send, status, to_json(problem), *more, content_type=PROBLEM_JSON.encode())


# What is no command


async def _openapi(twin: Twin, scope: Scope, receive: Receive, send: Send) -> None:
    written = await asyncio.to_thread(control_document)  # it takes long, the first time
    await send_json(send, 200, to_json(written), body=scope["method"] != "HEAD")


async def _events(twin: Twin, scope: Scope, receive: Receive, send: Send) -> None:
    headers = dict(scope["headers"])
    last = headers.get(b"last-event-id", b"")
    try:
        query = _query(EventsQuery, scope["query_string"])
    except BadInput as error:
        await problem_response(send, 422, str(error))
        return
    after = whole_number(last)
    await stream_events(twin, query.after if after is None else after, scope, receive, send, query.most)


async def _index(twin: Twin, scope: Scope, receive: Receive, send: Send) -> None:
    """Say what there is; browsers are shown the page here."""
    commands = {
        f"{route.method} {PREFIX}{route.path}": (route.command.__doc__ or "").partition(". ")[0].rstrip(".")
        for route in ROUTES
    }
    beside = {
        f"GET {PREFIX}/events": "Follow what happens",
        f"GET {PREFIX}/openapi.json": "All of it in detail",
    }
    await send_json(send, 200, to_json({**beside, **commands}), body=scope["method"] != "HEAD")


ALONE = {"": _index, "/": _index, "/events": _events, "/openapi.json": _openapi}
"""What streams, and what describes."""
