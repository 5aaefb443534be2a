"""Judge paging: walks are whole under concurrent writes, and a cursor belongs to its query (S9, S43-S46).

A page continues any page that gave out its cursor before it was sent, so a chain of pages is a walk that a
client could have made, whoever made it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain
from sys import intern
from typing import TypeAlias

from ranksim.clock import DISTANT_FUTURE, HOUR, Micros
from ranksim.conformance.history.history import ObservedRun
from ranksim.conformance.history.observation import Observation, ReceivedAttempt
from ranksim.conformance.verdict.options import Options
from ranksim.conformance.verdict.verdicts import Evidence, Rule, Tally
from ranksim.contract.views import created_by

ONCE = "paging.once"
COMPLETE = "paging.complete"
CURSOR = "paging.cursor"
WALK = "paging.walk"
LIMIT = "paging.limit"
END = "paging.end"

RULES = (
    Rule(ONCE, "A walk shows no item twice", (46,), (37,), "walk"),
    Rule(COMPLETE, "A walk shows every item that was there throughout", (46,), (37,), "walk"),
    Rule(CURSOR, "A cursor under other filters is invalid_cursor", (31, 45), (16, 36, 100, 110), "walk"),
    Rule(WALK, "next_cursor, returned unchanged, continues the walk", (44,), (35, 36), "walk"),
    Rule(LIMIT, "A page has 50 items at most, or `limit`, up to 200", (43,), (34,), "walk"),
    Rule(END, "next_cursor is null exactly when no further page exists", (9, 44), (38,), "walk"),
)

Query: TypeAlias = tuple[str, str, str, tuple[tuple[str, str], ...]]
"""Environment, key, operation and filters: what one walk asks for."""


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """One page of a list and what asked for it: `cursor` is None of a first page, `following` of a last."""

    id: str
    sent: Micros
    received: Micros
    query: Query
    cursor: str | None
    limit: str | None
    items: tuple[str, ...]
    following: str | None
    more: bool


@dataclass(frozen=True, slots=True)
class Return:
    """A call with a cursor, and how it was answered."""

    id: str
    sent: Micros
    received: Micros
    query: Query
    cursor: str
    limit: str | None
    ok: bool
    code: str
    status: int


@dataclass(slots=True)
class Origins:
    """The pages of one query that gave out one cursor, in order of receiving."""

    pages: list[Page]

    def latest(self, instant: Micros) -> Page | None:
        """The page that was received last before an instant."""
        at = bisect_left(self.pages, instant, key=lambda page: page.received)
        return self.pages[at - 1] if at else None

    def possible(self, instant: Micros) -> bool:
        """Whether any of them may have been given out before an instant."""
        return self.pages[0].received < instant or any(page.sent < instant for page in self.pages)


Given: TypeAlias = dict[str, dict[Query, Origins]]
"""Who gave out each cursor."""

Created: TypeAlias = dict[tuple[str, str, str], dict[str, tuple[Micros, dict[str, str]]]]
"""When creations were answered, and what they settled: (environment, key, list) → id → (µs, `FIXED`)."""

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

FIXED = frozenset({"domain_id", "list_id", "kind"})
"""Filters whose items stay, as what they ask for is settled at creation, but for an endpoint's domain."""

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

PROMPT = HOUR
"""A cursor refused sooner than this did not expire: that is unstated (U36), but walks must be possible."""

REMEMBERED = 12 * HOUR
"""Business time before and after a walk that can tell what was there; what was sent before is forgotten."""


@dataclass(frozen=True, slots=True)
class ToldBriefs:
    """The briefs that a reply listed, or told to be created; `lost`: nobody saw whether any were."""

    sent: Micros
    received: Micros
    ids: tuple[str, ...]
    created: bool = False
    lost: bool = False


@dataclass
class KeyCalls:
    """What one key paged through, returned a cursor to, or created."""

    pages: list[Page] = field(default_factory=list)
    returned: list[Return] = field(default_factory=list)
    created: Created = field(default_factory=lambda: defaultdict(dict))

    def forget(self, edge: Micros) -> bool:
        """Forget what was sent, or told to be created, before an instant; return whether anything is left."""
        self.pages = [page for page in self.pages if page.sent >= edge]
        self.returned = [seen for seen in self.returned if seen.sent >= edge]
        for told in self.created.values():
            for item in [item for item, (since, _) in told.items() if since < edge]:
                del told[item]
        return bool(self.pages or self.returned or any(self.created.values()))


@dataclass
class PaginationJudge:
    """Judges every page as it comes, and every whole walk of a list, key by key."""

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    keys: dict[str, KeyCalls] = field(default_factory=dict)
    patched: dict[str, Micros] = field(default_factory=dict)
    """When a PATCH that may have changed a thing was last sent, by its id."""
    deleted: list[tuple[Micros, Micros]] = field(default_factory=list)
    """When something may have been deleted: [sent, received] of each DELETE."""
    briefs: list[ToldBriefs] = field(default_factory=list)
    """What told of briefs, or made them."""
    names: dict[str, str] = field(default_factory=dict)
    """The items that pages show, their cursors and the limits that they ask for, each once."""
    queries: dict[Query, Query] = field(default_factory=dict)
    """Likewise what pages ask for."""
    acting: set[tuple[str, str]] = field(default_factory=set)
    """The (operation, parameter) that walks showed to choose."""
    too_large: Evidence | None = None
    """The first refusal of a limit above the largest page size, where that is assumed to be clamped."""
    judged: Micros = DISTANT_FUTURE
    """Walks that began before were judged; at first, when the first call was sent."""

    def wants(self, like: Observation) -> bool:
        """All calls: any may have a cursor."""
        return True

    def see(self, seen: Observation) -> None:
        """Judge a page by itself; keep pages, cursors and creations for the walks."""
        creates, asked = seen.operation in CREATES, seen.query
        self.judged = min(self.judged, seen.sent)
        if seen.has_more is not None:
            _judge_page(seen, self.options, self.tally)
        if seen.has_more is not None or creates or "cursor" in asked:
            calls = self.keys.setdefault(seen.key, KeyCalls())
            if creates:
                _add_created(calls.created, seen)
            query, names = self._query(seen, asked), self.names
            cursor, limit, following = (
                None if one is None else names.setdefault(one, one)
                for one in (asked.get("cursor"), asked.get("limit"), seen.next_cursor)
            )
            if seen.has_more is not None and (_is_steady(query) or cursor or following):
                listed = seen.data if _is_steady(query) else ()
                items = tuple(names.setdefault(item, item) for item in listed)
                said = (items, following, seen.has_more)
                calls.pages.append(Page(seen.id, seen.sent, seen.received, query, cursor, limit, *said))
            if cursor is not None and not seen.lost and seen.surface == "rest" and seen.operation:
                answer = (seen.ok, seen.code, seen.status)
                calls.returned.append(
                    Return(seen.id, seen.sent, seen.received, query, cursor, limit, *answer)
                )
        if seen.method == "PATCH" and seen.parameters:
            self.patched[seen.parameters["id"]] = seen.sent
        elif seen.method == "DELETE":
            self.deleted.append((seen.sent, seen.received))
        if seen.operation in ("keyword_briefs.list", "keyword_briefs.create"):
            self.briefs.append(self._told(seen))
        if seen.operation in STEADY and seen.status in (400, 422) and asked.keys() == {"limit"}:
            self._see_too_large(seen, asked["limit"])

    def _told(self, seen: Observation) -> ToldBriefs:
        if seen.operation == "keyword_briefs.list":
            listed = seen.data if isinstance(seen.data, tuple) else ()
            return ToldBriefs(
                seen.sent, seen.received, tuple(self.names.setdefault(item, item) for item in listed)
            )
        if seen.dry_run:
            return ToldBriefs(seen.sent, seen.received, ())
        made = seen.data if seen.ok and isinstance(seen.data, dict) else {}
        things = [made, *(created_by(made) or ())]
        named = [str(thing["id"]) for thing in things if isinstance(thing, dict) and "id" in thing]
        lost = seen.happened is not False and (seen.lost or seen.status >= 500)
        return ToldBriefs(seen.sent, seen.received, tuple(named), created=True, lost=lost)

    def _query(self, seen: Observation, asked: Mapping[str, str]) -> Query:
        filters = tuple(sorted((k, v) for k, v in asked.items() if k not in ("cursor", "limit")))
        query = (seen.environment, seen.key, seen.operation, filters)
        return self.queries.setdefault(query, query)

    def see_attempt(self, attempt: ReceivedAttempt) -> None:
        """No rule here speaks of webhooks."""

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Twice a day, judge the walks that began half a day ago, and the cursors that were returned since.

        What was sent half a day before later walks stays: it tells what was there, and gave out cursors.
        """
        span = REMEMBERED // max(1, run.rate)
        edge = watermark if watermark == DISTANT_FUTURE else watermark - span
        if edge < self.judged + span and watermark < DISTANT_FUTURE:
            return
        began, self.judged = self.judged, edge
        moved = self.patched.keys() | run.mutated | _refreshed(self.briefs)
        for calls in self.keys.values():
            for walks in _lists(calls.pages):
                for walk in chain.from_iterable(walks.values()):
                    if began <= walk[0].sent < edge:
                        _judge_once(walk, moved, self.tally)
                        _judge_exact(walk, self.deleted, run.exclusive, self.tally)
                _judge_complete(walks, calls.created, moved, (began, edge), self.tally)
                self.acting |= _acting(walks)
        for calls in self.keys.values():
            given = _given(calls.pages)
            answered = [seen for seen in calls.returned if seen.received <= watermark]
            calls.returned = [seen for seen in calls.returned if seen.received > watermark]
            for seen in answered:
                origins = given.get(seen.cursor, {})
                _judge_cursor(seen, origins, self.acting, run.rate, self.options, self.tally)
        if watermark == DISTANT_FUTURE and self.too_large is not None:
            self.tally.differs(34, "clamp", "refuse", self.too_large)
        self._forget(edge - span if watermark < DISTANT_FUTURE else edge)

    def _forget(self, edge: Micros) -> None:
        """Forget what was sent before an instant."""
        self.keys = {key: calls for key, calls in self.keys.items() if calls.forget(edge)}
        pages = [page for calls in self.keys.values() for page in calls.pages]
        self.names = {item: item for page in pages for item in page.items}
        self.queries = {page.query: page.query for page in pages}
        self.patched = {name: sent for name, sent in self.patched.items() if sent >= edge}
        self.deleted = [(sent, received) for sent, received in self.deleted if sent >= edge]
        self.briefs = [told for told in self.briefs if told.sent >= edge]

    def _see_too_large(self, seen: Observation, wanted: str) -> None:
        """A limit above the largest page size is clamped by default; a refusal excludes that (U34)."""
        number = int(wanted[:9]) if wanted.isascii() and wanted.isdigit() else 0
        if number > self.options.facts.page_max:
            found = _evidence(seen, f"{seen.id} asked for {wanted} items and was refused {seen.status}")
            if self.options.candidates("page_limit_over") == ("clamp",):
                self.tally.broke(LIMIT, found)
            elif self.too_large is None:
                self.too_large = found


def _refreshed(told: Sequence[ToldBriefs]) -> set[str]:
    """Return the briefs that were told of by a list or a creation before a creation told of them again.

    One that is refreshed may stay the same brief, and move (U37); a call without an answer may refresh any.
    """
    known, refreshed = set[str](), set[str]()
    for briefs in sorted(told, key=lambda briefs: briefs.received):
        if briefs.created:
            refreshed |= known.intersection(briefs.ids)
        known.update(briefs.ids)
    return known if any(briefs.lost for briefs in told) else refreshed


def _is_steady(query: Query) -> bool:
    """Whether what a query asks for keeps its place until it is deleted, so that its walks are judged."""
    _, _, operation, filters = query
    names = {name for name, _ in filters}
    moves = operation == "webhooks.list" and names
    return operation in STEADY and names <= FIXED and not moves


# One page


def _judge_page(page: Observation, options: Options, tally: Tally) -> None:
    """One reply is enough: the page is no larger than asked for, and ends as it says.

    What a limit that is no positive number asks for is unstated (U34), but for the largest size.
    """
    wanted, largest = page.query.get("limit"), options.facts.page_max
    asked = largest if wanted is not None else options.facts.page_default
    if wanted is not None and wanted.isascii() and wanted.isdigit() and 0 < int(wanted[:9]) < largest:
        asked = int(wanted)
    elif wanted is not None and not (wanted.isascii() and wanted.isdigit() and int(wanted[:9]) > 0):
        tally.differs(34, "422", page.status, _evidence(page, f"{page.id} asked for limit {wanted!r}"))
    count = len(page.data)
    if count <= asked:
        tally.held(LIMIT)
    else:
        says = f"{page.id} asked for {wanted or 'no limit'} and got {count} items"
        tally.broke(LIMIT, _evidence(page, says))
    if page.has_more == (page.next_cursor is not None):
        tally.held(END)
    else:
        says = f"{page.id} says has_more {str(page.has_more).lower()} with next_cursor {page.next_cursor!r}"
        tally.broke(END, _evidence(page, says))


# One cursor


def _judge_cursor(
    seen: Return,
    origins: Mapping[Query, Origins],
    acting: Set[tuple[str, str]],
    rate: int,
    options: Options,
    tally: Tally,
) -> None:
    """A cursor is accepted under the query that it was given to, and refused under another of its list.

    Necessary: whoever gave it out, it was bound to the filters of that page (S45). A parameter counts as a
    filter only where walks show that it leaves things out.
    """
    mine = seen.query
    own = origins.get(mine)
    if own is not None and own.possible(seen.received):
        origin = own.latest(seen.sent)
        if origin is not None:
            _judge_return(seen, origin, rate, tally)
        return
    before = [(query, page) for query, found in origins.items() if (page := found.latest(seen.sent))]
    same_list = [page for query, page in before if query[:3] == mine[:3]]
    if not same_list or not (seen.ok or seen.code == "invalid_cursor"):
        for query, page in before if seen.ok else ():
            if query[1] == mine[1] and query[2] != mine[2]:
                says = f"{seen.id} took the cursor of {page.id}, which is of another list"
                tally.differs(36, "invalid_cursor", seen.status, _pair(page, seen, says))
        return
    changed = set(same_list[-1].query[3]) ^ set(mine[3])
    if seen.code == "invalid_cursor":
        tally.held(CURSOR)
        _judge_status(seen, options, tally)
    elif any((mine[2], name) in acting for name, _ in changed):
        says = f"{seen.id} took the cursor of {same_list[-1].id} under other filters"
        tally.broke(CURSOR, _pair(same_list[-1], seen, says))
    else:
        tally.open(CURSOR, "nothing shows that the parameter which changed chooses anything")


def _judge_return(seen: Return, origin: Page, rate: int, tally: Tally) -> None:
    """A cursor returned unchanged, under the query that gave it out, continues the walk (S44)."""
    says = f"{seen.id} returned the cursor of {origin.id} unchanged and was refused {seen.code}"
    if seen.ok:
        tally.held(WALK)
    elif seen.code != "invalid_cursor":
        return
    elif seen.limit != origin.limit:
        tally.differs(35, "allowed", "refused", _pair(origin, seen, says))
    elif rate == 0 or (seen.received - origin.sent) * rate > PROMPT:
        tally.differs(36, "no expiry", "refused later", _pair(origin, seen, says))
    else:
        tally.broke(WALK, _pair(origin, seen, says))


def _judge_status(seen: Return, options: Options, tally: Tally) -> None:
    wanted = options.default_status("invalid_cursor")
    if seen.status == wanted:
        return
    found = Evidence(f"{seen.id} was answered {seen.status}", (seen.id,), about=seen.query[2], at=seen.sent)
    if options.status("invalid_cursor") is None:
        tally.differs(16, wanted, seen.status, found)
    else:
        tally.broke(CURSOR, found)


# Whole walks


def _given(pages: Iterable[Page]) -> Given:
    given: Given = defaultdict(dict)
    giving = (page for page in pages if page.following is not None)
    for page in sorted(giving, key=lambda page: page.received):
        given[page.following or ""].setdefault(page.query, Origins([])).pages.append(page)
    return given


def _lists(pages: Iterable[Page]) -> Iterator[dict[Query, list[list[Page]]]]:
    """Return the walks of each list that one key paged through, by query."""
    lists: dict[tuple[str, str], list[Page]] = defaultdict(list)
    for page in pages:
        if _is_steady(page.query):
            lists[page.query[0], page.query[2]].append(page)
    for found in lists.values():
        walks: dict[Query, list[list[Page]]] = defaultdict(list)
        for walk in _walks(found):
            walks[walk[0].query].append(walk)
        yield walks


def _walks(pages: Sequence[Page]) -> Iterator[list[Page]]:
    """Chain each page to the latest page of its query that gave out its cursor; yields whole chains.

    A chain begins at a page without a cursor; one whose beginning is unknown is left out.
    """
    given = _given(pages)
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


def _judge_once(walk: Sequence[Page], moved: Set[str], tally: Tally) -> None:
    """No item stands on two pages of a walk, or twice on one: keyset paging moves past what it showed.

    One that was changed may have moved, where another order is kept than by creation (U37).
    """
    shown: dict[str, Page] = {}
    for page in walk:
        for item in page.items:
            if item in shown and item not in moved:
                says = f"{item} is shown by {shown[item].id} and again by {page.id} of one walk"
                tally.broke(ONCE, _pair(shown[item], page, says))
                return
            shown[item] = page
    tally.held(ONCE)


def _judge_exact(
    walk: Sequence[Page], deleted: Sequence[tuple[Micros, Micros]], exclusive: bool, tally: Tally
) -> None:
    """A page announced that comes empty, though nothing was deleted, excludes an exact has_more (U38)."""
    last = walk[-1]
    if len(walk) < 2 or last.items or not exclusive:
        return
    before = walk[-2]
    if not any(sent < last.received and received > before.sent for sent, received in deleted):
        says = f"{before.id} announced a further page, and {last.id} is empty"
        tally.differs(38, "exact", "an empty last page", _pair(before, last, says))


def _judge_complete(
    walks: Mapping[Query, list[list[Page]]],
    created: Created,
    moved: Set[str],
    began: tuple[Micros, Micros],
    tally: Tally,
) -> None:
    """An item that surely existed from before a walk began until after it ended is on one of its pages.

    Only walks that began in [`began`) are judged; others show what was there before and after them.

    Surely: it was created, or shown by the same query, before the walk began, and is shown by the same query
    again after the walk ended; ids do not come back, so it was there in between.
    """
    for query, same in walks.items():
        whole = [walk for walk in same if not walk[-1].more]
        first, last = _sightings(whole)
        for item, (told, settled) in created.get(query[:3], {}).items():
            if all(settled.get(name) == value for name, value in query[3]):
                first[item] = min(told, first.get(item, told))
        for walk, there in _present(whole, first, last):
            if began[0] <= walk[0].sent < began[1]:
                _judge_whole(walk, [item for item in there if item not in moved], tally)


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


def _judge_whole(walk: Sequence[Page], there: Sequence[str], tally: Tally) -> None:
    shown = {item for page in walk for item in page.items}
    missing = next((item for item in there if item not in shown), None)
    if missing is not None:
        says = f"the walk from {walk[0].id} to {walk[-1].id} leaves out {missing}, there before and after"
        tally.broke(COMPLETE, _pair(walk[0], walk[-1], says))
    elif there:
        tally.held(COMPLETE)
    elif len(walk) > 1:
        tally.open(COMPLETE, "nothing is known to have been there before and after the walk")


def _acting(walks: Mapping[Query, list[list[Page]]]) -> frozenset[tuple[str, str]]:
    """The (operation, parameter) that choose: a walk under it alone leaves out what was there throughout.

    What was there is what walks of the same list under other queries show before and after.
    """
    lists: dict[tuple[str, str, str], list[Query]] = defaultdict(list)
    for query in walks:
        lists[query[:3]].append(query)
    acting = set[tuple[str, str]]()
    for (_, _, operation), queries in lists.items():
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
            if (operation, name) not in acting:
                shown = {item for page in walk for item in page.items}
                if any(item not in shown for item in there):
                    acting.add((operation, name))
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


def _add_created(made: Created, seen: Observation) -> None:
    """Note what a creation told of."""
    if not seen.ok or not isinstance(seen.data, dict):
        return
    created = created_by(seen.data)
    for thing in [seen.data] if created is None else created:
        if isinstance(thing, dict) and isinstance(thing.get("id"), str):
            told = made[seen.environment, seen.key, CREATES[seen.operation]]
            settled = {name: intern(str(thing.get(name))) for name in FIXED}
            told.setdefault(thing["id"], (seen.received, settled))


def _pair(one: Page, other: Page | Return, says: str) -> Evidence:
    return Evidence(says, tuple(dict.fromkeys((one.id, other.id))), about=other.query[2], at=other.sent)


def _evidence(page: Observation, says: str) -> Evidence:
    return Evidence(says, (page.id,), about=page.operation, at=page.sent)
