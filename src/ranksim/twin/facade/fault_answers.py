"""Answers that no service gives, but what stands between a service and its callers: gateways and proxies."""

from __future__ import annotations

from http import HTTPStatus

from pydantic_core import to_json

from ranksim.core.callers.fault_rules import BodyKind, FaultRule
from ranksim.core.clock import SECOND, Micros, http_date
from ranksim.twin.serving.asgi import Header

NO_CONTENT = (204, 304)
"""Statuses whose answers end with their headers (RFC 9112, section 6.3)."""

ABOUT_CONTENT = (b"content-type", b"content-length")

TYPES = {"problem": b"application/problem+json", "html": b"text/html; charset=utf-8"}


def answer_by(
    rule: FaultRule, status: int, headers: list[Header], body: bytes, now: Micros
) -> tuple[int, list[Header], bytes]:
    """Return an answer with what a rule says of it laid over it; `now` is the service's instant."""
    status, before = rule.status or status, body
    kind = rule.body or ("problem" if rule.answers_instead and rule.text is None else None)
    if rule.text is not None:
        body = rule.text.encode()
    elif kind is not None:
        body = _body(kind, status, before)
    replaced = dict[bytes, bytes]()
    if body is not before:
        replaced[b"content-length"] = b"%d" % len(body)
    if kind in TYPES:
        replaced[b"content-type"] = TYPES[kind]
    if rule.retry_after is not None:
        seconds = -(-rule.retry_after // SECOND)
        dated = http_date(now + seconds * SECOND).encode()
        replaced[b"retry-after"] = dated if rule.retry_after_form == "date" else b"%d" % seconds
    replaced |= {
        name.lower().encode("latin-1"): text.encode("latin-1") for name, text in rule.headers.items()
    }
    without = {*replaced, *([b"content-type"] if kind == "empty" else ())}
    written = [(name, value) for name, value in headers if name.lower() not in without]
    written += replaced.items()
    if status in NO_CONTENT:
        return status, [pair for pair in written if pair[0].lower() not in ABOUT_CONTENT], b""
    return status, written, body


def _body(kind: BodyKind, status: int, before: bytes) -> bytes:
    if kind == "empty":
        return b""
    if kind == "cut":
        return before[: len(before) // 2]
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    if kind == "html":
        return f"<!doctype html>\n<title>{status} {phrase}</title>\n<h1>{status} {phrase}</h1>\n".encode()
    return to_json({"type": "about:blank", "title": phrase, "status": status})
