"""Traces: what was asked, answered and delivered, as JSON Lines (format version 1).

A trace is the common currency of the drivers: one header, then exchanges (a call and its reply as seen from
outside), deliveries (a webhook as its receiver saw it) and notes. Instants are integer µs since the epoch. No
secret enters a trace: a key goes by its name, and a webhook secret in a reply becomes a salted digest.
Records of other origin are read by `records`.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    TypeAdapter,
    ValidationError,
    model_serializer,
    model_validator,
)

from ranksim.core.clock import instant
from ranksim.core.contract.located import Located, explain_mistakes
from ranksim.core.errors import BadInput, check_kind
from ranksim.core.extras import imported
from ranksim.core.files import new_file, packing
from ranksim.core.records import Passed, decoded, quote, read_access_log, read_rates, read_raw_lines

if TYPE_CHECKING:
    from pandas import DataFrame

SENSITIVE_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", "set-cookie"})
"""Headers that never enter a trace."""

SECRET_FIELDS = frozenset({"secret", "signing_secret", "signingSecret"})
"""Fields of a reply that hold a webhook's secret (S21, E32)."""

LAST = instant("9999-12-31T23:59:59.999999Z")
"""The latest instant that a trace may hold, in µs."""

UNSEEN = "a reply that its sender never saw"
"""The text of a note on how a call was answered."""
UNKNOWN_KEY = "unknown"
"""The name of a key that nobody has, such as a run sends on purpose; no header declares it."""

UNRECORDED_KEY = ""
"""The name of a key of which nothing was recorded, not even whether there was one."""

MOST_UNITS = 10**9
"""The most units that a job may want, so that columns hold it."""

Instant = Annotated[int, Field(ge=0, le=LAST)]


# Entries


class TraceEntry(BaseModel):
    """One line of a trace: strict types, unknown fields ignored (E46)."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", defer_build=True)


class SparseEntry(TraceEntry):
    """An entry whose `sparse` fields are written only where they are not the default."""

    sparse: ClassVar[tuple[str, ...]]

    @model_serializer(mode="wrap")
    def _serialized(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        for name in self.sparse:
            if getattr(self, name) == self.__class__.model_fields[name].default:
                fields.pop(name, None)
        return fields


class TraceKey(SparseEntry):
    """Whose a key is, as the header tells it, and the environment `variable` that has it, for people."""

    account: str = ""
    environment: str = "production"
    domain_id: str | None = None
    variable: str | None = None

    sparse = ("variable",)


class Header(SparseEntry):
    """The first line: version, start (µs), targets and keys by name, and what may be relied on.

    `exclusive`: nobody else used these accounts. `capture`: "partial" where calls of these keys, or webhook
    attempts, may be missing from the trace; it is written only then. `request_headers`, `response_headers`:
    the names of those that the recorder keeps, null where it keeps all; they are written only if it does not.
    """

    ranksim_trace: Literal[1] = 1
    started: Instant = 0
    targets: dict[str, str] = Field(default_factory=dict)
    keys: dict[str, TraceKey] = Field(default_factory=dict)
    exclusive: bool = False
    capture: Literal["complete", "partial"] = "complete"
    request_headers: tuple[str, ...] | None = None
    response_headers: tuple[str, ...] | None = None
    clock: dict[str, Any] = Field(default_factory=dict)

    sparse = ("capture", "request_headers", "response_headers")


class Exchange(SparseEntry):
    """A call and its reply. `received` and `status` are null when no reply was seen.

    `query`, `request_headers`, `body`, `response_headers` and `response` are null where they were not
    recorded; {} or "" says that there was none. `api_key` is null where the call had none, "" where that was
    not recorded. `planned` is when the caller meant to send. `effect` is what is known of the call's effect:
    it changed something, it did not, or nobody can tell. `surface` "app" is the web app, which a recorder
    outside the service cannot see; such an exchange has no key, and `account` says whose it is. `units` is
    what the job that it asks for wants before any cap: pages, questions, or results of a rank run. `arrived`
    is when it took effect, where who recorded it is the service or simulates it.
    """

    kind: Literal["exchange"] = "exchange"
    id: str
    sent: Instant
    received: Instant | None
    operations: tuple[str, ...]
    method: str
    path: str
    status: int | None
    target: str = ""
    environment: str = "production"
    clock_host: str = ""
    planned: Instant | None = None
    api_key: str | None = UNRECORDED_KEY
    account: str = ""
    client: str = ""
    surface: Literal["rest", "graphql", "app"] = "rest"
    query: dict[str, str] | None = None
    request_headers: dict[str, str] | None = None
    body: str | None = None
    response_headers: dict[str, str] | None = None
    response: str | None = None
    effect: Literal["yes", "none", "unknown"] = "unknown"
    error: str | None = None
    units: Annotated[int, Field(ge=0, le=MOST_UNITS)] | None = None
    arrived: Instant | None = None

    sparse = ("units", "arrived")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.received is not None and self.received < self.sent:
            raise ValueError("received is before sent; both are µs of one clock")
        return self


class Signature(TraceEntry):
    """What a receiver made of a signature; null `valid` where nobody checked."""

    valid: bool | None = None
    t: int | None = None
    checked_by: str = ""


class DeliveryAttempt(SparseEntry):
    """A webhook attempt as its receiver saw it; `status` is what the receiver answered, null for silence.

    `problem` says in words what is wrong with its signature, where the receiver tells.
    """

    kind: Literal["delivery"] = "delivery"
    received: Instant
    answered: Instant | None = None
    endpoint: str
    headers: dict[str, str] = Field(default_factory=dict)
    body: str = ""
    signature: Signature = Field(default_factory=Signature)
    problem: str = ""
    status: int | None = None

    sparse = ("problem",)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.answered is not None and self.answered < self.received:
            raise ValueError("answered is before received; both are µs of one clock")
        return self


class Note(BaseModel):
    """Anything else that bears on the run; further fields are kept."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", defer_build=True)

    kind: Literal["note"] = "note"
    t: int | None = None
    text: str = ""


def _tag(value: Any) -> Any:
    """Return the discriminator of an entry: the header by its version, the others by `kind`."""
    if isinstance(value, dict):
        return "header" if "ranksim_trace" in value else value.get("kind")
    return "header" if isinstance(value, Header) else getattr(value, "kind", None)


AnyEntry = Annotated[
    Annotated[Header, Tag("header")]
    | Annotated[Exchange, Tag("exchange")]
    | Annotated[DeliveryAttempt, Tag("delivery")]
    | Annotated[Note, Tag("note")],
    Discriminator(_tag),
]
ENTRY: TypeAdapter[Header | Exchange | DeliveryAttempt | Note] = TypeAdapter(AnyEntry)
_BY_KIND: TypeAdapter[Exchange | DeliveryAttempt | Note] = TypeAdapter(
    Annotated[Exchange | DeliveryAttempt | Note, Discriminator("kind")]
)
__all__ = [
    "DeliveryAttempt",
    "Exchange",
    "Header",
    "Note",
    "Signature",
    "Trace",
    "TraceKey",
    "digest",
    "entries",
    "hide_secrets",
    "read_access_log",
    "read_rates",
    "safe_headers",
]

MODELS: dict[str, type[BaseModel]] = {
    "header": Header,
    "exchange": Exchange,
    "delivery": DeliveryAttempt,
    "note": Note,
}


# Reading


def entries(
    source: str | Path | Iterable[str], passed: Passed | None = None
) -> Iterator[Header | Exchange | DeliveryAttempt | Note]:
    """Read a trace entry by entry, the header first; `source` is a path (.gz and .xz too) or its lines.

    Unknown fields are ignored (E46). A line that stands there twice, as logs that are written at least once
    have it, is read once; a note at the end says how many do. Raises BadInput naming the line that is broken,
    that has the id of another exchange, or that names a target or a key which the header does not declare.
    """
    where, lines = _lines_of(source, passed)
    number, header, lines_read = 0, Header(), _Deduplication()
    for number, line in enumerate(lines, 1):
        if number == 1 and isinstance(source, str | Path) and not line.startswith(b'{"ranksim_trace"'):
            decoded(f"{where}:1", line)
            from ranksim.core.contract.yamlfile import (
                refuse_yaml,  # most read no YAML, and it takes long to read
            )

            refuse_yaml(source, "trace")
        entry = _parse(f"{where}:{number}", line)
        if isinstance(entry, Header) != (number == 1):
            wanted = "the header, which has ranksim_trace" if number == 1 else "one header, on line 1"
            raise BadInput(f"{where}:{number}: expected {wanted}; give a trace that ranksim recorded")
        if isinstance(entry, Header):
            header = entry
        elif isinstance(entry, Exchange):
            _check_declared(f"{where}:{number}", entry, header)
        if lines_read.is_new(f"{where}:{number}", line, entry):
            yield entry
    if number == 0:
        raise BadInput(f"{where}: is empty; expected a trace, whose first line is its header")
    if lines_read.repeated:
        yield Note(text="lines that stand there more than once were read once", repeated=lines_read.repeated)


class _Deduplication:
    """Tells the exchanges and deliveries of a trace that are written a second time; keeps hashes of them."""

    def __init__(self) -> None:
        self.repeated = 0
        self._exchanges: dict[int, int] = {}
        """The line of each exchange, by its id."""
        self._deliveries: set[int] = set()

    def is_new(self, where: str, line: bytes, entry: Header | Exchange | DeliveryAttempt | Note) -> bool:
        """Return whether a line was not read before. Raises BadInput for another exchange of the same id."""
        content, new = hash(line.strip()), True
        if isinstance(entry, DeliveryAttempt):
            new = content not in self._deliveries
            self._deliveries.add(content)
        elif isinstance(entry, Exchange):
            name = hash(entry.id)
            new = name not in self._exchanges
            if self._exchanges.setdefault(name, content) != content:
                raise BadInput(
                    f"{where}: id: {entry.id!r} is that of another exchange above, which says something "
                    "else; give each exchange an id of its own"
                )
        self.repeated += not new
        return new


def _check_declared(where: str, exchange: Exchange, header: Header) -> None:
    """Refuse a target or key that is not in the header, where that declares any."""
    target, key = exchange.target, exchange.api_key
    if header.targets and target and target not in header.targets:
        names = ", ".join(header.targets)
        raise BadInput(
            f"{where}: target: expected one that the header declares ({names}), found {target!r}; "
            "add it to targets in line 1"
        )
    if header.keys and key is not None and key not in (*header.keys, UNKNOWN_KEY, UNRECORDED_KEY):
        names = ", ".join(header.keys)
        raise BadInput(
            f"{where}: api_key: expected one that the header declares ({names}), found {key!r}; "
            f"add it to keys in line 1, or write {UNKNOWN_KEY!r} for a key that nobody has"
        )


def _lines_of(
    source: str | Path | Iterable[str], passed: Passed | None = None
) -> tuple[str, Iterator[bytes]]:
    if isinstance(source, str | Path):
        return str(source), read_raw_lines(source, passed)
    check_kind("trace", source, Iterable, "the path of a trace, or its lines; a result has `Result.compare`")
    return "trace", (line.encode(errors="surrogatepass") for line in source)


def _parse(where: str, raw: bytes) -> Header | Exchange | DeliveryAttempt | Note:
    try:
        # all but headers are told apart by their kind, which need not be looked up by a function of Python
        return (ENTRY if b'"ranksim_trace"' in raw else _BY_KIND).validate_json(raw)
    except ValidationError:
        line = decoded(where, raw)
    try:
        return ENTRY.validate_json(line)
    except ValidationError as error:
        kind = error.errors()[0]["type"]
        invalid: ValidationError = error
    if kind == "json_invalid":
        cut = "" if line.endswith("\n") else "; the file was cut short, so record again or drop this line"
        if where.endswith(":1") and line.strip() and not line.lstrip().startswith("{"):
            cut = "; `ranksim trace import` makes a trace of an access log, and `ranksim limits` judges one"
        raise BadInput(f"{where}: expected one JSON object on a line, found {quote(line)}{cut}")
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        raise BadInput(f"{where}: expected a header, or kind exchange, delivery or note, found {quote(line)}")
    data = json.loads(line)
    raise explain_mistakes(MODELS[_tag(data)], invalid, Located(where, data, {}))


@dataclass(slots=True)
class Trace:
    """A trace as a whole, in the order of its lines."""

    header: Header = field(default_factory=Header)
    exchanges: list[Exchange] = field(default_factory=list)
    deliveries: list[DeliveryAttempt] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def __repr__(self) -> str:
        numbers = [f"{len(getattr(self, what)):,} {what}" for what in ("exchanges", "deliveries", "notes")]
        return f"<Trace: {', '.join(numbers)}>"

    @classmethod
    def read(cls, source: str | Path | Iterable[str], passed: Passed | None = None) -> Self:
        """Read a trace; `source` is a path (.gz and .xz too) or its lines.

        `passed` is told which share of a file has been read. Raises BadInput naming the line that is broken.
        """
        trace = cls()
        for entry in entries(source, passed):
            match entry:
                case Header():
                    trace.header = entry
                case Exchange():
                    trace.exchanges.append(entry)
                case DeliveryAttempt():
                    trace.deliveries.append(entry)
                case Note():
                    trace.notes.append(entry)
        return trace

    def write(self, path: str | Path) -> None:
        """Write the exchanges, then the deliveries, then the notes. Raises BadInput when it cannot."""
        entries = chain([self.header], self.exchanges, self.deliveries, self.notes)
        with new_file(Path(path)) as temporary, packing(temporary, Path(path)) as file:
            for entry in entries:
                file.write(as_line(entry.model_dump()).encode() + b"\n")

    def frame(
        self, name: Literal["exchanges", "deliveries"] = "exchanges", integers: bool = False
    ) -> DataFrame:
        """Return the exchanges or the deliveries as a frame, one row each, with UTC datetimes.

        With `integers` instants stay µs. Raises BadInput for another name, or without pandas.
        """
        if name not in ("exchanges", "deliveries"):
            raise BadInput(f"frame: expected exchanges or deliveries, found {name!r}")
        pandas = imported("pandas", "frames need pandas", "plots")
        model = Exchange if name == "exchanges" else DeliveryAttempt
        rows = [entry.model_dump() for entry in getattr(self, name)]
        frame: DataFrame = pandas.DataFrame(rows, columns=list(model.model_fields))
        for column in () if integers else frame.columns.intersection(INSTANTS):
            frame[column] = pandas.to_datetime(frame[column].astype("Int64"), unit="us", utc=True)
        return frame

    def to_parquet(self, path: str | Path, name: Literal["exchanges", "deliveries"] = "exchanges") -> None:
        """Write the exchanges or the deliveries as a Parquet file.

        Instants are UTC datetimes; columns that hold mappings and lists become JSON text. Raises BadInput
        without pandas and pyarrow.
        """
        imported("pyarrow", "Parquet needs pyarrow", "plots")
        frame = self.frame(name)
        for column in frame.columns:
            if any(isinstance(value, dict | tuple) for value in frame[column].head(1)):
                frame[column] = [as_line(value) for value in frame[column]]
        with new_file(Path(path)) as temporary:
            frame.to_parquet(temporary, engine="pyarrow", index=False)


INSTANTS = ["planned", "sent", "received", "answered"]
"""Fields of exchanges and deliveries that are instants."""


def as_line(value: Any) -> str:
    """Return a value as one line of JSON, with names in order."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


# Secrets


def hide_secrets(text: str, salt: bytes) -> str:
    """Return a reply's raw text with each secret replaced by a salted digest, all else as it was.

    A secret is the text of a field whose name ends in "secret", in any case. The text need not be sound JSON,
    and may escape what it likes: equal secrets have equal digests.
    """
    if "ecret" not in text and "ECRET" not in text:
        return text
    secrets = {_spoken(literal) for literal in _SECRET.findall(text)}

    def hidden(literal: re.Match[str]) -> str:
        spoken = _spoken(literal[0])
        return f'"{digest(spoken, salt)}"' if spoken in secrets else literal[0]

    return _LITERAL.sub(hidden, text) if secrets else text


_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"')
_SECRET = re.compile(r'(?i:secret)"\s*:\s*("(?:[^"\\]|\\.)+")')


def _spoken(literal: str) -> str:
    """Return the text of a JSON string; one that cannot be parsed, as it stands."""
    try:
        return str(json.loads(literal))
    except ValueError:
        return literal[1:-1]


def digest(secret: str, salt: bytes) -> str:
    """Return what stands for a secret in a trace."""
    return "hidden:" + hmac.new(salt, secret.encode(errors="surrogatepass"), sha256).hexdigest()[:32]


def safe_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers without those that carry credentials."""
    return {name: value for name, value in headers.items() if name.lower() not in SENSITIVE_HEADERS}
