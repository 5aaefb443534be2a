"""A server that does to each request what a test says, and a recorder with its lines."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ranksim.load.recorder import Clock, Recorder
from ranksim.load.session import Session
from ranksim.load.target import Target

TOKEN = "rk_live_0123456789abcdef"

Act = Callable[[socket.socket], bool | None]


def reply(status: int = 200, body: Any = None, **headers: str) -> Act:
    """Answer, and keep the connection open."""

    def act(connection: socket.socket) -> bool:
        text = json.dumps({"data": []} if body is None else body).encode()
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(text)}", "Content-Type: application/json"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + text)
        return True

    return act


def raw(data: bytes) -> Act:
    """Send these bytes and close."""
    return lambda connection: connection.sendall(data)


def close(connection: socket.socket) -> None:
    """Close without a word."""


def reset(connection: socket.socket) -> None:
    """Reset the connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def answer_and_close(connection: socket.socket) -> None:
    """Answer as if the connection stayed, and close it all the same."""
    reply()(connection)


class Scripted:
    """Plays one act a request, the last one for all further; `requests` has the bytes of each."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.acts: list[Act] = [reply()]
        self.requests: list[bytes] = []
        self.seen: Callable[[], None] = lambda: None
        self.released = threading.Event()
        self.closed = threading.Semaphore(0)
        self._tls = tls
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def hang(self, connection: socket.socket) -> None:
        """Say nothing until the test is over."""
        self.released.wait(30)

    def stop(self) -> None:
        self.released.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(30)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            connection.settimeout(30)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection as plain:
            try:
                with self._tls.wrap_socket(plain, server_side=True) if self._tls else plain as stream:
                    while (request := _read(stream)) is not None:
                        self.seen()
                        self.requests.append(request)
                        act = self.acts[min(len(self.requests), len(self.acts)) - 1]
                        if not act(stream):
                            break
            except OSError:
                pass
        self.closed.release()


def _read(stream: socket.socket) -> bytes | None:
    """Read one request; None at the end of the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = stream.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        ),
        0,
    )
    while len(body) < length:
        body += stream.recv(65536)
    return head + b"\r\n\r\n" + body


@pytest.fixture
def server() -> Iterator[Scripted]:
    made = Scripted()
    yield made
    made.stop()


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Recording:
    """A recorder, sessions that record with it, and what it wrote."""

    def __init__(self, path: Path, url: str) -> None:
        self.path = path
        self.target = Target.simple(url, TOKEN)
        self.recorder = Recorder(path, part="w1", clock=Clock.here(), salt=b"salt", tokens=[TOKEN])
        self.sessions: list[Session] = []

    def session(self, timeout: float = 10.0) -> Session:
        self.sessions.append(Session(self.target, self.recorder, client="test-0", timeout=timeout))
        return self.sessions[-1]

    def lines(self) -> list[dict[str, Any]]:
        return lines_of(self.path)

    def calls(self) -> list[dict[str, Any]]:
        """Each call with its end."""
        ends = {line["ended"]: line for line in self.lines() if "ended" in line}
        return [line | ends.get(line["id"], {}) for line in self.lines() if line.get("kind") == "exchange"]

    def close(self) -> None:
        for session in self.sessions:
            session.close()
        self.recorder.close()


@pytest.fixture
def recording(tmp_path: Path, server: Scripted) -> Iterator[Recording]:
    made = Recording(tmp_path / "part-w1.jsonl", server.url)
    yield made
    made.close()
