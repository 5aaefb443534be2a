"""`ranksim view`: a run on the live page, to scrub through."""

from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated

import typer

from ranksim.report.options import Port
from ranksim.twin.serving.cli_options import Host

if TYPE_CHECKING:
    from ranksim.twin.view.viewer import ShownRun

WAITS, TURN = 30.0, 0.25
"""How long a recording that has not begun is waited for, and how long between two looks, in seconds."""


def view(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A scenario, which is simulated first; a trace of run, load, check or receive; "
            "or the directory of a load or check, which may be under way.",
        ),
    ],
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Simulate with this seed, as run does. Default: the scenario's."),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 8081,
) -> None:
    """Show a run in a browser: its calls in time, why each was refused, and how things stood then.

    Of a scenario it is the first replication of `ranksim run`: its page shows clock, accounts, windows,
    jobs and webhooks at any instant. Of what was recorded elsewhere it shows calls and deliveries.
    It says its address, and serves until it is interrupted.

    Examples:

    \b
      ranksim view scenarios/quickstart.yaml
      ranksim view trace.jsonl
      ranksim check load --host http://127.0.0.1:8080 --key KEY --out results & ranksim view results
    """  # fmt: skip
    import asyncio

    from ranksim.twin.serving.control_auth import new_token
    from ranksim.twin.view.viewer import Viewer, serve_recording

    token = new_token()
    asyncio.run(serve_recording(Viewer(_recording(run, seed), token), host, port, token))


def _recording(run: Path, seed: int | None) -> "ShownRun":
    """Read or simulate what is to be shown. Raises BadInput."""
    from ranksim.core.errors import BadInput

    if run.suffix in (".yaml", ".yml"):
        from ranksim.report.terminal import say, say_code
        from ranksim.twin.sim.scenario import Scenario, client_functions
        from ranksim.twin.view.simulated import SimulatedRun

        scenario = Scenario.load(run)
        say_code(run, client_functions(scenario))
        say(f"simulating {scenario.name} …")
        return SimulatedRun(scenario, seed)
    if seed is not None:
        raise BadInput(f"--seed: {run} is no scenario, which alone is simulated; leave it out")
    if run.is_dir() or not (run.exists() or run.suffix):
        return _growing(run)
    from ranksim.twin.view.recording import TraceEvents

    return TraceEvents(run)


def _growing(run: Path) -> "ShownRun":
    """Wait until something is recorded, as by a load that was begun just now. Raises BadInput."""
    from ranksim.bridges.growing import GrowingRun, NothingYet
    from ranksim.report.terminal import say
    from ranksim.twin.serving.wall_clock import wall

    for turn in range(round(WAITS / TURN)):
        try:
            return GrowingRun(run, wall)
        except NothingYet:
            if turn == 0:
                say(f"{run}: nothing is recorded there yet; waiting for {WAITS:.0f} s")
            sleep(TURN)
    return GrowingRun(run, wall)
