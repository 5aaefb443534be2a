"""The guard ladder: every spending operation, dry and real, one failing check at a time, then pairs.

Which checks fail together depends on the keys: an account past due that has used everything up shows check 2
before all others, an account near its limits shows 4, 5 and 6 in all pairs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ranksim.callers.discovery import KeyReach, Reach
from ranksim.callers.manners import politely
from ranksim.callers.profiles.making import a_domain, a_list, a_scan, id_of, named, words
from ranksim.callers.profiles.profile import Needs, Profile
from ranksim.callers.requests import briefs_body, job_body, keywords_body, scan_body
from ranksim.callers.steps import Lap, Pause, Program, Received, Send
from ranksim.clock import MILLISECOND, MINUTE, SECOND
from ranksim.contract.views import created_by

KINDS = ("rank_run", "crawl", "site_optimization", "ai_scan")

MOST_WORDS = 9_000
"""Keywords in one call that shall be too many."""

MOST_JOBS = 16
"""Jobs that are started in order to reach the cost ceiling."""

EXPENSIVE = 20
"""Calls of the expensive class a minute (S104)."""


@dataclass(slots=True)
class Rung:
    """Where one key climbs: its domain, a list that a scan covers, and what makes names new."""

    key: KeyReach
    domain: str
    listed: str
    seed: int
    user: int
    taken: int = 0

    def new(self) -> int:
        """Return a number that was not used before."""
        self.taken += 1
        return self.taken

    def once(self) -> str:
        """Return an Idempotency-Key that was not used before."""
        return named(self.seed, "ladder", self.user, self.key.name, self.new())

    def too_many(self) -> int:
        """Return more keywords than there are slots free, as far as that is known."""
        room = self.key.room()
        return MOST_WORDS if room is None else min(room + 1, MOST_WORDS)

    def words(self, count: int = 1) -> list[str]:
        """Return keywords that were not used before."""
        return words(self.seed, "ladder", self.key.name, self.new(), count=count)


def ladder(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Climb with the user's share of the keys, again and again."""
    mine = climbers(reach)[user::users]
    if not mine:
        yield from _watch(reach)
        return
    rungs = []
    for key in mine:
        rungs.append((yield from _rung(reach, key, seed, user)))
    while True:
        for rung in rungs:
            yield from _climb(reach, rung)
        yield Lap()
        yield Pause(10 * SECOND)


def climbers(reach: Reach) -> list[KeyReach]:
    """Return the keys to climb with, the most telling first: of each account one for each purpose."""
    climbing: dict[tuple[str, str, str], KeyReach] = {}
    for key in reach.usable():
        if key.purpose != "second":
            climbing.setdefault((key.environment, key.account or key.name, key.purpose), key)
    last = ("scoped", "other_account", "other_environment")
    return sorted(climbing.values(), key=lambda key: key.purpose in last)


def steep(reach: Reach, key: KeyReach) -> bool:
    """Return whether to climb with a key up to the cost ceiling: with one near it, else with a full one.

    Nobody who has a key near its limits pays for reaching the ceiling of another, which ends all jobs there.
    """
    return key.purpose == "near_limit" or (key.purpose == "full" and not reach.of("near_limit"))


def _watch(reach: Reach) -> Program:
    """Read what is used meanwhile; reads go on whatever is refused (S67)."""
    for _ in range(600):
        for operation in ("account.usage", "slots.get", "keyword_briefs.list"):
            if reach.can(operation):
                yield Send(operation, reach.main)
        yield Lap()
        yield Pause(5 * SECOND)


def _rung(reach: Reach, key: KeyReach, seed: int, user: int) -> Generator[Any, Any, Rung]:
    """Make a domain, a list, and a scan that covers it; of an account past due, take what was there."""
    lists = key.ids("keyword_lists.list")
    if key.purpose == "past_due" and lists and key.ids("domains.list"):
        return Rung(key, key.ids("domains.list")[0], lists[0], seed, user)
    domain = yield from a_domain(reach, seed, "ladder", user, key=key.name)
    listed = (yield from a_list(reach, seed, domain, "ladder", user, key=key.name)) if domain else ""
    if listed:
        yield from a_scan(reach, domain, [listed], named(seed, "ladder", user), key=key.name)
    return Rung(key, domain or "none", listed or "none", seed, user)


def _climb(reach: Reach, rung: Rung) -> Program:
    for send in _one_by_one(rung):
        yield from _both(reach, rung, send)
    for send in _too_much(rung):
        yield from _both(reach, rung, send)
    yield from _widen(reach, rung)
    yield from _pairs(reach, rung)
    yield from _to_the_ceiling(reach, rung)
    yield from _reads(rung)


def _one_by_one(rung: Rung) -> Iterator[Send]:
    """Every operation with the least that it can ask for."""
    for kind in KINDS:
        yield Send("jobs.create", rung.key.name, body=job_body(kind, rung.domain))
    briefs = briefs_body(rung.domain, rung.words())
    yield Send("keyword_briefs.create", rung.key.name, body=briefs)
    yield Send("keywords.create", rung.key.name, body=keywords_body(rung.listed, rung.words()))
    body = scan_body(rung.domain, [rung.listed], named(rung.seed, "ladder-more", rung.user))
    yield Send("scans.create", rung.key.name, body=body)


def _too_much(rung: Rung) -> Iterator[Send]:
    """Asks beyond one limit each: the slots, the plan's dimensions, the weekly allowance."""
    over = keywords_body(rung.listed, rung.words(rung.too_many()))
    yield Send("keywords.create", rung.key.name, body=over)
    many = [{"engine": f"engine{number}", "device": "desktop"} for number in range(40)]
    body = scan_body(rung.domain, [rung.listed], named(rung.seed, "ladder-wide", rung.user), many)
    yield Send("scans.create", rung.key.name, body=body)
    left = rung.key.left("brief")
    beyond = 500 if left is None else min(left + 1, MOST_WORDS)
    briefs = briefs_body(rung.domain, rung.words(beyond))
    yield Send("keyword_briefs.create", rung.key.name, body=briefs)


def _both(reach: Reach, rung: Rung, send: Send) -> Generator[Any, Any, Received]:
    """Try by dry run, twice for real, then by dry run again, with readings of what is used in between.

    A job that cools is tried for real once more, which shows whether the last dry run was right.
    """
    dry = replace(send, body={**(send.body or {}), "dry_run": True})
    yield from _used(rung)
    yield from _paced(reach, dry)
    yield from _used(rung)
    answer: Received = yield from _paced(reach, replace(send, idempotency_key=rung.once()))
    yield from _used(rung)
    again: Received = yield from _paced(reach, replace(send, idempotency_key=rung.once()))
    yield from _used(rung)
    yield from _paced(reach, dry)
    if again.code == "cooldown_active" and send.operation == "jobs.create":
        yield from _paced(reach, replace(send, idempotency_key=rung.once()))
    return answer


def _paced(reach: Reach, send: Send) -> Generator[Any, Any, Received]:
    """Send, and keep a pace that the rate limit of expensive calls admits."""
    answer: Received = yield from politely(send)
    slow = send.operation in ("jobs.create", "keyword_briefs.create")
    yield Pause((MINUTE // (EXPENSIVE - 2) if slow else 600 * MILLISECOND) // reach.target.traffic_scale)
    return answer


def _used(rung: Rung) -> Program:
    """Read what is used, where the key may."""
    for operation in ("account.usage", "slots.get"):
        if operation not in rung.key.lacks:
            yield from politely(Send(operation, rung.key.name))


def _widen(reach: Reach, rung: Rung) -> Program:
    """Widen a scan by PATCH beyond the slots or the dimensions, and pause it (E19, U95)."""
    found = yield from politely(Send("scans.list", rung.key.name, query={"domain_id": rung.domain}))
    items = found.data if isinstance(found.data, list) else []
    for scan in items[:1]:
        path = {"id": str(scan.get("id")) if isinstance(scan, Mapping) else "none"}
        places = [{"country": country} for country in ("DE", "AT")]
        many = [{"country": f"{a}{b}"} for a in "ABCDE" for b in "ABCDEFGH"]
        for body in ({"geographies": places}, {"geographies": many}, {"active": False}, {"active": True}):
            yield from politely(Send("scans.update", rung.key.name, path=path, body=body))
            yield from _used(rung)


def _pairs(reach: Reach, rung: Rung) -> Program:
    """Repeat at once what has a cooldown, and ask for too much while it cools: 4, 5 and 6 together."""
    key = rung.key.name
    small = Send("keywords.create", key, body=keywords_body(rung.listed, rung.words()))
    answer = yield from politely(replace(small, idempotency_key=rung.once()))
    over = keywords_body(rung.listed, rung.words(rung.too_many() + 500))
    for body in (keywords_body(rung.listed, rung.words()), over):
        yield from politely(Send("keywords.create", key, body={**body, "dry_run": True}))
        answer = yield from politely(Send("keywords.create", key, body=body, idempotency_key=rung.once()))
    created = created_by(answer.data) if answer.ok else None
    for keyword in (created or ())[:1]:
        yield from politely(Send("keywords.delete", key, path={"id": str(keyword.get("id"))}))
    yield from _used(rung)
    for count in (1, 500):
        briefs = briefs_body(rung.domain, rung.words(count))
        send = Send("keyword_briefs.create", key, body=briefs)
        yield from _paced(reach, replace(send, body={**briefs, "dry_run": True}))
        yield from _paced(reach, replace(send, idempotency_key=rung.once()))


def _to_the_ceiling(reach: Reach, rung: Rung) -> Program:
    """Start jobs on new domains until something refuses, then every kind again: 3 before 4, 5 and 6."""
    if not steep(reach, rung.key):
        return
    kinds, reached = ["site_optimization", "ai_scan", "crawl"], False
    for number in range(MOST_JOBS):
        where = yield from a_domain(reach, rung.seed, "ladder", rung.user, rung.new(), key=rung.key.name)
        body = job_body(kinds[number % len(kinds)], where or rung.domain)
        send = Send("jobs.create", rung.key.name, body=body, idempotency_key=rung.once())
        answer = yield from _paced(reach, send)
        yield from _used(rung)
        if answer.code == "entitlement_required" and len(kinds) > 1:
            kinds.remove(body["kind"])
        elif answer.code == "cost_cap_reached" and reached:
            break
        elif answer.code == "cost_cap_reached":
            # A job that fails gives back what was reserved for it (U49).
            reached = True
            yield Pause(20 * SECOND // reach.target.time_scale)
        elif not id_of(answer):
            break
    # What has ended gives nothing back any more, so that what is spent stays spent.
    yield from politely(Send("jobs.list", rung.key.name, query={"limit": "200"}))
    yield from _used(rung)
    for send in (*_one_by_one(rung), *_too_much(rung)):
        if send.operation != "jobs.create":
            yield from politely(replace(send, body={**(send.body or {}), "dry_run": True}))
    for kind in KINDS:
        body = job_body(kind, rung.domain)
        yield from _paced(reach, Send("jobs.create", rung.key.name, body={**body, "dry_run": True}))
        yield from _paced(reach, Send("jobs.create", rung.key.name, body=body, idempotency_key=rung.once()))
    yield from _used(rung)


def _reads(rung: Rung) -> Program:
    """Read on after the refusals (S61, S67, E13)."""
    for operation in ("domains.list", "keywords.list", "keyword_briefs.list", "jobs.list", "positions.list"):
        yield from politely(Send(operation, rung.key.name))


def needs_of(reach: Reach, climbing: Sequence[KeyReach], users: int) -> Needs:
    """Return what it takes so many users to climb once with these keys."""
    steep_ones = sum(steep(reach, key) for key in climbing)
    length = 5 * MINUTE * steep_ones + 2 * MINUTE * (len(climbing) - steep_ones)
    length = max(length // max(1, users), 5 * MINUTE if steep_ones else 2 * MINUTE)
    most = [key.left("brief") for key in climbing]
    return Needs(
        length // reach.target.traffic_scale + 30 * SECOND // reach.target.time_scale,
        12 * len(climbing) + (MOST_JOBS + len(KINDS)) * steep_ones,
        sum(503 if left is None else min(left, 503) for left in most),
        60 * len(climbing),
    )


LADDER = Profile(
    name="ladder",
    aim="The six checks in order: each alone, then pairs, by dry run and for real, and what they consume.",
    rules=("guards.", "dry_run.", "quota.", "slots.", "cost.", "cooldown.", "error."),
    users=5,
    duration=6 * MINUTE,
    program=ladder,
    needs=lambda reach, users: needs_of(reach, climbers(reach), users),
)
