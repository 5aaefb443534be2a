"""Walks through lists while others write: odd page sizes, cursors that do not fit, anchors that vanish."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ranksim.core.callers.manners import politely
from ranksim.core.callers.requests import keywords_body, label_body, list_body
from ranksim.core.callers.steps import Lap, Pause, Program, Received, Send
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND
from ranksim.core.contract.views import created_by
from ranksim.judge.deployment.discovery import GRAPHQL, Reach
from ranksim.judge.profiles.chance import Chance, chance
from ranksim.judge.profiles.graphql import cursor_after, nodes_in, over_graphql
from ranksim.judge.profiles.making import a_domain, id_of, named, to_change, words
from ranksim.judge.profiles.profile import Needs, Profile

LIMITS = ("7", "50", "53", "200", "13", "")
ODD_LIMITS = ("201", "1000", "0", "-1", "many", "1.5")
TURNS = 6
"""Turns of a user after which each list was walked through, each odd limit and each misuse tried."""

KEYWORDS = 240
"""Keywords that a walk goes through at first: two pages of the largest size."""


def walk(reach: Reach, user: int, users: int, seed: int) -> Program:
    """Let even users walk and odd users write; a single user does both by turns."""
    if not reach.main:
        return
    draw = chance("walk", seed, user)
    domain = yield from a_domain(reach, seed, "walk")
    lists = []
    for number in range(2):
        lists.append((yield from _list(reach, seed, domain, number)))
    yield from _fill(reach, seed, lists, user)
    walkers = max(1, (users + 1) // 2)
    turn = 0
    while True:
        turn += 1
        if user % 2 == 0:
            yield from _walks(reach, draw, domain, lists, turn, walkers)
            if turn % TURNS == 1 and domain and all(lists) and reach.can(GRAPHQL):
                goes = to_change(reach, domain) == domain
                yield from _connections(reach, {"domain_id": domain}, lists, goes=goes)
        if user % 2 == 1 or users == 1:
            yield from _write(reach, draw, seed, user, turn, lists, domain)
        if turn % TURNS == 0:
            yield Lap()


def _list(reach: Reach, seed: int, domain: str, number: int) -> Generator[Any, Any, str]:
    body = list_body(domain, named(seed, "walk", number))
    once = named(seed, "walk", "list", number)
    answer = yield from politely(Send("keyword_lists.create", reach.main, body=body, idempotency_key=once))
    return id_of(answer)


def _fill(reach: Reach, seed: int, lists: list[str], user: int) -> Program:
    """Put the first keywords in; one user's POSTs do it for all."""
    for number, listed in enumerate(lists):
        if listed and user == 0:
            count = KEYWORDS if number == 0 else KEYWORDS // 8
            body = keywords_body(listed, words(seed, "walk", number, count=count))
            once = named(seed, "walk", "fill", number)
            yield from politely(Send("keywords.create", reach.main, body=body, idempotency_key=once))


def _walks(reach: Reach, draw: Chance, domain: str, lists: list[str], turn: int, walkers: int) -> Program:
    """Walk one list whole, then try what must be refused."""
    filters = {"domain_id": domain} if domain else {}
    operation, query = (
        ("keywords.list", {"list_id": lists[0]} if lists[0] else filters),
        ("keywords.list", filters),
        ("domains.list", {}),
        ("labels.list", filters),
        ("webhooks.list", {}),
        ("keyword_lists.list", {}),
    )[turn % 6]
    ours = to_change(reach, domain) == domain
    pages = yield from _one_walk(reach, draw, operation, query, walkers, goes=ours)
    cursor = next((page for page in pages if page), "")
    if cursor:
        yield from _misuse(reach, operation, query, cursor, lists)
    yield Send(operation, reach.main, query={**query, "limit": ODD_LIMITS[turn % len(ODD_LIMITS)]})
    yield Pause(walkers * 300 * MILLISECOND)


def _one_walk(
    reach: Reach, draw: Chance, operation: str, query: dict[str, str], walkers: int, *, goes: bool
) -> Generator[Any, Any, list[str]]:
    """Walk to the end, sometimes with another limit midway; return cursors.

    Where something `goes`, the anchor is deleted sometimes.
    """
    limit, cursors, given = draw.choice(LIMITS), [], dict(query)
    for _ in range(60):
        page_query = {**given, "limit": limit} if limit else given
        answer: Received = yield from politely(Send(operation, reach.main, query=page_query))
        body = answer.body if isinstance(answer.body, dict) else {}
        cursor = body.get("next_cursor") if answer.ok else None
        if not isinstance(cursor, str):
            break
        cursors.append(cursor)
        given = {**query, "cursor": cursor}
        items = answer.data if isinstance(answer.data, list) else []
        if operation == "keywords.list" and items and draw.randrange(4) == 0 and goes:
            path = {"id": str(items[-1].get("id"))}
            yield from politely(Send("keywords.delete", reach.main, path=path))
        if draw.randrange(5) == 0:
            limit = draw.choice(LIMITS)
        yield Pause(walkers * 120 * MILLISECOND)
    return cursors


def _misuse(reach: Reach, operation: str, query: dict[str, str], cursor: str, lists: list[str]) -> Program:
    """Send a cursor where it does not belong: other filters, another list, another key, cut short."""
    wrong = {**query, "list_id": lists[1]} if operation == "keywords.list" else {**query, "domain_id": "none"}
    if wrong != query and operation != "domains.list":
        yield Send(operation, reach.main, query={**wrong, "cursor": cursor})
        yield Send(operation, reach.main, query={"cursor": cursor})
    other = "labels.list" if operation != "labels.list" else "domains.list"
    yield Send(other, reach.main, query={"cursor": cursor})
    yield Send(operation, reach.main, query={**query, "cursor": cursor[:-3]})
    yield Send(operation, reach.main, query={**query, "cursor": ""})
    for key in (*reach.of("other_account"), *reach.of("scoped"))[:2]:
        yield Send(operation, key.name, query={**query, "cursor": cursor})


def _connections(reach: Reach, every: dict[str, str], lists: list[str], *, goes: bool) -> Program:
    """Walk over GraphQL: while an item goes, where one may, by another filter, by pages of other sizes.

    A cursor of one filter is tried under another.
    """
    yield from _connected(reach, every, "100", goes=goes)
    cursors = yield from _connected(reach, {"list_id": lists[0]}, "200")
    for cursor in cursors[:1]:
        yield from _connected(reach, {"list_id": lists[1], "cursor": cursor}, "200", pages=1)
    yield from _connected(reach, every, "", pages=2)
    yield from _connected(reach, every, "50", pages=1)
    yield from _connected(reach, every, "200")


def _connected(
    reach: Reach, query: dict[str, str], limit: str, *, pages: int = 25, goes: bool = False
) -> Generator[Any, Any, list[str]]:
    """Walk keywords over GraphQL; delete the last item of the first page, where one goes; return cursors."""
    cursors, sized = [], {"limit": limit} if limit else {}
    page_variables = {**query, **sized}
    for _ in range(pages):
        send = over_graphql(Send("keywords.list", reach.main, query=page_variables))
        assert send is not None
        answer: Received = yield from politely(send)
        cursor = cursor_after(answer)
        if not cursor:
            break
        cursors.append(cursor)
        page_variables = {**query, **sized, "cursor": cursor}
        last = nodes_in(answer)[-1:] if goes and len(cursors) == 1 else []
        for item in last:
            yield from politely(Send("keywords.delete", reach.main, path={"id": str(item.get("id"))}))
        yield Pause(120 * MILLISECOND)
    return cursors


def _write(
    reach: Reach, draw: Chance, seed: int, user: int, turn: int, lists: list[str], domain: str
) -> Program:
    """Add keywords and labels, and take some away again."""
    listed = draw.choice([listed for listed in lists if listed] or [""])
    if listed:
        body = keywords_body(listed, words(seed, "walk", user, turn, count=3))
        answer: Received = yield from politely(Send("keywords.create", reach.main, body=body))
        created = created_by(answer.data)
        for keyword in created[:1] if created is not None and draw.randrange(2) else ():
            yield Pause(draw.randrange(2 * SECOND))
            yield from politely(Send("keywords.delete", reach.main, path={"id": str(keyword.get("id"))}))
    if domain and turn % 3 == 0:
        body = label_body(domain, named(seed, "walk", user, turn))
        answer = yield from politely(Send("labels.create", reach.main, body=body))
        if turn % 6 == 0 and id_of(answer):
            yield Send("labels.delete", reach.main, path={"id": id_of(answer)})
    yield Pause(2 * SECOND + draw.randrange(2 * SECOND))


WALK = Profile(
    name="walk",
    aim="Walks under concurrent writes: every item once, cursors bound to their query, page sizes.",
    rules=("paging.",),
    users=6,
    duration=3 * MINUTE,
    program=walk,
    needs=lambda reach, users: Needs(TURNS * 5 * SECOND),
)
