"""A recording webhook receiver: it answers as scripted, verifies signatures, and lists what came.

A plain ASGI app. What a script says counts by attempt number: the first step answers the first attempt of
every event, the last step all further attempts. Control is by HTTP under `/_receiver`, or by methods.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Self
from urllib.parse import parse_qsl

from ranksim.core.callers.receivers import AnswerStep, by_attempt, signed_at, verify_any
from ranksim.core.clock import SECOND, Micros
from ranksim.core.errors import BadInput
from ranksim.twin.serving.asgi import Gone, Receive, Scope, Send, hung_up
from ranksim.twin.serving.control_auth import names_of, new_token, refusal, take_token
from ranksim.twin.serving.listener import Listener
from ranksim.twin.serving.loop_thread import LoopThread
from ranksim.twin.serving.parsing import whole_number
from ranksim.twin.serving.wall_clock import wall

LARGEST_BODY = 1 << 20
"""Bytes; a longer body gets 413 and is not recorded."""

CONTROL = "/_receiver"
"""The reserved prefix: paths below it are never recorded."""

EVERY_PATH = "*"

CONTROLS = {
    f"GET {CONTROL}/clock": "the receiver's clock, µs since the epoch",
    f"GET {CONTROL}/requests": "what came; filters path, event, type, attempt",
    f"DELETE {CONTROL}/requests": "forget what came",
    f"GET {CONTROL}/scripts": "what each path answers, by attempt",
    f"PUT {CONTROL}/scripts": 'set one: {"path": "/hooks", "script": [500, "302:/moved", "200+2s"]}',
    f"POST {CONTROL}/secrets": 'verify with a secret: {"secret": "whsec_...", "path": "/hooks"}',
}
"""What can be asked of a receiver over HTTP; a path left out means all paths."""

WATCH, STALL = SECOND // 20, SECOND // 5
"""How often the receiver looks whether it stalls, and what it calls a stall."""


@dataclass(slots=True)
class Received:
    """One request that came. Instants are µs since the epoch, on the receiver's clock.

    `valid` is None while no secret is known for the path; `problem` says what is wrong with the signature.
    `answered` and `status` are None until the answer was written, and for ever when none was.
    """

    number: int
    received: Micros
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    valid: bool | None = None
    problem: str = ""
    step: AnswerStep = field(default_factory=AnswerStep)
    status: int | None = None
    answered: Micros | None = None

    @property
    def event_id(self) -> str:
        """The Service-Event-Id, equal for all attempts of one event (S79); "" without one."""
        return self.headers.get("service-event-id", "")

    @property
    def event_type(self) -> str:
        """The Service-Event-Type (S80)."""
        return self.headers.get("service-event-type", "")

    @property
    def attempt(self) -> int:
        """The Service-Delivery-Attempt, from 1 (S81); 0 without one."""
        return whole_number(self.headers.get("service-delivery-attempt", "")) or 0

    @property
    def signature(self) -> str:
        """The Service-Signature (S78)."""
        return self.headers.get("service-signature", "")

    @property
    def signed_at(self) -> int | None:
        """The Unix second of the signature (S78)."""
        return signed_at(self.signature)

    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return json.loads(self.body)

    def to_dict(self) -> dict[str, Any]:
        """The delivery as a line of a trace, with what a receiver knows besides."""
        return {
            "kind": "delivery",
            "number": self.number,
            "received": self.received,
            "answered": self.answered,
            "endpoint": self.path,
            "method": self.method,
            "query": self.query,
            "event_id": self.event_id,
            "event_type": self.event_type,
            "attempt": self.attempt,
            "headers": dict(self.headers),
            "body": self.body.decode("utf-8", "replace"),
            "signature": {"valid": self.valid, "t": self.signed_at, "checked_by": "ranksim receive"},
            "problem": self.problem,
            "step": str(self.step),
            "status": self.status,
        }


class Receiver:
    """Records whole requests, answers them as their path's script says, verifies what it has a secret for.

    `clock` tells the instant in µs that is noted down, `signing_clock` the one that signatures are compared
    with (default: the same); `tolerance` is their greatest age in seconds (None: any will do, S86). A
    `strict` receiver answers 400 to a request whose signature does not verify. The latest `keep` requests
    are kept. `came` is called with every request before it is answered, `heard` once it is.

    Over HTTP it is controlled by whoever sends `token` as a bearer token; None makes one up, "" wants none.
    Where it listens control is served under its own names and `control_names` alone.

    Use it as an ASGI app, or as a context manager that listens at `url` in a thread.
    """

    def __repr__(self) -> str:
        verdicts = Counter(
            "not verified" if request.valid is None else request.problem or "verified"
            for request in self.requests
        )
        came = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        return f"<Receiver: {came or 'no request'}>"

    def __init__(
        self,
        *script: AnswerStep | int | str,
        secret: str | None = None,
        clock: Callable[[], Micros] = wall,
        signing_clock: Callable[[], Micros] | None = None,
        tolerance: int | None = 300,
        strict: bool = False,
        keep: int = 10_000,
        came: Callable[[Received], None] | None = None,
        heard: Callable[[Received], None] | None = None,
        token: str | None = None,
        control_names: Collection[str] = (),
    ) -> None:
        self.clock = clock
        self.signing_clock = signing_clock or clock
        self.tolerance = tolerance
        self.strict = strict
        self.came = came
        self.heard = heard
        self.token = new_token() if token is None else token
        self.control_names = control_names
        self.url = ""
        self._changed = threading.Condition()
        self._requests: deque[Received] = deque(maxlen=keep)
        self._count = 0
        self._scripts: dict[str, tuple[AnswerStep, ...]] = {}
        self._secrets: dict[str, list[str]] = {}
        self._attempts: dict[tuple[str, str], int] = {}
        self._thread: LoopThread | None = None
        self.script(*(script or (200,)))
        if secret is not None:
            self.trust(secret)

    # What it shall do

    def script(self, *steps: AnswerStep | int | str, path: str = EVERY_PATH) -> None:
        """Answer the attempts of every event by these steps, the last one for all further attempts."""
        if not steps:
            raise BadInput("script: expected at least one step, such as 200")
        read = tuple(AnswerStep.of(step) for step in steps)
        with self._changed:
            self._scripts[_path(path)] = read

    def trust(self, secret: str, path: str = EVERY_PATH) -> None:
        """Verify requests to `path` with this signing secret too; any one of its secrets will do."""
        with self._changed:
            self._secrets.setdefault(_path(path), []).append(secret)

    def clear(self) -> None:
        """Forget what came; scripts and secrets stay."""
        with self._changed:
            self._requests.clear()
            self._attempts.clear()

    def scripts(self) -> dict[str, list[str]]:
        """Return the steps of each path's script, as text."""
        return {path: [str(step) for step in steps] for path, steps in self._scripts.items()}

    def count_secrets(self) -> dict[str, int]:
        """Return how many signing secrets are known for each path."""
        return {path: len(secrets) for path, secrets in self._secrets.items()}

    # What came

    @property
    def requests(self) -> list[Received]:
        """What came and is still kept, in order."""
        with self._changed:
            return list(self._requests)

    def select(
        self,
        path: str | None = None,
        event: str | None = None,
        type: str | None = None,
        attempt: int | None = None,
    ) -> list[Received]:
        """What came to a path, of an event id, of an event type, with an attempt number."""
        return [
            request
            for request in self.requests
            if path in (None, request.path)
            and event in (None, request.event_id)
            and type in (None, request.event_type)
            and attempt in (None, request.attempt)
        ]

    def wait(self, count: int, seconds: float = 10) -> list[Received]:
        """Wait until `count` requests are kept and answered, or given up; then give them.

        Raises TimeoutError after so many seconds of wall time, with what came.
        """

        def there() -> bool:
            return sum(request.answered is not None for request in self._requests) >= count

        with self._changed:
            if not self._changed.wait_for(there, seconds):
                came = ", ".join(
                    f"{delivered.path} attempt {delivered.attempt}" for delivered in self._requests
                )
                raise TimeoutError(f"expected {count} requests in {seconds} s, came: {came or 'none'}")
            return list(self._requests)

    # One request

    def accept(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Received:
        """Record a request whose header names are in lower case; its `step` says how to answer."""
        with self._changed:
            self._count += 1
            came = Received(self._count, self.clock(), method, path, query, headers, body)
            came.valid, came.problem = self._verify(came)
            refused = self.strict and came.valid is False
            came.step = AnswerStep(400) if refused else self._step(came)
            self._requests.append(came)
            self._changed.notify_all()
        if self.came is not None:
            self.came(came)
        return came

    def answered(self, came: Received, status: int | None) -> None:
        """Note what was answered, None when the sender had gone; verify if a secret has come meanwhile."""
        with self._changed:
            if came.valid is None:
                came.valid, came.problem = self._verify(came)
            came.status = status
            came.answered = self.clock()
            self._changed.notify_all()
        if self.heard is not None:
            self.heard(came)

    def _step(self, came: Received) -> AnswerStep:
        steps = self._scripts.get(came.path, self._scripts[EVERY_PATH])
        return by_attempt(steps, came.attempt or self._nth(came))

    def _nth(self, came: Received) -> int:
        """Count a request that does not say its attempt number."""
        which = (came.path, came.event_id)
        self._attempts[which] = self._attempts.get(which, 0) + 1
        return self._attempts[which]

    def _verify(self, came: Received) -> tuple[bool | None, str]:
        secrets = self._secrets.get(came.path, []) + self._secrets.get(EVERY_PATH, [])
        now = self.signing_clock() if secrets and self.tolerance is not None else 0
        event = came.path, came.event_id
        before = (
            other.signed_at
            for other in self._requests
            if other.number < came.number and (other.path, other.event_id) == event
        )
        return verify_any(
            secrets,
            came.signature,
            came.body,
            now=now,
            tolerance=self.tolerance,
            others=chain.from_iterable(self._secrets.values()),
            earlier=filter(None, before),
        )

    # Over HTTP

    def __enter__(self) -> Self:
        return self if self._thread else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, host: str = "127.0.0.1", port: int = 0) -> Self:
        """Listen in a thread; `url` says where. Raises BadInput when that cannot be."""
        listener = Listener(self, host, port)
        self.control_names = names_of(host, self.control_names)
        self._thread = LoopThread("ranksim receiver")
        self._listener = self._thread.call(listener.open())
        self.url = listener.url
        return self

    def watch(self, stalled: Callable[[Micros, Micros], None]) -> None:
        """While it listens, call `stalled` with the end and the length (µs) of each stall of its loop."""
        if self._thread is not None:
            self._watching = self._thread.start(watch_stalls(self.clock, stalled))

    def stop(self) -> None:
        """Stop listening; what came stays."""
        if self._thread is not None:
            self._thread.call(self._listener.close())
            self._thread.stop()
            self._thread = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request (ASGI)."""
        try:
            body = await _body(receive)
        except Gone:
            return
        path = scope["path"]
        if path == CONTROL or path.startswith(CONTROL + "/"):
            await _reply(send, *_answer_control(self, scope, body))
        elif body is None:
            await _reply(send, 413, {"error": f"bodies have at most {LARGEST_BODY} bytes"})
        else:
            headers = {
                name.decode("latin-1").lower(): text.decode("latin-1") for name, text in scope["headers"]
            }
            came = self.accept(scope["method"], path, scope["query_string"].decode("latin-1"), headers, body)
            await self._play(came, receive, send)

    async def _play(self, came: Received, receive: Receive, send: Send) -> None:
        """Answer as scripted, unless the sender goes first."""
        step = came.step
        leaving = asyncio.create_task(hung_up(receive))
        wait = None if step.status is None else step.delay / SECOND
        try:
            if wait is None or wait > 0:
                await asyncio.wait((leaving,), timeout=wait)
            if step.status is None or leaving.done():
                self.answered(came, None)
                return
            location = {"location": step.location} if step.location else {}
            await _reply(send, step.status, {"received": came.number}, location)
            self.answered(came, step.status)
        finally:
            leaving.cancel()


async def watch_stalls(
    clock: Callable[[], Micros],
    stalled: Callable[[Micros, Micros], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Notice when the event loop gets no turn for longer than `STALL`; say until when and how long."""
    while True:
        before = clock()
        await sleep(WATCH / SECOND)
        now = clock()
        if (late := now - before - WATCH) > STALL:
            stalled(now, late)


def _path(path: Any) -> str:
    if not isinstance(path, str) or not (path == EVERY_PATH or path.startswith("/")):
        raise BadInput(f"path: expected one such as /hooks, or * for all, found {path!r}")
    return path


async def _body(receive: Receive) -> bytes | None:
    """Read a request's body to its end; None when it is too large. Raises Gone."""
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        size += len(message.get("body", b""))
        if size <= LARGEST_BODY:
            parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return None if size > LARGEST_BODY else b"".join(parts)


async def _reply(send: Send, status: int, answer: Any, headers: Mapping[str, str] | None = None) -> None:
    content = b"" if status < 200 or status in (204, 304) else json.dumps(answer).encode() + b"\n"
    fields = {"content-type": "application/json", "content-length": str(len(content)), **(headers or {})}
    if not content:
        del fields["content-type"]
    if status < 200 or status == 204:
        del fields["content-length"]
    raw = [(name.encode("latin-1"), text.encode("latin-1", "replace")) for name, text in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": content})


# Control over HTTP, under `/_receiver`, by whoever sends the token


def _answer_control(receiver: Receiver, scope: Scope, body: bytes | None) -> tuple[int, Any]:
    """Answer a control request: status and JSON."""
    refused = refusal(receiver.token, scope, receiver.control_names)
    if refused is not None:
        return refused[0], {"error": refused[1]}
    take_token(scope)
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    try:
        match scope["method"], scope["path"].removeprefix(CONTROL):
            case ("GET", "" | "/"):
                return 200, CONTROLS
            case ("GET", "/clock"):
                return 200, {"now": receiver.clock()}
            case ("GET", "/requests"):
                return 200, _list(receiver, query)
            case ("DELETE", "/requests"):
                receiver.clear()
                return 200, _list(receiver, {})
            case ("GET", "/scripts"):
                return 200, receiver.scripts()
            case ("PUT", "/scripts"):
                command = _object(body, "path", "script")
                steps = command.get("script")
                receiver.script(
                    *(steps if isinstance(steps, list) else [steps]), path=command.get("path", EVERY_PATH)
                )
                return 200, receiver.scripts()
            case ("POST", "/secrets"):
                command = _object(body, "path", "secret")
                if not isinstance(command.get("secret"), str):
                    raise BadInput("secret: expected text, the endpoint's signing secret")
                receiver.trust(command["secret"], command.get("path", EVERY_PATH))
                return 201, {"secrets": receiver.count_secrets()}
    except BadInput as error:
        return 400, {"error": str(error)}
    return 404, {"error": f"nothing there; GET {CONTROL} lists what is"}


def _list(receiver: Receiver, query: Mapping[str, str]) -> Any:
    attempt = whole_number(query["attempt"]) if "attempt" in query else None
    if attempt is None and "attempt" in query:
        raise BadInput(f"attempt: expected a number, found {query['attempt']!r}")
    if unknown := query.keys() - {"path", "event", "type", "attempt"}:
        raise BadInput(f"{min(unknown)}: no such filter; there are path, event, type and attempt")
    requests = receiver.select(
        query.get("path"),
        query.get("event"),
        query.get("type"),
        attempt,
    )
    return {"count": len(requests), "requests": [request.to_dict() for request in requests]}


def _object(body: bytes | None, *names: str) -> dict[str, Any]:
    """Read a JSON object that has no other fields. Raises BadInput."""
    try:
        command = json.loads(body or b"")
    except (ValueError, RecursionError):
        command = None
    if not isinstance(command, dict) or command.keys() - set(names):
        raise BadInput(f"body: expected a JSON object with {' and '.join(names)}")
    return command
