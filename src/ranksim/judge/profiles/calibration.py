"""Calibration: what pins the open choices of a deployment, with as few calls as they need.

Five parts, shared by the users: a rate class each (P1, then a drip and a second key), cooldowns, webhooks.
The last two use a second key of the account where there is one, so that they do not disturb the windows.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from ranksim.core.callers.requests import create, job_body
from ranksim.core.callers.retry import politely
from ranksim.core.callers.steps import Pause, Program, Received
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND, Micros, instant
from ranksim.core.contract.facts import RateClass
from ranksim.judge.profiles.fixtures import User, id_of
from ranksim.judge.profiles.profile import Needs, Profile
from ranksim.judge.profiles.webhooks import twenty
from ranksim.judge.profiles.windows import CLASSES, a_probe, window_of

DOMAINS = 4
"""Domains on which a cooldown is tried side by side."""

EXPENSIVE_EVERY = 3500 * MILLISECOND
"""Between two calls that may start work: 17 a minute (S104)."""

LONGEST_COOLDOWN = 5 * MINUTE
"""A longer one is not waited for: what the refusal says of it is all that is learnt."""

KINDS = ("crawl", "rank_run", "site_optimization", "ai_scan")


def calibration(me: User) -> Program:
    """Do the user's share of the parts, one after the other."""
    aside = next((key.name for key in me.reach.of("second")), me.key)
    for part in range(me.number, 5, me.users):
        if part < len(CLASSES):
            yield from _rates(me, CLASSES[part])
        elif part == len(CLASSES):
            yield from _cooldowns(me, aside)
        else:
            yield from twenty(me, aside)


def _rates(me: User, rate_class: RateClass) -> Program:
    """Pin a class: P1 twice, then beyond the limit, a drip, the second key, and a burst over the boundary."""
    probe = yield from a_probe(me, rate_class)
    yield from probe.follow_plan()
    yield from probe.settle()
    yield from probe.burst(probe.limit * 13 // 10)
    for key in me.reach.of("second"):
        yield from probe.burst(3, key.name)
    yield from probe.drip(probe.limit // 2)
    yield from probe.until_admitted()
    yield from probe.settle()
    yield from probe.burst(1)
    yield Pause(probe.window - probe.window // 60)
    yield from probe.burst(2 * probe.limit)


def _cooldowns(me: User, key: str) -> Program:
    """Start each kind on several domains, and find out from below when it may run again."""
    for kind in KINDS:
        domains = []
        for number in range(DOMAINS):
            domains.append((yield from me.domain("cooldown", kind, number, key=key)))
        for number, domain in enumerate(filter(None, domains)):
            yield from _cooldown(me, key, kind, domain, number)


def _cooldown(me: User, key: str, kind: str, domain: str, number: int) -> Program:
    """Run once, try by dry run until shortly before the cooldown ends, then for real from below."""

    def started(name: str = "") -> Generator[Any, Any, Received]:
        """Start a job under a name of its own, or without one ask whether it would be started."""
        once = me.named("cooldown", kind, domain, f"{number}-{name}") if name else None
        body = job_body(kind, domain, dry_run=not name)
        answer = yield from politely(create("jobs", key, body, once))
        yield Pause(EXPENSIVE_EVERY)
        return answer

    longest = LONGEST_COOLDOWN // me.reach.target.time_scale
    first = yield from started("first")
    if not id_of(first):
        return
    yield from me.wait_for_job(kind, id_of(first), 6, key)
    ends = _available((yield from started()))
    now: Micros = yield Pause(0)
    if ends is not None and ends - now <= longest:
        yield Pause(max(0, ends - now - (number + 1) * EXPENSIVE_EVERY // DOMAINS))
    for step in range(6):
        answer = yield from started(f"again-{step}")
        if answer.ok or answer.code != "cooldown_active":
            break
        wait = _available(answer)
        if wait is not None and wait - answer.received > longest:
            break
        yield Pause(EXPENSIVE_EVERY)


def _available(answer: Received) -> Micros | None:
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


CALIBRATION = Profile(
    name="calibration",
    aim="The open choices: window algorithm, phase and scope; cooldowns; what the count of 20 counts.",
    rules=("rate.", "cooldown.", "webhook.disable", "webhook.reset", "webhook.retry_delays"),
    users=5,
    duration=16 * MINUTE,
    plays=calibration,
    needs=lambda reach, users: Needs(
        max(1, -(-5 // users)) * 16 * window_of(reach), jobs=2 * DOMAINS * len(KINDS)
    ),
    ends=True,
)
