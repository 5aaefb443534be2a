"""Exchanges in little room: what many have alike is kept once, the rest packed; a row is made when looked at.

A row as an object takes five times as much, so judges hold on to few of them: what they group they choose by
place, and what they look at again they add to a log.
"""

import marshal
from array import array
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from copy import copy
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeAlias, overload

from ranksim.core.clock import Micros
from ranksim.judge.conformance.history.observation import Observation, ObservationDetail
from ranksim.judge.conformance.history.spill_file import SpillFile

_NAMES = tuple(about.name for about in fields(Observation))
ALIKE = _NAMES[_NAMES.index("key") : _NAMES.index("idempotency_key")]
"""What many exchanges have alike, as it stands in `Observation`."""

Test: TypeAlias = Callable[[Observation], bool]
"""Chooses exchanges by what many have alike: from `key` to `outside`."""

Taker: TypeAlias = Callable[[Observation], None]

_alike = attrgetter(*ALIKE)


class _PackedRows:
    """Rows by number: the number of a kind, of what many have alike, and packed values of their own."""

    def __init__(self, *own: str) -> None:
        self._own = attrgetter(*own)
        self._numbers: dict[tuple[Any, ...], int] = {}
        """The place of each kind."""
        self._kind = array("I")
        self._packed = bytearray()
        self._ends = array("Q", [0])

    def _pack(self, seen: Observation, number: int) -> None:
        self._kind.append(number)
        self._packed += marshal.dumps(self._own(seen))
        self._ends.append(len(self._packed))

    def _fields(self, index: int) -> tuple[Any, ...]:
        fields: tuple[Any, ...] = marshal.loads(self._packed[self._ends[index] : self._ends[index + 1]])
        return fields

    def __len__(self) -> int:
        return len(self._kind)


class PackedObservations(_PackedRows, Sequence[Observation]):
    """Exchanges, each made anew whenever it is looked at: what is changed in it then is lost."""

    OWN = (*("id", "sent", "received", "idempotency_key"), *("remaining", "reset", "retry_after", "planned"))
    """What each exchange has of its own, as it stands in `Observation`."""

    def __init__(self, shelf: SpillFile[ObservationDetail]) -> None:
        super().__init__(*self.OWN)
        self._shelf = shelf
        self._kinds: list[tuple[Any, ...]] = []
        """What exchanges have alike."""
        self._order = array("I")
        self.repeats = set[int]()
        """The indexes of those that may be replays."""
        self.unsure = set[int]()
        """The indexes of those that may be replays of what was not captured."""
        self.began = self.ended = 0
        """When the first and the last of them were sent, once they are sorted."""

    def append(self, seen: Observation) -> None:
        """Add the next exchange of the trace, whose index is how many there are."""
        alike = _alike(seen)
        number = self._numbers.setdefault(alike, len(self._kinds))
        if number == len(self._kinds):
            self._kinds.append(alike)
        self._order.append(len(self))
        self._pack(seen, number)

    def sort(self) -> None:
        """Bring them in order of sending; those of one instant stay as they came in the trace."""
        sent = array("q", (self._fields(index)[1] for index in range(len(self))))
        self._order = array("I", sorted(range(len(self)), key=sent.__getitem__))
        self.began, self.ended = (sent[self._order[0]], sent[self._order[-1]]) if sent else (0, 0)

    def __iter__(self) -> Iterator[Observation]:
        return map(self._row, self._order)

    @overload
    def __getitem__(self, place: int) -> Observation: ...
    @overload
    def __getitem__(self, place: slice) -> list[Observation]: ...
    def __getitem__(self, place: int | slice) -> Observation | list[Observation]:
        if isinstance(place, slice):
            return [self._row(index) for index in self._order[place]]
        return self._row(self._order[place])

    def where(self, test: Test) -> Iterator[Observation]:
        """Return those that pass a test, which is made once for all that are alike."""
        wanted = bytes(test(_example(kind)) for kind in self._kinds)
        return (self._row(index) for index in self._order if wanted[self._kind[index]])

    def hand_out(self, takers: Callable[[Observation], Sequence[Taker]]) -> Iterator[Micros]:
        """Make each exchange once, in order, and hand it to all that take its like; return when it was sent.

        `takers` says who they are, from what many have alike; it is asked once for each likeness.
        """
        taking = [tuple(takers(_example(kind))) for kind in self._kinds]
        for index in self._order:
            seen = self._row(index)
            for take in taking[self._kind[index]]:
                take(seen)
            yield seen.sent

    def kinds(self) -> Iterator[tuple[Observation, int]]:
        """Return what many have alike, as it was sent first, and how many have it."""
        counts = Counter(self._kind[index] for index in self._order)
        return ((_example(self._kinds[kind]), count) for kind, count in counts.items())

    def named(self, ids: Container[str]) -> Iterator[Observation]:
        """Return the exchanges that have one of these ids."""
        return (self._row(index) for index in self._order if self._fields(index)[0] in ids)

    def _row(self, index: int) -> Observation:
        name, sent, received, *own = self._fields(index)
        seen = Observation(self._shelf, index, name, sent, received, *self._kinds[self._kind[index]], *own)
        seen.repeat, seen.unsure = index in self.repeats, index in self.unsure
        return seen


def _example(kind: tuple[Any, ...]) -> Observation:
    """Make an exchange that has nothing but what many have alike; looking at more of it raises."""
    seen = Observation.__new__(Observation)
    for name, value in zip(ALIKE, kind, strict=True):
        setattr(seen, name, value)
    return seen


class ObservationLog(_PackedRows):
    """Some exchanges of a run in the order in which they were added, each made anew when it is looked at.

    What many have alike is kept once, in an example; the details stay in their spill file.
    """

    OWN = ("index", *PackedObservations.OWN, "repeat", "unsure")
    """What each exchange has of its own."""

    def __init__(self) -> None:
        super().__init__(*self.OWN)
        self._examples: list[Observation] = []

    def add(self, exchange: Observation) -> None:
        """Add the next exchange; one whose details lie on another shelf wants an example of its own."""
        alike = _alike(exchange)
        place = self._numbers.get(alike)
        if place is None or self._examples[place].shelf is not exchange.shelf:
            place = self._numbers[alike] = len(self._examples)
            self._examples.append(exchange)
        self._pack(exchange, place)

    def __iter__(self) -> Iterator[Observation]:
        for number, kind in enumerate(self._kind):
            exchange = copy(self._examples[kind])
            for name, value in zip(self.OWN, self._fields(number), strict=True):
                setattr(exchange, name, value)
            yield exchange
