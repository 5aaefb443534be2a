"""The journal of requests: what came and what was answered, to search, to count, and to explain a miss."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, Literal
from urllib.parse import parse_qsl

from pydantic import Field
from pydantic_core import from_json

from ranksim.core.clock import Micros, iso
from ranksim.core.contract.patterns import fits_pattern
from ranksim.core.contract.quantities import Frozen
from ranksim.twin.serving.asgi import Header
from ranksim.twin.serving.parsing import bearer

KEPT = 10_000
"""How many exchanges are remembered."""

KEPT_BYTES = 64 * 1_048_576
"""How many bytes of bodies and headers are remembered."""

OVERHEAD = 2_048
"""Bytes that an exchange takes beside its texts, roughly."""

NEAREST = 3


@dataclass(slots=True)
class RecordedExchange:
    """A request and its response, for the journal. Headers and bodies are as they were sent.

    Headers are joined: kept apart they were most of the objects of a full journal, so that every request
    made some dozens anew where nothing was in the processor's caches, and let as many old ones go.
    """

    at: Micros
    surface: str
    environment: str
    method: str
    path: str
    query: bytes
    request_headers: bytes
    body: bytes
    operations: tuple[str, ...]
    account: str
    status: int
    response_headers: bytes
    response: bytes
    dropped: bool = False
    """Whether the connection was dropped instead of sending the answer."""


class Expected(Frozen):
    """A description of requests: what is left out may be anything. In `operation` and `path` * does too."""

    operation: str | None = Field(None, description="An operation, such as jobs.create or jobs.*")
    method: str | None = None
    path: str | None = Field(None, description="The path as sent, such as /v1/jobs/*")
    query: dict[str, str] = Field({}, description="Query parameters it has, among others.")
    headers: dict[str, str] = Field({}, description="Headers it has, among others; their case is ignored.")
    body: Any = Field(None, description="What its JSON body contains; objects may have more members.")
    key: str | None = Field(None, description="The API key it carries.")
    account_id: str | None = None
    environment: Literal["production", "sandbox"] | None = None
    surface: Literal["rest", "graphql"] | None = None
    status: int | None = Field(None, description="The status it was answered with.")

    def text(self) -> str:
        """Return it as one line of text."""
        parts = [f"{name} {value!r}" for name, value in self.model_dump(exclude_defaults=True).items()]
        return " and ".join(parts) or "anything"


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One field in which a request is not as expected; `found` is None where there is nothing."""

    field: str
    expected: Any
    found: Any

    def text(self) -> str:
        """Return it as a few words."""
        actual = "nothing" if self.found is None else repr(self.found)
        return f"{self.field}: expected {self.expected!r}, found {actual}"


@dataclass(slots=True, repr=False)
class JournalEntry:
    """An exchange with its number, which counts from 1."""

    number: int
    exchange: RecordedExchange

    def shown(self) -> dict[str, Any]:
        """Return it as JSON shows it: bodies as JSON where they are, else as text."""
        exchange = self.exchange
        return {
            "id": self.number,
            "at": iso(exchange.at),
            "surface": exchange.surface,
            "environment": exchange.environment,
            "method": exchange.method,
            "path": exchange.path,
            "query": _query(exchange),
            "headers": _texts(exchange.request_headers),
            "body": parse_content(exchange.body),
            "operations": list(exchange.operations),
            "account_id": exchange.account or None,
            "key": _key(exchange),
            "status": exchange.status,
            "dropped": exchange.dropped,
            "response_headers": _texts(exchange.response_headers),
            "response": parse_content(exchange.response),
        }

    def __repr__(self) -> str:
        return f"<{self.text()}>"

    def text(self) -> str:
        """Return a few words that say which it is."""
        exchange = self.exchange
        answered = f"answered {exchange.status}{', which was dropped' if exchange.dropped else ''}"
        return f"request {self.number} ({exchange.method} {exchange.path}, {answered})"


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A request that is almost as expected, and all that tells it apart."""

    entry: JournalEntry
    differences: list[FieldDifference]

    def text(self) -> str:
        """Return one line that says what tells it apart."""
        return f"{self.entry.text()} differs in " + "; ".join(
            difference.text() for difference in self.differences
        )


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether as many requests came as were expected; if not, the nearest others. True if they did."""

    verified: bool
    count: int
    message: str
    near_misses: list[NearMiss]

    def __bool__(self) -> bool:
        return self.verified


class RequestJournal:
    """The last exchanges, at most `kept` and `kept_bytes` of them; the oldest are forgotten first."""

    def __init__(self, kept: int = KEPT, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept, self._kept_bytes = kept, kept_bytes
        self._exchanges: deque[RecordedExchange] = deque()
        self._bytes = 0
        self.last = 0
        """The number of the last exchange."""

    def record(self, exchange: RecordedExchange) -> None:
        """Remember an exchange."""
        self.last += 1
        self._exchanges.append(exchange)
        self._bytes += _size(exchange)
        while len(self._exchanges) > self._kept or self._bytes > self._kept_bytes:
            self._bytes -= _size(self._exchanges.popleft())

    def __iter__(self) -> Iterator[JournalEntry]:
        """Iterate over what is remembered, oldest first."""
        return map(JournalEntry, count(self.forgotten + 1), self._exchanges)

    def __len__(self) -> int:
        return len(self._exchanges)

    @property
    def forgotten(self) -> int:
        """How many exchanges are not remembered any more."""
        return self.last - len(self._exchanges)

    def find(self, number: int) -> JournalEntry | None:
        """Return an exchange by its number, if it is remembered."""
        place = number - 1 - self.forgotten
        return JournalEntry(number, self._exchanges[place]) if 0 <= place < len(self._exchanges) else None

    def clear(self) -> None:
        """Forget everything; numbers begin anew."""
        self._exchanges.clear()
        self._bytes = self.last = 0

    def search(self, expected: Expected) -> list[JournalEntry]:
        """Return what is as expected, oldest first."""
        return [entry for entry in self if not differences(expected, entry)]

    def count(self, expected: Expected) -> int:
        """Count what is as expected."""
        return len(self.search(expected))

    def near_misses(self, expected: Expected, most: int = NEAREST) -> list[NearMiss]:
        """Return what is not as expected, the fewest differences first, of equally many the latest."""
        misses = [NearMiss(entry, differences(expected, entry)) for entry in reversed(list(self))]
        misses = [miss for miss in misses if miss.differences]
        return sorted(misses, key=lambda miss: len(miss.differences))[:most]

    def verify(self, expected: Expected, at_least: int = 1, at_most: int | None = None) -> Verification:
        """Return whether as many requests came as were expected, and if too few which came near."""
        count = self.count(expected)
        verified = at_least <= count and (at_most is None or count <= at_most)
        misses = self.near_misses(expected) if count < at_least else []
        wanted = f"at least {at_least}" if at_most is None else f"{at_least} to {at_most}"
        if at_least == at_most:
            wanted = f"exactly {at_least}"
        message = f"expected {wanted} with {expected.text()}, found {count}"
        if self.forgotten and not verified:
            message += f" (the first {self.forgotten} are forgotten)"
        return Verification(verified, count, "\n".join([message, *(miss.text() for miss in misses)]), misses)


# Comparing


def differences(expected: Expected, entry: JournalEntry) -> list[FieldDifference]:
    """Return every field in which an exchange is not as expected, down to the members of its body."""
    return list(_differences(expected, entry.exchange))


def _differences(expected: Expected, exchange: RecordedExchange) -> Iterator[FieldDifference]:
    for name, texts in (("operation", exchange.operations), ("path", (exchange.path,))):
        pattern = getattr(expected, name)
        if pattern is not None and not any(fits_pattern(pattern, text) for text in texts):
            yield FieldDifference(name, pattern, ", ".join(texts) or None)
    for name, read in EQUAL.items():
        wanted = getattr(expected, name)
        if wanted is not None and wanted != (value := read(exchange)):
            yield FieldDifference(name, wanted, value)
    for name, read in CONTAINED.items():
        wanted = getattr(expected, name)
        if wanted is not None and (wanted or name == "body"):  # {} asks for an object as the body
            lower = {header.lower(): text for header, text in wanted.items()} if name == "headers" else wanted
            yield from _members(name, lower, read(exchange))


def _members(where: str, expected: Any, actual: Any) -> Iterator[FieldDifference]:
    """Compare JSON with JSON that may have more members."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name, value in expected.items():
            if name in actual:
                yield from _members(f"{where}.{name}", value, actual[name])
            else:
                yield FieldDifference(f"{where}.{name}", value, None)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, value in enumerate(expected):
            yield from _members(f"{where}[{index}]", value, actual[index])
    elif expected != actual or isinstance(expected, bool) != isinstance(actual, bool):
        yield FieldDifference(where, expected, actual)


# Reading an exchange


def _size(exchange: RecordedExchange) -> int:
    texts = len(exchange.query) + len(exchange.path) + len(exchange.request_headers)
    return len(exchange.body) + len(exchange.response) + texts + OVERHEAD


def join_headers(headers: Iterable[Header]) -> bytes:
    """Return headers as one text: names and values in turn, and NUL, which none contains, between them."""
    return b"\0".join(chain.from_iterable(headers))


def split_headers(headers: bytes) -> dict[bytes, bytes]:
    """Return joined headers by name; of several of a name the last counts."""
    parts = headers.split(b"\0") if headers else []
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _texts(headers: bytes) -> dict[str, str]:
    return {name.decode("latin-1"): text.decode("latin-1") for name, text in split_headers(headers).items()}


def _query(exchange: RecordedExchange) -> dict[str, str]:
    return dict(parse_qsl(exchange.query.decode("latin-1"), keep_blank_values=True))


def _key(exchange: RecordedExchange) -> str | None:
    """Return the bearer token that a request carried, as the service reads it."""
    return bearer(split_headers(exchange.request_headers).get(b"authorization", b""))


def parse_content(content: bytes | str | None) -> Any:
    """Return a body as JSON where it is that, else as text; None for nothing."""
    if not content:
        return None
    try:
        return from_json(content, allow_inf_nan=False)
    except ValueError:
        return content.decode("utf-8", "replace") if isinstance(content, bytes) else content


EQUAL: dict[str, Callable[[RecordedExchange], Any]] = {
    "method": lambda exchange: exchange.method,
    "account_id": lambda exchange: exchange.account or None,
    "environment": lambda exchange: exchange.environment,
    "surface": lambda exchange: exchange.surface,
    "status": lambda exchange: exchange.status,
    "key": _key,
}
"""Fields that are compared as they are, and what an exchange has there."""

CONTAINED: dict[str, Callable[[RecordedExchange], Any]] = {
    "query": _query,
    "headers": lambda exchange: _texts(exchange.request_headers),
    "body": lambda exchange: parse_content(exchange.body),
}
"""Fields that may have more members than are expected."""
