"""One exchange of a trace, whole: headers, query and body, how to make it again, and what stood around it.

Around it are its key's window, as the nearest replies of the same key and limit state it before and after,
and its account's meters, as the nearest statements tell them. Between two statements a meter that nobody else
used lies between what they say, unless its period has turned.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ranksim.clock import iso
from ranksim.conformance.exhibits import body_shown, curl, headers_shown
from ranksim.errors import BadInput
from ranksim.trace import Exchange, Trace


def shown(path: Path, ids: Sequence[str]) -> str:
    """Return exchanges of a trace as text. Raises BadInput for an id that the trace has not."""
    trace = Trace.read(path)
    by_id = {exchange.id: exchange for exchange in trace.exchanges}
    parts = []
    for name in ids:
        bare = name if name in by_id else name.partition("/")[2]
        if bare not in by_id:
            such = next(iter(by_id), "x1")
            raise BadInput(
                f"{path}: no exchange is called {name!r}; expected an id of a report, such as {such}"
            )
        parts.append("\n".join([*_told(by_id[bare], trace), *_around(by_id[bare], trace)]))
    return "\n\n".join(parts) + "\n"


def _told(exchange: Exchange, trace: Trace) -> Iterator[str]:
    took = "no reply" if exchange.received is None else f"{(exchange.received - exchange.sent) / 1000:.1f} ms"
    yield f"{exchange.id}  {iso(exchange.sent)}  {took}  key {exchange.api_key or 'none'}"
    query = "?" + urlencode(exchange.query) if exchange.query else ""
    yield f"  {exchange.method} {exchange.path}{query}"
    yield from (f"  > {name}: {value}" for name, value in headers_shown(exchange.request_headers).items())
    yield from (f"  > {line}" for line in body_shown(exchange.body).splitlines())
    yield f"  {exchange.status if exchange.status is not None else exchange.error or 'no reply was seen'}"
    yield from (f"  < {name}: {value}" for name, value in headers_shown(exchange.response_headers).items())
    yield from (f"  < {line}" for line in body_shown(exchange.response).splitlines())
    yield f"  {curl(exchange, trace.header.targets.get(exchange.target, ''))}"


# Around it


def _around(exchange: Exchange, trace: Trace) -> Iterator[str]:
    """Tell what was stated nearest before and after: the exchanges that fix each end stand beside it."""
    before = [one for one in trace.exchanges if one.received is not None and one.received <= exchange.sent]
    end = exchange.received if exchange.received is not None else exchange.sent
    after = [one for one in trace.exchanges if one.sent >= end and one is not exchange]
    before.sort(key=lambda one: -(one.received or 0))
    after.sort(key=lambda one: one.sent)
    limit = _header(exchange, "ratelimit-limit")
    if limit is not None:
        same = [
            [
                one
                for one in side
                if one.api_key == exchange.api_key and _header(one, "ratelimit-limit") == limit
            ]
            for side in (before, after)
        ]
        yield f"  window of key {exchange.api_key or 'none'}, limit {limit}:"
        nearest = [next(iter(side), None) for side in same]
        for label, one in (("before", nearest[0]), ("it says", exchange), ("after", nearest[1])):
            if one is None:
                yield f"    {label}: nothing in the trace tells"
            else:
                left, reset = _header(one, "ratelimit-remaining"), _header(one, "ratelimit-reset")
                yield f"    {label}: {left} left, resets in {reset} ({one.id}, {_apart(one, exchange)})"
    account = _account(exchange, trace)
    sides = [_meters(side, account, trace) for side in (before, after)]
    own = _meters([exchange], account, trace)
    for name in dict.fromkeys([*sides[0], *own, *sides[1]]):
        yield f"  {name} of account {account or 'unknown'}:"
        for label, found in (("before", sides[0]), ("it says", own), ("after", sides[1])):
            if name in found:
                said, one = found[name]
                yield f"    {label}: {said} ({one.id}, {_apart(one, exchange)})"
            elif label != "it says":
                yield f"    {label}: nothing in the trace tells"


def _apart(one: Exchange, exchange: Exchange) -> str:
    if one is exchange:
        return "this one"
    apart = (one.sent - exchange.sent) / 1_000_000
    return f"{abs(apart):.3f} s {'before' if apart < 0 else 'after'}"


def _account(exchange: Exchange, trace: Trace) -> str:
    key = trace.header.keys.get(exchange.api_key or "")
    return (key.account if key is not None else "") or exchange.account or exchange.api_key or ""


def _header(exchange: Exchange, name: str) -> str | None:
    return next((value for given, value in exchange.response_headers.items() if given.lower() == name), None)


def _meters(exchanges: Sequence[Exchange], account: str, trace: Trace) -> dict[str, tuple[str, Exchange]]:
    """Return what the first of these exchanges that states it says of each meter, of cost and of slots."""
    found: dict[str, tuple[str, Exchange]] = {}
    for one in exchanges:
        if _account(one, trace) == account and one.response:
            for name, said in _stated(one):
                found.setdefault(name, (said, one))
    return found


def _stated(exchange: Exchange) -> Iterator[tuple[str, str]]:
    try:
        body = json.loads(exchange.response)
    except ValueError:
        return
    if not isinstance(body, dict):
        return
    data: Any = body.get("data")
    told = data if isinstance(data, dict) else {}
    given, metrics = body.get("meta"), told.get("metrics")
    meta: dict[str, Any] = given if isinstance(given, dict) else {}
    meters = metrics if isinstance(metrics, list) else []
    for meter in [*meters, meta]:
        if isinstance(meter, dict) and "metric" in meter:
            used = f"{meter.get('used')} of {meter.get('limit')} used"
            yield str(meter["metric"]), f"{used}, resets {meter.get('resets_at')}"
    for cost in (told.get("cost"), meta):
        if isinstance(cost, dict) and "ceiling" in cost:
            yield (
                "cost",
                f"{cost.get('spent')} of {cost.get('ceiling')} spent, resets {cost.get('resets_at')}",
            )
    for slots in (told if exchange.path.endswith("/slots") else {}, meta):
        if "used" in slots and "held" in slots:
            yield "slots", f"{slots.get('used')} of {slots.get('limit')} used, {slots.get('held')} held"
    if "available_at" in meta:
        yield "cooldown", f"until {meta['available_at']}, {meta.get('retry_after')} s left"
