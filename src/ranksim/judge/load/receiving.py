"""The webhook receiver beside a load run: a process of its own, and what speaks to it.

The receiver is `ranksim serve receive`, here on loopback, or somewhere else where the deployment reaches it.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ranksim.core.errors import BadInput
from ranksim.core.trace import SECRET_FIELDS
from ranksim.judge.load.recorder import AnchoredClock, PartRecorder
from ranksim.judge.load.session import Deadline, bound

CONTROL = "/_receiver"

BEGINNING = 60.0
"""Seconds that the receiver may take to begin: long, for where a load is made the machine is busy."""

PATIENCE = 10.0
"""Seconds that the receiver may take to answer and to end."""

FETCHING = 300.0
"""Seconds that a receiver elsewhere may take to hand out all that came."""

LARGEST_ANSWER = 1 << 30
"""Bytes of what a receiver answers, at most."""

NOT_ANSWERED = (OSError, http.client.HTTPException, ValueError, KeyError, TypeError)

_ANNOUNCED = re.compile(r"receiving at (\S+) ")


class ReceiverClient:
    """The paths of a receiver that one process of the run has webhooks sent to.

    `url` is where the deployment and we reach the receiver; `prefix` is the run's own, so that runs which
    share a receiver do not share paths; `token` is what the receiver's control wants, if anything.
    """

    def __init__(self, url: str, prefix: str, recorder: PartRecorder, token: str | None = None) -> None:
        self.url = url
        self.token = token
        self.prefix = prefix
        self.recorder = recorder
        self._numbers = count(1)
        self._known: set[tuple[str, str]] = set()

    def listen(self, script: str) -> str:
        """Have a new path answered as a script says; gives its URL, or "" where the receiver is silent."""
        path = f"/{self.prefix}/{self.recorder.part}/{next(self._numbers)}"
        body = {"path": path, "script": script.split(",")}
        return self.url + path if self._ask("PUT", "/scripts", body) else ""

    def observe(self, reply: str) -> None:
        """Learn from a reply which endpoint has a path of ours, and by which secret it signs."""
        if f"{self.url}/{self.prefix}/" not in reply:
            return
        for entry in _objects(json.loads(reply)):
            url = entry.get("url")
            if not isinstance(url, str) or not url.startswith(f"{self.url}/{self.prefix}/"):
                continue
            path = urlsplit(url).path.removeprefix(urlsplit(self.url).path)
            for secret in (entry.get(name) for name in SECRET_FIELDS):
                if isinstance(secret, str) and secret:
                    self.recorder.hide(secret)
                    self._ask("POST", "/secrets", {"path": path, "secret": secret})
            endpoint = entry.get("id")
            if isinstance(endpoint, str) and (path, endpoint) not in self._known:
                self._known.add((path, endpoint))
                self.recorder.endpoint(path, endpoint)

    def _ask(self, method: str, what: str, body: Any) -> bool:
        try:
            ask_receiver(self.url, method, what, body, self.token)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.recorder.note("the webhook receiver could not be reached", error=str(error))
            return False
        return True


VARIABLES = "RANKSIM_SERVE_RECEIVE_"
"""What the environment variables of its options begin with."""


class LocalReceiver:
    """`ranksim serve receive` as a child process on loopback, which logs into the folder of the run's parts.

    The run alone controls it, with `token`, which the environment hands it, as others can see arguments. It
    ends with the run: when it is stopped, and when this process is gone. Raises BadInput when it does not
    begin.
    """

    def __init__(self, directory: Path, clock: AnchoredClock) -> None:
        self.log = directory / "receiver.jsonl"
        words = [sys.executable, "-m", "ranksim", "serve", "receive", "--port", "0", "--tolerance", "-1"]
        words += ["--log", str(self.log), "--anchor", str(clock.anchor), "--with-parent"]
        self.token = secrets.token_urlsafe(24)
        own = {name: text for name, text in os.environ.items() if not name.startswith(VARIABLES)}
        own[f"{VARIABLES}CONTROL_TOKEN"] = self.token
        self._said = directory / "receiver.err"
        with self._said.open("wb") as output:
            self._process = subprocess.Popen(
                words, env=own, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=output,
                start_new_session=True,
            )  # fmt: skip
        self.url = self._announced()

    def stop(self) -> bool:
        """Stop it; what came is in its log. Return whether it was there until now."""
        there = self._process.poll() is None
        if there:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        return there

    def _announced(self) -> str:
        deadline = time.monotonic() + BEGINNING
        while time.monotonic() < deadline and self._process.poll() is None:
            if match := _ANNOUNCED.search(self._said.read_text(encoding="utf-8")):
                return match[1]
            time.sleep(0.02)
        self.stop()
        reason = self._said.read_text(encoding="utf-8").strip()
        raise BadInput(f"the webhook receiver did not begin: {reason or 'it said nothing'}")


class RemoteReceiver:
    """`ranksim serve receive` somewhere else: clocks are compared, and what came is fetched at the end."""

    def __init__(self, url: str, clock: AnchoredClock, token: str | None = None) -> None:
        self.url = url
        self.token = token
        self.clock = clock
        self.began = clock.now()
        self.ahead = self._compare()

    def fetch(self, prefix: str, recorder: PartRecorder) -> list[dict[str, Any]]:
        """Return what came for this run, with instants on our clock, and note how well the clocks agree.

        Raises BadInput when the receiver does not answer, or not as one does.
        """
        try:
            again = self._compare()
            low, high = max(self.ahead[0], again[0]), min(self.ahead[1], again[1])
            if low > high:
                recorder.note("the receiver's clock drifted", ahead=[*self.ahead, *again])
                low, high = min(self.ahead[0], again[0]), max(self.ahead[1], again[1])
            recorder.note("the receiver is elsewhere; it ran ahead by µs between", ahead=[low, high])
            came = ask_receiver(self.url, "GET", "/requests", token=self.token, patience=FETCHING)["requests"]
            if came and came[0]["number"] > 1 and came[0]["received"] - high > self.began:
                recorder.note("the receiver keeps the latest requests only; some of the run's may be missing")
            ours = [entry for entry in came if entry["endpoint"].startswith(f"/{prefix}/")]
            return [_shifted(entry, (low + high) // 2) for entry in ours]
        except NOT_ANSWERED as error:
            raise BadInput(
                f"{self.url}: expected what came to `ranksim serve receive` there ({error})"
            ) from None

    def _compare(self) -> tuple[int, int]:
        """Bound from below and above by how much the receiver's clock is ahead of ours, in µs."""
        try:
            before = self.clock.now()
            now = ask_receiver(self.url, "GET", "/clock", token=self.token)["now"]
            after = self.clock.now()
        except NOT_ANSWERED as error:
            raise BadInput(
                f"{self.url}: expected `ranksim serve receive` to answer there ({error}); start it, or "
                "correct the target's receiver and receiver_token"
            ) from None
        return now - after, now - before


def ask_receiver(
    url: str,
    method: str,
    what: str,
    document: Any = None,
    token: str | None = None,
    patience: float = PATIENCE,
) -> Any:
    """Ask a receiver's control API, which has so many seconds for its answer.

    Raises OSError, HTTPException or ValueError.
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=PATIENCE)
    try:
        body = None if document is None else json.dumps(document).encode()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.connect()
        bound(connection, Deadline.of(lambda: time.monotonic_ns() // 1000, patience), LARGEST_ANSWER)
        connection.request(method, parts.path + CONTROL + what, body, headers)
        response = connection.getresponse()
        text = response.read()
    finally:
        connection.close()
    if response.status >= 300:
        raise ValueError(f"{response.status} {text[:200]!r}")
    return json.loads(text)


def _shifted(entry: dict[str, Any], ahead: int) -> dict[str, Any]:
    answered = None if entry["answered"] is None else entry["answered"] - ahead
    return {**entry, "received": entry["received"] - ahead, "answered": answered}


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(inner)
