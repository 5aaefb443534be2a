"""What a scenario expects of its own result, as data: `refusals.total <= 10`, and whether it came true."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

from pydantic import ValidationInfo, model_serializer, model_validator

from ranksim.core.clock import MILLISECOND, SECOND, duration, format_duration, instant, iso
from ranksim.core.contract.quantities import TEXT, Frozen, also, mapping_with
from ranksim.core.money import format_money, money
from ranksim.inference.estimate import Estimate
from ranksim.twin.sim.metric_families import Unit
from ranksim.twin.sim.metrics import check_name, unit_of

Number = int | float

SIGNS = {
    "==": "equals", "=": "equals", "!=": "other_than",
    ">=": "at_least", ">": "more_than", "<=": "at_most", "<": "less_than",
}  # fmt: skip
FLOORS = {"<=": "at_least", "<": "more_than"}
"""What LOW says of a metric by the sign between them, as in 1 <= METRIC < 5."""
_SIGN_BEFORE = {bound: sign for sign, bound in FLOORS.items()}
_SIGN_BEHIND = {bound: sign for sign, bound in reversed(SIGNS.items())}
PAIRS = [[low, high] for low in ("at_least", "more_than") for high in ("at_most", "less_than")]
"""The bounds that go together."""
BOUNDS = ("equals", "other_than", "at_least", "more_than", "at_most", "less_than", "between")

_SHORT = re.compile(r"([^\s<>=!]+)\s*(==|!=|>=|<=|=|>|<)\s*([^<>=!]+)")
_BETWEEN = re.compile(r"([^<>=!]+?)\s*(<=|<)\s*([^\s<>=!]+)\s*(<=|<)\s*([^<>=!]+)")

READERS = {
    "duration": (duration, "a duration such as '5m'"),
    "instant": (instant, "an instant such as '2026-03-01T00:00:00Z'"),
    "money": (money, "an amount such as '15 USD'"),
}
WRITERS: dict[str, Callable[[int], str]] = {
    "duration": format_duration,
    "instant": iso,
    "money": format_money,
}


class Observed(Protocol):
    """What is judged: the metrics of a result."""

    def values(self, metric: str) -> list[float | None]:
        """Return a metric of each replication."""

    def metric(self, name: str) -> Estimate:
        """Return a metric's mean and its interval."""


class Expectation(Frozen):
    """A metric and the bound it is expected to keep: on average over replications, or in `every` one.

    Written {metric: refusals.total, at_most: 10}, or as text: 'refusals.total <= 10' (also <, >=, >, == and
    !=) or '1 <= refusals.total < 5'. `between` includes both ends. Durations, instants and money are text
    with a unit. Values are kept in the metric's unit: counts, shares, µs or µUSD.
    """

    model_config = also(TEXT, mapping_with(metric=TEXT))

    metric: str
    equals: Number | None = None
    other_than: Number | None = None
    at_least: Number | None = None
    more_than: Number | None = None
    at_most: Number | None = None
    less_than: Number | None = None
    between: tuple[Number, Number] | None = None
    hold: Literal["mean", "every"] = "mean"

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any, info: ValidationInfo) -> Any:
        fields = _short(value) if isinstance(value, str) else value
        if not isinstance(fields, dict) or not isinstance(fields.get("metric"), str):
            return fields
        unit = unit_of(fields["metric"])
        read = dict(fields)
        for bound in BOUNDS:
            given = fields.get(bound)
            if bound == "between" and isinstance(given, list | tuple):
                read[bound] = tuple(_number(item, unit, info.mode == "python") for item in given)
            elif given is not None:
                read[bound] = _number(given, unit, info.mode == "python")
        return read

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_name(self.metric)
        given = [bound for bound in BOUNDS if getattr(self, bound) is not None]
        if not given:
            raise ValueError(f"{self.metric}: give one of {', '.join(BOUNDS)}")
        if len(given) > 1 and given not in PAIRS:
            raise ValueError(f"{self.metric}: {' and '.join(given)} do not go together; give one")
        low, high = self.bounds
        if low > high or (low == high and (self.more_than, self.less_than) != (None, None)):
            raise ValueError(f"{self.metric}: cannot be {self._floor} and {self._ceiling}")
        return self

    @model_serializer
    def _write(self) -> dict[str, Any]:
        written: dict[str, Any] = {"metric": self.metric}
        for bound in BOUNDS:
            value = getattr(self, bound)
            if isinstance(value, tuple):
                written[bound] = [self._written(item) for item in value]
            elif value is not None:
                written[bound] = self._written(value)
        return written if self.hold == "mean" else written | {"hold": self.hold}

    def __str__(self) -> str:
        written = {bound: value for bound, value in self._write().items() if bound in BOUNDS}
        if self.between is not None:
            low, high = written["between"]
            return f"{low} <= {self.metric} <= {high}"
        *floors, (bound, high) = written.items()
        before = "".join(f"{low} {_SIGN_BEFORE[floor]} " for floor, low in floors)
        return f"{before}{self.metric} {_SIGN_BEHIND[bound]} {high}"

    def _written(self, value: Number) -> Number | str:
        write = WRITERS.get(self._unit)
        return value if write is None else write(int(value))

    @property
    def _unit(self) -> Unit:
        return unit_of(self.metric)

    def _in_words(self, value: float | None) -> str:
        return write_number(value, self._unit)

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of what is expected; `more_than` and `less_than` leave theirs out."""
        if self.equals is not None:
            return self.equals, self.equals
        if self.between is not None:
            return self.between
        low = self.at_least if self.more_than is None else self.more_than
        high = self.at_most if self.less_than is None else self.less_than
        return -math.inf if low is None else low, math.inf if high is None else high

    def wanted(self) -> str:
        """Return the bound: 'at most 10'."""
        return self._bound() + (" in every replication" if self.hold == "every" else "")

    def _bound(self) -> str:
        low, high = self.bounds
        if self.other_than is not None:
            return f"other than {self._in_words(self.other_than)}"
        if low == high:
            return f"exactly {self._in_words(low)}"
        if math.isinf(low):
            return self._ceiling
        if math.isinf(high):
            return self._floor
        if self.more_than is None and self.less_than is None:
            return f"between {self._in_words(low)} and {self._in_words(high)}"
        return f"{self._floor} and {self._ceiling}"

    @property
    def _floor(self) -> str:
        return f"{'at least' if self.more_than is None else 'more than'} {self._in_words(self.bounds[0])}"

    @property
    def _ceiling(self) -> str:
        return f"{'at most' if self.less_than is None else 'less than'} {self._in_words(self.bounds[1])}"

    def judge(self, result: Observed) -> ExpectationResult:
        """Return whether a result keeps the bound. Raises BadInput when it has no such metric."""
        values = result.values(self.metric)
        if self.hold == "every":
            index = max(range(len(values)), key=lambda i: self._beyond(values[i]))
            lowest, highest = _extremes(values)
            where = f" in replication {index}" if len(values) > 1 else ""
            return self._finding(values[index], where, kept=self._span(lowest, highest))
        mean, low, high = result.metric(self.metric)
        lowest, highest = _extremes(values)
        spread = "" if low is None or lowest == highest else f" ({self._span(low, high)})"
        seen = sum(value is not None for value in values)
        if 0 < seen < len(values):
            spread += f" in the {seen} of {len(values)} replications that observe it"
        return self._finding(mean, spread, kept=f"{self._in_words(mean)}{spread}")

    def _finding(self, value: float | None, where: str, kept: str) -> ExpectationResult:
        """Judge one value: `where` belongs to it, `kept` is what is said when the bound is kept."""
        if value is None:
            text = f"{self.metric}: nothing was observed{where}, expected {self.wanted()}"
            return ExpectationResult(self, False, None, None, text)
        off = self._off(value)
        if off is None:
            text = f"{self.metric} is {kept}, as expected {self.wanted()}"
            return ExpectationResult(self, True, value, 0.0, text)
        unit: Unit = "duration" if self._unit == "instant" else self._unit
        distance = (
            f"{abs(off or 0) * 100:.3g} points" if unit == "share" else write_number(abs(off or 0), unit)
        )
        beyond = f": {distance} {'above' if off > 0 else 'below'}" if off else ""
        text = f"{self.metric} is {self._in_words(value)}{where}, expected {self.wanted()}{beyond}"
        return ExpectationResult(self, False, value, off, text)

    def _span(self, low: float | None, high: float | None) -> str:
        return self._in_words(low) if low == high else f"{self._in_words(low)} to {self._in_words(high)}"

    def _off(self, value: float) -> float | None:
        """How far a value lies above (or, negative, below) what is expected; None where it is expected."""
        low, high = self.bounds
        if self.other_than is not None:
            return 0.0 if abs(value - self.other_than) <= _slack(self.other_than) else None
        if value - low < (_slack(low) if self.more_than is not None else -_slack(low)):
            return min(value - low, 0.0)
        if high - value < (_slack(high) if self.less_than is not None else -_slack(high)):
            return max(value - high, 0.0)
        return None

    def _beyond(self, value: float | None) -> float:
        """How badly a value fails: -1 where it is expected, inf where nothing was observed."""
        off = math.inf if value is None else self._off(value)
        return -1.0 if off is None else abs(off)


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """What became of an expectation: `value` the number judged, or None; `off` how far beyond its bound."""

    expectation: Expectation
    passed: bool
    value: float | None
    off: float | None
    text: str


def judge_expectations(expectations: Iterable[Expectation], result: Observed) -> list[ExpectationResult]:
    """Judge expectations in order. Raises BadInput for a metric that the result does not have."""
    return [expectation.judge(result) for expectation in expectations]


def write_number(value: float | None, unit: Unit) -> str:
    """Write a number of a unit for people."""
    if value is None:
        return "nothing"
    if math.isinf(value):
        return "any"
    if unit == "duration":
        coarse = MILLISECOND if abs(value) >= SECOND else 1
        return format_duration(round(value / coarse) * coarse)
    if unit in WRITERS:
        return WRITERS[unit](round(value))
    if unit == "share":
        return f"{round(value * 100, 3):.4g} %"
    if abs(value) < 1:
        return f"{value:.3g}"
    return f"{round(value, 3):g}" if abs(value) < 1e6 else f"{round(value)}"


def _extremes(values: list[float | None]) -> tuple[float | None, float | None]:
    seen = [value for value in values if value is not None]
    return (min(seen), max(seen)) if seen else (None, None)


def _slack(bound: float) -> float:
    """What rounding may make of a mean that keeps the bound: less than one of whatever is counted."""
    return 0.0 if math.isinf(bound) else min(0.5, 1e-9 * abs(bound))


def _short(text: str) -> dict[str, Any]:
    between = _BETWEEN.fullmatch(text.strip())
    if between is not None:
        low, after, metric, before, high = between.groups()
        if (after, before) == ("<=", "<="):
            return {"metric": metric, "between": (low, high)}
        return {"metric": metric, FLOORS[after]: low, SIGNS[before]: high}
    short = _SHORT.fullmatch(text.strip())
    if short is None:
        raise ValueError(
            f"write METRIC <= VALUE (or <, >=, >, ==, !=) or LOW <= METRIC <= HIGH, found {text!r}"
        )
    metric, sign, value = short.groups()
    return {"metric": metric, SIGNS[sign]: value}


def _number(value: Any, unit: Unit, bare: bool) -> Any:
    """Read a bound in its unit; `bare` lets numbers stand for durations, instants and money."""
    if unit in READERS:
        read, form = READERS[unit]
        if isinstance(value, str):
            try:
                return read(value)
            except ValueError:
                raise ValueError(f"write {form}, found {value!r}") from None
        if bare or value == 0:
            return value
        raise ValueError(f"write {form}, found {value!r}")
    if isinstance(value, str):
        per_cent = re.fullmatch(r"(.+?)\s*%\s*", value) if unit == "share" else None
        plain = value if per_cent is None else f"{per_cent[1]}e-2"  # 99.9 / 100 is not 0.999
        try:
            value = int(plain) if re.fullmatch(r"[+-]?[0-9_]+", plain) else float(plain)
        except ValueError:
            raise ValueError(f"expected a number, found {value!r}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"expected a finite number, found {value!r}")
    return value
