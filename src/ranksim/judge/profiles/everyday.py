"""Everyday traffic: customers who look at their rankings, change what is tracked and start work; and soak.

Soak sends calls at a constant rate, so that a slow deployment cannot hide its delay.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ranksim.core.callers.requests import briefs_body, create, job_body, keywords_body, named_body
from ranksim.core.callers.steps import Lap, Pause, Program, Received, Send, Until
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND
from ranksim.judge.deployment.discovery import GRAPHQL, Reach
from ranksim.judge.profiles.fixtures import Chance, User, has_ended, id_of, ids_of_keywords
from ranksim.judge.profiles.graphql import over_graphql
from ranksim.judge.profiles.profile import Needs, Profile, most_by_chance

READS = (
    *("domains.list", "keyword_lists.list", "keywords.list", "labels.list", "competitors.list"),
    *("scans.list", "slots.get", "jobs.list", "keyword_briefs.list", "positions.list", "positions.history"),
    *("account.get", "account.usage", "account.entitlements"),
    *("webhooks.list", "webhook_deliveries.list", "crawled_pages.list", "analyses.list"),
    *("ai_visibility.list", "ai_visibility.industries", "backlinks.list", "integrations.list"),
)
"""What can be read without knowing an id."""

KINDS = ("rank_run", "crawl", "site_optimization", "ai_scan")

TURNS = 100
"""Calls of a user after which hardly anything is left that was not chosen once."""

EVERY = 150 * MILLISECOND
"""Between two calls of all soaking users of a key together: 400 a minute, below the limit of reads (S102)."""

SOAK_TURNS = 60
"""Calls of a soaking user after which each kind of call was sent."""


@dataclass(slots=True)
class EverydayUser:
    """One user: what is theirs, the jobs they wait for, and what they found the deployment to lack."""

    me: User
    draw: Chance
    name: str
    domain: str = ""
    listed: str = ""
    scan: str = ""
    jobs: list[tuple[str, str]] = field(default_factory=list)
    keywords: list[str] = field(default_factory=list)
    absent: set[str] = field(default_factory=set)
    turn: int = 0

    def next(self) -> Send:
        """Choose what to do: of a hundred calls about seventy read, twenty write, ten spend."""
        self.turn += 1
        dice = self.draw.randrange(100)
        if self.jobs and dice < 15:
            kind, job = self.jobs[-1]
            return Send("jobs.get", self.me.key, path={"kind": kind, "id": job})
        if dice < 70 or not self.domain:
            return self._read()
        return self._write(dice) if dice < 90 else self._spend(dice)

    def saw(self, send: Send, answer: Received) -> None:
        """Learn from an answer."""
        if send.operation in READS and answer.status in (404, 405, 501):
            self.absent.add(send.operation)
        if send.surface != "rest":
            return
        if send.operation == "keywords.create":
            self.keywords += ids_of_keywords(answer)
        if send.operation == "jobs.create" and id_of(answer):
            self.jobs.append((str(answer.data.get("kind")), id_of(answer)))
        is_over = send.operation == "jobs.get" and (has_ended(answer.data) or answer.status == 404)
        if is_over and self.draw.randrange(2):
            self.jobs.pop()

    def _read(self) -> Send:
        choices = [name for name in READS if name not in self.absent and self.me.reach.can(name)]
        operation = self.draw.choice(choices or ["domains.list"])
        query = {"limit": str(self.draw.choice((1, 7, 50, 200)))} if operation.endswith(".list") else {}
        own = f"{self.name}-request-{self.turn}" if self.draw.randrange(4) == 0 else None
        return Send(operation, self.me.key, query=query, request_id=own)

    def _write(self, dice: int) -> Send:
        key, once = self.me.key, f"{self.name}-{self.turn}"
        if dice < 78 and self.listed:
            added = self.me.words(self.name, first=self.turn, count=self.draw.randint(1, 4))
            return create("keywords", key, keywords_body(self.listed, added), once)
        if dice < 80 and len(self.keywords) > 5:
            return Send("keywords.delete", key, path={"id": self.keywords.pop()})
        if dice < 82 and self.scan:
            active = self.draw.random() < 0.5
            return Send("scans.update", key, path={"id": self.scan}, body={"active": active})
        if dice < 86:
            return create("labels", key, named_body(self.domain, once), once)
        path = {"id": self.me.to_change(self.domain)}
        return Send("domains.update", key, path=path, body={"label": f"{once} label"})

    def _spend(self, dice: int) -> Send:
        key, once = self.me.key, f"{self.name}-{self.turn}"
        kind = self.draw.choice(KINDS)
        if dice < 94:
            return create("jobs", key, job_body(kind, self.domain, dry_run=True))
        if dice < 98:
            return create("jobs", key, job_body(kind, self.domain), once)
        keywords = self.me.words("brief", self.name, first=self.turn)
        return create("keyword_briefs", key, briefs_body(self.domain, keywords), once)


def everyday(me: User) -> Program:
    """Read often, write now and then, spend rarely; some of it over GraphQL."""
    draw = me.chance("everyday")
    yield Pause(draw.randrange(2 * SECOND))
    customer = EverydayUser(me, draw, me.named("day", me.number))
    customer.domain, customer.listed = yield from me.domain_with_list("day", me.number)
    if customer.listed:
        customer.scan = yield from me.scan(customer.domain, [customer.listed], customer.name)
    if me.number == 0 and customer.domain:
        yield from me.endpoint("200")
    while True:
        send = customer.next()
        if me.reach.can(GRAPHQL) and draw.randrange(5) == 0:
            send = over_graphql(send) or send
        answer: Received = yield send
        customer.saw(send, answer)
        thinking = 100 * MILLISECOND + draw.randrange(SECOND)
        yield Pause(thinking + (5 * SECOND if answer.status == 429 else 0))
        if customer.turn % TURNS == 0:
            yield Lap()


def _needs(reach: Reach, users: int) -> Needs:
    calls = TURNS * users
    slots = 4 * most_by_chance(calls, 8)
    return Needs(
        calls // users * 800 * MILLISECOND,
        most_by_chance(calls, 4),
        most_by_chance(calls, 2),
        slots,
        calls // 5,
    )


EVERYDAY = Profile(
    name="everyday",
    aim="Mixed everyday traffic: shapes, headers, and every rule under ordinary use.",
    rules=(
        *("access.accepted", "access.public", "header.", "error.", "resource.", "job."),
        *("cost.", "quota.", "slots.", "rate.headers", "rate.classes", "rate.remaining"),
    ),
    users=5,
    duration=2 * MINUTE,
    plays=everyday,
    needs=_needs,
    spreads=True,
)


def soak(me: User) -> Program:
    """Send each call when it is planned, or at once when that has passed; most of them read."""
    draw = me.chance("soak")
    domain = yield from me.domain("soak", me.number)
    reads = [name for name in READS if me.reach.can(name)] or ["domains.list"]
    now = yield Pause(0)
    between = EVERY // me.keys
    every = me.users * between
    planned = -(-(now + SECOND) // every) * every + me.number * between
    turn = 0
    while True:
        yield Until(planned)
        number = turn * me.users + me.number
        if domain and number % 8 == 0:
            path = {"id": me.to_change(domain)}
            send = Send("domains.update", me.key, path=path, body={"label": f"soak {number}"})
        elif domain and number % 60 == 1:
            send = create("jobs", me.key, job_body("ai_scan", domain, dry_run=True))
        else:
            send = Send(draw.choice(reads), me.key)
        send.planned = planned
        yield send
        planned += every
        turn += 1
        if turn % SOAK_TURNS == 0:
            yield Lap()


SOAK = Profile(
    name="soak",
    aim="A constant arrival rate below every limit: latency from the planned instant, and nothing refused.",
    rules=("rate.headers", "rate.remaining", "header."),
    users=10,
    duration=10 * MINUTE,
    plays=soak,
    needs=lambda reach, users: Needs(SOAK_TURNS * users * EVERY),
    spreads=True,
)
