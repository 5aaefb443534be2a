"""The one player of programs in virtual time: it does each step, and sends what came of it into the program.

Without a network a call is answered at once: its reply is sent into the program in the same callback. With
one it takes effect some time after it was sent, and its reply arrives some time after that, or never.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ranksim.core.callers.network import Ways
from ranksim.core.callers.steps import Lap, Pause, Program, Received, Send, Spawn, Step, Until
from ranksim.core.clock import MILLISECOND, Micros
from ranksim.core.service.calls import Call, Reply


class Clock(Protocol):
    """Virtual time: due callbacks run in order of time, those of one instant in the order they were made."""

    @property
    def now(self) -> Micros:
        """The present instant."""

    def after(self, delay: Micros, function: Callable[..., object], *args: Any) -> object:
        """Call a function after so many µs."""


class CallHandler(Protocol):
    """What answers the calls of programs: a simulated world, or a service that is rehearsed against."""

    def answer(self, send: Send, client: str, now: Micros) -> Received:
        """Let a call of a client take effect now, and return what it sees at once. Used without a network."""

    def call_of(self, send: Send, client: str) -> Call | None:
        """Return a call as the service takes it; None where the server is silent to such calls."""

    def effect(self, flight: Flight) -> Reply:
        """Let a call take effect now."""

    def written(self, reply: Reply) -> None:
        """Note that a reply is on its way; its Idempotency-Key is no longer in flight (U92)."""

    def render(self, flight: Flight, reply: Reply) -> Any:
        """Return a reply as it travels."""

    def received(self, flight: Flight, rendered: Any) -> Received:
        """Observe that a reply arrived now, and return what its sender sees."""

    def lost(self, flight: Flight) -> None:
        """Observe that the sender of a call stopped listening now, without a reply."""

    def listen(self, script: str) -> str:
        """Open a webhook receiver that answers by a script; return its URL, or "" where there is none."""


@dataclass(slots=True)
class Run:
    """One program under way, on behalf of a client; over a network where it has `ways`."""

    program: Program
    client: str = ""
    ways: Ways | None = None
    result: Any = None
    done: bool = False
    flight: Flight | None = None
    """The call it waits for."""


@dataclass(slots=True)
class Flight:
    """One call between sending and its end; `number` counts the calls over its network."""

    number: int
    run: Run
    send: Send
    call: Call
    sent: Micros
    open: bool = True
    """Whether its sender still listens."""
    lost: bool = False
    """Whether its reply never arrives."""
    arrives: bool = True
    """Whether it reaches the service, be it after its sender stopped listening."""
    arrived: Micros = 0
    """When it took effect, once it has."""
    reply: Reply | None = None
    """What it is answered then."""
    line: str = ""
    """Its id in a trace as a call without a reply."""


class Player:
    """Plays programs on a clock against a server.

    `spawned` is called with each run that a program begins beside itself, `ended` with each that ends.
    """

    def __init__(
        self,
        clock: Clock,
        server: CallHandler,
        ended: Callable[[Run], object] | None = None,
        spawned: Callable[[Run], object] | None = None,
    ) -> None:
        self.clock, self.server, self.ended, self.spawned = clock, server, ended, spawned
        self._answer = server.answer

    def play(self, program: Program, client: str = "", ways: Ways | None = None) -> None:
        """Begin a program now."""
        self.resume(Run(program, client, ways), None)

    def resume(self, run: Run, value: Any) -> None:
        """Send a program what it waited for, and do its next steps until it waits again."""
        if run.done:
            return
        clock, advance = self.clock, run.program.send
        now = clock.now
        try:
            while True:
                step: Step = advance(value)
                if isinstance(step, Send):
                    if run.ways is not None:
                        self._launch(run, run.ways, step)
                        return
                    value = self._answer(step, run.client, now)
                elif isinstance(step, Pause):
                    delay = max(step.duration, 0)
                    clock.after(delay, self.resume, run, now + delay)
                    return
                elif isinstance(step, Until):
                    at = max(now, step.instant)
                    clock.after(at - now, self.resume, run, at)
                    return
                elif isinstance(step, Spawn):
                    beside = Run(step.program, run.client, run.ways)
                    if self.spawned is not None:
                        self.spawned(beside)
                    self.resume(beside, None)
                    value = None
                elif isinstance(step, Lap):
                    value = None
                else:
                    clock.after(0, self.resume, run, self.server.listen(step.script))
                    return
        except StopIteration as end:
            run.result, run.done = end.value, True
            if self.ended is not None:
                self.ended(run)

    # Calls over a network

    def _launch(self, run: Run, ways: Ways, send: Send) -> None:
        clock = self.clock
        call = self.server.call_of(send, run.client)
        if call is None:
            silence = Received(0, None, {}, clock.now, clock.now + MILLISECOND)
            clock.after(MILLISECOND, self.resume, run, silence)
            return
        network = ways.network
        ways.sent += 1
        flight = Flight(ways.sent, run, send, call, clock.now)
        run.flight = flight
        way = ways.request(flight.number)
        flight.arrives = way.arrives
        if way.arrives:
            flight.lost = send.lose or not way.answered
            clock.after(way.there, self._effect, flight, way.back)
        if send.lose:
            clock.after(MILLISECOND, self._give_up, flight)
        elif not way.answered or (network.impatient and way.there + way.back > network.give_up):
            clock.after(network.give_up, self._give_up, flight)

    def _effect(self, flight: Flight, way_back: Micros) -> None:
        """Let a call take effect, and send its reply on its way."""
        server, clock = self.server, self.clock
        reply = flight.reply = server.effect(flight)
        flight.arrived = clock.now
        way_back += reply.wait
        if reply.flight:
            clock.after(way_back // 2, server.written, reply)
        else:
            server.written(reply)
        if not flight.lost and flight.open:
            clock.after(way_back, self._receive, flight, server.render(flight, reply))

    def _receive(self, flight: Flight, rendered: Any) -> None:
        if flight.open:
            flight.open = False
            self._tell(flight, self.server.received(flight, rendered))

    def _give_up(self, flight: Flight) -> None:
        """Have the sender of a call stop listening."""
        if flight.open:
            flight.open = False
            self.server.lost(flight)
            now = self.clock.now
            self._tell(flight, Received(0, None, {}, flight.sent, now))

    def _tell(self, flight: Flight, received: Received) -> None:
        """Go on a moment later, as any program does: what follows a reply is not sent at its instant."""
        self.clock.after(1, self.resume, flight.run, received)
