"""Racing writers: users who meet at one instant and ask for the last unit of a quota, slot or cooldown.

They share a domain, a list and a scan by sending the same POST under the same Idempotency-Key.
"""

from __future__ import annotations

from ranksim.clock import MINUTE, SECOND
from ranksim.load.profiles.making import a_domain, id_of, meet, named, scan_body, words
from ranksim.load.profiles.profile import Profile
from ranksim.load.reach import KeyReach, Reach, politely
from ranksim.load.steps import Pause, Program, Send

ROUND = 20 * SECOND
"""Between two meetings: three rounds of expensive calls fit under their limit of 20 a minute."""

RACERS = 6
"""Users who race with expensive calls; of all other calls everybody takes part."""

KINDS = ("crawl", "rank_run", "site_optimization", "ai_scan")


def race(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Meet every round, and ask for the same thing at once; in between, one user reads what was used."""
    if not reach.main:
        return
    keys = [reach.keys[reach.main], *reach.of("second")[:1]]
    tight = reach.of("near_limit")[:1]
    key = keys[user % len(keys)].name
    domain = yield from a_domain(reach, seed, "race", key=key)
    listed = yield from _shared_list(seed, key, domain)
    if listed:
        body = scan_body(domain, [listed], named(seed, "race"))
        once = named(seed, "race", "scan")
        yield from politely(Send("scans.create", key, body=body, idempotency_key=once))
    turn = 0
    while True:
        yield from meet(ROUND // reach.target.traffic_scale, SECOND)
        if user == 0:
            yield Pause(SECOND)
        racers = tight if tight and turn % 4 == 3 else [reach.keys[key]]
        yield from _round(reach, racers[0], user, seed, turn, domain, listed)
        turn += 1
        yield Pause(2 * SECOND)
        if user == 0:
            for operation in ("account.usage", "slots.get"):
                yield Send(operation, racers[0].name)


def _shared_list(seed: int, key: str, domain: str) -> Program:
    """Make the list that all users share; every one of them gets the same id."""
    body = {"domain_id": domain, "name": named(seed, "race")}
    once = named(seed, "race", "list")
    answer = yield from politely(Send("keyword_lists.create", key, body=body, idempotency_key=once))
    return id_of(answer)


def _round(reach: Reach, key: KeyReach, user: int, seed: int, turn: int, domain: str, listed: str) -> Program:
    """Ask once, all at one instant: for slots, briefs or a job by turns."""
    once = named(seed, "race", user, turn)
    where = domain
    if key.name not in (reach.main, *(second.name for second in reach.of("second"))):
        where = key.domain_id or next(iter(key.ids("domains.list")), "")
        lists = key.ids("keyword_lists.list")
        listed = lists[0] if lists else ""
    what = turn % 3
    if what == 0 and listed:
        added = words(seed, "race", turn, user, count=1 + turn % 4)
        yield Send(
            "keywords.create", key.name, body={"list_id": listed, "keywords": added}, idempotency_key=once
        )
    elif user >= RACERS:
        yield Send("slots.get", key.name)
    elif what == 1:
        body = {"domain_id": where, "keywords": words(seed, "race", turn, user)}
        yield Send("keyword_briefs.create", key.name, body=body, idempotency_key=once)
    else:
        kind = KINDS[turn // 3 % len(KINDS)]
        yield Send("jobs.create", key.name, body={"kind": kind, "domain_id": where}, idempotency_key=once)


RACE = Profile(
    name="race",
    aim="Racing writers on one quota, slot and cooldown: atomic consumption, one winner, exact counts.",
    rules=("quota.", "slots.", "cooldown.", "cost.", "join."),
    users=6,
    duration=4 * MINUTE,
    program=race,
)
