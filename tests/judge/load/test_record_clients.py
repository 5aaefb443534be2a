"""`ranksim trace record` between real clients and servers: the same bytes on both sides, and no secret.

.venv/bin/python -m pytest -m "slow or heavy" tests/judge/load/test_record_clients.py
"""

from __future__ import annotations

import gzip
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.judge.load.taps import address, compared
from tests.judge.load.test_record import ENVIRON
from tests.judge.load.test_record_streams import upstream

from ranksim.core.trace import Trace
from ranksim.testing import Server

SECRET = "hush-8f2c"
HEADERS = {"Authorization": f"Bearer {SECRET}", "Cookie": f"session={SECRET}"}


def recorded(out: Path) -> Trace:
    """The trace, which holds no secret."""
    for path in out.rglob("*"):
        assert SECRET.encode() not in path.read_bytes()
    return Trace.read(out / "trace.jsonl")


NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log {folder}/access.log; keepalive_requests 4; types {{ text/plain txt; }}
  client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
  uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
  server {{
    listen 127.0.0.1:{port}; root {folder}/site; gzip on; gzip_min_length 1; gzip_types text/plain;
    add_header Set-Cookie "session={secret}"; add_header X-Auth-Token {secret};
  }}
}}
"""


@contextmanager
def nginx(folder: Path) -> Iterator[str]:
    """An nginx of our own that serves two files; a connection carries four calls."""
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "text.txt").write_text(json.dumps({"password": SECRET, "n": 20_000 * [0]}))
    (folder / "site" / "bytes.bin").write_bytes(bytes(range(256)) * 1_000)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (folder / "conf").write_text(NGINX.format(folder=folder, port=port, secret=SECRET))
    words = [shutil.which("nginx") or "", "-c", str(folder / "conf"), "-e", str(folder / "error.log")]
    process = subprocess.Popen(words, stderr=subprocess.PIPE)
    try:
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                continue
        assert process.poll() is None, process.stderr and process.stderr.read()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nginx") is None, reason="wants nginx")
def test_nginx(tmp_path: Path) -> None:
    calls = {
        "gzip in chunks": ("/text.txt", {"Accept-Encoding": "gzip"}, 200),
        "plain": ("/text.txt", {}, 200),
        "a range": ("/bytes.bin", {"Range": "bytes=10-19"}, 206),
        "two ranges": ("/bytes.bin", {"Range": "bytes=0-1,300-399"}, 206),
        "beyond": ("/bytes.bin", {"Range": "bytes=9999999-"}, 416),
        "none": ("/none", {}, 404),
    }
    seen = {}
    with nginx(tmp_path / "nginx") as base, compared(base, tmp_path / "out") as url:
        connection = http.client.HTTPConnection(*address(url), timeout=20)
        for name, (path, more, status) in calls.items():
            connection.request("GET", path, headers=HEADERS | more)
            answer = connection.getresponse()
            seen[name] = (answer.status, answer.headers, answer.read())
            assert answer.status == status
        tag = seen["plain"][1]["ETag"]
        for method, more, status in (("GET", {"If-None-Match": tag}, 304), ("HEAD", {}, 200)):
            connection.request(method, "/text.txt", headers=HEADERS | more)
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (status, b"")
        connection.close()
    assert seen["gzip in chunks"][1]["Transfer-Encoding"] == "chunked"
    assert gzip.decompress(seen["gzip in chunks"][2]) == seen["plain"][2]
    assert seen["a range"][2] == bytes(range(10, 20))
    exchanges = recorded(tmp_path / "out").exchanges
    assert [call.status for call in exchanges] == [200, 200, 206, 206, 416, 404, 304, 200]
    assert (
        exchanges[0].response == exchanges[1].response == seen["plain"][2].decode().replace(SECRET, "hidden")
    )


USER = """
import gevent
from locust import FastHttpUser, HttpUser, task

def calls(user):
    user.client.get("/v1/account", headers=HEADERS)
    user.client.post("/v1/domains", json={"host": "a.example", "password": SECRET}, headers=HEADERS)
    user.client.get("/v1/nothing?token=" + SECRET, headers=HEADERS)
    if len(done) < 30:
        done.append(user)
    else:
        gevent.spawn(user.environment.runner.quit)

done = []

class Fast(FastHttpUser):
    fixed_count = 2
    play = task(calls)

class Plain(HttpUser):
    fixed_count = 2
    play = task(calls)
"""


@pytest.mark.slow
def test_users_of_locust(tmp_path: Path) -> None:
    file = tmp_path / "users.py"
    file.write_text(f"HEADERS, SECRET = {HEADERS!r}, {SECRET!r}\n{USER}")
    with Server() as server, compared(server.url, tmp_path / "out") as url:
        words = [sys.executable, "-m", "locust", "-f", str(file), "--headless", "--host", url, "--users", "4"]
        words += ["--spawn-rate", "4", "--json", "--exit-code-on-error", "0"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=ENVIRON)
        assert done.returncode == 0, done.stderr
    made = sum(row["num_requests"] for row in json.loads(done.stdout))
    exchanges = recorded(tmp_path / "out").exchanges
    answered = [call for call in exchanges if call.status is not None]
    assert made >= 90
    assert made <= len(answered) <= made + 4  # those that four users still had under way as they stopped
    assert {call.status for call in answered} == {401}
    assert {call.api_key for call in exchanges} == {"key-1"}


PEERS = Path(__file__).with_name("aiohttp_peers.py")


@pytest.fixture(scope="module")
def python_of_aiohttp(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python of its own that has aiohttp, which is no dependency of ours."""
    folder = tmp_path_factory.mktemp("aiohttp")
    venv.create(folder, with_pip=True)
    python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    done = subprocess.run([python, "-m", "pip", "install", "-q", "aiohttp"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("wants aiohttp, which cannot be installed here")
    return python


@pytest.mark.heavy
def test_aiohttp_as_client_and_as_server(python_of_aiohttp: str, tmp_path: Path) -> None:
    server = subprocess.Popen([python_of_aiohttp, str(PEERS), "serve"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        with compared(server.stdout.readline().strip(), tmp_path / "out") as url:
            words = [python_of_aiohttp, str(PEERS), "call", url, SECRET]
            done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
            assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr
    finally:
        server.terminate()
        server.communicate(timeout=20)
    trace = recorded(tmp_path / "out")
    by_path = {call.path: call for call in trace.exchanges}
    assert len(trace.exchanges) == 35
    assert by_path["/gzip"].response == json.dumps({"ok": True, "api_key": "hidden"})
    assert by_path["/chunks"].body == "part 0 part 1 part 2 "
    assert by_path["/socket"].status == 101


@pytest.mark.heavy
def test_aiohttp_as_client_of_another_server(python_of_aiohttp: str, tmp_path: Path) -> None:
    with upstream() as base, compared(base, tmp_path / "out") as url:
        words = [python_of_aiohttp, str(PEERS), "large", url, SECRET]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert (done.stdout, done.returncode) == ("52428800\n", 0), done.stderr
    assert [call.status for call in recorded(tmp_path / "out").exchanges] == [200]
