"""Options that every command takes which calls a deployment, or judges what one answered."""

import os
from pathlib import Path
from typing import Annotated

import typer

from ranksim.core.errors import BadInput

Host = Annotated[
    str, typer.Option(metavar="URL", help="The base URL of the deployment; localhost:8080 will do.")
]
Key = Annotated[
    str,
    typer.Option(
        envvar="RANKSIM_KEY",
        help="An API key; better in the environment, where other users of the machine do not see it.",
    ),
]
TargetFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A target file (YAML) with addresses, several keys and limits, instead of --host and --key.",
    ),
]
SpendCap = Annotated[
    str, typer.Option(metavar="AMOUNT", help="The most to spend, such as '5 USD', or none; 2 USD without.")
]
DryRunOnly = Annotated[
    bool, typer.Option("--dry-run-only", help="Spend, make and change nothing: read, and send dry runs.")
]
Exclusive = Annotated[
    bool | None,
    typer.Option(
        "--exclusive/--shared",
        help="Whether nobody else uses these accounts meanwhile. Without: as the target file says, "
        "else exclusive, but for a target file that names other machines.",
    ),
]
Gzip = Annotated[bool, typer.Option("--gzip", help="Pack the trace: trace.jsonl.gz.")]
PinnedPolicy = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Take for granted what this policy states; any other assumption stays open."
    ),
]


def hold_key(host: str, key: str, target: Path | None) -> None:
    """Put a key into the environment, where sessions read it. Raises BadInput for a host and a target."""
    from ranksim.judge.load.options import KEY

    if target is not None and host:
        raise BadInput("--host: expected either --host and --key or --target, found both")
    if key:
        os.environ[KEY] = key
