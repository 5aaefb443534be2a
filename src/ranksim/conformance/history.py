"""A trace as the judges see it: what each exchange said, compactly, and who shares what with whom.

An exchange took effect somewhere in [sent, received]; `received` is NEVER where no reply was seen. What a
judge does not need (raw texts, most bodies) is dropped while reading, so that memory grows slowly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from sys import intern
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from pydantic_core import from_json

from ranksim.clock import SECOND, Micros
from ranksim.service.operations import OPERATIONS, TABLE
from ranksim.trace import Delivery, Exchange, Header, Note, Trace, TraceKey, entries

UNKNOWN: Final = ""
"""The endpoint that a lost call may have created."""

NEVER: Final = 1 << 62
"""The instant by which a lost reply was received."""

Json = Any

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
"""An empty mapping that all share."""


@dataclass(slots=True)
class Seen:
    """One exchange: the call, and what its reply said.

    `status` is 0 and `received` NEVER where no reply was seen. `code` is the error code of a refusal, "" of a
    success. `data` is the envelope's data: a mapping for a single, the list of ids for a collection (`items`
    keeps the whole items where a judge reads them). `limit`, `remaining`, `reset` and `retry_after` are the
    headers' integers, None where missing or not integers. `body` is kept for calls other than GET.
    `fingerprint`, `wording` and `answer` are digests: of the request's meaning, of its exact text (U28), and
    of the reply without its request_id (E5); all three only under an Idempotency-Key. A GraphQL call of one
    root field reads like its REST twin, with `surface` "graphql"; one of several has operation "".
    """

    index: int
    id: str
    sent: Micros
    received: Micros
    key: str
    account: str
    environment: str
    surface: str
    operation: str
    method: str
    path: str
    parameters: Mapping[str, str]
    query: Mapping[str, str]
    status: int
    code: str = ""
    happened: bool | None = None
    """Whether it took effect at the deployment at all: False for a refused connection, None when unknown."""
    idempotency_key: str | None = None
    body: Json = None
    fingerprint: bytes = b""
    wording: bytes = b""
    data: Json = None
    items: Json = None
    meta: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    has_more: bool | None = None
    next_cursor: str | None = None
    limit: int | None = None
    remaining: int | None = None
    reset: int | None = None
    retry_after: int | None = None
    retry_at: int | None = None
    """Retry-After as an HTTP-date, in Unix seconds (U6)."""
    date: int | None = None
    replayed: bool = False
    answer: bytes = b""
    planned: Micros | None = None
    operations: tuple[str, ...] = ()
    reply: Json = None
    """The whole reply, parsed, while the trace is read; dropped then."""

    @property
    def lost(self) -> bool:
        """Whether no reply was seen although it may have happened."""
        return self.status == 0

    @property
    def ok(self) -> bool:
        """Whether it was answered with a 2xx and, on GraphQL, without an error."""
        return 200 <= self.status <= 299 and not self.code

    @property
    def dry_run(self) -> bool:
        """Whether the call asked for a dry run (S29)."""
        if not isinstance(self.body, dict):
            return False
        if self.surface != "graphql":
            return self.body.get("dry_run") is True
        given = self.body.get("variables")
        inside = given.get("input") if isinstance(given, dict) else None
        found = [values.get("dryRun") for values in (given, inside) if isinstance(values, dict)]
        return True in found or bool(_DRY.search(str(self.body.get("query"))))


_DRY = re.compile(r"\bdryRun\s*:\s*true\b")


@dataclass(slots=True)
class Arrived:
    """One webhook attempt as its receiver saw it.

    `endpoint` is the id of the one endpoint that the trace names with that URL, else the path it came to,
    which begins with "/": several endpoints may share a URL (E28), or a lost call may have created one.

    `answered` is None where the receiver stayed silent; `status` is what it answered. `valid` and `t` are of
    the signature; `digest` is of the raw body.
    """

    received: Micros
    answered: Micros | None
    endpoint: str
    event: str
    type: str
    attempt: int
    status: int | None
    valid: bool | None
    t: int | None
    digest: bytes
    body: Json
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Offset:
    """The deployment's clock less the trace's, as an interval in µs; empty (`low > high`) when they drift.

    From the Date header of each exchange: the server's clock stood in [Date, Date + 1 s) at some moment of
    [sent, received].
    """

    low: Micros = -NEVER
    high: Micros = NEVER
    count: int = 0

    @property
    def known(self) -> bool:
        """Whether any exchange bounded it, and consistently."""
        return self.count > 0 and self.low <= self.high

    def of(self, sent: Micros, received: Micros, date: int) -> Offset:
        """Narrow it by one exchange with a Date in Unix seconds."""
        return Offset(
            max(self.low, date * SECOND - received),
            min(self.high, date * SECOND + SECOND - sent),
            self.count + 1,
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """From `t` on, business time ran `rate` times as fast as the trace's, from `business` (µs) where known.

    `traffic_rate` is the same for rate windows. It is a clock note of the trace; without one, both run as the
    trace's clock does.
    """

    t: Micros
    business: Micros | None = None
    rate: int = 1
    traffic_rate: int = 1


@dataclass(slots=True)
class History:
    """All that a trace holds, in order of sending, with what the deployment let be read about itself."""

    header: Header = field(default_factory=Header)
    seen: list[Seen] = field(default_factory=list)
    arrived: list[Arrived] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    offset: Offset = field(default_factory=Offset)
    paces: tuple[Pace, ...] = ()
    unread: bool = False
    """Whether GraphQL mutations changed what no judge follows there, as if somebody else had."""
    mutated: set[str] = field(default_factory=set)
    """The words in GraphQL mutations of what was there, among them its ids."""

    @property
    def exclusive(self) -> bool:
        """Whether nobody else used these accounts; if not, "refused too early" cannot be told."""
        return self.header.exclusive and not self.unread

    @property
    def rate(self) -> int:
        """How many times as fast business time ran: 1, or what the one clock note says; 0 when it changed."""
        return _only({pace.rate for pace in self.paces} | self._unsaid)

    @property
    def traffic_rate(self) -> int:
        """The same for the time that rate windows run on."""
        return _only({pace.traffic_rate for pace in self.paces} | self._unsaid)

    @property
    def _unsaid(self) -> set[int]:
        """The rate of what was sent before any note told of one."""
        told = min((pace.t for pace in self.paces), default=NEVER)
        before = self.seen[0].sent < told if self.seen else not self.paces
        return {1} if before else set()

    def by_operation(self, *names: str) -> Iterator[Seen]:
        """Give the exchanges of these operations, in order of sending."""
        wanted = frozenset(names)
        return (seen for seen in self.seen if seen.operation in wanted)

    def key(self, name: str) -> TraceKey:
        """What the header says about a key."""
        return self.header.keys.get(name) or TraceKey()


def _only(rates: set[int]) -> int:
    return next(iter(rates)) if len(rates) == 1 else 0


# Reading

Source: TypeAlias = str | Path | Iterable[str] | Trace


def read(source: Source, watch: Callable[[Exchange, Seen], None] | None = None) -> History:
    """Read a trace (a path, its lines, or one in memory) as a history.

    `watch` is shown each exchange, raw, beside what it became, which then has its `reply`. Raises BadInput
    naming a broken line.
    """
    reader = Reader()
    for entry in _all(source):
        seen = reader.take(entry)
        if isinstance(seen, Seen):
            if watch is not None and isinstance(entry, Exchange):
                watch(entry, seen)
            seen.reply = None
    return reader.finish()


def _all(source: Source) -> Iterator[Header | Exchange | Delivery | Note]:
    if isinstance(source, Trace):
        yield source.header
        yield from source.exchanges
        yield from source.deliveries
        yield from source.notes
    else:
        yield from entries(source)


@dataclass(slots=True)
class Reader:
    """Turns the entries of a trace, one at a time, into a history."""

    history: History = field(default_factory=History)
    _named: dict[str, set[str]] = field(default_factory=dict)
    """The endpoints that have a URL with this path; a call whose outcome is unknown stands for one more."""
    _unsure: list[Seen] = field(default_factory=list)
    """Calls without a reply that may have given an endpoint its URL."""
    _answered: set[tuple[str, str]] = field(default_factory=set)
    """(key, Idempotency-Key) of creations that were answered."""

    def take(self, entry: Header | Exchange | Delivery | Note) -> Seen | Arrived | None:
        """Take the next entry; gives what it became."""
        match entry:
            case Header():
                self.history.header = entry
            case Exchange():
                return self._exchange(entry)
            case Delivery():
                return self._delivery(entry)
            case Note():
                self._note(entry)
        return None

    def finish(self) -> History:
        """Sort what was taken, and name endpoints by their ids."""
        history = self.history
        history.seen.sort(key=lambda seen: (seen.sent, seen.index))
        history.arrived.sort(key=lambda arrived: arrived.received)
        for seen in self._unsure:
            if (seen.key, seen.idempotency_key) not in self._answered:
                self._name(seen.body, UNKNOWN)
        for arrived in history.arrived:
            named = self._named.get(arrived.endpoint, set())
            if len(named) == 1 and UNKNOWN not in named:
                arrived.endpoint = next(iter(named))
        return history

    def _exchange(self, exchange: Exchange) -> Seen:
        seen = see(exchange, len(self.history.seen), self.history.header)
        self.history.seen.append(seen)
        if seen.date is not None and not seen.lost:
            self.history.offset = self.history.offset.of(seen.sent, seen.received, seen.date)
        if seen.operation.startswith("webhooks."):
            self._endpoints_of(seen)
        if seen.surface == "graphql" and seen.happened is not False and not 400 <= seen.status <= 499:
            self._mutation(seen)
        return seen

    def _mutation(self, seen: Seen) -> None:
        """Note what a GraphQL request may have changed; one refused with a 4xx did nothing."""
        reads = seen.operations and all(
            name in OPERATIONS and OPERATIONS[name].method == "GET" for name in seen.operations
        )
        if reads or "mutation" not in str(seen.body):
            return
        if not seen.operations or not all(name.endswith(".create") for name in seen.operations):
            self.history.mutated |= {word for text in texts(seen.body) for word in _WORD.findall(text)}
        if not seen.operations or not FOLLOWED.issuperset(seen.operations):
            self.history.unread = True

    def _endpoints_of(self, seen: Seen) -> None:
        """Learn the URLs of endpoints from what a call was told, or may have done."""
        if seen.ok:
            for thing in [seen.data] if isinstance(seen.data, dict) else seen.items or ():
                if isinstance(thing, dict):
                    self._name(thing, str(thing.get("id")))
            if seen.idempotency_key is not None:
                self._answered.add((seen.key, seen.idempotency_key))
        elif (seen.lost or seen.status >= 500) and seen.happened is not False and seen.method != "GET":
            self._unsure.append(seen)

    def _name(self, thing: Json, endpoint: str) -> None:
        url = thing.get("url") if isinstance(thing, dict) else None
        if isinstance(url, str):
            path = re.sub(r"^[a-zA-Z]+://[^/]*", "", url)
            self._named.setdefault(path, set()).add(endpoint)

    def _delivery(self, delivery: Delivery) -> Arrived:
        headers = {name.lower(): value for name, value in delivery.headers.items()}
        arrived = Arrived(
            received=delivery.received,
            answered=delivery.answered,
            endpoint=delivery.endpoint,
            event=headers.get("service-event-id", ""),
            type=headers.get("service-event-type", ""),
            attempt=_whole(headers.get("service-delivery-attempt")) or 0,
            status=delivery.status,
            valid=delivery.signature.valid,
            t=delivery.signature.t,
            digest=_digest(delivery.body.encode()),
            body=parsed(delivery.body),
            headers=headers,
        )
        self.history.arrived.append(arrived)
        return arrived

    def _note(self, note: Note) -> None:
        self.history.notes.append(note)
        extra = note.model_extra or {}
        told = {
            name: extra[name]
            for name in ("business", "rate", "traffic_rate")
            if isinstance(extra.get(name), int)
        }
        if note.t is not None and told:
            self.history.paces += (Pace(note.t, **told),)


# One exchange

FOLLOWED = frozenset(
    {"domains.create", "domains.update", "keyword_lists.create", "keywords.create", "keyword_briefs.create"}
    | {"scans.create", "scans.update", "jobs.create"}
)
"""GraphQL mutations whose consequences judges bear in mind: what may be added, and what `mutated` names."""

KEEPS_ITEMS = frozenset(
    {"webhooks.list", "webhook_deliveries.list", "webhook_events.list", "jobs.list", "scans.list"}
)
"""Collections whose items a judge reads; of all others only a domain-scoped key's are kept, else the ids."""


def see(exchange: Exchange, index: int, header: Header) -> Seen:
    """Make of one exchange what a judge needs."""
    headers = {name.lower(): value for name, value in exchange.response_headers.items()}
    operation, parameters = _operation(exchange)
    key = exchange.api_key or ""
    lost = exchange.status is None or exchange.received is None
    seen = Seen(
        index=index,
        id=exchange.id,
        sent=exchange.sent,
        received=NEVER if lost or exchange.received is None else exchange.received,
        key=intern(key),
        account=intern(_account(exchange, header)),
        environment=intern(exchange.environment),
        surface=exchange.surface,
        operation=operation,
        operations=exchange.operations,
        method=intern(exchange.method),
        path=exchange.path,
        parameters=parameters or NOTHING,
        query=exchange.query or NOTHING,
        status=0 if lost or exchange.status is None else exchange.status,
        happened=False if lost and exchange.effect == "none" else (None if lost else True),
        planned=exchange.planned,
    )
    _see_request(seen, exchange)
    if not lost:
        _see_headers(seen, headers)
        known = header.keys.get(key)
        _see_reply(seen, parsed(exchange.response), known is not None and known.domain_id is not None)
    return seen


def _account(exchange: Exchange, header: Header) -> str:
    """Whose books it touches: the account that the header names, else the key stands for it."""
    known = header.keys.get(exchange.api_key or "")
    if known is not None and known.account:
        return known.account
    return exchange.account or (exchange.api_key or "")


def _see_request(seen: Seen, exchange: Exchange) -> None:
    for name, value in exchange.request_headers.items():
        if name.lower() == "idempotency-key":
            seen.idempotency_key = intern(value)
    if seen.method in ("GET", "HEAD", "OPTIONS"):
        return
    seen.body = parsed(exchange.body)
    if seen.idempotency_key is not None:
        meaning = exchange.body if seen.body is None else json.dumps(seen.body, sort_keys=True)
        query = json.dumps(sorted(exchange.query.items()))
        seen.fingerprint = _digest(f"{seen.method} {seen.path} {query} {meaning}".encode())
        seen.wording = _digest(exchange.body.encode())


def _see_headers(seen: Seen, headers: Mapping[str, str]) -> None:
    seen.limit = _whole(headers.get("ratelimit-limit"))
    seen.remaining = _whole(headers.get("ratelimit-remaining"))
    seen.reset = _whole(headers.get("ratelimit-reset"))
    seen.retry_after = _whole(headers.get("retry-after"))
    if seen.retry_after is None:
        seen.retry_at = http_date(headers.get("retry-after", ""))
    seen.date = http_date(headers.get("date", ""))
    seen.replayed = headers.get("idempotent-replayed", "").lower() == "true"


def _see_reply(seen: Seen, reply: Json, scoped: bool) -> None:
    seen.reply = reply
    if not isinstance(reply, dict):
        return
    if seen.surface == "graphql":
        reply = _root_field(reply)
    if seen.idempotency_key is not None:
        said = {name: value for name, value in reply.items() if name != "request_id"}
        seen.answer = _digest(json.dumps(said, sort_keys=True).encode())
    if "code" in reply and not (seen.surface == "rest" and 200 <= seen.status <= 299):
        seen.code = intern(str(reply["code"]))
        seen.meta = reply["meta"] if isinstance(reply.get("meta"), dict) else {}
        return
    data = reply.get("data")
    if isinstance(data, list):
        seen.data = tuple(intern(str(item["id"])) for item in data if isinstance(item, dict) and "id" in item)
        seen.items = data if scoped or seen.operation in KEEPS_ITEMS else None
        more, cursor = reply.get("has_more"), reply.get("next_cursor")
        seen.has_more = more if isinstance(more, bool) else None
        seen.next_cursor = cursor if isinstance(cursor, str) else None
    else:
        seen.data = data


def _root_field(reply: dict[str, Json]) -> dict[str, Json]:
    """Read a GraphQL reply of one root field as the REST reply with the same meaning."""
    errors = reply.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        extensions = errors[0].get("extensions")
        return {"code": "graphql", **(extensions if isinstance(extensions, dict) else {})}
    data = reply.get("data")
    fields = list(data.values()) if isinstance(data, dict) else []
    return {"data": fields[0]} if len(fields) == 1 else dict(reply)


# Paths

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_ROUTES: Final = tuple(
    (entry.method, re.compile(_PLACEHOLDER.sub(r"(?P<\1>[^/]+)", entry.path)), entry.name) for entry in TABLE
)
_PLAIN: Final = {(entry.method, entry.path): entry.name for entry in TABLE if "{" not in entry.path}


def route(method: str, path: str) -> tuple[str, dict[str, str]]:
    """Find the operation and parameters of a REST path, whatever stands before its /v1/; else ("", {})."""
    _, found, rest = path.partition("/v1/")
    if not found:
        return "", {}
    rest = rest.partition("?")[0].rstrip("/")
    plain = _PLAIN.get((method, rest))
    if plain is not None:
        return plain, {}
    for wanted, pattern, name in _ROUTES:
        match = pattern.fullmatch(rest)
        if match is not None and wanted == method:
            return name, match.groupdict()
    return "", {}


def _operation(exchange: Exchange) -> tuple[str, dict[str, str]]:
    if exchange.surface == "graphql":
        return (intern(exchange.operations[0]), {}) if len(exchange.operations) == 1 else ("", {})
    return route(exchange.method, exchange.path)


# Small readings

_WORD = re.compile(r"[\w.~-]+")


def texts(value: Json) -> Iterator[str]:
    """Give the strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts(inner)


def parsed(text: str) -> Json:
    """Parse JSON; None where it is not JSON."""
    if not text:
        return None
    try:
        return from_json(text)
    except ValueError:
        return _read_slowly(text)


def _read_slowly(text: str) -> Json:
    """Parse JSON that the fast reader refuses, such as a lone surrogate."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 16 else None


@lru_cache(maxsize=4096)
def http_date(text: str) -> int | None:
    """Read an IMF-fixdate such as ``Sun, 06 Nov 1994 08:49:37 GMT`` as Unix seconds (RFC 9110); else None."""
    from email.utils import parsedate_to_datetime

    try:
        return int(parsedate_to_datetime(text).timestamp()) if text else None
    except (ValueError, OverflowError):
        return None


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
