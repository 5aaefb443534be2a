"""Probes of rate windows: bursts and drips that meet the limit, and the plan that tells the algorithms apart.

Users share three parts, a rate class each; those of one class meet at instants that all of them can work out.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ranksim.core.callers.steps import Program, Until
from ranksim.core.clock import MINUTE, Micros
from ranksim.core.contract.facts import RateClass
from ranksim.judge.deployment.discovery import Reach
from ranksim.judge.profiles.making import meet
from ranksim.judge.profiles.probing import (
    Probe,
    a_probe,
    burst,
    drip,
    honoured,
    share,
    until_admitted,
    window_of,
)
from ranksim.judge.profiles.profile import Needs, Profile

CLASSES = (RateClass.EXPENSIVE, RateClass.WRITE, RateClass.READ)

P1 = ((0.0, 1), (29.0, -1), (35.0, 1), (60.5, 0), (89.5, 0))
"""Second, of a window of 60 s, and calls; a number that is not positive counts from the limit."""

PHASES = (45, 10)
"""Second of the minute at which the plan begins, then begins again off phase."""


def parts(user: int, users: int) -> list[tuple[RateClass, int, int]]:
    """Return what a user probes: (class, its number among the partners, how many partners)."""
    if users < len(CLASSES):
        assigned = CLASSES[user::users]
        return [(rate_class, 0, 1) for rate_class in assigned]
    which = user % len(CLASSES)
    partners = len(range(which, users, len(CLASSES)))
    return [(CLASSES[which], user // len(CLASSES), partners)]


def bursts(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Burst beyond the limit, wait as told, drip, probe until admitted, and burst over the boundary."""
    if not reach.main:
        return
    for rate_class, partner, partners in parts(user, users):
        probe = yield from a_probe(reach, rate_class, seed, user)
        yield from _bursts(reach, probe, partner, partners)


def _bursts(reach: Reach, probe: Probe, partner: int, partners: int) -> Program:
    key, beyond = reach.main, probe.limit * 13 // 10
    began = yield from meet(probe.window // 12)
    yield from burst(probe, key, share(beyond, partner, partners))
    if partner:
        yield Until(began + 2 * probe.window)
        yield from burst(probe, key, share(beyond, partner, partners))
        return
    for second in reach.of("second"):
        yield from burst(probe, second.name, 3)
    yield from honoured(probe, key)
    yield from drip(probe, key, probe.limit // 2)
    reopened = yield from until_admitted(probe, key)
    yield Until(max(reopened, began + 2 * probe.window - probe.window // 100))
    yield from burst(probe, key, share(beyond, partner, partners))
    yield from burst(probe, key, probe.limit // 2)


def plan(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Follow the plan P1 in each class, twice, off phase the second time."""
    if not reach.main:
        return
    for rate_class, partner, partners in parts(user, users):
        probe = yield from a_probe(reach, rate_class, seed, user)
        yield from p1(reach, probe, partner, partners)


def p1(reach: Reach, probe: Probe, partner: int, partners: int) -> Program:
    """Follow the plan: idle, then bursts whose admissions differ between the algorithms; then off phase."""
    for phase in PHASES:
        base = yield from _begin(probe, phase)
        for second, calls in P1:
            yield Until(base + round(second * probe.window / 60))
            count = calls if calls > 0 else probe.limit + calls
            yield from burst(probe, reach.main, share(count, partner, partners))


def _begin(probe: Probe, phase: int) -> Generator[Any, Any, Micros]:
    """Stay idle for two windows, to an instant at `phase` seconds of a 60 s window; return it."""
    met = yield from meet(probe.window, 2 * probe.window)
    instant = met + phase * probe.window // 60
    yield Until(instant)
    return instant


def _one_after_the_other(users: int) -> int:
    """How many classes the busiest user probes."""
    return max(1, -(-len(CLASSES) // users))


def _needs_of_bursts(reach: Reach, users: int) -> Needs:
    return Needs(_one_after_the_other(users) * 3 * window_of(reach))


def _needs_of_plan(reach: Reach, users: int) -> Needs:
    return Needs(_one_after_the_other(users) * 10 * window_of(reach))


BURST = Profile(
    name="burst",
    aim="Bursts beyond each rate limit, over its boundary, and a drip after it: off-by-one limits, scope.",
    rules=("rate.",),
    users=3,
    duration=4 * MINUTE,
    program=bursts,
    needs=_needs_of_bursts,
    ends=True,
)

WINDOWS = Profile(
    name="windows",
    aim="Which algorithm limits the rate, and its phase: idle, one call, a burst, the boundary, off phase.",
    rules=("rate.",),
    users=3,
    duration=11 * MINUTE,
    program=plan,
    needs=_needs_of_plan,
    ends=True,
)

__all__ = ["BURST", "CLASSES", "WINDOWS", "p1", "parts"]
