"""Answers that no service gives, but what stands between a service and its callers: gateways and proxies."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal

from pydantic_core import to_json

from ranksim.core.clock import SECOND, Micros, http_date
from ranksim.twin.serving.asgi import Header

BodyKind = Literal["problem", "html", "cut", "empty"]
"""What a body is: a problem (RFC 9457), a gateway's page, the first half of the answer's, or nothing."""

RetryAfterForm = Literal["seconds", "date"]
"""How Retry-After is written (RFC 9110, section 10.2.3)."""

TYPES = {"problem": b"application/problem+json", "html": b"text/html; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class FaultAnswer:
    """What of an answer is another: its `status`, headers by name, `retry_after` (µs), and its body.

    `text` is the body itself. `after_effect`: the service answers first, and what it did stands.
    """

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    retry_after: Micros | None = None
    retry_after_form: RetryAfterForm = "seconds"
    body: BodyKind | None = None
    text: str | None = None
    after_effect: bool = False

    @property
    def is_all(self) -> bool:
        """Whether the service is not asked, as it would be for a part of its answer, or for its effect."""
        return self.status is not None and not self.after_effect

    def over(
        self, status: int, headers: list[Header], body: bytes, now: Micros
    ) -> tuple[int, list[Header], bytes]:
        """Return an answer with this one laid over it; `now` is the service's instant."""
        status, before = self.status or status, body
        kind = self.body or ("problem" if self.is_all and self.text is None else None)
        if self.text is not None:
            body = self.text.encode()
        elif kind is not None:
            body = _body(kind, status, before)
        replaced = dict[bytes, bytes]()
        if body is not before:
            replaced[b"content-length"] = b"%d" % len(body)
        if kind in TYPES:
            replaced[b"content-type"] = TYPES[kind]
        if self.retry_after is not None:
            seconds = -(-self.retry_after // SECOND)
            dated = http_date(now + seconds * SECOND).encode()
            replaced[b"retry-after"] = dated if self.retry_after_form == "date" else b"%d" % seconds
        replaced |= {
            name.lower().encode("latin-1"): text.encode("latin-1") for name, text in self.headers.items()
        }
        without = {*replaced, *([b"content-type"] if kind == "empty" else ())}
        kept = [(name, value) for name, value in headers if name.lower() not in without]
        return status, [*kept, *replaced.items()], body


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
