"""One exchange and one webhook attempt as the judges see them.

An exchange took effect somewhere in [sent, received]; `received` is DISTANT_FUTURE where no reply was seen.
What most judges look at is in memory, packed (`rows`); what some look at of some exchanges is on a shelf.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, overload

from ranksim.core.clock import DISTANT_FUTURE, Micros
from ranksim.core.contract.facts import CHECK_OF
from ranksim.core.service.operations import OPERATIONS
from ranksim.judge.conformance.history.spill_file import SpillFile

Json = Any
T = TypeVar("T")

AFTER_RATE_LIMIT: Final = frozenset(
    {
        *CHECK_OF,
        "allowance_exhausted",
        "idempotency_mismatch",
        "idempotency_in_progress",
        "invalid_cursor",
    }
)
"""Codes of refusals that come after the rate limit (S97, U18, U53, U86)."""

MARK: Final = "idempotent-replayed"
"""The header that marks a replay (U31)."""

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110)."""


class Shelved(property, Generic[T]):
    """A field of a record that is looked up on its shelf."""

    def __set_name__(self, owner: type, name: str) -> None:
        of = attrgetter(name)
        super().__init__(lambda record: of(record.shelf[record.index]))

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type, /) -> Self: ...
        @overload
        def __get__(self, instance: Any, owner: type | None = None, /) -> T: ...
        def __get__(self, instance: Any, owner: type | None = None, /) -> Any: ...


@dataclass(slots=True)
class ObservationDetail:
    """What the texts of one exchange told; `Observation` has the same names and says what they are."""

    path: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    operations: tuple[str, ...] = ()
    body: Json = None
    fingerprint: bytes = b""
    wording: bytes = b""
    answer: bytes = b""
    data: Json = None
    items: Json = None
    meta: Mapping[str, Json] = field(default_factory=dict)
    next_cursor: str | None = None
    retry_at: int | None = None


@dataclass(slots=True)
class Observation:
    """One exchange: the call, and what its reply said.

    `status` is 0 and `received` DISTANT_FUTURE where no reply was seen. `code` is the error code of a
    refusal, "" of a success. `limit`, `remaining`, `reset` and `retry_after` are the headers' integers,
    None where missing or not integers. A GraphQL call of one root field reads like its REST twin, with
    `surface` "graphql"; one of several has operation "".
    """

    shelf: SpillFile[ObservationDetail] = field(repr=False, compare=False)
    index: int
    """Its number in the trace, and of what it told on the shelf."""
    id: str
    sent: Micros
    received: Micros
    key: str
    account: str
    environment: str
    surface: str
    operation: str
    method: str
    status: int
    code: str = ""
    happened: bool | None = None
    """Whether it took effect at the deployment at all: False for a refused connection, None when unknown."""
    dry_run: bool = False
    """Whether the call asked for a dry run (S29)."""
    has_more: bool | None = None
    limit: int | None = None
    replayed: bool = False
    """Whether it is marked as a replay (U31)."""
    outside: bool = False
    """Whether what answered need not be the API: outside /v1, or at an address without GraphQL."""
    recorded: frozenset[str] | None = None
    """The response headers that were recorded, in lower case; None where all were."""
    reply_unrecorded: bool = False
    """Whether what its reply says was not recorded: but for its status and headers it tells as much as a lost
    one."""
    request_unrecorded: bool = False
    """Whether it does not say whose call it is, or what it asked for: as if it had not been captured."""
    idempotency_key: str | None = None
    remaining: int | None = None
    reset: int | None = None
    retry_after: int | None = None
    planned: Micros | None = None
    """When it was to be sent, in a load of constant arrival rate."""
    repeat: bool = False
    """Whether it may be a replay, marked or not: its headers may be those of the first reply (E5)."""
    unsure: bool = False
    """Whether it may be the unmarked replay of a call that was not captured."""

    @property
    def lost(self) -> bool:
        """Whether no reply was seen although it may have happened."""
        return self.status == 0

    @property
    def outcome_unknown(self) -> bool:
        """Whether nobody knows what came of it: no reply was seen, or an error of the server."""
        return self.lost or self.status >= 500

    @property
    def old(self) -> bool:
        """Whether its reply is, or may be, that of an earlier call that was not seen."""
        return self.replayed or self.unsure

    @property
    def ok(self) -> bool:
        """Whether it was answered with a 2xx and, on GraphQL, without an error."""
        return 200 <= self.status <= 299 and not self.code

    @property
    def named(self) -> bool:
        """Whether it is known which operations it asked for."""
        names = (self.operation,) if self.surface == "rest" else self.operations
        return bool(names) and all(name in OPERATIONS for name in names)

    @property
    def safe(self) -> bool:
        """Whether its method changes nothing (RFC 9110)."""
        return self.method in SAFE

    @property
    def updates(self) -> bool:
        """Whether it asks for an update: a PATCH, or a GraphQL mutation that does the same."""
        return self.method == "PATCH" or (self.surface == "graphql" and self.operation.endswith(".update"))

    def shows(self, *headers: str) -> bool:
        """Return whether these response headers, in lower case, would have been recorded."""
        return self.recorded is None or self.recorded.issuperset(headers)

    def as_lost(self) -> Observation:
        """Return it as if no reply had been seen."""
        lost = copy(self)
        lost.status, lost.received, lost.code, lost.happened = 0, DISTANT_FUTURE, "", None
        lost.has_more, lost.replayed = None, False
        lost.limit = lost.remaining = lost.reset = lost.retry_after = None
        return lost

    # What it said, on the shelf

    path = Shelved[str]()
    """The path as it was sent."""
    parameters = Shelved[Mapping[str, str]]()
    """What the path names, or the id that a GraphQL mutation surely updated; empty for other GraphQL."""
    query = Shelved[Mapping[str, str]]()
    """The query parameters."""
    operations = Shelved[tuple[str, ...]]()
    """The operations of a GraphQL call."""
    body = Shelved[Json]()
    """What was sent, but for GET."""
    fingerprint = Shelved[bytes]()
    """Digest of the request's meaning, under an Idempotency-Key only (U28)."""
    wording = Shelved[bytes]()
    """Digest of the request's exact text, under an Idempotency-Key only (U28)."""
    answer = Shelved[bytes]()
    """Digest of the reply without its request_id, under an Idempotency-Key only (E5)."""
    data = Shelved[Json]()
    """The envelope's data: a mapping for a single, the tuple of ids for a collection (names for jobs)."""
    items = Shelved[Json]()
    """The whole items of a collection, where a judge reads them."""
    meta = Shelved[Mapping[str, Json]]()
    """The meta of a refusal."""
    next_cursor = Shelved[str | None]()
    """The cursor of the page after this one."""
    retry_at = Shelved[int | None]()
    """Retry-After as an HTTP-date, in Unix seconds (U6)."""


def leaves(value: Json) -> Iterator[Json]:
    """Return what a JSON value holds that is neither null nor a container."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from leaves(inner)
    elif value is not None:
        yield value


def texts(value: Json) -> Iterator[str]:
    """Return the strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts(inner)


def job_name(job: Mapping[str, Json]) -> str:
    """Name a job by its id, and by its kind too where that is a plain number, which each kind may count."""
    name = str(job.get("id"))
    return f"{str(job.get('kind')).lower()}/{name}" if name.isdecimal() else name


_DRY = re.compile(r"\bdryRun\s*:\s*true\b")


def asks_dry(body: Json, surface: str) -> bool:
    """Return whether a body asks for a dry run (S29)."""
    if not isinstance(body, dict):
        return False
    if surface != "graphql":
        return body.get("dry_run") is True
    given = body.get("variables")
    inside = given.get("input") if isinstance(given, dict) else None
    values_given = [values.get("dryRun") for values in (given, inside) if isinstance(values, dict)]
    return True in values_given or bool(_DRY.search(str(body.get("query"))))


@dataclass(slots=True)
class AttemptDetail:
    """What a webhook attempt carried."""

    body: Json
    headers: dict[str, str]
    problem: str


@dataclass(slots=True)
class ReceivedAttempt:
    """One webhook attempt as its receiver saw it.

    `endpoint` is the id of the one endpoint that the trace names with that URL, else the path it came to,
    which begins with "/": several endpoints may share a URL (E28), or a lost call may have created one.

    `answered` is None where the receiver stayed silent; `status` is what it answered. `valid` and `t` are of
    the signature; `digest` is of the raw body.
    """

    shelf: SpillFile[AttemptDetail] = field(repr=False, compare=False)
    index: int
    """The number of what it carried on the shelf."""
    received: Micros
    answered: Micros | None
    endpoint: str
    event: str
    type: str
    attempt: int
    status: int | None
    valid: bool | None
    t: int | None
    digest: bytes

    @property
    def name(self) -> str:
        """The attempt's name in evidence."""
        return f"{self.event}/{self.attempt}"

    @property
    def key(self) -> tuple[str, str, int]:
        """Endpoint, event and number: what a deployment lists an attempt by."""
        return self.endpoint, self.event, self.attempt

    body = Shelved[Json]()
    """The parsed body."""
    headers = Shelved[Mapping[str, str]]()
    """The headers, their names in lower case."""
    problem = Shelved[str]()
    """What its receiver says is wrong with the signature, "" where it says nothing."""
