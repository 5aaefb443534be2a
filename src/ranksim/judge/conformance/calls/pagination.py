"""Judge paging: walks are whole under concurrent writes, and a cursor belongs to its query (S9, S43-S46).

A page continues any page that gave out its cursor before it was sent, so a chain of pages is a walk that a
client could have made, whoever made it. A connection of GraphQL is a list (S4), in a case of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from sys import intern

from ranksim.core.clock import DISTANT_FUTURE, HOUR, Micros
from ranksim.core.contract.views import created_by
from ranksim.core.service.operations import OPERATIONS
from ranksim.judge.conformance.calls.cursors import judge_cursor
from ranksim.judge.conformance.calls.pages import (
    COMPLETE,
    CREATES,
    CURSOR,
    DEFAULT,
    END,
    FIXED,
    LIMIT,
    ONCE,
    OVER,
    STEADY,
    WALK,
    Page,
    Query,
    Return,
    case_of,
    given_out,
    is_steady,
)
from ranksim.judge.conformance.calls.walks import (
    GOING,
    Acting,
    Created,
    Deleted,
    acting_in,
    judge_complete,
    judge_exact,
    judge_once,
    walks_of,
)
from ranksim.judge.conformance.history.fields import thing_of
from ranksim.judge.conformance.history.history import ALL, ObservedRun
from ranksim.judge.conformance.history.observation import Observation, ReceivedAttempt
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.rule import Breach, Cause, Requirement, Rule, declare
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

LISTS = tuple(sorted(STEADY))
"""The lists that walks are judged of."""

RULES = declare(
    Rule(
        ONCE,
        "A walk shows no item twice",
        (46,),
        (37,),
        cases=(*LISTS, OVER),
        ways=(
            Breach(46, "a walk shows an item twice", "keywords.list"),
            Breach(46, "a walk over GraphQL shows an item twice", OVER),
        ),
        needs=(Requirement.LONG_LISTS,),
    ),
    Rule(
        COMPLETE,
        "A walk shows every item that was there throughout",
        (46,),
        (37,),
        cases=(*LISTS, *(f"{name}{GOING}" for name in sorted(CREATES.values())), OVER, f"{OVER}{GOING}"),
        ways=(
            Breach(30, "a walk of GET /v1/domains ends early", "domains.list"),
            Breach(46, "a walk of several pages leaves an item out", "keywords.list"),
            Breach(
                46,
                "a walk by offsets leaves an item out when others are deleted",
                "keywords.list, while items go",
            ),
            Breach(46, "a walk over GraphQL leaves an item out", OVER),
            Breach(46, "a walk over GraphQL by offsets leaves an item out", f"{OVER}{GOING}"),
        ),
        needs=(Requirement.LONG_LISTS,),
    ),
    Rule(
        CURSOR,
        "A cursor under other filters is invalid_cursor",
        (31, 45),
        (16, 36, 100, 110),
        ways=(
            Breach(31, "a cursor of keywords holds under another list", "keywords.list by list_id"),
            Breach(45, "a cursor under other filters goes on", "keywords.list by list_id"),
            Breach(45, "a cursor under other filters goes on over GraphQL", OVER),
        ),
        needs=(Requirement.LONG_LISTS,),
    ),
    Rule(
        WALK,
        "next_cursor, returned unchanged, continues the walk",
        (44,),
        (35, 36),
        cases=(*LISTS, OVER),
        ways=(
            Breach(30, "a cursor of GET /v1/domains is refused", "domains.list"),
            Breach(44, "a cursor returned unchanged is refused", "keywords.list"),
            Breach(44, "a cursor returned unchanged over GraphQL is refused", OVER),
        ),
        needs=(Requirement.LONG_LISTS,),
    ),
    Rule(
        LIMIT,
        "A page has $page items at most, or `limit`, up to $largest",
        (43,),
        (34,),
        cases=tuple(f"{name}, {size}" for name in (*LISTS, OVER) for size in ("default", "limit", "largest")),
        ways=(
            Breach(43, "a page without a limit has more than 50", "keywords.list, default"),
            Breach(43, "a page has more than 200", "keywords.list, largest"),
            Breach(43, "a page has more than asked for", "keywords.list, limit"),
            Breach(43, "a page over GraphQL has more than `first`", f"{OVER}, limit"),
            Breach(43, "a page over GraphQL has more than 200", f"{OVER}, largest"),
            Breach(43, "a page over GraphQL without `first` has more than 50", f"{OVER}, default"),
        ),
        needs=(Requirement.LONG_LISTS,),
    ),
    Rule(
        END,
        "next_cursor is null exactly when no further page exists",
        (9, 44),
        (38,),
        ways=(
            Breach(9, "the last page has a `next_cursor`", "a last page"),
            Breach(9, "a page before others has none", "a page before others"),
            Breach(44, "has_more is told on the last page", "a last page"),
            Breach(44, "a page over GraphQL before others has no `endCursor`", OVER),
        ),
        follows=(Cause("resource.envelope", "what stands elsewhere is missing here"),),
        essential={
            "a last page": "no last page was seen",
            "a page before others": "no page before others was seen",
        },
    ),
    Rule(
        DEFAULT,
        "Without a limit a page has $page items where more are there",
        (43,),
        (34, 38),
        cases=(*LISTS, OVER),
        ways=(
            Breach(43, "a page without a limit has fewer, and more are there", "keywords.list"),
            Breach(43, "a page over GraphQL without `first` has fewer, and more are there", OVER),
        ),
        needs=(Requirement.LONG_LISTS,),
    ),
    exercise="walk",
    looks_at=("?limit", "?cursor", "has_more", "next_cursor"),
)

REMEMBERED = 12 * HOUR
"""Business time before and after a walk that can show what was there; what was sent before is forgotten."""


@dataclass(frozen=True, slots=True)
class BriefsReply:
    """The briefs that a reply listed, or stated to be created; `lost`: nobody saw whether any were."""

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
        """Forget what was sent or created before an instant; return whether anything is left."""
        self.pages = [page for page in self.pages if page.sent >= edge]
        self.returned = [seen for seen in self.returned if seen.sent >= edge]
        for items in self.created.values():
            for item in [item for item, (since, _) in items.items() if since < edge]:
                del items[item]
        return bool(self.pages or self.returned or any(self.created.values()))


def _number(limit: str) -> int:
    """Return the positive number that a limit writes, 0 for any other text; more than nine digits are cut."""
    return int(limit[:9]) if limit.isascii() and limit.isdigit() else 0


@dataclass(slots=True)
class PageSizes:
    """The sizes of the pages of one list that say that more are there."""

    plain: dict[int, list[str]] = field(default_factory=dict)
    """Of pages without a limit: the first ids of each size."""
    full: dict[int, str] = field(default_factory=dict)
    """Of pages that are as long as they were asked for: an id of each size."""
    short: bool = False
    """Whether some page was shorter than it was asked for, and more were there."""

    def add(self, page: Observation, default: int) -> None:
        """Note a page that says that more are there."""
        wanted, count = page.query.get("limit"), len(page.data)
        if wanted is None:
            same = self.plain.setdefault(count, [])
            if len(same) < SURE:
                same.append(page.id)
        elif 0 < _number(wanted) <= default:
            if count == int(wanted):
                self.full.setdefault(count, page.id)
            else:
                self.short = True


SURE = 2
"""Pages of one size by which a deployment shows how many it gives where none are asked for."""


@dataclass
class PaginationJudge:
    """Judges every page as it comes, and every whole walk of a list, key by key."""

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    keys: dict[str, KeyCalls] = field(default_factory=dict)
    patched: dict[str, Micros] = field(default_factory=dict)
    """When a PATCH that may have changed a thing was last sent, by its id."""
    deleted: list[Deleted] = field(default_factory=list)
    """What may have been deleted: [sent, received] of each DELETE, and the id that it named."""
    briefs: list[BriefsReply] = field(default_factory=list)
    """What listed or made briefs."""
    names: dict[str, str] = field(default_factory=dict)
    """The items that pages show, their cursors and the limits that they ask for, each once."""
    queries: dict[Query, Query] = field(default_factory=dict)
    """Likewise what pages ask for."""
    acting: set[Acting] = field(default_factory=set)
    """The parameters that walks showed to choose."""
    too_large: Evidence | None = None
    """The first refusal of a limit above the largest page size, where that is assumed to be clamped."""
    sizes: dict[tuple[str, str, str, str], PageSizes] = field(default_factory=dict)
    """By environment, account, list and surface."""
    judged: Micros = DISTANT_FUTURE
    """Walks that began before were judged; at first, when the first call was sent."""

    def wants(self, like: Observation) -> bool:
        """All calls: any may have a cursor."""
        return True

    def see(self, seen: Observation) -> None:
        """Judge a page by itself; keep pages, cursors, creations and changes for the walks."""
        self.judged = min(self.judged, seen.sent)
        if seen.has_more is not None:
            _judge_page(seen, self.options, self.tally)
            if seen.has_more and seen.operation in STEADY:
                place = seen.environment, seen.account, seen.operation, seen.surface
                self.sizes.setdefault(place, PageSizes()).add(seen, self.options.facts.page_default)
        if seen.has_more is not None or seen.operation in CREATES or "cursor" in seen.query:
            self._keep(seen, self.keys.setdefault(seen.key, KeyCalls()))
        if seen.updates and seen.parameters:
            self.patched[seen.parameters["id"]] = seen.sent
        elif seen.method == "DELETE":
            self.deleted.append((seen.sent, seen.received, seen.parameters.get("id", "")))
        if seen.operation in ("keyword_briefs.list", "keyword_briefs.create"):
            self.briefs.append(self._briefs_of(seen))
        refused = seen.status in (400, 422) and seen.surface == "rest"
        if seen.operation in STEADY and refused and seen.query.keys() == {"limit"}:
            self._see_too_large(seen, seen.query["limit"])

    def _keep(self, seen: Observation, calls: KeyCalls) -> None:
        """Keep what a call created, the page that it showed and the cursor that it returned."""
        if seen.operation in CREATES:
            _add_created(calls.created, seen)
        query, names = self._query(seen), self.names
        cursor, limit, following = (
            None if text is None else names.setdefault(text, text)
            for text in (seen.query.get("cursor"), seen.query.get("limit"), seen.next_cursor)
        )
        if seen.has_more is not None and (is_steady(query) or cursor or following):
            listed = seen.data if is_steady(query) else ()
            items = tuple(names.setdefault(item, item) for item in listed)
            shape = (items, following, seen.has_more)
            calls.pages.append(Page(seen.id, seen.sent, seen.received, query, cursor, limit, *shape))
        if cursor is not None and not seen.lost and seen.operation:
            answer = (seen.ok, seen.code, seen.status)
            calls.returned.append(Return(seen.id, seen.sent, seen.received, query, cursor, limit, *answer))

    def _briefs_of(self, seen: Observation) -> BriefsReply:
        if seen.operation == "keyword_briefs.list":
            listed = seen.data if isinstance(seen.data, tuple) else ()
            return BriefsReply(
                seen.sent, seen.received, tuple(self.names.setdefault(item, item) for item in listed)
            )
        if seen.dry_run:
            return BriefsReply(seen.sent, seen.received, ())
        made = thing_of(seen) if seen.ok else {}
        things = [made, *(created_by(made) or ())]
        named = [str(thing["id"]) for thing in things if isinstance(thing, dict) and "id" in thing]
        untold = seen.lost or seen.status >= 500 or (seen.surface == "graphql" and not named)
        lost = seen.happened is not False and untold
        return BriefsReply(seen.sent, seen.received, tuple(named), created=True, lost=lost)

    def _query(self, seen: Observation) -> Query:
        filters = tuple(sorted((k, v) for k, v in seen.query.items() if k not in ("cursor", "limit")))
        query = (seen.environment, seen.key, seen.operation, filters, seen.surface)
        return self.queries.setdefault(query, query)

    def see_attempt(self, attempt: ReceivedAttempt) -> None:
        """No rule here speaks of webhooks."""

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Twice a day, judge the walks that began half a day ago, and the cursors that were returned since.

        What was sent half a day before later walks stays: it shows what was there, and gave out cursors.
        """
        span = REMEMBERED // max(1, run.rate)
        edge = watermark if watermark == DISTANT_FUTURE else watermark - span
        if edge < self.judged + span and watermark < DISTANT_FUTURE:
            return
        began, self.judged = self.judged, edge
        self._judge_walks((began, edge), run)
        self._judge_returned(watermark, run.rate)
        for (_, _, operation, surface), sizes in self.sizes.items():
            _judge_default(operation, case_of(operation, surface), sizes, self.options, self.tally)
        self.sizes.clear()
        if watermark == DISTANT_FUTURE and self.too_large is not None:
            self.tally.differs(34, "clamp", "refuse", self.too_large)
        self._forget(edge - span if watermark < DISTANT_FUTURE else edge)

    def _judge_walks(self, began: tuple[Micros, Micros], run: ObservedRun) -> None:
        """Judge the walks that began in [`began`), and learn which parameters choose."""
        moved = self.patched.keys() | run.mutated | _refreshed(self.briefs)
        alike = _alike(self.keys.values()) if moved else None
        for calls in self.keys.values():
            for walks in walks_of(calls.pages):
                for walk in chain.from_iterable(walks.values()):
                    if not began[0] <= walk[0].sent < began[1]:
                        continue
                    if not _kept_in_place(walk[0].query, run, alike):
                        self.tally.open(
                            ONCE, "a change that was not captured, or cannot be read, may have moved an item"
                        )
                    else:
                        judge_once(walk, moved, self.tally)
                        judge_exact(walk, self.deleted, run.exclusive, self.tally)
                if all(_kept_in_place(query, run, alike) for query in walks):
                    judge_complete(walks, calls.created, moved, self.deleted, began, self.tally)
                self.acting |= acting_in(walks)

    def _judge_returned(self, watermark: Micros, rate: int) -> None:
        """Judge the cursors whose return was answered by the watermark."""
        for calls in self.keys.values():
            given = given_out(calls.pages)
            answered = [seen for seen in calls.returned if seen.received <= watermark]
            calls.returned = [seen for seen in calls.returned if seen.received > watermark]
            for seen in answered:
                origins = given.get(seen.cursor, {})
                judge_cursor(seen, origins, self.acting, rate, self.options, self.tally)

    def _forget(self, edge: Micros) -> None:
        """Forget what was sent before an instant."""
        self.keys = {key: calls for key, calls in self.keys.items() if calls.forget(edge)}
        pages = [page for calls in self.keys.values() for page in calls.pages]
        self.names = {item: item for page in pages for item in page.items}
        self.queries = {page.query: page.query for page in pages}
        self.patched = {name: sent for name, sent in self.patched.items() if sent >= edge}
        self.deleted = [deletion for deletion in self.deleted if deletion[0] >= edge]
        self.briefs = [briefs for briefs in self.briefs if briefs.sent >= edge]

    def _see_too_large(self, seen: Observation, wanted: str) -> None:
        """A limit above the largest page size is clamped by default; a refusal excludes that (U34)."""
        if _number(wanted) > self.options.facts.page_max:
            evidence = _evidence(seen, f"{seen.id} asked for {wanted} items and was refused {seen.status}")
            if self.options.candidates("page_limit_over") == ("clamp",):
                self.tally.broke(LIMIT, evidence, case=f"{case_of(seen.operation, seen.surface)}, largest")
            elif self.too_large is None:
                self.too_large = evidence


def _alike(keys: Iterable[KeyCalls]) -> set[tuple[str, str]]:
    """Return the (environment, list) whose items have the same ids over GraphQL as over REST (U83)."""
    over_rest, over_graphql = (
        defaultdict[tuple[str, str], set[str]](set),
        defaultdict[tuple[str, str], set[str]](set),
    )
    for calls in keys:
        for page in calls.pages:
            ids = over_graphql if page.query[4] == "graphql" else over_rest
            ids[page.query[0], page.query[2]].update(page.items)
        for (environment, _, listed), items in calls.created.items():
            over_rest[environment, listed].update(items)
    return {place for place, items in over_graphql.items() if not items.isdisjoint(over_rest[place])}


def _kept_in_place(query: Query, run: ObservedRun, alike: set[tuple[str, str]] | None) -> bool:
    """Return whether no change that was not captured, or cannot be read, can have moved an item (U37).

    The items of some lists cannot be changed over the API, or made anew. What was changed is known by its id
    of REST: `alike` are the lists that have it over GraphQL, too, None where nothing was changed.
    """
    noun = query[2].partition(".")[0]
    if noun != "keyword_briefs" and f"{noun}.update" not in OPERATIONS:
        return True
    recognised = alike is None or query[4] != "graphql" or (query[0], query[2]) in alike
    return recognised and run.captured and run.changed.isdisjoint((noun, ALL))


def _refreshed(replies: Sequence[BriefsReply]) -> set[str]:
    """Return the briefs that a list or a creation had named before a creation named them again.

    One that is refreshed may stay the same brief, and move (U37); a call without an answer may refresh any.
    """
    ids, refreshed = set[str](), set[str]()
    for briefs in sorted(replies, key=lambda briefs: briefs.received):
        if briefs.created:
            refreshed |= ids.intersection(briefs.ids)
        ids.update(briefs.ids)
    return ids if any(briefs.lost for briefs in replies) else refreshed


def _judge_default(operation: str, case: str, sizes: PageSizes, options: Options, tally: Tally) -> None:
    """A deployment that fills pages when it is asked for more fills those of its default size, too (S43).

    Pages may be shorter than asked for while more are there, where has_more is not exact (U38); so it counts
    only where all that were asked for were full, and all others of one smaller size.
    """
    default = options.facts.page_default
    for name in sizes.plain.get(default, ())[:1]:
        tally.held(DEFAULT, case=case, by=(name,))
    if len(sizes.plain) != 1 or sizes.short:
        return
    [(count, ids)] = sizes.plain.items()
    more = [name for size, name in sorted(sizes.full.items()) if size > count]
    if count < default and len(ids) == SURE and more:
        says = (
            f"{ids[0]} and {ids[1]} asked for no limit and got {count} items with more to come, and "
            f"{more[-1]} asked for more and got them"
        )
        tally.broke(DEFAULT, Evidence(says, (*ids, more[-1]), about=operation), case=case)


# One page


def _judge_page(page: Observation, options: Options, tally: Tally) -> None:
    """One reply is enough: the page is no larger than asked for, and ends as it says.

    What a limit that is no positive number asks for is unstated (U34), but for the largest size.
    """
    wanted, largest = page.query.get("limit"), options.facts.page_max
    most = options.facts.page_default if wanted is None else largest
    if wanted is not None and 0 < _number(wanted) < largest:
        most = int(wanted)
    elif wanted is not None and _number(wanted) == 0:
        tally.differs(34, "422", page.status, _evidence(page, f"{page.id} asked for limit {wanted!r}"))
    count = len(page.data)
    size = "default" if wanted is None else "largest" if most == largest else "limit"
    case = f"{case_of(page.operation, page.surface)}, {size}"
    if count <= most:  # only where more items than fit are there a longer page could be
        tally.held(LIMIT, case=case if count == most and page.has_more else None, by=(page.id,))
    else:
        says = f"{page.id} asked for {wanted or 'no limit'} and got {count} items"
        tally.broke(LIMIT, replace(_evidence(page, says), expected=f"{most} items at most"), case=case)
    _judge_end(page, tally)


def _judge_end(page: Observation, tally: Tally) -> None:
    """A page has a cursor just where more is there; a last one over GraphQL may have one, too (U83)."""
    place = "a page before others" if page.has_more else "a last page"
    if page.surface == "graphql":
        place = OVER
        if not page.has_more:
            return
    if page.has_more == (page.next_cursor is not None):
        tally.held(END, case=place, by=(page.id,))
    else:
        says = f"{page.id} says has_more {str(page.has_more).lower()} with next_cursor {page.next_cursor!r}"
        expected = f"{'a' if page.has_more else 'no'} next_cursor"
        tally.broke(END, replace(_evidence(page, says), expected=expected), case=place)


def _add_created(made: Created, seen: Observation) -> None:
    """Note what a creation made."""
    if not seen.ok or not isinstance(seen.data, dict):
        return
    created = created_by(seen.data)
    for thing in [seen.data] if created is None else created:
        if isinstance(thing, dict) and isinstance(thing.get("id"), str):
            items = made[seen.environment, seen.key, CREATES[seen.operation]]
            settled = {name: intern(str(thing.get(name))) for name in FIXED}
            items.setdefault(thing["id"], (seen.received, settled))


def _evidence(page: Observation, says: str) -> Evidence:
    return Evidence(says, (page.id,), about=page.operation, at=page.sent)
