"""Calibration: what pins the open choices of a deployment, with as few calls as they need.

Five parts, shared by the users: a rate class each (P1, then a drip and a second key), cooldowns, webhooks.
The last two use a second key of the account where there is one, so that they do not disturb the windows.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from ranksim.core.callers.manners import politely
from ranksim.core.callers.requests import job_body
from ranksim.core.callers.steps import Pause, Program, Received, Send
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND, Micros, instant
from ranksim.core.contract.facts import RateClass
from ranksim.judge.deployment.discovery import Reach
from ranksim.judge.profiles.making import a_domain, id_of, named, wait_for_job
from ranksim.judge.profiles.probing import a_probe, burst, drip, settle, until_admitted, window_of
from ranksim.judge.profiles.profile import Needs, Profile
from ranksim.judge.profiles.webhooks import twenty
from ranksim.judge.profiles.windows import CLASSES, p1

DOMAINS = 4
"""Domains on which a cooldown is tried side by side."""

EXPENSIVE_EVERY = 3500 * MILLISECOND
"""Between two calls that may start work: 17 a minute (S104)."""

LONGEST_COOLDOWN = 5 * MINUTE
"""A longer one is not waited for: what the refusal says of it is all that is learnt."""

KINDS = ("crawl", "rank_run", "site_optimization", "ai_scan")


def calibration(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Do the user's share of the parts, one after the other."""
    if not reach.main:
        return
    aside = next((key.name for key in reach.of("second")), reach.main)
    for part in range(user, 5, users):
        if part < len(CLASSES):
            yield from _rates(reach, CLASSES[part], seed, user)
        elif part == len(CLASSES):
            yield from _cooldowns(reach, aside, seed)
        else:
            yield from twenty(reach, aside, seed)


def _rates(reach: Reach, rate_class: RateClass, seed: int, user: int) -> Program:
    """Pin a class: P1 twice, then beyond the limit, a drip, the second key, and a burst over the boundary."""
    probe = yield from a_probe(reach, rate_class, seed, user)
    yield from p1(reach, probe, 0, 1)
    yield from settle(probe)
    yield from burst(probe, reach.main, probe.limit * 13 // 10)
    for key in reach.of("second"):
        yield from burst(probe, key.name, 3)
    yield from drip(probe, reach.main, probe.limit // 2)
    yield from until_admitted(probe, reach.main)
    yield from settle(probe)
    yield from burst(probe, reach.main, 1)
    yield Pause(probe.window - probe.window // 60)
    yield from burst(probe, reach.main, 2 * probe.limit)


def _cooldowns(reach: Reach, key: str, seed: int) -> Program:
    """Start each kind on several domains, and find out from below when it may run again."""
    for kind in KINDS:
        domains = []
        for number in range(DOMAINS):
            domains.append((yield from a_domain(reach, seed, "cooldown", kind, number, key=key)))
        for number, domain in enumerate(filter(None, domains)):
            yield from _cooldown(reach, key, seed, kind, domain, number)


def _cooldown(reach: Reach, key: str, seed: int, kind: str, domain: str, number: int) -> Program:
    """Run once, try by dry run until shortly before the cooldown ends, then for real from below."""
    first: Received = yield from _start(key, seed, kind, domain, f"{number}-first")
    if not id_of(first):
        return
    yield from wait_for_job(reach, kind, id_of(first), 6, key)
    tried: Received = yield from _dry(key, kind, domain)
    ends = _available(tried, first)
    now: Micros = yield Pause(0)
    if ends is not None and ends - now <= LONGEST_COOLDOWN // reach.target.time_scale:
        yield Pause(max(0, ends - now - (number + 1) * EXPENSIVE_EVERY // DOMAINS))
    for step in range(6):
        answer: Received = yield from _start(key, seed, kind, domain, f"{number}-again-{step}")
        if answer.ok or answer.code != "cooldown_active":
            break
        wait = _available(answer, first)
        if wait is not None and wait - answer.received > LONGEST_COOLDOWN // reach.target.time_scale:
            break
        yield Pause(EXPENSIVE_EVERY)


def _start(key: str, seed: int, kind: str, domain: str, name: str) -> Generator[Any, Any, Received]:
    body = job_body(kind, domain)
    once = named(seed, "cooldown", kind, domain, name)
    answer: Received = yield from politely(Send("jobs.create", key, body=body, idempotency_key=once))
    yield Pause(EXPENSIVE_EVERY)
    return answer


def _dry(key: str, kind: str, domain: str) -> Generator[Any, Any, Received]:
    body = job_body(kind, domain, dry_run=True)
    answer: Received = yield from politely(Send("jobs.create", key, body=body))
    yield Pause(EXPENSIVE_EVERY)
    return answer


def _available(answer: Received, first: Received) -> Micros | None:
    """Read when a refusal, or a dry run that would be refused, says that the cooldown ends, on our clock.

    Taken as seconds from the answer where the meta has `retry_after`, else from `available_at` (U26, U89).
    """
    body: Any = answer.body if isinstance(answer.body, Mapping) else {}
    data = body.get("data")
    refusal = data.get("refusal") if isinstance(data, Mapping) else body
    meta = refusal.get("meta") if isinstance(refusal, Mapping) else None
    if not isinstance(meta, Mapping):
        return None
    seconds = meta.get("retry_after")
    if isinstance(seconds, int):
        return answer.received + seconds * SECOND
    try:
        return instant(str(meta.get("available_at")))
    except ValueError:
        return None


def _needs(reach: Reach, users: int) -> Needs:
    parts = max(1, -(-5 // users))
    return Needs(parts * 16 * window_of(reach), jobs=2 * DOMAINS * len(KINDS))


CALIBRATION = Profile(
    name="calibration",
    aim="The open choices: window algorithm, phase and scope; cooldowns; what the count of 20 counts.",
    rules=("rate.", "cooldown.", "webhook.disable", "webhook.reset", "webhook.retry_delays"),
    users=5,
    duration=16 * MINUTE,
    program=calibration,
    needs=_needs,
    ends=True,
)
