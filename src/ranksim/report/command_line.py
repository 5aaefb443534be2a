"""What every command shares: the app and its settings, signals, exit codes, and how mistakes are told."""

import io
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

import typer

from ranksim.core.errors import BadInput
from ranksim.core.version import VERSION
from ranksim.report.help import tell_variables_when_asked
from ranksim.report.terminal import print_out, say

FAILED, BAD_INPUT, FAULT, INTERRUPTED, PIPE_CLOSED = 1, 2, 70, 130, 141
"""Exit codes. 70 (EX_SOFTWARE of sysexits.h) is a fault of ranksim: it accuses nobody and blames no input."""


def new_app() -> typer.Typer:
    """Make a command line without commands yet."""
    app = typer.Typer(
        name="ranksim",
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


def run(app: typer.Typer) -> None:
    """Run a command line with the arguments of this process."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends it so wants no remains either
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
        say(_fault(error))
        sys.exit(FAULT)


def _fault(error: Exception) -> str:
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
