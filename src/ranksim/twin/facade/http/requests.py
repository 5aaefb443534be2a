"""From an HTTP request to a call, and from a reply to the bytes of a response."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from pydantic_core import to_json

from ranksim.core.service.calls import Body, Call, Fault, Reply
from ranksim.core.service.routes import offered
from ranksim.core.surface.json_body import parse_json
from ranksim.twin.facade.http.strictness import unknown_fields, unknown_parameters
from ranksim.twin.serving.asgi import Gone, Header, Receive, Scope
from ranksim.twin.serving.parsing import bearer, whole_number

DRAINED = 8
"""A body up to so many times the limit is read to its end, so that its sender hears the refusal."""

MOST_VALUES = 12_000
"""Values that a body may have: each list of the service takes 10,000 items at most (U84)."""

WITH_BODY = frozenset({"POST", "PATCH", "PUT"})

JSON = b"application/json"


# Paths


def match_path(path: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return what a path below the version prefix offers: method → operation, and its parameters' values.

    `path` is as sent, percent signs included; both are empty where there is nothing.
    """
    methods, values = offered(path)
    try:
        return methods, {
            name: unquote_to_bytes(value).decode() if "%" in value else value
            for name, value in values.items()
        }
    except UnicodeDecodeError:
        return {}, {}


# Requests


@dataclass(slots=True)
class HttpRequest:
    """A request, read: the call, and what its answer needs besides the reply."""

    call: Call
    allow: str = ""
    """The methods of the path, for a 405 and for OPTIONS."""
    close: bool = False
    """The connection cannot be used again: the rest of a body is still on its way."""


async def read_request(
    scope: Scope,
    receive: Receive,
    path: str,
    environment: str,
    *,
    most: int,
    strict_query: bool = True,
    strict_body: bool = True,
    wanted: Collection[str] = (),
) -> HttpRequest:
    """Read a REST request; `path` is relative to the version prefix, as sent.

    `most` is the size limit of bodies in bytes. Query parameters that the operation does not know are refused
    if `strict_query`, and ignored as the service is assumed to do (U100) if not; fields of its body if
    `strict_body` (U84). `wanted` are the headers that windows read, in lower case. Raises Gone.
    """
    headers = dict(scope["headers"])
    methods, values = match_path(path)
    method = scope["method"]
    operation = methods.get("GET" if method == "HEAD" else method, "")
    call = call_of(scope, headers, operation, environment, wanted)
    call.path = values
    request = HttpRequest(call)
    if method not in WITH_BODY and (b"content-length" in headers or b"transfer-encoding" in headers):
        request.close = not await _drained(receive, headers, most)  # a body that nobody asked for
    if method == "OPTIONS":
        request.allow = allow_header(methods)
        return request
    if not operation:
        call.fault = Fault("method_not_allowed" if methods else "not_found")
        request.allow = allow_header(methods)
        request.close = method in WITH_BODY and not await _drained(receive, headers, most)
        return request
    if method in WITH_BODY:
        await read_body(request, headers, receive, most)
    if not call.fault and scope["query_string"]:
        _read_query(call, scope["query_string"], strict_query)
    if strict_body and call.body and not call.fault:
        call.fault = unknown_fields(call)
    return request


def call_of(
    scope: Scope,
    headers: Mapping[bytes, bytes],
    operation: str,
    environment: str,
    wanted: Collection[str] = (),
) -> Call:
    """Make a call of a request's method, headers, of which some are `wanted` by windows, and address."""
    client = scope.get("client")
    call = Call(operation, environment=environment, method=scope["method"])
    call.caller = client[0] if client else ""
    call.key = bearer(headers.get(b"authorization", b""))
    if b"idempotency-key" in headers:
        call.idempotency_key = headers[b"idempotency-key"].decode("latin-1")
    if b"x-request-id" in headers:
        call.request_id = headers[b"x-request-id"].decode("latin-1")
    if wanted:
        texts = ((name, headers.get(name.encode("latin-1"))) for name in wanted)
        call.headers = {name: text.decode("latin-1") for name, text in sorted(texts) if text is not None}
    return call


def allow_header(methods: Mapping[str, str]) -> str:
    """Write the methods of a path for an Allow header."""
    if not methods:
        return ""
    reading = ("HEAD",) if "GET" in methods else ()
    return ", ".join(sorted({*methods, *reading, "OPTIONS"}))


async def read_body(
    request: HttpRequest,
    headers: Mapping[bytes, bytes],
    receive: Receive,
    most: int,
    values: int | None = MOST_VALUES,
) -> None:
    """Read a JSON body into a call, or note what is wrong with it (U86). Raises Gone."""
    call = request.call
    await read_raw(request, headers, receive, most, values)
    if call.fault or not call.raw:
        return
    try:
        body = parse_json(call.raw)
    except ValueError as error:
        call.fault = Fault("invalid_request", f"The body is not JSON in UTF-8: {error}.")
        return
    if isinstance(body, dict):
        call.body = body
    else:
        call.fault = Fault("invalid_request")


def has_more_values(raw: bytes, most: int) -> bool:
    """Return whether a JSON text has more values than `most`, without parsing it: that could take long."""
    if len(raw) <= most or _most_values(raw) <= most:
        return False
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    if unescaped.count(b'"') > 4 * most:  # a value is, or is named by, a text: two quotes each
        return True
    outside = b"".join(unescaped.split(b'"')[::2])
    return _most_values(outside) > most


def _most_values(text: bytes) -> int:
    """Count what stands before a value: a comma, or the beginning of what it is the first in."""
    return 1 + text.count(b",") + text.count(b"[") + text.count(b"{")


async def read_raw(
    request: HttpRequest,
    headers: Mapping[bytes, bytes],
    receive: Receive,
    most: int,
    values: int | None = MOST_VALUES,
) -> None:
    """Read the bytes of a body that calls itself JSON, or note why not. Raises Gone.

    At most so many `values` may stand in it, or any number if that is None.
    """
    call = request.call
    if _declared(headers) > most:
        request.close = not await _drained(receive, headers, most)
        raw = None
    else:
        raw = await _body(receive, most)
        request.close = raw is None
    if raw is None:
        call.fault = Fault("payload_too_large", f"The body is larger than {most} bytes.")
        return
    call.raw = raw or None
    if raw and headers.get(b"content-encoding", b"identity").lower() != b"identity":
        call.fault = Fault("unsupported_media_type", "The body is compressed; send it as it is.")
    elif raw and not _is_json(headers.get(b"content-type", b"")):
        call.fault = Fault("unsupported_media_type")
    elif raw and values is not None and has_more_values(raw, values):
        call.fault = Fault("payload_too_large", f"The body has more than {values} values.")


def _is_json(content_type: bytes) -> bool:
    if content_type == JSON:
        return True
    essence, _, parameters = content_type.lower().partition(b";")
    charset = parameters.replace(b" ", b"").replace(b'"', b"")
    return essence.strip() == JSON and charset in (b"", b"charset=utf-8")


def _declared(headers: Mapping[bytes, bytes]) -> int:
    return whole_number(headers.get(b"content-length", b"0")) or 0


async def _body(receive: Receive, most: int) -> bytes | None:
    """Read a whole body; None once it is larger than the limit."""
    message = await receive()
    parts: list[bytes] = []
    size = 0
    while True:
        if message["type"] != "http.request":
            raise Gone
        part = message.get("body", b"")
        if not message.get("more_body", False) and not parts:
            return part if len(part) <= most else None
        parts.append(part)
        size += len(part)
        if size > most:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)
        message = await receive()


async def _drained(receive: Receive, headers: Mapping[bytes, bytes], most: int) -> bool:
    """Read a refused body to its end unless it is far too large; tells whether it was."""
    if _declared(headers) > DRAINED * most:
        return False
    size, more = 0, True
    while more and size <= DRAINED * most:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    return not more


def _read_query(call: Call, query: bytes, strict: bool) -> None:
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except (UnicodeDecodeError, ValueError):
        detail = "The query is not at most 100 percent-encoded parameters in UTF-8."
        call.fault = Fault("invalid_request", detail)
        return
    call.query = dict(pairs)
    if len(call.query) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        call.fault = Fault("invalid_request", f"The query has {twice!r} more than once.")
    elif strict:
        call.fault = unknown_parameters(call)


# Responses

CORS: tuple[Header, ...] = (
    (b"access-control-allow-origin", b"*"),
    (
        b"access-control-expose-headers",
        b"RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, X-Request-Id, "
        b"Idempotent-Replayed, Deprecation, Sunset",
    ),
)
"""What lets pages of any origin read a response (S73, U80)."""

PREFLIGHT: tuple[Header, ...] = (
    (b"access-control-allow-headers", b"Authorization, Content-Type, Idempotency-Key, X-Request-Id, *"),
    (b"access-control-max-age", b"600"),
)

_LOWER: dict[str, bytes] = {}
"""Names of headers as they go out; there are few."""


def payload_of(reply: Reply) -> bytes:
    """Write the body of a reply."""
    body: Body | None = reply.body
    return b"" if body is None else json_bytes(body)


def json_writer() -> Callable[[Any], bytes]:
    """Return what writes plain data as JSON: orjson where it is installed, to the same bytes in less time."""
    try:
        from orjson import dumps
    except ModuleNotFoundError:
        return to_json

    def json_bytes(value: Any) -> bytes:
        try:
            return dumps(value)
        except TypeError:  # it writes no integers beyond 64 bits
            return to_json(value)

    return json_bytes


json_bytes = json_writer()


def write_headers(
    given: Mapping[str, str], length: int | None, extra: tuple[Header, ...] = ()
) -> list[Header]:
    """Write the headers of a response: what a reply says, type and `length` of a body, if any, CORS."""
    headers: list[Header] = []
    for name, value in given.items():
        lower = _LOWER.get(name)
        if lower is None:
            lower = _LOWER[name] = name.lower().encode()
        headers.append((lower, value.encode("latin-1")))
    if length is not None:
        if "Content-Type" not in given:
            headers.append((b"content-type", JSON))
        headers.append((b"content-length", b"%d" % length))
    headers += CORS
    headers += extra
    return headers
