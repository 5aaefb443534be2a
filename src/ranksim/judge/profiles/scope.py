"""Keys where they do not belong: none, unknown ones, another environment, beyond the one domain."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ranksim.core.callers.requests import create, domain_body, job_body, named_body, webhook_body
from ranksim.core.callers.retry import politely
from ranksim.core.callers.steps import Lap, Pause, Program, Received, Send
from ranksim.core.callers.target import UNKNOWN
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND
from ranksim.judge.deployment.discovery import GRAPHQL, KeyReach, Reach
from ranksim.judge.profiles.fixtures import User, bodies, id_of, ids_of_keywords, send_creation
from ranksim.judge.profiles.graphql import over_graphql
from ranksim.judge.profiles.profile import Needs, Profile

EVERYWHERE = (
    *("domains.list", "keywords.list", "slots.get", "account.usage", "jobs.list", "webhooks.list"),
    *("webhook_deliveries.list", "webhook_events.list"),
    *("scans.list", "keyword_lists.list", "keyword_briefs.list"),
)

JOBS = ("ai_scan", "crawl", "rank_run", "site_optimization")

LISTS_OF_DOMAIN = tuple(name for name in EVERYWHERE if name.endswith(".list"))


def scope(me: User) -> Program:
    """Share the parts among the users, and go through them again every half minute."""
    parts = (_strangers, _environments, _scoped, _others, _kinds)
    first = me.number % len(parts)
    turn = 0
    while True:
        for part in parts[first :: me.users] if me.users < len(parts) else (parts[first],):
            yield from part(me, turn)
        turn += 1
        yield Lap()
        yield Pause(30 * SECOND)


def _strangers(me: User, turn: int) -> Program:
    """Call without a key, and with one that does not exist."""
    where = me.reach.keys[me.key].environment
    body = domain_body(f"{me.named('stranger', me.number, turn)}.example.com")
    for key in ("", UNKNOWN):
        for operation in EVERYWHERE:
            yield Send(operation, key, environment=where)
            yield Pause(50 * MILLISECOND)
        yield Send("domains.create", key, body=body, environment=where)
        yield Send("jobs.create", key, body=job_body("crawl", "any"), environment=where)


def _environments(me: User, turn: int) -> Program:
    """Use every key in every other environment, then where it belongs."""
    body = domain_body(f"{me.named('stray', me.number, turn)}.example.com")
    for key in me.reach.usable():
        for environment in me.reach.target.environments:
            if environment != key.environment:
                for operation in EVERYWHERE:
                    yield Send(operation, key.name, environment=environment)
                yield Send("domains.create", key.name, body=body, environment=environment)
        yield Send("domains.list", key.name, query={"limit": "1"})
        yield Pause(200 * MILLISECOND)


def _scoped(me: User, turn: int) -> Program:
    """Let domain-scoped keys read and create within their domain and beyond it."""
    scoped = me.reach.of("scoped")
    things = (yield from _beyond(me, turn)) if scoped else {}
    foreign = things.get("domains", "")
    for key in scoped:
        for noun, thing in things.items():
            if noun != "keyword_briefs":
                path = {"kind": "ai_scan", "id": thing} if noun == "jobs" else {"id": thing}
                yield from politely(Send(f"{noun}.get", key.name, path=path))
            yield from politely(Send(f"{noun}.list", key.name))
        for operation in (*LISTS_OF_DOMAIN, "slots.get", "account.usage", "account.get"):
            yield Send(operation, key.name)
        over = over_graphql(Send("domains.list", key.name, query={"limit": "200"}))
        if over is not None and me.reach.can(GRAPHQL):
            yield over
        for domain in dict.fromkeys((key.domain_id or "", foreign)):
            if domain:
                yield from _in_domain(me, key, domain, turn)
        if foreign:
            yield from _spend_beyond(me, key, foreign, things.get("keyword_lists", ""), turn)
        yield create("domains", key.name, domain_body(f"{me.named('scoped', me.number, turn)}.example.com"))
        yield from _endpoints(me, key, foreign)


def _beyond(me: User, turn: int) -> Generator[Any, Any, dict[str, str]]:
    """Make one thing of each kind in a domain that no scoped key is bound to; return their ids by noun."""
    parts = ("beyond", me.number, turn)
    domain = yield from me.domain(*parts)
    listed = yield from me.keyword_list(domain, *parts)
    things = {"domains": domain, "keyword_lists": listed}
    made = bodies(domain, listed, me.named(*parts), me.host(*parts), me.words(*parts))
    answer = yield from politely(create("keywords", me.key, made["keywords"]))
    things["keywords"] = next(iter(ids_of_keywords(answer)), "")
    for noun in ("labels", "competitors", "scans", "webhooks", "jobs", "keyword_briefs"):
        once = f"{me.named(*parts)}-{noun}"
        things[noun] = yield from send_creation(create(noun, me.key, made[noun], once))
    return {noun: thing for noun, thing in things.items() if thing}


def _spend_beyond(me: User, key: KeyReach, domain: str, listed: str, turn: int) -> Program:
    """Try to make something of each kind, and to start each kind of job, beyond a key's domain (S70)."""
    parts = ("trespass", me.number, turn)
    name = me.named(*parts)
    made = bodies(domain, listed, name, f"{name}.example.com", me.words(*parts))
    for noun, body in (
        *((noun, made[noun]) for noun in ("labels", "competitors", "scans", "keyword_briefs")),
        *(("jobs", job_body(kind, domain)) for kind in JOBS),
    ):
        once = f"{name}-{noun}.create-{body.get('kind', '')}"
        yield from politely(create(noun, key.name, body, once))


def _in_domain(me: User, key: KeyReach, domain: str, turn: int) -> Program:
    """Read a domain by its id and through filters; try to change one of ours, and to make things in it.

    In a key's own domain things are made only where it may be used.
    """
    yield Send("domains.get", key.name, path={"id": domain})
    for operation in ("keywords.list", "keyword_lists.list", "jobs.list", "scans.list"):
        yield Send(operation, key.name, query={"domain_id": domain})
    if not _free(me.reach, key, domain):
        return
    yield Send("domains.update", key.name, path={"id": me.to_change(domain)}, body={"path": None})
    yield create("jobs", key.name, job_body("crawl", domain, dry_run=True))
    body = named_body(domain, me.named("scope", me.number, turn))
    listed = id_of((yield create("keyword_lists", key.name, body)))
    if listed:
        word = {"list_id": listed, "keywords": me.words("scope", turn), "dry_run": True}
        yield create("keywords", key.name, word)
        yield Send("keyword_lists.delete", key.name, path={"id": listed})


def _free(reach: Reach, key: KeyReach, domain: str) -> bool:
    """Return whether a domain is ours or may be used: not that of a scoped key, which was there before."""
    return domain != key.domain_id or domain in reach.target.usable_domains


def _endpoints(me: User, key: KeyReach, foreign: str) -> Program:
    """Create endpoints for the account, the own domain and another one; take back what was made (S71)."""
    own = (key.domain_id,) if key.domain_id and _free(me.reach, key, key.domain_id) else ()
    for domain in (None, *own, foreign or None):
        body = webhook_body(f"https://receiver.example.com/{me.named('scope')}", [], domain)
        endpoint = id_of((yield create("webhooks", key.name, body)))
        if endpoint:
            yield from politely(Send("webhooks.delete", key.name, path={"id": endpoint}))


def _others(me: User, turn: int) -> Program:
    """Ask with each account's key for what belongs to another account: what is there, and what we made."""
    strangers = me.reach.of("other_account", "near_limit", "past_due")
    things = (yield from _apart(me, turn)) if strangers else {}
    for key in strangers:
        for noun, thing in things.items():
            yield from politely(Send(f"{noun}.get", key.name, path={"id": thing}))
        if "domains" in things:
            path = {"id": me.to_change(things["domains"])}
            yield from politely(Send("domains.update", key.name, path=path, body={"label": "another's"}))
    pairs = [(me.reach.keys[me.key], other) for other in strangers]
    for own, other in [*pairs, *((other, own) for own, other in pairs)]:
        for kind in ("domains", "keyword_lists", "scans", "webhooks"):
            for which in other.ids(f"{kind}.list")[:2]:
                yield Send(f"{kind}.get", own.name, path={"id": which})
        for kind in ("keywords", "jobs"):
            yield from _anothers(own, other, kind)
        yield Pause(200 * MILLISECOND)


def _anothers(own: KeyReach, other: KeyReach, noun: str) -> Program:
    """List what an account has, and ask for one of it with the key of another."""
    answer: Received = yield Send(f"{noun}.list", other.name, query={"limit": "1"})
    items = answer.data if answer.ok and isinstance(answer.data, list) else []
    for item in items[:1] if items and isinstance(items[0], dict) else ():
        path = {name: str(item.get(name, "")) for name in ("kind", "id") if noun == "jobs" or name == "id"}
        yield Send(f"{noun}.get", own.name, path=path)


def _apart(me: User, turn: int) -> Generator[Any, Any, dict[str, str]]:
    """Make things that cost nothing; return their ids by noun."""
    parts = ("apart", me.number, turn)
    domain, listed = yield from me.domain_with_list(*parts)
    things = {"domains": domain, "keyword_lists": listed}
    made = bodies(domain, listed, me.named(*parts), me.host(*parts))
    for noun in ("labels", "competitors", "webhooks"):
        things[noun] = yield from send_creation(
            create(noun, me.key, made[noun], f"{me.named(*parts)}-{noun}")
        )
    return {noun: thing for noun, thing in things.items() if thing}


def _kinds(me: User, turn: int) -> Program:
    """Start a job, and look for it under every kind (U44)."""
    domain = yield from me.domain("kinds", me.number)
    if not domain:
        return
    once = me.named("kinds", me.number, turn)
    job = yield from send_creation(create("jobs", me.key, job_body("ai_scan", domain), once))
    if job:
        for kind in JOBS:
            yield Send("jobs.get", me.key, path={"kind": kind, "id": job})
        yield from me.wait_for_job("ai_scan", job, 6)


def _needs(reach: Reach, users: int) -> Needs:
    scoped = len(reach.of("scoped"))
    jobs = 1 + (1 + len(JOBS) * scoped if scoped else 0)
    return Needs((-(-60 // users) + 2 * scoped) * SECOND, jobs, 2 * scoped, 2 * scoped, 4 + 10 * scoped)


SCOPE = Profile(
    name="scope",
    aim="Access: missing and unknown keys, the other environment, domain scope, other accounts.",
    rules=("access.", "job.wrong_kind"),
    users=5,
    duration=MINUTE,
    plays=scope,
    needs=_needs,
)
