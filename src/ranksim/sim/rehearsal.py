"""A load run in virtual time: the programs of a profile against the rulebook, without sockets or waiting.

It shows what a profile exercises, refuses and costs before real money is spent, and makes traces by the
thousand for trying the judges.
"""

from __future__ import annotations

from pathlib import Path

from ranksim.callers.budget import Purse, guarded
from ranksim.callers.discovery import Reach, explore, state
from ranksim.callers.lost_calls import resolve
from ranksim.callers.network import Network
from ranksim.callers.profiles import Profile
from ranksim.callers.target import Target
from ranksim.clock import Micros
from ranksim.sim.rehearsal_loop import START, Alter, Deployment, Stage
from ranksim.trace import Trace

__all__ = ["START", "Alter", "Deployment", "Network", "Stage", "rehearse"]


def rehearse(
    profile: Profile,
    service: Deployment,
    target: Target,
    *,
    users: int | None = None,
    duration: Micros | None = None,
    seed: int = 0,
    network: Network = Network(),  # noqa: B008  # immutable
    start: Micros = START,
    skew: Micros = 0,
    alter: Alter | None = None,
    purse: Purse | None = None,
    path: Path | None = None,
) -> Trace:
    """Run a profile against a service in virtual time, and give the trace that a recorder would have written.

    The order is that of a real run: explore, read the state, the users for `duration` µs or until all their
    programs end, resolve lost calls, read the state. Nothing is tidied up, since nothing is left. The trace's
    clock begins at `start`; the deployment's is `skew` ahead, and runs by the scales of `target`. With `path`
    the trace is written there.
    """
    stage = Stage(service, target, network, seed, start, skew, alter)
    reach: Reach = stage.alone(explore(target))
    spending = Purse(target.spend_cap, target.dry_run_only) if purse is None else purse
    spending.accounts = {key.name: key.account for key in reach.keys.values()}
    count = profile.users if users is None else users
    stage.alone(state(reach))
    programs = [guarded(profile.program(reach, user, count, seed), spending) for user in range(count)]
    stage.together(programs, stage.now + (profile.duration if duration is None else duration))
    stage.alone(guarded(resolve(reach, stage.unknown), spending))
    stage.alone(state(reach))
    trace = stage.finish(reach)
    if path is not None:
        trace.write(path)
    return trace
