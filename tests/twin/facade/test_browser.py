"""A page of a name that is bound to this machine anew (DNS rebinding) gets nothing, in a real browser.

    .venv/bin/python -m pytest -m browser tests/twin/facade/test_browser.py

The browser gets everything of evil.example through a proxy, which is the name's owner: it serves the page
itself and then, as if the name had moved, lets the deployment answer, so that both are of one origin.
"""

import json
import queue
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ranksim.core.service.calls import Call
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin
from ranksim.twin.serving.control_auth import names_of
from ranksim.twin.serving.listener import Listener
from ranksim.twin.serving.loop_thread import LoopThread

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")

pytestmark = [pytest.mark.browser, pytest.mark.skipif(BROWSER is None, reason="wants Chromium")]

PAGE = """<!doctype html><script>
async function ask(name, url, more) {
  try {
    const answer = await fetch(url, more);
    return [name, answer.status, await answer.text()];
  } catch (error) { return [name, 0, String(error)]; }
}
(async () => {
  const there = "http://127.0.0.1:PORT", json = {"Content-Type": "application/json"};
  const found = [
    await ask("the service itself", "/livez"),
    await ask("keys", "/_ranksim/keys"),
    await ask("state", "/_ranksim/state"),
    await ask("events", "/_ranksim/events"),
    await ask("reset", "/_ranksim/reset", {method: "POST"}),
    await ask("reset with a body", "/_ranksim/reset", {method: "POST", headers: json, body: "{}"}),
    await ask("keys, across", there + "/_ranksim/keys"),
    await ask("reset, across", there + "/_ranksim/reset", {method: "POST"}),
    await ask("reset, across and unread", there + "/_ranksim/reset", {method: "POST", mode: "no-cors"}),
  ];
  await fetch("/found", {method: "POST", body: JSON.stringify(found)});
})();
</script>"""


@contextmanager
def owner_of_the_name(port: int, found: "queue.Queue[Any]") -> Iterator[int]:
    """The proxy; what the page found comes out of the queue."""

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # as http.server calls it
            self._answer()

        do_POST = do_OPTIONS = do_GET

        def _answer(self) -> None:
            path = urlsplit(self.path).path
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if path == "/found":
                found.put(json.loads(body))
                self._send(204, b"")
            elif path == "/":
                self._send(200, PAGE.replace("PORT", str(port)).encode())
            else:
                headers = {name: value for name, value in self.headers.items() if "proxy" not in name.lower()}
                asked = urllib.request.Request(
                    f"http://127.0.0.1:{port}{path}", body or None, headers, method=self.command
                )
                opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
                try:
                    with opener.open(asked, timeout=60) as answer:
                        self._send(answer.status, answer.read(100_000))
                except urllib.error.HTTPError as error:
                    self._send(error.code, error.read())

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield proxy.server_port
    finally:
        proxy.shutdown()
        proxy.server_close()


def test_a_rebound_page_reads_no_key_and_resets_nothing(tmp_path: Path) -> None:
    loop, found = LoopThread(), queue.Queue[Any]()

    async def begun() -> tuple[Twin, Listener]:
        twin = Twin(clock="manual", sender=Scripted())
        twin.call(Call("domains.create", twin.keys["production"], body={"host": "kept.example"}))
        return twin, await Listener(Facade(twin, control_names=names_of("127.0.0.1"))).open()

    twin, listener = loop.call(begun())
    with owner_of_the_name(listener.port, found) as proxy:
        given = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            f"--user-data-dir={tmp_path}", f"--proxy-server=http://127.0.0.1:{proxy}", f"http://evil.example:{listener.port}/",
        ]  # fmt: skip
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        browser = subprocess.Popen([str(BROWSER), *given], **quiet)
        try:
            answers = {name: (status, text) for name, status, text in found.get(timeout=120)}
        finally:
            browser.terminate()
            browser.wait(30)
    kept = loop.run(lambda: len(twin.service.state.domains))
    loop.call(listener.close())
    loop.call(twin.close())
    loop.stop()
    print(json.dumps({name: status for name, (status, _) in answers.items()}, indent=1))
    assert answers.pop("the service itself") == (200, "ok\n")  # so far the name does reach it
    for name, (status, text) in answers.items():
        assert status in (0, 403), name
        assert twin.keys["production"] not in text
    assert kept == 1
