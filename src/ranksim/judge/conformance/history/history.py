"""A trace as the judges see it: all that was seen, in order, and what it says about clocks and keys."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ranksim.core.clock import DISTANT_FUTURE, DISTANT_PAST, SECOND, Micros
from ranksim.core.trace import Header, Note, TraceKey
from ranksim.judge.conformance.history.observation import Observation, ReceivedAttempt
from ranksim.judge.conformance.history.packed import PackedObservations, Taker, Test

KEPT: Final = SECOND
"""How long a server may keep a Date header that it made: Node and nginx make one a second."""


@dataclass(frozen=True, slots=True)
class Offset:
    """The deployment's clock less the trace's, as an interval in µs; empty (`low > high`) when they drift.

    From the Date header of each exchange: the server's clock stood in [Date, Date + 1 s + `KEPT`) at some
    moment of [sent, received], as many servers make the header once in a while and keep it.
    """

    low: Micros = DISTANT_PAST
    high: Micros = DISTANT_FUTURE
    count: int = 0

    @property
    def bounded(self) -> bool:
        """Whether any exchange bounded it, and consistently."""
        return self.count > 0 and self.low <= self.high

    def of(self, sent: Micros, received: Micros, date: int) -> Offset:
        """Narrow it by one exchange with a Date in Unix seconds."""
        return Offset(
            max(self.low, date * SECOND - received),
            min(self.high, date * SECOND + SECOND + KEPT - sent),
            self.count + 1,
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """From `t` on, business time ran `rate` times as fast as the trace's, from `business` (µs) where known.

    `traffic_rate` is the same for rate windows. It is a clock note of the trace; without one, both run as the
    trace's clock does.
    """

    t: Micros
    business: Micros | None = None
    rate: int = 1
    traffic_rate: int = 1


ALL: Final = "*"
"""Every noun there is."""


@dataclass(slots=True)
class ObservedRun:
    """What is known of a run as a whole: its keys and clocks, who else may have written, and when it was."""

    header: Header = field(default_factory=Header)
    notes: list[Note] = field(default_factory=list)
    offset: Offset = field(default_factory=Offset)
    paces: tuple[Pace, ...] = ()
    beside: bool = False
    """Whether another trace of the same accounts may lie at the same time."""
    unread: bool = False
    """Whether calls changed, or may have, what no judge follows there, as if somebody else had."""
    unrecorded: int = 0
    """How many exchanges do not say whose they are, or what they asked for."""
    repeated: int = 0
    """How many lines of the trace repeat another one, which was read alone."""
    mutated: set[str] = field(default_factory=set)
    """The words in GraphQL mutations of what was there, among them its ids; not of sure updates."""
    changed: set[str] = field(default_factory=set)
    """The nouns of which these may have changed anything: by another id, or several at once; or ALL."""
    read_as: dict[tuple[str, str], str] = field(default_factory=dict)
    """The id that GET /v1/account showed last, by environment and key."""
    began: Micros | None = None
    """When the first call was sent; None without any."""
    ended: Micros = 0
    """The last instant at which a caller sent or a receiver got anything."""

    @property
    def exclusive(self) -> bool:
        """Whether all that used these accounts was seen; if not, "refused too early" cannot be told.

        A call that was not captured is to a judge what somebody else's is.
        """
        return self.header.exclusive and self.captured and not self.unread and not self.beside

    def mutable(self, noun: str, name: str) -> bool:
        """Whether a GraphQL mutation, which nobody can read whole, may have changed the thing of this id."""
        return name in self.mutated or not self.changed.isdisjoint((noun, ALL))

    @property
    def captured(self) -> bool:
        """Whether every call of these keys was seen; if not, one that was not seen may explain a reply."""
        return self.header.capture == "complete" and not self.unrecorded

    @property
    def rate(self) -> int:
        """How many times as fast business time ran: 1, or what the one clock note says; 0 when it changed."""
        return _only({pace.rate for pace in self.paces} | self._unsaid)

    @property
    def traffic_rate(self) -> int:
        """The same for the time that rate windows run on."""
        return _only({pace.traffic_rate for pace in self.paces} | self._unsaid)

    @property
    def _unsaid(self) -> set[int]:
        """The rate of what was sent before any note told of one."""
        first_pace = min((pace.t for pace in self.paces), default=DISTANT_FUTURE)
        before = self.began < first_pace if self.began is not None else not self.paces
        return {1} if before else set()

    def key(self, name: str) -> TraceKey:
        """Return what the header says about a key."""
        return self.header.keys.get(name) or TraceKey()


@dataclass(slots=True)
class History:
    """All that a trace holds, in order of sending and of arrival, and what is known of its run."""

    run: ObservedRun = field(default_factory=ObservedRun)
    seen: Sequence[Observation] = field(default_factory=list)
    arrived: list[ReceivedAttempt] = field(default_factory=list)

    def by_operation(self, *names: str) -> Iterator[Observation]:
        """Return the exchanges of these operations, as `as_judged`, in order of sending."""
        return self._as_judged(self.where(lambda seen: seen.operation in names))

    def as_judged(self) -> Iterator[Observation]:
        """Return the exchanges as judges are shown them: one whose reply was not recorded as a lost one."""
        return self._as_judged(self.seen)

    @staticmethod
    def _as_judged(seen: Iterable[Observation]) -> Iterator[Observation]:
        return (
            exchange.as_lost() if exchange.reply_unrecorded else exchange
            for exchange in seen
            if not exchange.request_unrecorded
        )

    def hand_out(self, takers: Callable[[Observation], Sequence[Taker]]) -> Iterator[Micros]:
        """Hand each exchange to all that take its like, in order of sending; return when it was sent."""
        if isinstance(self.seen, PackedObservations):
            yield from self.seen.hand_out(takers)
            return
        for seen in self.seen:
            for take in takers(seen):
                take(seen)
            yield seen.sent

    def kinds(self) -> Iterator[tuple[Observation, int]]:
        """Return what many exchanges have alike, as it was sent first, and how many have it."""
        if isinstance(self.seen, PackedObservations):
            return self.seen.kinds()
        return ((seen, 1) for seen in self.seen)

    def named(self, ids: Container[str]) -> Iterator[Observation]:
        """Return the exchanges that have one of these ids, in order of sending."""
        if isinstance(self.seen, PackedObservations):
            return self.seen.named(ids)
        return (seen for seen in self.seen if seen.id in ids)

    def where(self, test: Test) -> Iterator[Observation]:
        """Return the exchanges that pass a test, which sees of them what many have alike, in order."""
        return self.seen.where(test) if isinstance(self.seen, PackedObservations) else filter(test, self.seen)


def _only(rates: set[int]) -> int:
    return next(iter(rates)) if len(rates) == 1 else 0
