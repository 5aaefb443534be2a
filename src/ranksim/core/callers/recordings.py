"""Recordings: their calls, in order of time, and what here stands for their ids and cursors."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from fnmatch import fnmatchcase
from heapq import heappop, heappush
from itertools import islice
from typing import Any, NamedTuple

from pydantic import Field

from ranksim.core.callers.request_factory import OperationName
from ranksim.core.callers.steps import Send
from ranksim.core.clock import MINUTE, Micros
from ranksim.core.contract.quantities import Frozen
from ranksim.core.records import parsed_object, read_access_log
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.service.routes import path_values
from ranksim.core.trace import UNKNOWN_KEY, Exchange, Header, entries

Json = Any

DISORDER = 5 * MINUTE
"""How far back an exchange of a trace may lie behind one written before it."""


class Recorded(NamedTuple):
    """What a recording tells of one call; a series of counts tells nothing but its instant.

    `strange` says that it was sent without a key, or with one that nobody has in that environment.
    """

    t: Micros
    client: str
    method: str = ""
    path: str = ""
    operation: str = ""
    query: dict[str, str] | None = None
    body: str = ""
    surface: str = "rest"
    idempotency_key: str | None = None
    response: str = ""
    strange: bool = False


def logged_calls(path: str) -> Iterator[Recorded]:
    """Read the calls of an access log. Raises BadInput."""
    return (Recorded(line.t, line.client, line.method, line.path) for line in read_access_log(path))


def traced_calls(path: str) -> Iterator[Recorded]:
    """Read the exchanges of a trace as they were sent, in order of time. Raises BadInput."""
    header, *_ = islice(entries(path), 1)
    assert isinstance(header, Header)
    rows = (
        Recorded(
            entry.sent if entry.planned is None else entry.planned,
            entry.api_key or entry.account,
            entry.method,
            entry.path,
            entry.operations[0] if entry.operations else "",
            entry.query,
            entry.body or "",
            entry.surface,
            idempotency_key_of(entry),
            (entry.response or "") if entry.status is not None and entry.status < 300 else "",
            entry.surface != "app" and _is_strange(entry, header),
        )
        for entry in entries(path)
        if isinstance(entry, Exchange)
    )
    return _in_order(rows)


def idempotency_key_of(exchange: Exchange) -> str | None:
    """Return the Idempotency-Key of an exchange, if its headers were recorded with one."""
    return request_header(exchange, "Idempotency-Key")


def request_header(exchange: Exchange, name: str) -> str | None:
    """Return the value of a header of a request, by its name in any case; None where none was recorded."""
    headers = exchange.request_headers or {}
    return next((value for each, value in headers.items() if each.lower() == name.lower()), None)


def _is_strange(exchange: Exchange, header: Header) -> bool:
    key = exchange.api_key
    if not key or key == UNKNOWN_KEY:
        return True
    return key in header.keys and header.keys[key].environment != exchange.environment


def _in_order(rows: Iterator[Recorded]) -> Iterator[Recorded]:
    """Sort calls that were written when answered, and so stand a little out of order."""
    waiting: list[tuple[Micros, int, Recorded]] = []
    for number, row in enumerate(rows):
        heappush(waiting, (row.t, number, row))
        while waiting[0][0] < row.t - DISORDER:
            yield heappop(waiting)[2]
    while waiting:
        yield heappop(waiting)[2]


class RecordingRule(Frozen):
    """Which operation a recorded call becomes: the first rule whose `method` and `path` pattern fit.

    In a pattern * stands for anything and ? for one character.
    """

    method: str = "*"
    path: str = "*"
    operation: OperationName
    body: dict[str, Any] = Field(default_factory=dict)
    query: dict[str, str] = Field(default_factory=dict)

    def fits(self, method: str, path: str) -> bool:
        """Return whether a recorded call is of this rule."""
        return fnmatchcase(method, self.method) and fnmatchcase(path, self.path)


class IdTranslation:
    """What stands here for each id and cursor of a recording, learnt from what the same calls got here.

    What a recorded call created, the same call creates here under another id.
    """

    def __init__(self) -> None:
        self._here: dict[str, str] = {}
        self._taken: set[str] = set()

    def __contains__(self, there: object) -> bool:
        return there in self._here

    def get(self, there: str) -> str | None:
        """Return what stands here for a recorded id or cursor, or None where nothing is known to."""
        return self._here.get(there)

    def put(self, there: str, here: str) -> None:
        """Note what stands here for a recorded id or cursor from now on."""
        self._here[there] = here
        self._taken.add(here)

    def translated(self, value: Json) -> Json:
        """Return a value with all ids and cursors replaced that are known; others stay as they are."""
        if isinstance(value, str):
            return self._here.get(value, value)
        if isinstance(value, dict):
            return {name: self.translated(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.translated(inner) for inner in value]
        return value

    def reference(self, value: Json) -> Json:
        """Return the id, or ids, of a field as they are here; what was not made here names nothing."""
        if isinstance(value, list):
            return [self.reference(item) if isinstance(item, str) else item for item in value]
        return self._here.get(value, f"unmade_{value}") if isinstance(value, str) else value

    def learn_created(self, there: Iterable[tuple[str, str]], here: Iterable[tuple[str, str]]) -> None:
        """Pair what one call created there and here, as (id, label), by their labels, such as keywords."""
        own = {label: which for which, label in here}
        for which, label in there:
            if label in own:
                self.put(which, own[label])

    def learn_replies(self, there: Json, here: Json) -> None:
        """Pair the ids and cursors of two replies to one call, side by side; a pair once made stays.

        What was there before the recording is paired as lists show it: the first unknown thing of the one
        with the first unpaired of the other.
        """
        if isinstance(there, list) and isinstance(here, list):
            for old, new in zip(_without(there, self._here), _without(here, self._taken), strict=False):
                self.learn_replies(old, new)
        elif isinstance(there, dict) and isinstance(here, dict):
            for name, old in there.items():
                new = here.get(name)
                if name in ("id", "next_cursor") and isinstance(old, str) and isinstance(new, str):
                    if old not in self._here and new not in self._taken:
                        self.put(old, new)
                else:
                    self.learn_replies(old, new)


def _without(things: list[Json], ids: Container[str]) -> list[Json]:
    """Return the things whose ids are not among some."""
    return [thing for thing in things if not (isinstance(thing, dict) and thing.get("id") in ids)]


def as_recorded(row: Recorded, ids: IdTranslation) -> Send | None:
    """Make the request of an exchange again, with the path, query and body it had, but for ids and cursors.

    None where the path is not that of the operation, as with GraphQL, whose requests all have one path; a
    reading that needs no id is made again without its filters there.
    """
    operation = OPERATIONS[row.operation]
    if row.surface == "graphql":
        return Send(row.operation) if operation.method == "GET" and "{" not in operation.path else None
    values = path_values(row.operation, row.path.rpartition("/v1/")[2])
    if values is None:
        return None
    path = {name: ids.translated(value) for name, value in values.items()}
    body = parsed_object(row.body)
    return Send(row.operation, path=path, query=ids.translated(row.query or {}), body=ids.translated(body))
