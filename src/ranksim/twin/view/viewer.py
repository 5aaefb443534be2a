"""What the live page asks for when it shows a run, as an ASGI app."""

from __future__ import annotations

import asyncio
import signal
from typing import Protocol
from urllib.parse import parse_qs

from pydantic_core import to_json

from ranksim.core.clock import Micros
from ranksim.report.terminal import print_out
from ranksim.twin.facade.control.dispatch import problem_response, send_json
from ranksim.twin.facade.page import serving as page
from ranksim.twin.serving.asgi import Receive, Scope, Send
from ranksim.twin.serving.control_auth import refusal
from ranksim.twin.serving.listener import Listener
from ranksim.twin.serving.parsing import whole_number
from ranksim.twin.view.recording import Shown


class ShownRun(Protocol):
    """What the page can show of a run."""

    def overview(self) -> Shown:
        """Return from when to when it goes, and how much is in it."""

    def until(self, instant: Micros) -> Shown:
        """Return the last events up to an instant, and the state then, if it is known."""

    def exchange(self, number: int) -> Shown | None:
        """Return the exchange of an event."""


class Viewer:
    """An ASGI app: the live page, and the run that it shows; `token` is what it wants, "" for none."""

    def __init__(self, recording: ShownRun, token: str) -> None:
        self._recording, self._token = recording, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path: str = scope["path"]
        wanted = page.is_wanted(path, scope)
        refused = refusal(None if wanted else self._token, scope, ())
        if refused is not None:
            await problem_response(send, *refused)
            return
        if wanted:
            await page.send_file(send, page.FILES[path], scope)
            return
        query = parse_qs(scope["query_string"].decode("latin-1"))
        answer = None
        if path == "/_ranksim/overview":
            answer = await asyncio.to_thread(self._recording.overview)
        elif path == "/_ranksim/recording":
            answer = self._recording.until(whole_number(query.get("until", ["0"])[-1]) or 0)
        elif path.startswith("/_ranksim/requests/"):
            answer = self._recording.exchange(whole_number(path.rpartition("/")[2]) or 0)
        if answer is None or scope["method"] not in ("GET", "HEAD"):
            await problem_response(
                send, 404, "There is nothing here; a recording has its page and what that asks for."
            )
            return
        await send_json(send, 200, to_json(answer), body=scope["method"] != "HEAD")


async def serve_recording(viewer: Viewer, host: str, port: int, token: str) -> None:
    """Serve until SIGINT or SIGTERM, and say where."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    listener = await Listener(viewer, host, port).open()
    print_out(f"ranksim shows the run until Ctrl-C at {listener.url}/?token={token}\n")
    await stopped.wait()
    await listener.close()
