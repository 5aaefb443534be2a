"""Keywords that calls list: which there are, and of which domains these are all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from ranksim.core.records import parsed_object
from ranksim.core.trace import Exchange
from ranksim.judge.conformance.history.graphql import page_of, query_of
from ranksim.judge.mirror.reading import KEYWORDS, Item, shows_count

WALKED = {"domain_id", "list_id", "limit", "cursor"}
"""Parameters of a listing of all keywords of an account, a domain or a list, page by page."""

NO_LIST = "None"
"""The list of words of which no reply tells it, as a GraphQL document may leave it out."""


def listed_over_rest(exchange: Exchange) -> Exchange:
    """Return a listing of keywords over GraphQL as the REST call of the same meaning (S4, U83).

    It has no reply where that shows no keywords for certain.
    """
    reply, query = parsed_object(exchange.response) or {}, query_of(KEYWORDS, parsed_object(exchange.body))
    data = reply.get("data")
    page = None
    if query is not None and not reply.get("errors") and isinstance(data, dict) and len(data) == 1:
        page = page_of(KEYWORDS, next(iter(data.values())), query)
    response = None if page is None else json.dumps(page)
    return exchange.model_copy(update={"surface": "rest", "query": query, "response": response})


@dataclass(slots=True)
class ListedKeywords:
    """Which listings of keywords were read to the last page.

    `complete` has the ids of their domains or lists, and "" where it was one of all domains.
    """

    complete: set[str] = field(default_factory=set)
    _walks: dict[str, tuple[str, set[str]]] = field(default_factory=dict)

    def learn(
        self,
        exchange: Exchange,
        reply: Item,
        rows: Mapping[str, Item],
        words: dict[str, Any],
        bound: str | None,
    ) -> None:
        """Take a page with `rows`, of a key that may be bound to a domain.

        Of `words`, the keywords by id, it takes out what was there as the listing began, and no page has.
        """
        query = exchange.query
        if query is None or query.keys() - WALKED:
            return
        if (cursor := query.get("cursor")) is None:
            scope = query.get("list_id") or query.get("domain_id") or bound or ""
            unlisted = {
                which
                for which, word in words.items()
                if scope in ("", word.get("domain_id"), word.get("list_id"))
            }
        elif cursor in self._walks:
            scope, unlisted = self._walks[cursor]
        else:
            return
        unlisted = unlisted - rows.keys()
        if reply.get("has_more") is False:
            self.complete.add(scope)
            for which in unlisted:
                words.pop(which, None)
        else:
            self._walks[str(reply.get("next_cursor"))] = scope, unlisted

    def domains(self, lists: Mapping[str, Sequence[Item]], among: Iterable[str]) -> set[str]:
        """Return the domains of which all keywords were listed, at once or list by list."""
        lists_of = _lists_of(lists)
        return {
            domain
            for domain in among
            if domain in self.complete
            or (domain in lists_of and ("" in self.complete or lists_of[domain] <= self.complete))
        }


def counted_lists(
    lists: Mapping[str, Sequence[Item]], domains: Iterable[str], complete: AbstractSet[str], each: int | None
) -> Iterator[Item]:
    """Yield the lists of keywords of domains, counted where they are of `complete` domains.

    Other domains have `each`, or as many as are known, where not all of their lists show a count; None: as
    they are.
    """
    words = Counter((word.get("domain_id"), str(word.get("list_id"))) for word in lists.get(KEYWORDS, ()))
    rows: dict[str, dict[str, Item]] = {}
    for row in lists.get("keyword_lists.list", ()):
        rows.setdefault(str(row.get("domain_id")), {})[str(row.get("id"))] = row
    lists_of = _lists_of(lists)
    for domain in domains:
        own = rows.get(domain, {})
        counts: dict[str, int] = {which: words[domain, which] for which in sorted(lists_of.get(domain, {""}))}
        least = sum(counts.values())
        if len(counts) > 1:
            counts.pop(NO_LIST, None)
        if domain not in complete:
            counts |= {which: int(row["keyword_count"]) for which, row in own.items() if shows_count(row)}
            if each is None or (own and all(map(shows_count, own.values())) and any(counts.values())):
                yield from own.values()
                continue
            least = max(least, each)
        counts[next(iter(counts))] += max(0, least - sum(counts.values()))
        for which, count in counts.items():
            yield {"id": which, "domain_id": domain, **own.get(which, {}), "keyword_count": count}


def _lists_of(lists: Mapping[str, Sequence[Item]]) -> dict[str, set[str]]:
    """The lists of each domain, as they or their keywords name them."""
    lists_of: dict[str, set[str]] = {}
    for name, part in ((KEYWORDS, "list_id"), ("keyword_lists.list", "id")):
        for row in lists.get(name, ()):
            lists_of.setdefault(str(row.get("domain_id")), set()).add(str(row.get(part)))
    return lists_of
