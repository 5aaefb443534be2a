"""The rules of paging, the pages of lists, and the cursors that they gave out (S9, S43-S46)."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ranksim.core.clock import Micros
from ranksim.judge.conformance.verdict.rule import Breach, Cause, Requirement, Rule, declare

ONCE = "paging.once"
COMPLETE = "paging.complete"
CURSOR = "paging.cursor"
WALK = "paging.walk"
LIMIT = "paging.limit"
END = "paging.end"
DEFAULT = "paging.default"

OVER = "over GraphQL"
"""The case of whatever list is asked for there: one code serves all connections."""

GOING = ", while items go"
"""Behind a list: an item that a page had shown was deleted before the next page was asked for."""

CREATES = {
    f"{noun}.create": f"{noun}.list"
    for noun in (*("domains", "keyword_lists", "labels", "competitors"), *("scans", "keywords", "webhooks"))
}
"""Which list shows what an operation creates."""

STEADY = frozenset(CREATES.values()) | {"jobs.list", "keyword_briefs.list"}
"""Lists whose items keep their place until they are deleted, and then do not come back."""

FIXED = frozenset({"domain_id", "list_id", "kind"})
"""Filters whose items stay, as what they ask for is settled at creation, but for an endpoint's domain."""

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
        "A walk shows every item that was there throughout, and none that was gone",
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


class Query(NamedTuple):
    """What one walk asks for."""

    environment: str
    key: str
    operation: str
    filters: tuple[tuple[str, str], ...]
    surface: str

    @property
    def list(self) -> tuple[str, str, str, str]:
        """What it lists, and where, for whom and on which surface."""
        return self.environment, self.key, self.operation, self.surface

    @property
    def case(self) -> str:
        """The case of its list."""
        return case_of(self.operation, self.surface)

    @property
    def steady(self) -> bool:
        """Whether what it asks for keeps its place until it is deleted, so that its walks are judged."""
        names = {name for name, _ in self.filters}
        moves = self.operation == "webhooks.list" and names
        return self.operation in STEADY and names <= FIXED and not moves


def noun_of(operation: str) -> str:
    """Return the noun of an operation, as its name has it."""
    return operation.partition(".")[0]


def case_of(operation: str, surface: str) -> str:
    """Return the case of a list: itself, or that of any over GraphQL."""
    return OVER if surface == "graphql" else operation


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


def given_out(pages: Iterable[Page]) -> Given:
    """Return which pages gave out each cursor, by query, in order of receiving."""
    given: Given = defaultdict(dict)
    for page in sorted(pages, key=lambda page: page.received):
        if page.following is not None:
            given[page.following].setdefault(page.query, Origins([])).pages.append(page)
    return given
