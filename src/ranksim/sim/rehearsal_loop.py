"""The event loop of a rehearsal, in integer µs: programs on one side, a service and receivers on the other.

A call takes effect some time after it was sent, and its reply arrives some time after that, or never. Webhook
attempts travel to virtual receivers and are answered by script. What a recorder would see becomes a trace.

GraphQL is not rehearsed: a call on that surface is answered with silence and leaves no exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any, Protocol

from pydantic_core import from_json, to_json

from ranksim.callers.discovery import Reach, declared
from ranksim.callers.http import effect_of, headers_of, path_of
from ranksim.callers.lost_calls import Unknown
from ranksim.callers.network import Network, Ways
from ranksim.callers.steps import Listen, Pause, Received, Send, Step, Until
from ranksim.callers.target import Target
from ranksim.clock import MILLISECOND, SECOND, Micros, http_date, instant
from ranksim.service.calls import Answer, Attempt, Call, Reply, Task
from ranksim.service.operations import OPERATIONS
from ranksim.sim.scripted_receivers import Receivers
from ranksim.trace import Exchange, Header, Note, Trace, hide_secrets

START = instant("2026-03-02T09:00:00Z")
"""When a rehearsal begins: a Monday morning, far from the edge of a week or a month."""

CALLER = "192.0.2.1"
"""The network address that all requests come from."""

CORS = {"access-control-allow-origin": "*"}

POOLED_JOB = 60 * SECOND
"""How long a job takes that the service hands out to a pool."""

Alter = Callable[[Send, int, dict[str, str], bytes], tuple[int, dict[str, str], bytes]]
"""Changes a reply on its way out: (send, status, headers in lower case, body) → (status, headers, body)."""


class Deployment(Protocol):
    """What a rehearsal asks of a service; whatever stands in for `ranksim.service` has these methods."""

    def handle(self, call: Call, now: int, traffic_now: int | None = None) -> tuple[Reply, list[Task]]:
        """Answer one call."""

    def advance(self, now: int) -> list[Task]:
        """Do the work that is due."""

    def next_due(self) -> int | None:
        """Give the instant of the next piece of work."""

    def started(self, job: str, now: int) -> list[Task]:
        """Take in that a job was taken up."""

    def ended(self, job: str, outcome: str, now: int) -> list[Task]:
        """Take in that a job ended."""

    def attempted(self, attempt: int, answer: Answer, now: int) -> list[Task]:
        """Take in what a receiver answered."""

    def written(self, reply: Reply, now: int) -> None:
        """Take in that a reply was written."""


@dataclass(slots=True)
class _User:
    """One program under way; `flight` is what it waits for."""

    program: Generator[Any, Any, Any]
    result: Any = None
    done: bool = False
    flight: _Flight | None = None


@dataclass(slots=True)
class _Flight:
    """One call between sending and its end."""

    number: int
    user: _User
    send: Send
    call: Call
    sent: Micros
    open: bool = True
    """Whether its sender still listens."""
    lost: bool = False
    """Whether its reply never arrives."""


class Stage:
    """The event loop of a rehearsal: programs on one side, a service and webhook receivers on the other."""

    def __init__(
        self,
        service: Deployment,
        target: Target,
        network: Network = Network(),  # noqa: B008  # immutable
        seed: int = 0,
        start: Micros = START,
        skew: Micros = 0,
        alter: Alter | None = None,
    ) -> None:
        self.service, self.target, self.network = service, target, network
        self.start, self.skew, self.alter = start, skew, alter
        self.now = start
        self.trace = Trace()
        self.unknown: list[Unknown] = []
        """POSTs with an Idempotency-Key that got no reply."""
        self.receivers = Receivers()
        self._heap: list[tuple[Micros, int, Callable[..., None], tuple[Any, ...]]] = []
        self._serial = self._count = self._running = 0
        self._armed: Micros | None = None
        self._arrived: dict[int, tuple[Attempt, Micros]] = {}
        self._ways = Ways(network, seed)
        self._date: tuple[int, str] = (-1, "")

    # Programs

    def alone(self, program: Generator[Any, Any, Any]) -> Any:
        """Run one program to its end and give what it returns."""
        [user] = self._run([program], None)
        return user.result

    def together(self, programs: Sequence[Generator[Any, Any, Any]], until: Micros) -> None:
        """Run programs side by side until all have ended, or to an instant, when they are stopped."""
        for user in self._run(programs, until):
            if user.flight is not None and user.flight.open:
                self._record_lost(user.flight)
            user.program.close()

    def _run(self, programs: Sequence[Generator[Any, Any, Any]], until: Micros | None) -> list[_User]:
        users = [_User(program) for program in programs]
        self._running = len(users)
        for user in users:
            self._at(self.now, self._resume, user, None)
        heap = self._heap
        while self._running and heap and (until is None or heap[0][0] <= until):
            self.now, _, what, which = heappop(heap)
            what(*which)
        if self._running and until is not None:
            self.now = max(self.now, until)
        for user in users:
            user.done = True
        return users

    def finish(self, reach: Reach) -> Trace:
        """Write down what is still open, and the header; give the trace."""
        for attempt, received in self._arrived.values():
            self.trace.deliveries.append(self.receivers.delivery(attempt, received, None, None))
        self._arrived.clear()
        target, trace = self.target, self.trace
        trace.header = Header(
            started=self.start,
            targets=dict(target.environments),
            keys=declared(target, reach.keys),
            exclusive=target.exclusive,
            clock={"host": "virtual", "resolution": 1},
        )
        if (target.time_scale, target.traffic_scale) != (1, 1):
            note = {
                "kind": "note",
                "t": self.start,
                "text": "clock",
                "rate": target.time_scale,
                "traffic_rate": target.traffic_scale,
            }
            trace.notes.append(Note.model_validate(note))
        return trace

    def _at(self, t: Micros, what: Callable[..., None], *which: Any) -> None:
        self._serial += 1
        heappush(self._heap, (t, self._serial, what, which))

    def _resume(self, user: _User, value: Any) -> None:
        """Give a program what it waited for, and do its next step."""
        if user.done:
            return
        try:
            step: Step = user.program.send(value)
        except StopIteration as end:
            user.result, user.done = end.value, True
            self._running -= 1
            return
        if isinstance(step, Send):
            self._send(user, step)
        elif isinstance(step, Pause):
            at = self.now + max(0, step.duration)
            self._at(at, self._resume, user, at)
        elif isinstance(step, Until):
            at = max(self.now, step.instant)
            self._at(at, self._resume, user, at)
        else:
            assert isinstance(step, Listen), f"a program yields steps, not {step!r}"
            self._at(self.now, self._resume, user, self.receivers.listen(step.script))

    # Calls

    def _send(self, user: _User, send: Send) -> None:
        if send.surface != "rest":
            silence = Received(0, None, {}, self.now, self.now + MILLISECOND)
            self._at(self.now + MILLISECOND, self._resume, user, silence)
            return
        self._count += 1
        flight = _Flight(self._count, user, send, self._call(send), self.now)
        user.flight = flight
        way = self._ways.request(flight.number)
        if way.arrives:
            flight.lost = send.lose or not way.answered
            self._at(self.now + way.there, self._effect, flight, way.back)
        if send.lose:
            self._at(self.now + MILLISECOND, self._give_up, flight)
        elif not way.answered:
            self._at(self.now + self.network.give_up, self._give_up, flight)

    def _call(self, send: Send) -> Call:
        operation = OPERATIONS[send.operation]
        call = Call(send.operation, self.target.token(send.key), send.path, send.query)
        call.method, call.caller = operation.method, CALLER
        call.environment = send.environment or self.target.environment_of(send.key)
        call.idempotency_key, call.request_id = send.idempotency_key, send.request_id
        if send.raw is not None:
            call.raw = send.raw
            try:
                body = from_json(send.raw, allow_inf_nan=False)
            except ValueError:
                body = None
            call.body = body if isinstance(body, dict) else None
            call.fault = "" if isinstance(body, dict) else "invalid_request"
        elif send.body is not None:
            call.body, call.raw = dict(send.body), to_json(send.body)
        return call

    def _effect(self, flight: _Flight, way_back: Micros) -> None:
        """Let a call take effect, and send its reply on its way."""
        now = self.now
        reply, tasks = self.service.handle(flight.call, self._business(now), self._traffic(now))
        self._after_step(tasks)
        if reply.flight:
            self._at(now + way_back // 2, self._written, reply)
        else:
            self.service.written(reply, self._business(now))
        if flight.lost or not flight.open:
            return
        status, headers, raw = self._rendered(flight.send, reply)
        body = reply.body
        if self.alter is not None:
            status, headers, raw = self.alter(flight.send, status, headers, raw)
            body = _parsed(raw)
        self._at(now + way_back, self._receive, flight, status, headers, raw, body)

    def _written(self, reply: Reply) -> None:
        self.service.written(reply, self._business(self.now))

    def _rendered(self, send: Send, reply: Reply) -> tuple[int, dict[str, str], bytes]:
        headers = {_lower(name): value for name, value in reply.headers.items()}
        raw = b""
        if reply.body is not None:
            raw = to_json(reply.body)
            headers.setdefault("content-type", "application/json")
            headers["content-length"] = str(len(raw))
        headers["date"] = self._date_header()
        headers.update(CORS)
        return reply.status, headers, raw

    def _date_header(self) -> str:
        second = (self.now + self.skew) // SECOND
        if self._date[0] != second:
            self._date = (second, http_date(second * SECOND))
        return self._date[1]

    def _receive(self, flight: _Flight, status: int, headers: dict[str, str], raw: bytes, body: Any) -> None:
        if not flight.open:
            return
        flight.open = False
        response = raw.decode("utf-8", "replace")
        if "secret" in response:
            self._trust(body)
            response = hide_secrets(response, b"rehearsal")
        self._record(flight, self.now, status, headers, response)
        self._tell(flight, Received(status, body, headers, flight.sent, self.now))

    def _give_up(self, flight: _Flight) -> None:
        """Have the sender of a call stop listening."""
        if flight.open:
            self._record_lost(flight)
            self._tell(flight, Received(0, None, {}, flight.sent, self.now))

    def _tell(self, flight: _Flight, received: Received) -> None:
        """Go on a moment later, as any program does: what follows a reply is not sent at its instant."""
        self._at(self.now + 1, self._resume, flight.user, received)

    def _record_lost(self, flight: _Flight) -> None:
        flight.open = False
        send = flight.send
        self._record(flight, None, None, {}, "")
        if send.idempotency_key is not None and flight.call.method == "POST":
            self.unknown.append(Unknown(send, f"x{flight.number}"))

    def _record(
        self,
        flight: _Flight,
        received: Micros | None,
        status: int | None,
        headers: dict[str, str],
        response: str,
    ) -> None:
        call, send = flight.call, flight.send
        self.trace.exchanges.append(
            Exchange(
                id=f"x{flight.number}",
                sent=flight.sent,
                received=received,
                operations=(send.operation,),
                method=call.method,
                path=path_of(send),
                status=status,
                target=call.environment,
                environment=call.environment,
                clock_host="virtual",
                planned=send.planned,
                api_key=send.key or None,
                query=dict(send.query),
                request_headers=headers_of(send, call.raw),
                body="" if call.raw is None else call.raw.decode("utf-8", "replace"),
                response_headers=headers,
                response=response,
                effect="unknown" if status is None else effect_of(send, call.method, status, None),
                error=None if status is not None else "no reply",
            )
        )

    # The deployment's own work

    def _business(self, t: Micros) -> Micros:
        return self.start + self.skew + (t - self.start) * self.target.time_scale

    def _traffic(self, t: Micros) -> Micros:
        return self.start + self.skew + (t - self.start) * self.target.traffic_scale

    def _after_step(self, tasks: Sequence[Task]) -> None:
        """Carry out what the service hands out, and wake when it next has work."""
        for task in tasks:
            if isinstance(task, Attempt):
                self._at(self.now + self._hook_way(), self._arrive, task, self.now)
            else:
                self._at(self.now, self._started, task.job)
        due = self.service.next_due()
        if due is None:
            return
        t = self.now + -(-max(0, due - self._business(self.now)) // self.target.time_scale)
        if self._armed is None or t < self._armed:
            self._armed = t
            self._at(t, self._wake, t)

    def _wake(self, t: Micros) -> None:
        if t == self._armed:
            self._armed = None
            self._after_step(self.service.advance(self._business(self.now)))

    def _started(self, job: str) -> None:
        self._after_step(self.service.started(job, self._business(self.now)))
        self._at(self.now + POOLED_JOB // self.target.time_scale, self._ended, job)

    def _ended(self, job: str) -> None:
        self._after_step(self.service.ended(job, "done", self._business(self.now)))

    # Webhooks

    def _hook_way(self) -> Micros:
        self._serial += 1
        return self._ways.hook(self._serial)

    def _trust(self, body: Any) -> None:
        data = body.get("data") if isinstance(body, Mapping) else None
        if isinstance(data, Mapping) and isinstance(data.get("secret"), str):
            self.receivers.trust(str(data.get("url", "")), data["secret"])

    def _arrive(self, attempt: Attempt, sent: Micros) -> None:
        """Let an attempt reach its receiver, which answers by script unless the deployment hangs up."""
        network, answering = self.network, self.receivers.answering(attempt)
        if answering is None:
            self._at(self.now + MILLISECOND, self._answered, attempt, Answer(None, "connection refused"))
            return
        self._arrived[attempt.attempt] = (attempt, self.now)
        hangs_up = sent + network.hook_timeout
        answers = None if answering.status is None else self.now + answering.delay
        if answers is not None and answers < hangs_up:
            self._at(answers, self._heard, attempt, answering.status)
            back = answers + self._hook_way()
            if back <= hangs_up:
                self._at(back, self._answered, attempt, Answer(answering.status, None, back - sent))
                return
        else:
            self._at(max(hangs_up, self.now) + self._hook_way(), self._heard, attempt, None)
        answer = Answer(None, "timeout", network.hook_timeout)
        self._at(max(hangs_up, self.now), self._answered, attempt, answer)

    def _heard(self, attempt: Attempt, status: int | None) -> None:
        """Write an attempt down as its receiver saw it, once it has answered or been left."""
        _, received = self._arrived.pop(attempt.attempt)
        self.trace.deliveries.append(self.receivers.delivery(attempt, received, self.now, status))

    def _answered(self, attempt: Attempt, answer: Answer) -> None:
        self._after_step(self.service.attempted(attempt.attempt, answer, self._business(self.now)))


# Small things


@lru_cache(maxsize=256)
def _lower(name: str) -> str:
    return name.lower()


def _parsed(raw: bytes) -> Any:
    try:
        return from_json(raw)
    except ValueError:
        return None
