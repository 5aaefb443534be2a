"""Integer time on a SimPy clock, with cheap callbacks: one event each, no process."""

from collections.abc import Callable, Generator
from typing import Any

import simpy
from simpy.events import NORMAL, URGENT, Event, EventPriority, Process, Timeout

from ranksim.core.clock import Micros


class Due(Event):
    """An event that calls a function once, at its time."""

    def __init__(
        self,
        env: simpy.Environment,
        delay: float,
        priority: EventPriority,
        function: Callable[..., object],
        args: tuple[Any, ...],
    ) -> None:
        self.env = env
        self.callbacks = [self._call]
        self._ok = True
        self._value = None
        self.function = function
        self.args = args
        env.schedule(self, priority, delay)

    def _call(self, _: Event) -> None:
        self.function(*self.args)

    def cancel(self) -> None:
        """Call nothing when the time comes; an event that has passed stays as it is."""
        if self.callbacks is not None:
            self.callbacks.clear()


class SimpyClock:
    """The clock of one simulated world on a SimPy environment, its own or a caller's.

    `start` is the instant (µs) at which the environment's clock reads 0, `tick` the microseconds in one unit
    of that clock. Instants that are whole ticks stay exact; on a float clock others are rounded to the
    microsecond, and two things due at the same instant may then swap.
    """

    def __init__(self, env: simpy.Environment | None = None, *, start: Micros = 0, tick: int = 1) -> None:
        self.env = simpy.Environment() if env is None else env
        self.start = start
        self.tick = tick

    @property
    def now(self) -> Micros:
        """The present instant, in µs since the epoch."""
        now = self.env.now
        return self.start + (now if now.__class__ is int and self.tick == 1 else round(now * self.tick))

    def at(self, when: Micros, function: Callable[..., object], *args: Any, urgent: bool = False) -> Due:
        """Call a function at an instant; of the same instant the urgent come first, then the earlier made."""
        return self.after(when - self.now, function, *args, urgent=urgent)

    def after(self, delay: Micros, function: Callable[..., object], *args: Any, urgent: bool = False) -> Due:
        """Call a function after so many µs. Raises ValueError for a negative delay."""
        if delay < 0:
            raise ValueError(f"cannot schedule {-delay} µs in the past")
        ticks = delay if self.tick == 1 else self._ticks(delay)
        return Due(self.env, ticks, URGENT if urgent else NORMAL, function, args)

    def timeout(self, delay: Micros) -> Timeout:
        """Return what a process yields to wait so many µs."""
        return self.env.timeout(self._ticks(delay))

    def process(self, generator: Generator[Event, Any, Any]) -> Process:
        """Run a generator that yields SimPy events, `timeout` among them."""
        return self.env.process(generator)

    def _ticks(self, delay: Micros) -> float:
        ticks, rest = divmod(delay, self.tick)
        return delay / self.tick if rest else ticks
