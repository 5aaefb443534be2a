"""`ranksim view`: a run on the live page, to scrub through."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol
from urllib.parse import parse_qs

import typer

from ranksim.serving.cli_options import Host

if TYPE_CHECKING:
    from ranksim.clock import Micros
    from ranksim.serving.asgi import Receive, Scope, Send
    from ranksim.view.recording import Shown


class ShownRun(Protocol):
    """What the page can show of a run."""

    def overview(self) -> "Shown":
        """Return from when to when it goes, and how much is in it."""

    def until(self, instant: "Micros") -> "Shown":
        """Return the last events up to an instant, and the state then, if it is known."""

    def exchange(self, number: int) -> "Shown | None":
        """Return the exchange of an event."""


class Viewer:
    """An ASGI app: the live page, and the run that it shows; `token` is what it wants, "" for none."""

    def __init__(self, recording: ShownRun, token: str) -> None:
        self._recording, self._token = recording, token

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer one request."""
        from pydantic_core import to_json

        from ranksim.facade.control.dispatch import refuse, send_json
        from ranksim.facade.page import serving as page
        from ranksim.serving.control_auth import refusal
        from ranksim.serving.parsing import whole_number

        path: str = scope["path"]
        wanted = page.is_wanted(path, scope)
        token = self._token if not wanted or page.is_document(path) else None
        refused = refusal(token, scope, ())
        if wanted and (refused is None or refused[0] == 401):
            await page.send_file(send, path, 401 if refused else 200, body=scope["method"] != "HEAD")
            return
        if refused is not None:
            await refuse(send, *refused)
            return
        query = parse_qs(scope["query_string"].decode("latin-1"))
        found = None
        if path == "/_ranksim/overview":
            found = await asyncio.to_thread(self._recording.overview)
        elif path == "/_ranksim/recording":
            found = self._recording.until(whole_number(query.get("until", ["0"])[-1]) or 0)
        elif path.startswith("/_ranksim/requests/"):
            found = self._recording.exchange(whole_number(path.rpartition("/")[2]) or 0)
        if found is None or scope["method"] not in ("GET", "HEAD"):
            await refuse(send, 404, "There is nothing here; a recording has its page and what that asks for.")
            return
        await send_json(send, 200, to_json(found), body=scope["method"] != "HEAD")


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
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8081,
) -> None:
    """Show a run in a browser: its calls in time, why each was refused, and how things stood then.

    Of a scenario it is the first replication of `ranksim run`: its page shows clock, accounts, windows,
    jobs and webhooks at any instant. Of what was recorded elsewhere it shows calls and deliveries.
    It says its address, and serves until it is interrupted.

    Examples:

    \b
      ranksim view scenarios/quickstart.yaml
      ranksim view trace.jsonl
      ranksim load --host http://127.0.0.1:8080 --key KEY --out results & ranksim view results
    """  # fmt: skip
    from ranksim.serving.control_auth import new_token

    token = new_token()
    asyncio.run(_serve(Viewer(_recording(run, seed), token), host, port, token))


def _recording(run: Path, seed: int | None) -> ShownRun:
    """Read or simulate what is to be shown. Raises BadInput."""
    from ranksim.errors import BadInput

    if run.suffix in (".yaml", ".yml"):
        from ranksim.report.terminal import say
        from ranksim.sim.scenario import Scenario
        from ranksim.view.simulated import SimulatedRun

        scenario = Scenario.load(run)
        say(f"simulating {scenario.name} …")
        return SimulatedRun(scenario, seed)
    if seed is not None:
        raise BadInput(f"--seed: {run} is no scenario, which alone is simulated; leave it out")
    if run.is_dir():
        from ranksim.serving.wall_clock import wall
        from ranksim.view.growing import GrowingRun

        return GrowingRun(run, wall)
    from ranksim.view.recording import TraceEvents

    return TraceEvents(run)


async def _serve(viewer: Viewer, host: str, port: int, token: str) -> None:
    from ranksim.serving.listener import Listener

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    listener = await Listener(viewer, host, port).open()
    sys.stdout.write(f"ranksim shows the run at {listener.url}/?token={token}; stop it with Ctrl-C\n")
    sys.stdout.flush()
    await stopped.wait()
    await listener.close()
