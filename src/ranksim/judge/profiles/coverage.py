"""Breadth: each resource made, read, changed, walked through and removed; each POST repeated; each answer.

Other profiles go deep into what may go wrong together. This one comes once to each of the many cases that a
single fault may sit in: every operation, every kind of answer under an id of ours and from another origin.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ranksim.core.callers.requests import (
    create,
    domain_body,
    job_body,
    keywords_body,
    named_body,
)
from ranksim.core.callers.retry import politely
from ranksim.core.callers.steps import Pause, Program, Received, Send
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND
from ranksim.core.service.calls import Body
from ranksim.judge.deployment.discovery import GRAPHQL
from ranksim.judge.profiles.fixtures import (
    NARROW,
    WIDE,
    User,
    bodies,
    id_of,
    ids_of_keywords,
    send_creation,
)
from ranksim.judge.profiles.graphql import over_graphql
from ranksim.judge.profiles.profile import Claim, Needs, Profile

ORIGIN = "https://app.example.com"
"""The page that calls are made for, as a browser would say."""

ROOMY = 40
"""Slots free from which many are taken to see what multiplies them, and what is held."""

FRUGAL = 8
"""Slots that are taken where fewer are free."""

PAGES = 60
"""Pages of a walk at most."""

READS = (
    *("positions.list", "positions.history", "crawled_pages.list", "ai_visibility.list"),
    *("ai_visibility.industries", "backlinks.list", "integrations.list"),
)
"""What is read beside what is made."""

DRY = ("keywords", "scans", "jobs", "keyword_briefs")
"""What can be tried by a dry run."""


def breadth(me: User) -> Program:
    """Let one user go through resources, and one through answers and repeats; a single user does all."""
    if me.number == 0:
        yield from _resources(me)
    if me.number == min(1, me.users - 1):
        yield from _answers(me)
        yield from _repeats(me)


# Resources


def _resources(me: User) -> Program:
    """Go through every kind of resource within a domain of our own, domains last."""
    domain, listed = yield from me.domain_with_list("breadth")
    if not listed:
        return
    yield from _multiplied(me, domain)
    names = [me.named("breadth", number) for number in range(6)]
    hosts = [me.host("breadth", number) for number in range(6)]
    made = [bodies(domain, listed, name, host) for name, host in zip(names[:4], hosts[:4], strict=True)]
    renamed: list[Body] = [{"name": name} for name in names[4:]]
    changes_of: dict[str, list[Body]] = {
        "keyword_lists": renamed,
        "labels": renamed,
        "competitors": [{"host": host} for host in hosts[4:]],
        "scans": [renamed[0], {"active": False}, {"active": True}],
        "webhooks": [{"event_types": []}, {"event_types": ["job.completed"]}],
        "domains": [{"label": name} for name in names[4:]],
    }
    for noun, changes in changes_of.items():
        filters = {} if noun in ("webhooks", "domains") else {"domain_id": domain}
        yield from _each(me, noun, [body[noun] for body in made], changes, filters)
    yield from _keywords(me, domain, listed)
    for noun in ("jobs", "keyword_briefs"):
        yield from _walked(me, noun, {}, ())
        yield from politely(Send(f"{noun}.list", me.key, query={"limit": "200"}))
    for operation in READS:
        if me.reach.can(operation):
            yield from politely(Send(operation, me.key))
    analyses: Received = yield from politely(Send("analyses.list", me.key))
    items = analyses.data if isinstance(analyses.data, list) else []
    for item in items[:1]:
        path = {"id": str(item.get("id")) if isinstance(item, dict) else "none"}
        yield from politely(Send("analyses.findings", me.key, path=path))


def _each(
    me: User, noun: str, new: Sequence[Body], changes: Sequence[Body], filters: dict[str, str]
) -> Program:
    """Make some, read and change one, walk through them while one goes, and look for what is gone."""
    made = []
    for number, body in enumerate(new):
        # A lost call that spends must be resolved, or nobody knows what its account has used.
        once = me.named("breadth", noun, number) if noun == "scans" else None
        made.append(id_of((yield from _identified(me, create(noun, me.key, body, once)))))
    made = [made_id for made_id in made if made_id]
    if not made:
        return
    path = {"id": made[0]}
    read = Send(f"{noun}.get", me.key, path=path)
    yield from _identified(me, read)
    for body in changes:
        yield from _identified(me, Send(f"{noun}.update", me.key, path=path, body=body))
        yield from politely(read)
    back = over_graphql(Send(f"{noun}.update", me.key, path=path, body=dict(changes[0])))
    if back is not None and me.reach.can(GRAPHQL):
        yield from politely(back)
        yield from politely(read)
    yield from politely(Send(f"{noun}.list", me.key, query=filters))
    deleted = yield from _walked(me, noun, filters, made)
    yield from politely(Send(f"{noun}.list", me.key, query={**filters, "limit": "200"}))
    path = {"id": next(made_id for made_id in reversed(made) if made_id != deleted or len(made) == 1)}
    yield from _identified(me, Send(f"{noun}.delete", me.key, path=path))
    yield from _identified(me, replace(read, path=path))
    for made_id in made if noun == "scans" else ():  # of which a plan may have few
        if made_id not in (deleted, path["id"]):
            yield from politely(Send("scans.delete", me.key, path={"id": made_id}))


def _multiplied(me: User, domain: str) -> Program:
    """Track two words on two pairings in two places; remove one, then the scan, and do both again.

    What takes slots, what is held and what a hold pays for is read after each step (S23, S25-S27, U63, U94).
    """
    key, name = me.key, me.named("breadth", "multiplied")
    room = me.reach.keys[key].room()
    if room is not None and room < ROOMY:
        yield from _frugally(me, domain, room)
        return
    listed = yield from me.keyword_list(domain, name)
    if not listed:
        return
    tracked = partial(me.scan, domain, shape=WIDE)
    slots = Send("slots.get", key)
    two = me.words("breadth", "multiplied", count=2)

    def removed(noun: str, thing: str) -> Program:
        if thing:
            yield from politely(Send(f"{noun}.delete", key, path={"id": thing}))
            yield from politely(slots)

    scan = yield from tracked([listed], name)
    yield from politely(slots)
    answer = yield from politely(create("keywords", key, keywords_body(listed, two), f"{name}-words"))
    yield from politely(slots)
    made = ids_of_keywords(answer)
    for thing in made[:1]:
        yield from removed("keywords", thing)
        yield from politely(create("keywords", key, keywords_body(listed, two[:1]), f"{name}-back"))
        yield from politely(slots)
    yield from removed("scans", scan)
    scan = yield from tracked([listed], f"{name}-again")
    yield from politely(slots)
    beside = yield from me.scan(domain, [listed], f"{name}-beside")
    yield from politely(slots)
    for which in (beside, scan):
        yield from removed("scans", which)
    second = yield from me.keyword_list(domain, f"{name}-second")
    if second and made:
        yield from politely(create("keywords", key, keywords_body(second, two[:1]), f"{name}-both"))
        yield from politely(slots)
        scan = yield from tracked([listed, second], f"{name}-both")
        yield from politely(slots)
        yield from removed("scans", scan)
    yield from _taken_away(me)


def _frugally(me: User, domain: str, room: int) -> Program:
    """Track two words on two pairings, and one in two places, as far as there is room; and remove it."""
    key, slots = me.key, Send("slots.get", me.key)
    for shape, count in (((WIDE[0], NARROW[1]), 2), ((NARROW[0], WIDE[1]), 1)):
        name = me.named("breadth", "frugal", count)
        room -= 2 * count
        listed = "" if room < 0 else (yield from me.keyword_list(domain, name))
        scan = (yield from me.scan(domain, [listed], name, shape)) if listed else ""
        if not scan:
            continue
        words = keywords_body(listed, me.words("breadth", "frugal", count, count=count))
        yield from politely(slots)
        answer = yield from politely(create("keywords", key, words, f"{name}-words"))
        yield from politely(slots)
        removals = [("keywords", thing) for thing in ids_of_keywords(answer)[1:]]
        for noun, thing in (*removals, ("scans", scan)):
            yield from politely(Send(f"{noun}.delete", key, path={"id": thing}))
            yield from politely(slots)
    if room >= 2:
        yield from _taken_away(me)


def _taken_away(me: User) -> Program:
    """Track a word of each of two lists; remove one list, then the domain."""
    slots, domain = Send("slots.get", me.key), (yield from me.domain("breadth", "away"))
    listed = ""
    for part in ("one", "two") if domain else ():
        name = me.named("breadth", "away", part)
        listed = yield from me.keyword_list(domain, name)
        scan = (yield from me.scan(domain, [listed], name)) if listed else ""
        if not scan:
            return
        words = keywords_body(listed, me.words("breadth", "away", part))
        yield from politely(create("keywords", me.key, words, f"{name}-words"))
        yield from politely(slots)
        removed = ("keyword_lists", listed) if part == "one" else ("domains", me.to_change(domain))
        yield from politely(Send(f"{removed[0]}.delete", me.key, path={"id": removed[1]}))
        yield from politely(slots)


def _walked(me: User, noun: str, filters: Mapping[str, str], made: Sequence[str]) -> Generator[Any, Any, str]:
    """Walk by small pages, and remove one of ours once a page has shown it; return which."""
    deleted, limit = "", "1" if filters else "5"
    query = dict(filters)
    for _ in range(PAGES):
        answer: Received = yield from politely(Send(f"{noun}.list", me.key, query={**query, "limit": limit}))
        if answer.cursor is None:
            break
        items = answer.data if isinstance(answer.data, list) else []
        page = [item.get("id") for item in items if isinstance(item, dict)]
        ours = [made_id for made_id in made if made_id in page]
        if ours and not deleted:
            deleted = ours[0]
            yield from politely(Send(f"{noun}.delete", me.key, path={"id": deleted}))
        query = {**filters, "cursor": answer.cursor}
    return deleted


def _keywords(me: User, domain: str, listed: str) -> Program:
    """Add keywords, read one, and put labels on it and off again."""
    body, once = keywords_body(listed, me.words("breadth", count=3)), me.named("breadth", "keywords")
    answer = yield from _identified(me, create("keywords", me.key, body, once))
    label = yield from send_creation(create("labels", me.key, named_body(domain, me.named("on"))))
    for keyword in ids_of_keywords(answer)[:1]:
        path = {"id": keyword}
        yield from politely(Send("keywords.get", me.key, path=path))
        for labels in ([label] if label else [], []):
            yield from _identified(me, Send("keywords.update", me.key, path=path, body={"label_ids": labels}))
            yield from politely(Send("keywords.get", me.key, path=path))


def _identified(me: User, send: Send) -> Generator[Any, Any, Received]:
    """Send under an id of ours, for a page of another origin."""
    return politely(replace(send, request_id=me.named("request", send.operation), origin=ORIGIN))


# Answers


def _answers(me: User) -> Program:
    """Have each kind of answer once, and ask as browsers do before they call."""
    key, where = me.key, me.reach.keys[me.key].environment
    for operation in ("domains.list", "domains.create", "domains.update"):
        yield Send(operation, "", path={"id": "any"}, surface="preflight", origin=ORIGIN, environment=where)
    domain, listed = yield from me.domain_with_list("answers")
    dry = {**keywords_body(listed if domain else "none", me.words("answers")), "dry_run": True}
    crawl = create("jobs", key, job_body("crawl", domain or "none"))
    overs = over_graphql(Send("domains.list", key)) if me.reach.can(GRAPHQL) else None
    for send in (
        Send("account.get", key),
        create("keywords", key, dry),
        replace(crawl, idempotency_key=me.named("answers", "crawl")),
        crawl,  # refused by its cooldown, unless the plan refuses both
        Send("labels.create", key, raw=b"{"),
        create("labels", key, {}),
        Send("labels.get", key, path={"id": "none"}),
        Send("account.get", "", environment=where),
        *([] if overs is None else [overs]),
    ):
        yield from _identified(me, send)
        yield Pause(200 * MILLISECOND)
    for host in ("answers-a", "answers-b"):
        yield from politely(create("domains", key, domain_body(me.host(host)), me.named("answers", "once")))


# Repeats


def _repeats(me: User) -> Program:
    """Repeat each POST that can be dry, dry, then for real; and a test event, then with another body."""
    domain, listed = yield from me.domain_with_list("repeats")
    if not listed:
        return
    for noun in DRY:
        name, once = me.named("repeat", noun), me.named("repeat", noun, "dry")
        body = bodies(domain, listed, name, me.host("repeat"), me.words("repeat"))[noun]
        dry = create(noun, me.key, {**body, "dry_run": True}, once)
        for again in (dry, dry, replace(dry, body=body)):
            yield from politely(again)
    endpoint = yield from me.endpoint("201", types=("job.failed",))
    if endpoint:
        once = me.named("repeat", "test")
        test = Send("webhooks.test", me.key, path={"id": endpoint}, idempotency_key=once)
        for note in (None, None, {"note": "another"}):
            yield from politely(replace(test, body=note))


BREADTH = Profile(
    name="breadth",
    aim="Each resource made, read, changed, walked and removed; each POST repeated; each kind of answer.",
    rules=(
        *("resource.", "header.", "error.", "rate.headers", "rate.classes"),
        *("idempotency.once", "idempotency.replay", "idempotency.mismatch"),
    ),
    users=2,
    duration=2 * MINUTE,
    plays=breadth,
    needs=lambda reach, users: Needs(
        (36 if users == 1 else 22) * SECOND, jobs=3, briefs=1, slots=90, expensive=30
    ),
    ends=True,
    claim=Claim(briefs=1, slots=FRUGAL),
)
