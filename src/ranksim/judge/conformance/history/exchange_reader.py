"""Reading one exchange of a trace: what judges need of it, from its texts and parsed bodies.

Raw texts and most bodies of replies are dropped here, and what is left of them goes to a shelf, so that
memory grows slowly with the number of exchanges, and not with what they say.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from sys import intern
from typing import TypeAlias

from ranksim.core.clock import DISTANT_FUTURE
from ranksim.core.records import parsed
from ranksim.core.service.routes import offered
from ranksim.core.trace import UNRECORDED_KEY, Exchange, Header, TraceKey
from ranksim.judge.conformance.history.graphql import page_of, query_of, sure_arguments
from ranksim.judge.conformance.history.observation import (
    MARK,
    SAFE,
    Json,
    Observation,
    ObservationDetail,
    asks_dry,
    job_name,
)
from ranksim.judge.conformance.history.spill_file import SpillFile

UPDATED = frozenset({"domains", "keyword_lists", "keywords", "labels", "competitors", "scans"})
"""What an update changes and nothing else, so that one over GraphQL can be judged as a PATCH."""

NO_GRAPHQL = frozenset({404, 405, 410})
"""Statuses of an address that is known to have no GraphQL."""

KEEPS_ITEMS = frozenset(
    {"webhooks.list", "webhook_deliveries.list", "webhook_events.list", "jobs.list", "scans.list"}
)
"""Collections whose items a judge reads; of all others a domain-scoped key's are kept, and what GraphQL
showed, else the ids."""

_NO_KEY = TraceKey()

_sorted_json = json.JSONEncoder(sort_keys=True).encode

Thing: TypeAlias = tuple[str, str, str]
"""Environment, the noun of its operations and id."""


@dataclass(slots=True)
class ExchangeReader:
    """Makes of each exchange what a judge needs, and puts its details on a shelf."""

    shelf: SpillFile[ObservationDetail] = field(default_factory=lambda: SpillFile(ObservationDetail))
    things: set[Thing] = field(default_factory=set)
    """What can be updated and was shown over REST by itself."""

    def read(
        self, exchange: Exchange, reply: Json, headers: Mapping[str, str], index: int, header: Header
    ) -> Observation:
        """Return the exchange of an index; `reply` is parsed, `headers` are those of the response."""
        outside = _outside(exchange, reply)
        operation, parameters = _operation(exchange, outside)
        operations, query = () if outside else exchange.operations, exchange.query or {}
        detail = ObservationDetail(exchange.path, parameters, query, operations)
        seen = self._observation(exchange, index, header, operation, outside)
        _read_request(seen, detail, exchange)
        # under an Idempotency-Key a reply might be that of an earlier call (U33)
        mappable = seen.surface == "graphql" and seen.idempotency_key is None
        listed = query_of(operation, detail.body) if mappable else None
        if listed is not None:
            detail.query = listed
        if seen.received < DISTANT_FUTURE:  # a status of 0, as some recorders write, is still an answer
            _read_headers(seen, detail, headers)
            scoped = header.keys.get(seen.key, _NO_KEY).domain_id is not None
            keeps_items = scoped or listed is not None or operation in KEEPS_ITEMS
            _read_reply(seen, detail, reply, listed, keeps_items)
            if seen.surface == "rest" or (seen.updates and mappable):
                self._note_thing(seen, detail)
            if exchange.query is None and seen.surface == "rest" and seen.has_more is not None:
                seen.has_more = detail.next_cursor = None  # of what list it is a page, nobody can tell
        self.shelf.put(detail)
        return seen

    def _observation(
        self, exchange: Exchange, index: int, header: Header, operation: str, outside: bool
    ) -> Observation:
        status, received, answered = exchange.status, exchange.received, True
        if status is None or received is None:
            status, received, answered = 0, DISTANT_FUTURE, False
        return Observation(
            self.shelf,
            index=index,
            id=exchange.id,
            sent=exchange.sent,
            received=received,
            key=intern(exchange.api_key or ""),
            account=intern(_account(exchange, header)),
            environment=intern(exchange.environment),
            surface=intern(exchange.surface),
            operation=operation,
            method=intern(exchange.method),
            status=status,
            happened=True if answered else False if exchange.effect == "none" else None,
            outside=outside,
            recorded=_recorded(exchange.response_headers, header.response_headers),
            reply_unrecorded=answered and exchange.response is None,
            request_unrecorded=_request_unrecorded(exchange, header),
            planned=exchange.planned,
        )

    def _note_thing(self, seen: Observation, detail: ObservationDetail) -> None:
        """Note what REST showed, and the id of what an update over GraphQL surely made."""
        noun = seen.operation.partition(".")[0]
        if noun not in UPDATED or not isinstance(detail.data, dict):
            return
        if seen.surface == "rest":
            self.things.add((seen.environment, noun, str(detail.data.get("id"))))
        else:
            name = _updated(detail)
            detail.parameters = {"id": name} if (seen.environment, noun, name) in self.things else {}


def _recorded(headers: Mapping[str, str] | None, kept: Sequence[str] | None) -> frozenset[str] | None:
    """Return which headers would have been recorded of an exchange, None for all."""
    if headers is None:
        return frozenset()
    return None if kept is None else frozenset(map(str.lower, kept))


def _request_unrecorded(exchange: Exchange, header: Header) -> bool:
    """Return whether an exchange does not say whose it is, what it asked for, or whether it repeats another.

    Of the web app nobody can tell either, which has no key.
    """
    if exchange.surface == "app":
        return False
    recorded = _recorded(exchange.request_headers, header.request_headers)
    repeats = exchange.method == "POST" and recorded is not None and "idempotency-key" not in recorded
    asks = exchange.method not in (*SAFE, "DELETE")
    return exchange.api_key == UNRECORDED_KEY or repeats or (asks and exchange.body is None)


def _outside(exchange: Exchange, reply: Json) -> bool:
    """Return whether what answered need not be the API: a path outside /v1, or no GraphQL at the address.

    GraphQL has an address of its own, which a recorder may have guessed (U83): only an answer in its form, an
    error body, a loss or an error of the server count as its own.
    """
    if exchange.surface == "rest":
        return "/v1/" not in exchange.path
    if exchange.surface != "graphql" or exchange.status is None or exchange.status >= 500:
        return False
    formed = isinstance(reply, dict) and not reply.keys().isdisjoint(("data", "errors", "code"))
    return exchange.status in NO_GRAPHQL or not formed


def _account(exchange: Exchange, header: Header) -> str:
    """Whose books it touches: the account that the header names, else the key stands for it."""
    trace_key = header.keys.get(exchange.api_key or "")
    if trace_key is not None and trace_key.account:
        return trace_key.account
    return exchange.account or (exchange.api_key or "")


def _read_request(seen: Observation, detail: ObservationDetail, exchange: Exchange) -> None:
    for name, value in (exchange.request_headers or {}).items():
        if name.lower() == "idempotency-key":
            seen.idempotency_key = intern(value)
    if seen.safe:
        return
    detail.body = parsed(exchange.body)
    seen.dry_run = asks_dry(detail.body, seen.surface)
    if seen.idempotency_key is not None:
        meaning = exchange.body if detail.body is None else _sorted_json(detail.body)
        query = _sorted_json(exchange.query or {})
        detail.fingerprint = digest_of(f"{seen.method} {detail.path} {query} {meaning}".encode())
        detail.wording = digest_of((exchange.body or "").encode())


def _read_headers(seen: Observation, detail: ObservationDetail, headers: Mapping[str, str]) -> None:
    seen.limit = _first_whole(headers.get("ratelimit-limit"))
    seen.remaining = _first_whole(headers.get("ratelimit-remaining"))
    seen.reset = _first_whole(headers.get("ratelimit-reset"))
    seen.retry_after = header_number(headers.get("retry-after"))
    if seen.retry_after is None:
        detail.retry_at = parse_http_date(headers.get("retry-after", ""))
    seen.replayed = headers.get(MARK, "").lower() == "true"


def _read_reply(
    seen: Observation, detail: ObservationDetail, reply: Json, listed: dict[str, str] | None, keeps: bool
) -> None:
    """Read a reply; `listed` is the query of a list that was asked for over GraphQL, else None."""
    if not isinstance(reply, dict):
        return
    if seen.surface == "graphql":
        reply = _root_field(reply)
    if listed is not None:
        reply = page_of(seen.operation, reply.get("data"), listed) or reply
    if seen.idempotency_key is not None:
        stated = {name: value for name, value in reply.items() if name != "request_id"}
        detail.answer = digest_of(_sorted_json(stated).encode())
    if "code" in reply and not (seen.surface == "rest" and 200 <= seen.status <= 299):
        seen.code = intern(str(reply["code"]))
        detail.meta = reply["meta"] if isinstance(reply.get("meta"), dict) else {}
    elif isinstance(reply.get("data"), list):
        _read_list(seen, detail, reply, keeps)
    else:
        detail.data = reply.get("data")


def _read_list(seen: Observation, detail: ObservationDetail, reply: dict[str, Json], keeps: bool) -> None:
    jobs, more, cursor = seen.operation == "jobs.list", reply.get("has_more"), reply.get("next_cursor")
    named = [item for item in reply["data"] if isinstance(item, dict) and "id" in item]
    detail.data = tuple(job_name(item) if jobs else str(item["id"]) for item in named)
    detail.items = reply["data"] if keeps else None
    seen.has_more = more if isinstance(more, bool) else None
    detail.next_cursor = cursor if isinstance(cursor, str) else None


def _root_field(reply: dict[str, Json]) -> dict[str, Json]:
    """Read a GraphQL reply of one root field as the REST reply with the same meaning."""
    errors = reply.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        extensions = errors[0].get("extensions")
        return {"code": "graphql", **(extensions if isinstance(extensions, dict) else {})}
    data = reply.get("data")
    fields = list(data.values()) if isinstance(data, dict) else []
    return {"data": fields[0]} if len(fields) == 1 else dict(reply)


def _updated(detail: ObservationDetail) -> str:
    """Return the id of what an update over GraphQL surely made, "" where that is not sure.

    It can be read whole, and its reply is the thing it names, alone: beside errors of its own, as a
    payload may carry, it may have done nothing (U83).
    """
    body = detail.body if isinstance(detail.body, dict) else {}
    given, updated = sure_arguments(body.get("query"), body.get("variables")), detail.data
    if isinstance(updated, dict) and len(updated) == 1 and "id" not in updated:
        [updated] = updated.values()
    if given is None or given.keys() != {"id", "input"} or not isinstance(given["input"], dict):
        return ""
    name = given["id"]
    is_named = (
        isinstance(name, str | int) and isinstance(updated, dict) and str(updated.get("id")) == str(name)
    )
    return str(name) if is_named else ""


# Paths


def route(method: str, path: str) -> tuple[str, dict[str, str]]:
    """Find the operation and parameters of a REST path, whatever stands before its /v1/; else ("", {})."""
    _, base, rest = path.partition("/v1/")
    if not base:
        return "", {}
    methods, values = offered(rest.partition("?")[0].rstrip("/"))
    return (methods[method], dict(values)) if method in methods else ("", {})


def _operation(exchange: Exchange, outside: bool) -> tuple[str, dict[str, str]]:
    if outside:
        return "", {}
    if exchange.surface == "graphql":
        return (intern(exchange.operations[0]), {}) if len(exchange.operations) == 1 else ("", {})
    return route(exchange.method, exchange.path)


# Small readings


def lowered(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return headers by their names in lower case."""
    return {name.lower(): value for name, value in (headers or {}).items()}


def header_number(text: str | None) -> int | None:
    """Read a header that is digits alone; None for anything else."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 16 else None


def _first_whole(text: str | None) -> int | None:
    """Read the first of several values, as in ``20, 20;w=60`` of the drafts; a fraction is rounded up."""
    number = header_number(text)
    if number is not None or text is None:
        return number
    first = re.match(r"\s*([0-9]{1,15})(\.[0-9]+)?\s*(?=$|[,;])", text)
    if first is None:
        return None
    return int(first[1]) + (float(first[2] or 0) > 0)


@lru_cache(maxsize=4096)
def parse_http_date(text: str) -> int | None:
    """Read an IMF-fixdate such as ``Sun, 06 Nov 1994 08:49:37 GMT`` as Unix seconds (RFC 9110); else None."""
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text) if text else None
        return None if moment is None or moment.tzinfo is None else int(moment.timestamp())
    except (ValueError, OverflowError):
        return None


def digest_of(data: bytes) -> bytes:
    """Return a short digest."""
    return blake2b(data, digest_size=16).digest()
