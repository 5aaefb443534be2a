"""A loop in a thread, and a listener: it closes what it has accepted, at whatever moment."""

import asyncio
import errno
import gc
import socket
import warnings
from typing import Any

import pytest

from ranksim.twin.serving.listener import Listener
from ranksim.twin.serving.loop_thread import LoopThread


def test_where_no_loop_can_be_made_whoever_wants_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> asyncio.AbstractEventLoop:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(asyncio, "new_event_loop", fail)
    monkeypatch.setattr(asyncio.events, "new_event_loop", fail)
    with pytest.raises(OSError, match="Too many open files"):
        LoopThread()


async def silent(scope: Any, receive: Any, send: Any) -> None:
    """An app that never answers."""
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"])
@pytest.mark.parametrize("turns", range(6))
def test_no_connection_outlives_it_however_new(turns: int, sent: bytes) -> None:
    async def story() -> None:
        listener = await Listener(silent).open()
        with socket.create_connection(("127.0.0.1", listener.port), timeout=60) as client:
            client.sendall(sent)
            for _ in range(turns):
                await asyncio.sleep(0)
            await listener.close()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        asyncio.run(story())
        gc.collect()
    assert [str(one.message) for one in told] == []
