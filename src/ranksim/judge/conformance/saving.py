"""A judge's memory as bytes, and back: what it saw and has not forgotten, and its tally.

The bytes hold plain data: numbers, texts, collections and the dataclasses of `judge.conformance`. Loading
makes nothing else, whatever the bytes say. What is open is not saved: a judge is loaded with the options that
it was made with.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, Final, TypeVar, cast

from ranksim.core.errors import BadInput
from ranksim.judge.conformance.history.observation import (
    AttemptDetail,
    Observation,
    ObservationDetail,
    ReceivedAttempt,
)
from ranksim.judge.conformance.history.observation_log import ObservationLog
from ranksim.judge.conformance.judging import Judge
from ranksim.judge.conformance.verdict.options import Options

VERSION: Final = 8
"""Raised whenever a judge's memory changes its form."""

PLAIN: Final = frozenset(
    {
        ("builtins", "set"),
        ("builtins", "frozenset"),
        ("builtins", "bytearray"),
        ("builtins", "list"),
        ("builtins", "dict"),
        ("collections", "defaultdict"),
        ("collections", "Counter"),
        ("array", "array"),
        ("array", "_array_reconstructor"),
        ("builtins", "int"),
        ("ranksim.core.contract.facts", "RateClass"),
    }
)
"""What is made when a memory is loaded, beside the dataclasses of this package."""

JudgeT = TypeVar("JudgeT", bound=Judge)
DetailT = TypeVar("DetailT")


class Kept(dict[int, DetailT]):
    """The details of one saved observation, by its number, as a spill file has them."""


def save(judge: Judge) -> bytes:
    """Return all that a judge remembers."""
    memory = io.BytesIO()
    state = {name: value for name, value in vars(judge).items() if name != "options"}
    _Saver(memory, protocol=5).dump((VERSION, type(judge).__name__, state))
    return memory.getvalue()


def load(make: Callable[[Options], JudgeT], options: Options, memory: bytes) -> JudgeT:
    """Make a judge that remembers what was saved. Raises BadInput for that of another judge."""
    judge = make(options)
    try:
        version, name, state = _Loader(io.BytesIO(memory)).load()
    except (pickle.UnpicklingError, EOFError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"the memory of a judge cannot be read ({error})") from None
    if (version, name) != (VERSION, type(judge).__name__):
        raise BadInput(f"the memory is that of {name}, version {version}, not of {type(judge).__name__}")
    for member, value in state.items():
        setattr(judge, member, value)
    return judge


class _Saver(pickle.Pickler):
    """Saves observations with their details, which wait in a spill file."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, Observation):
            return _observation, (*_values(thing), _values(thing.shelf[thing.index]))
        if isinstance(thing, ReceivedAttempt):
            return _attempt, (*_values(thing), _values(thing.shelf[thing.index]))
        if isinstance(thing, ObservationLog):
            return _log, (list(thing),)
        return NotImplemented


class _Loader(pickle.Unpickler):
    """Makes nothing but plain data and the dataclasses of this package."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in PLAIN:
            return super().find_class(module, name)
        if module == __name__ and name in ("_observation", "_attempt", "_log"):
            return globals()[name]
        if module.startswith("ranksim.judge.conformance."):
            found = super().find_class(module, name)
            if isinstance(found, type) and is_dataclass(found):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a judge's memory")


def _values(record: Any) -> tuple[Any, ...]:
    return tuple(getattr(record, about.name) for about in fields(record) if about.name != "shelf")


def _observation(*values: Any) -> Observation:
    *own, detail = values
    details = Kept({own[0]: ObservationDetail(*detail)})
    return Observation(cast(Any, details), *own)


def _attempt(*values: Any) -> ReceivedAttempt:
    *own, detail = values
    return ReceivedAttempt(cast(Any, Kept({own[0]: AttemptDetail(*detail)})), *own)


def _log(exchanges: list[Observation]) -> ObservationLog:
    log, details = ObservationLog(), Kept[ObservationDetail]()
    for exchange in exchanges:
        details[exchange.index] = exchange.shelf[exchange.index]
        exchange.shelf = cast(Any, details)
        log.add(exchange)
    return log
