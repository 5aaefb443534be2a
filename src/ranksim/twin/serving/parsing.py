"""Reading small texts from outside: patterns in which * stands for anything, whole numbers, bearer tokens."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache


def fits_pattern(pattern: str, text: str) -> bool:
    """Return whether a text is as a pattern says, such as "jobs.*" or "/v1/jobs/*/job_1"."""
    return _compiled(pattern).fullmatch(text) is not None


def whole_number(text: str | bytes) -> int | None:
    """Parse a whole number of at most 18 digits; None for anything else."""
    return int(text) if len(text) <= 18 and text.isascii() and text.isdigit() else None


def bearer(authorization: bytes) -> str | None:
    """Return the token of an Authorization header; None where it is of another scheme."""
    scheme, _, token = authorization.decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(re.sub(r"[?[]", r"[\g<0>]", pattern)))
