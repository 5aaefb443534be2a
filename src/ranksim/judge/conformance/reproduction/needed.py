"""What an exchange stands on: the earlier ones whose replies gave out the ids and cursors that it names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

from ranksim.core.clock import DISTANT_FUTURE, Micros
from ranksim.core.records import parsed
from ranksim.core.trace import Exchange
from ranksim.judge.conformance.exhibits import entries_in
from ranksim.judge.conformance.history.trace_reader import Source

_STATIC = re.compile(r"v1|[a-z-]+")
_NAMES_THINGS = re.compile(r"(.*_)?ids?|cursor")


@dataclass(slots=True)
class Provenance:
    """Exchanges by their names in reports, and which of them issued what others name."""

    exchanges: dict[str, Exchange] = field(default_factory=dict)
    issuers: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By id or cursor, behind the prefix of its trace: the exchange whose reply issued it, and where."""

    def needed(self, names: Iterable[str]) -> list[str]:
        """Return exchanges and all that they stand on, in order of sending."""
        names_needed, left = set[str](), [name for name in names if name in self.exchanges]
        while left:
            name = left.pop()
            if name not in names_needed:
                names_needed.add(name)
                left += self.issuers_of(name, tokens_of(self.exchanges[name]))
        return sorted(names_needed, key=lambda name: self.exchanges[name].sent)

    def issuers_of(self, name: str, tokens: Iterable[str]) -> list[str]:
        """Return the exchanges that issued ids and cursors of another one."""
        prefix = _prefix(name, self.exchanges)
        return [self.issuers[prefix + token][0] for token in tokens if prefix + token in self.issuers]


def _prefix(name: str, exchanges: Mapping[str, Exchange]) -> str:
    return name.removesuffix(exchanges[name].id)


def provenance(
    sources: Sequence[Source], wanted: Mapping[str, Exchange], listing: Collection[str]
) -> Provenance:
    """Find what exchanges stand on in the sources that were judged; of `listing` what their pages list, too.

    Each source is read once for each step from one thing to what that belongs to.
    """
    origin = Provenance(dict(wanted))
    for number, source in enumerate(sources, 1):
        prefix = f"{number}/" if len(sources) > 1 else ""
        sought, searched = dict[str, Micros](), set[str]()
        for name, exchange in wanted.items():
            if _prefix(name, wanted) == prefix:
                listed = items_of(exchange) if name in listing else ()
                sought |= dict.fromkeys((*tokens_of(exchange), *listed), exchange.sent)
        while fresh := sought.keys() - searched:
            searched |= fresh
            entries = entries_in(source, partial(_may_issue, fresh))
            for exchange in (entry for entry in entries if isinstance(entry, Exchange)):
                for token, place in issued(exchange):
                    again = exchange.method == "POST" and prefix + token in origin.issuers
                    before = (exchange.received or DISTANT_FUTURE) <= sought.get(token, -1)
                    if token in fresh and before and not again:
                        origin.issuers[prefix + token] = prefix + exchange.id, place
                        origin.exchanges[prefix + exchange.id] = exchange
                        sought = dict.fromkeys(tokens_of(exchange), exchange.sent) | sought
    return origin


def _may_issue(tokens: Collection[str], line: str) -> bool:
    """Return whether a line may have a POST with one of these ids, or a page with such a cursor."""
    return not set(tokens).isdisjoint((_WORD if '"POST"' in line else _CURSOR).findall(line))


_WORD = re.compile(r"""[^"\\\s,{}\[\]]+""")
_CURSOR = re.compile(r"""next_?[cC]ursor\\?"\s*:\s*\\?"([^"\\]+)""")


def tokens_of(exchange: Exchange) -> set[str]:
    """Return what may be ids or cursors in what a call asks for."""
    parts = exchange.path.strip("/").split("/")
    named = {part for _, part in pairwise(parts) if not _STATIC.fullmatch(part)}
    named |= {value for name, value in (exchange.query or {}).items() if _NAMES_THINGS.fullmatch(name)}
    for place, value in places(parsed(exchange.body)):
        names = [name for name in place.split(".") if not name.isdecimal()]
        if isinstance(value, str) and names and _NAMES_THINGS.fullmatch(names[-1]):
            named.add(value)
    return named - {""}


def issued(exchange: Exchange) -> Iterator[tuple[str, str]]:
    """Yield the ids of what a call made, and the cursor of a page, each with its place in the reply."""
    if exchange.surface != "rest" or exchange.status is None or not 200 <= exchange.status <= 299:
        return
    made = "id" if exchange.method == "POST" else "next_cursor"
    for place, value in places(parsed(exchange.response)):
        if isinstance(value, str) and value and place.rpartition(".")[2] == made:
            yield value, place


def items_of(page: Exchange) -> list[str]:
    """Return the ids of the items of a page."""
    return [
        value
        for place, value in places(parsed(page.response))
        if re.fullmatch(r"data\.[0-9]+\.id", place) and isinstance(value, str)
    ]


def places(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each scalar and each empty container of a JSON value, with its place: data.0.id."""
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict | list) and value:
        inner = value.items() if isinstance(value, dict) else enumerate(value)
    else:
        yield at, value
    for name, part in inner:
        yield from places(part, f"{at}.{name}" if at else str(name))
