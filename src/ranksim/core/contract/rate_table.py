"""Rate windows as a table: which calls each counts, for whom, and how many in how long.

windows:
  - {name: minute, match: "*", per: key, limit: 600/60s}
  - {name: search, match: "GET /search/*", per: client, limit: 20/2s, algorithm: gcra}
  - {name: points, match: "POST *", per: key, weigh: "request:/points", limit: 5000/h}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from ranksim.core.contract.located import Located, validate
from ranksim.core.contract.patterns import fits_pattern
from ranksim.core.contract.quantities import Frozen
from ranksim.core.contract.quota import RateQuota
from ranksim.core.errors import BadInput

MOST_WEIGHT = 100_000
"""What a call can take of a limit, at most."""

PARTITIONS = ("client", "key", "path", "all")
"""By what calls are limited: the client's address, a key or token, each path, all of them together."""


@dataclass(frozen=True, slots=True)
class Weigher:
    """How much of a limit a call takes: 1, or a whole number that it states itself.

    `place` is `request-header:NAME` or `response-header:NAME`, or a JSON pointer (RFC 6901) into a body, as
    `request:/n` or `response:/usage/total_tokens`. Where none stands there, the call takes 1.
    """

    place: str = ""

    def __post_init__(self) -> None:
        kind, _, name = self.place.partition(":")
        if self.place and not (
            (kind in ("request-header", "response-header") and name)
            or (kind in ("request", "response") and name.startswith("/"))
        ):
            raise BadInput(
                "weigh: expected such as response:/usage/total_tokens or response-header:X-Cost, found "
                f"{self.place!r}"
            )

    def __call__(
        self,
        request_headers: Mapping[str, str] | None,
        body: str | None,
        response_headers: Mapping[str, str] | None,
        response: str | None,
    ) -> int:
        """Return what a call takes, by its headers and the texts of its bodies."""
        kind = self.place.partition(":")[0]
        try:
            request = json.loads(body or "") if kind == "request" else None
            reply = json.loads(response or "") if kind == "response" else None
        except ValueError:
            return 1
        return self.of_parsed(request_headers, request, response_headers, reply)

    def of_parsed(
        self,
        request_headers: Mapping[str, str] | None,
        body: Any,
        response_headers: Mapping[str, str] | None,
        response: Any,
    ) -> int:
        """Return what a call takes, by its headers and its bodies, parsed."""
        kind, _, name = self.place.partition(":")
        if not kind:
            return 1
        if kind.endswith("-header"):
            headers = (request_headers if kind == "request-header" else response_headers) or {}
            return units({key.lower(): text for key, text in headers.items()}.get(name.lower()))
        return units(at_pointer(body if kind == "request" else response, name))


def at_pointer(value: Any, pointer: str) -> Any:
    """Return what stands at a JSON pointer (RFC 6901), None where nothing does."""
    try:
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            value = value[int(name)] if isinstance(value, list) else value[name]
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return value


def who_states(per: str, headers: Mapping[str, str], body: Any) -> str:
    """Return for whom a call says that it is limited: `header:NAME`, `request:/POINTER`; else ""."""
    kind, _, name = per.partition(":")
    value = headers.get(name.lower()) if kind == "header" else at_pointer(body, name)
    return "" if value is None else str(value)


def units(value: Any) -> int:
    """Return a stated weight as a whole number from 0 to `MOST_WEIGHT`; 1 where it is none."""
    try:
        return min(MOST_WEIGHT, max(0, int(value)))
    except (TypeError, ValueError):
        return 1


def check_by(by: str) -> str:
    """Return by what calls are limited. Raises BadInput where that is nothing that a call has."""
    kind, _, name = by.partition(":")
    stated = (kind == "header" and name) or (kind == "request" and name.startswith("/"))
    if by not in PARTITIONS and not stated:
        raise BadInput(
            f"--by: expected one of {', '.join(PARTITIONS)}, header:NAME or request:/POINTER, found {by!r}"
        )
    return by


def _read_limit(text: str) -> str:
    try:
        RateQuota.parse(text)
    except BadInput as error:
        raise ValueError(str(error).removeprefix("limit: ")) from None
    return text


def _read_by(text: str) -> str:
    try:
        return check_by(text)
    except BadInput as error:
        raise ValueError(str(error).removeprefix("--by: ")) from None


def _read_weigh(text: str) -> str:
    try:
        Weigher(text)
    except BadInput as error:
        raise ValueError(str(error).removeprefix("weigh: ")) from None
    return text


def as_tuple(value: Any) -> Any:
    """Return a list as a tuple, and a text as that of one."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


Patterns = Annotated[tuple[str, ...], BeforeValidator(as_tuple, json_schema_input_type=str | tuple[str, ...])]
"""A method and a path with `*` in it, such as "GET /v1/jobs*"; one, or several of which one is enough."""


NONE: Mapping[str, str] = MappingProxyType({})

Algorithm = Literal[
    "first_hit", "clock", "sliding_log", "sliding_counter", "rotating", "gcra", "queue", "concurrency"
]


class WindowEntry(Frozen):
    """One window: the calls that `match`, but for those that `unless` matches, counted apart for each `per`.

    `headers` further narrows what matches, to calls each of whose named request headers fits a pattern; one
    that is not there is empty, as for `per`.

    A call takes 1, or what it states where `weigh` says. `algorithm` is open where it is not stated; `burst`
    is how many calls a gcra admits at once, where that is not the limit. Under `concurrency` the limit is of
    calls at once, each of which is under way for the time beside it.
    """

    name: Annotated[str, Field(pattern=r"^[\w.-]{1,60}$")]
    match: Annotated[Patterns, Field(min_length=1)] = ("*",)
    unless: Patterns = ()
    headers: Mapping[str, str] = {}
    per: Annotated[str, AfterValidator(_read_by)] = "all"
    weigh: Annotated[str, AfterValidator(_read_weigh)] = ""
    limit: Annotated[str, AfterValidator(_read_limit)]
    algorithm: Algorithm | None = None
    burst: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _check_algorithm(self) -> Self:
        if self.weigh and self.algorithm == "concurrency":
            raise ValueError("weigh: under algorithm concurrency each call takes one place; leave it out")
        if self.burst is not None and self.algorithm != "gcra":
            raise ValueError("burst: only algorithm gcra has one apart from its limit")
        return self

    @property
    def quota(self) -> RateQuota:
        """Its limit and length; a bucket of burst B at L in W is B in W·B/L, to a µs."""
        stated = RateQuota.parse(self.limit)
        if self.burst is None:
            return stated
        return RateQuota(self.burst, max(1, stated.length * self.burst // stated.limit))

    @property
    def reads(self) -> frozenset[str]:
        """The request headers that it reads, in lower case."""
        places = (self.per.split(":"), self.weigh.split(":"))
        named = {
            name.lower() for kind, *rest in places for name in rest if kind in ("header", "request-header")
        }
        return frozenset(named | {name.lower() for name in self.headers})

    @property
    def reads_bodies(self) -> bool:
        """Whether a body says for whom a call counts, or how much."""
        return "request:" in (self.per[:8], self.weigh[:8]) or self.weigh.startswith("response:")

    @property
    def reads_content(self) -> bool:
        """Whether it reads more of a call than its method, path and key."""
        return bool(self.reads) or self.reads_bodies or self.weighs_replies

    @property
    def weighs_replies(self) -> bool:
        """Whether what a call takes is known from its reply alone."""
        return self.weigh.startswith("response")

    def matches(self, method: str, path: str, headers: Mapping[str, str] = NONE) -> bool:
        """Whether it counts a call, by the request's headers in lower case."""
        return (
            _any_of(self.match, method, path)
            and not _any_of(self.unless, method, path)
            and all(fits_pattern(text, headers.get(name.lower(), "")) for name, text in self.headers.items())
        )


def headers_read(table: Sequence[WindowEntry]) -> frozenset[str]:
    """Return the request headers that windows of a table read, in lower case."""
    return frozenset().union(*(entry.reads for entry in table)) if table else frozenset()


def _any_of(patterns: tuple[str, ...], method: str, path: str) -> bool:
    for pattern in patterns:
        wanted, space, below = pattern.rpartition(" ")
        if (not space or wanted in ("*", method)) and fits_pattern(below, path):
            return True
    return False


class WindowTable(Frozen):
    """A file of windows; several may count one call."""

    windows: Annotated[tuple[WindowEntry, ...], Field(min_length=1)]

    @classmethod
    def load(cls, path: str) -> WindowTable:
        """Read a file, or the `windows` of a policy. Raises BadInput with the place of a mistake."""
        from ranksim.core.contract.yamlfile import read_yaml  # few need it, and it takes long to read

        located = read_yaml(path, "file of windows")
        if isinstance(located.data, dict) and "windows" in located.data:
            located = Located(
                located.where, {"windows": located.data["windows"]}, located.lines, located.path
            )
        return validate(cls, located)
