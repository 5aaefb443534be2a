"""Reading a trace as a history: each exchange becomes what a judge needs of it.

Raw texts and most bodies of replies are dropped here, and what is left of them goes to a shelf, so that
memory grows slowly with the number of exchanges, and not with what they say.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

from ranksim.core.clock import Micros
from ranksim.core.errors import BadInput
from ranksim.core.records import Passed, parsed
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.trace import DeliveryAttempt, Exchange, Header, Note, Trace, entries
from ranksim.judge.conformance.history.exchange_reader import (
    ExchangeReader,
    digest_of,
    header_number,
    lowered,
    parse_http_date,
)
from ranksim.judge.conformance.history.graphql import sure_arguments
from ranksim.judge.conformance.history.history import ALL, History, Pace
from ranksim.judge.conformance.history.observation import (
    MARK,
    AttemptDetail,
    Json,
    Observation,
    ReceivedAttempt,
    leaves,
)
from ranksim.judge.conformance.history.packed import PackedObservations
from ranksim.judge.conformance.history.spill_file import SpillFile

UNKNOWN: Final = ""
"""The endpoint that a lost call may have created."""

FOLLOWED = frozenset(
    {"domains.create", "domains.update", "keyword_lists.create", "keywords.create", "keyword_briefs.create"}
    | {"scans.create", "scans.update", "jobs.create"}
)
"""GraphQL mutations whose consequences judges bear in mind: what may be added, and what `mutated` names."""

_WORD = re.compile(r"[\w.~-]+")

Source: TypeAlias = str | Path | Iterable[str] | Trace

Watch: TypeAlias = Callable[[Exchange, Observation, Json], None]
"""Shown each exchange, raw, beside what it became, and its parsed reply."""


def read_history(
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
    _exchanges: ExchangeReader = field(default_factory=ExchangeReader)
    _rows: PackedObservations = field(init=False)
    _carried: SpillFile[AttemptDetail] = field(default_factory=lambda: SpillFile(AttemptDetail))
    _named: dict[str, set[str]] = field(default_factory=dict)
    """The endpoints that have a URL with this path; a call whose outcome is unknown stands for one more."""
    _unsure: list[Observation] = field(default_factory=list)
    """Calls without a reply that may have given an endpoint its URL."""
    _answered: set[tuple[str, str]] = field(default_factory=set)
    """(key, Idempotency-Key) of creations that were answered."""

    def __post_init__(self) -> None:
        self._rows = PackedObservations(self._exchanges.shelf)

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
        run, reply, headers = self.history.run, parsed(exchange.response), lowered(exchange.response_headers)
        seen = self._exchanges.read(exchange, reply, headers, len(self._rows), run.header)
        self._rows.append(seen)
        # what a cache answered has the Date of an earlier reply
        if not seen.lost and "age" not in headers and seen.shows("age"):
            date = parse_http_date(headers.get("date", ""))
            run.offset = run.offset if date is None else run.offset.of(seen.sent, seen.received, date)
        if seen.operation.startswith("webhooks."):
            self._endpoints_of(seen)
        if seen.operation == "account.get" and seen.ok and seen.surface == "rest":
            self._account_of(seen)
        run.unrecorded += seen.request_unrecorded
        if seen.happened is not False and not 400 <= seen.status <= 499:
            self._unfollowed(seen)
        if self.watch is not None:
            self.watch(exchange, seen, reply)

    def _unfollowed(self, seen: Observation) -> None:
        """Note what a call may have changed that no judge follows; one refused with a 4xx did nothing.

        So may a GraphQL mutation, a call of the web app, which no key shows, or a write to an unknown path.
        """
        if seen.surface == "graphql":
            if not _reads(seen.operations) and (seen.body is None or "mutation" in str(seen.body)):
                self._mutation(seen)
        elif not seen.safe and not seen.outside and (seen.surface == "app" or not seen.operation):
            self.history.run.unread = True
            if not seen.operation or seen.body is None:
                self.history.run.changed.add(ALL)

    def _mutation(self, seen: Observation) -> None:
        """Note what a GraphQL mutation may have changed."""
        run, operations = self.history.run, seen.operations
        creates = operations and all(name.endswith(".create") for name in operations)
        if not creates and not seen.parameters:
            words = (_WORD.findall(str(value)) for value in leaves(seen.body))
            run.mutated.update(chain.from_iterable(words))
            if not self._is_known(seen):
                run.changed |= {name.partition(".")[0] for name in operations} or {ALL}
        if not operations or not (seen.parameters or FOLLOWED.issuperset(operations)):
            run.unread = True

    def _is_known(self, seen: Observation) -> bool:
        """Return whether a mutation is of one thing alone, by an id that REST showed it by."""
        body = seen.body if isinstance(seen.body, dict) else {}
        given = sure_arguments(body.get("query"), body.get("variables")) or {}
        return (
            seen.environment,
            seen.operation.partition(".")[0],
            str(given.get("id")),
        ) in self._exchanges.things

    def _endpoints_of(self, seen: Observation) -> None:
        """Learn the URLs of endpoints from what a call was told, or may have done."""
        if seen.ok:
            for thing in [seen.data] if isinstance(seen.data, dict) else seen.items or ():
                if isinstance(thing, dict):
                    self._name(thing, str(thing.get("id")))
            if seen.idempotency_key is not None:
                self._answered.add((seen.key, seen.idempotency_key))
        elif seen.outcome_unknown and seen.happened is not False and seen.method != "GET":
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
        headers = lowered(delivery.headers)
        arrived = ReceivedAttempt(
            self._carried,
            len(self.history.arrived),
            received=delivery.received,
            answered=delivery.answered,
            endpoint=delivery.endpoint,
            event=headers.get("service-event-id", ""),
            type=headers.get("service-event-type", ""),
            attempt=header_number(headers.get("service-delivery-attempt")) or 0,
            status=delivery.status,
            valid=delivery.signature.valid,
            t=delivery.signature.t,
            digest=digest_of(delivery.body.encode()),
        )
        self._carried.put(AttemptDetail(parsed(delivery.body), headers, delivery.problem))
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


def _reads(operations: Iterable[str]) -> bool:
    """Return whether there are operations, and all of them only read."""
    methods = {OPERATIONS[name].method if name in OPERATIONS else "" for name in operations}
    return methods == {"GET"}


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
