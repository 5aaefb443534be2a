"""`ranksim trace record` passes on what streams: events, large bodies, TLS, clients that go away."""

from __future__ import annotations

import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import trustme
from tests.judge.load.test_record import ENVIRON, recording

from ranksim.core.trace import Trace

pytestmark = pytest.mark.slow

BLOCK = b"x" * (1 << 20)
BLOCKS = 50


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers /events in two events, /large with 50 MB, and counts the bytes of a POST."""

    second = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        if self.path == "/events":
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"data: 1\n\n")
            self.wfile.flush()
            if self.second.wait(30):
                self.wfile.write(b"data: 2\n\n")
            return
        count = BLOCKS if self.path == "/large" else 0
        self.send_header("Content-Length", str(count * len(BLOCK)))
        self.end_headers()
        for _ in range(count):
            self.wfile.write(BLOCK)

    def do_POST(self) -> None:
        length, count = int(self.headers["Content-Length"]), 0
        while count < length and (part := self.rfile.read1(min(65_536, length - count))):
            count += len(part)
        if count < length:
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"%d" % count)

    def log_message(self, *_: object) -> None:
        """Keep the tests quiet."""


@contextmanager
def upstream(tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server of the standard library, over TLS with a context."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_event_passes_before_the_next_one_is_sent(tmp_path: Path) -> None:
    Handler.second.clear()
    with (
        upstream() as base, recording(base, tmp_path / "out") as url,
        httpx.stream("GET", f"{url}/events", timeout=20) as answer,
    ):  # fmt: skip
        lines = answer.iter_lines()
        assert next(lines) == "data: 1"
        Handler.second.set()
        assert list(lines) == ["", "data: 2", ""]
    [call] = Trace.read(tmp_path / "out" / "trace.jsonl").exchanges
    assert (call.response, call.error) == ("data: 1\n\ndata: 2\n\n", None)


def peak_kb(pid: int) -> int:
    """The most memory a process had so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak of memory from /proc")
def test_large_bodies_pass_in_flat_memory(tmp_path: Path) -> None:
    pids: list[int] = []
    with upstream() as base, recording(base, tmp_path / "out", pids=pids) as url:
        httpx.get(f"{url}/small")
        before = peak_kb(pids[0])
        with httpx.stream("GET", f"{url}/large", timeout=60) as answer:
            assert sum(map(len, answer.iter_raw())) == BLOCKS * len(BLOCK)
        length = {"Content-Length": str(BLOCKS * len(BLOCK))}
        sent = httpx.post(f"{url}/up", content=(BLOCK for _ in range(BLOCKS)), headers=length, timeout=60)
        assert sent.text == str(BLOCKS * len(BLOCK))
        assert peak_kb(pids[0]) - before < 12_000
    calls = Trace.read(tmp_path / "out" / "trace.jsonl").exchanges
    assert [(call.status, call.path) for call in calls] == [(200, "/small"), (200, "/large"), (200, "/up")]
    assert calls[1].response is None


def test_a_client_that_goes_away_within_its_body_is_written_down(tmp_path: Path) -> None:
    with upstream() as base, recording(base, tmp_path / "out") as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf")
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(65_536) == b""
        assert httpx.get(f"{url}/small").status_code == 200
    cut, after = Trace.read(tmp_path / "out" / "trace.jsonl").exchanges
    assert (cut.method, cut.body, cut.status) == ("POST", "half", None)
    assert cut.error is not None
    assert after.status == 200


@pytest.mark.parametrize("how", ["option", "variable", "none"])
def test_a_certificate_of_ones_own(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    pem = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(pem))
    if how == "variable":
        monkeypatch.setitem(ENVIRON, "SSL_CERT_FILE", str(pem))
    words = ["--ca-file", str(pem)] if how == "option" else []
    with upstream(context) as base, recording(base, tmp_path / "out", *words) as url:
        assert httpx.get(f"{url}/small").status_code == (502 if how == "none" else 200)
