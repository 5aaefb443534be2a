"""`ranksim capacity load`: how many users a deployment bears."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranksim.core.errors import BadInput, read_at
from ranksim.judge.load.cli_options import DryRunOnly, Exclusive, Host, Key, SpendCap, TargetFile, hold_key
from ranksim.planner.capacity.command import give
from ranksim.planner.question import command

if TYPE_CHECKING:
    from ranksim.bridges.load_capacity import LoadCapacity


def load(
    threshold: Annotated[
        str, typer.Argument(metavar="THRESHOLD", help="What must hold, such as 'p95 < 500ms'.")
    ],
    host: Host = "",
    key: Key = "",
    target: TargetFile = None,
    profile: Annotated[str, typer.Option(help="What the users do.")] = "everyday",
    first: Annotated[int, typer.Option(min=1, help="How many users to begin with.")] = 10,
    most: Annotated[int, typer.Option(min=1, help="How many users to try at most.")] = 640,
    duration: Annotated[str, typer.Option(metavar="LENGTH", help="How long each load goes on.")] = "30s",
    traces: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the traces of the loads below this directory.")
    ] = None,
    spend_cap: SpendCap = "",
    dry_run_only: DryRunOnly = False,
    exclusive: Exclusive = None,
    processes: Annotated[int, typer.Option(min=1, help="Worker processes that share the users.")] = 1,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before making what cannot be removed again.")
    ] = False,
) -> "LoadCapacity":
    """How many users a deployment bears before a threshold no longer holds.

    Each load is one of `ranksim check load`, which makes what it needs and removes it. The users are doubled,
    then halved between, until the answer is known to a twentieth. All loads together spend at most
    --spend-cap.

    Example: ranksim capacity load 'p95 < 500ms' --target deployment.yaml --first 10
    """
    from tempfile import TemporaryDirectory

    from ranksim.bridges.load_capacity import LoadCapacity, Loads, largest_load
    from ranksim.bridges.load_cli import agreed, check_locust
    from ranksim.judge.load.options import LoadOptions, length_of
    from ranksim.judge.load.thresholds import Threshold
    from ranksim.judge.profiles import profile as profile_named

    check_locust()
    limit = read_at("THRESHOLD", Threshold.parse, threshold)
    if limit.metric == "rate":
        raise BadInput("THRESHOLD: more users always call more often; expected a latency or a share")
    chosen, length = profile_named(profile), length_of(duration, "--duration")
    hold_key(host, key, target)
    options = LoadOptions.from_arguments(
        host, target or "", "", spend_cap, dry_run_only, exclusive, False, None
    )
    deployment = options.target()
    if not agreed(deployment, yes=yes):
        raise BadInput("--yes: expected agreement to what cannot be removed again")
    with TemporaryDirectory(prefix="ranksim-loads-") as folder:
        runs = Loads(options, chosen.name, length, processes, traces or Path(folder))
        return LoadCapacity(limit, largest_load(lambda users: runs.measure(users, limit), first, most))


QUESTIONS = {"load": (command(load, give), (load.__doc__ or "").splitlines()[0])}
"""What `ranksim capacity` answers by loading a deployment."""
