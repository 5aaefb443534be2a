"""Walks through lists while others write: odd page sizes, cursors that do not fit, anchors that vanish."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ranksim.core.callers.requests import create, keywords_body, named_body
from ranksim.core.callers.retry import politely
from ranksim.core.callers.steps import Lap, Pause, Program, Received, Send
from ranksim.core.clock import MILLISECOND, MINUTE, SECOND
from ranksim.core.contract.views import created_by
from ranksim.judge.deployment.discovery import GRAPHQL
from ranksim.judge.profiles.fixtures import Chance, User, ids_of_keywords, send_creation
from ranksim.judge.profiles.graphql import cursor_after, nodes_in, over_graphql
from ranksim.judge.profiles.profile import Needs, Profile

LARGEST = "200"
LIMITS = ("7", "50", "53", LARGEST, "13", "")
ODD_LIMITS = ("201", "1000", "0", "-1", "many", "1.5")
TURNS = 6
"""Turns of a user after which each list was walked through, each odd limit and each misuse tried."""

KEYWORDS = 240
"""Keywords that a walk goes through at first: two pages of the largest size."""


def walk(me: User) -> Program:
    """Let even users walk and odd users write; a single user does both by turns."""
    draw = me.chance("walk")
    domain = yield from me.domain("walk")
    lists = []
    for number in range(2):
        body, once = named_body(domain, me.named("walk", number)), me.named("walk", "list", number)
        lists.append((yield from send_creation(create("keyword_lists", me.key, body, once))))
    for number, listed in enumerate(lists):
        if listed and me.number == 0:  # one user's POSTs fill them for all
            count = KEYWORDS if number == 0 else KEYWORDS // 8
            body = keywords_body(listed, me.words("walk", number, count=count))
            yield from politely(create("keywords", me.key, body, me.named("walk", "fill", number)))
    walkers = max(1, (me.users + 1) // 2)
    turn = 0
    while True:
        turn += 1
        if me.number % 2 == 0:
            yield from _walks(me, draw, domain, lists, turn, walkers)
            if turn % TURNS == 1 and domain and all(lists) and me.reach.can(GRAPHQL):
                goes = me.to_change(domain) == domain
                yield from _connections(me, {"domain_id": domain}, lists, goes=goes)
        if me.number % 2 == 1 or me.users == 1:
            yield from _write(me, draw, turn, lists, domain)
        if turn % TURNS == 0:
            yield Lap()


def _walks(me: User, draw: Chance, domain: str, lists: list[str], turn: int, walkers: int) -> Program:
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
    ours = me.to_change(domain) == domain
    first = LARGEST if turn == TURNS + 1 else ""  # once, of a list that has more
    pages = yield from _one_walk(me, draw, operation, query, walkers, first, goes=ours)
    cursor = next((page for page in pages if page), "")
    if cursor:
        yield from _misuse(me, operation, query, cursor, lists)
    yield Send(operation, me.key, query={**query, "limit": ODD_LIMITS[turn % len(ODD_LIMITS)]})
    yield Pause(walkers * 300 * MILLISECOND)


def _one_walk(
    me: User, draw: Chance, operation: str, query: dict[str, str], walkers: int, first: str, *, goes: bool
) -> Generator[Any, Any, list[str]]:
    """Walk to the end, sometimes with another limit midway; return cursors. A `first` limit is used first.

    Where something `goes`, the anchor is deleted sometimes.
    """
    drawn, cursors, filters = draw.choice(LIMITS), [], dict(query)
    limit = first or drawn
    for _ in range(60):
        page_query = {**filters, "limit": limit} if limit else filters
        answer: Received = yield from politely(Send(operation, me.key, query=page_query))
        if answer.cursor is None:
            break
        cursors.append(answer.cursor)
        filters = {**query, "cursor": answer.cursor}
        items = answer.data if isinstance(answer.data, list) else []
        if operation == "keywords.list" and items and draw.randrange(4) == 0 and goes:
            path = {"id": str(items[-1].get("id"))}
            yield from politely(Send("keywords.delete", me.key, path=path))
        if draw.randrange(5) == 0:
            limit = draw.choice(LIMITS)
        yield Pause(walkers * 120 * MILLISECOND)
    return cursors


def _misuse(me: User, operation: str, query: dict[str, str], cursor: str, lists: list[str]) -> Program:
    """Send a cursor where it does not belong: other filters, another list, another key, cut short."""
    wrong = {**query, "list_id": lists[1]} if operation == "keywords.list" else {**query, "domain_id": "none"}
    if wrong != query and operation != "domains.list":
        yield Send(operation, me.key, query={**wrong, "cursor": cursor})
        yield Send(operation, me.key, query={"cursor": cursor})
    other = "labels.list" if operation != "labels.list" else "domains.list"
    yield Send(other, me.key, query={"cursor": cursor})
    yield Send(operation, me.key, query={**query, "cursor": cursor[:-3]})
    yield Send(operation, me.key, query={**query, "cursor": ""})
    for key in (*me.reach.of("other_account"), *me.reach.of("scoped"))[:2]:
        yield Send(operation, key.name, query={**query, "cursor": cursor})


def _connections(me: User, every: dict[str, str], lists: list[str], *, goes: bool) -> Program:
    """Walk over GraphQL: while an item goes, where one may, by another filter, by pages of other sizes.

    A cursor of one filter is tried under another.
    """
    yield from _connected(me, every, "100", goes=goes)
    cursors = yield from _connected(me, {"list_id": lists[0]}, "200")
    for cursor in cursors[:1]:
        yield from _connected(me, {"list_id": lists[1], "cursor": cursor}, "200", pages=1)
    yield from _connected(me, every, "", pages=2)
    yield from _connected(me, every, "50", pages=1)
    yield from _connected(me, every, "200")


def _connected(
    me: User, query: dict[str, str], limit: str, *, pages: int = 25, goes: bool = False
) -> Generator[Any, Any, list[str]]:
    """Walk keywords over GraphQL; delete the last item of the first page, where one goes; return cursors."""
    cursors, sized = [], {"limit": limit} if limit else {}
    page_variables = {**query, **sized}
    for _ in range(pages):
        send = over_graphql(Send("keywords.list", me.key, query=page_variables))
        assert send is not None
        answer: Received = yield from politely(send)
        cursor = cursor_after(answer)
        if not cursor:
            break
        cursors.append(cursor)
        page_variables = {**query, **sized, "cursor": cursor}
        last = nodes_in(answer)[-1:] if goes and len(cursors) == 1 else []
        for item in last:
            yield from politely(Send("keywords.delete", me.key, path={"id": str(item.get("id"))}))
        yield Pause(120 * MILLISECOND)
    return cursors


def _write(me: User, draw: Chance, turn: int, lists: list[str], domain: str) -> Program:
    """Add keywords now and then, labels else; rename some of these, and take some away again."""
    listed = draw.choice([listed for listed in lists if listed] or [""])
    if listed and turn % 3 == 1:
        body = keywords_body(listed, me.words("walk", me.number, turn, count=3))
        answer: Received = yield from politely(create("keywords", me.key, body))
        removes = created_by(answer.data) is not None and draw.randrange(2)  # drawn even if none was new
        if removes and (added := ids_of_keywords(answer)):
            yield Pause(draw.randrange(2 * SECOND))
            yield from politely(Send("keywords.delete", me.key, path={"id": added[0]}))
    elif domain:
        body = named_body(domain, me.named("walk", me.number, turn))
        label = yield from send_creation(create("labels", me.key, body))
        path = {"id": label}
        if turn % 6 == 0 and label:
            yield Send("labels.delete", me.key, path=path)
        elif turn % 6 == 3 and label:
            yield Send("labels.update", me.key, path=path, body={"name": f"{body['name']}-other"})
    yield Pause(2 * SECOND + draw.randrange(2 * SECOND))


WALK = Profile(
    name="walk",
    aim="Walks under concurrent writes: every item once, cursors bound to their query, page sizes.",
    rules=("paging.",),
    users=6,
    duration=3 * MINUTE,
    plays=walk,
    needs=lambda reach, users: Needs(TURNS * 5 * SECOND),
)
