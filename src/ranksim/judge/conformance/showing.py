"""What an id of a report names, whole: an exchange, with what stood around it, or a webhook attempt.

An exchange comes with headers, query and body, and how to make it again. Around it stand what the nearest
replies state of its key's window and its account's cost, and what meters, slots, window and cooldown could
have been before and after it (`standing`). Ids of several traces that were judged jointly begin with the
place of theirs: "2/x17".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlencode

from ranksim.core.clock import Micros, format_millis, iso
from ranksim.core.records import parsed
from ranksim.core.trace import DeliveryAttempt, Exchange, Trace
from ranksim.judge.conformance.exhibits import attempt_name, body_shown, curl, headers_shown
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.trace_reader import read
from ranksim.judge.conformance.standing import standing


def shown(paths: Sequence[Path], ids: Sequence[str]) -> tuple[str, str]:
    """Return what ids of a report on these traces name, as text, and what to say of those that name nothing.

    Raises BadInput for a broken trace.
    """
    traces = [Trace.read(path) for path in paths]
    several = len(traces) > 1
    calls = dict[str, tuple[Exchange, int]]()
    attempts = dict[str, list[DeliveryAttempt]]()
    for number, trace in enumerate(traces):
        prefix = f"{number + 1}/" if several else ""
        calls |= {prefix + call.id: (call, number) for call in trace.exchanges}
        for came in trace.deliveries:
            attempts.setdefault(attempt_name(came), []).append(came)
    histories = dict[int, History]()
    parts, unknown = list[str](), list[str]()
    for name in ids:
        if name in calls:
            exchange, number = calls[name]
            if number not in histories:
                histories[number] = read(traces[number])
            [seen] = histories[number].named({exchange.id})
            trace = traces[number]
            lines = [*_told(exchange, trace), *_stated_near(exchange, trace)]
            lines += standing(histories[number], seen)
        else:
            lines = list(_attempts_told(name, attempts))
        if lines:
            parts.append("\n".join(lines) + "\n")
        else:
            unknown.append(name)
    return "\n".join(parts), _unknown(unknown, paths, [*calls, *attempts]) if unknown else ""


def _unknown(names: Sequence[str], paths: Sequence[Path], ids: Sequence[str]) -> str:
    place = names[0].partition("/")[0]
    such = next(iter(ids), "x1")
    expected = f"expected an id of a report on just this, such as {such}"
    if len(paths) == 1 and place.isdecimal() and "/" in names[0]:
        expected = f"it is of trace {place} of several: give all that were judged, in their order"
    given = ", ".join(map(str, paths))
    return f"{given}: no exchange or attempt is called {', '.join(map(repr, names))}; {expected}"


def _attempts_told(name: str, attempts: dict[str, list[DeliveryAttempt]]) -> Iterator[str]:
    """Tell of the attempts of this name, one at each endpoint, between the others of the same event there."""
    event = name.rpartition("/")[0]
    for came in attempts.get(name, ()):
        answer = "no answer" if came.status is None else f"answered {came.status}"
        if came.answered is not None:
            answer += f" after {(came.answered - came.received) / 1000:.1f} ms"
        valid = {True: "signature valid", False: "signature not valid", None: "signature not checked"}
        yield f"{name}  {iso(came.received)}  {answer}  endpoint {came.endpoint}"
        yield from (f"  > {header}: {value}" for header, value in headers_shown(came.headers).items())
        yield from (f"  > {line}" for line in body_shown(came.body).splitlines())
        yield f"  {valid[came.signature.valid]}"
        others = [
            f"    {other}  {_distance(attempt.received - came.received)}"
            + ("" if attempt.status is None else f", answered {attempt.status}")
            for other, those in attempts.items()
            for attempt in those
            if other.rpartition("/")[0] == event and attempt.endpoint == came.endpoint and attempt is not came
        ]
        yield from ("  other attempts of the event there:", *others) if others else ()


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
    before = [
        reply for reply in trace.exchanges if reply.received is not None and reply.received <= exchange.sent
    ]
    after = [reply for reply in trace.exchanges if reply.sent >= end and reply is not exchange]
    before.sort(key=lambda reply: -(reply.received or 0))
    after.sort(key=lambda reply: reply.sent)
    limit, account = _header(exchange, "ratelimit-limit"), _account(exchange, trace)
    if limit is not None:
        yield f"  what replies state of the window of key {exchange.api_key or 'none'}, limit {limit}:"
        sides = [
            next(
                (
                    _left(reply, exchange)
                    for reply in side
                    if reply.api_key == exchange.api_key and _header(reply, "ratelimit-limit") == limit
                ),
                "",
            )
            for side in (before, [exchange], after)
        ]
        yield from _beside(sides)
    costs = [
        next(
            (
                f"{cost} ({reply.id}, {_apart(reply, exchange)})"
                for reply in side
                if _account(reply, trace) == account
                for cost in _cost(reply)
            ),
            "",
        )
        for side in (before, [exchange], after)
    ]
    if any(costs):
        yield f"  what replies state of the cost of account {account or 'unknown'}:"
        yield from _beside(costs)


def _beside(sides: Sequence[str]) -> Iterator[str]:
    for label, statements in zip(("before", "it says", "after"), sides, strict=True):
        if statements or label != "it says":
            yield f"    {label}: {statements or 'nothing in the trace tells'}"


def _left(reading: Exchange, exchange: Exchange) -> str:
    left, reset = _header(reading, "ratelimit-remaining"), _header(reading, "ratelimit-reset")
    return f"{left} left, resets in {reset} ({reading.id}, {_apart(reading, exchange)})"


def _apart(reading: Exchange, exchange: Exchange) -> str:
    if reading is exchange:
        return "this one"
    return _distance(reading.sent - exchange.sent)


def _distance(apart: Micros) -> str:
    return f"{format_millis(abs(apart))} {'before' if apart < 0 else 'after'}"


def _account(exchange: Exchange, trace: Trace) -> str:
    key = trace.header.keys.get(exchange.api_key or "")
    return (key.account if key is not None else "") or exchange.account or exchange.api_key or ""


def _header(exchange: Exchange, name: str) -> str | None:
    headers = exchange.response_headers or {}
    return next((value for given, value in headers.items() if given.lower() == name), None)


def _cost(exchange: Exchange) -> Iterator[str]:
    """Return what usage, or the refusal at the ceiling, says of the month's cost."""
    body = parsed(exchange.response)
    data = body.get("data") if isinstance(body, dict) else None
    given = body.get("meta") if isinstance(body, dict) else None
    for cost in (data.get("cost") if isinstance(data, dict) else None, given):
        if isinstance(cost, dict) and "ceiling" in cost:
            yield f"{cost.get('spent')} of {cost.get('ceiling')} spent, resets {cost.get('resets_at')}"
