"""Help that tells what is asked for: environment variables only by --help-all, which every command has."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

MEANT = {"--vary": "--grow", "--grow": "--vary", "--file": "--out", "--output": "--out"}
"""Options that are elsewhere called so, and what says the same."""


def tell_variables_when_asked(command: Any) -> None:
    """Take environment variables out of --help of a command and all below it; add --help-all with them."""
    _tell_variables_by(command, _help_all())


def _tell_variables_by(command: Any, help_all: Any) -> None:
    for parameter in command.params:
        parameter.show_envvar = False
    command.params.append(help_all)
    command.parse_args = _parsing(command, command.parse_args)
    for below in getattr(command, "commands", {}).values():
        _tell_variables_by(below, help_all)


def _help_all() -> Any:
    """Return the option --help-all as Typer makes it, which keeps to itself how its options are made."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def holder(
        help_all: Annotated[
            bool,
            typer.Option(
                "--help-all",
                is_eager=True,
                expose_value=False,
                show_default=False,
                allow_from_autoenv=False,
                callback=_print_all,
                help="Show this message with the environment variables that stand for options.",
            ),
        ] = False,
    ) -> None: ...

    [option] = [each for each in typer.main.get_command(app).params if "--help-all" in each.opts]
    return option


def _parsing(command: Any, parse: Callable[..., Any]) -> Callable[..., Any]:
    """Parse as a command does, but suggest for an unknown option what begins so, if anything does."""

    def parse_args(*given: Any) -> Any:
        try:
            return parse(*given)
        except Exception as error:  # "no such option", of Click's or of the copy that typer has
            if hasattr(error, "possibilities") and hasattr(error, "option_name"):
                names = sorted(name for one in command.params for name in one.opts)
                begun = [name for name in names if name.startswith(error.option_name)]
                error.possibilities = begun or _meant(error.option_name, names)
            raise

    return parse_args


def _meant(given: str, names: list[str]) -> list[str]:
    """Return the options that come near one that there is not, by their letters: all begin with dashes."""
    from difflib import get_close_matches

    if MEANT.get(given) in names:
        return [MEANT[given]]
    return [f"--{name}" for name in get_close_matches(given.strip("-"), [name[2:] for name in names])]


def _print_all(context: typer.Context, wanted: bool) -> None:
    if not wanted:
        return
    for each in context.command.params:
        each.show_envvar = True  # type: ignore[attr-defined]  # of options, and arguments take no notice
    print(context.get_help())
    print("\nPages of results link to the documents' site where RANKSIM_DOCS has its address.")
    raise typer.Exit
