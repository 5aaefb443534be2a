"""Values of parameters, those that a point leaves as they are included: what they are as quantities."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from ranksim.core.clock import duration, instant
from ranksim.core.contract.parameters import written_value
from ranksim.core.money import money

READERS: Mapping[str, Callable[[str], int]] = {"money": money, "duration": duration, "instant": instant}
"""Quantity to what reads its text, as integers of µUSD or µs."""


def base_values(paths: Iterable[str], roots: Mapping[str, BaseModel]) -> dict[str, Any]:
    """Return what the inputs, which `roots` has by name, have at some paths, as files write it.

    None is where they have nothing, or several values.
    """
    return {path: written_value(path, roots) for path in paths}


def read_value(value: Any) -> tuple[str, Any]:
    """Return the quantity of a value as a file writes it, and its number; any other value with ""."""
    for quantity, read in READERS.items() if isinstance(value, str) else ():
        try:
            return quantity, read(value)
        except ValueError:
            continue
    return "", value


def comparable(value: Any) -> str:
    """Return text that is the same for values that mean the same: 60s and 1m, 1 and 1.0."""
    quantity, number = read_value(value)
    integral = isinstance(number, float) and number.is_integer()
    return json.dumps([quantity, int(number) if integral else number], sort_keys=True, default=str)


def column_of(values: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return the quantity that all values of a parameter have, "" where they differ, and them as numbers.

    What is missing (None) and a plain 0 go with any; where there is no quantity, values stay as they are.
    """
    read = [read_value(value) for value in values]
    plain = [value is None or (value == 0 and not isinstance(value, bool)) for value in values]
    quantities = {of for (of, _), zero in zip(read, plain, strict=True) if not zero}
    if len(quantities) != 1 or "" in quantities:
        return "", list(values)
    return quantities.pop(), [number for _, number in read]
