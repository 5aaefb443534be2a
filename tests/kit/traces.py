"""Hand-made traces for the judges: calls and webhook attempts, written in seconds since the start."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from ranksim.core.clock import DISTANT_FUTURE, SECOND, http_date, instant
from ranksim.core.contract.policy import Policy
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.trace import DeliveryAttempt, Exchange, Header, Note, Signature, Trace, TraceKey
from ranksim.judge.conformance.calls import schema_checks
from ranksim.judge.conformance.history import trace_reader
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.judging import FAMILIES
from ranksim.judge.conformance.judging import judged as told
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Tally

START = instant("2026-03-02T09:00:00Z")
HOUR = 3600
DAY = 24 * HOUR

KEYS = {
    "main": TraceKey(account="alpha"),
    "second": TraceKey(account="alpha"),
    "scoped": TraceKey(account="alpha", domain_id="dom_1"),
    "other": TraceKey(account="beta"),
    "test": TraceKey(account="gamma", environment="sandbox"),
}

Entry = Exchange | DeliveryAttempt | Note


def at(seconds: float, start: int = START) -> int:
    """Give the instant so many seconds after the start."""
    return start + round(seconds * SECOND)


def error(code: str, status: int, **meta: Any) -> dict[str, Any]:
    """Write a whole error body."""
    url = f"https://docs.example/api/errors#{code}"
    return {
        "type": url,
        "title": code,
        "status": status,
        "code": code,
        "detail": "no",
        "remedy": "wait",
        "meta": meta,
        "request_id": "req",
        "documentation_url": url,
    }


def call(
    operation: str,
    sent: float,
    received: float | None,
    data: Any = None,
    *,
    code: str = "",
    status: int | None = None,
    body: Any = None,
    raw: str | None = None,
    key: str | None = "main",
    environment: str = "",
    path: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
    more: str | None = None,
    once: str | None = None,
    headers: Mapping[str, str] | None = None,
    meta: Mapping[str, Any] | None = None,
    reply: Any = None,
    effect: Any = "unknown",
    surface: Any = "rest",
    request_id: str | None = None,
    start: int = START,
) -> Exchange:
    """Make a call; `received` None loses its reply.

    It is answered with `data` (a list makes a page, continued by the cursor `more`), or refused with `code`;
    `reply` is the whole body instead.
    """
    known = OPERATIONS[operation]
    if status is None:
        status = 200 if not code else 409
    if reply is None and code:
        reply = error(code, status, **(meta or {}))
    elif reply is None:
        reply = {"data": data}
        if isinstance(data, list):
            reply |= {"has_more": more is not None, "next_cursor": more}
    lost = received is None
    told = {
        "X-Request-Id": "req",
        "Content-Type": "application/problem+json" if status >= 400 else "application/json",
        "Date": http_date(at(sent, start) // SECOND * SECOND),
    }
    sends = {} if once is None else {"Idempotency-Key": once}
    if request_id is not None:
        sends["X-Request-Id"] = request_id
    return Exchange(
        id="",
        sent=at(sent, start),
        received=None if received is None else at(received, start),
        operations=(operation,),
        method=known.method,
        path="/v1/" + known.path.format_map(dict(path or {})),
        status=None if lost else status,
        environment=environment or (KEYS[key].environment if key in KEYS else "production"),
        api_key=key,
        surface=surface,
        query=dict(query or {}),
        request_headers=sends,
        body=raw if raw is not None else ("" if body is None else json.dumps(body)),
        response_headers={} if lost else told | dict(headers or {}),
        response="" if lost or reply == "" else (reply if isinstance(reply, str) else json.dumps(reply)),
        effect=effect,
    )


SIGNED = "t={t},v1=" + "0" * 64


def hook(
    received: float,
    answered: float | None = None,
    *,
    endpoint: str = "/hooks/1",
    event: str = "evt_1",
    type: str = "job.completed",
    attempt: int = 1,
    status: int | None = 200,
    valid: bool | None = True,
    t: float | None = None,
    job: Mapping[str, Any] | None = None,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> DeliveryAttempt:
    """Make a webhook attempt that came at `received`, was answered at `answered` (0.01 s later)."""
    signed = (at(received if t is None else t)) // SECOND
    whole = a_job(**(dict(job) if job else {}))
    if body is None:
        data = {"test": True} if type == "webhook.test" else {"job": whole}
        body = {"id": event, "type": type, "created_at": "2026-03-02T09:00:00Z", "data": data}
    told = {
        "content-type": "application/json",
        "service-signature": SIGNED.format(t=signed),
        "service-event-id": event,
        "service-event-type": type,
        "service-delivery-attempt": str(attempt),
    }
    return DeliveryAttempt(
        received=at(received),
        answered=None if status is None and answered is None else at(answered or received + 0.01),
        endpoint=endpoint,
        headers={name: value for name, value in (told | dict(headers or {})).items() if value},
        body=body if isinstance(body, str) else json.dumps(body),
        signature=Signature(valid=valid, t=signed),
        status=status,
    )


def a_job(**fields: Any) -> dict[str, Any]:
    """Write a job that is done, but for `fields`."""
    job = {
        "id": "job_1",
        "kind": "crawl",
        "status": "done",
        "domain_id": "dom_1",
        "error_detail": None,
        "finished_at": "2026-03-02T09:00:00Z",
        "progress": 100,
    }
    return job | fields


def an_endpoint(number: int = 1, **fields: Any) -> dict[str, Any]:
    """Write an endpoint, account-wide and enabled, but for `fields`."""
    endpoint = {
        "id": f"whk_{number}",
        "url": f"https://receiver.example/hooks/{number}",
        "event_types": [],
        "domain_id": None,
        "enabled": True,
        "disabled_reason": None,
    }
    return endpoint | fields


def created(number: int = 1, sent: float = -10, **fields: Any) -> Exchange:
    """Make the call that created an endpoint."""
    made = an_endpoint(number, **fields) | {"secret": f"hidden:{number}"}
    return call("webhooks.create", sent, sent + 0.1, made, status=201, body={"url": made["url"]})


def attempt(event: str = "evt_1", number: int = 1, status: int | None = 200, endpoint: str = "whk_1") -> Any:
    """Write an item of the list of attempts."""
    return {
        "id": f"att_{endpoint}_{event}_{number}",
        "endpoint_id": endpoint,
        "event_id": event,
        "event_type": "job.completed",
        "attempt": number,
        "status_code": status,
        "error": None if status else "timeout",
        "duration_ms": 10,
    }


def listed(sent: float, *attempts: Any) -> Exchange:
    """Make a reading of the whole list of attempts."""
    return call("webhook_deliveries.list", sent, sent + 0.1, list(attempts))


def read_line(number: int, sent: int, took: int, /, **changes: object) -> str:
    """Write the line of a trace that has a read, or what `changes` make of it; instants and lengths in µs."""
    line: dict[str, object] = {
        "kind": "exchange",
        "id": f"x{number}",
        "sent": sent,
        "received": sent + took,
        "api_key": "main",
        "operations": [],
        "method": "GET",
        "path": "/v1/slots",
        "status": 200,
    }
    return json.dumps(line | changes)


def history_of(*lines: str) -> History:
    """Read a trace of these lines."""
    return trace_reader.read_history([json.dumps({"ranksim_trace": 1}), *lines])


def a_trace(entries: Iterable[Entry], *, exclusive: bool = True, keys: bool = True) -> Trace:
    """Put entries together; the exchanges are named x1, x2 and so on, in their order."""
    made = Trace(Header(started=START, keys=KEYS if keys else {}, exclusive=exclusive))
    for entry in entries:
        if isinstance(entry, Exchange):
            made.exchanges.append(entry.model_copy(update={"id": f"x{len(made.exchanges) + 1}"}))
        elif isinstance(entry, DeliveryAttempt):
            made.deliveries.append(entry)
        else:
            made.notes.append(entry)
    return made


def judged(
    judge: ModuleType, entries: Iterable[Entry], policy: Policy | None = None, **header: bool
) -> Tally:
    """Have one judge look at a trace of these entries."""
    trace = a_trace(entries, **header)
    if judge is schema_checks:
        schemas = schema_checks.SchemaJudge(Options.of(policy))
        schemas.settle(DISTANT_FUTURE, trace_reader.read_history(trace, schemas.see_raw).run)
        return schemas.tally
    [maker] = [maker for maker in FAMILIES if maker.__module__ == judge.__name__]
    return told(maker, trace_reader.read_history(trace), Options.of(policy))


def found(tally: Tally, rule: str) -> str:
    """Say in a word what was found: broken, "differs 29", held, open, or nothing."""
    [finding] = [finding for finding in tally.findings() if finding.rule.name == rule]
    if finding.broken:
        return "broken"
    if tally.differences:
        return " ".join(["differs", *(str(difference.number) for difference in tally.differences)])
    return "held" if finding.held else "open" if finding.open else "nothing"


def policy_of(**assumptions: Any) -> Policy:
    """Pin assumptions, and statuses given as `statuses`."""
    statuses = assumptions.pop("statuses", {})
    return Policy.model_validate({"assumptions": assumptions, "statuses": statuses})
