"""What every command shares: the app and its settings, signals, exit codes, and how mistakes are told."""

import inspect
import io
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Annotated, Any, TypeAlias, get_type_hints

import typer
from typer.core import TyperGroup

from ranksim.core.errors import BadInput
from ranksim.core.version import VERSION
from ranksim.report.terminal import print_out, say

FAILED, BAD_INPUT, FAULT, INTERRUPTED, PIPE_CLOSED = 1, 2, 70, 130, 141
"""Exit codes. 70 (EX_SOFTWARE of sysexits.h) is a fault of ranksim: it accuses nobody and blames no input."""


def new_app(group: type[TyperGroup] | None = None) -> typer.Typer:
    """Make a command line without commands yet, of a class that says how they are listed."""
    app = typer.Typer(
        name="ranksim",
        cls=group,
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={
            "auto_envvar_prefix": "RANKSIM",
            "help_option_names": ["-h", "--help"],
            "max_content_width": 100,
        },
    )
    app.callback()(_root)
    return app


Commands: TypeAlias = Mapping[str, tuple[Callable[..., None], str]]
"""By name a function, and what the list of commands says of it."""


def add_commands(app: typer.Typer, commands: Commands, renamed: Mapping[str, str] | None = None) -> None:
    """Add commands to an app, or to a group of one.

    `renamed` has the present name by the former name of some, under which they stay, unlisted.
    """
    for name, (function, line) in commands.items():
        new = (renamed or {}).get(name)
        command = spoken()(function if new is None else _renamed(function, name, new))
        app.command(name, short_help=line, hidden=new is not None)(command)


def add_group(
    app: typer.Typer,
    name: str,
    line: str,
    commands: Commands,
    alone: Callable[..., None] | None = None,
    group: type[TyperGroup] | None = None,
    hidden: bool = False,
) -> typer.Typer:
    """Add a group of commands to an app, and return it; `alone` is what it does where none is named."""
    made = typer.Typer(no_args_is_help=alone is None, rich_markup_mode=None, cls=group)
    first = (lambda: None) if alone is None else _unless_below(spoken()(alone))
    made.callback(invoke_without_command=alone is not None)(first)
    add_commands(made, commands)
    app.add_typer(made, name=name, short_help=line, help=alone.__doc__ if alone else line, hidden=hidden)
    return made


def _unless_below(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command that does nothing where one below it is named, and takes no options then."""

    def command(ctx: typer.Context, **options: Any) -> None:
        if ctx.invoked_subcommand is None:
            function(**options | ({"ctx": ctx} if takes_ctx else {}))
        elif misplaced := [name for name in options if _is_from_line(ctx, name)]:
            option = f"--{misplaced[0].replace('_', '-')}"
            with spoken():
                raise BadInput(f"{option}: expected after {ctx.invoked_subcommand!r}, if it takes it")

    signature = inspect.signature(function)
    takes_ctx = "ctx" in signature.parameters
    own = [each for each in signature.parameters.values() if each.name != "ctx"]
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__annotations__ = get_type_hints(function, include_extras=True) | {"ctx": typer.Context}
    vars(command)["__signature__"] = signature.replace(parameters=[context, *own])
    return command


def _is_from_line(ctx: typer.Context, name: str) -> bool:
    """Return whether an option was stated on the command line."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _renamed(function: Callable[..., None], name: str, new: str) -> Callable[..., None]:
    """Return a command that says first how it is called now."""

    @wraps(function)
    def command(**options: Any) -> None:
        say(f"`ranksim {name}` is `ranksim {new}` now; the former name goes with the next version")
        function(**options)

    return command


def run_app(app: typer.Typer) -> None:
    """Run a command line with the arguments of this process."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends it so wants no remains either
    sys.unraisablehook = _interrupt_again
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without "±" shows "?" and goes on
    try:
        command = typer.main.get_command(app)
        tell_variables_when_asked(command)
        command()
    except KeyboardInterrupt:  # before a command has begun
        say("interrupted; nothing was written")
        sys.exit(INTERRUPTED)
    except Exception as error:
        say(reported_fault(error))
        sys.exit(FAULT)


def _interrupt_again(unraised: "sys.UnraisableHookArgs") -> None:
    """Deliver again an interrupt that came where none can be raised: in a finalizer, or inside pydantic."""
    main = threading.main_thread().ident
    if main is None or not issubclass(unraised.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraised)
        return
    # Not at once: it would be raised in this very hook, and be lost again.
    again = threading.Timer(0.02, signal.pthread_kill, (main, signal.SIGINT))
    again.daemon = True
    again.start()


def reported_fault(error: Exception) -> str:
    """Return the sentence about an unexpected exception; its traceback goes to a file of its own."""
    lines = traceback.format_exception(error)
    where = "its traceback could not be written"
    with suppress(OSError):
        handle, path = tempfile.mkstemp(prefix="ranksim-fault-", suffix=".txt")
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"ranksim {VERSION}, Python {sys.version}\n{''.join(lines)}")
        where = f"report it to the developers of ranksim with {path}, as CONTRIBUTING.md says"
    last = " ".join(lines[-1].split())
    return f"a fault of ranksim, not of what it was given ({last[:200]}); {where}"


def _open_closed_streams() -> None:
    """Put the null device where a standard stream was closed, before a file or socket gets its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _version(wanted: bool) -> None:
    if wanted:
        with spoken():
            print_out(f"ranksim {VERSION}\n")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            allow_from_autoenv=False,
            help="Print the version and stop.",
        ),
    ] = False,
) -> None:
    """A digital twin of a rank-tracking API: its limits, spending guards, jobs and webhooks, simulated.

    Begin with: ranksim run scenarios/quickstart.yaml
    """


@contextmanager
def spoken() -> Iterator[None]:
    """Turn what can go wrong into one line on stderr and an exit code."""
    try:
        yield
    except BadInput as error:
        say(str(error))
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt:
        say("interrupted; nothing was written")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # What is left in the buffer must not be tried again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(PIPE_CLOSED) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        say(f"{where}cannot be written or read ({error.strerror}); free some space or give another path")
        raise typer.Exit(BAD_INPUT) from None


# Help: environment variables and hidden options only by --help-all, which every command has

MEANT = {"--vary": "--grow", "--grow": "--vary", "--file": "--out", "--output": "--out"}
"""Options that are elsewhere called so, and what says the same."""


def tell_variables_when_asked(command: Any, help_all: Any = None) -> None:
    """Take environment variables out of --help of a command and all below it; add --help-all with them."""
    help_all = help_all or _help_all()
    for parameter in command.params:
        parameter.show_envvar = False
    command.params.append(help_all)
    command.parse_args = _parsing(command, command.parse_args)
    for below in getattr(command, "commands", {}).values():
        tell_variables_when_asked(below, help_all)


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
                help="Show all options, and the environment variables that stand for them.",
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
                names = sorted(name for parameter in command.params for name in parameter.opts)
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
        vars(each).update(show_envvar=True, hidden=False)  # of options, and arguments take no notice
    print(context.get_help())
    print("\nPages of results link to the documents' site where RANKSIM_DOCS has its address.")
    raise typer.Exit
