"""Probes of rate windows: bursts and drips that meet the limit, and the plan that tells the algorithms apart.

Probes are calls of each class that change nothing, sent at chosen instants. Users share three parts, a rate
class each; those of one class meet at instants that all of them can work out.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ranksim.core.callers.requests import create, job_body
from ranksim.core.callers.retry import bounded_wait
from ranksim.core.callers.steps import Pause, Program, Received, Send, Spawn, Until
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND, Micros
from ranksim.core.contract.facts import Facts, RateClass
from ranksim.judge.deployment.discovery import Reach
from ranksim.judge.profiles.fixtures import User, meet
from ranksim.judge.profiles.profile import Needs, Profile

RATES, WINDOW = Facts().rates, Facts().rate_window

CLASSES = (RateClass.EXPENSIVE, RateClass.WRITE, RateClass.READ)

P1 = ((0.0, 1), (29.0, -1), (35.0, 1), (60.5, 0), (89.5, 0))
"""Second, of a window of 60 s, and calls; a number that is not positive counts from the limit."""

MOST_LANES = 8
"""Calls of one partner that are under way at once, at most."""

PHASES = (45, 10)
"""Second of the minute at which the plan begins, then begins again off phase."""


TRIES = 5
"""Calls after a burst in which a refusal is met, mostly."""


def window_of(reach: Reach) -> Micros:
    """Return the length of a rate window on our clock."""
    return WINDOW // reach.target.traffic_scale


@dataclass(frozen=True, slots=True)
class Probe:
    """A call that is charged to one class and changes nothing; `limit` is what the class admits a window.

    It is the share in it of one of several `partners`.
    """

    limit: int
    window: Micros
    call: Send
    partner: int = 0
    partners: int = 1

    def send(self, key: str = "") -> Send:
        """Return the call with a key, by default the user's own."""
        return replace(self.call, key=key or self.call.key)

    def burst(self, count: int, key: str = "") -> Generator[Any, Any, int]:
        """Send so many in a row, and return how many were admitted."""
        admitted = 0
        for _ in range(count):
            answer: Received = yield self.send(key)
            admitted += answer.status not in (0, 429)
        return admitted

    def lane(self, count: int) -> Program:
        """Send so many in a row, beside others."""
        yield from self.burst(count)

    def share(self, count: int) -> Program:
        """Send this partner's share of so many, in a row or, where calls take long, in several beside it.

        One after another they would not come to the limit within a window.
        """
        left = count // self.partners + (self.partner < count % self.partners) - 1
        answer: Received = yield self.send()
        took = (answer.received - answer.sent) * left
        lanes = max(1, min(MOST_LANES, -(-took // (self.window * 2 // 3))))
        for _ in range(lanes - 1):
            yield Spawn(self.lane(left // lanes))
        yield from self.burst(left - (lanes - 1) * (left // lanes))

    def honoured(self, tries: int) -> Program:
        """Meet a refusal in so many calls, wait for as long as it says, and try again (S100)."""
        for _ in range(tries):
            answer: Received = yield self.send()
            if answer.status == 429:
                yield Pause(bounded_wait(answer) * self.window // WINDOW + 50 * MILLISECOND)
                yield self.send()
                return

    def drip(self, count: int) -> Program:
        """Send one every window / limit, which a leaky bucket admits and a full fixed window does not."""
        instant: Micros = yield Pause(0)
        for _ in range(count):
            instant += self.window // self.limit
            yield Until(instant)
            yield self.send()

    def until_admitted(self) -> Generator[Any, Any, Micros]:
        """Probe sixty times a window until admitted, two windows at most; return when that was sent."""
        sent: Micros = yield Pause(0)
        for _ in range(120):
            answer: Received = yield self.send()
            sent = answer.sent
            if answer.status not in (0, 429):
                break
            yield Pause(self.window // 60)
        return sent

    def settle(self) -> Program:
        """Stay idle for more than two windows."""
        yield Pause(2 * self.window + SECOND)

    def follow_plan(self) -> Program:
        """Follow P1: idle, then bursts whose admissions differ between the algorithms; then off phase."""
        for phase in PHASES:
            met = yield from meet(self.window, 2 * self.window)
            base = met + phase * self.window // 60
            yield Until(base)
            for second, calls in P1:
                yield Until(base + round(second * self.window / 60))
                yield from self.share(calls if calls > 0 else self.limit + calls)


def a_probe(
    me: User, rate_class: RateClass, partner: int = 0, partners: int = 1
) -> Generator[Any, Any, Probe]:
    """Make what a class is probed by: a list, a PATCH of our own domain, a dry run of a job.

    Where no domain can be made, what is refused as invalid or not found is charged all the same (U87).
    """
    if rate_class == RateClass.READ:
        call = Send("domains.list", me.key, query={"limit": "1"})
    else:
        domain = yield from me.domain("probe", rate_class.label, me.number)
        if rate_class == RateClass.WRITE:
            path = {"id": me.to_change(domain)}
            call = Send("domains.update", me.key, path=path, body={"label": "probed"})
        else:
            call = create("jobs", me.key, job_body("ai_scan", domain or "none", dry_run=True))
    return Probe(RATES.of(rate_class), window_of(me.reach), call, partner, partners)


def parts(user: int, users: int) -> list[tuple[RateClass, int, int]]:
    """Return what a user probes: (class, its number among the partners, how many partners)."""
    if users < len(CLASSES):
        assigned = CLASSES[user::users]
        return [(rate_class, 0, 1) for rate_class in assigned]
    which = user % len(CLASSES)
    partners = len(range(which, users, len(CLASSES)))
    return [(CLASSES[which], user // len(CLASSES), partners)]


def bursts(me: User) -> Program:
    """Burst beyond the limit, wait as told, drip, probe until admitted, and burst over the boundary."""
    for part in parts(me.number, me.users):
        probe = yield from a_probe(me, *part)
        beyond = probe.limit * 13 // 10
        began = yield from meet(probe.window // 12)
        yield from probe.share(beyond)
        if probe.partner:
            yield Until(began + 2 * probe.window)
            yield from probe.share(beyond)
            continue
        for second in me.reach.of("second"):
            yield from probe.burst(3, second.name)
        yield from probe.honoured(probe.limit)
        yield from probe.drip(probe.limit // 2)
        reopened = yield from probe.until_admitted()
        yield Until(max(reopened, began + 2 * probe.window - probe.window // 100))
        yield from probe.share(beyond)
        yield from probe.burst(probe.limit // 2)


def exceed(me: User, classes: Sequence[RateClass]) -> Program:
    """Send a third more than a minute admits at once, a class a user; then try again as the refusal says.

    Of expensive calls none is tried again: all tasks of a check share them.
    """
    if me.number >= len(classes):
        return
    rate_class = classes[me.number]
    probe = yield from a_probe(me, rate_class)
    yield from probe.share(probe.limit * 13 // 10)
    if rate_class != RateClass.EXPENSIVE:
        yield from probe.honoured(TRIES)


def plan(me: User) -> Program:
    """Follow the plan P1 in each class, twice, off phase the second time."""
    for part in parts(me.number, me.users):
        probe = yield from a_probe(me, *part)
        yield from probe.follow_plan()


def _needs(reach: Reach, users: int, windows: int) -> Needs:
    """Return what so many windows for each class take that the busiest user probes."""
    return Needs(max(1, -(-len(CLASSES) // users)) * windows * window_of(reach))


LIMITS = Profile(
    name="limits",
    aim="One burst beyond the limit of expensive calls.",
    rules=("rate.expensive", "rate.retry_after", "rate.traffic_only"),
    users=1,
    duration=MINUTE,
    plays=partial(exceed, classes=(RateClass.EXPENSIVE,)),
    needs=lambda reach, users: Needs(4 * SECOND, expensive=26),
    ends=True,
)

BURSTS = Profile(
    name="bursts",
    aim="One burst beyond the limits of writes and of reads, and what is tried again after it.",
    rules=("rate.",),
    users=2,
    duration=2 * MINUTE,
    plays=partial(exceed, classes=(RateClass.WRITE, RateClass.READ)),
    needs=lambda reach, users: Needs(window_of(reach) + 15 * SECOND),
    ends=True,
)

BURST = Profile(
    name="burst",
    aim="Bursts beyond each rate limit, over its boundary, and a drip after it: off-by-one limits, scope.",
    rules=("rate.",),
    users=3,
    duration=4 * MINUTE,
    plays=bursts,
    needs=partial(_needs, windows=3),
    ends=True,
)

WINDOWS = Profile(
    name="windows",
    aim="Which algorithm limits the rate, and its phase: idle, one call, a burst, the boundary, off phase.",
    rules=("rate.",),
    users=3,
    duration=11 * MINUTE,
    plays=plan,
    needs=partial(_needs, windows=10),
    ends=True,
)
