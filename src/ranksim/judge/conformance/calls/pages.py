"""Pages of lists, and the cursors that they gave out."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from ranksim.core.clock import Micros
from ranksim.judge.conformance.verdict.verdicts import Evidence

ONCE = "paging.once"
COMPLETE = "paging.complete"
CURSOR = "paging.cursor"
WALK = "paging.walk"
LIMIT = "paging.limit"
END = "paging.end"
DEFAULT = "paging.default"

Query: TypeAlias = tuple[str, str, str, tuple[tuple[str, str], ...], str]
"""Environment, key, operation, filters and surface: what one walk asks for."""

OVER = "over GraphQL"
"""The case of whatever list is asked for there: one code serves all connections."""


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


def case_of(operation: str, surface: str) -> str:
    """Return the case of a list: itself, or that of any over GraphQL."""
    return OVER if surface == "graphql" else operation


def listed(query: Query) -> str:
    """Return the case of the list that a query asks for."""
    return case_of(query[2], query[4])


def is_steady(query: Query) -> bool:
    """Whether what a query asks for keeps its place until it is deleted, so that its walks are judged."""
    _, _, operation, filters, _ = query
    names = {name for name, _ in filters}
    moves = operation == "webhooks.list" and names
    return operation in STEADY and names <= FIXED and not moves


def given_out(pages: Iterable[Page]) -> Given:
    """Return which pages gave out each cursor, by query, in order of receiving."""
    given: Given = defaultdict(dict)
    giving = (page for page in pages if page.following is not None)
    for page in sorted(giving, key=lambda page: page.received):
        given[page.following or ""].setdefault(page.query, Origins([])).pages.append(page)
    return given


def pair(earlier: Page, later: Page | Return, says: str) -> Evidence:
    """Return the evidence of two calls, about the later."""
    return Evidence(says, tuple(dict.fromkeys((earlier.id, later.id))), about=later.query[2], at=later.sent)
