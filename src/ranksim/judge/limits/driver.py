"""Probes over HTTP: volleys at their instants, over connections that stay open, each call timed."""

from __future__ import annotations

import http.client
import ssl
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from statistics import median
from time import sleep
from typing import TypeAlias
from urllib.parse import urlsplit

from ranksim.core.clock import SECOND, Micros
from ranksim.core.errors import BadInput
from ranksim.judge.limits.calls import REFUSALS, LimitedCall
from ranksim.judge.limits.probes import WIDE_LANES, Probing, Volley
from ranksim.judge.load.recorder import AnchoredClock
from ranksim.judge.load.session import Deadline, bound, is_readable

LARGEST_REPLY = 1 << 20
"""Bytes that are read of a reply; a longer one counts as lost."""

LATEST, MOST_ERRORS, SLOWER, SLOW = 40, 0.2, 8, 2 * SECOND
"""An API is harmed when of so many of the latest calls more than this share were errors of a server or were
lost, or one alone took so many times as long as the first, and longer than this."""


Place: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What is called: `url` with `headers` and, where `method` has one, a `body`; `source` is our address."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    source: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadInput(f"{self.url}: expected the URL of an API, such as https://api.example.com/widgets")

    @property
    def place(self) -> Place:
        """Where a connection goes, and from where."""
        parts = urlsplit(self.url)
        return parts.scheme, parts.netloc, self.source

    @property
    def below(self) -> str:
        """The path with the query."""
        parts = urlsplit(self.url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def connect(self, timeout: float, tls: ssl.SSLContext) -> http.client.HTTPConnection:
        """Open a connection. Raises OSError."""
        parts = urlsplit(self.url)
        source = (self.source, 0) if self.source else None
        connection = (
            http.client.HTTPSConnection(parts.netloc, timeout=timeout, context=tls, source_address=source)
            if parts.scheme == "https"
            else http.client.HTTPConnection(parts.netloc, timeout=timeout, source_address=source)
        )
        connection.connect()
        return connection


class HarmedError(Exception):
    """The API answers with errors, or far slower than it did: probing ends."""


class Prober:
    """Makes the calls of probes. Close it at the end.

    `timeout` is how long a call may take, in seconds. After each volley `on_volley` is called with all calls.
    """

    def __init__(
        self,
        endpoint: ProbeRequest,
        *,
        timeout: float = 15.0,
        refusals: Collection[int] = REFUSALS,
        tls: ssl.SSLContext | None = None,
        on_volley: Callable[[int], None] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.timeout = timeout
        self.refusals = refusals
        self.clock = AnchoredClock.here()
        self.count = 0
        self._tls = tls or ssl.create_default_context()
        self._on_volley = on_volley
        self._pool = ThreadPoolExecutor(WIDE_LANES, "limits")
        self._open: list[dict[Place, http.client.HTTPConnection]] = [{} for _ in range(WIDE_LANES)]
        self._latest: deque[LimitedCall] = deque(maxlen=LATEST)
        self._first: Micros = 0
        self._stopping = threading.Event()

    def play(self, program: Probing) -> None:
        """Carry out a program. Raises HarmedError."""
        try:
            volley = next(program)
            while True:
                volley = program.send(self.volley(volley))
        except StopIteration:
            return

    def volley(self, volley: Volley, endpoint: ProbeRequest | None = None) -> list[LimitedCall]:
        """Make the calls of a volley, by default of our endpoint; return them in order of sending."""
        place, numbers, lock = endpoint or self.endpoint, count(), threading.Lock()
        lanes = min(volley.lanes, volley.count, WIDE_LANES)
        self._wait(volley.at)
        begun, calls = self.clock.now(), []

        def lane(which: int) -> None:
            while not self._stopping.is_set():
                with lock:
                    number = next(numbers)
                if number >= volley.count:
                    return
                if volley.pace:
                    self._wait(begun + number * volley.pace)
                call = self._call(place, which)
                with lock:
                    calls.append(call)

        try:
            list(self._pool.map(lane, range(lanes)))
        except BaseException:
            self._stopping.set()
            raise
        calls.sort(key=lambda call: call.sent)
        self._latest.extend(calls)
        self._first = self._first or round(median(call.done - call.sent for call in calls))
        if self._on_volley is not None:
            self._on_volley(self.count)
        self._look_for_harm(calls)
        return calls

    def close(self) -> None:
        """Close all connections."""
        self._stopping.set()
        self._pool.shutdown()
        for lane in self._open:
            for connection in lane.values():
                connection.close()

    def _wait(self, instant: Micros) -> None:
        while (left := instant - self.clock.now()) > 0 and not self._stopping.is_set():
            sleep(min(left / SECOND, 0.25))

    def _call(self, endpoint: ProbeRequest, lane: int) -> LimitedCall:
        """Make one call over the connection of a lane."""
        self.count += 1
        name, path = f"x{self.count}", urlsplit(endpoint.url).path or "/"
        sent = self.clock.now()
        try:
            connection = self._open[lane].get(endpoint.place)
            if connection is None or connection.sock is None or is_readable(connection.sock):
                connection = self._open[lane][endpoint.place] = endpoint.connect(self.timeout, self._tls)
            deadline = Deadline.of(self.clock.now, self.timeout)
            bound(connection, deadline, LARGEST_REPLY)
            sent = self.clock.now()
            connection.request(endpoint.method, endpoint.below, endpoint.body, dict(endpoint.headers))
            response = connection.getresponse()
            response.read()
            done = self.clock.now()
        except (OSError, ValueError, http.client.HTTPException):
            broken = self._open[lane].pop(endpoint.place, None)
            if broken is not None:
                broken.close()
            return LimitedCall(name, sent, self.clock.now(), None, {}, endpoint.method, path)
        if response.will_close:
            self._open[lane].pop(endpoint.place).close()
        headers = {header.lower(): value for header, value in response.getheaders()}
        return LimitedCall(name, sent, done, response.status, headers, endpoint.method, path)

    def _look_for_harm(self, calls: Sequence[LimitedCall]) -> None:
        latest = [call for call in self._latest if call.status not in self.refusals]
        if len(latest) < LATEST // 4:
            return
        errors = sum(call.status is None or call.status >= 500 for call in latest)
        if errors > MOST_ERRORS * len(latest):
            raise HarmedError(f"{errors} of the latest {len(latest)} calls were lost or failed with 5xx")
        took = calls[-1].done - calls[-1].sent if len(calls) == 1 else 0  # several may wait for each other
        if took > max(SLOW, SLOWER * self._first):
            times = took / self._first
            raise HarmedError(
                f"a call takes {took / SECOND:.1f} s now, {times:.0f} times as long as at first"
            )
