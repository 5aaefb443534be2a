"""The exchanges and webhook attempts that evidence points at, whole, as a trace has them.

Judges keep of an exchange what they compare. What a report shows folded open, headers, query and bodies, is
read from the trace a second time, where there is any evidence: only the lines that are named.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from ranksim.core.records import read_lines
from ranksim.core.trace import ENTRY, DeliveryAttempt, Exchange, Header, Trace
from ranksim.judge.conformance.compare import Judgement
from ranksim.judge.conformance.history.trace_reader import Source

MASK: Final = "$RANKSIM_KEY"
"""What stands for a key, which no trace has."""

HIDDEN: Final = frozenset(
    {"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key"}
)
"""Headers that a trace of another tool may have, and that no report shows."""

LONGEST: Final = 4_000
"""Characters of a body that are shown."""

UNSENT: Final = frozenset({"content-length", "host", "connection", "accept-encoding", "user-agent"})
"""Headers that a client makes by itself."""


@dataclass(frozen=True, slots=True)
class Exhibits:
    """What evidence points at: exchanges by id, attempts by "event/attempt", and each one's address."""

    exchanges: Mapping[str, Exchange] = field(default_factory=dict)
    attempts: Mapping[str, Sequence[DeliveryAttempt]] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    """The base URL to which each exchange was sent, "" where the trace does not tell."""


def exhibits(sources: Sequence[Source], judgement: Judgement) -> Exhibits:
    """Return what the evidence of a judgement points at, from the sources that were judged, in their order.

    A source that can be read but once, such as a generator, has nothing left to show.
    """
    pieces = [piece for finding in judgement.findings for piece in finding.evidence]
    pieces += [difference.evidence for difference in judgement.differences]
    calls = {name for piece in pieces for name in piece.exchanges}
    events = {name for piece in pieces for name in piece.deliveries}
    exchanges, addresses = dict[str, Exchange](), dict[str, str]()
    attempts: dict[str, list[DeliveryAttempt]] = defaultdict(list)
    for number, source in enumerate(sources, 1):
        prefix = f"{number}/" if len(sources) > 1 else ""
        wanted = {name.removeprefix(prefix) for name in calls if name.startswith(prefix)}
        header = Header()
        for entry in _named(source, wanted, events) if wanted or events else ():
            if isinstance(entry, Header):
                header = entry
            elif isinstance(entry, Exchange):
                exchanges[prefix + entry.id] = entry
                addresses[prefix + entry.id] = header.targets.get(entry.target, "")
            else:
                attempts[attempt_name(entry)].append(entry)
    return Exhibits(exchanges, dict(attempts), addresses)


_ID: Final = re.compile(r'"(?:id|[sS]ervice-[eE]vent-[iI]d)"\s*:\s*("(?:[^"\\]|\\.)*")')


def _named(
    source: Source, calls: Collection[str], events: Collection[str]
) -> Iterator[Header | Exchange | DeliveryAttempt]:
    """Return the header, and the entries that are named; other lines are not parsed."""
    if isinstance(source, Trace):
        yield source.header
        yield from (exchange for exchange in source.exchanges if exchange.id in calls)
        yield from (attempt for attempt in source.deliveries if attempt_name(attempt) in events)
        return
    wanted = {*calls, *(name.rpartition("/")[0] for name in events)}
    for number, line in enumerate(_lines(source)):
        if number and wanted.isdisjoint(json.loads(text) for text in _ID.findall(line)):
            continue
        entry = ENTRY.validate_json(line)
        if (
            isinstance(entry, Header)
            or (isinstance(entry, Exchange) and entry.id in calls)
            or (isinstance(entry, DeliveryAttempt) and attempt_name(entry) in events)
        ):
            yield entry


def _lines(source: str | Path | Iterable[str]) -> Iterator[str]:
    return read_lines(source) if isinstance(source, str | Path) else iter(source)


def attempt_name(attempt: DeliveryAttempt) -> str:
    """Return how evidence names an attempt."""
    headers = {name.lower(): value for name, value in attempt.headers.items()}
    number = headers.get("service-delivery-attempt", "")
    return f"{headers.get('service-event-id', '')}/{int(number) if number.isdecimal() else 0}"


# As it is shown


def curl(exchange: Exchange, base: str) -> str:
    """Return the command line that makes a call again; keys are masked."""
    url = base.rstrip("/") + exchange.path
    if exchange.query:
        url += "?" + urlencode(exchange.query)
    words = ["curl", "-i", "-X", exchange.method, shlex.quote(url)]
    if exchange.api_key:
        words += ["-H", f'"Authorization: Bearer {MASK}"']
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


def as_plain(exchange: Exchange, base: str) -> dict[str, Any]:
    """Return what a call and its reply were, for reports."""
    return {
        "query": dict(exchange.query or {}),
        "request_headers": headers_shown(exchange.request_headers),
        "body": body_shown(exchange.body),
        "response_headers": headers_shown(exchange.response_headers),
        "response": body_shown(exchange.response),
        "curl": curl(exchange, base),
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
