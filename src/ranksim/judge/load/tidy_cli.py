"""`ranksim check tidy`: remove what earlier runs created, by the marks that it carries."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranksim.core.errors import BadInput
from ranksim.judge.load.cli_options import Host, Key, TargetFile, hold_key

if TYPE_CHECKING:
    from ranksim.judge.deployment.cleanup import Created, Remains

SOMETHING_LEFT = 1


def tidy(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="The results of a check or a load, whose marks are meant."),
    ] = None,
    mark: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="What carries this, such as ranksim-9a313c9f; may be repeated."),
    ] = None,
    host: Host = "",
    key: Key = "",
    target: TargetFile = None,
    show: Annotated[bool, typer.Option("--list", help="List what is there, and remove nothing.")] = False,
    time: Annotated[str, typer.Option(metavar="LENGTH", help="How long it may take at most.")] = "10m",
) -> None:
    """Remove what earlier runs created and did not remove: what carries their marks, and nothing else.

    A mark is what hosts, names and keywords begin with that a check or a load makes up. A directory of
    results tells all of its run's; each task of a check has its own. With neither a directory nor a mark it
    lists the marks that are there. Exit code 1 says that something is left.

    Examples:

    \b
      RANKSIM_KEY=... ranksim check tidy check-20260304T100000Z --host https://api.example.com
      RANKSIM_KEY=... ranksim check tidy --mark ranksim-9a313c9f --host https://api.example.com
    """  # fmt: skip
    from ranksim.judge.load.leaked_resources import explored
    from ranksim.judge.load.leaked_resources import tidy as tidied
    from ranksim.judge.load.options import LoadOptions, length_of, writable
    from ranksim.judge.load.recorder import AnchoredClock
    from ranksim.report.terminal import print_out

    hold_key(host, key, target)
    created = _created(directory, mark or [])
    deployment = writable(LoadOptions(host, "" if target is None else str(target)).target())
    clock = AnchoredClock.here()
    until = clock.now() + length_of(time, "--time")
    reach = explored(deployment, clock, until)
    removing = bool(created.marks) and not show
    remains = tidied(reach, created, clock, until, removing=removing)
    lines = _what_is_there(remains, removing) if created.marks else _marks(remains)
    print_out("".join(f"{line}\n" for line in lines))
    if removing and remains.listed():
        raise typer.Exit(SOMETHING_LEFT)


def _what_is_there(remains: "Remains", removing: bool) -> list[str]:
    """Say what is left, or what there is where nothing was removed."""
    from dataclasses import asdict

    from ranksim.judge.report.run_summary import left_lines

    lines = left_lines([asdict(thing) for thing in remains.listed()])
    return (
        ["left:" if removing else "there is:", *(f"  {line}" for line in lines)]
        if lines
        else ["nothing is left"]
    )


def _marks(remains: "Remains") -> list[str]:
    """Say which marks things there carry, and how many things each."""
    from ranksim.report import units

    lines = [f"{name}: {units.many(count, 'thing')}" for name, count in sorted(remains.others.items())]
    return lines or ["nothing carries a mark"]


def _created(directory: Path | None, marks: list[str]) -> "Created":
    """Return what is meant: by the marks of a directory's run, and those that are named. Raises BadInput."""
    from ranksim.judge.deployment.cleanup import MARK, Created
    from ranksim.judge.load.leaked_resources import created_in, recorded_lines

    for mark in marks:
        if MARK.fullmatch(mark) is None:
            raise BadInput(f"--mark: expected a mark such as ranksim-9a313c9f, found {mark!r}")
    if directory is None:
        return Created(frozenset(marks))
    created = created_in(recorded_lines(directory))
    if not created.marks:
        raise BadInput(f"{directory}: its run created nothing that carries a mark")
    return Created(created.marks.union(marks), created.urls)
