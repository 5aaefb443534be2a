"""The exchanges and webhook attempts that evidence points at, whole, and what they say where a rule looks.

Judges keep of an exchange what they compare. What a report shows folded open, headers, query and bodies, is
read from the trace a second time, where there is any evidence: only the lines that are named. Beside what
would have been right stands what was found: "RateLimit-Reset 12.5" where a sentence says that it is no whole
number.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from ranksim.core.records import parsed, read_lines
from ranksim.core.trace import ENTRY, DeliveryAttempt, Exchange, Header, Trace
from ranksim.judge.conformance.compare import Judgement
from ranksim.judge.conformance.history.trace_reader import Source
from ranksim.judge.conformance.verdict.rule import RAW, Rule
from ranksim.judge.conformance.verdict.verdicts import Evidence

VARIABLE: Final = "RANKSIM_KEY"
"""The environment variable that stands for a key, which no trace has, unless the trace names another."""

HIDDEN: Final = frozenset(
    {"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key"}
)
"""Headers that a trace of another tool may have, and that no report shows."""

LONGEST: Final = 4_000
"""Characters of a body that are shown."""

LONG: Final = 160
"""Characters of one value that are shown where a rule looks."""

NOWHERE: Final = object()

UNSENT: Final = frozenset({"content-length", "host", "connection", "accept-encoding", "user-agent"})
"""Headers that a client makes by itself."""


@dataclass(frozen=True, slots=True)
class Exhibits:
    """What evidence points at: exchanges by id, attempts by "event/attempt", and each one's address."""

    exchanges: Mapping[str, Exchange] = field(default_factory=dict)
    attempts: Mapping[str, Sequence[DeliveryAttempt]] = field(default_factory=dict)
    headers: Mapping[str, Header] = field(default_factory=dict)
    """The header of the trace that each exchange is of."""


def exhibits(sources: Sequence[Source], judgement: Judgement) -> Exhibits:
    """Return what the evidence of a judgement points at, from the sources that were judged, in their order.

    A source that can be read but once, such as a generator, has nothing left to show.
    """
    calls, events = _pointed_at(judgement)
    exchanges, headers, header = dict[str, Exchange](), dict[str, Header](), Header()
    attempts: dict[str, list[DeliveryAttempt]] = defaultdict(list)
    for number, source in enumerate(sources, 1):
        prefix = f"{number}/" if len(sources) > 1 else ""
        wanted = {name.removeprefix(prefix) for name in calls if name.startswith(prefix)}
        names = {*wanted, *(name.rpartition("/")[0] for name in events)}
        for entry in entries_in(source, partial(_has_id, names)) if names else ():
            match entry:
                case Header():
                    header = entry
                case Exchange() if entry.id in wanted:
                    exchanges[prefix + entry.id] = entry
                    headers[prefix + entry.id] = header
                case DeliveryAttempt() if attempt_name(entry) in events:
                    attempts[attempt_name(entry)].append(entry)
    return Exhibits(exchanges, dict(attempts), headers)


def _pointed_at(judgement: Judgement) -> tuple[set[str], set[str]]:
    """Return the ids of exchanges and the names of attempts that evidence has."""
    pieces = [piece for finding in judgement.findings for piece in finding.evidence]
    pieces += [difference.evidence for difference in judgement.differences]
    calls = {name for piece in pieces for name in piece.named}
    return calls, {name for piece in pieces for name in piece.deliveries}


_ID: Final = re.compile(r'"(?:id|[sS]ervice-[eE]vent-[iI]d)"\s*:\s*("(?:[^"\\]|\\.)*")')


def _has_id(names: Collection[str], line: str) -> bool:
    return any(json.loads(text) in names for text in _ID.findall(line))


def entries_in(source: Source, matters: Callable[[str], bool]) -> Iterator[object]:
    """Yield the header of a trace and the entries of lines that matter, of one in memory all entries.

    Other lines are not parsed.
    """
    if isinstance(source, Trace):
        yield from (source.header, *source.exchanges, *source.deliveries)
        return
    lines = read_lines(source) if isinstance(source, str | Path) else source
    for number, line in enumerate(lines):
        if number == 0 or matters(line):
            yield ENTRY.validate_json(line)


def attempt_name(attempt: DeliveryAttempt) -> str:
    """Return how evidence names an attempt."""
    headers = {name.lower(): value for name, value in attempt.headers.items()}
    number = headers.get("service-delivery-attempt", "")
    return f"{headers.get('service-event-id', '')}/{int(number) if number.isdecimal() else 0}"


# As it is shown


def curl(exchange: Exchange, header: Header) -> str:
    """Return the command line that makes a call again, with the environment variable that has its key."""
    base, key = header.targets.get(exchange.target, ""), header.keys.get(exchange.api_key or "")
    variable = VARIABLE if key is None else key.variable or VARIABLE
    url = base.rstrip("/") + exchange.path
    if exchange.query:
        url += "?" + urlencode(exchange.query)
    words = ["curl", "-i", "-X", exchange.method, shlex.quote(url)]
    if exchange.api_key:
        words += ["-H", f'"Authorization: Bearer ${variable}"']
    for name, value in (exchange.request_headers or {}).items():
        if name.lower() not in UNSENT and name.lower() not in HIDDEN:
            words += ["-H", shlex.quote(f"{name}: {value}")]
    if exchange.body:
        words += ["--data-binary", shlex.quote(exchange.body)]
    return " ".join(words)


def headers_shown(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return headers as a report shows them: without what is a secret, or was not recorded."""
    return {name: "…" if name.lower() in HIDDEN else value for name, value in (headers or {}).items()}


def body_shown(text: str | None) -> str:
    """Return a body as a report shows it: JSON on lines of its own, cut where it is long."""
    if text is None:
        return "(not recorded)"
    with suppress(ValueError):
        text = json.dumps(json.loads(text), indent=1, ensure_ascii=False) if text else ""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} characters)"


def as_plain(exchange: Exchange, header: Header) -> dict[str, Any]:
    """Return what a call and its reply were, for reports."""
    return {
        "query": dict(exchange.query or {}),
        "request_headers": headers_shown(exchange.request_headers),
        "body": body_shown(exchange.body),
        "response_headers": headers_shown(exchange.response_headers),
        "response": body_shown(exchange.response),
        "curl": curl(exchange, header),
    }


def attempt_as_plain(attempt: DeliveryAttempt) -> dict[str, Any]:
    """Return what a webhook attempt was, for reports."""
    return {
        "received": attempt.received,
        "answered": attempt.answered,
        "endpoint": attempt.endpoint,
        "status": attempt.status,
        "signature": attempt.signature.valid,
        "headers": headers_shown(attempt.headers),
        "body": body_shown(attempt.body),
    }


# Where a rule looks


def found_in(rule: Rule | None, piece: Evidence, exhibits: Exhibits) -> str:
    """Return what the exchanges and attempts of evidence say where the rule looks; "" where none is whole.

    A place is a response header, `>name` a header of the request, `a.b` what a reply says in its body, `>a`
    what the request says, `?a` its query, and `RAW` a body as it was sent.
    """
    in_exchange, in_attempt = (rule.looks_at, rule.attempt) if rule is not None else ((), ())
    parts = [
        f"{name} {_in_exchange(exhibits.exchanges[name], in_exchange)}"
        for name in piece.exchanges
        if name in exhibits.exchanges
    ]
    for name in piece.deliveries:
        for attempt in exhibits.attempts.get(name, ())[:1]:
            parts.append(f"attempt {name} {_in_attempt(attempt, in_attempt)}")
    return "; ".join(parts)


def _in_exchange(exchange: Exchange, places: Sequence[str]) -> str:
    if exchange.status is None:
        return "got no reply that was seen"
    reply, request = parsed(exchange.response), parsed(exchange.body)
    code = reply.get("code", "") if isinstance(reply, dict) else ""
    key = {"Authorization": f"key {exchange.api_key}"} if exchange.api_key else {}
    sent = {**(exchange.request_headers or {}), **key}
    parts = [f"was answered {exchange.status} {code}".strip()]
    for place in places:
        bare = place.lstrip(">?")
        if bare == RAW:
            parts.append(_raw(exchange.body, "sent a ") if place.startswith(">") else _raw(exchange.response))
        elif place.startswith("?"):
            parts += _value(bare, (exchange.query or {}).get(bare, NOWHERE), "asked for ")
        elif not bare[:1].isupper():
            side, verb = (request, "asked for ") if place.startswith(">") else (reply, "")
            parts += _value(bare, value_at(side, bare), verb)
        elif place.startswith(">"):
            parts.append(_header(sent, bare, exchange.request_headers is not None, "sent "))
        else:
            headers = exchange.response_headers
            parts.append(_header(headers or {}, bare, headers is not None))
    return ", ".join(parts)


def _in_attempt(attempt: DeliveryAttempt, places: Sequence[str]) -> str:
    parts = ["got no answer" if attempt.status is None else f"was answered {attempt.status}"]
    body = parsed(attempt.body)
    for place in places:
        if place == RAW:
            parts.append(_raw(attempt.body))
        elif place[:1].isupper():
            parts.append(_header(attempt.headers, place))
        else:
            value = value_at(body, place)
            parts.append(f"no {place}" if value is NOWHERE else f"{place} {_short(value)}")
    return ", ".join(parts)


def _raw(body: str | None, verb: str = "") -> str:
    """Return a body as it stands in the trace, escaped, with its length; cut where it is long."""
    if body is None:
        return f"{verb}body that was not recorded"
    size = len(body.encode(errors="surrogatepass"))
    return f"{verb}body of {size} bytes {body[:LONGEST]!r}" + "…" * (len(body) > LONGEST)


def _header(headers: Mapping[str, str], name: str, recorded: bool = True, side: str = "") -> str:
    values = {given.lower(): value for given, value in headers.items()}
    if name.lower() in values:
        return f"{side}{name} {values[name.lower()]}"
    return f"no {name}" if recorded else f"{name} not recorded"


def _value(name: str, value: Any, verb: str = "") -> list[str]:
    return [] if value is NOWHERE else [f"{verb}{name} {_short(value)}".replace("  ", " ")]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONG else text[:LONG] + "…"


def value_at(value: Any, path: str) -> Any:
    """Return what stands at a dotted path, `NOWHERE` if nothing does."""
    for name in path.split(".") if path else ():
        if not isinstance(value, dict) or name not in value:
            return NOWHERE
        value = value[name]
    return value
