"""Probes of rate windows: calls of each class that change nothing, sent at chosen instants."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from ranksim.core.callers.manners import bounded_wait
from ranksim.core.callers.requests import job_body
from ranksim.core.callers.steps import Pause, Program, Received, Send, Until
from ranksim.core.clock import MILLISECOND, SECOND, Micros
from ranksim.core.contract.facts import Facts, RateClass
from ranksim.judge.deployment.discovery import Reach
from ranksim.judge.profiles.making import a_domain, to_change

RATES, WINDOW = Facts().rates, Facts().rate_window


@dataclass(frozen=True, slots=True)
class Probe:
    """A call that is charged to one class and changes nothing; `limit` is what the class admits a window."""

    limit: int
    window: Micros
    send: Callable[[str], Send]
    """Makes the call for a key."""


def window_of(reach: Reach) -> Micros:
    """Return the length of a rate window on our clock."""
    return WINDOW // reach.target.traffic_scale


def a_probe(reach: Reach, rate_class: RateClass, seed: int, user: int) -> Generator[Any, Any, Probe]:
    """Make what a class is probed by: a list, a PATCH of our own domain, a dry run of a job.

    Where no domain can be made, what is refused as invalid or not found is charged all the same (U87).
    """
    domain = ""
    if rate_class != RateClass.READ:
        domain = yield from a_domain(reach, seed, "probe", rate_class.label, user)

    def send(key: str) -> Send:
        if rate_class == RateClass.READ:
            return Send("domains.list", key, query={"limit": "1"})
        if rate_class == RateClass.WRITE:
            path = {"id": to_change(reach, domain)}
            return Send("domains.update", key, path=path, body={"label": "probed"})
        body = job_body("ai_scan", domain or "none", dry_run=True)
        return Send("jobs.create", key, body=body)

    return Probe(RATES.of(rate_class), window_of(reach), send)


def burst(probe: Probe, key: str, count: int) -> Generator[Any, Any, int]:
    """Send so many in a row, and return how many were admitted."""
    admitted = 0
    for _ in range(count):
        answer: Received = yield probe.send(key)
        admitted += answer.status not in (0, 429)
    return admitted


def honoured(probe: Probe, key: str) -> Program:
    """Meet a refusal, wait for as long as it says, and try again (S100)."""
    for _ in range(probe.limit):
        answer: Received = yield probe.send(key)
        if answer.status == 429:
            yield Pause(bounded_wait(answer) * probe.window // WINDOW + 50 * MILLISECOND)
            yield probe.send(key)
            return


def drip(probe: Probe, key: str, count: int) -> Program:
    """Send one every window / limit, which a leaky bucket admits and a full fixed window does not."""
    every = probe.window // probe.limit
    instant: Micros = yield Pause(0)
    for _ in range(count):
        instant += every
        yield Until(instant)
        yield probe.send(key)


def until_admitted(probe: Probe, key: str) -> Generator[Any, Any, Micros]:
    """Probe sixty times a window until admitted, two windows at most; return when that was sent."""
    sent: Micros = yield Pause(0)
    for _ in range(120):
        answer: Received = yield probe.send(key)
        sent = answer.sent
        if answer.status not in (0, 429):
            break
        yield Pause(probe.window // 60)
    return sent


def share(count: int, partner: int, partners: int) -> int:
    """Return one partner's share of a count."""
    return count // partners + (partner < count % partners)


def settle(probe: Probe) -> Generator[Any, Any, Micros]:
    """Stay idle for more than two windows; return the instant after it."""
    now: Micros = yield Pause(2 * probe.window + SECOND)
    return now
