"""A deployment loaded from Python, as `ranksim load` does it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from ranksim.core.callers.target import Target
from ranksim.core.clock import SECOND, Micros
from ranksim.core.errors import BadInput
from ranksim.judge.deployment.cleanup import Left
from ranksim.judge.load.launch import LOCUSTFILE, LaunchPlan, launch
from ranksim.judge.load.leaked_resources import created_in, explored, left_over, recorded, tidy
from ranksim.judge.load.options import LoadOptions, key_in_environment, length_of
from ranksim.judge.load.recorder import AnchoredClock
from ranksim.judge.load.run import TIDYING, trace_path
from ranksim.judge.profiles import profile as profile_named


def load(
    host: str = "",
    *,
    key: str = "",
    target: str | Path = "",
    profile: str = "everyday",
    length: str | timedelta | None = None,
    users: int | None = None,
    processes: int = 1,
    spend_cap: str = "",
    dry_run_only: bool = False,
    exclusive: bool | None = None,
    out: str | Path = "",
    gzip: bool = False,
    seed: int | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Path:
    """Drive a deployment with Locust, in a process of its own, and return the trace that it recorded.

    It has a base URL and a key, which without `key` is that of the environment variable RANKSIM_KEY, or is
    told by a `target` file. `length` ("90s", or a timedelta) and `users` are the profile's unless given;
    `spend_cap` is an amount such as "5 USD", "none" for no cap, and 2 USD without; `out` is a new directory
    unless given. `progress` is told the share (0 to 1) of the length that has passed. Raises BadInput.
    """
    options = LoadOptions.from_arguments(host, target, out, spend_cap, dry_run_only, exclusive, gzip, seed)
    chosen = profile_named(profile)
    with key_in_environment(key):
        return run_load(
            options,
            profile=chosen.name,
            length=chosen.duration if length is None else length_of(length),
            users=users or chosen.users,
            processes=processes,
            progress=progress,
        )


def run_load(
    options: LoadOptions,
    *,
    profile: str,
    length: Micros,
    users: int,
    processes: int,
    progress: Callable[[float], None],
    locustfile: str = "",
) -> Path:
    """Run Locust for so long (µs) and return the trace. Raises BadInput where there is one already.

    `locustfile` is the text of one in place of the profile's own.
    """
    directory = options.directory(profile)
    trace = trace_path(directory, options.gzip)
    if trace.name not in ("trace.jsonl", "trace.jsonl.gz"):
        raise BadInput(f"{directory}: holds a trace already; give another directory with --out")
    plan = LaunchPlan(
        locustfile=locustfile or LOCUSTFILE.format(profile=profile),
        host=next(iter(options.target().environments.values())),
        users=users,
        seconds=length / SECOND,
        out=directory,
        trace=trace,
        variables=options.variables(),
        processes=processes,
    )
    launch(plan, progress, lambda directory: _tidied(options.target(), directory))
    return trace


def _tidied(target: Target, directory: Path) -> list[Left]:
    """Remove what a run created whose process was killed; return what is left."""
    clock = AnchoredClock.here()
    until = clock.now() + TIDYING
    try:
        reach = explored(target, clock, until)
    except BadInput:
        return left_over(recorded(directory))
    return tidy(reach, created_in(recorded(directory)), clock, until).listed()
