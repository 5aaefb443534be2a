"""The guard ladder: every spending operation, dry and real, one failing check at a time, then pairs.

Which checks fail together depends on the keys: an account past due that has used everything up shows check 2
before all others, an account near its limits shows 4, 5 and 6 in all pairs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ranksim.callers.budget import micros_of, spent_of
from ranksim.callers.discovery import KeyReach, Reach
from ranksim.callers.manners import politely
from ranksim.callers.profiles.making import a_domain, a_list, a_scan, id_of, named, wait_for_job, words
from ranksim.callers.profiles.profile import Needs, Profile
from ranksim.callers.requests import (
    GERMANY,
    GOOGLE_DESKTOP,
    briefs_body,
    job_body,
    keywords_body,
    scan_body,
)
from ranksim.callers.steps import Lap, Pause, Program, Received, Send
from ranksim.clock import MILLISECOND, MINUTE, SECOND
from ranksim.contract.views import created_by

KINDS = ("rank_run", "crawl", "site_optimization", "ai_scan")

MOST_WORDS = 9_000
"""Keywords in one call that shall be too many."""

MOST_JOBS = 40
"""Jobs that are started in order to reach the cost ceiling."""

ROOMY = 40
"""Slots free from which a scan may take four a word."""

LEFT_OVER = 3
"""Units of an allowance that are used up where so few are left to an account near its limits."""

EXPENSIVE = 20
"""Calls of the expensive class a minute (S104)."""

BREATH = 4 * MINUTE // (EXPENSIVE - 2)
"""Time in which a pace of expensive calls leaves room for four at once."""

SPARE = 3
"""Calls that a window still admits, down to which there is no need to wait."""


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

    def shape(self) -> tuple[Sequence[Mapping[str, str]], Sequence[Mapping[str, str]]]:
        """Return the pairings and places of a scan: two of each where there is room for it (S25)."""
        room = self.key.room()
        if room is not None and room < ROOMY:
            return GOOGLE_DESKTOP, GERMANY
        pairs = [{"engine": "google", "device": device} for device in ("desktop", "mobile")]
        return pairs, [{"country": country} for country in ("DE", "AT")]

    def too_many(self) -> int:
        """Return more keywords than there are slots free, as far as that is known."""
        room = self.key.room()
        return MOST_WORDS if room is None else min(room + 1, MOST_WORDS)

    def cools(self, spend: str) -> bool:
        """Return whether an operation has a cooldown by what the plan states."""
        told = self.key.reads.get("account.entitlements")
        lengths = told.get("cooldown_seconds") if isinstance(told, Mapping) else None
        return isinstance(lengths, Mapping) and bool(lengths.get(spend))

    def first(self) -> list[str]:
        """Return the first keyword of the list, which is there from the first climb on."""
        return words(self.seed, "ladder", self.key.name, "first")

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
        yield from _both(reach, rung, send, again=False)
    yield from _pairs(reach, rung)
    yield from _widen(reach, rung)
    yield from _to_the_ceiling(reach, rung)
    yield from _reads(rung)


def _one_by_one(rung: Rung) -> Iterator[Send]:
    """Every operation with the least that it can ask for."""
    for kind in KINDS:
        yield Send("jobs.create", rung.key.name, body=job_body(kind, rung.domain))
    briefs = briefs_body(rung.domain, rung.words())
    yield Send("keyword_briefs.create", rung.key.name, body=briefs)
    yield Send("keywords.create", rung.key.name, body=keywords_body(rung.listed, rung.first()))
    body = scan_body(rung.domain, [rung.listed], named(rung.seed, "ladder-more", rung.user), *rung.shape())
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


def _both(reach: Reach, rung: Rung, send: Send, *, again: bool = True) -> Program:
    """Try by dry run, twice for real, then by dry run again, with readings of what is used in between.

    A job that cools is tried for real once more, which shows whether the last dry run was right; a job that
    was begun is looked at, which shows whether it ran when it was asked for again. What is refused whatever
    was done before needs no second try.
    """
    dry = _dry(send)
    yield from _used(rung)
    yield from _paced(reach, dry)
    yield from _used(rung)
    answer: Received = yield from _paced(reach, replace(send, idempotency_key=rung.once()))
    yield from _used(rung)
    if again:
        begun = id_of(answer) if send.operation == "jobs.create" else ""
        answer = yield from _paced(reach, replace(send, idempotency_key=rung.once()))
        if begun:
            path = {"kind": str((send.body or {}).get("kind")), "id": begun}
            yield from politely(Send("jobs.get", rung.key.name, path=path))
        yield from _used(rung)
    yield from _paced(reach, dry)
    if again and answer.code == "cooldown_active" and send.operation == "jobs.create":
        yield from _paced(reach, replace(send, idempotency_key=rung.once()))


def _dry(send: Send) -> Send:
    return replace(send, body={**(send.body or {}), "dry_run": True})


def _at_once(rung: Rung, *sends: Send) -> Program:
    """Send each for real and dry, right behind each other, and read what is used."""
    yield from _used(rung)
    for send in sends:
        yield from politely(replace(send, idempotency_key=rung.once()))
        yield from politely(_dry(send))
    yield from _used(rung)


def _paced(reach: Reach, send: Send) -> Generator[Any, Any, Received]:
    """Send, and keep a pace that the rate limit of expensive calls admits, once few of them are left."""
    answer: Received = yield from politely(send)
    left = answer.header("ratelimit-remaining")
    many = left.isascii() and left.isdigit() and int(left) > SPARE
    slow = send.operation in ("jobs.create", "keyword_briefs.create") and not many
    yield Pause((MINUTE // (EXPENSIVE - 2) if slow else 600 * MILLISECOND) // reach.target.traffic_scale)
    return answer


def _used(rung: Rung) -> Generator[Any, Any, Mapping[str, Any]]:
    """Read what is used, where the key may; return the usage."""
    usage: Mapping[str, Any] = {}
    for operation in ("account.usage", "slots.get"):
        if operation not in rung.key.lacks:
            answer: Received = yield from politely(Send(operation, rung.key.name))
            if operation == "account.usage" and isinstance(answer.data, Mapping):
                usage = answer.data
    return usage


def _breath(reach: Reach, rung: Rung, spend: str) -> Program:
    """Wait until a few expensive calls can follow each other at once, where an operation cools."""
    if rung.cools(spend):
        yield Pause(BREATH // reach.target.traffic_scale)


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
    """Ask for too much of what cools: checks 4, 5 and 6 together.

    A word of a list that nothing tracks begins the cooldown, where keywords have one, and takes no slot.
    """
    key, plain = rung.key.name, ""
    if rung.key.purpose != "past_due":
        parts = ("ladder-plain", rung.user, rung.new())
        plain = yield from a_list(reach, rung.seed, rung.domain, *parts, key=key)
    yield from _breath(reach, rung, "keywords")
    small = Send("keywords.create", key, body=keywords_body(plain or rung.listed, rung.words()))
    answer = yield from politely(replace(small, idempotency_key=rung.once()))
    over = keywords_body(rung.listed, rung.words(rung.too_many() + 500))
    more = keywords_body(plain or rung.listed, rung.words())
    there = keywords_body(rung.listed, rung.first())
    yield from _at_once(rung, *(Send("keywords.create", key, body=body) for body in (over, more, there)))
    created = created_by(answer.data) if answer.ok else None
    for keyword in (created or ())[:1]:
        yield from politely(Send("keywords.delete", key, path={"id": str(keyword.get("id"))}))
    rest = yield from _rest_of_briefs(rung)
    yield from _breath(reach, rung, "keyword_briefs")
    counts = (rest, 1, 500)
    sends = [Send("keyword_briefs.create", key, body=briefs_body(rung.domain, rung.words(n))) for n in counts]
    yield from politely(replace(sends[0], idempotency_key=rung.once()))
    yield from _at_once(rung, *sends[1:])
    yield from _rank_runs_used_up(reach, rung)


def _rest_of_briefs(rung: Rung) -> Generator[Any, Any, int]:
    """Return how many briefs to ask for: all that are left where that shows 4 before 6, else one."""
    usage = yield from _used(rung)
    left = replace(rung.key, reads={"account.usage": usage}).left("brief")
    near = rung.key.purpose == "near_limit" and rung.cools("keyword_briefs")
    return left if near and left is not None and 0 < left <= LEFT_OVER else 1


def _rank_runs_used_up(reach: Reach, rung: Rung) -> Program:
    """Use up what is left of an allowance of rank runs, if there is one, and ask again for the last."""
    if rung.key.purpose != "near_limit" or not rung.cools("rank_run"):
        return
    last: Send | None = None
    for _ in range(LEFT_OVER):
        where = yield from a_domain(reach, rung.seed, "ladder", rung.user, rung.new(), key=rung.key.name)
        send = Send("jobs.create", rung.key.name, body=job_body("rank_run", where or rung.domain))
        answer: Received = yield from politely(replace(send, idempotency_key=rung.once()))
        if id_of(answer):
            last, run = send, id_of(answer)
        elif answer.code == "quota_exhausted" and last is not None:
            yield from wait_for_job(reach, "rank_run", run, 60, rung.key.name, SECOND)
            yield from _at_once(rung, last)
            return


def _to_the_ceiling(reach: Reach, rung: Rung) -> Program:
    """Start jobs on new domains until something refuses, then every kind again: 3 before 4, 5 and 6."""
    if not steep(reach, rung.key):
        return
    kinds, reached = ["site_optimization", "ai_scan", "crawl"], False
    costs = [_cost((yield from _used(rung)))]
    for number in range(MOST_JOBS):
        spent, ceiling = costs[-1]
        if len(costs) > 1 and spent < ceiling <= 2 * spent - costs[-2][0]:  # another like the last
            yield from _breath(reach, rung, kinds[0])
        where = yield from a_domain(reach, rung.seed, "ladder", rung.user, rung.new(), key=rung.key.name)
        body = job_body(kinds[number % len(kinds)], where or rung.domain)
        send = Send("jobs.create", rung.key.name, body=body)
        answer = yield from _paced(reach, replace(send, idempotency_key=rung.once()))
        usage = yield from _used(rung)
        if answer.code == "entitlement_required" and len(kinds) > 1:
            kinds.remove(body["kind"])
        elif answer.code == "cost_cap_reached":
            if reached:
                break
            # A job that fails gives back what was reserved for it (U49).
            reached = True
            yield Pause(20 * SECOND // reach.target.time_scale)
        elif id_of(answer):
            costs.append(_cost(usage))
            if 0 < costs[-1][1] <= costs[-1][0]:  # the ceiling, while this cools
                yield from _at_once(rung, send)
        else:
            break
    # What has ended gives nothing back any more, so that what is spent stays spent.
    yield from politely(Send("jobs.list", rung.key.name, query={"limit": "200"}))
    yield from _used(rung)
    plain = yield from a_list(reach, rung.seed, rung.domain, "ladder-free", rung.user, key=rung.key.name)
    untracked = Send("keywords.create", rung.key.name, body=keywords_body(plain, rung.words()))
    over, _, briefs = _too_much(rung)
    few = [send for send in _one_by_one(rung) if send.operation in ("keyword_briefs.create", "scans.create")]
    for send in (untracked, over, *few, briefs):
        yield from _at_once(rung, send)
    for kind in KINDS:
        yield from _at_once(rung, Send("jobs.create", rung.key.name, body=job_body(kind, rung.domain)))


def _cost(usage: Mapping[str, Any]) -> tuple[int, int]:
    """Return what is spent and the ceiling by a reading of usage, µUSD; 0 for what it does not tell."""
    cost = usage.get("cost")
    if not isinstance(cost, Mapping):
        return 0, 0
    return spent_of(cost) or 0, micros_of(cost.get("ceiling")) or 0


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
