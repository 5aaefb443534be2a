"""The canary for uvicorn: what of its internals we rely on, by name, so that a new release says so here."""

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn
import uvicorn.protocols.http
from httptools import HttpRequestParser
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from ranksim.core.clock import instant
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving import uvicorn_config
from ranksim.twin.serving.listener import Listener
from ranksim.twin.serving.uvicorn_config import REPLACED, configured, connection_class, differing_insides
from ranksim.twin.serving.uvicorn_protocol import Connection

OF_THE_SERVER = ("lifespan", "server_state", "startup", "should_exit", "run")

CHANGED = (
    "uvicorn has changed: {what}. Compare its httptools_impl.py with serving/uvicorn_protocol.py and "
    "listener.py, mend what must follow, then the tables of serving/uvicorn_config.py."
)


class Wire(asyncio.Transport):
    """A transport that goes nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.wrote, self.unread, self.aborted = b"", 0, False

    def write(self, data: Any) -> None:
        self.wrote += bytes(data)

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    def abort(self) -> None:
        self.aborted = True

    def get_write_buffer_size(self) -> int:
        return self.unread


async def connected() -> tuple[Connection, Wire]:
    """A connection on which a request is being answered."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await scope["ranksim.respond"](200, [(b"content-length", b"2")], b"ok")

    config = configured(app, lifespan="off")
    config.load()
    connection, wire = Connection(config, ServerState(), {}), Wire()
    connection.connection_made(wire)
    connection.data_received(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0)
    return connection, wire


@pytest.mark.parametrize("what", ["server", "state"])
def test_uvicorn_has_what_a_listener_relies_on(what: str) -> None:
    async def story() -> None:
        connection, _ = await connected()
        config = configured(connection.app, lifespan="off")
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)  # as a listener does
        thing, names = {
            "server": (server, OF_THE_SERVER),
            "state": (server.server_state, ("connections", "tasks")),
        }[what]
        missing = [name for name in names if not hasattr(thing, name)]
        assert not missing, CHANGED.format(what=f"{type(thing).__name__} has no {', '.join(missing)}")
        connection.connection_lost(None)

    asyncio.run(story())


def test_what_the_connection_stands_on_is_as_it_was_compared() -> None:
    assert differing_insides() == [], CHANGED.format(what=", ".join(differing_insides()))


@pytest.fixture
def forgetful() -> Iterator[None]:
    """Let what is decided once a process be decided in the test, and again after it."""
    connection_class.cache_clear()
    yield
    connection_class.cache_clear()


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("how", ["another source", "a name gone", "a method gone", "moved"])
def test_where_uvicorn_differs_its_own_connection_serves_and_one_warning_says_what_does_not_hold(
    how: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name = "HttpToolsProtocol.on_body"
    if how == "another source":
        monkeypatch.setitem(REPLACED, name, {"00000000"})
    elif how == "a name gone":
        name = "waits_for_continue"
        monkeypatch.setattr(uvicorn_config, "RELIED_ON", (*uvicorn_config.RELIED_ON, name))
    elif how == "a method gone":
        monkeypatch.delattr(HttpToolsProtocol, "on_body")
    else:
        name = "httptools_impl"
        monkeypatch.setitem(sys.modules, "uvicorn.protocols.http.httptools_impl", None)
        monkeypatch.delattr(uvicorn.protocols.http, name)
    twin = Twin(clock="manual", start=instant("2026-03-04T10:00:00Z"), sender=Scripted())

    async def story() -> int:
        listener = await Listener(Facade(twin)).open()
        try:
            async with httpx.AsyncClient(base_url=listener.url) as client:
                got = await client.get(
                    "/v1/account", headers={"Authorization": f"Bearer {twin.keys['production']}"}
                )
                return got.status_code
        finally:
            await listener.close()

    if how != "a method gone":  # which breaks uvicorn's own, too
        assert asyncio.run(story()) == 200
    assert connection_class() is None
    [warning] = [one.getMessage() for one in caplog.records if one.name == "ranksim.serving"]
    assert f"uvicorn {uvicorn.__version__} differs" in warning
    assert name in warning
    assert "headers without end" in warning


def test_a_whole_response_leaves_the_connection_as_uvicorn_would() -> None:
    async def story() -> None:
        connection, wire = await connected()
        assert wire.wrote == STATUS_LINE[200] + b"content-length: 2\r\n\r\nok", CHANGED.format(
            what="a response"
        )
        assert isinstance(connection.parser, HttpRequestParser)
        assert connection.cycle.response_complete
        assert connection._end_timer.due is not None
        connection.connection_lost(None)

    asyncio.run(story())


def test_a_client_that_reads_slowly_has_its_time_anew_and_one_that_does_not_is_dropped() -> None:
    async def story() -> None:
        connection, wire = await connected()
        wire.unread = 100_000
        connection.pause_writing()
        wire.unread = 99_999
        connection._drop_stalled(100_000)
        assert (wire.aborted, connection._stalled is not None) == (False, True)
        connection._drop_stalled(99_999)
        assert wire.aborted
        connection.resume_writing()
        assert connection._stalled is None
        connection.connection_lost(None)

    asyncio.run(story())
