"""Arrivals: when calls come, as sorted blocks of instants, from recordings or from a rate.

A block holds some thousand arrivals, so a month of traffic never stands in memory at once. Every arrival has
a number, and each draw is addressed by it: neither the size of a block nor what happens in the world moves an
arrival, and a smaller scale gives a subset of what a larger one gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ranksim.core import draws
from ranksim.core.callers.recordings import Recorded
from ranksim.core.clock import DAY, HOUR, WEEK, Micros, iso, weekday
from ranksim.core.draws import Purpose
from ranksim.core.errors import BadInput
from ranksim.core.records import read_rates

Instants = NDArray[np.int64]

BLOCK = 20_000
"""Arrivals in a block, about."""

CLONE = 1 << 40
"""Added to an arrival's number for each further copy of it."""


@dataclass(slots=True)
class ArrivalBlock:
    """Arrivals in order of time: instants (µs) and numbers, shape (n,), and what was recorded of each."""

    times: Instants
    numbers: Instants
    rows: Sequence[Recorded] | None = None


@dataclass(slots=True)
class Piece:
    """A stretch of a recording: each call lies in [its start, start + spread), µs as recorded.

    `begin` and `end` bound the stretch itself, with or without calls in it.
    """

    starts: Instants
    spread: Micros
    begin: Micros
    end: Micros
    rows: list[Recorded] = field(default_factory=list)


# Recordings, piece by piece


def counted_arrivals(path: str, begin: Micros, interval: Micros, most: int = BLOCK) -> Iterator[Piece]:
    """Read a series of counts, each of the calls in one interval (µs); the first begins at `begin`.

    A piece has about `most` calls, unless one interval has more. Raises BadInput.
    """
    t = begin
    for chunk in read_rates(path):
        group = np.cumsum(chunk) // most
        for some in np.split(chunk, np.flatnonzero(np.diff(group)) + 1):
            edges = t + interval * np.arange(len(some), dtype=np.int64)
            end = t + interval * len(some)
            yield Piece(np.repeat(edges, some), interval, t, end)
            t = end


def recorded_arrivals(rows: Iterator[Recorded], spread: Micros, path: str) -> Iterator[Piece]:
    """Read recorded calls, each somewhere in the `spread` (µs) of the clock it was recorded in.

    0 keeps the recorded instants. Raises BadInput for a recording that is not in order of time.
    """
    width = max(spread, 1)
    group: list[Recorded] = []
    for row in rows:
        start = row.t // width
        if group and start < group[-1].t // width:
            raise BadInput(f"{path}: expected calls in order of time; sort it, or give a larger spread")
        # A spread is placed as a whole, so that its order does not depend on where it was cut.
        if group and start > group[-1].t // width and (spread or len(group) >= BLOCK):
            yield _piece(group, spread, width)
            group = []
        group.append(row)
    if group:
        yield _piece(group, spread, width)


def _piece(group: list[Recorded], spread: Micros, width: Micros) -> Piece:
    starts = np.array([row.t // width * width for row in group], dtype=np.int64)
    return Piece(starts, spread, int(starts[0]), int(starts[-1]) + width, group)


# From a recording to arrivals in the world's time


@dataclass(frozen=True, slots=True)
class Replay:
    """How a recording becomes arrivals in [start, end): `scale` times as many, once or repeated.

    Align "start" puts the recording's beginning at `start`, "week" moves it by whole weeks so that weekdays
    and times of day stay, "recorded" leaves it where it is. `name` addresses the draws.
    """

    start: Micros
    end: Micros
    scale: float = 1.0
    align: str = "start"
    repeat: bool = False
    seed: int = 0
    name: str = ""


def replayed(read: Callable[[], Iterator[Piece]], replay: Replay) -> Iterator[ArrivalBlock]:
    """Replay a recording; `read` reads it anew for each repetition.

    Raises BadInput for a recording that is empty or lies outside the run.
    """
    number, shift, begin, end = 0, 0, None, 0
    touched = False
    while True:
        calls = 0
        for piece in read():
            if begin is None:
                begin = piece.begin
                shift = _shift(begin, replay)
            if piece.begin + shift >= replay.end:
                if not touched:
                    raise _outside(replay)
                return
            touched = touched or piece.end + shift > replay.start
            block = _block(piece, shift, number, replay)
            number += len(piece.starts)
            calls += len(piece.starts)
            end = piece.end
            if len(block.times):
                yield block
        if begin is None or not calls:
            raise BadInput(f"clients.{replay.name}.source: holds no calls; give a recording with some")
        # A short recording may have ended by the weekday on which the run begins: then it comes a week later.
        if not replay.repeat and (touched or replay.align != "week"):
            if not touched:
                raise _outside(replay)
            return
        period = end - begin
        shift += -(-period // WEEK) * WEEK if replay.align == "week" else period


def _outside(replay: Replay) -> BadInput:
    return BadInput(
        f"clients.{replay.name}.source: nothing of it falls within {iso(replay.start)} to {iso(replay.end)}; "
        "use align: start, or another start"
    )


def _shift(begin: Micros, replay: Replay) -> Micros:
    if replay.align == "recorded":
        return 0
    gap = replay.start - begin
    return gap // WEEK * WEEK if replay.align == "week" else gap


def _block(piece: Piece, shift: Micros, first: int, replay: Replay) -> ArrivalBlock:
    """Thin or clone the calls of a piece, and place each by a draw."""
    numbers = first + np.arange(len(piece.starts), dtype=np.int64)
    least = math.floor(replay.scale)
    chance = draws.uniforms(replay.seed, draws.entity(f"{replay.name}/scale"), numbers, Purpose.ARRIVAL)
    copies = least + (chance < replay.scale - least).astype(np.int64)
    which = np.repeat(np.arange(len(numbers)), copies)
    clone = np.arange(len(which)) - np.repeat(np.cumsum(copies) - copies, copies)
    numbers = numbers[which] + clone * CLONE
    u = draws.uniforms(replay.seed, draws.entity(replay.name), numbers, Purpose.ARRIVAL)
    times = piece.starts[which] + shift + np.floor(u * piece.spread).astype(np.int64)
    order = np.lexsort((which, times))
    order = order[(times[order] >= replay.start) & (times[order] < replay.end)]
    rows = [piece.rows[i] for i in which[order].tolist()] if piece.rows else None
    return ArrivalBlock(times[order], numbers[order], rows)


# Arrivals at a rate


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How a rate changes: weights of the day's 24 hours and of the 7 days from Monday, UTC."""

    hours: tuple[float, ...] = (1.0,) * 24
    days: tuple[float, ...] = (1.0,) * 7

    def table(self) -> NDArray[np.float64]:
        """The factor of each of the 168 hours of a week, which are 1 on average."""
        table = np.outer(self.days, self.hours).ravel()
        return np.asarray(table / table.mean(), dtype=np.float64)


def poisson_arrivals(
    every: Micros,
    start: Micros,
    end: Micros,
    *,
    seed: int,
    name: str,
    rhythm: Rhythm | None = None,
    first: int = 0,
) -> Iterator[ArrivalBlock]:
    """Arrivals of a Poisson process, one `every` so many µs on average; a rhythm makes the rate change.

    `first` numbers the first of them, and addresses its draws.

    A changing rate is made by thinning: arrivals at the highest rate, each kept with the chance that the rate
    of its hour is of the highest (P. A. W. Lewis and G. S. Shedler, Naval Research Logistics 26, 1979).
    """
    table = None if rhythm is None else rhythm.table()
    mean = every if table is None else every / float(table.max())
    t = start
    while t < end:
        numbers = np.arange(first, first + BLOCK, dtype=np.int64)
        gaps = -np.log1p(-draws.uniforms(seed, draws.entity(name), numbers, Purpose.ARRIVAL)) * mean
        # A gap as long as the run leads out of it; longer ones could add up to more than 64 bits.
        times = t + np.cumsum(np.rint(np.minimum(gaps, end - start)).astype(np.int64))
        t, first = int(times[-1]), first + BLOCK
        kept = times < end
        if table is not None:
            hours = (times // HOUR % 24 + 24 * ((times // DAY + weekday(0)) % 7)).astype(np.int64)
            chance = draws.uniforms(seed, draws.entity(f"{name}/rhythm"), numbers, Purpose.ARRIVAL)
            kept &= chance * table.max() < table[hours]
        if kept.any():
            yield ArrivalBlock(times[kept], numbers[kept])


def chosen(block: ArrivalBlock, weights: Sequence[float], *, seed: int, name: str) -> list[int]:
    """Choose one of several by weight for each arrival: indices, shape (n,)."""
    if len(weights) == 1:
        return [0] * len(block.numbers)
    edges = np.cumsum(weights)
    u = draws.uniforms(seed, draws.entity(name), block.numbers, Purpose.CHOICE)
    indices = np.searchsorted(edges, u * edges[-1], side="right")
    picked: list[int] = np.minimum(indices, len(weights) - 1).tolist()
    return picked
