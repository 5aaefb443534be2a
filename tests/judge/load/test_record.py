"""`ranksim trace record`: every byte is passed on, and what passed is a trace without secrets."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import requests

from ranksim.core.trace import Trace
from ranksim.testing import Server

pytestmark = pytest.mark.slow


RECORD = [sys.executable, "-m", "ranksim", "record"]
ENVIRON = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


@contextmanager
def recording(upstream: str, out: Path, *words: str, pids: list[int] | None = None) -> Iterator[str]:
    """The proxy in a process of its own, stopped with Ctrl-C; its id joins `pids`."""
    command = [*RECORD, "--upstream", upstream, "--out", str(out), "--listen", "127.0.0.1:0", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, env=ENVIRON, **pipes)
    if pids is not None:
        pids.append(process.pid)
    try:
        assert process.stderr is not None
        banner = process.stderr.readline()
        found = re.search(r"http://\S+:\d+", banner)
        assert found, banner + process.stderr.read()
        yield found[0]
        process.send_signal(signal.SIGINT)
        said, wrong = process.communicate(timeout=60)
        assert process.returncode == 0, wrong
        assert "calls recorded" in said
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


class Upstream:
    """A server of raw bytes: it answers each connection with what it was made with, and keeps what came."""

    def __init__(self, *answers: bytes, until: bytes = b"\r\n\r\n") -> None:
        self.answers, self.until, self.came = answers, until, list[bytes]()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Upstream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _serve(self) -> None:
        for answer in self.answers:
            connection, _ = self._listener.accept()
            with connection:
                data = b""
                while not data.endswith(self.until):
                    part = connection.recv(65_536)
                    if not part:
                        break
                    data += part
                self.came.append(data)
                connection.sendall(answer)


REPLIES = {
    "length": b"HTTP/1.1 200 OK\r\nx-ODD:  a \r\nContent-Length: 3\r\n\r\nab\x00",
    "chunks": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrailer: t\r\n\r\n",
    "to the end": b"HTTP/1.0 200 Fine\r\nServer: old\r\n\r\n" + b"z" * 200_000,
    "error": b"HTTP/1.1 503 Gone Fishing\r\nRetry-After: -1\r\nContent-Length: 0\r\n\r\n",
    "continue": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    "no http": b"\x00\x01garbage\r\n\r\n\xff",
}


@pytest.mark.parametrize("kind", REPLIES)
def test_bytes_are_passed_on_as_they_are(kind: str, tmp_path: Path) -> None:
    request = (
        b"POST /v1/domains?a=%20b HTTP/1.1\r\nHOST: here\r\nX-Odd:   y\r\nauthorization: Bearer s3cr3t\r\n"
        b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n2\r\n1}\r\n0\r\n\r\n'
    )
    with (
        Upstream(REPLIES[kind], until=b"\r\n0\r\n\r\n") as upstream,
        recording(upstream.url, tmp_path / "out") as url,
    ):
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer == REPLIES[kind]
    named = upstream.url.removeprefix("http://").encode()
    assert upstream.came == [request.replace(b"HOST: here", b"Host: " + named)]
    text = (tmp_path / "out" / "trace.jsonl").read_text()
    assert "s3cr3t" not in text
    trace = Trace.read(tmp_path / "out" / "trace.jsonl")
    if kind != "no http":
        [call] = trace.exchanges
        assert (call.method, call.path, call.query, call.body) == (
            "POST",
            "/v1/domains",
            {"a": " b"},
            '{"a":1}',
        )
        assert call.operations == ("domains.create",)
        assert call.status == int(REPLIES[kind].rpartition(b"HTTP/1.")[2].split()[1])
    else:
        assert [note.text for note in trace.notes if "unseen" in note.text]


def test_a_trace_of_real_clients_conforms_and_holds_no_secret(tmp_path: Path) -> None:
    with (
        Server(clock="real") as server,
        recording(server.url, tmp_path / "out", "--exclusive", "--complete") as url,
    ):
        head = {"Authorization": f"Bearer {server.key}"}
        with httpx.Client(base_url=url, headers=head) as client:
            client.get("/v1/account")
            domain = client.post("/v1/domains", json={"host": "a.example"}).json()["data"]["id"]
            made = client.post("/v1/webhooks", json={"url": "http://127.0.0.1:9/"}).json()["data"]
            for _ in range(25):
                client.get(f"/v1/domains/{domain}")
        with requests.Session() as session:
            assert session.get(f"{url}/v1/nothing", headers=head, timeout=30).status_code == 404
            assert session.head(f"{url}/v1/account", headers=head, timeout=30).content == b""
            query = {"query": "{ account { plan } }"}
            assert session.post(f"{url}/graphql", json=query, headers=head, timeout=30).json()["data"]
            assert session.get(f"{url}/v1/account", timeout=30).status_code == 401
        if curl := shutil.which("curl"):
            words = [curl, "-s", "-H", f"Authorization: Bearer {server.key}", f"{url}/v1/slots"]
            told = subprocess.run(words, capture_output=True, text=True, check=True)
            assert "data" in json.loads(told.stdout)
    path = tmp_path / "out" / "trace.jsonl"
    text = path.read_text()
    assert server.key not in text
    assert made["secret"] not in text
    trace = Trace.read(path)
    assert trace.header.keys["key-1"].account
    assert {call.api_key for call in trace.exchanges} == {"key-1", None}
    compare = [*RECORD[:-1], "compare", str(path)]
    judged = subprocess.run(compare, capture_output=True, text=True, check=False, env=ENVIRON)
    assert judged.stdout.startswith("Nothing deviates"), judged.stdout[:600]


def test_a_client_or_an_upstream_that_goes_away_is_written_down(tmp_path: Path) -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    upstream = Upstream(cut)
    with upstream, recording(upstream.url, tmp_path / "out") as url, pytest.raises(httpx.RemoteProtocolError):
        httpx.get(f"{url}/v1/account")
    [call] = Trace.read(tmp_path / "out" / "trace.jsonl").exchanges
    assert (call.status, call.response, call.error) == (200, "half", "the upstream closed the connection")


def test_an_upstream_that_is_not_there_is_a_502_that_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with recording(f"http://127.0.0.1:{port}", tmp_path / "out") as url:
        answer = httpx.get(f"{url}/v1/account")
        assert (answer.status_code, answer.text) == (502, "ranksim record: the upstream cannot be reached\n")


def test_a_kill_loses_what_was_under_way_and_the_next_start_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Server() as server:
        head = {"Authorization": f"Bearer {server.key}"}
        command = [*RECORD, "--upstream", server.url, "--out", str(out), "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRON)
        assert process.stderr is not None
        found = re.search(r"http://\S+:\d+", process.stderr.readline())
        assert found
        with httpx.Client(base_url=found[0], headers=head) as client:
            for _ in range(10):
                client.get("/v1/account")
        process.kill()
        process.communicate()
        with recording(server.url, out) as url:
            httpx.get(f"{url}/v1/slots", headers={"Authorization": f"Bearer {server.sandbox_key}"})
    trace = Trace.read(out / "trace.jsonl")
    calls = trace.exchanges
    assert (calls[0].api_key, calls[-1].api_key, trace.header.capture) == ("key-1", "key-2", "partial")
    assert trace.header.keys["key-1"].account
    assert [call.path for call in calls].count("/v1/account") >= 9
    assert calls[-1].path == "/v1/slots"


CREDENTIALS = {
    "a header": (b"X-Auth: hush\r\nX-Api-Key: hush\r\n", b""),
    "a field": (b"", b'{"password": "hush", "client_secret": "hush", "secret_key": "hu\\"sh", "n": 1}'),
    "a form": (b"", b"user=me&client_secret=hush&password=hush"),
    "a URL": (b"Referer: http://a.example/?n=1&access_token=hush\r\n", b""),
    "a form in parts": (
        b"Content-Type: multipart/form-data; boundary=b\r\n",
        b'--b\r\nContent-Disposition: form-data; name="password"\r\nContent-Type: text/plain\r\n\r\nhu\nsh'
        b'hush\r\n--b\r\nContent-Disposition: form-data; name="n"\r\n\r\n1\r\n--b--\r\n',
    ),
}


@pytest.mark.parametrize("where", CREDENTIALS)
def test_credentials_reach_the_upstream_and_no_trace(where: str, tmp_path: Path) -> None:
    headers, body = CREDENTIALS[where]
    request = (
        b"POST /v1/x?key=hush&sig=hush HTTP/1.1\r\nHost: here\r\n" + headers
        + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )  # fmt: skip
    reply = b'HTTP/1.1 200 OK\r\nX-Auth: hush\r\nContent-Length: 24\r\n\r\n{"access_token": "hush"}'
    with (
        Upstream(reply, until=body or b"\r\n\r\n") as upstream,
        recording(upstream.url, tmp_path / "out") as url,
    ):
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(request)
            assert connection.recv(65_536) == reply
    assert b"hush" in upstream.came[0]
    text = (tmp_path / "out" / "trace.jsonl").read_text()
    assert "hush" not in text
    assert "hu\\" not in text
    assert Trace.read(tmp_path / "out" / "trace.jsonl").exchanges[0].status == 200


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--upstream", "api.example.com"], "--upstream: expected a URL such as https://api.example.com"),
        (
            ["--upstream", "http://me:hush@a.example"],
            "a name and a password in the URL would be written down",
        ),
        (["--upstream", "http://a.example", "--listen", "8090"], "--listen: expected HOST:PORT"),
        (["--upstream", "http://a.example", "--listen", "0.0.0.0:8090"], "say --any-host"),
        (
            ["--upstream", "https://a.example", "--ca-file", "none.pem"],
            "--ca-file: expected certificates in PEM",
        ),
    ],
)
def test_wrong_options_are_refused_and_leave_nothing(words: list[str], says: str, tmp_path: Path) -> None:
    command = [*RECORD[:-1], "trace", "record", *words, "--out", "out"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, env=ENVIRON)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
