"""What a trace shows of accounts: the reading that a mirror would have made, and when which call came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ranksim.core.clock import MINUTE, SECOND, Micros
from ranksim.core.har import is_unknown_call
from ranksim.core.records import parsed_object
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.trace import DeliveryAttempt, Exchange, Header, Trace
from ranksim.judge.conformance.history.exchange_reader import parse_http_date, route
from ranksim.judge.mirror.listed import ListedKeywords, counted_lists, listed_over_rest
from ranksim.judge.mirror.reading import KEYWORDS, OWNED, Item, ReadAccount, Reading, StatedAccount
from ranksim.judge.mirror.stated import STARTS, NamedThings, no_account, started_item

SINGLES = ("account.get", "account.entitlements", "account.usage", "slots.get")
"""Objects that tell of an account as a whole."""

LISTS = {operation.partition(".")[0]: operation for operation in (*OWNED, KEYWORDS)}
"""The list that items of a resource stand in, whichever operation showed them."""

MANY_MADE = {"keyword_briefs.create": "briefs", "keywords.create": "created"}
"""Where replies have what one request made (U109)."""

OF_KEYWORDS = ("domain_id", "list_id")
"""What a listing of keywords is asked for, and so tells of each of them."""

APART = MINUTE
"""How far a Date may lie from when its reply was received, where both are of one clock (µs)."""


@dataclass(frozen=True, slots=True)
class TracedAccounts:
    """A trace as a reading of `host`, from `began` to `now` (µs).

    `calls` are those of each key, but for `STARTS`; `unknown` are those of no operation.
    """

    reading: Reading
    calls: Mapping[str, Sequence[tuple[Micros, str]]]
    host: str
    began: Micros
    now: Micros
    unknown: Sequence[Exchange] = ()

    @property
    def start(self) -> Micros:
        """The second after the last call (µs), so that no occasion of that instant comes again in a twin."""
        return (self.now // SECOND + 1) * SECOND


@dataclass(slots=True)
class TracedAccount:
    """What the granted calls of an account show: single objects, items by list and id, and what they name."""

    owner: str
    singles: dict[str, Item] = field(default_factory=dict)
    items: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    named: NamedThings = field(default_factory=NamedThings)
    listed: ListedKeywords = field(default_factory=ListedKeywords)

    def learn(self, exchange: Exchange, operation: str, bound: str | None) -> None:
        """Take what a call shows and names; its key may be `bound` to a domain."""
        if operation == KEYWORDS and exchange.surface == "graphql":
            exchange = listed_over_rest(exchange)
        reply = granted_reply(exchange)
        data = reply.get("data")
        rows = _rows(operation, data)
        self.named.learn(exchange, operation, bool(rows))
        if operation in SINGLES and isinstance(data, dict):
            self.singles[operation] = data
        if operation.endswith(".delete") and exchange.status is not None and 200 <= exchange.status < 300:
            self._drop(str(route(exchange.method, exchange.path)[1].get("id")))
            return
        if data is None or (listing := LISTS.get(operation.partition(".")[0])) is None:
            return
        items = self.items.setdefault(listing, {})
        request = started_item(exchange) if operation in STARTS else {}
        if operation == KEYWORDS:
            request = {"domain_id": bound} if bound else {}
            request |= {name: each for name, each in (exchange.query or {}).items() if name in OF_KEYWORDS}
        for which, row in rows.items():
            items[which] = request | items.get(which, {}) | row
        if operation == KEYWORDS and all("domain_id" in items[which] for which in rows):
            self.listed.learn(exchange, reply, rows, items, bound)

    def learn_ends(self, deliveries: Iterable[DeliveryAttempt]) -> None:
        """Take from webhooks how jobs ended that replies show."""
        jobs = self.items.get("jobs.list", {})
        for delivery in deliveries:
            data = (parsed_object(delivery.body) or {}).get("data")
            job = data.get("job") if isinstance(data, dict) else None
            if isinstance(job, dict) and job.get("finished_at") and str(job.get("id")) in jobs:
                ended = {name: job[name] for name in ("status", "finished_at") if name in job}
                jobs[str(job["id"])] |= ended

    def _drop(self, which: str) -> None:
        """Forget what was deleted, and the keywords of a list or a domain that was."""
        self.named.domains.pop(which, None)
        for rows in self.items.values():
            rows.pop(which, None)
        words = self.items.get(KEYWORDS, {})
        for word in [
            key for key, row in words.items() if which in (row.get("list_id"), row.get("domain_id"))
        ]:
            del words[word]

    def account(self, owners: Mapping[str, str], header: Header, stated: StatedAccount | None) -> ReadAccount:
        """Return it as if it had been read, with what is `stated` of it where it was not."""
        own = [key for key, account in owners.items() if account == self.owner and key in header.keys]
        label = self.singles.get("account.get", {}).get("name")
        label = str(label or ("account" if self.singles else self.owner))
        environment = header.keys[own[0]].environment if own else "production"
        lists: dict[str, list[Item]] = {name: list(rows.values()) for name, rows in self.items.items()}
        keys = {key: header.keys[key].domain_id for key in own}
        lacks = {name: "it is not in the trace" for name in SINGLES if name not in self.singles}
        if stated is None:
            hosts = [str(domain.get("id")) for domain in lists.get("domains.list", ())]
            complete = self.listed.domains(lists, hosts)
            if complete:
                lists["keyword_lists.list"] = list(counted_lists(lists, hosts, complete, None))
        read = ReadAccount(label, environment, keys, self.singles, lists, lacks)
        return read if stated is None else self.named.account(read, stated, self.listed)


def read_recorded(source: Path | Trace, stated: StatedAccount | None = None) -> TracedAccounts:
    """Read of a trace what it shows of the accounts of its keys; those it does not show are as `stated`.

    A key of which nothing tells whose it is then belongs to one account, called "account". Raises BadInput
    where there is no account to show or to state.
    """
    trace = source if isinstance(source, Trace) else Trace.read(source)
    trace = replace(trace, exchanges=_by_date(trace.exchanges))
    traced: dict[str, TracedAccount] = {}
    calls: dict[str, list[tuple[Micros, str]]] = {}
    owners = _owners(trace)
    if stated is not None:
        owners = dict.fromkeys(trace.header.keys, "account") | owners
    for exchange in trace.exchanges:
        key, operation = exchange.api_key, operation_of(exchange)
        if not key or operation not in OPERATIONS:
            continue
        if operation not in STARTS:
            calls.setdefault(key, []).append((exchange.sent, operation))
        if (owner := owners.get(key)) is not None:
            bound = trace.header.keys[key].domain_id if key in trace.header.keys else None
            traced.setdefault(owner, TracedAccount(owner)).learn(exchange, operation, bound)
    for each in traced.values():
        each.learn_ends(trace.deliveries)
    singles = {owner for owner, each in traced.items() if each.singles}
    lacking = set() if stated is None else traced.keys() - singles
    if not (singles if stated is None else lacking):
        raise no_account(stated, bool(singles))
    used = [owner for owner in traced if owner in singles] + [owner for owner in traced if owner in lacking]
    accounts = [
        traced[owner].account(owners, trace.header, stated if owner in lacking else None) for owner in used
    ]
    unknown = {key: "the trace does not show its account" for key in calls if owners.get(key) not in used}
    last = max((exchange.received or exchange.sent) for exchange in trace.exchanges)
    host = next(iter(trace.header.targets.values()), "") or "a recorded deployment"
    first = min(exchange.sent for exchange in trace.exchanges)
    reading = Reading(tuple(accounts), unknown)
    strange = [each for each in trace.exchanges if not each.operations and is_unknown_call(each)]
    return TracedAccounts(reading, calls, host, first, last, strange)


def _by_date(exchanges: list[Exchange]) -> list[Exchange]:
    """Return calls at the deployment's dates, where its clock is another than that which recorded them.

    Its jobs and months go by that clock, which may be set, or go faster. A call whose reply has no date is of
    the date before it. Dates have whole seconds (RFC 9110), so calls of one clock stay as they are.
    """
    dates = [_date(exchange) for exchange in exchanges]
    received = (exchange.received or exchange.sent for exchange in exchanges)
    if not any(date and abs(date - at) > APART for date, at in zip(dates, received, strict=True)):
        return exchanges
    latest, there = next(filter(None, dates)), list[Exchange]()
    for exchange, date in zip(exchanges, dates, strict=True):
        latest = date or latest
        there.append(exchange.model_copy(update={"sent": latest, "received": latest}))
    return there


def _date(exchange: Exchange) -> Micros | None:
    seconds = parse_http_date((exchange.response_headers or {}).get("date", ""))
    return None if seconds is None else seconds * SECOND


def with_recorded(reading: Reading, recorded: TracedAccounts) -> Reading:
    """Return what was read, with the keys and items that a trace shows besides, as jobs listed no more."""
    beside = {read.single("account.get").get("id"): read for read in recorded.reading.accounts}
    accounts = []
    for read in reading.accounts:
        other = beside.get(read.single("account.get").get("id"))
        lists = {name: list(rows) for name, rows in read.lists.items()}
        for name in ("jobs.list", "keyword_briefs.list", "webhook_deliveries.list"):
            rows = {str(row.get("id")): row for row in (other.lists.get(name, ()) if other else ())}
            lists[name] = list((rows | {str(row.get("id")): row for row in lists.get(name, ())}).values())
        keys = {**(other.keys if other else {}), **read.keys}
        accounts.append(ReadAccount(read.name, read.environment, keys, read.singles, lists, read.lacks))
    return Reading(tuple(accounts), reading.unknown, reading.date)


def _owners(trace: Trace) -> dict[str, str]:
    """The account of each key: as the header has it, or the replies, or the only one that there is."""
    stated = {name: key.account for name, key in trace.header.keys.items() if key.account}
    owners: dict[str, str] = {}
    for exchange in trace.exchanges:
        if exchange.api_key and operation_of(exchange) == "account.get":
            data = granted_reply(exchange).get("data")
            if isinstance(data, dict) and "id" in data:
                owners[exchange.api_key] = str(data["id"])
    shared = {stated[name]: owner for name, owner in owners.items() if name in stated}
    owners = {name: shared.get(account, account) for name, account in stated.items()} | owners
    if len(set(owners.values())) == 1:
        owners = dict.fromkeys(trace.header.keys, next(iter(owners.values()))) | owners
    return owners


def operation_of(exchange: Exchange) -> str:
    """Return the one operation of a call, which a recording of other tools tells by its path alone.

    Of GraphQL it tells listings of keywords by what the reply names.
    """
    if exchange.surface == "rest" and not exchange.operations:
        return route(exchange.method, exchange.path)[0]
    if exchange.surface == "graphql" and not exchange.operations:
        data = granted_reply(exchange).get("data")
        return KEYWORDS if isinstance(data, dict) and data.keys() == {"keywords"} else ""
    return exchange.operations[0] if len(exchange.operations) == 1 else ""


def _rows(operation: str, data: Any) -> dict[str, dict[str, Any]]:
    """The items that a reply shows, by id, with what it tells of each; of what stands in no list, none."""
    if operation.partition(".")[0] not in LISTS:
        return {}
    if operation in MANY_MADE and isinstance(data, dict):
        data = data.get(MANY_MADE[operation])
    return {
        str(row["id"]): {name: value for name, value in row.items() if value is not None}
        for row in (data if isinstance(data, list) else [data])
        if isinstance(row, dict) and row.get("id") is not None
    }


def granted_reply(exchange: Exchange) -> Item:
    """Return the reply that granted something; empty where it was not recorded or is no JSON object."""
    if exchange.status is None or not 200 <= exchange.status < 300:
        return {}
    return parsed_object(exchange.response) or {}


def mixes(calls: Iterable[tuple[Micros, str]]) -> tuple[dict[str, int], list[Micros]]:
    """Return how often each operation was called, and all instants in order (µs)."""
    mix: dict[str, int] = {}
    instants = []
    for at, operation in calls:
        mix[operation] = mix.get(operation, 0) + 1
        instants.append(at)
    return mix, sorted(instants)
