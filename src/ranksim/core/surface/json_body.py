"""JSON as it comes from outside."""

from __future__ import annotations

import math
import re
from typing import Any

from pydantic_core import from_json


def parse_json(raw: bytes) -> Any:
    """Parse JSON in UTF-8, with no number beyond what a double holds (RFC 8259, 6). Raises ValueError."""
    parsed = from_json(raw, allow_inf_nan=False)
    if (len(raw) > LONG or _PERHAPS_HUGE.search(raw)) and _has_infinite(parsed):
        raise ValueError("a number is too large")
    return parsed


LONG = 16_384
"""Bytes from which it is quicker to look at all values than at the text."""

_PERHAPS_HUGE = re.compile(rb"[0-9][eE]\+?[0-9]{3}|[0-9]{200}")
"""In every JSON text with a number of 1e309 or more, and in few others."""


def _has_infinite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isinf(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(_has_infinite, parts))
