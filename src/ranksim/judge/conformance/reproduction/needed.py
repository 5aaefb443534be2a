"""What an exchange stands on: the earlier ones whose replies gave out the ids and cursors that it names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from ranksim.core.clock import DISTANT_FUTURE, Micros
from ranksim.core.records import parsed, read_lines
from ranksim.core.trace import ENTRY, Exchange, Trace
from ranksim.judge.conformance.history.trace_reader import Source

Given = dict[str, tuple[str, str]]
"""By id or cursor: the exchange whose reply gave it out, and where in it."""

_STATIC = re.compile(r"v1|[a-z-]+")
_NAMES_THINGS = re.compile(r"(.*_)?ids?|cursor")


@dataclass(slots=True)
class Provenance:
    """Exchanges by their names in reports, and which of them gave out what others name."""

    exchanges: dict[str, Exchange] = field(default_factory=dict)
    given: Given = field(default_factory=dict)

    def needed(self, names: Iterable[str]) -> list[str]:
        """Return exchanges and all that they stand on, in order of sending."""
        names_needed, left = set[str](), [name for name in names if name in self.exchanges]
        while left:
            name = left.pop()
            if name not in names_needed:
                names_needed.add(name)
                left += [self.given[token][0] for token in self.tokens(name) if token in self.given]
        return sorted(names_needed, key=lambda name: self.exchanges[name].sent)

    def tokens(self, name: str) -> set[str]:
        """Return the ids and cursors that an exchange names, as `given` has them."""
        return {_prefix(name, self.exchanges) + token for token in tokens_of(self.exchanges[name])}


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
            for exchange in _giving(source, fresh):
                for token, place in gives(exchange):
                    again = exchange.method == "POST" and prefix + token in origin.given
                    before = (exchange.received or DISTANT_FUTURE) <= sought.get(token, -1)
                    if token in fresh and before and not again:
                        origin.given[prefix + token] = prefix + exchange.id, place
                        origin.exchanges[prefix + exchange.id] = exchange
                        sought = dict.fromkeys(tokens_of(exchange), exchange.sent) | sought
    return origin


def _giving(source: Source, tokens: Set[str]) -> Iterator[Exchange]:
    """Yield the exchanges that may give out ids, which are POSTs, or cursors; few other lines are parsed."""
    if isinstance(source, Trace):
        yield from (
            entry for entry in source.exchanges if _may_give(entry.method, entry.response or "", tokens)
        )
        return
    for line in read_lines(source) if isinstance(source, str | Path) else source:
        if _may_give("POST" * ('"POST"' in line), line, tokens):
            entry = ENTRY.validate_json(line)
            if isinstance(entry, Exchange):
                yield entry


def _may_give(method: str, text: str, tokens: Set[str]) -> bool:
    words = _WORD.findall(text) if method == "POST" else _CURSOR.findall(text)
    return not tokens.isdisjoint(words)


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


def gives(exchange: Exchange) -> Iterator[tuple[str, str]]:
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
