"""Whether any order of the effects explains what the calls of one partition were answered.

A partition is what one state describes and nothing else changes: a field of a resource, a job, an
Idempotency-Key, an endpoint. Each call took effect at one instant between sending and reply; one without a
reply did so at any later instant, or never. `Possible` keeps every pair of a state and the unanswered calls
that have taken effect in it, and orders effects only when a reply forces one: just-in-time linearization
(Lowe, Testing for linearizability, 2017). A model is its start and its step; the engine knows nothing of it.

Pairs stay few because calls of equal question and reply are counted instead of told apart, a call that never
changes the state takes effect as soon as it may, and a pair that another pair can become is dropped. A call
that overwrites whatever was there may have come right before any later one that does. Above a bound of pairs
the partition is open.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Final, Generic, TypeAlias, TypeVar

from ranksim.core.clock import DISTANT_FUTURE, Micros

MOST_PAIRS: Final = 1_000
"""Pairs above which a partition stays open."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call: when it was sent and answered, in µs, and all that a model sees of it.

    `received` is DISTANT_FUTURE where no reply was seen: it may never have taken effect. `reply` is None
    then, unless it tells what the reply will be if it took effect. `reads` tells that it changes no state,
    and `overwrites` that it leaves nothing of a state, and may be answered so in any or in none.
    """

    sent: Micros
    received: Micros
    question: Hashable
    reply: Hashable = None
    id: str = field(default="", compare=False)
    reads: bool = False
    overwrites: bool = False

    @property
    def answered(self) -> bool:
        """Whether its reply was seen, so that it surely took effect."""
        return self.received < DISTANT_FUTURE

    def without_reply(self) -> ModelCall:
        """Return it as if its reply had been lost."""
        return replace(self, received=DISTANT_FUTURE, reply=None)


State = TypeVar("State", bound=Hashable)

Step: TypeAlias = Callable[[State, ModelCall], Iterable[State]]
"""The states that may follow when a call takes effect in a state, answered as it was; none: it cannot."""

Taken: TypeAlias = frozenset[tuple[int, int]]
"""How many pending calls of a likeness have taken effect, by its number; none that is 0.

Under OVERWRITTEN it has how many calls had begun when one last overwrote the state: each of these that does,
too, may have done so right before.
"""

OVERWRITTEN: Final = -1

Pair: TypeAlias = tuple[State, Taken]


@dataclass
class Possible(Generic[State]):
    """The states that one partition may be in, by all calls so far, in order of sending.

    `starts` are the states that it may begin in. After a contradiction it begins anew without the reply that
    nothing explained; so `starts` should include what explains any first reply.
    """

    starts: Sequence[State]
    step: Step[State]
    most: int = MOST_PAIRS
    open: bool = False
    """Whether there were too many pairs; from then on nothing is decided."""
    pairs: set[Pair[State]] = field(init=False)
    _numbers: dict[tuple[Hashable, Hashable, bool, bool, bool], int] = field(default_factory=dict)
    _alike: list[ModelCall] = field(default_factory=list)
    """The first call of each likeness."""
    _pending: Counter[int] = field(default_factory=Counter)
    """How many calls of a likeness are in flight, but for those that read."""
    _reading: Counter[int] = field(default_factory=Counter)
    _newest: dict[int, int] = field(default_factory=dict)
    """Which call of a likeness began last."""
    _overwriting: bool = True
    """Whether every call so far reads or overwrites."""
    _replies: list[tuple[Micros, int, int]] = field(default_factory=list)
    _calls: list[ModelCall] = field(default_factory=list)
    """All calls since the partition began, or began anew."""
    _steps: dict[tuple[State, int], tuple[State, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pairs = {(start, frozenset()) for start in self.starts}

    @property
    def states(self) -> set[State]:
        """The states that are possible now."""
        return {state for state, _ in self.pairs}

    @property
    def reachable(self) -> set[State]:
        """The states that are possible now, whichever calls in flight have taken effect; none when open."""
        reached = PairSet(self._explains)
        todo = deque(pair for pair in self.pairs if reached.add(*pair))
        while todo:
            state, taken = todo.popleft()
            counts = dict(taken)
            following = (
                (after, _with(counts, number, 1))
                for number, pending in self._pending.items()
                if pending > counts.get(number, 0)
                for after in self._after(state, number)
            )
            todo.extend(pair for pair in following if reached.add(*pair))
            if len(reached) > self.most:
                return set()
        return set() if self.open else set(reached.by_state)

    def add(self, call: ModelCall) -> list[Sequence[ModelCall]]:
        """Observe the next call; return the histories that ended in a contradiction before it was sent."""
        contradictions = list(self.pass_to(call.sent))
        if not self.open:
            self._begin(call)
        return contradictions

    def pass_to(self, instant: Micros) -> Iterator[Sequence[ModelCall]]:
        """Let all replies before an instant be received; yield the histories that end in a contradiction."""
        while self._replies and self._replies[0][0] < instant and not self.open:
            _, at, number = heappop(self._replies)
            self.pairs = self._answered(number, at)
            pending = self._in_flight(number)
            pending[number] -= 1
            if not pending[number]:
                del pending[number]
            if not self.pairs and not self.open:
                yield self._begin_anew(at)

    def _begin(self, call: ModelCall) -> None:
        likeness = call.question, call.reply, call.answered, call.reads, call.overwrites
        number = self._numbers.get(likeness, -1)
        if number < 0 or self._is_of_another(number):
            number = self._numbers[likeness] = len(self._alike)
            self._alike.append(call)
        if call.answered:
            heappush(self._replies, (call.received, len(self._calls), number))
        elif call.reads:
            return
        self._newest[number] = len(self._calls)
        self._calls.append(call)
        self._in_flight(number)[number] += 1
        self._overwriting &= call.reads or call.overwrites
        if call.reads:
            self.pairs = {self._read(state, taken) for state, taken in self.pairs}

    def _in_flight(self, number: int) -> Counter[int]:
        return self._reading if self._alike[number].reads else self._pending

    def _is_of_another(self, number: int) -> bool:
        """Whether a call that begins now cannot stand for the ones of a likeness that have taken effect."""
        return any(
            number == other and state not in self._after(state, number)
            for state, taken in self.pairs
            for other, _ in taken
        )

    def _begin_anew(self, at: int) -> Sequence[ModelCall]:
        """Forget all calls but those in flight, and the reply that nothing explained; return the history."""
        answered = self._calls[at].received
        history = [
            call if call.received <= answered else replace(call, received=DISTANT_FUTURE)
            for call in self._calls
            if call.sent <= answered
        ]
        again = [
            call.without_reply() if number == at else call
            for number, call in enumerate(self._calls)
            if call.received >= answered
        ]
        self.pairs = {(start, frozenset()) for start in self.starts}
        self._pending.clear()
        self._reading.clear()
        self._replies.clear()
        self._calls.clear()
        for call in again:
            self._begin(call)
        return history

    def _answered(self, number: int, at: int) -> set[Pair[State]]:
        """Return the pairs in which a call of this likeness has taken effect, which is pending no more."""
        reached, answered = PairSet(self._explains), PairSet(self._becomes)
        todo = deque(pair for pair in self.pairs if reached.add(*pair))
        while todo:
            state, taken = todo.popleft()
            counts = dict(taken)
            if number in counts:
                answered.add(state, _with(counts, number, -1))
                continue
            if at < counts.get(OVERWRITTEN, 0) and self._can_be_overwritten(state, number):
                answered.add(state, taken)
            for after in self._after(state, number):
                answered.add(*self._read(after, self._done(counts, number, 0)))
            if len(reached) > self.most:
                self.open = True
                return set()
            todo.extend(pair for pair in self._before(state, counts, number) if reached.add(*pair))
        return answered.pairs()

    def _before(self, state: State, counts: dict[int, int], number: int) -> Iterator[Pair[State]]:
        """Yield the pairs that a call of another likeness leads to.

        Those that leave the state as it is have time until something changes it; and where all others
        overwrite, so has one that lets nobody read.
        """
        unread = [
            read for read, pending in self._reading.items() if counts.get(read, 0) < pending
        ]  # never explained by the state
        if self._overwriting and not unread:
            return
        steps = {
            other: self._after(state, other)
            for other, pending in self._pending.items()
            if pending > counts.get(other, 0)
        }
        if any(after != state for states in steps.values() for after in states):
            for other, states in steps.items():
                if other != number:
                    taken = self._done(counts, other, 1)
                    for after in states:
                        if not self._overwriting or any(self._after(after, read) for read in unread):
                            yield self._read(after, taken)

    def _done(self, counts: dict[int, int], number: int, change: int) -> Taken:
        """Return what has taken effect when a call of a likeness does now."""
        if self._alike[number].overwrites:
            counts = counts | {OVERWRITTEN: len(self._calls)}
        return _with(counts, number, change)

    def _can_be_overwritten(self, state: State, number: int) -> bool:
        return self._alike[number].overwrites and bool(self._after(state, number))

    def _after(self, state: State, number: int) -> tuple[State, ...]:
        after = self._steps.get((state, number))
        if after is None:
            after = self._steps[state, number] = tuple(self.step(state, self._alike[number]))
        return after

    def _read(self, state: State, taken: Taken) -> Pair[State]:
        """Let pending calls that change nothing take effect in a state that explains them."""
        counts = dict(taken)
        for number, pending in self._reading.items():
            if counts.get(number, 0) < pending and self._after(state, number):
                counts[number] = pending
        return state, frozenset(counts.items())

    def _explains(self, state: State, earlier: Taken, later: Taken) -> bool:
        """Whether a pair explains all that another of its state does: it used up no unanswered call more."""
        more = self._more(earlier, later)
        return more is not None and not any(self._alike[number].answered for number in more)

    def _becomes(self, state: State, earlier: Taken, later: Taken) -> bool:
        """Whether a pair becomes another by calls that leave its state as it is, or were lost."""
        more = self._more(earlier, later)
        return more is not None and all(
            not self._alike[number].answered or state in self._after(state, number) for number in more
        )

    def _more(self, earlier: Taken, later: Taken) -> list[int] | None:
        """Return which likenesses took effect more often later; None where some did less often."""
        before, after, more = dict(earlier), dict(later), []
        overwritten = before.get(OVERWRITTEN, 0)
        for number in before.keys() | after.keys():
            less = before.get(number, 0) - after.get(number, 0)
            if number == OVERWRITTEN or self._alike[number].reads:
                if less < 0:
                    return None
            elif less > 0:
                return None
            elif less < 0 and not (self._alike[number].overwrites and self._newest[number] < overwritten):
                more.append(number)
        return more


@dataclass
class PairSet(Generic[State]):
    """Pairs of which none covers one that came after it."""

    covers: Callable[[State, Taken, Taken], bool]
    by_state: dict[State, list[Taken]] = field(default_factory=dict)
    size: int = 0

    def __len__(self) -> int:
        return self.size

    def add(self, state: State, taken: Taken) -> bool:
        """Add a pair unless another covers it; return whether it was added."""
        kept = self.by_state.setdefault(state, [])
        if any(self.covers(state, other, taken) for other in kept):
            return False
        kept.append(taken)
        self.size += 1
        return True

    def pairs(self) -> set[Pair[State]]:
        """Return the pairs that were added."""
        return {(state, taken) for state, kept in self.by_state.items() for taken in kept}


def _with(counts: dict[int, int], number: int, change: int) -> Taken:
    changed = counts | {number: counts.get(number, 0) + change}
    return frozenset((name, count) for name, count in changed.items() if count)
