"""What evidence shows of each exchange and attempt: where its rule looks, in the words of the trace.

Beside what would have been right this is what was found: "RateLimit-Reset 12.5" where the sentence says that
it is no whole number. A place is a response header, `>name` a header of the request, `a.b` what a reply says
in its body, `>a` what the request says, and `?a` its query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ranksim.core.records import parsed
from ranksim.core.trace import DeliveryAttempt, Exchange
from ranksim.judge.conformance.exhibits import Exhibits
from ranksim.judge.conformance.verdict.verdicts import Evidence

LIMITS: Final = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")

LOOKED_AT: Final[Mapping[str, tuple[str, ...]]] = {
    "rate": LIMITS,
    "rate.retry_after": (*LIMITS, "Retry-After"),
    "rate.retry_after_honoured": (*LIMITS, "Retry-After"),
    "guards": ("status", "code", "meta"),
    "cost": ("meta", "data.cost"),
    "cost.meta": ("status", "meta"),
    "quota": ("meta", "data.metrics"),
    "quota.meta": ("status", "meta"),
    "slots": ("meta", "data.used", "data.held", "data.limit", "data.slots_added"),
    "cooldown": (">kind", ">domain_id", "Retry-After", "meta.available_at", "data.id"),
    "dry_run": (">dry_run", "data.allowed", "data.refusal", "data.checks", "data.id"),
    "job": (">kind", "data.id", "data.kind", "data.status", "data.error_detail", "data.finished_at"),
    "idempotency": (">Idempotency-Key", "Idempotent-Replayed", "data.id"),
    "paging": ("?limit", "?cursor", "has_more", "next_cursor"),
    "access": (">Authorization", "data.id", "data.domain_id"),
    "resource.patch": (">", "data"),
    "resource.unconditional": (">If-Match",),
    "resource.envelope": ("has_more", "next_cursor"),
    "resource.fields": ("data",),
    "resource.timestamps": ("data.created_at", "data.finished_at", "data.updated_at"),
    "resource.event_types": ("data",),
    "header.request_id": ("X-Request-Id",),
    "header.request_id_echo": (">X-Request-Id", "X-Request-Id"),
    "header.json": ("Content-Type",),
    "header.deprecation": ("Deprecation", "Sunset"),
    "header.cross_origin": (">Origin", "Access-Control-Allow-Origin", "Access-Control-Allow-Headers"),
    "error": ("status", "code"),
    "error.type": ("type", "documentation_url"),
    "error.request_id": ("request_id", "X-Request-Id"),
    "error.meta": ("code", "meta"),
    "webhook": ("data.enabled", "data.disabled_reason", "data.event_types", "data.domain_id"),
}
"""By rule, else by family: where it looks in an exchange."""

ATTEMPT: Final[Mapping[str, tuple[str, ...]]] = {
    "webhook.signature": ("Service-Signature",),
    "webhook.fresh": ("Service-Signature",),
    "webhook.headers": (
        *("Content-Type", "Service-Event-Id", "Service-Event-Type", "Service-Delivery-Attempt"),
        "Service-Signature",
    ),
    "webhook.body": ("id", "type", "created_at", "data"),
    "webhook.outcome": ("type", "data.job.status", "data.job.error_detail"),
    "webhook.event": ("id", "type", "data.job.id"),
    "webhook.types": ("type",),
    "webhook.scope": ("data.job.domain_id",),
}
"""By rule: where it looks in a webhook attempt."""

LONG: Final = 160
"""Characters of one value that are shown."""

NOWHERE: Final = object()


def found_in(rule: str, piece: Evidence, whole: Exhibits) -> str:
    """Return what the exchanges and attempts of evidence say where the rule looks; "" where none is whole."""
    family = rule.partition(".")[0]
    places = LOOKED_AT.get(rule, LOOKED_AT.get(family, ()))
    said = []
    for name in piece.exchanges:
        if name in whole.exchanges:
            said.append(f"{name} {_told(whole.exchanges[name], places)}")
    for name in piece.deliveries:
        for attempt in whole.attempts.get(name, ())[:1]:
            said.append(f"attempt {name} {_attempt(attempt, ATTEMPT.get(rule, ()))}")
    return "; ".join(said)


def _told(exchange: Exchange, places: Sequence[str]) -> str:
    if exchange.status is None:
        return "got no reply that was seen"
    reply, body = parsed(exchange.response), parsed(exchange.body)
    code = reply.get("code", "") if isinstance(reply, dict) else ""
    parts = [f"was answered {exchange.status} {code}".strip()]
    sent = {name.lower(): value for name, value in (exchange.request_headers or {}).items()}
    got = {name.lower(): value for name, value in (exchange.response_headers or {}).items()}
    if exchange.api_key:
        sent["authorization"] = f"key {exchange.api_key}"
    for place in places:
        bare = place.lstrip(">?")
        value: Any = NOWHERE
        if place.startswith("?"):
            value = (exchange.query or {}).get(bare, NOWHERE)
        elif bare[:1].isupper():
            headers, side = (sent, "sent ") if place.startswith(">") else (got, "")
            recorded = exchange.request_headers if side else exchange.response_headers
            absent = f"no {bare}" if recorded is not None else f"{bare} not recorded"
            parts.append(f"{side}{bare} {headers[bare.lower()]}" if bare.lower() in headers else absent)
        else:
            value = _at(body if place.startswith(">") else reply, bare)
        if value is not NOWHERE:
            asked = "asked for " if place[0] in ">?" else ""
            parts.append(f"{asked}{bare} {_short(value)}".replace("  ", " "))
    return ", ".join(parts)


def _attempt(attempt: DeliveryAttempt, places: Sequence[str]) -> str:
    answer = "got no answer" if attempt.status is None else f"was answered {attempt.status}"
    headers = {name.lower(): value for name, value in attempt.headers.items()}
    body = parsed(attempt.body)
    return ", ".join([answer, *_carried(headers, body, places)])


def _carried(headers: Mapping[str, str], body: Any, places: Sequence[str]) -> Iterator[str]:
    for place in places:
        if place[:1].isupper():
            yield f"{place} {headers[place.lower()]}" if place.lower() in headers else f"no {place}"
        else:
            value = _at(body, place)
            yield f"no {place}" if value is NOWHERE else f"{place} {_short(value)}"


def _at(value: Any, path: str) -> Any:
    for name in path.split(".") if path else ():
        if not isinstance(value, dict) or name not in value:
            return NOWHERE
        value = value[name]
    return value


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONG else text[:LONG] + "…"
