"""`ranksim capacity …`: the ready questions of capacity planners on the command line, a module each.

Every flag also has an environment variable, made by typer: RANKSIM_CAPACITY_SLOTS_KEYWORDS is `--keywords` of
`ranksim capacity slots`.
"""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

from ranksim.planner.capacity import questions
from ranksim.planner.capacity.command import PORTFOLIO, give, read_portfolio, with_settings
from ranksim.planner.question import command

FIRST = ("slots", "sync", "workers", "outage", "fit", "portfolio")
"""The order of the help; questions that are not named here follow by name."""


def _question(name: str) -> tuple[Callable[..., None], str]:
    """Return the command of a question, and its short help."""
    module = import_module(f"{questions.__name__}.{name}")
    return command(getattr(module, name), give, PORTFOLIO, read_portfolio, with_settings=with_settings), (
        module.__doc__ or ""
    ).splitlines()[0]


_NAMES = {module.name for module in iter_modules(questions.__path__)}

QUESTIONS = {name: _question(name) for name in (*FIRST, *sorted(_NAMES.difference(FIRST)))}
"""Name of a command to its function and its short help."""
