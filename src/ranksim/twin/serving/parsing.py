"""Reading small texts from outside: whole numbers, bearer tokens."""

from __future__ import annotations


def whole_number(text: str | bytes) -> int | None:
    """Parse a whole number of at most 18 digits; None for anything else."""
    return int(text) if len(text) <= 18 and text.isascii() and text.isdigit() else None


def bearer(authorization: bytes) -> str | None:
    """Return the token of an Authorization header; None where it is of another scheme."""
    scheme, _, token = authorization.decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None
