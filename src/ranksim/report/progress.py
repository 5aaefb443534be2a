"""How far something is that takes long: a bar on a terminal, a line now and then in a pipe or a notebook."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager as Context
from contextlib import contextmanager, nullcontext
from typing import Any, TypeAlias

from ranksim.core.clock import SECOND
from ranksim.core.printable import printable

Tell: TypeAlias = Callable[[float | None, str], None]
"""Told how much of the work is done, a share between 0 and 1 or None where nobody knows, and what to say."""

PATIENCE = 5.0
"""Seconds before the first line in a pipe or a notebook, and between two of them."""


def show_progress(what: str) -> Context[Tell]:
    """Show on stderr how far a command is: a bar with the time left, or lines where that is a pipe."""
    return _bar(what) if sys.stderr.isatty() else nullcontext(Lines(what, _to_stderr))


def noted(what: str, given: Tell | None) -> Context[Tell]:
    """Tell whoever was `given`, or else the notebook in which somebody sits; nobody elsewhere."""
    if given is not None:
        return nullcontext(given)
    return _note(what) if _is_watched() else nullcontext(nobody)


def part(tell: Tell, begin: float, end: float) -> Tell:
    """Return who is told of a part of the work, which is the whole's from the share `begin` to `end`."""

    def tell_part(share: float | None, text: str) -> None:
        tell(None if share is None else begin + min(1.0, share) * (end - begin), text)

    return tell_part


def shares(tell: Tell) -> Callable[[float], None]:
    """Return who is told the share alone, where there is nothing to say beside it."""
    return lambda share: tell(share, "")


class Lines:
    """Lines of text, at most one each `PATIENCE` seconds and none before: how far it is, and what is left."""

    def __init__(
        self, what: str, write: Callable[[str], object], now: Callable[[], float] = time.monotonic
    ) -> None:
        self.what, self.write, self.now = what, write, now
        self.began = self.last = now()

    def __call__(self, share: float | None, text: str) -> None:
        """Write a line, if it is time for one."""
        now = self.now()
        if now - self.last < PATIENCE:
            return
        self.last = now
        from ranksim.report.units import duration, percent  # which would make every --help slow

        parts = [text] if text else []
        if share:
            left = (now - self.began) * (1 - share) / share
            parts.append(f"{percent(share)}, about {duration(round(left) * SECOND)} left")
        self.write(f"{self.what}: {'; '.join(parts) or duration(round(now - self.began) * SECOND)}")


def _to_stderr(line: str) -> None:
    print(f"ranksim: {printable(line)}", file=sys.stderr, flush=True)


@contextmanager
def _bar(what: str) -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def tell(share: float | None, text: str) -> None:
            line = printable(f"{what}, {text}" if text else what)
            bar.update(task, total=None if share is None else 1.0, completed=share or 0, description=line)

        yield tell


# Notebooks


def _is_watched() -> bool:
    """Whether a person's notebook runs this; what converts or tests one takes no input, and shows nothing."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    message: Any = kernel.get_parent("shell") if kernel is not None else {}
    return bool(message.get("content", {}).get("allow_stdin"))


@contextmanager
def _note(what: str) -> Iterator[Tell]:
    """One line below the cell, which is replaced, and empty in the end; none where it was soon over."""
    from IPython import display

    untyped: Any = display
    place = untyped.DisplayHandle()
    written: list[str] = []

    def write(line: str) -> None:
        put = place.update if written else place.display
        put({"text/plain": line}, raw=True)
        written.append(line)

    try:
        yield Lines(what, write)
    finally:
        if written:
            place.update({"text/plain": ""}, raw=True)


def nobody(share: float | None, text: str) -> None:
    """Tell nobody."""
