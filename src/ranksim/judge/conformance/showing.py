"""What an id of a report names, whole: an exchange, with what stood around it, or a webhook attempt.

An exchange comes with headers, query and body, and how to make it again. Around it stand what the nearest
replies state of its key's window and its account's cost, and what meters, slots, window, cooldown, patched
fields and its Idempotency-Key could have been before and after it (`standing`, `states_around`). Ids of
several traces that were judged jointly begin with the place of theirs: "2/x17".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode

from ranksim.core.clock import Micros, format_millis, iso
from ranksim.core.records import parsed
from ranksim.core.trace import DeliveryAttempt, Exchange, Trace
from ranksim.judge.conformance.exhibits import attempt_name, body_shown, curl, headers_shown, value_at
from ranksim.judge.conformance.history.history import History
from ranksim.judge.conformance.history.trace_reader import read_history
from ranksim.judge.conformance.standing import standing_lines
from ranksim.judge.conformance.states_around import state_lines


def render_ids(paths: Sequence[Path], ids: Sequence[str]) -> tuple[str, str]:
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
            trace = traces[number]
            if number not in histories:
                histories[number] = read_history(trace)
            [seen] = histories[number].named({exchange.id})
            lines = [*_exchange(exchange, trace), *_stated_near(exchange, trace)]
            lines += [*standing_lines(histories[number], seen), *state_lines(histories[number], seen)]
            parts.append("\n".join(lines) + "\n")
        elif name in attempts:
            parts.append("\n".join(_attempts(name, attempts)) + "\n")
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


def _attempts(name: str, attempts: dict[str, list[DeliveryAttempt]]) -> Iterator[str]:
    """Tell of the attempts of this name, one at each endpoint, between the others of the same event there."""
    event = name.rpartition("/")[0]
    for came in attempts[name]:
        answer = "no answer" if came.status is None else f"answered {came.status}"
        if came.answered is not None:
            answer += f" after {(came.answered - came.received) / 1000:.1f} ms"
        yield f"{name}  {iso(came.received)}  {answer}  endpoint {came.endpoint}"
        yield from _message(">", came.headers, came.body)
        yield f"  {VALID[came.signature.valid]}"
        others = [
            f"    {other}  {_distance(attempt.received - came.received)}"
            + ("" if attempt.status is None else f", answered {attempt.status}")
            for other, those in attempts.items()
            for attempt in those
            if other.rpartition("/")[0] == event and attempt.endpoint == came.endpoint and attempt is not came
        ]
        yield from ("  other attempts of the event there:", *others) if others else ()


VALID = {True: "signature valid", False: "signature not valid", None: "signature not checked"}


def _exchange(exchange: Exchange, trace: Trace) -> Iterator[str]:
    took = "no reply" if exchange.received is None else f"{(exchange.received - exchange.sent) / 1000:.1f} ms"
    yield f"{exchange.id}  {iso(exchange.sent)}  {took}  key {exchange.api_key or 'none'}"
    query = "?" + urlencode(exchange.query) if exchange.query else ""
    yield f"  {exchange.method} {exchange.path}{query}"
    yield from _message(">", exchange.request_headers, exchange.body)
    yield f"  {exchange.status if exchange.status is not None else exchange.error or 'no reply was seen'}"
    yield from _message("<", exchange.response_headers, exchange.response)
    yield f"  {curl(exchange, trace.header)}"


def _message(mark: str, headers: Mapping[str, str] | None, body: str | None) -> Iterator[str]:
    yield from (f"  {mark} {name}: {value}" for name, value in headers_shown(headers).items())
    yield from (f"  {mark} {line}" for line in body_shown(body).splitlines())


# Around it


def _stated_near(exchange: Exchange, trace: Trace) -> Iterator[str]:
    """Tell what replies nearest before and after state of its window and its account's cost."""
    sides = _nearest(exchange, trace)
    limit, account = _header(exchange, "ratelimit-limit"), _account(exchange, trace)
    if limit is not None:
        yield f"  what replies state of the window of key {exchange.api_key or 'none'}, limit {limit}:"
        yield from _beside([_first(_left(reply, exchange, limit) for reply in side) for side in sides])
    costs = [_first(_spent(reply, exchange, trace) for reply in side) for side in sides]
    if any(costs):
        yield f"  what replies state of the cost of account {account or 'unknown'}:"
        yield from _beside(costs)


def _nearest(exchange: Exchange, trace: Trace) -> tuple[list[Exchange], list[Exchange], list[Exchange]]:
    """Return the replies before an exchange, itself, and those after it, the nearest first."""
    end = exchange.received if exchange.received is not None else exchange.sent
    answered = [reply for reply in trace.exchanges if reply.received is not None]
    before = [reply for reply in answered if (reply.received or 0) <= exchange.sent]
    before.sort(key=lambda reply: -(reply.received or 0))
    after = [reply for reply in trace.exchanges if reply.sent >= end and reply is not exchange]
    return before, [exchange], sorted(after, key=lambda reply: reply.sent)


def _first(statements: Iterator[str]) -> str:
    return next(filter(None, statements), "")


def _beside(sides: Sequence[str]) -> Iterator[str]:
    for label, statements in zip(("before", "it says", "after"), sides, strict=True):
        if statements or label != "it says":
            yield f"    {label}: {statements or 'nothing in the trace tells'}"


def _left(reading: Exchange, exchange: Exchange, limit: str) -> str:
    """Return what a reply to the same key under the same limit says is left of it; "" for another."""
    if reading.api_key != exchange.api_key or _header(reading, "ratelimit-limit") != limit:
        return ""
    left, reset = _header(reading, "ratelimit-remaining"), _header(reading, "ratelimit-reset")
    return f"{left} left, resets in {reset} ({reading.id}, {_apart(reading, exchange)})"


def _spent(reading: Exchange, exchange: Exchange, trace: Trace) -> str:
    """Return what usage of the account, or its refusal at the ceiling, says of the month's cost, or ""."""
    body = parsed(reading.response) if _account(reading, trace) == _account(exchange, trace) else None
    for cost in (value_at(body, "data.cost"), value_at(body, "meta")):
        if isinstance(cost, dict) and "ceiling" in cost:
            spent = f"{cost.get('spent')} of {cost.get('ceiling')} spent, resets {cost.get('resets_at')}"
            return f"{spent} ({reading.id}, {_apart(reading, exchange)})"
    return ""


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
