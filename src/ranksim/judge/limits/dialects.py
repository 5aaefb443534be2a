"""Headers in which APIs state their rate limits: four dialects, read as one.

Sources: draft-ietf-httpapi-ratelimit-headers, 10 (RateLimit and RateLimit-Policy, structured fields of RFC
9651), 7 (RateLimit as a dictionary) and 3 to 6 (RateLimit-Limit, -Remaining, -Reset); X-RateLimit-* and
X-Rate-Limit-* as GitHub, Twitter and their followers have them; Retry-After of RFC 9110.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import http_sf

from ranksim.core.clock import SECOND, Micros

PREFIXES = ("ratelimit", "x-ratelimit", "x-rate-limit", "x-rl")

EPOCH, EPOCH_MILLIS = 100_000_000, 100_000_000_000
"""A Reset from here on is an instant in Unix seconds, in milliseconds; below a number of seconds."""

Form = Literal["", "seconds", "epoch", "epoch-ms", "date"]
"""How an instant was written."""


@dataclass(frozen=True, slots=True)
class Wait:
    """How long to wait, as a header says: `seconds` from the reply, or until an `instant` (µs, Unix)."""

    form: Form = ""
    seconds: float | None = None
    instant: Micros | None = None


@dataclass(frozen=True, slots=True)
class Stated:
    """What a reply says of its limit: how many calls in how long (µs), how many are left, when it resets."""

    limit: int | None = None
    length: Micros | None = None
    remaining: int | None = None
    reset: Wait = Wait()
    retry_after: Wait = Wait()
    dialect: str = ""


def read_headers(headers: Mapping[str, str]) -> Stated:
    """Read what a reply says of its rate limit; what cannot be read is left out."""
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    retry_after = _wait(lower.get("retry-after", ""))
    structured = _structured(lower)
    if structured is not None:
        limit, length, remaining, reset = structured
        return Stated(limit, length, remaining, reset, retry_after, "RateLimit")
    for prefix in PREFIXES:
        if f"{prefix}-remaining" in lower or f"{prefix}-limit" in lower:
            limit, length = _quota(lower.get(f"{prefix}-limit", ""))
            policy = _policy(lower)
            left = _number(lower.get(f"{prefix}-remaining", ""))
            reset = _wait(lower.get(f"{prefix}-reset", ""))
            length = length or policy.get(limit) or _window(lower, prefix)
            return Stated(limit, length, left, reset, retry_after, f"{prefix}-*")
    return Stated(retry_after=retry_after)


def _structured(lower: Mapping[str, str]) -> tuple[int | None, Micros | None, int | None, Wait] | None:
    """Read RateLimit with RateLimit-Policy as lists of items (draft 8 and later), or as a dictionary (7)."""
    text = lower.get("ratelimit", "")
    if not text:
        return None
    items = _parsed(text, "list")
    if items and all(isinstance(item, tuple) and "r" in item[1] for item in items):
        name, least = min(items, key=lambda item: item[1]["r"])
        policies = dict(_parsed(lower.get("ratelimit-policy", ""), "list"))
        quota = policies.get(name, {})
        length = quota.get("w")
        return (
            quota.get("q"),
            None if length is None else length * SECOND,
            least["r"],
            Wait("seconds", least["t"]) if "t" in least else Wait(),
        )
    values = {name: item[0] for name, item in dict(_parsed(text, "dictionary") or {}).items()}
    if "remaining" not in values:
        return None
    limit = values.get("limit")
    reset = Wait("seconds", values["reset"]) if "reset" in values else Wait()
    return limit, _policy(lower).get(limit), values["remaining"], reset


def _policy(lower: Mapping[str, str]) -> dict[int | None, Micros]:
    """Return lengths by limits, of a RateLimit-Policy as `20;w=2`."""
    items = _parsed(lower.get("ratelimit-policy", ""), "list")
    return {
        int(item[0]): int(item[1]["w"]) * SECOND
        for item in items
        if isinstance(item, tuple) and isinstance(item[0], int) and isinstance(item[1].get("w"), int)
    }


def _parsed(text: str, kind: Literal["list", "dictionary"]) -> Any:
    """Parse a structured field; nothing where it is none."""
    try:
        return http_sf.parse(text.encode("latin-1", "replace"), tltype=kind) if text else []
    except (http_sf.StructuredFieldError, ValueError):
        return []


def _quota(text: str) -> tuple[int | None, Micros | None]:
    """Read `600`, and `600, 600;w=60` of the early drafts."""
    match = re.match(r"\s*(\d+)(?:.*?;\s*w=(\d+))?", text)
    if match is None:
        return None, None
    return int(match[1]), None if match[2] is None else int(match[2]) * SECOND


def _window(lower: Mapping[str, str], prefix: str) -> Micros | None:
    """Read a length that stands beside: X-RateLimit-Window, -Period, in seconds."""
    for name in ("window", "period"):
        number = _number(lower.get(f"{prefix}-{name}", ""))
        if number:
            return number * SECOND
    return None


def _number(text: str) -> int | None:
    match = re.fullmatch(r"(\d{1,15})(?:\.0*)?", text)
    return None if match is None else int(match[1])


def _wait(text: str) -> Wait:
    """Read an instant: seconds from now, Unix seconds or milliseconds, or a date."""
    if re.fullmatch(r"\d{1,18}(\.\d+)?", text):
        number = float(text)
        if number >= EPOCH_MILLIS:
            return Wait("epoch-ms", instant=round(number * 1000))
        if number >= EPOCH:
            return Wait("epoch", instant=round(number * SECOND))
        return Wait("seconds", number)
    try:
        return Wait("date", instant=round(parsedate_to_datetime(text).timestamp() * SECOND))
    except (ValueError, TypeError, OverflowError):
        return Wait()
