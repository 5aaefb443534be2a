"""What commands share that write results: text for stdout, a sign of life, an early look at where they go."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING, Any

from ranksim.core.errors import BadInput
from ranksim.core.printable import LINES, printable

if TYPE_CHECKING:
    import typer
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult


class Styled(str):
    """Text with our colours; what others wrote in it is escaped. A notebook shows its lines."""

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self)


class Escaped:
    """A part for rich in which nothing but rich moves the cursor or changes colours."""

    def __init__(self, part: RenderableType) -> None:
        self._part = part

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        for segment in console.render(self._part, options):
            safe = segment.control or segment.text.isprintable()
            yield segment if safe else Segment(printable(segment.text, LINES), segment.style)


WIDEST = 100_000
"""Columns of what has no width, such as a pipe."""


def rendered(parts: Iterable[RenderableType]) -> Styled:
    """The text of some parts for stdout: as wide as the terminal, in colour on a terminal alone.

    What is no terminal has no width, unless COLUMNS says so: nothing is broken or stacked there.
    """
    from rich.console import Console

    console = Console(highlight=False, force_jupyter=False)
    if not _has_width():
        console.width = WIDEST
    with console.capture() as capture:
        for part in parts:
            console.print(Escaped(part))
    return Styled("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def wrapped(text: str, hanging: int | None = None) -> str:
    """Lines of text broken between words where the terminal ends, under where they begin; not in a pipe.

    With `hanging` what is broken goes on at that column.
    """
    if not _has_width():
        return text
    width = get_terminal_size().columns
    return "".join(_broken(line, width, hanging) + "\n" for line in text.splitlines())


def _broken(line: str, width: int, hanging: int | None) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    further = indent + "  " if hanging is None else " " * hanging
    return fill(
        line.lstrip(), width, initial_indent=indent, subsequent_indent=further, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _has_width() -> bool:
    """Whether stdout is a terminal, or COLUMNS says how wide it is to be taken for."""
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def print_out(*parts: str) -> None:
    """Print what was asked for, on stdout; what is not `Styled` has nothing that a terminal obeys."""
    sys.stdout.write("".join(part if isinstance(part, Styled) else printable(part, LINES) for part in parts))
    sys.stdout.flush()


def say(message: str) -> None:
    """Tell on stderr what the user must know beside it: a line, or one for each mistake of a file."""
    for line in message.splitlines():
        print("ranksim: " + printable(" ".join(line.split())), file=sys.stderr, flush=True)


def say_code(path: Path, functions: Iterable[str]) -> None:
    """Tell which Python a file names, before it is imported and run: a file of others' may name anything."""
    if named := ", ".join(functions):
        say(f"{path}: runs Python code that it names: {named}")


def check_results(out: Path | None, plots: bool, *files: Path | None) -> None:
    """Check before a long run that its results can be written. Raises BadInput.

    `files` are what is written beside the directory `out`.
    """
    if out is None:
        return
    from ranksim.core.files import check_apart, check_directory
    from ranksim.report.figure import check_matplotlib

    check_directory(out)
    check_apart(out, files)
    if plots:
        try:
            check_matplotlib()
        except BadInput as error:
            raise BadInput(f"{error}, or give --no-plots") from None


UNSAID = ("out", "plots", "json", "store")
"""Options that say where results go or how they are told, not what is asked."""


def again(context: typer.Context, kind: str) -> str:
    """Return the command that asks the same again: what was given, in words or by environment variables.

    `kind` is the command's name, such as price compare.
    """
    words = ["ranksim", *kind.split()]
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name in UNSAID or source is None or source.name.startswith("DEFAULT"):
            continue
        value = context.params[name]
        if isinstance(value, bool):
            words.append((parameter.opts if value else parameter.secondary_opts)[0])
            continue
        for word in map(str, value if isinstance(value, list | tuple) else (value,)):
            words += [*parameter.opts[:1], word] if parameter.opts[0].startswith("-") else [word]
    return shlex.join(words)


def plan_names(incomplete: str) -> list[str]:
    """Return the plans that a shell completes a word to: those of the shipped catalogues."""
    from ranksim.core.contract.policy import CATALOGUES, shipped_catalogue

    names = dict.fromkeys(name for catalogue in CATALOGUES for name in shipped_catalogue(catalogue).plans)
    return [name for name in names if name.startswith(incomplete)]
