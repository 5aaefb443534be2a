"""A load run in virtual time: the programs of a profile against the rulebook, without sockets or waiting.

It shows what a profile exercises, refuses and costs before real money is spent, and makes traces by the
thousand for trying the judges. It is a simulated world with a network and many users, but with a service
that may deviate, clocks that may run apart, receivers that answer by script, and the trace of a recorder.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from ranksim.bridges.scripted_receivers import Receivers
from ranksim.core.callers.http import effect_of, encode_body, headers_of, lower, method_of, path_of
from ranksim.core.callers.network import Network, Ways
from ranksim.core.callers.steps import Program, Received, Send
from ranksim.core.callers.target import Target
from ranksim.core.clock import MILLISECOND, SECOND, Micros, http_date, instant
from ranksim.core.service.calls import Answer, Attempt, Call, Fault, Reply, Task
from ranksim.core.service.service import Service
from ranksim.core.trace import Exchange, Header, Note, Trace, hide_secrets
from ranksim.judge.deployment.budget import Budget, account_named, guarded
from ranksim.judge.deployment.cleanup import Unknown, resolve_lost
from ranksim.judge.deployment.discovery import Reach, declared, explore, state
from ranksim.judge.deployment.ownership import Ownership, kept
from ranksim.judge.profiles import Profile
from ranksim.twin.sim.player import Flight, Player, Run

START = instant("2026-03-02T09:00:00Z")
"""When a rehearsal begins: a Monday morning, far from the edge of a week or a month."""

USUAL = Network()
"""The network unless another is given: the usual delays, and nothing is lost."""

CALLER = "192.0.2.1"
"""The network address that all requests come from."""

CORS = {"access-control-allow-origin": "*"}

PREFLIGHT = {"access-control-allow-headers": "Authorization, Content-Type, Idempotency-Key, X-Request-Id"}

POOLED_JOB = 60 * SECOND
"""How long a job takes that the service hands out to a pool."""

Alter = Callable[[Send, int, dict[str, str], bytes], tuple[int, dict[str, str], bytes]]
"""Changes a reply on its way out: (send, status, headers in lower case, body) → (status, headers, body)."""


Seen = tuple[int, dict[str, str], bytes, Any]
"""A reply as it travels: status, headers in lower case, body, and the body parsed."""


@dataclass(slots=True)
class Batch(Reply):
    """The reply to a GraphQL request, as it was written, and those to its root fields."""

    raw: bytes = b""
    replies: Sequence[Reply] = ()


class HeapClock:
    """Virtual time on a heap of callbacks, from an instant on; `serial` counts what was scheduled."""

    def __init__(self, start: Micros) -> None:
        self.now = start
        self.serial = 0
        self._heap: list[tuple[Micros, int, Callable[..., object], tuple[Any, ...]]] = []

    def at(self, t: Micros, function: Callable[..., object], *args: Any) -> None:
        """Call a function at an instant."""
        self.serial += 1
        heappush(self._heap, (t, self.serial, function, args))

    def after(self, delay: Micros, function: Callable[..., object], *args: Any) -> None:
        """Call a function after so many µs."""
        self.at(self.now + delay, function, *args)

    def step(self, until: Micros | None) -> bool:
        """Do the next callback that is due by an instant, if any; return whether there was one."""
        if not self._heap or (until is not None and self._heap[0][0] > until):
            return False
        self.now, _, function, args = heappop(self._heap)
        function(*args)
        return True


class Rehearsal:
    """Programs on one side, a service and webhook receivers on the other; `trace` is what a recorder sees."""

    def __init__(
        self,
        service: Service,
        target: Target,
        network: Network = USUAL,
        seed: int = 0,
        start: Micros = START,
        skew: Micros = 0,
        alter: Alter | None = None,
    ) -> None:
        self.service, self.target, self.network = service, target, network
        self.start, self.skew, self.alter = start, skew, alter
        self.trace = Trace()
        self.unknown: list[Unknown] = []
        """POSTs with an Idempotency-Key that got no reply."""
        self.receivers = Receivers()
        self._clock = HeapClock(start)
        self._player = Player(self._clock, self, self._program_ended, self._program_spawned)
        self._ways = Ways(network, seed, "rehearsal")
        self._running = 0
        self._runs: list[Run] = []
        self._armed: Micros | None = None
        self._arrived: dict[int, tuple[Attempt, Micros]] = {}
        self._date: tuple[int, str] = (-1, "")

    @property
    def now(self) -> Micros:
        """The present instant, by the recorder's clock."""
        return self._clock.now

    # Programs

    def alone(self, program: Generator[Any, Any, Any]) -> Any:
        """Run one program to its end and return what it returns."""
        run, *_ = self._run([program], None)
        return run.result

    def together(self, programs: Sequence[Generator[Any, Any, Any]], until: Micros) -> None:
        """Run programs side by side until all have ended, or to an instant, when they are stopped."""
        for run in self._run(programs, until):
            if run.flight is not None and run.flight.open:
                run.flight.open = False
                self.lost(run.flight)
            run.program.close()

    def _run(self, programs: Sequence[Generator[Any, Any, Any]], until: Micros | None) -> list[Run]:
        clock = self._clock
        runs = [Run(program, ways=self._ways) for program in programs]
        self._running, self._runs = len(runs), list(runs)
        for run in runs:
            clock.after(0, self._player.resume, run, None)
        while self._running and clock.step(until):
            pass
        if self._running and until is not None:
            clock.now = max(clock.now, until)
        for run in self._runs:
            run.done = True
        return self._runs

    def _program_spawned(self, run: Run) -> None:
        self._running += 1
        self._runs.append(run)

    def _program_ended(self, _: Run) -> None:
        self._running -= 1

    def so_far(self, reach: Reach) -> Trace:
        """Return the trace as it is by now: of a call without its reply the effect is unknown."""
        flights = [run.flight for run in self._runs if run.flight is not None and run.flight.open]
        under_way = [self._exchange(flight, None, None, {}, "") for flight in flights]
        hooks = [self.receivers.delivery(*arrived, None, None) for arrived in self._arrived.values()]
        trace = self.trace
        return Trace(
            self._header(reach), trace.exchanges + under_way, trace.deliveries + hooks, self._clock_notes()
        )

    def finish(self, reach: Reach) -> Trace:
        """Write down what is still open, and the header; return the trace."""
        for attempt, received in self._arrived.values():
            self.trace.deliveries.append(self.receivers.delivery(attempt, received, None, None))
        self._arrived.clear()
        self.trace.header = self._header(reach)
        self.trace.notes += self._clock_notes()
        return self.trace

    def _header(self, reach: Reach) -> Header:
        target = self.target
        return Header(
            started=self.start,
            targets=dict(target.environments),
            keys=declared(target, reach.keys),
            exclusive=target.exclusive,
            clock={"host": "virtual", "resolution": 1},
        )

    def _clock_notes(self) -> list[Note]:
        rate, traffic_rate = self.target.time_scale, self.target.traffic_scale
        if (rate, traffic_rate) == (1, 1):
            return []
        note = {"kind": "note", "t": self.start, "text": "clock", "rate": rate, "traffic_rate": traffic_rate}
        return [Note.model_validate(note)]

    # Calls

    def call_of(self, send: Send, client: str) -> Call | None:
        """Return a call as the service takes it; one over GraphQL with its document in its body."""
        call = Call(send.operation, self.target.token(send.key), send.path, send.query)
        call.method, call.caller = method_of(send), CALLER
        call.environment = send.environment or self.target.environment_of(send.key)
        call.idempotency_key, call.request_id = send.idempotency_key, send.request_id
        if send.surface == "graphql":
            call.surface, call.path, call.query, call.raw = "graphql", {}, {}, encode_body(send)
            return call
        if send.raw is not None:
            call.raw = send.raw
            try:
                body = from_json(send.raw, allow_inf_nan=False)
            except ValueError:
                body = None
            call.body = body if isinstance(body, dict) else None
            call.fault = None if isinstance(body, dict) else Fault("invalid_request")
        elif send.body is not None:
            call.body, call.raw = send.body, to_json(send.body)
        return call

    def answer(self, send: Send, client: str, now: Micros) -> Received:
        """Refuse: a rehearsal has a network, so the player asks it for `effect` only."""
        raise AssertionError("the calls of a rehearsal take effect after a while, not at once")

    def effect(self, flight: Flight) -> Reply:
        """Let a call take effect now."""
        now = self.now
        if flight.call.surface == "graphql":
            return self.over_graphql(flight.call)
        step = self.service.handle(flight.call, self._business(now), self._traffic(now))
        reply, tasks = step.reply, step.tasks
        self._after_step(tasks)
        return reply

    def over_graphql(self, call: Call) -> Reply:
        """Let a GraphQL request take effect now."""
        from ranksim.core.surface.graphql import execute  # its schema takes a while to build

        def call_batch(calls: Sequence[Call]) -> list[Reply]:
            step = self.service.handle_batch(calls, self._business(self.now), self._traffic(self.now))
            self._after_step(step.tasks)
            return step.replies

        given = execute(self.service.policy, call, call_batch)
        batch = Batch(given.status, None, given.headers, raw=given.body, replies=given.replies)
        batch.flight = next((reply.flight for reply in given.replies if reply.flight), "")
        return batch

    def written(self, reply: Reply) -> None:
        """Note that a reply was written."""
        for part in reply.replies if isinstance(reply, Batch) else (reply,):
            self.service.written(part, self._business(self.now))

    def render(self, flight: Flight, reply: Reply) -> Seen:
        """Return a reply as it leaves the deployment."""
        status, headers, raw = self._rendered(reply)
        body = _parsed(raw) if isinstance(reply, Batch) else reply.body
        if flight.call.method == "OPTIONS":
            headers.update(PREFLIGHT)
        if self.alter is None:
            return status, headers, raw, body
        status, headers, raw = self.alter(flight.send, status, headers, raw)
        return status, headers, raw, _parsed(raw)

    def received(self, flight: Flight, rendered: Seen) -> Received:
        """Record an exchange whose reply arrived now."""
        status, headers, raw, body = rendered
        response = raw.decode("utf-8", "replace")
        if "secret" in response:
            self._trust(body)
            response = hide_secrets(response, b"rehearsal")
        self.trace.exchanges.append(self._exchange(flight, self.now, status, headers, response, body))
        return Received(status, body, headers, flight.sent, self.now)

    def lost(self, flight: Flight) -> None:
        """Record an exchange without a reply."""
        send = flight.send
        self.trace.exchanges.append(self._exchange(flight, None, None, {}, ""))
        if send.idempotency_key is not None and flight.call.method == "POST":
            self.unknown.append(Unknown(send, f"x{flight.number}"))

    def listen(self, script: str) -> str:
        """Open a webhook receiver that answers by a script; return its URL."""
        return self.receivers.listen(script)

    def _rendered(self, reply: Reply) -> tuple[int, dict[str, str], bytes]:
        headers = {lower(name): value for name, value in reply.headers.items()}
        raw = reply.raw if isinstance(reply, Batch) else b"" if reply.body is None else to_json(reply.body)
        if raw:
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

    def _exchange(
        self,
        flight: Flight,
        received: Micros | None,
        status: int | None,
        headers: dict[str, str],
        response: str,
        body: Any = None,
    ) -> Exchange:
        call, send = flight.call, flight.send
        return Exchange(
            id=f"x{flight.number}",
            sent=flight.sent,
            received=received,
            operations=() if call.method == "OPTIONS" else (send.operation,),
            method=call.method,
            path="/graphql" if call.surface == "graphql" else path_of(send),
            status=status,
            target=call.environment,
            environment=call.environment,
            clock_host="virtual",
            planned=send.planned,
            api_key=send.key or None,
            surface="graphql" if call.surface == "graphql" else "rest",
            query=dict(send.query),
            request_headers=headers_of(send, call.raw),
            body="" if call.raw is None else call.raw.decode("utf-8", "replace"),
            response_headers=headers,
            response=response,
            effect="unknown" if status is None else effect_of(send, call.method, status, body),
            error=None if status is not None else "no reply",
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
                self._clock.at(self.now + self._hook_way(), self._arrive, task, self.now)
            else:
                self._clock.at(self.now, self._started, task.job)
        due = self.service.next_due()
        if due is None:
            return
        t = self.now + -(-max(0, due - self._business(self.now)) // self.target.time_scale)
        if self._armed is None or t < self._armed:
            self._armed = t
            self._clock.at(t, self._wake, t)

    def _wake(self, t: Micros) -> None:
        if t == self._armed:
            self._armed = None
            self._after_step(self.service.advance(self._business(self.now)).tasks)

    def _started(self, job: str) -> None:
        self._after_step(self.service.started(job, self._business(self.now)).tasks)
        self._clock.at(self.now + POOLED_JOB // self.target.time_scale, self._ended, job)

    def _ended(self, job: str) -> None:
        self._after_step(self.service.ended(job, "done", self._business(self.now)).tasks)

    # Webhooks

    def _hook_way(self) -> Micros:
        self._clock.serial += 1
        return self._ways.hook(self._clock.serial)

    def _trust(self, body: Any) -> None:
        data = body.get("data") if isinstance(body, Mapping) else None
        if isinstance(data, Mapping) and isinstance(data.get("secret"), str):
            self.receivers.trust(str(data.get("url", "")), data["secret"])

    def _arrive(self, attempt: Attempt, sent: Micros) -> None:
        """Let an attempt reach its receiver, which answers by script unless the deployment hangs up."""
        network, answering = self.network, self.receivers.answering(attempt)
        if answering is None:
            self._clock.at(
                self.now + MILLISECOND, self._answered, attempt, Answer(None, "connection refused")
            )
            return
        self._arrived[attempt.attempt] = (attempt, self.now)
        hangs_up = sent + network.hook_timeout
        answers = None if answering.status is None else self.now + answering.delay
        if answers is not None and answers < hangs_up:
            self._clock.at(answers, self._heard, attempt, answering.status)
            back = answers + self._hook_way()
            if back <= hangs_up:
                self._clock.at(back, self._answered, attempt, Answer(answering.status, None, back - sent))
                return
        else:
            self._clock.at(max(hangs_up, self.now) + self._hook_way(), self._heard, attempt, None)
        answer = Answer(None, "timeout", network.hook_timeout)
        self._clock.at(max(hangs_up, self.now), self._answered, attempt, answer)

    def _heard(self, attempt: Attempt, status: int | None) -> None:
        """Write an attempt down as its receiver saw it, once it has answered or been left."""
        _, received = self._arrived.pop(attempt.attempt)
        self.trace.deliveries.append(self.receivers.delivery(attempt, received, self.now, status))

    def _answered(self, attempt: Attempt, answer: Answer) -> None:
        self._after_step(self.service.attempted(attempt.attempt, answer, self._business(self.now)).tasks)


def rehearse(
    profile: Profile,
    service: Service,
    target: Target,
    *,
    users: int | None = None,
    duration: Micros | None = None,
    seed: int = 0,
    network: Network = USUAL,
    start: Micros = START,
    skew: Micros = 0,
    alter: Alter | None = None,
    budget: Budget | None = None,
    path: Path | None = None,
) -> Trace:
    """Run a profile against a service in virtual time; return the trace that a recorder would have written.

    The order is that of a real run: explore, read the state, the users for `duration` µs or until all their
    programs end, resolve lost calls, read the state. Nothing is tidied up, since nothing is left. The trace's
    clock begins at `start`; the deployment's is `skew` ahead, and runs by the scales of `target`. With `path`
    the trace is written there.
    """
    rehearsal = Rehearsal(service, target, network, seed, start, skew, alter)
    trace = rehearse_in(rehearsal, profile, users=users, duration=duration, seed=seed, budget=budget)
    if path is not None:
        trace.write(path)
    return trace


def rehearse_in(
    rehearsal: Rehearsal,
    profile: Profile,
    *,
    users: int | None = None,
    duration: Micros | None = None,
    seed: int = 0,
    budget: Budget | None = None,
) -> Trace:
    """Run a profile in a rehearsal that was made for it, in the order of a real run; return its trace."""
    count = profile.users if users is None else users

    def programs(reach: Reach, guard: Guard) -> list[Program]:
        return [guard(profile.program(reach, user, count, seed)) for user in range(count)]

    return rehearse_programs(
        rehearsal, programs, profile.duration if duration is None else duration, budget=budget
    )


Guard = Callable[[Program], Program]
"""Has a program spend and write no more than it may."""


def rehearse_programs(
    rehearsal: Rehearsal,
    programs: Callable[[Reach, Guard], Sequence[Program]],
    duration: Micros,
    *,
    budget: Budget | None = None,
) -> Trace:
    """Run what `programs` makes of what the keys reach, `duration` µs at most; return the trace.

    It guards those that call. The order is that of a real run.
    """
    target = rehearsal.target
    reach: Reach = rehearsal.alone(explore(target))
    spending = Budget(target.spend_cap, target.dry_run_only) if budget is None else budget
    spending.accounts = {key.name: account_named(key.environment, key.account) for key in reach.keys.values()}
    rehearsal.alone(state(reach))
    ownership = Ownership.of(reach)
    made = programs(reach, lambda program: guarded(kept(program, ownership), spending))
    rehearsal.together(made, rehearsal.now + duration)
    rehearsal.alone(guarded(resolve_lost(reach, rehearsal.unknown), spending))
    rehearsal.alone(state(reach))
    return rehearsal.finish(reach)


# Small things


def _parsed(raw: bytes) -> Any:
    try:
        return from_json(raw)
    except ValueError:
        return None
