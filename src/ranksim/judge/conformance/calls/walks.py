"""Judge walks of lists, which are whole while others write and show nothing twice, and returned cursors.

A cursor belongs to its query and continues its walk (S44-S46).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from heapq import heappop, heappush
from itertools import pairwise
from typing import TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, HOUR, Micros
from ranksim.judge.conformance.calls.pages import (
    COMPLETE,
    CURSOR,
    FIXED,
    GOING,
    ONCE,
    WALK,
    Origins,
    Page,
    Query,
    Return,
    case_of,
    given_out,
)
from ranksim.judge.conformance.judge import evidence_of
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import ANY
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

Deleted: TypeAlias = tuple[Micros, Micros, str]
"""When a DELETE was sent and answered, and the id that it named."""

Created: TypeAlias = dict[tuple[str, str, str], dict[str, tuple[Micros, dict[str, str]]]]
"""When creations were answered, and what they settled: (environment, key, list) → id → (µs, `FIXED`)."""

Acting: TypeAlias = tuple[str, str, str]
"""An operation, a parameter that walks showed to choose, and the surface."""

FILTERS = FIXED | {
    *("label_id", "keyword", "active", "status", "keyword_id", "date", "endpoint_id", "event_id")
}
"""Parameters that choose items (U110); any other is not bound to a cursor (U100)."""

PROMPT = HOUR
"""A cursor refused sooner than this did not expire: that is unstated (U36), but walks must be possible."""


def _pair(earlier: Page, later: Page | Return, says: str) -> Evidence:
    return evidence_of(says, earlier, later, about=later.query.operation)


# Walks


def walks_of(pages: Iterable[Page]) -> Iterator[dict[Query, list[list[Page]]]]:
    """Return the walks of each list that one key paged through, on each surface by itself, by query."""
    lists: dict[tuple[str, str, str], list[Page]] = defaultdict(list)
    for page in pages:
        if page.query.steady:
            lists[page.query.environment, page.query.operation, page.query.surface].append(page)
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


def _items(walk: Sequence[Page]) -> set[str]:
    return {item for page in walk for item in page.items}


def judge_once(walk: Sequence[Page], moved: Set[str], tally: Tally) -> None:
    """No item stands on two pages of a walk, or twice on one: keyset paging moves past what it showed.

    One that was changed may have moved, where another order is kept than by creation (U37).
    """
    pages: dict[str, Page] = {}
    for page in walk:
        for item in page.items:
            if item in pages and item not in moved:
                says = f"{item} is shown by {pages[item].id} and again by {page.id} of one walk"
                tally.broke(ONCE, _pair(pages[item], page, says), case=page.query.case)
                return
            pages[item] = page
    tally.held(ONCE, case=_several(walk), by=(walk[0].id, walk[-1].id))


def _several(walk: Sequence[Page]) -> str | None:
    """Return the list that a walk of several pages shows; one page alone loses and repeats nothing."""
    return walk[0].query.case if len(walk) > 1 else None


def judge_exact(walk: Sequence[Page], deleted: Sequence[Deleted], exclusive: bool, tally: Tally) -> None:
    """A page announced that comes empty, though nothing was deleted, excludes an exact has_more (U38).

    `hasNextPage` of GraphQL is another field (U83).
    """
    last = walk[-1]
    if len(walk) < 2 or last.items or not exclusive or last.query.surface == "graphql":
        return
    before = walk[-2]
    if not any(sent < last.received and received > before.sent for sent, received, _ in deleted):
        says = f"{before.id} announced a further page, and {last.id} is empty"
        tally.differs(38, "exact", "an empty last page", _pair(before, last, says))


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
            if all(settled.get(name) == value for name, value in query.filters):
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
    items, ends, case = _items(walk), (walk[0].id, walk[-1].id), walk[0].query.case
    missing = next((item for item in there if item not in items), None)
    if missing is not None:
        says = f"the walk from {ends[0]} to {ends[1]} leaves out {missing}, there before and after"
        tally.broke(COMPLETE, _pair(walk[0], walk[-1], says), case=case)
    elif there:
        tally.held(COMPLETE, case=_several(walk), by=ends)
        if len(walk) > 1 and _shrank(walk, there, deleted):
            tally.covers(COMPLETE, case + GOING, ends)
    elif len(walk) > 1:
        tally.open(COMPLETE, "nothing is known to have been there before and after the walk")


def _shrank(walk: Sequence[Page], there: Sequence[str], deleted: Sequence[Deleted]) -> bool:
    """Return whether a page came after an item before it was deleted, where it shows some that stayed.

    Paging by offsets leaves out as many items there as were deleted before.
    """
    began, ended, stayed = walk[0].received, walk[-1].sent, set(there)
    meanwhile = [(sent, came, name) for sent, came, name in deleted if began < sent and came < ended]
    for page, other in pairwise(walk) if meanwhile else ():
        removed = {name for sent, came, name in meanwhile if page.received < sent and came < other.sent}
        if not removed.isdisjoint(page.items) and not stayed.isdisjoint(other.items):
            return True
    return False


def acting_in(walks: Mapping[Query, list[list[Page]]]) -> frozenset[Acting]:
    """The parameters that choose: a walk under it alone leaves out what was there throughout.

    What was there is what walks of the same list under other queries show before and after.
    """
    lists: dict[tuple[object, ...], list[Query]] = defaultdict(list)
    for query in walks:
        lists[*query[:3], query.surface].append(query)
    acting = set[Acting]()
    for queries in lists.values():
        if len(queries) < 2:
            continue
        first, last = _sightings([walk for query in queries for walk in walks[query]])
        one_filter = (
            query for query in queries if len(query.filters) == 1 and query.filters[0][0] in FILTERS
        )
        filtered = [walk for query in one_filter for walk in walks[query] if not walk[-1].more]
        for walk, there in _present(filtered, first, last):
            query = walk[0].query
            parameter = query.operation, query.filters[0][0], query.surface
            if parameter not in acting and not _items(walk).issuperset(there):
                acting.add(parameter)
    return frozenset(acting)


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


# Returned cursors


def judge_cursor(
    seen: Return,
    origins: Mapping[Query, Origins],
    acting: Set[Acting],
    rate: int,
    options: Options,
    tally: Tally,
) -> None:
    """A cursor is accepted under the query that it was given to, and refused under another of its list.

    Necessary: whoever gave it out, it was bound to the filters of that page (S45). A parameter counts as a
    filter only where walks show that it leaves things out. No text says that a cursor of one surface is good
    on the other.
    """
    query = seen.query
    own = origins.get(query)
    if own is not None and own.possible(seen.received):
        _judge_return(seen, own.latest(seen.sent), rate, tally)
        return
    before = _latest_pages(origins, query.surface, seen.sent)
    same_list = [page for page in before if page.query[:3] == query[:3]]
    if same_list and (seen.ok or seen.code == "invalid_cursor"):
        _judge_other_filters(seen, same_list[-1], acting, options, tally)
    elif seen.ok:
        of_key = (page for page in before if page.query.key == query.key)
        page = next((page for page in of_key if page.query.operation != query.operation), None)
        if page is not None:
            says = f"{seen.id} took the cursor of {page.id}, which is of another list"
            tally.differs(36, "invalid_cursor", seen.status, _pair(page, seen, says))


def _latest_pages(origins: Mapping[Query, Origins], surface: str, instant: Micros) -> list[Page]:
    latest = (pages.latest(instant) for query, pages in origins.items() if query.surface == surface)
    return [page for page in latest if page is not None]


def _judge_other_filters(
    seen: Return, origin: Page, acting: Set[Acting], options: Options, tally: Tally
) -> None:
    """A cursor of the same list is refused where a parameter changed that chooses items (S45)."""
    _, _, operation, filters, surface = seen.query
    changed = set(origin.query.filters) ^ set(filters)
    acts = next((name for name, _ in changed if (operation, name, surface) in acting), None)
    case = acts and case_of(f"{operation} by {acts}", surface)
    if seen.code == "invalid_cursor":
        tally.held(CURSOR, case=case, by=(origin.id, seen.id))
        wanted = options.default_status("invalid_cursor")
        if surface == "rest" and seen.status != wanted:  # GraphQL has no status of its own for an error (U83)
            evidence = evidence_of(f"{seen.id} was answered {seen.status}", seen, about=operation)
            pinned = options.status("invalid_cursor") is not None
            tally.breaks_or_differs(16, wanted, seen.status, evidence, CURSOR, case or ANY, pinned=pinned)
    elif case is not None:
        says = f"{seen.id} took the cursor of {origin.id} under other filters"
        tally.broke(CURSOR, _pair(origin, seen, says), case=case)
    else:
        tally.open(CURSOR, "nothing shows that the parameter which changed chooses anything")


def _judge_return(seen: Return, origin: Page | None, rate: int, tally: Tally) -> None:
    """A cursor returned unchanged, under the query that gave it out, continues the walk (S44)."""
    if origin is None:
        return
    says = f"{seen.id} returned the cursor of {origin.id} unchanged and was refused {seen.code}"
    if seen.ok:
        tally.held(WALK, case=seen.query.case, by=(origin.id, seen.id))
    elif seen.code != "invalid_cursor":
        return
    elif seen.limit != origin.limit:
        tally.differs(35, "allowed", "refused", _pair(origin, seen, says))
    elif rate == 0 or (seen.received - origin.sent) * rate > PROMPT:
        tally.differs(36, "no expiry", "refused later", _pair(origin, seen, says))
    else:
        tally.broke(WALK, _pair(origin, seen, says), case=seen.query.case)
