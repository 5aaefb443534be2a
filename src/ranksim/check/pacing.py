"""A pace that rate limits admit, for all programs that share keys: what is refused tells nothing but that."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from ranksim.callers.steps import Pause, Received, Send, Until
from ranksim.clock import Micros
from ranksim.contract.facts import Facts, RateClass
from ranksim.service.operations import OPERATIONS

SHARE = 9
"""Tenths of a limit that are used: a class may be counted in another one, too (U87)."""

SPARE = 10


@dataclass(slots=True)
class Pacer:
    """Says when a call may be sent, by what was sent with its key and in its class within a window (µs).

    Any number of calls that keeps to it is admitted under each way of counting a window. Limits are those of
    S102 to S104, until a reply states a smaller one.
    """

    window: Micros
    _sent: dict[tuple[str, RateClass], list[Micros]] = field(default_factory=dict)
    _limits: dict[tuple[str, RateClass], int] = field(default_factory=dict)

    def when(self, send: Send, now: Micros, *, waits: bool = True) -> Micros:
        """Return when a call may be sent, and count it there; now, if it never `waits`."""
        place = _place(send)
        if place is None:
            return now
        sent = self._sent.setdefault(place, [])
        del sent[: bisect_right(sent, now - self.window)]
        most = max(1, self._limits.get(place, Facts().rates.of(place[1])) * SHARE // SPARE)
        at = now if len(sent) < most or not waits else sent[-most] + self.window
        insort(sent, at)
        return at

    def saw(self, send: Send, received: Received) -> None:
        """Learn a limit from a reply."""
        place, said = _place(send), received.header("ratelimit-limit").partition(",")[0].strip()
        if place is None or not said.isascii() or not said.isdigit() or len(said) > 9:
            return
        known = self._limits.get(place, Facts().rates.of(place[1]))
        self._limits[place] = max(1, min(known, int(said)))


def paced(program: Generator[Any, Any, Any], pacer: Pacer, *, waits: bool = True) -> Generator[Any, Any, Any]:
    """Run a program at a pace that rate limits admit; one that never `waits` has others wait for it."""
    answer: Any = None
    while True:
        try:
            step = program.send(answer)
        except StopIteration as end:
            return end.value
        if not isinstance(step, Send):
            answer = yield step
            continue
        now = yield Pause(0)
        at = pacer.when(step, now, waits=waits)
        if at > now:
            yield Until(at)
        answer = yield step
        pacer.saw(step, answer)


def _place(send: Send) -> tuple[str, RateClass] | None:
    """The key and class that a call is counted for; None for one without a key that is known."""
    operation = OPERATIONS.get(send.operation)
    if operation is None or not send.key:
        return None
    return send.key, operation.rate
