"""Help that tells what is asked for: environment variables only by --help-all, which every command has."""

from collections.abc import Callable
from typing import Any

from typer.core import TyperGroup, TyperOption

MEANT = {"--vary": "--grow", "--grow": "--vary", "--file": "--out", "--output": "--out"}
"""Options that are elsewhere called so, and what says the same."""


def tell_variables_when_asked(command: Any) -> None:
    """Take environment variables out of --help of a command and all below it; add --help-all with them."""
    for parameter in command.params:
        parameter.show_envvar = False
    command.params.append(
        TyperOption(
            param_decls=["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            allow_from_autoenv=False,
            callback=_tell_all,
            help="Show this message with the environment variables that stand for options.",
        )
    )
    command.parse_args = _parsing(command, command.parse_args)
    if isinstance(command, TyperGroup):
        for below in command.commands.values():
            tell_variables_when_asked(below)


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


def _tell_all(context: Any, parameter: TyperOption, wanted: bool) -> None:
    if not wanted:
        return
    for each in context.command.params:
        each.show_envvar = True
    print(context.get_help())
    print("\nPages of results link to the documents' site where RANKSIM_DOCS has its address.")
    context.exit()
