"""The control API: time, accounts, worlds, faults, what happened; everything under /_ranksim.

`ROUTES` is the whole of it: what is served, and what /_ranksim/openapi.json says of it. It is not part of the
service: nothing here is counted. Who may use it is asked before (`permission`).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from ranksim.contract.yamlfile import Located, ModelT, explain, validate
from ranksim.errors import BadInput
from ranksim.facade import control_commands as commands
from ranksim.facade import control_shapes as shapes
from ranksim.facade import requests
from ranksim.facade.asgi import Gone, Header, Receive, Scope, Send
from ranksim.facade.control_commands import Asked, Conflict, Missing
from ranksim.facade.events import stream
from ranksim.facade.faults import Rule
from ranksim.facade.happenings import AdvanceUnderWay
from ranksim.facade.patterns import whole
from ranksim.facade.requests import JSON
from ranksim.facade.requests_journal import Expected
from ranksim.facade.twin import Twin
from ranksim.service.calls import Call
from ranksim.service.errors import PROBLEM_JSON, TEXTS

log = logging.getLogger("ranksim.facade")

PREFIX = "/_ranksim"

MIB = 1_048_576
MOST_BODY = MIB
MOST_SNAPSHOT = 512 * MIB

FAULTS = {"payload_too_large": 413, "unsupported_media_type": 415, "invalid_request": 400}
"""What can be wrong with the form of a body, and the status that says so."""


@dataclass(frozen=True, slots=True)
class Route:
    """One command: where it is, what does it, what it takes and gives. `body` dict takes any JSON object."""

    method: str
    path: str
    command: Callable[[Twin, Asked], Awaitable[Any]]
    answer: Any
    body: type[Any] | None = None
    query: type[BaseModel] | None = None
    status: int = 200
    most: int = MOST_BODY


class Malformed(BadInput):
    """A body cannot be read."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


ROUTES = (
    Route("GET", "/clock", commands.get_clock, shapes.ClockShown),
    Route("PATCH", "/clock", commands.set_clock, shapes.ClockShown, shapes.ClockBody),
    Route("POST", "/clock/advance", commands.advance, shapes.AdvanceShown, shapes.AdvanceBody),
    Route("GET", "/world", commands.get_world, shapes.WorldShown),
    Route("POST", "/reset", commands.reset, shapes.WorldShown),
    Route("POST", "/fork", commands.fork, shapes.ForkShown, shapes.NameBody),
    Route("GET", "/snapshots", commands.list_snapshots, shapes.SnapshotList),
    Route("POST", "/snapshots", commands.save, shapes.SnapshotShown, shapes.NameBody, status=201),
    Route("GET", "/snapshots/{name}", commands.get_snapshot, shapes.Json),
    Route("PUT", "/snapshots/{name}", commands.put_snapshot, shapes.SnapshotShown, dict, most=MOST_SNAPSHOT),
    Route("DELETE", "/snapshots/{name}", commands.drop_snapshot, shapes.SnapshotShown),
    Route("POST", "/snapshots/{name}/restore", commands.restore, shapes.WorldShown),
    Route("GET", "/state", commands.get_state, shapes.Json),
    Route("GET", "/state/{part}", commands.get_table, Any),
    Route("GET", "/plans", commands.list_plans, shapes.PlanList),
    Route("GET", "/accounts", commands.list_accounts, shapes.AccountList),
    Route("POST", "/accounts", commands.open_account, shapes.AccountShown, shapes.AccountBody, status=201),
    Route("GET", "/accounts/{id}", commands.get_account, shapes.AccountShown),
    Route("PATCH", "/accounts/{id}", commands.change_account, shapes.AccountShown, shapes.AccountPatch),
    Route("GET", "/keys", commands.list_keys, shapes.KeyList, query=shapes.AccountQuery),
    Route("POST", "/keys", commands.issue_key, shapes.KeyShown, shapes.KeyBody, status=201),
    Route("POST", "/keys/{key}/reset", commands.reset_key, shapes.KeyShown, status=201),
    Route("DELETE", "/keys/{key}", commands.withdraw_key, shapes.KeyShown),
    Route("GET", "/limits", commands.get_limits, shapes.LimitsShown),
    Route("PATCH", "/limits", commands.set_limits, shapes.LimitsShown, shapes.LimitsPatch),
    Route("GET", "/faults", commands.list_faults, shapes.FaultList),
    Route("POST", "/faults", commands.add_fault, shapes.FaultShown, Rule, status=201),
    Route("DELETE", "/faults", commands.clear_faults, shapes.FaultList),
    Route("DELETE", "/faults/{id}", commands.remove_fault, shapes.FaultShown),
    Route("GET", "/requests", commands.list_requests, shapes.RequestList, query=shapes.RequestsQuery),
    Route("DELETE", "/requests", commands.clear_requests, shapes.CountShown),
    Route("GET", "/requests/{id}", commands.get_request, shapes.RequestShown),
    Route("POST", "/requests/count", commands.count_requests, shapes.CountShown, Expected),
    Route("POST", "/requests/verify", commands.verify_requests, shapes.VerdictShown, shapes.VerifyBody),
    Route("POST", "/requests/near-misses", commands.near_misses, shapes.NearMissList, shapes.NearBody),
    Route("GET", "/jobs", commands.list_jobs, shapes.JobList, query=shapes.JobsQuery),
    Route("GET", "/jobs/{id}", commands.get_job, shapes.JobShown),
    Route("POST", "/jobs/{id}/finish", commands.finish_job, shapes.JobShown, shapes.FinishBody),
    Route("GET", "/deliveries", commands.list_deliveries, shapes.DeliveryList, query=shapes.DeliveriesQuery),
    Route("GET", "/attempts", commands.list_attempts, shapes.RecordList, query=shapes.DeliveriesQuery),
)
"""Every command that answers JSON. GET /events streams, and GET /openapi.json describes."""


async def control(twin: Twin, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request to the control API by who may use it. Raises Gone."""
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    path = scope["path"].removeprefix(PREFIX)
    found = _find(path)
    if path in ALONE and method == "GET":
        await ALONE[path](twin, scope, receive, send)
    elif method in found:
        await _command(twin, *found[method], scope, receive, send)
    elif found or path in ALONE:
        allow = ", ".join(sorted(found)) or "GET"
        await refuse(send, 405, f"This path takes {allow}.", (b"allow", allow.encode()))
    else:
        await refuse(send, 404, f"There is nothing here; {PREFIX}/openapi.json lists what there is.")


def _find(path: str) -> dict[str, tuple[Route, dict[str, str]]]:
    """Find what a path offers: method → route, and the values of its parameters."""
    found = {}
    for route in ROUTES:
        values = _values(route.path.split("/"), path.split("/"))
        if values is not None:
            found[route.method] = route, values
    return found


def _values(names: list[str], parts: list[str]) -> dict[str, str] | None:
    """Match a path with that of a route."""
    values = {}
    if len(names) != len(parts):
        return None
    for name, part in zip(names, parts, strict=True):
        if name.startswith("{") and part:
            values[name[1:-1]] = part
        elif name != part:
            return None
    return values


async def _command(
    twin: Twin, route: Route, values: dict[str, str], scope: Scope, receive: Receive, send: Send
) -> None:
    try:
        asked = Asked(values)
        if route.query is not None:
            asked.query = _query(route.query, scope["query_string"])
        if route.body is not None:
            await _read(asked, route.body, route.most, scope, receive)
        shown = await route.command(twin, asked)
    except Malformed as error:
        await refuse(send, error.status, str(error))
    except Missing as error:
        await refuse(send, 404, str(error))
    except (Conflict, AdvanceUnderWay) as error:
        await refuse(send, 409, str(error))
    except BadInput as error:
        await refuse(send, 422, str(error))
    except Gone:
        raise
    except Exception:
        log.exception("%s %s failed", route.method, scope["path"])
        await refuse(send, 500, "The control API failed to answer; the log says why.")
    else:
        payload = shown if isinstance(shown, bytes) else to_json(shown)
        await answer(send, route.status, payload, body=scope["method"] != "HEAD")


def _query(model: type[ModelT], query: bytes) -> ModelT:
    """Read a query. Raises BadInput."""
    given = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    try:
        return model.model_validate_strings(given)
    except ValidationError as error:
        raise explain(model, error, Located("query", given, {})) from None


async def _read(asked: Asked, model: type[Any], most: int, scope: Scope, receive: Receive) -> None:
    """Read a body. Raises BadInput, and Gone."""
    read = requests.Asked(Call(""))
    await requests.read_body(read, dict(scope["headers"]), receive, most)
    fault = read.call.fault
    if fault:
        raise Malformed(FAULTS[fault], read.detail or f"{TEXTS[fault][0]}. {TEXTS[fault][1]}")
    body = read.call.body or {}
    asked.raw = read.call.raw or b""
    asked.body = body if model is dict else validate(model, Located("body", body, {}))


async def answer(
    send: Send, status: int, payload: bytes, *more: Header, content_type: bytes = JSON, body: bool = True
) -> None:
    """Answer with JSON. There are no CORS headers, on purpose."""
    length = (b"content-length", b"%d" % len(payload))
    headers = [(b"content-type", content_type), length, (b"cache-control", b"no-store"), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": payload if body else b""})


async def refuse(send: Send, status: int, detail: str, *more: Header) -> None:
    """Answer with a problem body (RFC 9457)."""
    title = HTTPStatus(status).phrase
    problem: shapes.Problem = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    await answer(send, status, to_json(problem), *more, content_type=PROBLEM_JSON.encode())


# What is no command


async def _openapi(twin: Twin, scope: Scope, receive: Receive, send: Send) -> None:
    from ranksim.facade.control_document import document

    await answer(send, 200, to_json(document()), body=scope["method"] != "HEAD")


async def _events(twin: Twin, scope: Scope, receive: Receive, send: Send) -> None:
    headers = dict(scope["headers"])
    last = headers.get(b"last-event-id", b"")
    try:
        query = _query(shapes.EventsQuery, scope["query_string"])
    except BadInput as error:
        await refuse(send, 422, str(error))
        return
    told = whole(last)
    await stream(twin, query.after if told is None else told, scope, receive, send)


ALONE = {"/events": _events, "/openapi.json": _openapi}
"""What streams, and what describes."""
