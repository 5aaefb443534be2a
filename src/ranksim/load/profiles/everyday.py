"""Mixed everyday traffic: customers who look at their rankings, change what is tracked and start work."""

from __future__ import annotations

from random import Random

from ranksim.clock import MILLISECOND, MINUTE, SECOND
from ranksim.load.profiles.graphql import over_graphql
from ranksim.load.profiles.making import a_domain, a_list, a_scan, an_endpoint, chance, named, words
from ranksim.load.profiles.profile import Profile
from ranksim.load.reach import GRAPHQL, Reach
from ranksim.load.steps import Pause, Program, Received, Send

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

KINDS = ("rank_run", "crawl", "site_optimization", "ai_scan")


def everyday(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Read often, write now and then, spend rarely; some of it over GraphQL."""
    draw = chance("everyday", seed, user)
    yield Pause(draw.randrange(2 * SECOND))
    if not reach.main:
        return
    domain = yield from a_domain(reach, seed, "day", user)
    listed = (yield from a_list(reach, seed, domain, "day", user)) if domain else ""
    scan = (yield from a_scan(reach, domain, [listed], named(seed, "day", user))) if listed else ""
    if user == 0 and domain:
        yield from an_endpoint(reach, "200")
    absent: set[str] = set()
    turn = 0
    while True:
        turn += 1
        send = _next(reach, draw, seed, user, turn, domain, listed, scan, absent)
        if reach.can(GRAPHQL) and draw.randrange(5) == 0:
            send = over_graphql(send) or send
        answer: Received = yield send
        if answer.status in (404, 405, 501) and send.operation in READS:
            absent.add(send.operation)
        yield Pause(_think(draw, answer))


def _think(draw: Random, answer: Received) -> int:
    """Think for a while; longer after a refusal of the rate limit."""
    pause = 100 * MILLISECOND + draw.randrange(SECOND)
    return pause + 5 * SECOND if answer.status == 429 else pause


def _request_id(draw: Random, seed: int, user: int, turn: int) -> str | None:
    """Send an X-Request-Id of our own now and then (S107)."""
    return named(seed, "request", user, turn) if draw.randrange(4) == 0 else None


def _next(
    reach: Reach,
    draw: Random,
    seed: int,
    user: int,
    turn: int,
    domain: str,
    listed: str,
    scan: str,
    absent: set[str],
) -> Send:
    """Choose what to do next: of a hundred calls about seventy read, twenty write, ten spend."""
    key, dice = reach.main, draw.randrange(100)
    if dice < 70 or not domain:
        choices = [name for name in READS if name not in absent and reach.can(name)] or ["domains.list"]
        operation = draw.choice(choices)
        query = {"limit": str(draw.choice((1, 7, 50, 200)))} if operation.endswith(".list") else {}
        return Send(operation, key, query=query, request_id=_request_id(draw, seed, user, turn))
    once = named(seed, "day", user, turn)
    if dice < 78 and listed:
        body = {"list_id": listed, "keywords": words(seed, user, first=turn, count=draw.randint(1, 4))}
        return Send("keywords.create", key, body=body, idempotency_key=once)
    if dice < 84:
        return Send("domains.update", key, path={"id": domain}, body={"label": f"{once} label"})
    if dice < 88 and scan:
        return Send("scans.update", key, path={"id": scan}, body={"active": draw.random() < 0.5})
    if dice < 90:
        return Send("labels.create", key, body={"domain_id": domain, "name": once}, idempotency_key=once)
    kind = draw.choice(KINDS)
    if dice < 95:
        return Send("jobs.create", key, body={"kind": kind, "domain_id": domain, "dry_run": True})
    if dice < 98:
        return Send("jobs.create", key, body={"kind": kind, "domain_id": domain}, idempotency_key=once)
    body = {"domain_id": domain, "keywords": words(seed, "brief", user, first=turn)}
    return Send("keyword_briefs.create", key, body=body, idempotency_key=once)


EVERYDAY = Profile(
    name="everyday",
    aim="Mixed everyday traffic: shapes, headers, and every rule under ordinary use.",
    rules=(),
    users=5,
    duration=2 * MINUTE,
    program=everyday,
)
