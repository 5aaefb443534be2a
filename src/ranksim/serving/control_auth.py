"""Who may use a control API: whoever sends its token, where it has one, and no page of another origin."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def token_of(given: str, host: str) -> str:
    """Return the token to ask for at `host`: the given one, else a new one beyond loopback, else ""."""
    return given if given or host in LOOPBACK else secrets.token_urlsafe(24)


def refusal(token: str | None, scope: Mapping[str, Any]) -> tuple[int, str] | None:
    """Return the status and the reason why a request may not use a control API; None where it may."""
    headers = dict(scope["headers"])
    if token and not hmac.compare_digest(headers.get(b"authorization", b""), b"Bearer " + token.encode()):
        return 401, "Send the control token as a bearer token."
    if not _same_origin(headers):
        return 403, "The control API is not for pages of another origin."
    return None


def _same_origin(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether no page of another origin asks: browsers say where a request comes from."""
    origin = headers.get(b"origin")
    try:
        return origin is None or urlsplit(origin).netloc == headers.get(b"host")
    except ValueError:
        return False
