"""A twin behind a socket: uvicorn, its signals, the log and the garbage collector."""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import signal
import socket
import sys
from asyncio import Task
from collections.abc import Callable, Collection
from importlib import import_module
from typing import Any

import uvicorn

from ranksim.twin.facade.app import Facade
from ranksim.twin.serving.limits import Limits
from ranksim.twin.serving.uvicorn_config import configured

M_MMAP_THRESHOLD = -3
"""glibc's number for the size from which a block is one of the system's own."""

WANTED_LATER = (
    "ranksim.twin.facade.control.dispatch",
    "ranksim.twin.facade.http_sender",
    "httpx",
    "numpy",
    "ranksim.twin.facade.http.graphql",
)
"""What the control API, webhooks, drawn positions and GraphQL want, the first of them first."""

BACKLOG = 2048
"""Connections that may wait to be accepted."""


class _Server(uvicorn.Server):
    """Drops the requests that faults delay before it waits for the others to end."""

    delayed_requests: Collection[Task[Any]] = ()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End: no request is taken any more, those under way are answered."""
        for task in tuple(self.delayed_requests):
            task.cancel()
        await super().shutdown(sockets)


def serve_until_stopped(
    app: Facade, listener: socket.socket, announce: Callable[[], None], limits: Limits
) -> None:
    """Serve an app on a bound socket until SIGINT or SIGTERM; requests under way are answered first.

    `limits` are of all connections together.
    `announce` is called when a signal is already minded, and a request would be answered.
    """
    app.prepare = import_ahead
    spare_the_collector()
    give_memory_back()
    server = _Server(configured(app, limits, lifespan="on"))
    server.delayed_requests = app.twin.delayed_requests

    def stop(*_: object) -> None:
        # uvicorn minds signals once it runs, and raises them again when it has stopped.
        server.should_exit = True

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, stop) for number in numbers]
    listener.listen(BACKLOG)
    try:
        announce()
        server.run(sockets=[listener])
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def import_ahead() -> None:
    """Read what few requests want and takes long to read; in a thread, while others are answered already."""
    for name in WANTED_LATER:
        import_module(name)
    gc.freeze()


def spare_the_collector() -> None:
    """Let the garbage collector look seldom, at little at a time, and never at what stands at the start.

    The state of the service has no cycles and grows with every call; looking through it again and again takes
    a tenth of the time. What is new is looked at in portions, each of which takes some milliseconds.
    """
    gc.freeze()
    gc.set_threshold(5_000, 5, 200)
    gc.enable()


def give_memory_back() -> None:
    """Have large blocks, such as bodies, returned to the system once they are free, where glibc allocates.

    It learns to keep such blocks otherwise: 75 MB of half-sent bodies stayed for good.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, 65_536)


class JsonLines(logging.Formatter):
    """Writes each record of the log as one line of JSON; `extra={"fields": {...}}` adds members."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        line: dict[str, Any] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up_logging(*, as_json: bool) -> None:
    """Log what goes wrong with the server itself to stderr, as JSON or text; of uvicorn only warnings."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if as_json else text)
    for name, level in (("ranksim", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
