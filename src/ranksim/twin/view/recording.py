"""A trace as the events that the live page shows: its calls, deliveries and notes, in order of time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ranksim.core.clock import Micros, iso
from ranksim.core.contract.facts import CHECK_OF
from ranksim.core.errors import BadInput
from ranksim.core.trace import DeliveryAttempt, Exchange, Note, entries
from ranksim.twin.facade.logged_event import AnsweredCall, LoggedEvent, Noted
from ranksim.twin.facade.request_journal import parse_content

MOST = 2_000
"""Events that are shown at once: the last ones up to an instant."""

Shown = dict[str, Any]


class TraceEvents:
    """A trace, read whole; `source` is a path or its lines. Raises BadInput."""

    def __init__(self, source: str | Path | Iterable[str]) -> None:
        wanted = [entry for entry in entries(source) if isinstance(entry, Exchange | DeliveryAttempt | Note)]
        timed = [(at, entry) for entry in wanted if (at := _instant(entry)) is not None]
        timed.sort(key=lambda pair: pair[0])
        if not timed:
            raise BadInput(f"{source}: has no call, no delivery and no note; expected a trace with some")
        self._instants = [at for at, _ in timed]
        self._entries = [entry for _, entry in timed]

    def overview(self) -> Shown:
        """Return from when to when it goes, in µs since the epoch, and how much is in it."""
        calls = sum(isinstance(entry, Exchange) for entry in self._entries)
        first, last = self._instants[0], self._instants[-1]
        return {"recording": {"first": first, "last": last, "calls": calls, "events": len(self._entries)}}

    def until(self, instant: Micros) -> Shown:
        """Return the last events up to an instant, oldest first, and how many there were until then."""
        count = bisect_right(self._instants, instant)
        first = max(0, count - MOST)
        events = [_event(number, entry) for number, entry in enumerate(self._entries[first:count], first + 1)]
        return {"count": count, "events": events}

    def exchange(self, number: int) -> Shown | None:
        """Return the exchange of an event as the control API shows those of its journal."""
        entry = self._entries[number - 1] if 0 < number <= len(self._entries) else None
        if not isinstance(entry, Exchange):
            return None
        return {
            "id": number,
            "at": iso(entry.sent),
            "environment": entry.environment,
            "method": entry.method,
            "path": entry.path,
            "query": entry.query,
            "headers": entry.request_headers,
            "body": parse_content(entry.body),
            "operations": list(entry.operations),
            "account_id": entry.account or None,
            "status": entry.status,
            "response_headers": entry.response_headers,
            "response": parse_content(entry.response) if entry.status is not None else entry.error,
        }


def _instant(entry: Exchange | DeliveryAttempt | Note) -> Micros | None:
    if isinstance(entry, Exchange):
        return entry.sent
    return entry.received if isinstance(entry, DeliveryAttempt) else entry.t


def _event(number: int, entry: Exchange | DeliveryAttempt | Note) -> Shown:
    """Return a line of a trace as the event that a deployment would have shown."""
    if isinstance(entry, Exchange):
        return LoggedEvent(number, _call(number, entry)).to_dict()
    if isinstance(entry, Note):
        more = entry.model_dump(exclude={"kind", "t"})
        return {**more, **LoggedEvent(number, Noted(entry.t or 0, "note", {})).to_dict()}
    headers = {name.lower(): text for name, text in entry.headers.items()}
    details = {
        "endpoint": entry.endpoint,
        "status_code": entry.status,
        "event_id": headers.get("service-event-id"),
        "event_type": headers.get("service-event-type"),
        "signature_valid": entry.signature.valid,
    }
    return LoggedEvent(number, Noted(entry.received, "attempt.received", details)).to_dict()


def _call(number: int, entry: Exchange) -> AnsweredCall:
    code, meta = _problem(entry)
    check = CHECK_OF.get(code)
    replayed = "idempotent-replayed" in {name.lower() for name in entry.response_headers or {}}
    outcome = "limited" if code == "rate_limited" else "refused" if check else "error" if code else "ok"
    return AnsweredCall(
        entry.sent,
        number,
        entry.surface,
        entry.environment,
        entry.method,
        entry.path,
        tuple(entry.operations),
        entry.account or "",
        entry.api_key or "",
        entry.status or 0,
        code,
        check or 0,
        "no answer" if entry.status is None else "replayed" if replayed else outcome,
        meta.get("class") or "",
        (),
        0 if entry.received is None else entry.received - entry.sent,
        urlencode(entry.query or {}),
    )


def _problem(entry: Exchange) -> tuple[str, Shown]:
    """Return the code and the meta of a refusal, over GraphQL of the first; or nothing."""
    problem = None
    if entry.surface == "graphql" and '"errors"' in (entry.response or ""):
        problem = _first_error(parse_content(entry.response))
    elif entry.status is not None and entry.status >= 400:
        problem = parse_content(entry.response)
    if not isinstance(problem, dict):
        return "", {}
    meta = problem.get("meta")
    return str(problem.get("code", "")), meta if isinstance(meta, dict) else {}


def _first_error(body: Any) -> Any:
    errors = body.get("errors") if isinstance(body, dict) else None
    first = errors[0] if isinstance(errors, list) and errors else None
    return first.get("extensions") if isinstance(first, dict) else None
