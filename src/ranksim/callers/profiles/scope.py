"""Keys where they do not belong: none, unknown ones, another environment, beyond the one domain."""

from __future__ import annotations

from ranksim.callers.discovery import KeyReach, Reach
from ranksim.callers.manners import politely
from ranksim.callers.profiles.making import an_old_domain, id_of, named, wait_for_job, words
from ranksim.callers.profiles.profile import Needs, Profile
from ranksim.callers.requests import domain_body, job_body, list_body, webhook_body
from ranksim.callers.steps import Lap, Pause, Program, Send
from ranksim.callers.target import UNKNOWN
from ranksim.clock import MILLISECOND, MINUTE, SECOND

EVERYWHERE = (
    "domains.list",
    "keywords.list",
    "slots.get",
    "account.usage",
    "jobs.list",
    "webhooks.list",
    "webhook_deliveries.list",
    "webhook_events.list",
    "scans.list",
    "keyword_lists.list",
    "keyword_briefs.list",
)

LISTS_OF_DOMAIN = tuple(name for name in EVERYWHERE if name.endswith(".list"))


def scope(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Share the parts among the users, and go through them again every half minute."""
    if not reach.main:
        return
    parts = (_strangers, _environments, _scoped, _others, _kinds)
    turn = 0
    while True:
        for part in parts[user % len(parts) :: users] if users < len(parts) else (parts[user % len(parts)],):
            yield from part(reach, seed, user, turn)
        turn += 1
        yield Lap()
        yield Pause(30 * SECOND)


def _strangers(reach: Reach, seed: int, user: int, turn: int) -> Program:
    """Call without a key, and with one that does not exist."""
    where = reach.keys[reach.main].environment
    body = domain_body(f"{named(seed, 'stranger', user, turn)}.example.com")
    for key in ("", UNKNOWN):
        for operation in EVERYWHERE:
            yield Send(operation, key, environment=where)
            yield Pause(50 * MILLISECOND)
        yield Send("domains.create", key, body=body, environment=where)
        yield Send("jobs.create", key, body=job_body("crawl", "any"), environment=where)


def _environments(reach: Reach, seed: int, user: int, turn: int) -> Program:
    """Use every key in every other environment, then where it belongs."""
    for key in reach.usable():
        for environment in reach.target.environments:
            if environment != key.environment:
                for operation in EVERYWHERE:
                    yield Send(operation, key.name, environment=environment)
                body = domain_body(f"{named(seed, 'stray', user, turn)}.example.com")
                yield Send("domains.create", key.name, body=body, environment=environment)
        yield Send("domains.list", key.name, query={"limit": "1"})
        yield Pause(200 * MILLISECOND)


def _scoped(reach: Reach, seed: int, user: int, turn: int) -> Program:
    """Let domain-scoped keys read and create within their domain and beyond it."""
    beyond = an_old_domain(reach)
    for key in reach.of("scoped"):
        others = [one for one in reach.keys[reach.main].ids("domains.list") if one != key.domain_id]
        foreign = others[0] if others else beyond
        for operation in (*LISTS_OF_DOMAIN, "slots.get", "account.usage", "account.get"):
            yield Send(operation, key.name)
        for domain in dict.fromkeys((key.domain_id or "", foreign)):
            if domain:
                yield from _in_domain(key, domain, seed, user, turn)
        body = domain_body(f"{named(seed, 'scoped', user, turn)}.example.com")
        yield Send("domains.create", key.name, body=body)
        yield from _endpoints(key, foreign, seed)


def _in_domain(key: KeyReach, domain: str, seed: int, user: int, turn: int) -> Program:
    """Read a domain by its id and through filters, and try to change it."""
    yield Send("domains.get", key.name, path={"id": domain})
    yield Send("domains.update", key.name, path={"id": domain}, body={"path": None})
    for operation in ("keywords.list", "keyword_lists.list", "jobs.list", "scans.list"):
        yield Send(operation, key.name, query={"domain_id": domain})
    yield Send("jobs.create", key.name, body=job_body("crawl", domain, dry_run=True))
    body = list_body(domain, named(seed, "scope", user, turn))
    made = yield Send("keyword_lists.create", key.name, body=body)
    if id_of(made):
        word = {"list_id": id_of(made), "keywords": words(seed, "scope", turn), "dry_run": True}
        yield Send("keywords.create", key.name, body=word)
        yield Send("keyword_lists.delete", key.name, path={"id": id_of(made)})


def _endpoints(key: KeyReach, foreign: str, seed: int) -> Program:
    """Create endpoints for the account, the own domain and another one; take back what was made (S71)."""
    for domain in (None, key.domain_id, foreign or None):
        body = webhook_body(f"https://receiver.example.com/{named(seed, 'scope')}", [], domain)
        made = yield Send("webhooks.create", key.name, body=body)
        if id_of(made):
            yield from politely(Send("webhooks.delete", key.name, path={"id": id_of(made)}))


def _others(reach: Reach, seed: int, user: int, turn: int) -> Program:
    """Ask with each account's key for what belongs to another account."""
    strangers = reach.of("other_account", "near_limit", "past_due")
    pairs = [(reach.keys[reach.main], other) for other in strangers]
    for mine, other in [*pairs, *((other, mine) for mine, other in pairs)]:
        for kind in ("domains", "keyword_lists", "scans", "webhooks"):
            for which in other.ids(f"{kind}.list")[:2]:
                yield Send(f"{kind}.get", mine.name, path={"id": which})
        yield Pause(200 * MILLISECOND)


def _kinds(reach: Reach, seed: int, user: int, turn: int) -> Program:
    """Start a job, and look for it under every kind (U44)."""
    domain = an_old_domain(reach)
    if not domain:
        return
    body = job_body("ai_scan", domain)
    once = named(seed, "kinds", user, turn)
    job = id_of((yield from politely(Send("jobs.create", reach.main, body=body, idempotency_key=once))))
    for kind in ("ai_scan", "crawl", "rank_run", "site_optimization"):
        if job:
            yield Send("jobs.get", reach.main, path={"kind": kind, "id": job})
    if job:
        yield from wait_for_job(reach, "ai_scan", job, 6)


SCOPE = Profile(
    name="scope",
    aim="Access: missing and unknown keys, the other environment, domain scope, other accounts.",
    rules=("access.", "job.wrong_kind"),
    users=5,
    duration=MINUTE,
    program=scope,
    needs=lambda reach, users: Needs(-(-60 // users) * SECOND, jobs=1),
)
