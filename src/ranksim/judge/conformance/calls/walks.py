"""Judge walks of lists: they are whole while others write, and show nothing twice (S46)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from heapq import heappop, heappush
from itertools import pairwise
from typing import TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, Micros
from ranksim.judge.conformance.calls.pages import (
    COMPLETE,
    FIXED,
    ONCE,
    Page,
    Query,
    given_out,
    is_steady,
    listed,
    pair,
)
from ranksim.judge.conformance.verdict.verdicts import Tally

GOING = ", while items go"
"""Behind a list: an item that a page had shown was deleted before the next page was asked for."""

Deleted: TypeAlias = tuple[Micros, Micros, str]
"""When a DELETE was sent and answered, and the id that it named."""

Created: TypeAlias = dict[tuple[str, str, str], dict[str, tuple[Micros, dict[str, str]]]]
"""When creations were answered, and what they settled: (environment, key, list) → id → (µs, `FIXED`)."""

Acting: TypeAlias = tuple[str, str, str]
"""An operation, a parameter that walks showed to choose, and the surface."""

FILTERS = FIXED | {
    "label_id",
    "keyword",
    "active",
    "status",
    "keyword_id",
    "date",
    "endpoint_id",
    "event_id",
}
"""Parameters that choose items (U110); any other is not bound to a cursor (U100)."""


def walks_of(pages: Iterable[Page]) -> Iterator[dict[Query, list[list[Page]]]]:
    """Return the walks of each list that one key paged through, on each surface by itself, by query."""
    lists: dict[tuple[str, str, str], list[Page]] = defaultdict(list)
    for page in pages:
        if is_steady(page.query):
            lists[page.query[0], page.query[2], page.query[4]].append(page)
    for listed_pages in lists.values():
        walks: dict[Query, list[list[Page]]] = defaultdict(list)
        for walk in _walks(listed_pages):
            walks[walk[0].query].append(walk)
        yield walks


def _walks(pages: Sequence[Page]) -> Iterator[list[Page]]:
    """Chain each page to the latest page of its query that gave out its cursor; yields whole chains.

    A chain begins at a page without a cursor; one whose beginning is unknown is left out.
    """
    given = given_out(pages)
    before: dict[int, Page] = {}
    continued = set[int]()
    for page in pages:
        origins = given.get(page.cursor, {}).get(page.query) if page.cursor is not None else None
        origin = None if origins is None else origins.latest(page.sent)
        if origin is not None:
            before[id(page)] = origin
            continued.add(id(origin))
    for page in pages:
        if id(page) in continued:
            continue
        walk = [page]
        while id(walk[-1]) in before:
            walk.append(before[id(walk[-1])])
        if walk[-1].cursor is None:
            yield walk[::-1]


def judge_once(walk: Sequence[Page], moved: Set[str], tally: Tally) -> None:
    """No item stands on two pages of a walk, or twice on one: keyset paging moves past what it showed.

    One that was changed may have moved, where another order is kept than by creation (U37).
    """
    pages: dict[str, Page] = {}
    for page in walk:
        for item in page.items:
            if item in pages and item not in moved:
                says = f"{item} is shown by {pages[item].id} and again by {page.id} of one walk"
                tally.broke(ONCE, pair(pages[item], page, says), case=listed(page.query))
                return
            pages[item] = page
    tally.held(ONCE, case=_several(walk), by=(walk[0].id, walk[-1].id))


def _several(walk: Sequence[Page]) -> str | None:
    """Return the list that a walk of several pages shows; one page alone loses and repeats nothing."""
    return listed(walk[0].query) if len(walk) > 1 else None


def judge_exact(walk: Sequence[Page], deleted: Sequence[Deleted], exclusive: bool, tally: Tally) -> None:
    """A page announced that comes empty, though nothing was deleted, excludes an exact has_more (U38).

    `hasNextPage` of GraphQL is another field (U83).
    """
    last = walk[-1]
    if len(walk) < 2 or last.items or not exclusive or last.query[4] == "graphql":
        return
    before = walk[-2]
    if not any(sent < last.received and received > before.sent for sent, received, _ in deleted):
        says = f"{before.id} announced a further page, and {last.id} is empty"
        tally.differs(38, "exact", "an empty last page", pair(before, last, says))


def judge_complete(
    walks: Mapping[Query, list[list[Page]]],
    created: Created,
    moved: Set[str],
    deleted: Sequence[Deleted],
    began: tuple[Micros, Micros],
    tally: Tally,
) -> None:
    """An item that surely existed from before a walk began until after it ended is on one of its pages.

    Only walks that began in [`began`) are judged; others show what was there before and after them.

    Surely: it was created, or shown by the same query, before the walk began, and is shown by the same query
    again after the walk ended; ids do not come back, so it was there in between.
    """
    for query, same in walks.items():
        complete = [walk for walk in same if not walk[-1].more]
        first, last = _sightings(complete)
        for item, (created_at, settled) in created.get(query[:3], {}).items():
            if all(settled.get(name) == value for name, value in query[3]):
                first[item] = min(created_at, first.get(item, created_at))
        for walk, there in _present(complete, first, last):
            if began[0] <= walk[0].sent < began[1]:
                _judge_whole(walk, [item for item in there if item not in moved], deleted, tally)


def _present(
    walks: Sequence[Sequence[Page]], first: Mapping[str, Micros], last: Mapping[str, Micros]
) -> Iterator[tuple[Sequence[Page], list[str]]]:
    """Return each walk with the items that were surely there throughout: seen before, and again after it."""
    coming = sorted((seen, item) for item, seen in first.items() if item in last)
    going: list[tuple[Micros, str]] = []
    at = 0
    for walk in sorted(walks, key=lambda walk: walk[0].sent):
        began, ended = walk[0].sent, walk[-1].received
        while at < len(coming) and coming[at][0] < began:
            heappush(going, (last[coming[at][1]], coming[at][1]))
            at += 1
        while going and going[0][0] <= began:
            heappop(going)
        yield walk, [item for until, item in going if until > ended]


def _judge_whole(
    walk: Sequence[Page], there: Sequence[str], deleted: Sequence[Deleted], tally: Tally
) -> None:
    items = {item for page in walk for item in page.items}
    missing = next((item for item in there if item not in items), None)
    if missing is not None:
        says = f"the walk from {walk[0].id} to {walk[-1].id} leaves out {missing}, there before and after"
        tally.broke(COMPLETE, pair(walk[0], walk[-1], says), case=listed(walk[0].query))
    elif there:
        tally.held(COMPLETE, case=_several(walk), by=(walk[0].id, walk[-1].id))
        if len(walk) > 1 and _shrank(walk, there, deleted):
            tally.covers(COMPLETE, listed(walk[0].query) + GOING, (walk[0].id, walk[-1].id))
    elif len(walk) > 1:
        tally.open(COMPLETE, "nothing is known to have been there before and after the walk")


def acting_in(walks: Mapping[Query, list[list[Page]]]) -> frozenset[Acting]:
    """The parameters that choose: a walk under it alone leaves out what was there throughout.

    What was there is what walks of the same list under other queries show before and after.
    """
    lists: dict[tuple[str, str, str, str], list[Query]] = defaultdict(list)
    for query in walks:
        lists[*query[:3], query[4]].append(query)
    acting = set[Acting]()
    for (_, _, operation, surface), queries in lists.items():
        if len(queries) < 2:
            continue
        first, last = _sightings([walk for query in queries for walk in walks[query]])
        filtered = [
            walk
            for query in queries
            if len(query[3]) == 1 and query[3][0][0] in FILTERS
            for walk in walks[query]
            if not walk[-1].more
        ]
        for walk, there in _present(filtered, first, last):
            [(name, _)] = walk[0].query[3]
            if (operation, name, surface) not in acting:
                items = {item for page in walk for item in page.items}
                if any(item not in items for item in there):
                    acting.add((operation, name, surface))
    return frozenset(acting)


def _shrank(walk: Sequence[Page], there: Sequence[str], deleted: Sequence[Deleted]) -> bool:
    """Return whether a page came after an item before it was deleted, where it shows some that stayed.

    Paging by offsets leaves out as many items there as were deleted before.
    """
    meanwhile = [
        deletion for deletion in deleted if walk[0].received < deletion[0] and deletion[1] < walk[-1].sent
    ]
    if not meanwhile:
        return False
    stayed = set(there)
    for page, other in pairwise(walk):
        items = set(page.items)
        if stayed.intersection(other.items) and any(
            name in items and page.received < sent and received < other.sent
            for sent, received, name in meanwhile
        ):
            return True
    return False


def _sightings(walks: Sequence[Sequence[Page]]) -> tuple[dict[str, Micros], dict[str, Micros]]:
    """When each item was first surely there (a reply that shows it came) and last (such a call was sent)."""
    first: dict[str, Micros] = {}
    last: dict[str, Micros] = {}
    for walk in walks:
        for page in walk:
            for item in page.items:
                first[item] = min(page.received, first.get(item, DISTANT_FUTURE))
                last[item] = max(page.sent, last.get(item, -1))
    return first, last
