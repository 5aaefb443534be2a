"""Quantities that people write as text: durations, instants, money and duration distributions.

Inside the program time is an integer of microseconds and money an integer of micro-dollars. In YAML and JSON
both are text with a unit, so that no file can be read with the wrong one.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from statistics import NormalDist
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from ranksim.core import clock
from ranksim.core.errors import near
from ranksim.core.money import format_money, money

STANDARD_NORMAL = NormalDist()

WIDEST = 20.0
"""The largest sigma of a lognormal distribution; its tails still are numbers."""


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _read_duration(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, str):
        return clock.duration(value)
    if _is_integer(value) and (info.mode == "python" or value == 0):
        return value
    raise ValueError(f"write a duration such as '1h30m' or '250ms', found {value!r}")


def _read_instant(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, str):
        return clock.instant(value)
    if _is_integer(value) and info.mode == "python":
        return value
    naive = isinstance(value, datetime) and value.tzinfo is None and repr(value) != "NaT"
    zone = ", which has no time zone; give it one, such as UTC" if naive else ""
    raise ValueError(f"write an instant such as '2026-01-31T09:00:00Z', found {value!r}{zone}")


def _read_money(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, str):
        return money(value)
    if _is_integer(value) and info.mode == "python":
        return value
    if not (_is_integer(value) or isinstance(value, float)):
        raise ValueError(f"write an amount such as '15 USD', found {value!r}")
    if value < 0:
        raise ValueError(f"write an amount of at least 0 such as '15 USD', found {value!r}")
    raise ValueError(f"write an amount such as '{value} USD', found {value!r}")


Duration = Annotated[
    int,
    BeforeValidator(_read_duration, json_schema_input_type=str | Literal[0]),
    PlainSerializer(clock.format_duration, return_type=str, when_used="json"),
]
"""Microseconds; in files text such as '1h30m', or 0."""

Instant = Annotated[
    int,
    BeforeValidator(_read_instant, json_schema_input_type=str),
    PlainSerializer(clock.iso, return_type=str, when_used="json"),
]
"""Microseconds since the epoch, UTC; in files ISO 8601 text."""

Money = Annotated[
    int,
    BeforeValidator(_read_money, json_schema_input_type=str),
    PlainSerializer(format_money, return_type=str, when_used="json"),
]
"""Micro-dollars; in files text such as '15 USD'."""


class Frozen(BaseModel):
    """Base of every model of the contract: immutable, strict, numbers finite, unknown fields refused."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Atomic(Frozen):
    """Base of models that files write in short forms: set as a whole, or in the parts of `written_as`."""

    forms: ClassVar[type[Frozen] | None] = None
    """The model of what files write, whose fields are the parts; None: it has no parts."""

    def written_as(self) -> BaseModel | None:
        """Return what files write of it as the model of its `forms`."""
        return None


def also(*forms: Mapping[str, Any]) -> ConfigDict:
    """Let the JSON Schema of a model tell the short forms in which a file may write it."""

    def tell(schema: dict[str, Any]) -> None:
        form = dict(schema)
        schema.clear()
        schema["anyOf"] = [*forms, form]

    return ConfigDict(json_schema_extra=tell)


TEXT: Mapping[str, Any] = {"type": "string"}
NUMBER: Mapping[str, Any] = {"type": "number"}
WHOLE: Mapping[str, Any] = {"type": "integer"}


TEXTS: Mapping[str, Any] = {"type": "array", "items": TEXT, "minItems": 1}


def mapping_with(**fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a mapping that has these fields at least."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def one_of(kinds: Mapping[str, tuple[str, ...]], optional: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """Return the schema of a mapping of one kind to its named parameters."""
    value = {"type": ["string", "number"]}
    forms = {
        kind: {
            "type": "object",
            "properties": dict.fromkeys((*names, *optional), value),
            "required": list(names),
            "additionalProperties": False,
        }
        for kind, names in kinds.items()
    }
    return {"type": "object", "properties": forms, "minProperties": 1, "maxProperties": 1}


KINDS = ("constant", "uniform", "exponential", "lognormal", "empirical")
_PARAMETERS: dict[str, tuple[str, ...]] = {
    "uniform": ("low", "high"),
    "exponential": ("mean",),
    "lognormal": ("median", "sigma"),
}


class _Uniform(Frozen):
    low: Duration
    high: Duration


class _Exponential(Frozen):
    mean: Duration


class _Lognormal(Frozen):
    median: Duration
    sigma: float


class _Forms(Frozen):
    constant: Duration | None = None
    uniform: _Uniform | None = None
    exponential: _Exponential | None = None
    lognormal: _Lognormal | None = None
    empirical: tuple[Duration, ...] | None = None


class Distribution(Atomic):
    """How long something takes: a distribution of durations, drawn through its inverse CDF.

    Written '4m' (always four minutes), {constant: 4m}, {uniform: {low: 1m, high: 5m}},
    {exponential: {mean: 4m}}, {lognormal: {median: 4m, sigma: 0.5}} or {empirical: [3m, 4m, 9m]}.
    `durations` (µs) holds the parameters in that order, or the sorted observations; `sigma` is the standard
    deviation of the logarithm.
    """

    model_config = also(TEXT, one_of(_PARAMETERS), mapping_with(constant=TEXT), mapping_with(empirical=TEXTS))
    forms = _Forms

    kind: Literal["constant", "uniform", "exponential", "lognormal", "empirical"]
    durations: tuple[Duration, ...]
    sigma: float = 0.0

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return {"kind": "constant", "durations": (value,)}
        if "kind" in value:
            return value
        if len(value) != 1:
            raise ValueError(f"write a duration such as '4m', or one of {', '.join(KINDS)}")
        ((kind, given),) = value.items()
        if kind == "constant":
            return {"kind": kind, "durations": (given,)}
        if kind == "empirical":
            if not isinstance(given, list | tuple):
                raise ValueError("empirical takes a list of durations")
            return {"kind": kind, "durations": tuple(given)}
        names = _PARAMETERS.get(kind)
        if names is None:
            raise ValueError(f"expected one of {', '.join(KINDS)}, found {kind!r}{near(kind, KINDS)}")
        if not isinstance(given, dict) or set(given) != set(names):
            raise ValueError(f"{kind} takes {' and '.join(names)}")
        durations = tuple(given[name] for name in names if name != "sigma")
        return {"kind": kind, "durations": durations, "sigma": given.get("sigma", 0.0)}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.durations or min(self.durations) < 0:
            raise ValueError("durations are at least one, and none is negative")
        if self.kind == "uniform" and self.durations[0] > self.durations[1]:
            raise ValueError("uniform wants low at most high")
        if not 0 <= self.sigma <= WIDEST:
            raise ValueError(f"sigma is a number from 0 to {WIDEST:g}")
        if list(self.durations) != sorted(self.durations):
            object.__setattr__(self, "durations", tuple(sorted(self.durations)))
        return self

    @model_serializer
    def _write(self) -> Any:
        texts = [clock.format_duration(d) for d in self.durations]
        if self.kind == "constant":
            return texts[0]
        if self.kind == "empirical":
            return {"empirical": texts}
        written: dict[str, Any] = dict(zip(_PARAMETERS[self.kind], texts, strict=False))
        if self.kind == "lognormal":
            written["sigma"] = self.sigma
        return {self.kind: written}

    def written_as(self) -> BaseModel:
        """Return what files write of it: the one field that is its kind, with its parameters."""
        written = self.model_dump(mode="json")
        fields = written if isinstance(written, dict) else {"constant": written}
        return _Forms.model_validate(fields, strict=False)  # lists are tuples

    def at(self, u: float) -> int:
        """The duration (µs) below which a share `u` of all draws lies; 0 < u < 1."""
        first = self.durations[0]
        match self.kind:
            case "constant":
                return first
            case "uniform":
                return first + round((self.durations[1] - first) * u)
            case "exponential":
                return round(-first * math.log1p(-u))
            case "lognormal":
                return round(first * math.exp(self.sigma * STANDARD_NORMAL.inv_cdf(u)))
            case "empirical":
                return self.durations[min(int(u * len(self.durations)), len(self.durations) - 1)]

    def mean(self) -> int:
        """The mean duration (µs), rounded."""
        if self.kind == "lognormal":
            return round(self.durations[0] * math.exp(self.sigma**2 / 2))
        return round(sum(self.durations) / len(self.durations))


class Moment(Atomic):
    """When something happens: '2d' after the scenario's start, or at '2026-03-01T00:00:00Z'.

    `us` is the time since the start (µs), or the instant itself when `absolute`.
    """

    model_config = also(TEXT)

    us: int
    absolute: bool = False

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, dict):
            return value
        if _is_integer(value) and (info.mode == "python" or value == 0):
            return {"us": value}
        for read, absolute in ((clock.duration, False), (clock.instant, True)):
            try:
                return {"us": read(value), "absolute": absolute}
            except clock.NoSuchInstant:
                raise
            except (TypeError, ValueError):
                continue
        raise ValueError(f"write a time since the start such as '2d', or an instant, found {value!r}")

    @model_serializer
    def _write(self) -> str:
        return clock.iso(self.us) if self.absolute else clock.format_duration(self.us)

    def on(self, start: int) -> int:
        """Return the instant, for a scenario that starts at `start`."""
        return self.us if self.absolute else start + self.us

    def after(self, start: int) -> int:
        """Return how long after the start it is (µs), for a scenario that starts at `start`."""
        return self.on(start) - start
