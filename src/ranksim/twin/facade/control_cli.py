"""Commands that use the control API of a running deployment: `ranksim serve trigger` and `resend`."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias
from urllib.parse import quote

import typer

from ranksim.core.errors import BadInput

TIMEOUT_S = 30.0

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


def trigger(
    event: Annotated[str, typer.Argument(metavar="EVENT", help="job.completed, job.failed or webhook.test.")],
    url: Url = "http://127.0.0.1:8080",
    control_token: Token = "",
    account: Annotated[
        str, typer.Option(metavar="ID", help="Whose endpoints; the first production account's without.")
    ] = "",
    domain: Annotated[
        str, typer.Option(metavar="ID", help="Whose job; the first domain that an endpoint takes without.")
    ] = "",
) -> None:
    """Let a webhook event come about in a running deployment, for every endpoint that takes it.

    The job that job.completed and job.failed tell of can be read, costs nothing and counts for nothing. Each
    line says which delivery it is, of which event, to where.

    Examples:

    \b
      ranksim serve trigger job.failed --control-token as-printed
      ranksim serve trigger webhook.test --url http://127.0.0.1:8081
    """  # fmt: skip
    body = {"event": event, "account_id": account, "domain_id": domain}
    for delivery in json.loads(ask_control(url, control_token, "/trigger", body, timeout_s=TIMEOUT_S))[
        "data"
    ]:
        typer.echo(_line(delivery))


def resend(
    attempt: Annotated[
        str,
        typer.Argument(metavar="ATTEMPT", help="An attempt (att_…), or an event (evt_…): its latest."),
    ],
    url: Url = "http://127.0.0.1:8080",
    control_token: Token = "",
) -> None:
    """Deliver the event of a recorded attempt to its endpoint once more.

    The event and its payload are the same, the signature is new, attempts count from 1. The lines of
    `ranksim serve` tell events, GET /_ranksim/attempts lists attempts.

    Example: ranksim serve resend evt_0000000042 --control-token as-printed
    """
    path = f"/attempts/{quote(attempt, safe='')}/resend"
    typer.echo(_line(json.loads(ask_control(url, control_token, path, {}, timeout_s=TIMEOUT_S))))


def _line(delivery: Mapping[str, Any]) -> str:
    return f"{delivery['event_type']} {delivery['event_id']} to {delivery['endpoint_id']} {delivery['url']}"


def ask_control(
    url: str, token: str, path: str, body: dict[str, Any] | None = None, *, timeout_s: float
) -> bytes:
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
