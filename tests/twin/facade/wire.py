"""A deployment without a socket: exactly what it writes for the bytes that it is sent."""

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any

from uvicorn.server import ServerState

from ranksim.core.clock import instant
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.uvicorn_config import configured
from ranksim.twin.serving.uvicorn_protocol import Connection


def fresh() -> Twin:
    return Twin(clock="manual", start=instant("2026-03-04T10:00:00Z"), sender=Scripted())


@cache
def key() -> bytes:
    """The key of every fresh deployment."""
    return fresh().keys["production"].encode()


class Wire(asyncio.Transport):
    """A transport that keeps what it is given, and holds back what comes while reading is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.wrote, self.paused, self.closed = b"", False, False

    def write(self, data: Any) -> None:
        if not self.closed:
            self.wrote += bytes(data)

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 8080) if name in ("peername", "sockname") else default

    def get_write_buffer_size(self) -> int:
        return 0


TURNS = 12
"""Turns of the loop after which nothing more happens by itself."""


async def answered(pieces: Sequence[bytes]) -> tuple[bytes, bool]:
    """What a fresh deployment writes when it is sent these pieces, and whether it closes then."""
    twin = fresh()
    config = configured(Facade(twin), lifespan="off")
    config.load()
    state, wire = ServerState(), Wire()
    connection = Connection(config, state, {})
    connection.connection_made(wire)
    for piece in pieces:
        for _ in range(20 * TURNS):
            if not wire.paused or wire.closed:
                break
            await asyncio.sleep(0)
        if wire.closed:
            break
        connection.data_received(piece)
        for _ in range(TURNS):
            await asyncio.sleep(0)
    for _ in range(20 * TURNS):
        if not state.tasks:
            break
        await asyncio.sleep(0)
    wrote, closed = wire.wrote, wire.closed
    connection.connection_lost(None)
    for _ in range(TURNS):
        await asyncio.sleep(0)
    for task in list(state.tasks):
        task.cancel()
    await asyncio.gather(*state.tasks, return_exceptions=True)
    await twin.close()
    return wrote, closed
