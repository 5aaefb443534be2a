"""Judge headers and bodies, exchange by exchange: what every response must look like (S8-S17, S94-S99, S107).

Each check needs one exchange alone, so it is made while the trace is read (`check`), before raw texts are
dropped. Unknown fields are no fault (S113, E46); a missing or misshapen one is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ranksim.clock import instant
from ranksim.conformance.history import Json, Seen, parsed
from ranksim.conformance.options import Options
from ranksim.conformance.verdicts import Evidence, Rule, Tally
from ranksim.contract.facts import EVENT_TYPES
from ranksim.trace import Exchange

REQUEST_ID = "header.request_id"
ECHO = "header.request_id_echo"
JSON = "header.json"
ERROR = "error.body"
TYPE = "error.type"
ID = "error.request_id"
META = "error.meta"
ENVELOPE = "resource.envelope"
FIELDS = "resource.fields"
TIMES = "resource.timestamps"
EVENTS = "resource.event_types"
SECRET = "webhook.secret_once"

RULES = (
    Rule(REQUEST_ID, "Every response carries X-Request-Id", (107,), (79,), "everyday"),
    Rule(ECHO, "An X-Request-Id that the client sent is used as given", (107,), (79,), "everyday"),
    Rule(JSON, "A response with a body is JSON and says so", (8, 9, 94), (25,), "everyday"),
    Rule(ERROR, "An error is a complete error body", (11, 94), (24, 25), "ladder"),
    Rule(TYPE, "An error's type and documentation_url are its page under /api/errors", (95,), (), "ladder"),
    Rule(ID, "An error's request_id is that of the response", (96,), (), "ladder"),
    Rule(META, "An error's meta says what its code promises", (98, 99), (7, 26), "ladder"),
    Rule(ENVELOPE, "A success is {data}, a collection {data, has_more, next_cursor}", (8, 9), (), "everyday"),
    Rule(FIELDS, "A resource has the fields that are shown for it", (12, 13, 38), (85, 109), "everyday"),
    Rule(TIMES, "Timestamps are ISO 8601 in UTC", (17,), (43,), "everyday"),
    Rule(EVENTS, "GET /v1/webhook-events lists the event types of today", (39, 75), (78,), "everyday"),
    Rule(SECRET, "A signing secret is told at creation only", (21,), (73,), "webhooks"),
)

Fields = Mapping[str, Callable[[Json], bool]]


def text(value: Json) -> bool:
    """Tell whether it is a string."""
    return isinstance(value, str)


def text_or_null(value: Json) -> bool:
    """Tell whether it is a string or null."""
    return value is None or isinstance(value, str)


def anything(value: Json) -> bool:
    """Take anything, so that only the presence of a field counts."""
    return True


ERROR_FIELDS: Fields = {
    "type": text,
    "title": text,
    "status": lambda value: type(value) is int,
    "code": text,
    "detail": text,
    "remedy": text,
    "meta": lambda value: isinstance(value, dict),
    "request_id": text,
    "documentation_url": text,
}
"""The nine fields of an error (S94)."""

DOMAIN: Fields = {
    "id": text,
    "host": text,
    "path": text_or_null,
    "label": text_or_null,
    "created_at": text,
    "last_full_crawl_at": text_or_null,
}
"""S12, with null where the thing has not happened (U43)."""

JOB: Fields = {
    "id": text,
    "kind": text,
    "status": text,
    "domain_id": text,
    "error_detail": text_or_null,
    "finished_at": text_or_null,
}
"""S13."""

POLLED_JOB: Fields = {**JOB, "progress": anything}
"""S16: a job as polled comes with its progress."""

SINGLES: Mapping[str, Fields] = {
    "domains.get": DOMAIN,
    "domains.create": DOMAIN,
    "domains.update": DOMAIN,
    "jobs.create": JOB,
    "jobs.get": POLLED_JOB,
}

COLLECTIONS: Mapping[str, Fields] = {"domains.list": DOMAIN, "jobs.list": JOB}

METERED: Fields = {"metric": text, "used": anything, "limit": anything, "resets_at": text}
"""What S98 and S38 tell of a metered allowance."""

META_FIELDS: Mapping[str, Fields] = {"quota_exhausted": METERED}
"""Fields of meta whose names are stated (S98); other codes' are assumed (U7, U26)."""


def check(exchange: Exchange, seen: Seen, options: Options, tally: Tally) -> None:
    """Check one exchange. Lost replies and answers to GraphQL requests of several fields show no shape."""
    if seen.lost:
        return
    headers = {name.lower(): value for name, value in exchange.response_headers.items()}
    reply = parsed(exchange.response)
    _check_headers(exchange, seen, headers, tally)
    if exchange.surface != "rest" or seen.method in ("OPTIONS", "HEAD") or seen.status in (204, 304):
        return
    if not exchange.response and seen.status < 400:
        return  # where a success has no body is not stated
    said = headers.get("content-type", "").partition(";")[0].strip().lower()
    _tell(
        JSON,
        isinstance(reply, dict) and (not said or "json" in said),
        f"says {said or 'no type'}",
        seen,
        tally,
    )
    if not isinstance(reply, dict):
        return
    if seen.status >= 400:
        _check_error(reply, headers, seen, tally)
    elif seen.operation:
        _check_success(reply, seen, tally)


def _check_headers(exchange: Exchange, seen: Seen, headers: Mapping[str, str], tally: Tally) -> None:
    given = headers.get("x-request-id", "")
    _tell(REQUEST_ID, given != "", "has no X-Request-Id", seen, tally)
    sent = {name.lower(): value for name, value in exchange.request_headers.items()}.get("x-request-id")
    if sent is None or not given:
        return
    plain = 1 <= len(sent) <= 255 and sent.isascii() and sent.isprintable() and sent == sent.strip()
    if plain:
        _tell(ECHO, given == sent, f"was sent X-Request-Id {sent!r} and gives {given!r}", seen, tally)


def _check_error(reply: dict[str, Json], headers: Mapping[str, str], seen: Seen, tally: Tally) -> None:
    wrong = _wrong(reply, ERROR_FIELDS)
    if reply.get("status") != seen.status and "status" not in wrong:
        wrong.append("status")
    _tell(ERROR, not wrong, f"answered {seen.status} with wrong or missing {', '.join(wrong)}", seen, tally)
    if wrong:
        return
    url, code = reply["documentation_url"], reply["code"]
    fits = reply["type"] == url and url.endswith(f"/api/errors#{code}")
    _tell(TYPE, fits, f"has type {reply['type']} and documentation_url {url} for code {code}", seen, tally)
    told = headers.get("x-request-id", "")
    says = f"has request_id {reply['request_id']!r} and X-Request-Id {told!r}"
    _tell(ID, reply["request_id"] == told, says, seen, tally)
    stated = META_FIELDS.get(code)
    if stated is not None:
        lacking = _wrong(reply["meta"], stated)
        _tell(META, not lacking, f"is {code} with wrong or missing {', '.join(lacking)} in meta", seen, tally)


def _check_success(reply: dict[str, Json], seen: Seen, tally: Tally) -> None:
    data = reply.get("data")
    if seen.operation.endswith(".list") or seen.operation == "ai_visibility.industries":
        cursor = reply.get("next_cursor", 0)
        whole = isinstance(data, list) and isinstance(reply.get("has_more"), bool) and text_or_null(cursor)
        _tell(ENVELOPE, whole, "is a collection without data, has_more and next_cursor", seen, tally)
        things, fields = (data if isinstance(data, list) else []), COLLECTIONS.get(seen.operation)
    else:
        _tell(ENVELOPE, "data" in reply, "is a single without data", seen, tally)
        things, fields = [data], (None if seen.dry_run else SINGLES.get(seen.operation))
    for thing in things:
        _check_thing(thing, fields, seen, tally)
    if seen.operation == "account.usage" and isinstance(data, dict):
        _check_usage(data, seen, tally)
    if seen.operation == "webhook_events.list":
        named = {thing.get("type") for thing in things if isinstance(thing, dict)}
        says = f"lists {', '.join(sorted(map(str, named))) or 'nothing'}"
        _tell(EVENTS, set(EVENT_TYPES) <= named, says, seen, tally)
    if seen.operation.startswith("webhooks.") and seen.operation not in ("webhooks.create", "webhooks.test"):
        telling = [thing for thing in things if isinstance(thing, dict) and thing.get("secret")]
        _tell(SECRET, not telling, f"shows the secret of {len(telling)} endpoints", seen, tally)


def _check_thing(thing: Json, fields: Fields | None, seen: Seen, tally: Tally) -> None:
    if not isinstance(thing, dict):
        return
    if fields is not None:
        wrong = _wrong(thing, fields)
        _tell(
            FIELDS, not wrong, f"shows {seen.operation} with wrong or missing {', '.join(wrong)}", seen, tally
        )
    for name, value in thing.items():
        if name.endswith("_at") and value is not None:
            _tell(TIMES, _is_utc(value), f"shows {name} {value!r}", seen, tally)


def _check_usage(data: dict[str, Json], seen: Seen, tally: Tally) -> None:
    metrics = data.get("metrics")
    if not isinstance(metrics, list):
        return  # where the list stands is assumed (U109)
    wrong = sorted({name for metric in metrics for name in _wrong(metric, METERED)})
    _tell(FIELDS, not wrong, f"shows a metric with wrong or missing {', '.join(wrong)}", seen, tally)


def _wrong(thing: Json, fields: Fields) -> list[str]:
    """Name the fields that are missing or misshapen."""
    if not isinstance(thing, dict):
        return list(fields)
    return [name for name, fits in fields.items() if name not in thing or not fits(thing[name])]


def _is_utc(value: Json) -> bool:
    if not isinstance(value, str) or not value.endswith(("Z", "+00:00")) or len(value) < 11:
        return False
    try:
        instant(value)
    except ValueError:
        return False
    return True


def _tell(rule: str, holds: bool, says: str, seen: Seen, tally: Tally) -> None:
    if holds:
        tally.held(rule)
    else:
        evidence = Evidence(f"{seen.id} {says}", (seen.id,), about=seen.operation or seen.path, at=seen.sent)
        tally.broke(rule, evidence)
