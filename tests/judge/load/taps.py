"""A relay that keeps the bytes of connections: one on either side of the recorder shows what it changes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.judge.load.test_record import recording


@dataclass
class Tap:
    """Passes connections on to `upstream`; `sent` and `answered` are their bytes."""

    upstream: tuple[str, int]
    sent: list[bytearray] = field(default_factory=list)
    answered: list[bytearray] = field(default_factory=list)
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    threads: list[threading.Thread] = field(default_factory=list)

    @property
    def host(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def __enter__(self) -> Tap:
        self.threads.append(threading.Thread(target=self._serve))
        self.threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(20)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.threads.append(threading.Thread(target=self._relay, args=(client,)))
                self.threads[-1].start()

    def _relay(self, client: socket.socket) -> None:
        with client, socket.create_connection(self.upstream) as server:
            sent, answered = bytearray(), bytearray()
            self.sent.append(sent)
            self.answered.append(answered)
            back = threading.Thread(target=_pass, args=(server, client, answered))
            back.start()
            _pass(client, server, sent)
            back.join()


def _pass(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            kept += data
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def address(url: str) -> tuple[str, int]:
    """Return the host and the port of a URL."""
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)


@contextmanager
def compared(upstream: str, out: Path) -> Iterator[str]:
    """The recorder with a tap on either side; on leaving, both must have seen the same bytes."""
    with (
        Tap(address(upstream)) as inner, recording(f"http://{inner.host}", out) as url,
        Tap(address(url)) as outer,
    ):  # fmt: skip
        hosts = [f"\r\nHost: {tap.host}\r\n".encode() for tap in (outer, inner)]
        yield f"http://{outer.host}"
    assert outer.sent
    assert sorted(bytes(sent).replace(*hosts) for sent in outer.sent) == sorted(map(bytes, inner.sent))
    assert sorted(map(bytes, outer.answered)) == sorted(map(bytes, inner.answered))
