"""Judge walks of lists, which are whole while others write and show nothing twice, and returned cursors.

A cursor belongs to its query and continues its walk (S44-S46).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, pairwise
from typing import TypeAlias

from ranksim.core.clock import HOUR, Micros
from ranksim.judge.conformance.calls.items import (
    CREATE,
    Deletion,
    ListedItems,
    Walk,
    Writes,
    sightings,
    write_between,
    wrong_call,
)
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
from ranksim.judge.conformance.judge import Between, evidence_of
from ranksim.judge.conformance.possible import ModelCall
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import ANY
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

Began: TypeAlias = tuple[Micros, Micros]
"""From when on, and until when, walks began that are judged."""

Acting: TypeAlias = tuple[str, str, str]
"""An operation, a parameter that walks showed to choose, and the surface."""

FILTERS = FIXED | {
    *("label_id", "keyword", "active", "status", "keyword_id", "date", "endpoint_id", "event_id")
}
"""Parameters that choose items (U110); any other is not bound to a cursor (U100)."""

PROMPT = HOUR
"""A cursor refused sooner than this did not expire: that is unstated (U36), but walks must be possible."""


def _pair(earlier: Page, later: Page | Return, says: str, between: Between | None = None) -> Evidence:
    return evidence_of(says, earlier, later, about=later.query.operation, between=between)


# Walks


def walks_of(pages: Iterable[Page]) -> dict[Query, list[Walk]]:
    """Chain each page to the latest one of its query that gave out its cursor; return whole chains.

    A chain begins at a page without a cursor; one whose beginning is unknown is left out.
    """
    pages = [page for page in pages if page.query.steady]
    given = given_out(pages)
    before: dict[Page, Page] = {}
    for page in pages:
        origins = None if page.cursor is None else given.get(page.cursor, {}).get(page.query)
        origin = None if origins is None else origins.latest(page.sent)
        if origin is not None:
            before[page] = origin
    continued, walks = {*before.values()}, dict[Query, list[Walk]]()
    for page in pages:
        if page not in continued:
            walk = [page]
            while walk[-1] in before:
                walk.append(before[walk[-1]])
            if walk[-1].cursor is None:
                walks.setdefault(page.query, []).append(walk[::-1])
    return walks


def _items(walk: Walk) -> set[str]:
    return {item for page in walk for item in page.items}


def judge_once(walk: Walk, moved: Set[str], writes: Writes, tally: Tally) -> None:
    """No item stands on two pages of a walk, or twice on one: keyset paging moves past what it showed.

    One that was changed may have moved, where another order is kept than by creation (U37).
    """
    pages: dict[str, Page] = {}
    for page in walk:
        for item in page.items:
            if item in pages and item not in moved:
                says = f"{item} is shown by {pages[item].id} and again by {page.id} of one walk"
                between = write_between(
                    walk[walk.index(pages[item]) : walk.index(page) + 1], writes(), CREATE
                )
                tally.broke(ONCE, _pair(pages[item], page, says, between), case=page.query.case)
                return
            pages[item] = page
    tally.held(ONCE, case=_several(walk), by=(walk[0].id, walk[-1].id))


def _several(walk: Walk) -> str | None:
    """Return the list that a walk of several pages shows; one page alone loses and repeats nothing."""
    return walk[0].query.case if len(walk) > 1 else None


def judge_exact(walk: Walk, deletions: Iterable[Deletion], exclusive: bool, tally: Tally) -> None:
    """A page announced that comes empty, though nothing was deleted, excludes an exact has_more (U38).

    `hasNextPage` of GraphQL is another field (U83).
    """
    last = walk[-1]
    if len(walk) < 2 or last.items or not exclusive or last.query.surface == "graphql":
        return
    before = walk[-2]
    calls = (deletion.call for deletion in deletions)
    if not any(call.sent < last.received and call.received > before.sent for call in calls):
        says = f"{before.id} announced a further page, and {last.id} is empty"
        tally.differs(38, "exact", "an empty last page", _pair(before, last, says))


def judge_complete(listing: ListedItems, moved: Set[str], began: Began, tally: Tally) -> None:
    """An item that is there while a walk goes on is on one of its pages, and one that is gone on none.

    Only walks that began in [`began`) are judged; others show what was there before and after them. What
    surely was there throughout was created, or shown by the same query, before, and is shown again after.
    """
    wrong = set[str]()
    for item, calls in listing.contradictions(moved):
        if not calls:
            tally.open(COMPLETE, "too many calls met at once to tell")
        elif began[0] <= (call := wrong_call(calls)).sent < began[1] and call.id not in wrong:
            wrong.add(call.id)
            tally.broke(COMPLETE, listing.evidence(item, calls), case=listing.query.case)
    for walk in listing.walks:
        there = _there(walk, listing.first, listing.last_page) - moved
        if began[0] <= walk[0].sent < began[1] and walk[-1].id not in wrong and there <= _items(walk):
            _note_whole(walk, there, listing.deletions, tally)


def _there(walk: Walk, first: Mapping[str, Page | ModelCall], last: Mapping[str, Page]) -> set[str]:
    """Return the items that were surely there throughout a walk: seen before, and again after it."""
    began, ended = walk[0].sent, walk[-1].received
    return {item for item, page in last.items() if page.sent > ended and first[item].received < began}


def _note_whole(walk: Walk, there: Set[str], deletions: Sequence[Deletion], tally: Tally) -> None:
    ends = walk[0].id, walk[-1].id
    if there:
        tally.held(COMPLETE, case=_several(walk), by=ends)
        if len(walk) > 1 and _shrank(walk, there, deletions):
            tally.covers(COMPLETE, walk[0].query.case + GOING, ends)
    elif len(walk) > 1:
        tally.open(COMPLETE, "nothing is known to have been there before and after the walk")


def _shrank(walk: Walk, there: Set[str], deletions: Sequence[Deletion]) -> bool:
    """Return whether a page came after an item before it was deleted, where it shows some that stayed.

    Paging by offsets leaves out as many items there as were deleted before.
    """
    for page, other in pairwise(walk):
        began, ended = page.received, other.sent
        removed = {each.name for each in deletions if began < each.call.sent and each.call.received < ended}
        if not removed.isdisjoint(page.items) and not there.isdisjoint(other.items):
            return True
    return False


def acting_in(walks: Mapping[Query, Sequence[Walk]], acting: Set[Acting]) -> Iterator[Acting]:
    """Return further parameters that choose: a walk under one alone leaves out what was there throughout.

    What was there is what walks of the same list under other queries show before and after.
    """
    for query, same in walks.items():
        name = query.filters[0][0] if len(query.filters) == 1 else ""
        if name not in FILTERS or (query.operation, name, query.surface) in acting:
            continue
        others = (walks[other] for other in walks if other != query and other.list == query.list)
        first, last = sightings([page for walk in chain.from_iterable(others) for page in walk])
        if any(not _there(walk, first, last) <= _items(walk) for walk in same if not walk[-1].more):
            yield query.operation, name, query.surface


# Returned cursors


def judge_cursor(
    seen: Return,
    origins: Mapping[Query, Origins],
    acting: Set[Acting],
    writes: Writes,
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
        _judge_return(seen, own.latest(seen.sent), writes, rate, tally)
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


def _judge_return(seen: Return, origin: Page | None, writes: Writes, rate: int, tally: Tally) -> None:
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
        between = write_between((origin, seen), writes())
        tally.broke(WALK, _pair(origin, seen, says, between), case=seen.query.case)
