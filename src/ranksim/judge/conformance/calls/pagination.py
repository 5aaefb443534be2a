"""Judge paging: walks are whole under concurrent writes, and a cursor belongs to its query (S9, S43-S46).

A page continues any page that gave out its cursor before it was sent, so a chain of pages is a walk that a
client could have made, whoever made it. A connection of GraphQL is a list (S4), in a case of its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from sys import intern
from typing import TypeAlias

from ranksim.core.clock import DISTANT_FUTURE, HOUR, Micros
from ranksim.core.contract.views import created_by
from ranksim.core.service.operations import OPERATIONS
from ranksim.judge.conformance.calls.items import (
    CREATE,
    MADE,
    Creation,
    Deletion,
    ListedItems,
    Walk,
)
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
    noun_of,
)
from ranksim.judge.conformance.calls.walks import (
    Acting,
    Began,
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
from ranksim.judge.conformance.possible import ModelCall
from ranksim.judge.conformance.verdict.options import Options
from ranksim.judge.conformance.verdict.verdicts import Evidence, Tally

REMEMBERED = 12 * HOUR
"""Business time before and after a walk that can show what was there; what was sent before is forgotten."""


@dataclass
class KeyCalls:
    """What one key paged through, returned a cursor to, or created."""

    account: str
    pages: list[Page] = field(default_factory=list)
    returned: list[Return] = field(default_factory=list)
    created: dict[tuple[str, str], dict[str, Creation]] = field(default_factory=lambda: defaultdict(dict))
    """By environment, list and id."""

    def forget(self, edge: Micros) -> bool:
        """Forget what was sent or created before an instant; return whether anything is left."""
        self.pages = [page for page in self.pages if page.sent >= edge]
        self.returned = [seen for seen in self.returned if seen.sent >= edge]
        for items in self.created.values():
            for item in [item for item, made in items.items() if made.call.received < edge]:
                del items[item]
        return bool(self.pages or self.returned or any(self.created.values()))

    def take_answered(self, watermark: Micros) -> list[Return]:
        """Take out the returns of cursors that were answered by the watermark."""
        answered = [seen for seen in self.returned if seen.received <= watermark]
        self.returned = [seen for seen in self.returned if seen.received > watermark]
        return answered


SURE = 2
"""Pages of one size by which a deployment shows how many it gives where none are asked for."""

PageSizes: TypeAlias = dict[tuple[int | None, int], list[str]]
"""The first pages that say that more are there, by how many items they were asked for, and show."""


@dataclass
class PaginationJudge(Judge):
    """Judges every page as it comes, and every whole walk of a list, key by key."""

    options: Options
    tally: Tally = field(default_factory=lambda: Tally(RULES))
    keys: dict[str, KeyCalls] = field(default_factory=dict)
    patched: dict[str, Micros] = field(default_factory=dict)
    """When a PATCH that may have changed a thing was last sent, by its id."""
    deletions: dict[tuple[str, str], list[Deletion]] = field(default_factory=lambda: defaultdict(list))
    """By environment and noun."""
    emptied: set[tuple[str, str]] = field(default_factory=set)
    """The nouns, in each environment, of which anything may ever have been deleted."""
    named: dict[str, Micros] = field(default_factory=dict)
    """When a reply first named a brief."""
    remade: dict[str, Micros] = field(default_factory=dict)
    """When the last creation that names a brief was answered; "" stands for any, where one was lost."""
    queries: dict[Query, Query] = field(default_factory=dict)
    """What pages ask for, each once."""
    acting: set[Acting] = field(default_factory=set)
    """The parameters that walks showed to choose."""
    too_large: Evidence | None = None
    """The first refusal of a limit above the largest page size, where that is assumed to be clamped."""
    sizes: dict[tuple[str, str, str, str], PageSizes] = field(default_factory=lambda: defaultdict(dict))
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
                limit, count = seen.query.get("limit"), len(seen.data)
                wanted = None if limit is None else _number(limit)
                if wanted is None or 0 < wanted <= self.options.facts.page_default:
                    same = self.sizes[place].setdefault((wanted, count), [])
                    same += [seen.id] * (len(same) < SURE)
        if seen.has_more is not None or seen.operation in CREATES or "cursor" in seen.query:
            self._keep(seen, self.keys.setdefault(seen.key, KeyCalls(seen.account)))
        if seen.updates and seen.parameters:
            self.patched[seen.parameters["id"]] = seen.sent
        elif seen.method == "DELETE" and (seen.status == 404 or not 400 <= seen.status <= 499):
            noun = seen.environment, noun_of(seen.operation)
            self.deletions[noun].append(Deletion.of(seen))
            self.emptied |= {noun} if seen.status != 404 else set()
        if seen.operation in ("keyword_briefs.list", "keyword_briefs.create"):
            self._name_briefs(seen)
        refused = seen.status in (400, 422) and seen.surface == "rest"
        if seen.operation in STEADY and refused and seen.query.keys() == {"limit"}:
            self._see_too_large(seen, seen.query["limit"])

    def _keep(self, seen: Observation, calls: KeyCalls) -> None:
        """Keep what a call created, the page that it showed and the cursor that it returned."""
        if seen.operation in CREATES:
            _add_created(calls.created, seen)
        query = self._query(seen)
        texts = seen.query.get("cursor"), seen.query.get("limit"), seen.next_cursor
        cursor, limit, following = (text and intern(text) for text in texts)
        call = seen.id, seen.sent, seen.received, query
        if seen.has_more is not None and (query.steady or cursor or following):
            items = tuple(map(intern, seen.data if query.steady else ()))
            calls.pages.append(Page(*call, cursor, limit, items, following, seen.has_more))
        if cursor is not None and not seen.lost and seen.operation:
            calls.returned.append(Return(*call, cursor, limit, seen.ok, seen.code, seen.status))

    def _query(self, seen: Observation) -> Query:
        filters = tuple(sorted((k, v) for k, v in seen.query.items() if k not in ("cursor", "limit")))
        query = Query(seen.environment, seen.key, seen.operation, filters, seen.surface)
        return self.queries.setdefault(query, query)

    def _name_briefs(self, seen: Observation) -> None:
        """Note which briefs a reply lists, or states to be created, or that nobody saw whether any were."""
        if seen.operation == "keyword_briefs.list":
            names = list(seen.data if isinstance(seen.data, tuple) else ())
        elif seen.dry_run:
            return
        else:
            made = thing_of(seen) if seen.ok else {}
            things = [made, *(created_by(made) or ())]
            names = [str(thing["id"]) for thing in things if isinstance(thing, dict) and "id" in thing]
            unseen = seen.outcome_unknown or seen.surface == "graphql"
            if unseen and not names and seen.happened is not False:
                names = [""]
            at = seen.sent if seen.lost else seen.received
            self.remade |= {name: max(at, self.remade.get(name, 0)) for name in names}
        for name in names:
            self.named[name] = min(seen.received, self.named.get(name, DISTANT_FUTURE))

    def _moved(self, run: ObservedRun) -> set[str]:
        """Return what may have another place since, where the order is not that of creation (U37).

        A brief that is made again may stay the same one and move; a call without an answer may do so to any.
        """
        remade = {name for name, received in self.remade.items() if received > self.named[name]}
        return {*self.patched, *run.mutated, *(self.named if "" in self.remade else remade)}

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
                writes = partial(self._writes, seen.query, calls)
                judge_cursor(seen, origins, self.acting, writes, run.rate, self.options, self.tally)
        for (_, _, operation, surface), sizes in self.sizes.items():
            self._judge_default(operation, case_of(operation, surface), sizes)
        self.sizes.clear()
        if ended and self.too_large is not None:
            self.tally.differs(34, "clamp", "refuse", self.too_large)
        self._forget(edge if ended else edge - span)

    def _judge_walks(self, began: Began, run: ObservedRun) -> None:
        """Judge the walks that began in [`began`), and learn which parameters choose."""
        moved = self._moved(run)
        alike = _alike(self.keys.values()) if moved else None
        for calls in self.keys.values():
            walks = walks_of(calls.pages)
            for query, same in walks.items():
                writes = partial(self._writes, query, calls)
                ours = [walk for walk in same if began[0] <= walk[0].sent < began[1]]
                if not _kept_in_place(query, run, alike):
                    for _ in ours:
                        says = "a change that was not captured, or cannot be read, may have moved an item"
                        self.tally.open(ONCE, says)
                    continue
                for walk in ours:
                    judge_once(walk, moved, writes, self.tally)
                    judge_exact(walk, chain.from_iterable(self.deletions.values()), run.exclusive, self.tally)
                listing = self._listing(query, same, calls, run)
                judge_complete(listing, moved, began, self.tally)
            self.acting.update([*acting_in(walks, self.acting)])

    def _listing(self, query: Query, walks: Sequence[Walk], calls: KeyCalls, run: ObservedRun) -> ListedItems:
        """Return what a query listed, with what made and deleted such things."""
        place = environment, noun = query.environment, noun_of(query.operation)
        created, filters = calls.created[environment, query.operation], {*query.filters}
        others = any(where == environment and other != noun for where, other in self.emptied)
        return ListedItems(
            query,
            calls.account,
            [walk for walk in walks if not walk[-1].more],
            {item: made.call for item, made in created.items() if made.settled.items() >= filters},
            self.deletions[place],
            partial(self._writes, query, calls),
            alone=run.exclusive and run.changed.isdisjoint((noun, ALL)) and not others,
        )

    def _writes(self, query: Query, calls: KeyCalls) -> Iterator[tuple[str, ModelCall]]:
        """Yield what the account of a key created and deleted of what a query lists, and the item's id."""
        for other in self.keys.values():
            if other.account == calls.account:
                created = other.created.get((query.environment, query.operation), {})
                yield from ((item, made.call) for item, made in created.items())
        for deletion in self.deletions.get((query.environment, noun_of(query.operation)), ()):
            if deletion.account == calls.account:
                yield deletion.name, deletion.call

    def _forget(self, edge: Micros) -> None:
        """Forget what was sent before an instant."""
        self.keys = {key: calls for key, calls in self.keys.items() if calls.forget(edge)}
        self.queries = {page.query: page.query for calls in self.keys.values() for page in calls.pages}
        self.patched = {name: sent for name, sent in self.patched.items() if sent >= edge}
        for same in self.deletions.values():
            same[:] = [each for each in same if each.call.received >= edge or each.call.reply is None]
        self.remade = {name: at for name, at in self.remade.items() if at >= edge}
        self.named = {name: at for name, at in self.named.items() if at >= edge or name in self.remade}

    def _see_too_large(self, seen: Observation, wanted: str) -> None:
        """A limit above the largest page size is clamped by default; a refusal excludes that (U34)."""
        if _number(wanted) > self.options.facts.page_max:
            evidence = _evidence(seen, f"{seen.id} asked for {wanted} items and was refused {seen.status}")
            if self.options.must_be("page_limit_over", "clamp"):
                self.tally.broke(LIMIT, evidence, case=f"{case_of(seen.operation, seen.surface)}, largest")
            elif self.too_large is None:
                self.too_large = evidence

    def _judge_default(self, operation: str, case: str, sizes: PageSizes) -> None:
        """A deployment that fills pages when it is asked for more fills those of its default size, too (S43).

        Pages may be shorter than asked for while more are there, where has_more is not exact (U38); so it
        counts only where all that were asked for were full, and all others of one smaller size.
        """
        default = self.options.facts.page_default
        plain = {count: ids for (wanted, count), ids in sizes.items() if wanted is None}
        for name in plain.get(default, ())[:1]:
            self.tally.held(DEFAULT, case=case, by=(name,))
        limited = sorted((wanted, count) for wanted, count in sizes if wanted is not None)
        if len(plain) != 1 or any(wanted != count for wanted, count in limited):
            return
        [(count, ids)] = plain.items()
        if count < default and len(ids) == SURE and limited and limited[-1][0] > count:
            more = sizes[limited[-1]][0]
            says = (
                f"{ids[0]} and {ids[1]} asked for no limit and got {count} items with more to come, and "
                f"{more} asked for more and got them"
            )
            self.tally.broke(DEFAULT, Evidence(says, (*ids, more), about=operation), case=case)

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
        for (environment, listed), items in calls.created.items():
            ids["rest"][environment, listed].update(items)
    return {place for place, items in ids["graphql"].items() if not items.isdisjoint(ids["rest"][place])}


def _kept_in_place(query: Query, run: ObservedRun, alike: set[tuple[str, str]] | None) -> bool:
    """Return whether no change that was not captured, or cannot be read, can have moved an item (U37).

    The items of some lists cannot be changed over the API, or made anew. What was changed is known by its id
    of REST: `alike` are the lists that have it over GraphQL, too, None where nothing was changed.
    """
    noun = noun_of(query.operation)
    if noun != "keyword_briefs" and f"{noun}.update" not in OPERATIONS:
        return True
    recognised = alike is None or query.surface != "graphql" or (query.environment, query.operation) in alike
    return recognised and run.captured and run.changed.isdisjoint((noun, ALL))


def _add_created(made: dict[tuple[str, str], dict[str, Creation]], seen: Observation) -> None:
    """Note what a creation made."""
    if not seen.ok or not isinstance(seen.data, dict):
        return
    created = created_by(seen.data)
    for thing in [seen.data] if created is None else created:
        if isinstance(thing, dict) and isinstance(thing.get("id"), str):
            settled = {name: intern(str(thing.get(name))) for name in FIXED}
            call = ModelCall(seen.sent, seen.received, CREATE, MADE, seen.id)
            made[seen.environment, CREATES[seen.operation]].setdefault(thing["id"], Creation(call, settled))
