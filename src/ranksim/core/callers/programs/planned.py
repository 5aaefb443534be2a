"""What clients of a scenario plan: work that can be told before any of it is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ranksim.core.clock import Micros
from ranksim.core.contract.plans import SpendLabel


class TrackedPart(NamedTuple):
    """Domains that track the same: how many, words of each, slots of a word."""

    domains: int
    keywords: int
    each: int


class Occasions(Protocol):
    """The instants at which a client acts."""

    @property
    def period(self) -> Micros:
        """The longest time between two occasions (µs)."""

    def times(self, start: Micros, end: Micros) -> Iterator[Micros]:
        """Yield the occasions in [start, end)."""

    def phase(self, start: Micros, begun: Micros) -> Micros:
        """Return how long after `begun` the first occasion is (µs) of a client at work from `start` on."""


@dataclass(frozen=True, slots=True)
class OccasionWork:
    """Work at each occasion: `count` times an operation, each of a `size` in slots, pages or questions."""

    operation: SpendLabel
    count: int
    size: int = 1


@dataclass(frozen=True, slots=True)
class OccasionStarts:
    """Requests of the expensive class at each occasion.

    They are spread over `spread` (µs), by draws where `drawn` and else evenly, each after a dry run if
    `dry_run_first`; with a `gap` (µs) they go one after the other, so long after the reply before.
    """

    operation: SpendLabel
    requests: int
    spread: Micros = 0
    drawn: bool = False
    dry_run_first: bool = False
    gap: Micros | None = None


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """What a client does at each of its occasions; one without occasions spends nothing."""

    occasions: Occasions | None = None
    work: tuple[OccasionWork, ...] = ()
    starts: OccasionStarts | None = None
