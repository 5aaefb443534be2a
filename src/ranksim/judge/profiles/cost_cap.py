"""The climb to an account's cost ceiling: jobs until it refuses more, then each check beside it (S59)."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from ranksim.core.callers.requests import job_body, keywords_body
from ranksim.core.callers.retry import politely
from ranksim.core.callers.steps import Lap, Pause, Program, Send
from ranksim.core.clock import MINUTE, SECOND, Micros
from ranksim.judge.deployment.discovery import KeyReach, Reach
from ranksim.judge.deployment.prices import micros_of, spent_amount
from ranksim.judge.profiles import precedence
from ranksim.judge.profiles.fixtures import Making, User, has_ended, id_of
from ranksim.judge.profiles.precedence import KINDS, Rung, at_once, promptly, read_used
from ranksim.judge.profiles.profile import Needs, Profile

MOST_JOBS = 100
"""Jobs that are started in order to reach the cost ceiling, at most."""

NEAR = 10_000_000
"""µUSD under a ceiling that few jobs spend."""

TRIED = 9
"""Jobs from which on a ceiling is given up that `MOST_JOBS` would not reach, by what the dearest cost."""

LOOKED = 2 * SECOND
"""Between two looks at whether jobs still run (business time)."""

LOOKS = 30
"""How often is looked at most."""


def ceiling(me: User) -> Program:
    """Climb to the ceiling with the user's share of the keys, again and again."""
    rungs = yield from precedence.begin(me, steep_ones(me.reach))
    while rungs:
        for rung in rungs:
            yield from to_the_ceiling(rung)
        yield Lap()
        yield Pause(10 * SECOND)


def steep_ones(reach: Reach) -> list[KeyReach]:
    """Return the keys to climb with up to the cost ceiling."""
    return [key for key in precedence.climbers(reach) if steep(reach, key)]


def steep(reach: Reach, key: KeyReach) -> bool:
    """Return whether to climb with a key up to the cost ceiling: with one near it, else with a full one.

    Nobody who has a key near its limits pays for reaching the ceiling of another, which ends all jobs there.
    """
    return key.purpose == "near_limit" or (key.purpose == "full" and not reach.of("near_limit"))


def to_the_ceiling(rung: Rung) -> Program:
    """Start jobs on new domains until something refuses, then every kind again: 3 before 4, 5 and 6.

    What has ended gives nothing back any more, so that what is spent stays spent; a list of jobs shows it.
    """
    lacking = yield from _climbed(rung)
    yield from politely(Send("jobs.list", rung.key.name, query={"limit": "200"}))
    yield from read_used(rung.key)
    plain = yield from rung.me.keyword_list(rung.domain, "ladder-free", rung.me.number, key=rung.key.name)
    untracked = rung.create("keywords", keywords_body(plain, rung.words()))
    over, _, beyond = precedence.too_much(rung)
    brief, _, scan = [send for send in precedence.one_by_one(rung) if send.operation != "jobs.create"]
    jobs = {kind: rung.create("jobs", job_body(kind, rung.domain)) for kind in KINDS}
    for kind in KINDS:
        if kind not in lacking:
            yield from promptly(precedence.dry(jobs[kind]))
            yield from at_once(rung, jobs[kind])
    for send in (beyond, over, brief, untracked, scan, *(jobs[kind] for kind in lacking)):
        yield from at_once(rung, send)
    yield from precedence.read_on(rung)


def _climbed(rung: Rung) -> Generator[Any, Any, list[str]]:
    """Start jobs, each kind by turns and then the dearest, until the ceiling refuses them and none runs.

    Return the kinds that the plan lacks. What a job costs is seen by how much what is spent has grown. Once
    that tells that the ceiling is out of reach, or nothing tells where it is, no more is spent on it.
    """
    prices = dict.fromkeys(("site_optimization", "ai_scan", "crawl"), 0)
    cooled: dict[str, Micros] = {rung.domain: 0}  # domains, and when nothing cools there any more
    lacking: list[str] = []
    begun = False
    spent, limit = _cost((yield from read_used(rung.key)))
    for number in range(MOST_JOBS):
        turn = number % len(prices)
        kind = list(prices)[turn] if number < TRIED else max(prices, key=lambda kind_name: prices[kind_name])
        if number >= TRIED and (not limit or limit - spent > (MOST_JOBS - number) * prices[kind]):
            break
        where = yield from _free(rung, cooled)
        send = rung.create("jobs", job_body(kind, where))
        answer = yield from promptly(rung.anew(send))
        before = spent
        spent, limit = _cost((yield from read_used(rung.key)))
        if id_of(answer):
            begun = True
            prices[kind] = max(prices[kind], spent - before)
            length = rung.key.cooldown(kind)
            if length is not None:
                cooled[where] = answer.received + (length + SECOND) // rung.me.reach.target.time_scale
            if 0 < limit <= spent:  # the ceiling, while this cools
                yield from at_once(rung, send)
        elif answer.code == "entitlement_required" and len(prices) > 1:
            del prices[kind]
            lacking.append(kind)
            cooled[where] = 0
        elif answer.status and begun and answer.code != "cooldown_active":
            # The ceiling, whatever it is called: what ends may give back what was reserved for it (U49).
            begun = False
            yield from _all_over(rung)
            spent, limit = _cost((yield from read_used(rung.key)))
        elif answer.code != "cooldown_active":
            break
    return lacking


def _all_over(rung: Rung) -> Program:
    """Wait until no job of the account runs, as its list shows them, but not for ever."""
    for _ in range(LOOKS):
        jobs = yield from politely(Send("jobs.list", rung.key.name, query={"limit": "200"}))
        if not isinstance(jobs.data, list) or all(has_ended(job) for job in jobs.data):
            return
        yield Pause(LOOKED // rung.me.reach.target.time_scale)


def _free(rung: Rung, cooled: dict[str, Micros]) -> Making:
    """Take a domain on which nothing cools any more, or make one."""
    now: Micros = yield Pause(0)
    for domain, over in cooled.items():
        if over <= now:
            del cooled[domain]
            return domain
    made = yield from rung.me.domain("ladder", rung.me.number, rung.new(), key=rung.key.name)
    return made or rung.domain


def _cost(key: KeyReach) -> tuple[int, int]:
    """Return what is spent and the ceiling by what was read of usage, µUSD; 0 for what it does not tell."""
    usage = key.reads.get("account.usage")
    cost = usage.get("cost") if isinstance(usage, Mapping) else None
    if not isinstance(cost, Mapping):
        return 0, 0
    return spent_amount(cost) or 0, micros_of(cost.get("ceiling")) or 0


def _is_near(key: KeyReach) -> bool:
    """Return whether few jobs spend what is left under the ceiling of a key's account."""
    spent, limit = _cost(key)
    return 0 < limit <= spent + NEAR


def needs_of(reach: Reach, climbing: Sequence[KeyReach], users: int) -> Needs:
    """Return what it takes so many users to climb once with these keys."""
    each = (150 * SECOND if all(map(_is_near, climbing)) else 4 * MINUTE) // reach.target.traffic_scale
    return Needs(
        -(-len(climbing) // max(1, users)) * each,
        (MOST_JOBS + len(KINDS)) * len(climbing),
        expensive=60 * len(climbing),
    )


def needs(reach: Reach, users: int) -> Needs:
    """Return what it takes so many users to climb once with all keys that climb."""
    return needs_of(reach, steep_ones(reach), users)


CEILING = Profile(
    name="ceiling",
    aim="Jobs until an account is at its cost ceiling, and each check beside that one.",
    rules=("guards.ceiling", "guards.reads", "guards.codes", "dry_run.", "cost.", "error."),
    users=1,
    duration=6 * MINUTE,
    plays=ceiling,
    needs=needs,
)
