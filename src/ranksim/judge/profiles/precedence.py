"""What the ladder and the climb to the cost ceiling share: where a key climbs, and how it tries things."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ranksim.core.callers.requests import briefs_body, create, job_body, keywords_body, scan_body
from ranksim.core.callers.retry import politely
from ranksim.core.callers.steps import Lap, Pause, Program, Received, Send
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND
from ranksim.core.service.calls import Body
from ranksim.judge.deployment.discovery import KeyReach, Reach
from ranksim.judge.profiles.fixtures import NARROW, WIDE, Shape, User, used_domain

KINDS = ("site_optimization", "rank_run", "crawl", "ai_scan")
"""Kinds of jobs. What a plan may lack comes before and after what none lacks: it shows that a key may ask."""

MOST_WORDS = 9_000
"""Keywords in one call that shall be too many."""

ROOMY = 40
"""Slots free from which a scan may take four a word."""

EXPENSIVE = 20
"""Calls of the expensive class a minute (S104)."""

BREATH = 4 * MINUTE // (EXPENSIVE - 2)
"""Time in which a pace of expensive calls leaves room for four at once."""

LAST = ("scoped", "other_account", "other_environment")
"""Purposes of keys that climb after the others."""

SPARE = 3
"""Calls that a window still admits, down to which there is no need to wait."""


@dataclass(slots=True)
class Rung:
    """Where a user climbs with one key: its domain, a list, the scan that covers it."""

    me: User
    key: KeyReach
    domain: str
    listed: str
    scan: str = ""
    taken: int = 0

    def new(self) -> int:
        """Return a number that was not used before."""
        self.taken += 1
        return self.taken

    def anew(self, send: Send) -> Send:
        """Return a call under an Idempotency-Key that was not used before."""
        once = self.me.named("ladder", self.me.number, self.key.name, self.new())
        return replace(send, idempotency_key=once)

    def create(self, noun: str, body: Body) -> Send:
        """Return the call that creates a resource with this key."""
        return create(noun, self.key.name, body)

    def shape(self) -> Shape:
        """Return the pairings and places of a scan: two of each where there is room for it."""
        room = self.key.room()
        return NARROW if room is not None and room < ROOMY else WIDE

    def too_many(self) -> int:
        """Return more keywords than there are slots free, as far as that is known."""
        room = self.key.room()
        return MOST_WORDS if room is None else min(room + 1, MOST_WORDS)

    def first(self) -> list[str]:
        """Return the first keyword of the list, which is there from the first climb on."""
        return self.me.words("ladder", self.key.name, "first")

    def words(self, count: int = 1) -> list[str]:
        """Return keywords that were not used before."""
        return self.me.words("ladder", self.key.name, self.new(), count=count)


def climbers(reach: Reach) -> list[KeyReach]:
    """Return the keys to climb with, the most telling first: of each account one for each purpose."""
    climbing: dict[tuple[str, str, str], KeyReach] = {}
    for key in reach.usable():
        if key.purpose != "second":
            climbing.setdefault((key.environment, key.account or key.name, key.purpose), key)
    return sorted(climbing.values(), key=lambda key: key.purpose in LAST)


def begin(me: User, keys: list[KeyReach]) -> Generator[Any, Any, list[Rung]]:
    """Prepare the user's share of the keys to climb with; where that is none, read what is used meanwhile.

    Reads go on whatever is refused (S67).
    """
    rungs = []
    for key in keys[me.number :: me.users]:
        rungs.append((yield from _prepared(me, key)))
    for _ in () if rungs else range(600):
        for operation in ("account.usage", "slots.get", "keyword_briefs.list"):
            if me.reach.can(operation):
                yield Send(operation, me.key)
        yield Lap()
        yield Pause(5 * SECOND)
    return rungs


def _prepared(me: User, key: KeyReach) -> Generator[Any, Any, Rung]:
    """Make a domain, a list, and a scan that covers it, as far as the account may.

    An account past due may make no scan. Where one of its domains may be used, a list that is there is taken.
    """
    used = used_domain(me.reach, key.name) if key.purpose == "past_due" else ""
    lists = [listing["id"] for listing in key.items("keyword_lists.list") if listing.get("domain_id") == used]
    if lists:
        return Rung(me, key, used, str(lists[0]))
    domain, listed = yield from me.domain_with_list("ladder", me.number, key=key.name)
    name, scan = me.named("ladder", me.number), ""
    if listed:
        scan = yield from me.scan(domain, [listed], name, key=key.name)
    return Rung(me, key, domain or "none", listed or "none", scan)


def one_by_one(rung: Rung) -> Iterator[Send]:
    """Every operation with the least that it can ask for."""
    for kind in KINDS:
        yield rung.create("jobs", job_body(kind, rung.domain))
    yield rung.create("keyword_briefs", briefs_body(rung.domain, rung.words()))
    yield rung.create("keywords", keywords_body(rung.listed, rung.first()))
    name = rung.me.named("ladder-more", rung.me.number)
    yield rung.create("scans", scan_body(rung.domain, [rung.listed], name, *rung.shape()))


def too_much(rung: Rung) -> Iterator[Send]:
    """Asks beyond one limit each: the slots, the plan's dimensions, the weekly allowance."""
    yield rung.create("keywords", keywords_body(rung.listed, rung.words(rung.too_many())))
    many = [{"engine": f"engine{number}", "device": "desktop"} for number in range(40)]
    name = rung.me.named("ladder-wide", rung.me.number)
    yield rung.create("scans", scan_body(rung.domain, [rung.listed], name, many))
    left = rung.key.left("brief")
    beyond = 500 if left is None else min(left + 1, MOST_WORDS)
    yield rung.create("keyword_briefs", briefs_body(rung.domain, rung.words(beyond)))


def spend_of(send: Send) -> str:
    """Return which of the seven operations that spend a call is (S51), by the name that plans have for it."""
    noun = send.operation.partition(".")[0]
    return str((send.body or {}).get("kind")) if noun == "jobs" else noun


def dry(send: Send) -> Send:
    """Return the dry run of a call."""
    return replace(send, body={**(send.body or {}), "dry_run": True})


def at_once(rung: Rung, *sends: Send) -> Program:
    """Send each for real and dry, right behind each other, and read what is used."""
    yield from read_used(rung.key)
    for send in sends:
        yield from promptly(rung.anew(send))
        yield from promptly(dry(send))
    yield from read_used(rung.key)


def promptly(send: Send) -> Generator[Any, Any, Received]:
    """Send as politely as ever, but take a cooldown for an answer, whatever its status is (U23)."""
    asking, answer = politely(send), None
    while True:
        try:
            step = asking.send(answer)
        except StopIteration as end:
            last: Received = end.value
            return last
        answer = yield step
        if isinstance(answer, Received) and answer.code == "cooldown_active":
            return answer


def at_a_pace(rung: Rung, send: Send) -> Generator[Any, Any, Received]:
    """Send, and keep a pace that the rate limit of expensive calls admits, once few of them are left."""
    answer: Received = yield from promptly(send)
    left = answer.header("ratelimit-remaining")
    many = left.isascii() and left.isdigit() and int(left) > SPARE
    slow = send.operation in ("jobs.create", "keyword_briefs.create") and not many
    scale = rung.me.reach.target.traffic_scale
    yield Pause((MINUTE // (EXPENSIVE - 2) if slow else 600 * MILLISECOND) // scale)
    return answer


def read_used(key: KeyReach) -> Generator[Any, Any, KeyReach]:
    """Read what is used, where a key may; return the key with that as what was read."""
    reads: dict[str, Any] = {}
    for operation in ("account.usage", "slots.get"):
        if operation not in key.lacks:
            answer: Received = yield from politely(Send(operation, key.name))
            reads[operation] = answer.data
    return replace(key, reads=reads)


def read_on(rung: Rung) -> Program:
    """Read on after the refusals (S61, S67, E13)."""
    for operation in ("domains.list", "keywords.list", "keyword_briefs.list", "jobs.list", "positions.list"):
        yield from politely(Send(operation, rung.key.name))
