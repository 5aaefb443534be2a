"""One exchange of a trace, whole: headers, query and body, how to make it again, and what stood around it.

Around it stand what the nearest replies state of its key's window and its account's cost, and what meters,
slots, window and cooldown could have been before and after it (`standing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlencode

from ranksim.clock import format_millis, iso
from ranksim.conformance.exhibits import body_shown, curl, headers_shown
from ranksim.conformance.history.trace_reader import read
from ranksim.conformance.standing import standing
from ranksim.errors import BadInput
from ranksim.records import parsed
from ranksim.trace import Exchange, Trace


def shown(path: Path, ids: Sequence[str]) -> str:
    """Return exchanges of a trace as text. Raises BadInput for an id that the trace has not."""
    trace = Trace.read(path)
    history = read(trace)
    by_id = {exchange.id: exchange for exchange in trace.exchanges}
    parts = []
    for name in ids:
        bare = name if name in by_id else name.partition("/")[2]
        if bare not in by_id:
            such = next(iter(by_id), "x1")
            raise BadInput(
                f"{path}: no exchange is called {name!r}; expected an id of a report, such as {such}"
            )
        [seen] = history.named({bare})
        told = [*_told(by_id[bare], trace), *_stated_near(by_id[bare], trace), *standing(history, seen)]
        parts.append("\n".join(told))
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


def _stated_near(exchange: Exchange, trace: Trace) -> Iterator[str]:
    """Tell what replies nearest before and after state of its window and its account's cost."""
    end = exchange.received if exchange.received is not None else exchange.sent
    before = [one for one in trace.exchanges if one.received is not None and one.received <= exchange.sent]
    after = [one for one in trace.exchanges if one.sent >= end and one is not exchange]
    before.sort(key=lambda one: -(one.received or 0))
    after.sort(key=lambda one: one.sent)
    limit, account = _header(exchange, "ratelimit-limit"), _account(exchange, trace)
    if limit is not None:
        yield f"  what replies state of the window of key {exchange.api_key or 'none'}, limit {limit}:"
        sides = [
            next(
                (
                    _left(one, exchange)
                    for one in side
                    if one.api_key == exchange.api_key and _header(one, "ratelimit-limit") == limit
                ),
                "",
            )
            for side in (before, [exchange], after)
        ]
        yield from _beside(sides)
    costs = [
        next(
            (
                f"{said} ({one.id}, {_apart(one, exchange)})"
                for one in side
                if _account(one, trace) == account
                for said in _cost(one)
            ),
            "",
        )
        for side in (before, [exchange], after)
    ]
    if any(costs):
        yield f"  what replies state of the cost of account {account or 'unknown'}:"
        yield from _beside(costs)


def _beside(sides: Sequence[str]) -> Iterator[str]:
    for label, said in zip(("before", "it says", "after"), sides, strict=True):
        if said or label != "it says":
            yield f"    {label}: {said or 'nothing in the trace tells'}"


def _left(one: Exchange, exchange: Exchange) -> str:
    left, reset = _header(one, "ratelimit-remaining"), _header(one, "ratelimit-reset")
    return f"{left} left, resets in {reset} ({one.id}, {_apart(one, exchange)})"


def _apart(one: Exchange, exchange: Exchange) -> str:
    if one is exchange:
        return "this one"
    apart = one.sent - exchange.sent
    return f"{format_millis(abs(apart))} {'before' if apart < 0 else 'after'}"


def _account(exchange: Exchange, trace: Trace) -> str:
    key = trace.header.keys.get(exchange.api_key or "")
    return (key.account if key is not None else "") or exchange.account or exchange.api_key or ""


def _header(exchange: Exchange, name: str) -> str | None:
    return next((value for given, value in exchange.response_headers.items() if given.lower() == name), None)


def _cost(exchange: Exchange) -> Iterator[str]:
    """Return what usage, or the refusal at the ceiling, says of the month's cost."""
    body = parsed(exchange.response)
    data = body.get("data") if isinstance(body, dict) else None
    given = body.get("meta") if isinstance(body, dict) else None
    for cost in (data.get("cost") if isinstance(data, dict) else None, given):
        if isinstance(cost, dict) and "ceiling" in cost:
            yield f"{cost.get('spent')} of {cost.get('ceiling')} spent, resets {cost.get('resets_at')}"
