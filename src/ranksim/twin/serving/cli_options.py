"""Options that every command takes which listens, or which uses the control API of one that does."""

from typing import Annotated, TypeAlias

import typer

Host: TypeAlias = Annotated[str, typer.Option(help="The address to listen at.")]

ControlToken: TypeAlias = Annotated[
    str, typer.Option(help="The bearer token that the control API wants; usually made up and printed.")
]

NoControlToken: TypeAlias = Annotated[
    bool, typer.Option("--no-control-token", help="Let every program of this machine use the control API.")
]

ControlHost: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Serve the control API under this name too, such as a tunnel's; may be repeated.",
    ),
]
