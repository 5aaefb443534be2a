"""Keys where they do not belong: none, unknown ones, another environment, beyond the one domain."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from ranksim.core.callers.manners import politely
from ranksim.core.callers.requests import (
    briefs_body,
    competitor_body,
    domain_body,
    job_body,
    keywords_body,
    label_body,
    list_body,
    scan_body,
    webhook_body,
)
from ranksim.core.callers.steps import Lap, Pause, Program, Received, Send
from ranksim.core.callers.target import UNKNOWN
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND
from ranksim.core.contract.views import created_by
from ranksim.judge.deployment.discovery import GRAPHQL, KeyReach, Reach
from ranksim.judge.profiles.graphql import over_graphql
from ranksim.judge.profiles.making import (
    a_domain,
    a_host,
    a_list,
    id_of,
    named,
    to_change,
    wait_for_job,
    words,
)
from ranksim.judge.profiles.profile import Needs, Profile

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

JOBS = ("ai_scan", "crawl", "rank_run", "site_optimization")

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
    scoped = reach.of("scoped")
    things = (yield from _beyond(reach, seed, user, turn)) if scoped else {}
    foreign = things.get("domains", "")
    for key in scoped:
        for noun, thing in things.items():
            yield from _foreign(key, noun, thing)
        for operation in (*LISTS_OF_DOMAIN, "slots.get", "account.usage", "account.get"):
            yield Send(operation, key.name)
        over = over_graphql(Send("domains.list", key.name, query={"limit": "200"}))
        if over is not None and reach.can(GRAPHQL):
            yield over
        for domain in dict.fromkeys((key.domain_id or "", foreign)):
            if domain:
                yield from _in_domain(reach, key, domain, seed, user, turn)
        if foreign:
            yield from _spend_beyond(key, foreign, things.get("keyword_lists", ""), seed, user, turn)
        body = domain_body(f"{named(seed, 'scoped', user, turn)}.example.com")
        yield Send("domains.create", key.name, body=body)
        yield from _endpoints(reach, key, foreign, seed)


def _beyond(reach: Reach, seed: int, user: int, turn: int) -> Generator[Any, Any, dict[str, str]]:
    """Make one thing of each kind in a domain that no scoped key is bound to; return their ids by noun."""
    key, name = reach.main, named(seed, "beyond", user, turn)
    domain = yield from a_domain(reach, seed, "beyond", user, turn)
    listed = yield from a_list(reach, seed, domain, "beyond", user, turn)
    things = {"domains": domain, "keyword_lists": listed}
    added = Send("keywords.create", key, body=keywords_body(listed, words(seed, "beyond", user, turn)))
    answer: Received = yield from politely(added)
    created = created_by(answer.data) if answer.ok else None
    if created and isinstance(created[0], Mapping):
        things["keywords"] = str(created[0].get("id"))
    for noun, body in (
        ("labels", label_body(domain, name)),
        ("competitors", competitor_body(domain, a_host(seed, "beyond", user, turn))),
        ("scans", scan_body(domain, [listed], name)),
        ("webhooks", webhook_body(f"https://receiver.example.com/{name}", ["job.failed"], domain)),
        ("jobs", job_body("ai_scan", domain)),
        ("keyword_briefs", briefs_body(domain, words(seed, "beyond", user, turn))),
    ):
        once = f"{name}-{noun}"
        made = yield from politely(Send(f"{noun}.create", key, body=body, idempotency_key=once))
        things[noun] = id_of(made)
    return {noun: thing for noun, thing in things.items() if thing}


def _foreign(key: KeyReach, noun: str, thing: str) -> Program:
    """Ask for a thing beyond a key's domain, by its id and in the list of its kind."""
    if noun == "jobs":
        yield from politely(Send("jobs.get", key.name, path={"kind": "ai_scan", "id": thing}))
    elif noun != "keyword_briefs":
        yield from politely(Send(f"{noun}.get", key.name, path={"id": thing}))
    yield from politely(Send(f"{noun}.list", key.name))


def _spend_beyond(key: KeyReach, domain: str, listed: str, seed: int, user: int, turn: int) -> Program:
    """Try to make something of each kind, and to start each kind of job, beyond a key's domain (S70)."""
    name = named(seed, "trespass", user, turn)
    for operation, body in (
        ("labels.create", label_body(domain, name)),
        ("competitors.create", competitor_body(domain, f"{name}.example.com")),
        ("scans.create", scan_body(domain, [listed], name)),
        ("keyword_briefs.create", briefs_body(domain, words(seed, "trespass", user, turn))),
        *(("jobs.create", job_body(kind, domain)) for kind in JOBS),
    ):
        once = f"{name}-{operation}-{body.get('kind', '')}"
        yield from politely(Send(operation, key.name, body=body, idempotency_key=once))


def _in_domain(reach: Reach, key: KeyReach, domain: str, seed: int, user: int, turn: int) -> Program:
    """Read a domain by its id and through filters; try to change one of ours, and to make things in it.

    In a key's own domain things are made only where it may be used.
    """
    yield Send("domains.get", key.name, path={"id": domain})
    for operation in ("keywords.list", "keyword_lists.list", "jobs.list", "scans.list"):
        yield Send(operation, key.name, query={"domain_id": domain})
    if not _free(reach, key, domain):
        return
    yield Send("domains.update", key.name, path={"id": to_change(reach, domain)}, body={"path": None})
    yield Send("jobs.create", key.name, body=job_body("crawl", domain, dry_run=True))
    body = list_body(domain, named(seed, "scope", user, turn))
    made = yield Send("keyword_lists.create", key.name, body=body)
    if id_of(made):
        word = {"list_id": id_of(made), "keywords": words(seed, "scope", turn), "dry_run": True}
        yield Send("keywords.create", key.name, body=word)
        yield Send("keyword_lists.delete", key.name, path={"id": id_of(made)})


def _free(reach: Reach, key: KeyReach, domain: str) -> bool:
    """Return whether a domain is ours or may be used: not that of a scoped key, which was there before."""
    return domain != key.domain_id or domain in reach.target.usable_domains


def _endpoints(reach: Reach, key: KeyReach, foreign: str, seed: int) -> Program:
    """Create endpoints for the account, the own domain and another one; take back what was made (S71)."""
    own = (key.domain_id,) if key.domain_id and _free(reach, key, key.domain_id) else ()
    for domain in (None, *own, foreign or None):
        body = webhook_body(f"https://receiver.example.com/{named(seed, 'scope')}", [], domain)
        made = yield Send("webhooks.create", key.name, body=body)
        if id_of(made):
            yield from politely(Send("webhooks.delete", key.name, path={"id": id_of(made)}))


def _others(reach: Reach, seed: int, user: int, turn: int) -> Program:
    """Ask with each account's key for what belongs to another account."""
    strangers = reach.of("other_account", "near_limit", "past_due")
    pairs = [(reach.keys[reach.main], other) for other in strangers]
    for own, other in [*pairs, *((other, own) for own, other in pairs)]:
        for kind in ("domains", "keyword_lists", "scans", "webhooks"):
            for which in other.ids(f"{kind}.list")[:2]:
                yield Send(f"{kind}.get", own.name, path={"id": which})
        yield Pause(200 * MILLISECOND)


def _kinds(reach: Reach, seed: int, user: int, turn: int) -> Program:
    """Start a job, and look for it under every kind (U44)."""
    domain = yield from a_domain(reach, seed, "kinds", user)
    if not domain:
        return
    body = job_body("ai_scan", domain)
    once = named(seed, "kinds", user, turn)
    job = id_of((yield from politely(Send("jobs.create", reach.main, body=body, idempotency_key=once))))
    for kind in JOBS:
        if job:
            yield Send("jobs.get", reach.main, path={"kind": kind, "id": job})
    if job:
        yield from wait_for_job(reach, "ai_scan", job, 6)


def _needs(reach: Reach, users: int) -> Needs:
    scoped = len(reach.of("scoped"))
    jobs = 1 + (1 + len(JOBS) * scoped if scoped else 0)
    return Needs((-(-60 // users) + 2 * scoped) * SECOND, jobs, 2 * scoped, 2 * scoped)


SCOPE = Profile(
    name="scope",
    aim="Access: missing and unknown keys, the other environment, domain scope, other accounts.",
    rules=("access.", "job.wrong_kind"),
    users=5,
    duration=MINUTE,
    program=scope,
    needs=_needs,
)
