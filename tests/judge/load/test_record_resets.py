"""`ranksim trace record` where a connection is reset, cut or no HTTP, and where it is killed itself."""

from __future__ import annotations

import http.client
import http.server
import os
import random
import re
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.judge.load.taps import address, compared
from tests.judge.load.test_record import ENVIRON, RECORD, Upstream, recording

from ranksim.core.trace import Trace
from ranksim.judge.load.framing import MOST_HEAD

pytestmark = pytest.mark.slow

LINGER = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)


def reset(connection: socket.socket) -> None:
    """Close with a reset instead of an end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
    connection.close()


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server of one connection, which a function serves."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(20)
        assert not thread.is_alive()


HEADS = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n",
    "to the end": b"HTTP/1.1 200 OK\r\n\r\n",
}


@pytest.mark.parametrize("kind", HEADS)
def test_an_upstream_that_resets_within_a_body_resets_the_client(kind: str, tmp_path: Path) -> None:
    read = threading.Event()
    text = b'{"n": 1, "password": "hush", "secret": "hush-not'

    def answer(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(HEADS[kind] + text)
        assert read.wait(20)
        reset(connection)

    with (
        answering(answer) as base, recording(base, tmp_path / "out") as url,
        socket.create_connection(address(url), 20) as client,
    ):  # fmt: skip
        client.sendall(b"GET /v1/account HTTP/1.1\r\nHost: a\r\n\r\n")
        came = b""
        while len(came) < len(HEADS[kind] + text):
            came += client.recv(65_536)
        assert came == HEADS[kind] + text
        read.set()
        with pytest.raises(ConnectionResetError):
            client.recv(65_536)
    assert "hush" not in (tmp_path / "out" / "trace.jsonl").read_text()
    [call] = Trace.read(tmp_path / "out" / "trace.jsonl").exchanges
    assert (call.status, call.error) == (200, "the upstream reset the connection")
    assert call.response == '{"n": 1, "password": "hidden", "secret": "hidden'


@pytest.mark.parametrize("how", ["reset", "closed"])
def test_a_client_that_resets_within_a_stream_ends_it_at_the_upstream(how: str, tmp_path: Path) -> None:
    ends: list[str] = []
    ended = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.settimeout(20)
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
        try:
            assert connection.recv(65_536) == b""
            ends.append("closed")
            with suppress(ConnectionError):
                while True:
                    connection.sendall(b"data: 2\n\n")
        except ConnectionResetError:
            ends.append("reset")
        ended.set()

    with answering(answer) as base, recording(base, tmp_path / "out") as url:
        client = socket.create_connection(address(url), 20)
        client.sendall(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
        came = b""
        while not came.endswith(b"data: 1\n\n"):
            came += client.recv(65_536)
        if how == "reset":
            reset(client)
        else:
            client.close()
        assert ended.wait(20)
    assert ends == [how]
    [call] = Trace.read(tmp_path / "out" / "trace.jsonl").exchanges
    assert (call.status, call.error) == (200, "the client reset the connection")
    assert (call.response or "").startswith("data: 1\n\n")


STREAMS = {
    "a large head": b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * (MOST_HEAD // 5) + b"\r\n",
    "a chunk without a size": b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nsize\r\nabc\r\n",
    "half a head": b"GET / HTTP/1.1\r\nHost: he",
    "a length that is none": b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\nabc",
}


@pytest.mark.parametrize("kind", STREAMS)
def test_what_is_no_http_passes_as_it_came(kind: str, tmp_path: Path) -> None:
    stream = STREAMS[kind]
    refused = b"HTTP/1.1 4oo Odd\r\n\r\nwhatever"
    with (
        Upstream(refused, until=b"never") as upstream, recording(upstream.url, tmp_path / "out") as url,
        socket.create_connection(address(url), 20) as client,
    ):  # fmt: skip
        for begin in range(0, len(stream), 7_000):
            client.sendall(stream[begin : begin + 7_000])
        client.shutdown(socket.SHUT_WR)
        assert b"".join(iter(lambda: client.recv(65_536), b"")) == refused
    assert upstream.came == [stream]


def test_calls_in_a_pipeline_are_answered_in_order(tmp_path: Path) -> None:
    calls = (
        b"GET /v1/account HTTP/1.1\r\nHost: {}\r\n\r\n"
        b"HEAD /v1/slots HTTP/1.1\r\nHost: {}\r\n\r\n"
        b"POST /v1/domains HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
        b"GET /v1/slots HTTP/1.1\r\nHost: {}\r\n\r\n"
    )
    replies = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nb"
        b"HTTP/1.1 429 Wait\r\nContent-Length: 1\r\n\r\nc"
    )
    upstream = Upstream(replies, until=b"/v1/slots HTTP/1.1\r\nHost: never\r\n\r\n")
    with (
        upstream, compared(upstream.url, tmp_path / "out") as url,
        socket.create_connection(address(url), 20) as client,
    ):  # fmt: skip
        client.sendall(calls.replace(b"{}", url.removeprefix("http://").encode()))
        client.shutdown(socket.SHUT_WR)
        assert b"".join(iter(lambda: client.recv(65_536), b"")) == replies
    exchanges = Trace.read(tmp_path / "out" / "trace.jsonl").exchanges
    assert [(call.method, call.status, call.response) for call in exchanges] == [
        ("GET", 200, "a"), ("HEAD", 200, ""), ("POST", 201, "b"), ("GET", 429, "c"),
    ]  # fmt: skip
    assert exchanges[2].body == "ab"


THREADS = 8


class Counting(http.server.BaseHTTPRequestHandler):
    """Answers every call over connections that are kept, and keeps the paths."""

    protocol_version = "HTTP/1.1"
    paths: list[str]

    def do_GET(self) -> None:
        self.paths.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Keep the tests quiet."""


def test_a_kill_under_load_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    seed = int(os.environ.get("RANKSIM_SEED", random.SystemRandom().randrange(10**6)))
    print(f"RANKSIM_SEED={seed}")
    last = random.Random(seed).randrange(1, 2_000)
    Counting.paths = []
    answered: list[str] = []
    enough = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Counting)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    base, out = f"http://127.0.0.1:{server.server_port}", tmp_path / "out"
    command = [*RECORD, "--upstream", base, "--out", str(out), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRON)
    assert process.stderr is not None
    found = re.search(r"http://\S+:\d+", process.stderr.readline())
    assert found
    url = found[0]

    def call(thread: int) -> None:
        connection = http.client.HTTPConnection(*address(url), timeout=20)
        with suppress(OSError, http.client.HTTPException):
            for number in range(100_000):
                connection.request("GET", f"/{thread}/{number}")
                assert connection.getresponse().read() == b"ok"
                answered.append(f"/{thread}/{number}")
                if len(answered) > last:
                    enough.set()
        connection.close()

    threads = [threading.Thread(target=call, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    assert enough.wait(60)
    process.kill()
    process.communicate()
    for thread in threads:
        thread.join()
    with recording(base, out):
        pass
    server.shutdown()
    serving.join()
    server.server_close()
    exchanges = Trace.read(out / "trace.jsonl").exchanges
    statuses = {exchange.path: exchange.status for exchange in exchanges}
    assert len(exchanges) == len(statuses)
    assert {path for path in answered if statuses.get(path) != 200} == set()
    assert set(Counting.paths) <= set(statuses)
    assert list(statuses.values()).count(None) <= THREADS
