"""Small histories and the search of every placement of their effects, which shares no code with the judges.

A history has at most eight calls. Each took effect at one instant between sending and reply; one whose reply
was lost perhaps never did. `explained` tries every order that the intervals allow, and where durations
matter asks whether instants exist (differences, Bellman-Ford); a family's model says what may happen next.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ranksim.core.clock import DISTANT_FUTURE

MOST = 8

State = Any
Limits = tuple[tuple[int, int, int], ...]
"""(a, b, d): call a is at most d µs after call b."""


@dataclass(frozen=True)
class Op:
    """One call: when it was sent and answered (None: lost), what it asked, and what it was told."""

    sent: int
    received: int | None
    asks: tuple[Any, ...]
    told: tuple[Any, ...] = ()


Apply = Callable[[State, Op, int, int], Iterable[tuple[State, Limits]]]
"""(state, call, its number, that of the call before or -1) to the states that may follow, and limits."""


def explained(ops: list[Op], starts: Iterable[State], apply: Apply, *, timed: bool = False) -> bool:
    """Return whether some placement of the effects explains what was told."""
    todo: list[tuple[State, frozenset[int], Limits, int]] = [(start, frozenset(), (), -1) for start in starts]
    seen = set()
    while todo:
        state, done, limits, last = todo.pop()
        left = [number for number in range(len(ops)) if number not in done]
        if all(ops[number].received is None for number in left):
            return True
        latest = min(ops[n].received or DISTANT_FUTURE for n in left)
        for number in left:
            if ops[number].sent > latest:
                continue
            for after, more in apply(state, ops[number], number, last):
                order = ((last, number, 0),) if timed and last >= 0 else ()
                told = limits + more + order
                if timed and not feasible(ops, done | {number}, told):
                    continue
                way = after, done | {number}, told if timed else (), number if timed else -1
                if way not in seen:
                    seen.add(way)
                    todo.append(way)
    return False


def feasible(ops: list[Op], placed: Iterable[int], limits: Limits) -> bool:
    """Return whether instants within the calls' intervals meet all limits."""
    names = [*placed]
    zero = -1
    edges = [(name, zero, ops[name].received or DISTANT_FUTURE) for name in names]
    edges += [(zero, name, -ops[name].sent) for name in names]
    edges += list(limits)
    reach = dict.fromkeys([zero, *names], 0)
    for _ in range(len(reach) + 1):
        moved = False
        for a, b, most in edges:  # a <= b + most
            if reach[a] > reach[b] + most:
                reach[a], moved = reach[b] + most, True
        if not moved:
            return True
    return False


# Histories


def intervals(
    rng: random.Random, number: int, spread: int, loss: float
) -> Iterator[tuple[int, int, int | None]]:
    """Draw calls by a few callers: (sent, effect, received), µs."""
    callers = rng.randint(1, 3)
    free = [rng.randrange(spread) for _ in range(callers)]
    for _ in range(number):
        who = rng.randrange(callers)
        sent = free[who] + 1 + rng.randrange(spread)
        effect = sent + 1 + rng.randrange(spread)
        received = effect + 1 + rng.randrange(spread)
        free[who] = received
        yield sent, effect, None if rng.random() < loss else received


def history_of(rng: random.Random, family: Family) -> list[Op]:
    """Let a model answer at drawn instants; half of the histories are then told something else somewhere."""
    drawn = sorted(
        (
            (*when, family.ask(rng))
            for when in intervals(rng, rng.randint(2, MOST), family.spread, family.loss)
        ),
        key=lambda one: one[1],
    )
    state, ops, instants = rng.choice(family.starts), list[Op](), list[int]()
    for sent, effect, received, asks in drawn:
        state, told = family.answer(state, asks, effect, rng)
        ops.append(Op(sent, received, asks, () if received is None else told))
        instants.append(effect)
    for _ in range(rng.choice((0, 1, 1, 2))):
        index = rng.randrange(len(ops))
        if ops[index].received is not None:
            ops[index] = replace(ops[index], told=family.spoil(rng, ops[index]))
    return sorted(ops, key=lambda one: one.sent)


@dataclass(frozen=True)
class Family:
    """What a family's histories are, how a placement explains them, and which rules judge them."""

    spread: int
    starts: tuple[State, ...]
    ask: Callable[[random.Random], tuple[Any, ...]]
    answer: Callable[[State, tuple[Any, ...], int, random.Random], tuple[State, tuple[Any, ...]]]
    spoil: Callable[[random.Random, Op], tuple[Any, ...]]
    apply: Apply
    verdicts: Callable[[list[Op]], dict[str, str]]
    timed: bool = False
    loss: float = 0.15
    """How many replies are lost."""
    hidden: int = 0
    """How many calls may have come just before, of which nobody knows."""
    effects: Callable[[list[Op]], list[Op]] = list
    """What took effect of the calls, by when it may first have; one call may be several effects.

    It may tell of a call what `apply` must know of those about it.
    """


def words(tally: Any, *families: str) -> dict[str, str]:
    """Return what became of each rule of these families that was exercised."""
    return {
        found.rule.name: "broke" if found.broken else "held" if found.held else "open"
        for found in tally.findings()
        if found.rule.name.startswith(families) and (found.broken or found.held or found.open)
    }
