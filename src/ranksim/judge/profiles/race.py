"""Racing writers: users who meet at one instant and ask for the last unit of a quota, slot or cooldown.

They share a domain, a list and a scan by sending the same POST under the same Idempotency-Key.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from ranksim.core.callers.requests import briefs_body, create, job_body, keywords_body, named_body, scan_body
from ranksim.core.callers.steps import Lap, Pause, Program, Send
from ranksim.core.clock import MINUTE, SECOND
from ranksim.core.service.calls import Body
from ranksim.judge.deployment.discovery import KeyReach, Reach
from ranksim.judge.profiles.fixtures import User, id_of, meet, send_creation
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


def race(me: User) -> Program:
    """Meet every round, and ask for the same thing at once; in between, one user reads what was used."""
    keys = [me.reach.keys[me.key], *me.reach.of("second")[:1]]
    key = keys[me.number % len(keys)]
    own = yield from me.domain("race", me.number, key=key.name)
    stake = yield from _stake(me, key)
    tight = []
    for candidate in me.reach.of("near_limit"):
        tight.append((yield from _stake(me, candidate, candidate.name)))
    tight = [candidate for candidate in tight if candidate.listed]
    turn = 0
    while True:
        yield from meet(ROUND // me.reach.target.traffic_scale, SECOND)
        at_stake = tight[turn % len(tight)] if tight and turn % 3 == 2 else stake
        yield from _ask(me, at_stake, turn, (own or "none") if at_stake is stake else at_stake.domain)
        turn += 1
        yield Pause(2 * SECOND)
        if me.number == 0:
            for operation in ("account.usage", "slots.get"):
                yield Send(operation, at_stake.key.name)
        if turn % TURNS == 0:
            yield Lap()


def _stake(me: User, key: KeyReach, maker: str = "") -> Generator[Any, Any, Stake]:
    """Make what all users share, with the key `maker` or the main one; each of them gets the same ids."""
    parts = ("race", maker) if maker else ("race",)
    maker, name = maker or me.key, me.named(*parts)
    domain = yield from me.domain(*parts, key=maker)
    body = named_body(domain or "none", name)
    listed = yield from send_creation(create("keyword_lists", maker, body, f"{name}-list"))
    if listed:
        yield from send_creation(create("scans", maker, scan_body(domain, [listed], name), f"{name}-scan"))
    return Stake(key, domain or "none", listed, me.users)


def _ask(me: User, stake: Stake, turn: int, own: str) -> Program:
    """Ask once, all at one instant: by turns for slots, briefs, one job, or jobs on domains of one's own."""
    key, once = stake.key, me.named("race", me.number, turn)
    what = turn % 4
    if what == 0 and stake.listed:
        added = me.words("race", turn, me.number, count=stake.share(key.room(), 3))
        yield create("keywords", key.name, keywords_body(stake.listed, added), once)
    elif me.number >= RACERS:
        yield Send("slots.get", key.name)
    elif what == 1:
        yield from _briefs(me, stake, once, stake.share(key.left("brief"), 1))
    elif what == 2:
        yield from _job(key, job_body(KINDS[turn // 4 % len(KINDS)], stake.domain), once)
    else:
        yield from _job(key, job_body("ai_scan" if turn % 8 == 3 else "crawl", own), once)


def _job(key: KeyReach, body: Body, once: str) -> Program:
    """Ask for a job, and look at it once all were answered: had it failed, the next would be in order."""
    job = id_of((yield create("jobs", key.name, body, once)))
    if job:
        yield Pause(SECOND)
        yield Send("jobs.get", key.name, path={"kind": str(body["kind"]), "id": job})


def _briefs(me: User, stake: Stake, once: str, count: int) -> Program:
    """Ask for briefs; when they do not fit, ask for all that is said to be left, then for one more."""
    for step in range(3):
        body = briefs_body(stake.domain, me.words(once, step, count=count))
        answer = yield create("keyword_briefs", stake.key.name, body, f"{once}-{step}")
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
        TURNS * 3 * racers,
    )


RACE = Profile(
    name="race",
    aim="Racing writers on one quota, slot and cooldown: atomic consumption, one winner, exact counts.",
    rules=("quota.", "slots.", "cost.", "cooldown.", "guards.ceiling"),
    users=6,
    duration=4 * MINUTE,
    plays=race,
    needs=_needs,
)
