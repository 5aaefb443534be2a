"""Some exchanges of a run in little room: a judge adds them as it observes them, and looks at them later."""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from operator import attrgetter

from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.history.packed import ALIKE

OWN = (
    "index",
    "id",
    "sent",
    "received",
    "idempotency_key",
    "remaining",
    "reset",
    "retry_after",
    "repeat",
    "unsure",
)
"""What each exchange has of its own."""

_alike = attrgetter(*ALIKE)
_own = attrgetter(*OWN)


@dataclass(slots=True)
class ObservationLog:
    """Exchanges in the order in which they were added, each made anew whenever it is looked at.

    What many have alike is kept once, in an example; the details stay in their spill file.
    """

    _examples: list[Observation] = field(default_factory=list)
    _places: dict[tuple[object, ...], int] = field(default_factory=dict)
    """The place of the latest example of each likeness; whose details lie on another shelf wants its own."""
    _kind: array[int] = field(default_factory=lambda: array("I"))
    _packed: bytearray = field(default_factory=bytearray)
    _ends: array[int] = field(default_factory=lambda: array("Q", [0]))

    def add(self, exchange: Observation) -> None:
        """Add the next exchange."""
        alike = _alike(exchange)
        place = self._places.get(alike)
        if place is None or self._examples[place].shelf is not exchange.shelf:
            place = self._places[alike] = len(self._examples)
            self._examples.append(exchange)
        self._kind.append(place)
        self._packed += marshal.dumps(_own(exchange))
        self._ends.append(len(self._packed))

    def __len__(self) -> int:
        return len(self._kind)

    def __iter__(self) -> Iterator[Observation]:
        for number, kind in enumerate(self._kind):
            exchange = copy(self._examples[kind])
            own = marshal.loads(self._packed[self._ends[number] : self._ends[number + 1]])
            for name, value in zip(OWN, own, strict=True):
                setattr(exchange, name, value)
            yield exchange
