"""`ranksim load`: drive a deployment with Locust and record a trace, on the command line."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranksim.clock import SECOND, Micros, duration
from ranksim.errors import BadInput
from ranksim.extras import missing

if TYPE_CHECKING:
    from ranksim.callers.profiles import Profile
    from ranksim.callers.target import Target
    from ranksim.load.options import LoadOptions


def load(
    host: Annotated[
        str,
        typer.Option(metavar="URL", help="The base URL of the deployment, such as https://api.example.com."),
    ] = "",
    key: Annotated[
        str,
        typer.Option(
            envvar="RANKSIM_KEY",
            help="An API key; better in the environment, where other users of the machine do not see it.",
        ),
    ] = "",
    target: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A target file (YAML) with addresses, several keys and limits, instead of --host and --key.",
        ),
    ] = None,
    profile: Annotated[str, typer.Option(help="What to do; --profiles lists them.")] = "everyday",
    profiles: Annotated[
        bool,
        typer.Option(
            "--profiles", allow_from_autoenv=False, help="List the profiles with their aims, and stop."
        ),
    ] = False,
    users: Annotated[
        int | None, typer.Option(min=1, help="How many users; the profile's own number without.")
    ] = None,
    duration: Annotated[
        str,
        typer.Option(
            metavar="LENGTH",
            help="How long the users go on, such as 90s or 10m; the profile's own length without.",
        ),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write trace.jsonl and locust.log into this directory, which must hold no trace yet; "
            "a new one here without, such as load-burst-20260304T100000Z.",
        ),
    ] = None,
    spend_cap: Annotated[
        str, typer.Option(metavar="AMOUNT", help="The most to spend, such as '5 USD'.")
    ] = "",
    dry_run_only: Annotated[
        bool, typer.Option("--dry-run-only", help="Spend nothing: send dry runs only.")
    ] = False,
    exclusive: Annotated[
        bool | None,
        typer.Option(
            "--exclusive/--shared",
            help="Whether nobody else uses these accounts meanwhile. Without: as the target file says, "
            "and exclusive where there is none.",
        ),
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="Worker processes that share the users.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Seed of what the users draw.")] = None,
    gzip: Annotated[bool, typer.Option("--gzip", help="Pack the trace: trace.jsonl.gz.")] = False,
) -> None:
    """Drive a deployment with Locust, and record what was sent and answered as a trace.

    It finds out by itself what the key can exercise, reads the state before and after, receives webhooks
    where the deployment can reach this machine, and removes what it created. Ctrl-C ends the load early; the
    trace is complete all the same. Nobody else should use the account meanwhile, or say --shared.

    Examples:

    \b
      RANKSIM_KEY=... ranksim load --host http://127.0.0.1:8080 --duration 60s
      ranksim load --target deployment.yaml --profile burst --users 20 --out burst
    """  # fmt: skip
    from ranksim.callers import profiles as known
    from ranksim.load.options import KEY, LoadOptions

    if profiles:
        for one in known.PROFILES:
            print(f"{one.name:14} {one.aim}")
        return
    _check_locust()
    chosen = known.profile(profile)
    if key:
        os.environ[KEY] = key
    if target is not None and host:
        raise BadInput("--host: expected either --host and --key or --target, found both")
    sharing = "" if exclusive is None else "exclusive" if exclusive else "shared"
    options = LoadOptions(
        host, "" if target is None else str(target.resolve()), "" if out is None else str(out), spend_cap,
        dry_run_only, sharing, gzip, seed,
    )  # fmt: skip
    _run(options, chosen, users or chosen.users, _length(duration, chosen), processes)


def _run(options: "LoadOptions", chosen: "Profile", users: int, length: Micros, processes: int) -> None:
    from ranksim.load.launch import LaunchPlan, launch
    from ranksim.load.run import trace_path

    deployment = options.target()
    directory = options.directory(chosen.name)
    trace = trace_path(directory, options.gzip)
    if trace.name not in ("trace.jsonl", "trace.jsonl.gz"):
        raise BadInput(f"{directory}: holds a trace already; give another directory with --out")
    plan = LaunchPlan(
        profile=chosen.name,
        host=next(iter(deployment.environments.values())),
        users=users,
        seconds=length / SECOND,
        out=directory,
        trace=trace,
        variables=options.variables(),
        processes=processes,
    )
    with _progress(chosen.name) as progress:
        launch(plan, progress)
    _report(trace, deployment)


def _report(trace: Path, deployment: "Target") -> None:
    from ranksim.load.summary import Summary

    words = ["ranksim", "compare", str(trace)]
    if deployment.policy is not None:
        words += ["--policy", deployment.policy]
    lines = [*Summary.of(trace).lines(), f"trace: {trace}", f"next: {shlex.join(words)}"]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _check_locust() -> None:
    from importlib.util import find_spec

    if find_spec("locust") is None:
        raise missing("loading needs locust", "load")


def _length(text: str, chosen: "Profile") -> Micros:
    if not text:
        return chosen.duration
    try:
        length = duration(text)
    except ValueError as error:
        raise BadInput(f"--duration: {error}") from None
    if length <= 0:
        raise BadInput(f"--duration: expected a length such as 90s, found {text!r}")
    return length


@contextmanager
def _progress(name: str) -> Iterator[Callable[[float], None]]:
    """A bar on the terminal; nothing at all where stderr is none."""
    if not sys.stderr.isatty():
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"loading, {name}", total=1.0)
        yield lambda share: bar.update(task, completed=share)
