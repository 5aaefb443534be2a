"""Options that every command takes which listens, or which uses the control API of one that does."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias, TypeVar, get_type_hints

import typer

Options = TypeVar("Options")

Host: TypeAlias = Annotated[str, typer.Option(help="The address to listen at.")]

ControlToken: TypeAlias = Annotated[
    str,
    typer.Option(
        hidden=True, help="The bearer token that the control API wants; usually made up and printed."
    ),
]

NoControlToken: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--no-control-token", hidden=True, help="Let every program of this machine use the control API."
    ),
]

ControlHost: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        hidden=True,
        help="Serve the control API under this name too, such as a tunnel's; may be repeated.",
    ),
]


def command_of(options: type[Options], run: Callable[[Options], None]) -> Callable[..., None]:
    """Return a command whose options are the fields of a dataclass, which `run` gets; its help is `run`'s."""

    def command(**given: Any) -> None:
        run(options(**given))

    command.__name__, command.__doc__ = run.__name__, run.__doc__
    command.__annotations__ = get_type_hints(options, include_extras=True)
    vars(command)["__signature__"] = inspect.signature(options)
    return command
