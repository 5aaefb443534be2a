"""Who may use a control API: whoever sends its token, under a name of the server; no page of another origin.

No webhook may, whoever asked for it. A browser that was given this machine's address for the name of another
server (DNS rebinding) sends that name in Host, so only names that the server listens under are served.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Collection, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from ranksim.core.addresses import LOOPBACK
from ranksim.core.errors import BadInput

WEBHOOKS = "ranksim-webhooks"
"""How the User-Agent of every webhook begins."""

TOKEN = "token"
"""The query parameter that stands for the header where a browser can send none: in an address, for GET."""


def new_token() -> str:
    """Make a token that nobody guesses."""
    return secrets.token_urlsafe(24)


def chosen_token(given: str, *, none: bool, host: str) -> str:
    """Return the token that a command's flags ask for: the given one, a new one, or none, "".

    Raises BadInput where none is asked for together with one, or beyond loopback.
    """
    if none and (given or host not in LOOPBACK):
        raise BadInput("--no-control-token: expected without --control-token, and at a loopback address")
    return "" if none else given or new_token()


def names_of(host: str, more: Collection[str] = ()) -> frozenset[str]:
    """Return the names under which what listens at `host` is known; beyond loopback the machine's, too."""
    machine = () if host in LOOPBACK else (socket.gethostname(),)
    return frozenset(name.lower() for name in (host, *machine, *more) if name)


def refusal(
    token: str | None, scope: Mapping[str, Any], names: Collection[str] | None = None
) -> tuple[int, str] | None:
    """Return the status and the reason why a request may not use a control API; None where it may.

    `names` are served besides those of loopback and the address that the connection came to; without any the
    name is not looked at.
    """
    headers = dict(scope["headers"])
    host = headers.get(b"host")
    if host is not None and names is not None and not _is_own(host, scope, names):
        return 403, (
            f"The control API is not served under the name {host.decode('latin-1')!r}; "
            "--control-host NAME serves it under another."
        )
    if headers.get(b"user-agent", b"").startswith(WEBHOOKS.encode()):
        return 403, "The control API is not for webhooks."
    if not _same_origin(headers, scope.get("scheme", "http")):
        return 403, "The control API is not for pages of another origin."
    if token and not _carries(token, headers, scope):
        return 401, "Send the control token as a bearer token."
    return None


def take_token(scope: MutableMapping[str, Any]) -> None:
    """Remove the token from a query, which has been looked at."""
    query: bytes = scope["query_string"]
    if TOKEN.encode() in query:
        pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        scope["query_string"] = urlencode([pair for pair in pairs if pair[0] != TOKEN]).encode()


def _carries(token: str, headers: Mapping[bytes, bytes], scope: Mapping[str, Any]) -> bool:
    sent = headers.get(b"authorization")
    if sent is None and scope["method"] in ("GET", "HEAD"):
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        sent = b"Bearer " + dict(query).get(TOKEN, "").encode()
    return hmac.compare_digest(sent or b"", b"Bearer " + token.encode())


def _is_own(host: bytes, scope: Mapping[str, Any], names: Collection[str]) -> bool:
    try:
        name = urlsplit("//" + host.decode("latin-1")).hostname
    except ValueError:
        return False
    server = scope.get("server")
    return name in LOOPBACK or name in names or (server is not None and name == server[0])


def _same_origin(headers: Mapping[bytes, bytes], scheme: str) -> bool:
    """Return whether no page of another origin asks: browsers say where a request comes from."""
    origin = headers.get(b"origin")
    try:
        parts = None if origin is None else urlsplit(origin)
    except ValueError:
        return False
    return parts is None or (parts.scheme == scheme.encode() and parts.netloc == headers.get(b"host"))
