"""What a trace shows of accounts: the reading that a mirror would have made, and when which call came."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ranksim.core.clock import SECOND, Micros
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.trace import Exchange, Header, Trace
from ranksim.judge.conformance.history.exchange_reader import route
from ranksim.judge.mirror.reading import KEYWORDS, OWNED, Item, ReadAccount, Reading, StatedAccount
from ranksim.judge.mirror.stated import STARTS, NamedThings, no_account, started_item

SINGLES = ("account.get", "account.entitlements", "account.usage", "slots.get")
"""Objects that tell of an account as a whole."""

LISTS = {operation.partition(".")[0]: operation for operation in (*OWNED, KEYWORDS)}
"""The list that items of a resource stand in, whichever operation showed them."""


@dataclass(frozen=True, slots=True)
class TracedAccounts:
    """A trace as a reading of `host`, from `began` to `now` (µs).

    `calls` are those of each key, but for `STARTS`.
    """

    reading: Reading
    calls: Mapping[str, Sequence[tuple[Micros, str]]]
    host: str
    began: Micros
    now: Micros

    @property
    def start(self) -> Micros:
        """The second after the last call (µs), so that no occasion of that instant comes again in a twin."""
        return (self.now // SECOND + 1) * SECOND


def read_recorded(source: Path | Trace, stated: StatedAccount | None = None) -> TracedAccounts:
    """Read of a trace what it shows of the accounts of its keys; those it does not show are as `stated`.

    A key of which nothing tells whose it is then belongs to one account, called "account". Raises BadInput
    where there is no account to show or to state.
    """
    trace = source if isinstance(source, Trace) else Trace.read(source)
    singles: dict[str, dict[str, Item]] = {}
    items: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
    calls: dict[str, list[tuple[Micros, str]]] = {}
    owners = _owners(trace)
    if stated is not None:
        owners = dict.fromkeys(trace.header.keys, "account") | owners
    named: dict[str, NamedThings] = {}
    for exchange in trace.exchanges:
        key, operation = exchange.api_key, operation_of(exchange)
        if not key or operation not in OPERATIONS:
            continue
        if operation not in STARTS:
            calls.setdefault(key, []).append((exchange.sent, operation))
        if (owner := owners.get(key)) is None:
            continue
        data = _data(exchange)
        rows = _rows(operation, data)
        named.setdefault(owner, NamedThings()).learn(exchange, operation, bool(rows))
        if operation in SINGLES and isinstance(data, dict):
            singles.setdefault(owner, {})[operation] = data
        listing = LISTS.get(operation.partition(".")[0])
        if listing and data is not None:
            items_of = items.setdefault(owner, {}).setdefault(listing, {})
            request = started_item(exchange) if operation in STARTS else {}
            for which, row in rows.items():
                items_of[which] = request | items_of.get(which, {}) | row
    lacking = {} if stated is None else {name: each for name, each in named.items() if name not in singles}
    if not (singles if stated is None else lacking):
        raise no_account(stated, bool(singles))
    accounts = [_account(owner, owners, singles, items, trace.header) for owner in singles]
    if stated is not None:
        lacked = {owner: _account(owner, owners, singles, items, trace.header) for owner in lacking}
        accounts += [each.account(lacked[owner], stated) for owner, each in lacking.items()]
    unknown = {
        key: "the trace does not show its account"
        for key in calls
        if owners.get(key) not in singles and owners.get(key) not in lacking
    }
    last = max((exchange.received or exchange.sent) for exchange in trace.exchanges)
    host = next(iter(trace.header.targets.values()), "") or "a recorded deployment"
    first = min(exchange.sent for exchange in trace.exchanges)
    return TracedAccounts(Reading(tuple(accounts), unknown), calls, host, first, last)


def with_recorded(reading: Reading, recorded: TracedAccounts) -> Reading:
    """Return what was read, with the items that a trace shows besides, as of jobs that are listed no more."""
    beside = {read.single("account.get").get("id"): read for read in recorded.reading.accounts}
    accounts = []
    for read in reading.accounts:
        other = beside.get(read.single("account.get").get("id"))
        lists = {name: list(rows) for name, rows in read.lists.items()}
        for name in ("jobs.list", "keyword_briefs.list", "webhook_deliveries.list"):
            rows = {str(row.get("id")): row for row in (other.lists.get(name, ()) if other else ())}
            lists[name] = list((rows | {str(row.get("id")): row for row in lists.get(name, ())}).values())
        accounts.append(ReadAccount(read.name, read.environment, read.keys, read.singles, lists, read.lacks))
    return Reading(tuple(accounts), reading.unknown, reading.date)


def _owners(trace: Trace) -> dict[str, str]:
    """The account of each key: as the header has it, or the replies, or the only one that there is."""
    stated = {name: key.account for name, key in trace.header.keys.items() if key.account}
    owners: dict[str, str] = {}
    for exchange in trace.exchanges:
        if exchange.api_key and operation_of(exchange) == "account.get":
            data = _data(exchange)
            if isinstance(data, dict) and "id" in data:
                owners[exchange.api_key] = str(data["id"])
    shared = {stated[name]: owner for name, owner in owners.items() if name in stated}
    owners = {name: shared.get(account, account) for name, account in stated.items()} | owners
    if len(set(owners.values())) == 1:
        owners = dict.fromkeys(trace.header.keys, next(iter(owners.values()))) | owners
    return owners


def operation_of(exchange: Exchange) -> str:
    """Return the one operation of a call, which a recording of other tools tells by its path alone."""
    if exchange.surface == "rest" and not exchange.operations:
        return route(exchange.method, exchange.path)[0]
    return exchange.operations[0] if len(exchange.operations) == 1 else ""


def _account(
    owner: str,
    owners: Mapping[str, str],
    singles: Mapping[str, dict[str, Item]],
    items: Mapping[str, Mapping[str, Mapping[str, Item]]],
    header: Header,
) -> ReadAccount:
    own = [key for key, account in owners.items() if account == owner and key in header.keys]
    read = singles.get(owner, {})
    label = str(read.get("account.get", {}).get("name") or ("account" if read else owner))
    environment = header.keys[own[0]].environment if own else "production"
    lists = {name: list(rows.values()) for name, rows in items.get(owner, {}).items()}
    keys = {key: header.keys[key].domain_id for key in own}
    lacks: dict[str, str] = dict.fromkeys(
        (name for name in SINGLES if name not in read), "it is not in the trace"
    )
    return ReadAccount(label, environment, keys, read, lists, lacks)


def _rows(operation: str, data: Any) -> dict[str, dict[str, Any]]:
    """The items that a reply shows, by id, with what it tells of each; of what stands in no list, none."""
    if operation.partition(".")[0] not in LISTS:
        return {}
    if operation == "keyword_briefs.create" and isinstance(data, dict):
        data = data.get("briefs")  # of one request (U109)
    return {
        str(row["id"]): {name: value for name, value in row.items() if value is not None}
        for row in (data if isinstance(data, list) else [data])
        if isinstance(row, dict) and row.get("id") is not None
    }


def _data(exchange: Exchange) -> Any:
    """The `data` of a reply that granted something, None where it was not recorded or is no JSON."""
    if exchange.response is None or exchange.status is None or not 200 <= exchange.status < 300:
        return None
    try:
        reply = json.loads(exchange.response)
    except ValueError:
        return None
    return reply.get("data") if isinstance(reply, dict) else None


def mixes(calls: Iterable[tuple[Micros, str]]) -> tuple[dict[str, int], list[Micros]]:
    """Return how often each operation was called, and all instants in order (µs)."""
    mix: dict[str, int] = {}
    instants = []
    for at, operation in calls:
        mix[operation] = mix.get(operation, 0) + 1
        instants.append(at)
    return mix, sorted(instants)
