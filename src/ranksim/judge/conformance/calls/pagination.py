"""Judge paging: walks are whole under concurrent writes, and a cursor belongs to its query (S9, S43-S46).

A page continues any page that gave out its cursor before it was sent, so a chain of pages is a walk that a
client could have made, whoever made it. A connection of GraphQL is a list (S4), in a case of its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from sys import intern

from ranksim.core.clock import DISTANT_FUTURE, HOUR, Micros
from ranksim.core.contract.views import created_by
from ranksim.core.service.operations import OPERATIONS
from ranksim.judge.conformance.calls.pages import (
    CREATES,
    DEFAULT,
    END,
    FIXED,
    LIMIT,
    ONCE,
    OVER,
    RULES,
    STEADY,
    Page,
    Query,
    Return,
    case_of,
    given_out,
)
from ranksim.judge.conformance.calls.walks import (
    Acting,
    Created,
    Deleted,
    acting_in,
    judge_complete,
    judge_cursor,
    judge_exact,
    judge_once,
    walks_of,
)
from ranksim.judge.conformance.history.fields import thing_of
from ranksim.judge.conformance.history.history import ALL, ObservedRun
from ranksim.judge.conformance.history.observation import Observation
from ranksim.judge.conformance.judge import Judge, evidence_of
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

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

    def take_answered(self, watermark: Micros) -> list[Return]:
        """Take out the returns of cursors that were answered by the watermark."""
        answered = [seen for seen in self.returned if seen.received <= watermark]
        self.returned = [seen for seen in self.returned if seen.received > watermark]
        return answered


SURE = 2
"""Pages of one size by which a deployment shows how many it gives where none are asked for."""


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


@dataclass
class PaginationJudge(Judge):
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

    def see(self, seen: Observation) -> None:
        """Judge a page by itself; keep pages, cursors, creations and changes for the walks."""
        self.judged = min(self.judged, seen.sent)
        if seen.has_more is not None:
            self._judge_page(seen)
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
        query, once = self._query(seen), self._once
        cursor, limit, following = map(
            once, (seen.query.get("cursor"), seen.query.get("limit"), seen.next_cursor)
        )
        call = seen.id, seen.sent, seen.received, query
        if seen.has_more is not None and (query.steady or cursor or following):
            items = tuple(self.names.setdefault(item, item) for item in (seen.data if query.steady else ()))
            calls.pages.append(Page(*call, cursor, limit, items, following, seen.has_more))
        if cursor is not None and not seen.lost and seen.operation:
            calls.returned.append(Return(*call, cursor, limit, seen.ok, seen.code, seen.status))

    def _once(self, name: str | None) -> str | None:
        return None if name is None else self.names.setdefault(name, name)

    def _query(self, seen: Observation) -> Query:
        filters = tuple(sorted((k, v) for k, v in seen.query.items() if k not in ("cursor", "limit")))
        query = Query(seen.environment, seen.key, seen.operation, filters, seen.surface)
        return self.queries.setdefault(query, query)

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
        unseen = seen.outcome_unknown or (seen.surface == "graphql" and not named)
        lost = seen.happened is not False and unseen
        return BriefsReply(seen.sent, seen.received, tuple(named), created=True, lost=lost)

    def settle(self, watermark: Micros, run: ObservedRun) -> None:
        """Twice a day, judge the walks that began half a day ago, and the cursors that were returned since.

        What was sent half a day before later walks stays: it shows what was there, and gave out cursors.
        """
        span, ended = REMEMBERED // max(1, run.rate), watermark == DISTANT_FUTURE
        edge = watermark if ended else watermark - span
        if edge < self.judged + span and not ended:
            return
        began, self.judged = self.judged, edge
        self._judge_walks((began, edge), run)
        for calls in self.keys.values():
            given = given_out(calls.pages)
            for seen in calls.take_answered(watermark):
                origins = given.get(seen.cursor, {})
                judge_cursor(seen, origins, self.acting, run.rate, self.options, self.tally)
        for (_, _, operation, surface), sizes in self.sizes.items():
            self._judge_default(operation, case_of(operation, surface), sizes)
        self.sizes.clear()
        if ended and self.too_large is not None:
            self.tally.differs(34, "clamp", "refuse", self.too_large)
        self._forget(edge if ended else edge - span)

    def _judge_walks(self, began: tuple[Micros, Micros], run: ObservedRun) -> None:
        """Judge the walks that began in [`began`), and learn which parameters choose."""
        moved = self.patched.keys() | run.mutated | _refreshed(self.briefs)
        alike = _alike(self.keys.values()) if moved else None
        for calls in self.keys.values():
            for walks in walks_of(calls.pages):
                in_place = {query: _kept_in_place(query, run, alike) for query in walks}
                for walk in chain.from_iterable(walks.values()):
                    if not began[0] <= walk[0].sent < began[1]:
                        continue
                    if in_place[walk[0].query]:
                        judge_once(walk, moved, self.tally)
                        judge_exact(walk, self.deleted, run.exclusive, self.tally)
                    else:
                        says = "a change that was not captured, or cannot be read, may have moved an item"
                        self.tally.open(ONCE, says)
                if all(in_place.values()):
                    judge_complete(walks, calls.created, moved, self.deleted, began, self.tally)
                self.acting |= acting_in(walks)

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

    def _judge_default(self, operation: str, case: str, sizes: PageSizes) -> None:
        """A deployment that fills pages when it is asked for more fills those of its default size, too (S43).

        Pages may be shorter than asked for while more are there, where has_more is not exact (U38); so it
        counts only where all that were asked for were full, and all others of one smaller size.
        """
        default = self.options.facts.page_default
        for name in sizes.plain.get(default, ())[:1]:
            self.tally.held(DEFAULT, case=case, by=(name,))
        if len(sizes.plain) != 1 or sizes.short:
            return
        [(count, ids)] = sizes.plain.items()
        more = [name for size, name in sorted(sizes.full.items()) if size > count]
        if count < default and len(ids) == SURE and more:
            says = (
                f"{ids[0]} and {ids[1]} asked for no limit and got {count} items with more to come, and "
                f"{more[-1]} asked for more and got them"
            )
            self.tally.broke(DEFAULT, Evidence(says, (*ids, more[-1]), about=operation), case=case)

    # One page

    def _judge_page(self, page: Observation) -> None:
        """One reply is enough: the page is no larger than asked for, and ends as it says.

        What a limit that is no positive number asks for is unstated (U34), but for the largest size.
        """
        wanted, facts, count = page.query.get("limit"), self.options.facts, len(page.data)
        number = 0 if wanted is None else _number(wanted)
        if wanted is None:
            most, size = facts.page_default, "default"
        elif 0 < number < facts.page_max:
            most, size = int(wanted), "limit"
        else:
            most, size = facts.page_max, "largest"
        if wanted is not None and number == 0:
            says = f"{page.id} asked for limit {wanted!r}"
            self.tally.differs(34, "422", page.status, _evidence(page, says))
        case = f"{case_of(page.operation, page.surface)}, {size}"
        if count <= most:  # only where more items than fit are there a longer page could be
            self.tally.held(LIMIT, case=case if count == most and page.has_more else None, by=(page.id,))
        else:
            says = f"{page.id} asked for {wanted or 'no limit'} and got {count} items"
            self.tally.broke(LIMIT, _evidence(page, says, f"{most} items at most"), case=case)
        # a last page over GraphQL may have a cursor, too (U83)
        if page.surface == "graphql" and not page.has_more:
            return
        place = "a page before others" if page.has_more else "a last page"
        place = OVER if page.surface == "graphql" else place
        if page.has_more == (page.next_cursor is not None):
            self.tally.held(END, case=place, by=(page.id,))
        else:
            says = (
                f"{page.id} says has_more {str(page.has_more).lower()} with next_cursor {page.next_cursor!r}"
            )
            expected = f"{'a' if page.has_more else 'no'} next_cursor"
            self.tally.broke(END, _evidence(page, says, expected), case=place)


def _evidence(page: Observation, says: str, expected: str = "") -> Evidence:
    return evidence_of(says, page, about=page.operation, expected=expected)


def _number(limit: str) -> int:
    """Return the positive number that a limit writes, 0 for any other text; more than nine digits are cut."""
    return int(limit[:9]) if limit.isascii() and limit.isdigit() else 0


def _alike(keys: Iterable[KeyCalls]) -> set[tuple[str, str]]:
    """Return the (environment, list) whose items have the same ids over GraphQL as over REST (U83)."""
    ids: dict[str, dict[tuple[str, str], set[str]]] = defaultdict(lambda: defaultdict(set))
    for calls in keys:
        for page in calls.pages:
            surface = "graphql" if page.query.surface == "graphql" else "rest"
            ids[surface][page.query.environment, page.query.operation].update(page.items)
        for (environment, _, listed), items in calls.created.items():
            ids["rest"][environment, listed].update(items)
    return {place for place, items in ids["graphql"].items() if not items.isdisjoint(ids["rest"][place])}


def _kept_in_place(query: Query, run: ObservedRun, alike: set[tuple[str, str]] | None) -> bool:
    """Return whether no change that was not captured, or cannot be read, can have moved an item (U37).

    The items of some lists cannot be changed over the API, or made anew. What was changed is known by its id
    of REST: `alike` are the lists that have it over GraphQL, too, None where nothing was changed.
    """
    noun = query.operation.partition(".")[0]
    if noun != "keyword_briefs" and f"{noun}.update" not in OPERATIONS:
        return True
    recognised = alike is None or query.surface != "graphql" or (query.environment, query.operation) in alike
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
