"""Breadth: each resource made, read, changed, walked through and removed; each POST repeated; each answer.

Other profiles go deep into what may go wrong together. This one comes once to each of the many cases that a
single fault may sit in: every operation, every kind of answer under an id of ours and from another origin.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from ranksim.core.callers.steps import Pause, Program, Received, Send
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND
from ranksim.core.contract.views import created_by
from ranksim.core.service.calls import Body
from ranksim.judge.deployment.discovery import GRAPHQL, Reach
from ranksim.judge.profiles.graphql import over_graphql
from ranksim.judge.profiles.making import (
    a_domain,
    a_host,
    a_list,
    a_scan,
    an_endpoint,
    id_of,
    meet,
    named,
    words,
)
from ranksim.judge.profiles.profile import Needs, Profile

ORIGIN = "https://app.example.com"
"""The page that calls are made for, as a browser would say."""

MEETING = 3 * SECOND
"""Between two instants at which two users send the same POST."""

MULTIPLIED = 10
"""Slots of two words on two pairings in two places, and of the same on one in one by a second scan."""

PAGES = 60
"""Pages of a walk at most."""

REPEATED = (
    *("domains", "keyword_lists", "keywords", "labels", "competitors"),
    *("scans", "jobs", "keyword_briefs", "webhooks"),
)
"""What is made by a POST that is repeated; test events are repeated beside."""

DRY = ("keywords", "scans", "jobs", "keyword_briefs")
"""What can be tried by a dry run."""


def breadth(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Let one user go through resources, and one through answers and repeats; a single user does all."""
    if not reach.main:
        return
    if user == 0:
        yield from _resources(reach, seed)
    if user == min(1, users - 1):
        yield from _answers(reach, seed)
        yield from _repeats(reach, seed)


# Resources


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource: its noun, bodies that make some, bodies that change one, and a list's filter."""

    noun: str
    made: Sequence[Body]
    changed: Sequence[Body]
    listed: dict[str, str]


def _resources(reach: Reach, seed: int) -> Program:
    """Go through every kind of resource within a domain of our own, domains last."""
    domain = yield from a_domain(reach, seed, "breadth")
    listed = (yield from a_list(reach, seed, domain, "breadth")) if domain else ""
    if not listed:
        return
    yield from _multiplied(reach, seed, domain)
    for kind in _kinds(seed, domain, listed):
        yield from _each(reach, seed, kind)
    yield from _keywords(reach, seed, domain, listed)
    for noun in ("jobs", "keyword_briefs"):
        yield from _walked(reach, Kind(noun, (), (), {}), ())
        yield from politely(Send(f"{noun}.list", reach.main, query={"limit": "200"}))
    analyses: Received = yield from politely(Send("analyses.list", reach.main))
    items = analyses.data if isinstance(analyses.data, list) else []
    for item in items[:1]:
        path = {"id": str(item.get("id")) if isinstance(item, dict) else "none"}
        yield from politely(Send("analyses.findings", reach.main, path=path))


def _kinds(seed: int, domain: str, listed: str) -> Sequence[Kind]:
    names = [named(seed, "breadth", number) for number in range(6)]
    hosts = [a_host(seed, "breadth", number) for number in range(6)]
    of_domain = {"domain_id": domain}
    urls = [f"https://receiver.example.com/{name}" for name in names]
    return (
        Kind(
            "keyword_lists",
            [list_body(domain, name) for name in names[:4]],
            [{"name": name} for name in names[4:]],
            of_domain,
        ),
        Kind(
            "labels",
            [label_body(domain, name) for name in names[:4]],
            [{"name": name} for name in names[4:]],
            of_domain,
        ),
        Kind(
            "competitors",
            [competitor_body(domain, host) for host in hosts[:4]],
            [{"host": host} for host in hosts[4:]],
            of_domain,
        ),
        Kind(
            "scans",
            [scan_body(domain, [listed], name) for name in names[:4]],
            [{"name": names[4]}, {"active": False}, {"active": True}],
            of_domain,
        ),
        Kind(
            "webhooks",
            [webhook_body(url, ["job.failed"], domain) for url in urls[:4]],
            [{"event_types": []}, {"event_types": ["job.completed"]}],
            {},
        ),
        Kind(
            "domains", [domain_body(host) for host in hosts[:4]], [{"label": name} for name in names[4:]], {}
        ),
    )


def _each(reach: Reach, seed: int, kind: Kind) -> Program:
    """Make some, read and change one, walk through them while one goes, and look for what is gone."""
    noun, key, made = kind.noun, reach.main, list[str]()
    for number, body in enumerate(kind.made):
        # A lost call that spends must be resolved, or nobody knows what its account has used.
        once = named(seed, "breadth", noun, number) if noun == "scans" else None
        send = Send(f"{noun}.create", key, body=body, idempotency_key=once)
        made.append(id_of((yield from _identified(seed, send))))
    made = [made_id for made_id in made if made_id]
    if not made:
        return
    path = {"id": made[0]}
    yield from _identified(seed, Send(f"{noun}.get", key, path=path))
    for body in kind.changed:
        yield from _identified(seed, Send(f"{noun}.update", key, path=path, body=body))
        yield from politely(Send(f"{noun}.get", key, path=path))
    back = over_graphql(Send(f"{noun}.update", key, path=path, body=dict(kind.changed[0])))
    if back is not None and reach.can(GRAPHQL):
        yield from politely(back)
        yield from politely(Send(f"{noun}.get", key, path=path))
    yield from politely(Send(f"{noun}.list", key, query=kind.listed))
    deleted = yield from _walked(reach, kind, made)
    yield from politely(Send(f"{noun}.list", key, query={**kind.listed, "limit": "200"}))
    path = {"id": next(made_id for made_id in reversed(made) if made_id != deleted or len(made) == 1)}
    yield from _identified(seed, Send(f"{noun}.delete", key, path=path))
    yield from _identified(seed, Send(f"{noun}.get", key, path=path))


def _multiplied(reach: Reach, seed: int, domain: str) -> Program:
    """Track two words on two pairings in two places; remove one, then the scan, and do both again.

    What takes slots, what is held and what a hold pays for is read after each step (S23, S25-S27, U63, U94).
    """
    key, name = reach.main, named(seed, "breadth", "multiplied")
    room = reach.keys[key].room()
    listed = "" if room is not None and room < MULTIPLIED else (yield from a_list(reach, seed, domain, name))
    if not listed:
        return
    pairs = [{"engine": "google", "device": device} for device in ("desktop", "mobile")]
    places = [{"country": country} for country in ("DE", "AT")]
    tracked = partial(a_scan, reach, domain, engine_devices=pairs, geographies=places)
    scan = yield from tracked([listed], name)
    two = words(seed, "breadth", "multiplied", count=2)
    yield from politely(Send("slots.get", key))
    body = keywords_body(listed, two)
    answer = yield from politely(Send("keywords.create", key, body=body, idempotency_key=f"{name}-words"))
    yield from politely(Send("slots.get", key))
    made = [thing for thing in created_by(answer.data) or () if isinstance(thing, dict)] if answer.ok else []
    for thing in made[:1]:
        yield from _remove(key, "keywords.delete", str(thing.get("id")))
        back = Send("keywords.create", key, body=keywords_body(listed, two[:1]))
        yield from politely(replace(back, idempotency_key=f"{name}-back"))
        yield from politely(Send("slots.get", key))
    yield from _remove(key, "scans.delete", scan)
    scan = yield from tracked([listed], f"{name}-again")
    yield from politely(Send("slots.get", key))
    beside = yield from a_scan(reach, domain, [listed], f"{name}-beside")
    yield from politely(Send("slots.get", key))
    for which in (beside, scan):
        yield from _remove(key, "scans.delete", which)
    second = yield from a_list(reach, seed, domain, f"{name}-second")
    if second and made:
        both = Send("keywords.create", key, body=keywords_body(second, two[:1]))
        yield from politely(replace(both, idempotency_key=f"{name}-both"))
        yield from politely(Send("slots.get", key))
        scan = yield from tracked([listed, second], f"{name}-both")
        yield from politely(Send("slots.get", key))
        yield from _remove(key, "scans.delete", scan)


def _remove(key: str, operation: str, thing: str) -> Program:
    """Remove something that was made, and read the slots."""
    if thing:
        yield from politely(Send(operation, key, path={"id": thing}))
        yield from politely(Send("slots.get", key))


def _walked(reach: Reach, kind: Kind, made: Sequence[str]) -> Generator[Any, Any, str]:
    """Walk by small pages, and remove one of ours once a page has shown it; return which."""
    deleted, limit = "", "1" if kind.listed else "5"
    query, operation = dict(kind.listed), f"{kind.noun}.list"
    for _ in range(PAGES):
        answer: Received = yield from politely(Send(operation, reach.main, query={**query, "limit": limit}))
        cursor = answer.body.get("next_cursor") if isinstance(answer.body, dict) else None
        if not answer.ok or not isinstance(cursor, str):
            break
        items = answer.data if isinstance(answer.data, list) else []
        listed_ids = [
            made_id
            for made_id in made
            if any(isinstance(item, dict) and item.get("id") == made_id for item in items)
        ]
        if listed_ids and not deleted:
            deleted = listed_ids[0]
            yield from politely(Send(f"{kind.noun}.delete", reach.main, path={"id": deleted}))
        query = {**kind.listed, "cursor": cursor}
    return deleted


def _keywords(reach: Reach, seed: int, domain: str, listed: str) -> Program:
    """Add keywords, read one, and put labels on it and off again."""
    key = reach.main
    body = keywords_body(listed, words(seed, "breadth", count=3))
    once = named(seed, "breadth", "keywords")
    answer: Received = yield from _identified(
        seed, Send("keywords.create", key, body=body, idempotency_key=once)
    )
    created = [item for item in created_by(answer.data) or () if isinstance(item, dict)] if answer.ok else []
    label = id_of(
        (yield from politely(Send("labels.create", key, body=label_body(domain, named(seed, "on")))))
    )
    for keyword in created[:1]:
        path = {"id": str(keyword.get("id"))}
        yield from politely(Send("keywords.get", key, path=path))
        for labels in ([label] if label else [], []):
            yield from _identified(seed, Send("keywords.update", key, path=path, body={"label_ids": labels}))
            yield from politely(Send("keywords.get", key, path=path))


def _identified(seed: int, send: Send) -> Generator[Any, Any, Received]:
    """Send under an id of ours, for a page of another origin."""
    answer: Received = yield from politely(
        replace(send, request_id=named(seed, "request", send.operation), origin=ORIGIN)
    )
    return answer


# Answers


def _answers(reach: Reach, seed: int) -> Program:
    """Have each kind of answer once, and ask as browsers do before they call."""
    key, where = reach.main, reach.keys[reach.main].environment
    for operation in ("domains.list", "domains.create", "domains.update"):
        asking = Send(
            operation, "", path={"id": "any"}, surface="preflight", origin=ORIGIN, environment=where
        )
        yield asking
    domain = yield from a_domain(reach, seed, "answers")
    listed = (yield from a_list(reach, seed, domain, "answers")) if domain else "none"
    dry = {**keywords_body(listed, words(seed, "answers")), "dry_run": True}
    crawl = Send("jobs.create", key, body=job_body("crawl", domain or "none"))
    overs = over_graphql(Send("domains.list", key)) if reach.can(GRAPHQL) else None
    for send in (
        Send("account.get", key),
        Send("keywords.create", key, body=dry),
        replace(crawl, idempotency_key=named(seed, "answers", "crawl")),
        crawl,  # refused by its cooldown, unless the plan refuses both
        Send("labels.create", key, raw=b"{"),
        Send("labels.create", key, body={}),
        Send("labels.get", key, path={"id": "none"}),
        Send("account.get", "", environment=where),
        *([] if overs is None else [overs]),
    ):
        yield from _identified(seed, send)
        yield Pause(200 * MILLISECOND)
    once = named(seed, "answers", "once")
    for host in ("answers-a", "answers-b"):
        body = domain_body(a_host(seed, host))
        yield from politely(Send("domains.create", key, body=body, idempotency_key=once))


# Repeats


def _repeats(reach: Reach, seed: int) -> Program:
    """Repeat each POST as it is, then with another body; and what can be dry, dry, then for real."""
    domain = yield from a_domain(reach, seed, "repeats")
    listed = (yield from a_list(reach, seed, domain, "repeats")) if domain else ""
    if not listed:
        return
    for noun in REPEATED:
        once = named(seed, "repeat", noun)
        send = Send(f"{noun}.create", reach.main, idempotency_key=once)
        body = _body(noun, seed, domain, listed, "one")
        for variant in (body, body, _body(noun, seed, domain, listed, "other")):
            yield from politely(replace(send, body=variant))
        if noun in DRY:
            dry = replace(send, idempotency_key=f"{once}-dry", body={**body, "dry_run": True})
            for again in (dry, dry, replace(dry, body=body)):
                yield from politely(again)
        yield Pause(SECOND)
    yield from _test_events(reach, named(seed, "repeat", "test"))


def _test_events(reach: Reach, once: str) -> Program:
    endpoint = yield from an_endpoint(reach, "201", types=("job.failed",))
    if endpoint:
        test = Send("webhooks.test", reach.main, path={"id": endpoint}, idempotency_key=once)
        for body in (None, None, {"note": "another"}):
            yield from politely(replace(test, body=body))


def _body(noun: str, seed: int, domain: str, listed: str, name: str) -> Body:
    """Return a body that makes something of a kind, told from others by a name."""
    text = named(seed, "repeat", noun, name)
    host = a_host(seed, "repeat", noun, name)
    match noun:
        case "domains":
            return domain_body(host)
        case "keyword_lists":
            return list_body(domain, text)
        case "keywords":
            return keywords_body(listed, words(seed, "repeat", name))
        case "labels":
            return label_body(domain, text)
        case "competitors":
            return competitor_body(domain, host)
        case "scans":
            return scan_body(domain, [listed], text)
        case "jobs":
            return job_body("crawl" if name == "other" else "ai_scan", domain)
        case "keyword_briefs":
            return briefs_body(domain, words(seed, "repeat", name))
    return webhook_body(f"https://receiver.example.com/{text}", ["job.failed"], domain)


def twins(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Send each POST at the instant at which the other user sends it, and once more."""
    if not reach.main or user > 1:
        return
    domain = yield from a_domain(reach, seed, "twins")
    listed = (yield from a_list(reach, seed, domain, "twins")) if domain else ""
    if not listed:
        return
    for _ in REPEATED:
        instant = yield from meet(MEETING, SECOND // 2)
        noun = REPEATED[instant // MEETING % len(REPEATED)]  # by the instant, lest one is behind the other
        send = Send(f"{noun}.create", reach.main, idempotency_key=named(seed, "twins", noun, instant))
        send.body = _body(noun, seed, domain, listed, f"twins-{instant // MEETING}")
        yield send
        yield Pause(SECOND)
        yield from politely(send)


def _needs(reach: Reach, users: int) -> Needs:
    return Needs(60 * SECOND if users == 1 else 40 * SECOND, jobs=5, briefs=4, slots=96)


BREADTH = Profile(
    name="breadth",
    aim="Each resource made, read, changed, walked and removed; each POST repeated; each kind of answer.",
    rules=(
        "resource.",
        "header.",
        "error.",
        "rate.headers",
        "rate.classes",
        "idempotency.once",
        "idempotency.replay",
        "idempotency.mismatch",
    ),
    users=2,
    duration=2 * MINUTE,
    program=breadth,
    needs=_needs,
    ends=True,
)

TWINS = Profile(
    name="twins",
    aim="Each POST sent twice at one instant under one Idempotency-Key: its work is done once.",
    rules=("idempotency.once", "idempotency.in_flight"),
    users=2,
    duration=MINUTE,
    program=twins,
    # where each of the four sendings does the work
    needs=lambda reach, users: Needs(len(REPEATED) * MEETING + 5 * SECOND, jobs=4, briefs=4, slots=16),
    ends=True,
)
