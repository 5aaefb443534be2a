"""Judge paging: walks are whole under concurrent writes, and a cursor belongs to its query (S9, S43-S46).

A page continues any page that gave out its cursor before it was sent, so a chain of pages is a walk that a
client could have made, whoever made it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from ranksim.clock import Micros
from ranksim.conformance.history import NEVER, History, Seen
from ranksim.conformance.options import Options
from ranksim.conformance.verdicts import Evidence, Rule, Tally

ONCE = "paging.once"
COMPLETE = "paging.complete"
CURSOR = "paging.cursor"
WALK = "paging.walk"
LIMIT = "paging.limit"
END = "paging.end"

RULES = (
    Rule(ONCE, "A walk shows no item twice", (46,), (37,), "walk"),
    Rule(COMPLETE, "A walk shows every item that was there throughout", (46,), (37,), "walk"),
    Rule(CURSOR, "A cursor under other filters is invalid_cursor", (31, 45), (16, 36), "walk"),
    Rule(WALK, "next_cursor, returned unchanged, continues the walk", (44,), (35, 36), "walk"),
    Rule(LIMIT, "A page has 50 items at most, or `limit`, up to 200", (43,), (34,), "walk"),
    Rule(END, "next_cursor is null exactly when no further page exists", (9, 44), (38,), "walk"),
)

Query: TypeAlias = tuple[str, str, str, tuple[tuple[str, str], ...]]
"""Environment, key, operation and filters: what one walk asks for."""

CREATES = {
    "domains.create": "domains.list",
    "keyword_lists.create": "keyword_lists.list",
    "labels.create": "labels.list",
    "competitors.create": "competitors.list",
    "scans.create": "scans.list",
    "keywords.create": "keywords.list",
    "webhooks.create": "webhooks.list",
}
"""Which list shows what an operation creates."""

STEADY = frozenset(CREATES.values()) | {"jobs.list", "keyword_briefs.list"}
"""Lists whose items keep their place until they are deleted, and then do not come back."""

MOVABLE = frozenset({"label_id", "active", "keyword"})
"""Filters whose items come and go by a PATCH."""


def judge(history: History, options: Options, tally: Tally) -> None:
    """Judge every page and every whole walk of the lists that a trace pages through."""
    pages = [seen for seen in history.seen if seen.has_more is not None and isinstance(seen.data, tuple)]
    steady = [page for page in pages if page.operation in STEADY and not MOVABLE & page.query.keys()]
    given: dict[str, list[Seen]] = defaultdict(list)
    for page in pages:
        _judge_page(page, options, tally)
        if page.next_cursor is not None:
            given[page.next_cursor].append(page)
    for seen in history.seen:
        if "cursor" in seen.query and not seen.lost and seen.surface == "rest":
            _judge_cursor(seen, given.get(seen.query["cursor"], []), options, tally)
    walks: dict[Query, list[list[Seen]]] = defaultdict(list)
    for walk in _walks(steady, given):
        walks[_query(walk[0])].append(walk)
        _judge_once(walk, tally)
    _judge_complete(history, walks, tally)


def _query(page: Seen) -> Query:
    filters = tuple(sorted((k, v) for k, v in page.query.items() if k not in ("cursor", "limit")))
    return page.environment, page.key, page.operation, filters


# One page


def _judge_page(page: Seen, options: Options, tally: Tally) -> None:
    """One reply is enough: the page is no larger than asked for, and ends as it says."""
    wanted = page.query.get("limit", "")
    largest = options.facts.page_max
    asked = int(wanted) if wanted.isascii() and wanted.isdigit() else options.facts.page_default
    count = len(page.data)
    says = f"{page.id} asked for {wanted or 'no limit'} and got {count} items"
    tally.check(LIMIT, count <= min(asked, largest), _evidence(page, says))
    says = f"{page.id} says has_more {str(page.has_more).lower()} with next_cursor {page.next_cursor!r}"
    tally.check(END, page.has_more == (page.next_cursor is not None), _evidence(page, says))


def _judge_cursor(seen: Seen, origins: Sequence[Seen], options: Options, tally: Tally) -> None:
    """A cursor is accepted under the query that it was given to, and refused under another of its list.

    Necessary: whoever gave it out, it was bound to the filters of that page (S45).
    """
    before = [page for page in origins if page.sent < seen.received]
    own = [page for page in before if _query(page) == _query(seen) and page.received < seen.sent]
    if own and (seen.ok or seen.code == "invalid_cursor"):
        says = f"{seen.id} returned the cursor of {own[-1].id} unchanged and was refused {seen.code}"
        tally.check(WALK, seen.ok, Evidence(says, (own[-1].id, seen.id), about=seen.operation, at=seen.sent))
        return
    same_list = [page for page in before if _query(page)[:3] == _query(seen)[:3]]
    if not same_list or any(_query(page) == _query(seen) for page in before):
        return
    if seen.ok or seen.code == "invalid_cursor":
        says = f"{seen.id} took the cursor of {same_list[-1].id} under other filters"
        found = Evidence(says, (same_list[-1].id, seen.id), about=seen.operation, at=seen.sent)
        tally.check(CURSOR, not seen.ok, found)
    wanted = options.default_status("invalid_cursor")
    if seen.code == "invalid_cursor" and seen.status != wanted:
        tally.differs(16, wanted, seen.status, _evidence(seen, f"{seen.id} was answered {seen.status}"))


# Whole walks


def _walks(pages: Sequence[Seen], given: Mapping[str, Sequence[Seen]]) -> Iterator[list[Seen]]:
    """Chain each page to the latest page of its query that gave out its cursor; yields whole chains.

    A chain begins at a page without a cursor; one whose beginning is unknown is left out.
    """
    before: dict[int, Seen] = {}
    continued = set[int]()
    for page in pages:
        cursor = page.query.get("cursor")
        origins = [
            origin
            for origin in (given.get(cursor, ()) if cursor is not None else ())
            if origin.received <= page.sent and _query(origin) == _query(page)
        ]
        if origins:
            before[page.index] = max(origins, key=lambda origin: origin.received)
            continued.add(before[page.index].index)
    for page in pages:
        if page.index in continued:
            continue
        walk = [page]
        while walk[-1].index in before:
            walk.append(before[walk[-1].index])
        if "cursor" not in walk[-1].query:
            yield walk[::-1]


def _judge_once(walk: Sequence[Seen], tally: Tally) -> None:
    """No item stands on two pages of a walk, or twice on one: keyset paging moves past what it showed."""
    shown: dict[str, Seen] = {}
    for page in walk:
        for item in page.data:
            if item in shown:
                says = f"{item} is shown by {shown[item].id} and again by {page.id} of one walk"
                ids = tuple(dict.fromkeys((shown[item].id, page.id)))
                tally.broke(ONCE, Evidence(says, ids, about=page.operation, at=page.sent))
                return
            shown[item] = page
    tally.held(ONCE)


def _judge_complete(history: History, walks: Mapping[Query, list[list[Seen]]], tally: Tally) -> None:
    """An item that surely existed from before a walk began until after it ended is on one of its pages.

    Surely: it was created, or shown by the same query, before the walk began, and is shown by the same query
    again after the walk ended; ids do not come back, so it was there in between.
    """
    created = _created(history)
    for query, same in walks.items():
        whole = [walk for walk in same if not walk[-1].has_more]
        first, last = _sightings(whole)
        if not query[3]:
            for item, told in created.get((query[0], query[1], query[2]), {}).items():
                first[item] = min(told, first.get(item, told))
        for walk in whole:
            _judge_whole(walk, first, last, tally)


def _judge_whole(
    walk: Sequence[Seen], first: Mapping[str, Micros], last: Mapping[str, Micros], tally: Tally
) -> None:
    began, ended = walk[0].sent, walk[-1].received
    shown = {item for page in walk for item in page.data}
    throughout = [item for item, seen in first.items() if seen < began and last.get(item, -1) > ended]
    missing = [item for item in throughout if item not in shown]
    if missing:
        says = f"the walk from {walk[0].id} to {walk[-1].id} leaves out {missing[0]}, there before and after"
        ids = tuple(dict.fromkeys((walk[0].id, walk[-1].id)))
        tally.broke(COMPLETE, Evidence(says, ids, about=walk[0].operation, at=began))
    elif throughout:
        tally.held(COMPLETE)
    else:
        tally.open(COMPLETE, "nothing is known to have been there before and after the walk")


def _sightings(walks: Sequence[Sequence[Seen]]) -> tuple[dict[str, Micros], dict[str, Micros]]:
    """When each item was first surely there (a reply that shows it came) and last (such a call was sent)."""
    first: dict[str, Micros] = {}
    last: dict[str, Micros] = {}
    for walk in walks:
        for page in walk:
            for item in page.data:
                first[item] = min(page.received, first.get(item, NEVER))
                last[item] = max(page.sent, last.get(item, -1))
    return first, last


def _created(history: History) -> dict[tuple[str, str, str], dict[str, Micros]]:
    """When creations were answered: (environment, key, list) → id → µs."""
    made: dict[tuple[str, str, str], dict[str, Micros]] = defaultdict(dict)
    for seen in history.by_operation(*CREATES):
        if not seen.ok or not isinstance(seen.data, dict):
            continue
        things = seen.data.get("created", [seen.data])
        for thing in things if isinstance(things, list) else []:
            if isinstance(thing, dict) and isinstance(thing.get("id"), str):
                made[seen.environment, seen.key, CREATES[seen.operation]][thing["id"]] = seen.received
    return made


def _evidence(page: Seen, says: str) -> Evidence:
    return Evidence(says, (page.id,), about=page.operation, at=page.sent)
