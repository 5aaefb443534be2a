"""A proxy that makes a server slow."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


@contextmanager
def slowed(server: str, delay: Callable[[int], float]) -> Iterator[str]:
    """Stand before a server; each piece of a reply comes later, by seconds that open connections decide."""
    opened = 0

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        there, onward = await asyncio.open_connection("127.0.0.1", urlsplit(server).port)

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, slow: bool) -> None:
            with suppress(OSError):
                while piece := await source.read(65_536):
                    await asyncio.sleep(delay(opened) if slow else 0)
                    sink.write(piece)
                    await sink.drain()
            with suppress(OSError):
                sink.close()

        await asyncio.gather(copy(reader, onward, False), copy(there, writer, True))
        opened -= 1

    loop = asyncio.new_event_loop()
    serving = loop.run_until_complete(asyncio.start_server(connected, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{serving.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        serving.close()
        for left in asyncio.all_tasks(loop):
            left.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
