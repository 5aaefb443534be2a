"""A server that does to each request what a test says, and a recorder with its lines."""

from __future__ import annotations

import gzip
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ranksim.core.callers.target import Target
from ranksim.judge.load.recorder import AnchoredClock, PartRecorder
from ranksim.judge.load.session import Session

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
        self.released.wait(600)

    def stop(self) -> None:
        self.released.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(600)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            connection.settimeout(600)
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


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Recording:
    """A recorder, sessions that record with it, and what it wrote."""

    def __init__(self, path: Path, url: str) -> None:
        self.path = path
        self.target = Target.simple(url, TOKEN)
        self.recorder = PartRecorder(
            path, part="w1", clock=AnchoredClock.here(), salt=b"salt", tokens=[TOKEN]
        )
        self.sessions: list[Session] = []

    def session(self, timeout: float = 60.0) -> Session:
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


# Real runs of Locust, in processes of their own


LOADTESTS = Path(__file__).parents[2] / "loadtests"


class Running:
    """A program under way, its log, and the directory where it writes."""

    def __init__(self, words: list[str], folder: Path, name: str, **variables: str) -> None:
        self.log = folder / f"{name}.log"
        kept = {
            key: value for key, value in os.environ.items() if not key.startswith(("RANKSIM_", "LOCUST_"))
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *words],
                cwd=folder,
                env=kept | variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait(self, seconds: float = 300) -> int:
        """Wait for its end and give its exit code."""
        try:
            return self.process.wait(seconds)
        finally:
            self.kill()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")


Start = Callable[..., Running]


def until(holds: Callable[[], Any], seconds: float = 300) -> Any:
    """Wait until something holds, and give it; a test that waits in vain fails."""
    pause = threading.Event()
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, "waited in vain"
        pause.wait(0.05)
    return found


def so_far(out: Path) -> dict[str, list[dict[str, Any]]]:
    """What the parts of a run under way have, by their names: whole lines only."""
    found = {}
    for part in out.glob(".parts-*/part-*.jsonl"):
        whole = part.read_text(encoding="utf-8").rpartition("\n")[0]
        found[part.stem] = [json.loads(line) for line in whole.splitlines()]
    return found


def in_flight(out: Path) -> int:
    """How many calls have been sent and not answered."""
    lines = [line for part in so_far(out).values() for line in part]
    return sum(line.get("kind") == "exchange" for line in lines) - sum("ended" in line for line in lines)


def by_users(out: Path) -> int:
    """How many calls users have made so far."""
    lines = [line for part in so_far(out).values() for line in part]
    return sum("-" in line.get("client", "") for line in lines)


def answers(out: Path) -> set[int]:
    """The statuses that users have been answered so far."""
    lines = [line for part in so_far(out).values() for line in part]
    users = {line["id"] for line in lines if "-" in line.get("client", "")}
    return {line["status"] for line in lines if line.get("ended") in users and line["status"] is not None}


def assert_no_secret(folder: Path, *secrets: str) -> None:
    """No file below a directory has any of these, packed or not."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for secret in (*secrets, "whsec_"):
            assert secret.encode() not in data, f"{path}: {secret}"
