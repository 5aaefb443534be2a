"""`ranksim trigger` and `ranksim resend`: webhooks of a running deployment, made by hand."""

import json
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from ranksim.twin.facade.control_client import Token, Url, ask

TIMEOUT_S = 30.0


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
      ranksim trigger job.failed --control-token as-printed
      ranksim trigger webhook.test --url http://127.0.0.1:8081
    """  # fmt: skip
    body = {"event": event, "account_id": account, "domain_id": domain}
    for delivery in json.loads(ask(url, control_token, "/trigger", body, timeout_s=TIMEOUT_S))["data"]:
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

    Example: ranksim resend evt_0000000042 --control-token as-printed
    """
    path = f"/attempts/{quote(attempt, safe='')}/resend"
    typer.echo(_line(json.loads(ask(url, control_token, path, {}, timeout_s=TIMEOUT_S))))


def _line(delivery: Mapping[str, Any]) -> str:
    return f"{delivery['event_type']} {delivery['event_id']} to {delivery['endpoint_id']} {delivery['url']}"
