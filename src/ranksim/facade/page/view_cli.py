"""`ranksim view`: a recorded trace in the live page, to scrub through."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qs

import typer

from ranksim.serving.cli_options import Host

if TYPE_CHECKING:
    from ranksim.facade.page.recording import TraceEvents
    from ranksim.serving.asgi import Receive, Scope, Send


class Viewer:
    """An ASGI app: the live page, and the trace that it shows; `token` is what it wants, "" for none."""

    def __init__(self, recording: "TraceEvents", token: str) -> None:
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
            found = self._recording.overview()
        elif path == "/_ranksim/recording":
            found = self._recording.until(whole_number(query.get("until", ["0"])[-1]) or 0)
        elif path.startswith("/_ranksim/requests/"):
            found = self._recording.exchange(whole_number(path.rpartition("/")[2]) or 0)
        if found is None or scope["method"] not in ("GET", "HEAD"):
            await refuse(send, 404, "There is nothing here; a recording has its page and what that asks for.")
            return
        await send_json(send, 200, to_json(found), body=scope["method"] != "HEAD")


def view(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace of run, load, check or receive.")],
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8081,
) -> None:
    """Show a recorded trace in a browser: its calls in time, and why each was refused.

    It says its address, and serves until it is interrupted.

    Examples:

    \b
      ranksim run scenarios/quickstart.yaml --trace run.jsonl
      ranksim view run.jsonl
    """  # fmt: skip
    from ranksim.facade.page.recording import TraceEvents
    from ranksim.serving.control_auth import new_token

    token = new_token()
    asyncio.run(_serve(Viewer(TraceEvents(trace), token), host, port, token))


async def _serve(viewer: Viewer, host: str, port: int, token: str) -> None:
    from ranksim.serving.listener import Listener

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    listener = await Listener(viewer, host, port).open()
    sys.stdout.write(f"ranksim shows the trace at {listener.url}/?token={token}; stop it with Ctrl-C\n")
    sys.stdout.flush()
    await stopped.wait()
    await listener.close()
