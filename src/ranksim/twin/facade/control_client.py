"""Commands that use the control API of a running deployment: where it is, its token, one request."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeAlias

import typer

from ranksim.core.errors import BadInput

PREFIX = "/_ranksim"

TOKEN_VARIABLES = ("RANKSIM_CONTROL_TOKEN", "RANKSIM_SERVE_CONTROL_TOKEN")
"""Where the token is looked for: the second is what `ranksim serve` itself reads."""

Url: TypeAlias = Annotated[
    str,
    typer.Option(
        "--url",
        envvar=["RANKSIM_URL"],
        metavar="URL",
        help="The running deployment, as `ranksim serve` prints it.",
    ),
]

Token: TypeAlias = Annotated[
    str,
    typer.Option(
        envvar=list(TOKEN_VARIABLES),
        help="The bearer token that its control API wants.",
    ),
]


def ask(url: str, token: str, path: str, body: dict[str, Any] | None = None, *, timeout_s: float) -> bytes:
    """Send one request to a control API, with `body` as JSON a POST. Raises BadInput with what it said."""
    from urllib.error import HTTPError, URLError  # read late: --help and most commands ask nothing
    from urllib.request import Request, urlopen

    content = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    try:
        request = Request(f"{url.rstrip('/')}{PREFIX}{path}", content, headers)
        with urlopen(request, timeout=timeout_s) as response:
            return bytes(response.read())
    except HTTPError as error:
        raise BadInput(f"{url}: answered {error.code}: {_detail(error.read())}") from None
    except (URLError, OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        raise BadInput(f"{url}: cannot be reached ({why}); expected the URL of a deployment") from None


def _detail(body: bytes) -> str:
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, TypeError, KeyError):
        return "expected the URL of a deployment that `ranksim serve` serves"
