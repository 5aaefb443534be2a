"""Racing writers: users who meet at one instant and ask for the last unit of a quota, slot or cooldown.

They share a domain, a list and a scan by sending the same POST under the same Idempotency-Key.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from ranksim.core.callers.manners import politely
from ranksim.core.callers.requests import briefs_body, job_body, keywords_body, list_body, scan_body
from ranksim.core.callers.steps import Lap, Pause, Program, Send
from ranksim.core.clock import MINUTE, SECOND
from ranksim.judge.deployment.discovery import KeyReach, Reach
from ranksim.judge.profiles.making import a_domain, id_of, meet, named, words
from ranksim.judge.profiles.profile import Needs, Profile

ROUND = 12 * SECOND
"""Between two meetings."""

RACERS = 6
"""Users who race with expensive calls, so that their limit of 20 a minute is not all that they meet."""

MOST_UNITS = 60
"""Units that one call asks for at most: a large account is not used up."""

KINDS = ("crawl", "rank_run", "site_optimization")

TURNS = 4 * len(KINDS)
"""Meetings after which everything was raced for, and each kind of job."""


@dataclass(frozen=True, slots=True)
class Stake:
    """What is raced for with one key: the domain and list that all share, and how many ask."""

    key: KeyReach
    domain: str
    listed: str
    racers: int

    def share(self, left: int | None, rounds: int) -> int:
        """Return how many units to ask for: within so many rounds all together want more than is left."""
        return 1 if left is None else max(1, min(MOST_UNITS, left // (rounds * self.racers) + 1))


def race(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Meet every round, and ask for the same thing at once; in between, one user reads what was used."""
    if not reach.main:
        return
    keys = [reach.keys[reach.main], *reach.of("second")[:1]]
    key = keys[user % len(keys)]
    own = yield from a_domain(reach, seed, "race", user, key=key.name)
    stake = yield from _stake(reach, key, users, seed)
    tight = []
    for candidate in reach.of("near_limit"):
        tight.append((yield from _stake(reach, candidate, users, seed, maker=candidate.name)))
    tight = [candidate for candidate in tight if candidate.listed]
    turn = 0
    while True:
        yield from meet(ROUND // reach.target.traffic_scale, SECOND)
        at_stake = tight[turn % len(tight)] if tight and turn % 3 == 2 else stake
        yield from _ask(at_stake, user, seed, turn, (own or "none") if at_stake is stake else at_stake.domain)
        turn += 1
        yield Pause(2 * SECOND)
        if user == 0:
            for operation in ("account.usage", "slots.get"):
                yield Send(operation, at_stake.key.name)
        if turn % TURNS == 0:
            yield Lap()


def _stake(reach: Reach, key: KeyReach, users: int, seed: int, maker: str = "") -> Generator[Any, Any, Stake]:
    """Make what all users share, with the key `maker` or the main one; each of them gets the same ids."""
    parts = ("race", maker) if maker else ("race",)
    maker = maker or reach.main
    domain = yield from a_domain(reach, seed, *parts, key=maker)
    body = list_body(domain or "none", named(seed, *parts))
    once = named(seed, *parts, "list")
    made = yield from politely(Send("keyword_lists.create", maker, body=body, idempotency_key=once))
    listed = id_of(made)
    if listed:
        body = scan_body(domain, [listed], named(seed, *parts))
        once = named(seed, *parts, "scan")
        yield from politely(Send("scans.create", maker, body=body, idempotency_key=once))
    return Stake(key, domain or "none", listed, users)


def _ask(stake: Stake, user: int, seed: int, turn: int, own: str) -> Program:
    """Ask once, all at one instant: by turns for slots, briefs, one job, or jobs on domains of one's own."""
    key, once = stake.key, named(seed, "race", user, turn)
    what = turn % 4
    if what == 0 and stake.listed:
        added = words(seed, "race", turn, user, count=stake.share(key.room(), 3))
        body = keywords_body(stake.listed, added)
        yield Send("keywords.create", key.name, body=body, idempotency_key=once)
    elif user >= RACERS:
        yield Send("slots.get", key.name)
    elif what == 1:
        yield from _briefs(stake, seed, once, stake.share(key.left("brief"), 1))
    elif what == 2:
        body = job_body(KINDS[turn // 4 % len(KINDS)], stake.domain)
        yield Send("jobs.create", key.name, body=body, idempotency_key=once)
    else:
        body = job_body("ai_scan" if turn % 8 == 3 else "crawl", own)
        yield Send("jobs.create", key.name, body=body, idempotency_key=once)


def _briefs(stake: Stake, seed: int, once: str, count: int) -> Program:
    """Ask for briefs; when they do not fit, ask for all that is said to be left, then for one more."""
    for step in range(3):
        body = briefs_body(stake.domain, words(seed, once, step, count=count))
        name = f"{once}-{step}"
        answer = yield Send("keyword_briefs.create", stake.key.name, body=body, idempotency_key=name)
        if answer.code != "quota_exhausted":
            break
        meta = answer.body.get("meta")
        used, limit = (meta.get(name) if isinstance(meta, dict) else None for name in ("used", "limit"))
        left = limit - used if isinstance(used, int) and isinstance(limit, int) else 0
        count = min(max(1, left), MOST_UNITS)


def _needs(reach: Reach, users: int) -> Needs:
    racers, tight = min(users, RACERS), reach.of("near_limit")
    keys = [reach.keys[reach.main], *tight] if reach.main else []
    room, left = [key.room() for key in keys], [key.left("brief") for key in keys]
    most = TURNS // 4 * MOST_UNITS
    return Needs(
        TURNS * max(ROUND // reach.target.traffic_scale, 4 * SECOND),
        TURNS // 2 * racers,
        sum(racers * most if amount is None else min(amount, racers * most) for amount in left),
        sum(users * most if amount is None else min(amount, users * most) for amount in room),
    )


RACE = Profile(
    name="race",
    aim="Racing writers on one quota, slot and cooldown: atomic consumption, one winner, exact counts.",
    rules=("quota.", "slots.", "cost.", "cooldown.", "guards.ceiling"),
    users=6,
    duration=4 * MINUTE,
    program=race,
    needs=_needs,
)
