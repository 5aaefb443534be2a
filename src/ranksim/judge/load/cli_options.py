"""Options that every command takes which calls a deployment."""

from pathlib import Path
from typing import Annotated

import typer

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
