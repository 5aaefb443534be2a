"""The canary for uvicorn: what of its internals we rely on, by name, so that a new release says so here."""

import asyncio
import inspect
from hashlib import sha256
from typing import Any

import pytest
import uvicorn
from httptools import HttpRequestParser
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from ranksim.serving.uvicorn_protocol import Connection, configured

OF_THE_CONNECTION = (
    "client", "config", "cycle", "flow", "headers", "loop", "parser", "scope", "transport",
    "timeout_keep_alive", "connection_lost", "connection_made", "data_received", "on_body",
    "on_headers_complete", "on_message_complete", "on_response_complete",
    "pause_writing", "resume_writing", "send_400_response", "shutdown",
)  # fmt: skip
"""What `Connection` reads, calls or replaces of uvicorn's protocol."""

OF_THE_CYCLE = (
    "disconnected", "flow", "keep_alive", "message_event", "more_body", "on_response", "response_complete",
    "response_started", "transport", "waiting_for_100_continue",
)  # fmt: skip
"""What a whole response in one write reads and sets of uvicorn's cycle."""

OF_THE_FLOW = ("drain", "pause_reading", "write_paused")

OF_THE_SERVER = ("lifespan", "server_state", "startup", "should_exit", "run")

REPLACED = {
    HttpToolsProtocol.data_received: "010a7ae5",
    HttpToolsProtocol.on_body: "dba9c32a",
    HttpToolsProtocol.on_message_complete: "1fbad42d",
    HttpToolsProtocol.on_response_complete: "64e254f2",
    HttpToolsProtocol.send_400_response: "ae5a4a37",
    RequestResponseCycle.send: "abdd8601",
}
"""What is not extended but done anew here, with a digest of uvicorn's own source."""

CHANGED = (
    "uvicorn has changed: {what}. Compare its httptools_impl.py with serving/uvicorn_protocol.py and "
    "listener.py, mend what must follow, then this table and the bound in pyproject.toml."
)


class Wire(asyncio.Transport):
    """A transport that goes nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.wrote, self.unread, self.aborted = b"", 0, False

    def write(self, data: Any) -> None:
        self.wrote += bytes(data)

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


@pytest.mark.parametrize("what", ["connection", "cycle", "flow", "server", "state"])
def test_uvicorn_has_what_is_relied_on(what: str) -> None:
    async def story() -> None:
        connection, _ = await connected()
        config = configured(connection.app, lifespan="off")
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)  # as a listener does
        thing, names = {
            "connection": (connection, OF_THE_CONNECTION),
            "cycle": (connection.cycle, OF_THE_CYCLE),
            "flow": (connection.cycle.flow, OF_THE_FLOW),
            "server": (server, OF_THE_SERVER),
            "state": (server.server_state, ("connections", "tasks")),
        }[what]
        missing = [name for name in names if not hasattr(thing, name)]
        assert not missing, CHANGED.format(what=f"{type(thing).__name__} has no {', '.join(missing)}")
        connection.connection_lost(None)

    asyncio.run(story())


@pytest.mark.parametrize("method", REPLACED, ids=lambda method: method.__qualname__)
def test_what_is_done_anew_here_is_as_it_was_there(method: Any) -> None:
    found = sha256(inspect.getsource(method).encode()).hexdigest()[:8]
    assert found == REPLACED[method], CHANGED.format(what=f"the source of {method.__qualname__}")


def test_a_whole_response_leaves_the_connection_as_uvicorn_would() -> None:
    async def story() -> None:
        connection, wire = await connected()
        assert wire.wrote == STATUS_LINE[200] + b"content-length: 2\r\n\r\nok", CHANGED.format(
            what="a response"
        )
        assert isinstance(connection.parser, HttpRequestParser)
        assert connection.cycle.response_complete
        assert connection._due is not None
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
