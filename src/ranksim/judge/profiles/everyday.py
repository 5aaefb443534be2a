"""Mixed everyday traffic: customers who look at their rankings, change what is tracked and start work."""

from __future__ import annotations

from dataclasses import dataclass, field

from ranksim.core.callers.requests import briefs_body, job_body, keywords_body, label_body
from ranksim.core.callers.steps import Lap, Pause, Program, Received, Send
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND, Micros
from ranksim.core.contract.views import created_by
from ranksim.judge.deployment.discovery import GRAPHQL, Reach
from ranksim.judge.profiles.chance import Chance, chance
from ranksim.judge.profiles.graphql import over_graphql
from ranksim.judge.profiles.making import (
    a_domain,
    a_list,
    a_scan,
    an_endpoint,
    id_of,
    named,
    over,
    to_change,
    words,
)
from ranksim.judge.profiles.profile import Needs, Profile, drawn

READS = (
    "domains.list",
    "keyword_lists.list",
    "keywords.list",
    "labels.list",
    "competitors.list",
    "scans.list",
    "slots.get",
    "jobs.list",
    "keyword_briefs.list",
    "positions.list",
    "positions.history",
    "account.get",
    "account.usage",
    "account.entitlements",
    "webhooks.list",
    "webhook_deliveries.list",
    "crawled_pages.list",
    "analyses.list",
    "ai_visibility.list",
    "ai_visibility.industries",
    "backlinks.list",
    "integrations.list",
)
"""What can be read without knowing an id."""

KINDS = ("rank_run", "crawl", "site_optimization", "ai_scan")

TURNS = 100
"""Calls of a user after which hardly anything is left that was not chosen once."""


@dataclass(slots=True)
class EverydayUser:
    """One user: what is theirs, the jobs they wait for, and what they found the deployment to lack."""

    reach: Reach
    draw: Chance
    name: str
    seed: int
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
            return Send("jobs.get", self.reach.main, path={"kind": kind, "id": job})
        if dice < 70 or not self.domain:
            return self._read()
        return self._write(dice) if dice < 90 else self._spend(dice)

    def saw(self, send: Send, answer: Received) -> None:
        """Learn from an answer."""
        if send.operation in READS and answer.status in (404, 405, 501):
            self.absent.add(send.operation)
        if send.surface != "rest":
            return
        created = created_by(answer.data) if send.operation == "keywords.create" else None
        for keyword in created or ():
            if isinstance(keyword, dict) and "id" in keyword:
                self.keywords.append(str(keyword["id"]))
        if send.operation == "jobs.create" and id_of(answer):
            self.jobs.append((str(answer.data.get("kind")), id_of(answer)))
        if send.operation == "jobs.get" and (over(answer) or answer.status == 404) and self.draw.randrange(2):
            self.jobs.pop()

    def _read(self) -> Send:
        choices = [name for name in READS if name not in self.absent and self.reach.can(name)]
        operation = self.draw.choice(choices or ["domains.list"])
        query = {"limit": str(self.draw.choice((1, 7, 50, 200)))} if operation.endswith(".list") else {}
        own = f"{self.name}-request-{self.turn}" if self.draw.randrange(4) == 0 else None
        return Send(operation, self.reach.main, query=query, request_id=own)

    def _write(self, dice: int) -> Send:
        key, once = self.reach.main, f"{self.name}-{self.turn}"
        if dice < 78 and self.listed:
            added = words(self.seed, self.name, first=self.turn, count=self.draw.randint(1, 4))
            body = keywords_body(self.listed, added)
            return Send("keywords.create", key, body=body, idempotency_key=once)
        if dice < 80 and len(self.keywords) > 5:
            return Send("keywords.delete", key, path={"id": self.keywords.pop()})
        if dice < 82 and self.scan:
            active = self.draw.random() < 0.5
            return Send("scans.update", key, path={"id": self.scan}, body={"active": active})
        if dice < 86:
            body = label_body(self.domain, once)
            return Send("labels.create", key, body=body, idempotency_key=once)
        path = {"id": to_change(self.reach, self.domain)}
        return Send("domains.update", key, path=path, body={"label": f"{once} label"})

    def _spend(self, dice: int) -> Send:
        key, once = self.reach.main, f"{self.name}-{self.turn}"
        kind = self.draw.choice(KINDS)
        if dice < 94:
            body = job_body(kind, self.domain, dry_run=True)
            return Send("jobs.create", key, body=body)
        if dice < 98:
            body = job_body(kind, self.domain)
            return Send("jobs.create", key, body=body, idempotency_key=once)
        keywords = words(self.seed, "brief", self.name, first=self.turn)
        body = briefs_body(self.domain, keywords)
        return Send("keyword_briefs.create", key, body=body, idempotency_key=once)


def everyday(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Read often, write now and then, spend rarely; some of it over GraphQL."""
    draw = chance("everyday", seed, user)
    yield Pause(draw.randrange(2 * SECOND))
    if not reach.main:
        return
    me = EverydayUser(reach, draw, named(seed, "day", user), seed)
    me.domain = yield from a_domain(reach, seed, "day", user)
    if me.domain:
        me.listed = yield from a_list(reach, seed, me.domain, "day", user)
    if me.listed:
        me.scan = yield from a_scan(reach, me.domain, [me.listed], me.name)
    if user == 0 and me.domain:
        yield from an_endpoint(reach, "200")
    while True:
        send = me.next()
        if reach.can(GRAPHQL) and draw.randrange(5) == 0:
            send = over_graphql(send) or send
        answer: Received = yield send
        me.saw(send, answer)
        yield Pause(_think(draw, answer))
        if me.turn % TURNS == 0:
            yield Lap()


def _think(draw: Chance, answer: Received) -> Micros:
    """Think for a while; longer after a refusal of the rate limit."""
    pause = 100 * MILLISECOND + draw.randrange(SECOND)
    return pause + 5 * SECOND if answer.status == 429 else pause


def _needs(reach: Reach, users: int) -> Needs:
    calls = TURNS * users
    slots = 4 * drawn(calls, 8)
    return Needs(calls // users * 800 * MILLISECOND, drawn(calls, 4), drawn(calls, 2), slots)


EVERYDAY = Profile(
    name="everyday",
    aim="Mixed everyday traffic: shapes, headers, and every rule under ordinary use.",
    rules=(
        "access.accepted",
        "access.public",
        "header.",
        "error.",
        "resource.",
        "job.",
        "cost.",
        "quota.",
        "slots.",
        "rate.headers",
        "rate.classes",
        "rate.remaining",
    ),
    users=5,
    duration=2 * MINUTE,
    program=everyday,
    needs=_needs,
)
