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
from ranksim.judge.conformance.verdict.rule import Rule
from ranksim.judge.conformance.verdict.verdicts import Evidence

LONG: Final = 160
"""Characters of one value that are shown."""

NOWHERE: Final = object()


def found_in(rule: Rule | None, piece: Evidence, exhibits: Exhibits) -> str:
    """Return what the exchanges and attempts of evidence say where the rule looks; "" where none is whole."""
    in_exchange, in_attempt = (rule.looks_at, rule.attempt) if rule is not None else ((), ())
    parts = []
    for name in piece.exchanges:
        if name in exhibits.exchanges:
            parts.append(f"{name} {_told(exhibits.exchanges[name], in_exchange)}")
    for name in piece.deliveries:
        for attempt in exhibits.attempts.get(name, ())[:1]:
            parts.append(f"attempt {name} {_attempt(attempt, in_attempt)}")
    return "; ".join(parts)


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
            verb = "asked for " if place[0] in ">?" else ""
            parts.append(f"{verb}{bare} {_short(value)}".replace("  ", " "))
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
