"""Reading a trace as a history: each exchange becomes what a judge needs of it.

Raw texts and most bodies of replies are dropped here, and what is left of them goes to a shelf, so that
memory grows slowly with the number of exchanges, and not with what they say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from sys import intern
from typing import Final, TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, Micros
from ranksim.core.errors import BadInput
from ranksim.core.records import Passed, parsed
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.service.routes import offered
from ranksim.core.trace import UNRECORDED_KEY, DeliveryAttempt, Exchange, Header, Note, Trace, entries
from ranksim.judge.conformance.history.graphql_arguments import sure_arguments
from ranksim.judge.conformance.history.graphql_lists import page_of, query_of
from ranksim.judge.conformance.history.history import ALL, History, Pace
from ranksim.judge.conformance.history.observation import (
    MARK,
    SAFE,
    AttemptDetail,
    Json,
    Observation,
    ObservationDetail,
    ReceivedAttempt,
    asks_dry,
    job_name,
    leaves,
)
from ranksim.judge.conformance.history.packed import PackedObservations
from ranksim.judge.conformance.history.spill_file import SpillFile

UNKNOWN: Final = ""
"""The endpoint that a lost call may have created."""

Source: TypeAlias = str | Path | Iterable[str] | Trace


Thing: TypeAlias = tuple[str, str, str]
"""Environment, the noun of its operations and id."""

Watch: TypeAlias = Callable[[Exchange, Observation, Json], None]
"""Shown each exchange, raw, beside what it became, and its parsed reply."""


def read(
    source: Source, watch: Watch | None = None, prefix: str = "", passed: Passed | None = None
) -> History:
    """Read a trace (a path, its lines, or one in memory) as a history; `prefix` is put before each id.

    `passed` is told which share of a file has been read. Raises BadInput naming a broken line.
    """
    reader = Reader(watch, prefix)
    for entry in _all(source, passed):
        reader.take(entry)
    return reader.finish()


def _all(source: Source, passed: Passed | None) -> Iterator[Header | Exchange | DeliveryAttempt | Note]:
    if isinstance(source, Trace):
        yield source.header
        yield from source.exchanges
        yield from source.deliveries
        yield from source.notes
    else:
        yield from entries(source, passed)


@dataclass(slots=True)
class Reader:
    """Turns the entries of a trace, one at a time, into a history."""

    watch: Watch | None = None
    prefix: str = ""
    """What is put before the id of each exchange, which is unique in its trace alone."""
    history: History = field(default_factory=History)
    _told: SpillFile[ObservationDetail] = field(default_factory=lambda: SpillFile(ObservationDetail))
    _rows: PackedObservations = field(init=False)
    _carried: SpillFile[AttemptDetail] = field(default_factory=lambda: SpillFile(AttemptDetail))
    _named: dict[str, set[str]] = field(default_factory=dict)
    """The endpoints that have a URL with this path; a call whose outcome is unknown stands for one more."""
    _unsure: list[Observation] = field(default_factory=list)
    """Calls without a reply that may have given an endpoint its URL."""
    _shown: set[Thing] = field(default_factory=set)
    """What can be updated and was shown over REST by itself."""
    _answered: set[tuple[str, str]] = field(default_factory=set)
    """(key, Idempotency-Key) of creations that were answered."""

    def __post_init__(self) -> None:
        self._rows = PackedObservations(self._told)

    def take(self, entry: Header | Exchange | DeliveryAttempt | Note) -> None:
        """Take the next entry."""
        match entry:
            case Header():
                self.history.run.header = entry
            case Exchange():
                self._exchange(entry)
            case DeliveryAttempt():
                self._delivery(entry)
            case Note():
                self._note(entry)

    def finish(self) -> History:
        """Sort what was taken, and name endpoints by their ids."""
        history = self.history
        self._rows.sort()
        self._rows.repeats, marks = _repeats(self._rows)
        if not history.run.captured:
            self._rows.unsure = _keyed(self._rows, marks)
            self._rows.repeats |= self._rows.unsure
        history.seen = self._rows
        if len(self._rows):
            history.run.began, history.run.ended = self._rows.began, self._rows.ended
        history.arrived.sort(key=lambda arrived: arrived.received)
        if history.arrived:
            history.run.ended = max(history.run.ended, history.arrived[-1].received)
        for seen in self._unsure:
            if (seen.key, seen.idempotency_key) not in self._answered:
                self._name(seen.body, UNKNOWN)
        for arrived in history.arrived if history.run.captured else ():  # else another may have that URL
            named = self._named.get(arrived.endpoint, set())
            if len(named) == 1 and UNKNOWN not in named:
                arrived.endpoint = next(iter(named))
        return history

    def _exchange(self, exchange: Exchange) -> None:
        if self.prefix:
            exchange = exchange.model_copy(update={"id": f"{self.prefix}{exchange.id}"})
        reply = parsed(exchange.response)
        seen = see(exchange, reply, len(self._rows), self.history.run.header, self._shown, self._told)
        self._rows.append(seen)
        headers = {name.lower(): value for name, value in (exchange.response_headers or {}).items()}
        cached = "age" in headers or not seen.shows("age")
        date = None if seen.lost or cached else http_date(headers.get("date", ""))
        if date is not None:  # what a cache answered has the Date of an earlier reply
            self.history.run.offset = self.history.run.offset.of(seen.sent, seen.received, date)
        if seen.operation.startswith("webhooks."):
            self._endpoints_of(seen)
        if seen.operation == "account.get" and seen.ok and seen.surface == "rest":
            self._account_of(seen)
        self.history.run.unrecorded += seen.request_unrecorded
        if seen.happened is not False and not 400 <= seen.status <= 499:
            if seen.surface == "graphql":
                self._mutation(seen)
            elif not seen.safe and not seen.outside and (seen.surface == "app" or not seen.operation):
                self._unfollowed(seen)
        if self.watch is not None:
            self.watch(exchange, seen, reply)

    def _mutation(self, seen: Observation) -> None:
        """Note what a GraphQL request may have changed; one refused with a 4xx did nothing."""
        reads = seen.operations and all(
            name in OPERATIONS and OPERATIONS[name].method == "GET" for name in seen.operations
        )
        if reads or (seen.body is not None and "mutation" not in str(seen.body)):
            return
        created = seen.operations and all(name.endswith(".create") for name in seen.operations)
        if not created and not seen.parameters:
            texts = (str(value) for value in leaves(seen.body))
            self.history.run.mutated |= {word for text in texts for word in _WORD.findall(text)}
            if not self._is_known(seen):
                self.history.run.changed |= {name.partition(".")[0] for name in seen.operations} or {ALL}
        if not seen.operations or not (seen.parameters or FOLLOWED.issuperset(seen.operations)):
            self.history.run.unread = True

    def _unfollowed(self, seen: Observation) -> None:
        """Note that the web app, which no key shows, or a write to an unknown path may have done anything."""
        self.history.run.unread = True
        if not seen.operation or seen.body is None:
            self.history.run.changed.add(ALL)

    def _is_known(self, seen: Observation) -> bool:
        """Return whether a mutation is of one thing alone, by an id that REST showed it by."""
        body = seen.body if isinstance(seen.body, dict) else {}
        given = sure_arguments(body.get("query"), body.get("variables")) or {}
        return (seen.environment, seen.operation.partition(".")[0], str(given.get("id"))) in self._shown

    def _endpoints_of(self, seen: Observation) -> None:
        """Learn the URLs of endpoints from what a call was told, or may have done."""
        if seen.ok:
            for thing in [seen.data] if isinstance(seen.data, dict) else seen.items or ():
                if isinstance(thing, dict):
                    self._name(thing, str(thing.get("id")))
            if seen.idempotency_key is not None:
                self._answered.add((seen.key, seen.idempotency_key))
        elif (seen.lost or seen.status >= 500) and seen.happened is not False and seen.method != "GET":
            self._unsure.append(seen)

    def _account_of(self, seen: Observation) -> None:
        """Note whose a key is by what it reads. Raises BadInput where the header contradicts it."""
        run, account = self.history.run, seen.data.get("id") if isinstance(seen.data, dict) else None
        trace_key = run.header.keys.get(seen.key)
        if not isinstance(account, str) or trace_key is None or trace_key.environment != seen.environment:
            return
        run.read_as[seen.environment, seen.key] = account
        for (environment, key), other in run.read_as.items():
            stated = run.header.keys[key].account
            if environment != seen.environment or not stated or not trace_key.account:
                continue
            if (stated == trace_key.account) != (other == account):
                raise BadInput(
                    f"keys: the header gives {key} the account {stated} and {seen.key} the account "
                    f"{trace_key.account}, and GET /v1/account says {other} and {account} ({seen.id}); give "
                    "keys of one account one account there, and those of others another"
                )

    def _name(self, thing: Json, endpoint: str) -> None:
        url = thing.get("url") if isinstance(thing, dict) else None
        if isinstance(url, str):
            path = re.sub(r"^[a-zA-Z]+://[^/]*", "", url)
            self._named.setdefault(path, set()).add(endpoint)

    def _delivery(self, delivery: DeliveryAttempt) -> None:
        headers = {name.lower(): value for name, value in delivery.headers.items()}
        arrived = ReceivedAttempt(
            self._carried,
            len(self.history.arrived),
            received=delivery.received,
            answered=delivery.answered,
            endpoint=delivery.endpoint,
            event=headers.get("service-event-id", ""),
            type=headers.get("service-event-type", ""),
            attempt=_whole_number(headers.get("service-delivery-attempt")) or 0,
            status=delivery.status,
            valid=delivery.signature.valid,
            t=delivery.signature.t,
            digest=_digest(delivery.body.encode()),
        )
        self._carried.put(AttemptDetail(parsed(delivery.body), headers))
        self.history.arrived.append(arrived)

    def _note(self, note: Note) -> None:
        self.history.run.notes.append(note)
        extra = note.model_extra or {}
        if isinstance(extra.get("repeated"), int):
            self.history.run.repeated += extra["repeated"]
        readers = {
            name: extra[name]
            for name in ("business", "rate", "traffic_rate")
            if isinstance(extra.get(name), int)
        }
        if note.t is not None and readers:
            self.history.run.paces += (Pace(note.t, **readers),)


def _repeats(rows: PackedObservations) -> tuple[set[int], bool]:
    """Find the exchanges that may be replays: those that are marked, or all but a surely first one of a key.

    Where a deployment marks replays (U31), what it does not mark is none, if a mark would have been recorded;
    whether it does is told, too.
    """
    marked, unmarked, hidden, marks = set[int](), set[int](), set[int](), False
    firsts: dict[tuple[str, str], tuple[int, Micros]] = {}
    for seen in rows.where(lambda seen: seen.replayed or seen.method == "POST"):
        if seen.replayed:
            marked.add(seen.index)
        if seen.idempotency_key is None or seen.method != "POST":
            continue
        marks |= seen.replayed
        hidden |= set() if seen.shows(MARK) else {seen.index}
        name = seen.environment, seen.idempotency_key
        first, received = firsts.setdefault(name, (seen.index, seen.received))
        if first != seen.index:
            unmarked |= {seen.index} if seen.sent >= received else {seen.index, first}
    return marked | (unmarked & hidden if marks else unmarked), marks


def _keyed(rows: PackedObservations, marks: bool) -> set[int]:
    """Return the POSTs with an Idempotency-Key: any may repeat one that was not captured.

    Where the deployment `marks` replays these are the ones whose mark would not have been recorded.
    """
    posts = rows.where(lambda seen: seen.method == "POST" and not (marks and seen.shows(MARK)))
    return {seen.index for seen in posts if seen.idempotency_key is not None}


# One exchange

FOLLOWED = frozenset(
    {"domains.create", "domains.update", "keyword_lists.create", "keywords.create", "keyword_briefs.create"}
    | {"scans.create", "scans.update", "jobs.create"}
)
"""GraphQL mutations whose consequences judges bear in mind: what may be added, and what `mutated` names."""

UPDATED = frozenset({"domains", "keyword_lists", "keywords", "labels", "competitors", "scans"})
"""What an update changes and nothing else, so that one over GraphQL can be judged as a PATCH."""

NO_GRAPHQL = frozenset({404, 405, 410})
"""Statuses of an address that is known to have no GraphQL."""

KEEPS_ITEMS = frozenset(
    {"webhooks.list", "webhook_deliveries.list", "webhook_events.list", "jobs.list", "scans.list"}
)
"""Collections whose items a judge reads; of all others a domain-scoped key's are kept, and what GraphQL
showed, else the ids."""


def see(
    exchange: Exchange,
    reply: Json,
    index: int,
    header: Header,
    seen_things: set[Thing],
    shelf: SpillFile[ObservationDetail],
) -> Observation:
    """Make of one exchange, whose parsed reply is given, what a judge needs.

    `seen_things` is what was shown over REST before, to which this one is added.
    """
    outside = _outside(exchange, reply)
    operation, parameters = ("", {}) if outside else _operation(exchange)
    key = exchange.api_key or ""
    lost = exchange.status is None or exchange.received is None
    operations = () if outside else exchange.operations
    detail = ObservationDetail(exchange.path, parameters, exchange.query or {}, operations, exchange.planned)
    seen = Observation(
        shelf,
        index=index,
        id=exchange.id,
        sent=exchange.sent,
        received=DISTANT_FUTURE if lost or exchange.received is None else exchange.received,
        key=intern(key),
        account=intern(_account(exchange, header)),
        environment=intern(exchange.environment),
        surface=intern(exchange.surface),
        operation=operation,
        method=intern(exchange.method),
        status=0 if lost or exchange.status is None else exchange.status,
        happened=False if lost and exchange.effect == "none" else (None if lost else True),
        outside=outside,
        recorded=_recorded(exchange.response_headers, header.response_headers),
        reply_unrecorded=not lost and exchange.response is None,
        request_unrecorded=_request_unrecorded(exchange, header),
    )
    _see_request(seen, detail, exchange)
    # under an Idempotency-Key a reply might be that of an earlier call (U33)
    mappable = seen.surface == "graphql" and seen.idempotency_key is None
    listed = query_of(operation, detail.body) if mappable else None
    if listed is not None:
        detail.query = listed
    if not lost:
        _see_headers(seen, detail, exchange)
        trace_key = header.keys.get(key)
        scoped = trace_key is not None and trace_key.domain_id is not None
        keeps = scoped or listed is not None or operation in KEEPS_ITEMS
        _see_reply(seen, detail, reply, listed, keeps)
        noun = operation.partition(".")[0]
        if noun in UPDATED and isinstance(detail.data, dict):
            if seen.surface == "rest":
                seen_things.add((seen.environment, noun, str(detail.data.get("id"))))
            elif seen.updates and mappable:
                name = _updated(detail)
                detail.parameters = {"id": name} if (seen.environment, noun, name) in seen_things else {}
        if exchange.query is None and seen.surface == "rest" and seen.has_more is not None:
            seen.has_more = detail.next_cursor = None  # of what list it is a page, nobody can tell
    shelf.put(detail)
    return seen


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


def _see_request(seen: Observation, detail: ObservationDetail, exchange: Exchange) -> None:
    for name, value in (exchange.request_headers or {}).items():
        if name.lower() == "idempotency-key":
            seen.idempotency_key = intern(value)
    if seen.safe:
        return
    detail.body = parsed(exchange.body)
    seen.dry_run = asks_dry(detail.body, seen.surface)
    if seen.idempotency_key is not None:
        meaning = exchange.body if detail.body is None else json.dumps(detail.body, sort_keys=True)
        query = json.dumps(sorted((exchange.query or {}).items()))
        detail.fingerprint = _digest(f"{seen.method} {detail.path} {query} {meaning}".encode())
        detail.wording = _digest((exchange.body or "").encode())


def _see_headers(seen: Observation, detail: ObservationDetail, exchange: Exchange) -> None:
    headers = {name.lower(): value for name, value in (exchange.response_headers or {}).items()}
    seen.limit = _first_whole(headers.get("ratelimit-limit"))
    seen.remaining = _first_whole(headers.get("ratelimit-remaining"))
    seen.reset = _first_whole(headers.get("ratelimit-reset"))
    seen.retry_after = _whole_number(headers.get("retry-after"))
    if seen.retry_after is None:
        detail.retry_at = http_date(headers.get("retry-after", ""))
    seen.replayed = headers.get(MARK, "").lower() == "true"


def _see_reply(
    seen: Observation, detail: ObservationDetail, reply: Json, listed: dict[str, str] | None, keeps: bool
) -> None:
    """Read a reply; `listed` is the query of a list that was asked for over GraphQL, else None."""
    if not isinstance(reply, dict):
        return
    if seen.surface == "graphql":
        reply = _root_field(reply)
        page = None if listed is None else page_of(seen.operation, reply.get("data"), listed)
        reply = page or reply
    if seen.idempotency_key is not None:
        stated = {name: value for name, value in reply.items() if name != "request_id"}
        detail.answer = _digest(json.dumps(stated, sort_keys=True).encode())
    if "code" in reply and not (seen.surface == "rest" and 200 <= seen.status <= 299):
        seen.code = intern(str(reply["code"]))
        detail.meta = reply["meta"] if isinstance(reply.get("meta"), dict) else {}
        return
    data = reply.get("data")
    if isinstance(data, list):
        named = [item for item in data if isinstance(item, dict) and "id" in item]
        jobs = seen.operation == "jobs.list"
        detail.data = tuple(job_name(item) if jobs else str(item["id"]) for item in named)
        detail.items = data if keeps else None
        more, cursor = reply.get("has_more"), reply.get("next_cursor")
        seen.has_more = more if isinstance(more, bool) else None
        detail.next_cursor = cursor if isinstance(cursor, str) else None
    else:
        detail.data = data


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


def _operation(exchange: Exchange) -> tuple[str, dict[str, str]]:
    if exchange.surface == "graphql":
        return (intern(exchange.operations[0]), {}) if len(exchange.operations) == 1 else ("", {})
    return route(exchange.method, exchange.path)


# Small readings

_WORD = re.compile(r"[\w.~-]+")


def texts(value: Json) -> Iterator[str]:
    """Return the strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts(inner)


def _whole_number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 16 else None


def _first_whole(text: str | None) -> int | None:
    """Read the first of several values, as in ``20, 20;w=60`` of the drafts; a fraction is rounded up."""
    first = re.match(r"\s*([0-9]{1,15})(\.[0-9]+)?\s*(?=$|[,;])", text or "")
    if first is None:
        return None
    return int(first[1]) + (float(first[2] or 0) > 0)


@lru_cache(maxsize=4096)
def http_date(text: str) -> int | None:
    """Read an IMF-fixdate such as ``Sun, 06 Nov 1994 08:49:37 GMT`` as Unix seconds (RFC 9110); else None."""
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text) if text else None
        return None if moment is None or moment.tzinfo is None else int(moment.timestamp())
    except (ValueError, OverflowError):
        return None


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
