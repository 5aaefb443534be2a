"""Which calls tell how a limit works: rounds of calls at chosen instants, until they decide.

A program is a generator that yields a `Volley` and receives the calls that were made of it; what carries it
out keeps time. Each round begins with an unused window, so one call opens it, at a phase of its own. Rounds
go on until the limit is pinned on both sides and one algorithm is left, or calls or time run out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeAlias

from ranksim.core.clock import Micros
from ranksim.judge.conformance.rate.elimination import NO_FEWER
from ranksim.judge.limits.calls import REFUSALS, LimitedCall
from ranksim.judge.limits.judged import JudgedLimit, LimitVerdict, judge_limit

MOST_LANES: Final = 16
"""Calls that are under way at once, at most."""

WIDE_LANES: Final = 64
"""The same where no call was refused: calls that wait in a queue hold their lanes."""


@dataclass(frozen=True, slots=True)
class Volley:
    """`count` calls from an instant on (µs), `lanes` at once, those of a lane at least `pace` µs apart."""

    at: Micros
    count: int
    lanes: int = 1
    pace: Micros = 0


Probing: TypeAlias = Generator[Volley, list[LimitedCall], None]


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """A burst of a round: when, in parts of a window, and how many calls, in parts of the limit and more."""

    at: float
    share: float
    more: int = 0
    lanes: int = MOST_LANES
    spread: float = 0.0
    """Over how many windows the calls are spread evenly."""

    def count(self, limit: int) -> int:
        """Return how many calls it makes."""
        return max(1, round(self.share * limit) + self.more)


def round_calls(steps: tuple[ProbeStep, ...], limit: int) -> int:
    """Return how many calls a round makes."""
    return sum(step.count(limit) for step in steps)


STAIRS: Final = (
    ProbeStep(0, 0, 1),
    ProbeStep(0.48, 1, -1),
    ProbeStep(0.58, 0, 1, 1),
    ProbeStep(1.01, 1, 0),
    ProbeStep(1.49, 1, 0),
)
"""What is admitted differs between any two of the algorithms."""

RACE: Final = (ProbeStep(0, 0, 1), ProbeStep(0.1, 2, 0), ProbeStep(0.6, 0.1, 1), ProbeStep(1.03, 1, 1))
"""Twice the limit at once: what is checked first and counted later admits too many."""

SATURATION: Final = (ProbeStep(0, 1, 0), ProbeStep(0.05, 2.6, 0, 1, 1.8))
"""Calls at one and a half times the rate: when each becomes possible again."""

FEW: Final = 0
"""Stands for a sixteenth of the limit as lanes: so few that it shows which call was the first refused."""

WAITING: Final = (
    ProbeStep(0, 0, 1),
    ProbeStep(0.1, 1, -1),
    ProbeStep(0.5, 0, 1, 1),
    ProbeStep(1.52, 1, 0, FEW),
)
"""One call that is refused, and a burst a window after it: whether refused calls count."""

EDGE: Final = (
    ProbeStep(0, 1, 0),
    *(ProbeStep(at, 0, 1, 1) for at in (0.85, 0.9, 0.94, 0.97, 0.985, 1.006, 1.015, 1.03, 1.06, 1.1, 1.15)),
)
"""Single calls around the instant at which a full window ends."""

ROUNDS: Final = (STAIRS, WAITING, RACE, EDGE, WAITING, SATURATION, STAIRS, RACE)

SPARE: Final = 2
"""Rounds at the end that are made only where what came before has not decided."""

IDLE: Final = 2.05
"""Windows without a call after which any of the algorithms has forgotten all."""


@dataclass(slots=True)
class Probes:
    """What is probed, and what was observed so far.

    `most` calls are made; the last begins no later than `until`. `draw` makes the phases of the rounds.
    """

    limit: int
    length: Micros
    most: int
    until: Micros
    draw: Random
    refusals: Collection[int] = REFUSALS
    exclusive: bool = True
    lanes: int = MOST_LANES
    calls: list[LimitedCall] = field(default_factory=list)
    judged: JudgedLimit | None = None
    ended: str = ""
    """Why no further calls are made."""

    def program(self, now: Micros) -> Probing:
        """Make rounds, beginning at `now` (µs), each judged before the next."""
        begin = now
        ahead = deque(ROUNDS)
        while ahead and not self.ended:
            steps = ahead.popleft()
            lasts = round((steps[-1].at + steps[-1].spread) * self.length)
            if begin + lasts > self.until:
                self.ended = "time"
            elif len(self.calls) + round_calls(steps, self.limit) > self.most:
                self.ended = "" if ahead else "calls"
            else:
                yield from self._round(steps, begin)
                self._judge()
                begin = max(call.done for call in self.calls)
                begin += round((IDLE + self.draw.random()) * self.length)
                self._decide(ahead)

    def _round(self, steps: tuple[ProbeStep, ...], begin: Micros) -> Probing:
        base = begin
        if self.judged is not None and not len(self.judged.calls.refused):
            self.lanes = min(WIDE_LANES, 2 * self.limit)
        for step in steps:
            count = step.count(self.limit)
            lanes = max(step.lanes, self.lanes) if step.lanes > 1 else step.lanes or self.limit // 16
            pace = round(step.spread * self.length / count)
            seen = yield Volley(base + round(step.at * self.length), count, max(1, min(count, lanes)), pace)
            self.calls += seen
            if step.at == 0 and seen:
                base = seen[0].sent

    def _judge(self) -> None:
        self.judged = judge_limit(
            self.calls, self.limit, self.length, exclusive=self.exclusive, refusals=self.refusals
        )

    def _decide(self, ahead: deque[tuple[ProbeStep, ...]]) -> None:
        """End when all is decided; add a round where all were made and two algorithms are left."""
        judged = self.judged
        assert judged is not None
        if judged.verdict == LimitVerdict.BROKEN:
            raced = ahead.count(RACE) < ROUNDS.count(RACE)
            ahead.clear()
            if judged.side == NO_FEWER or raced:
                self.ended = "broken"
            else:  # whether many more are admitted at once
                ahead.append(RACE)
        elif judged.holds and judged.algorithm is not None and len(ahead) <= SPARE:
            self.ended = "decided"
        elif judged.holds and judged.algorithm is None and len(ahead) <= SPARE:
            ahead.appendleft(WAITING)
