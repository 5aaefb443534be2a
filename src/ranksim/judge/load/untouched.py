"""Whether what was there before a run reads the same after it, by the run's own readings in its trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ranksim.core.records import parsed_object
from ranksim.judge.deployment.ownership import NOT_OURS
from ranksim.report import units

NOUNS = {
    "domains": "domain",
    "keyword_lists": "keyword list",
    "keywords": "keyword",
    "labels": "label",
    "competitors": "competitor",
    "scans": "scan",
    "webhooks": "webhook endpoint",
}
"""What an account has, and a run might change; what was begun before it, such as jobs, goes on by itself."""

MOST_NAMED = 5
"""Things that read otherwise which are named one by one."""

Name = tuple[str, str, str]
"""A key, a noun and an id: what keys see of a thing may differ."""


@dataclass(slots=True)
class _Reading:
    """What one reading of the state showed, and which lists it walked to their ends, by key and noun."""

    things: dict[Name, Mapping[str, Any]] = field(default_factory=dict)
    whole: set[tuple[str, str]] = field(default_factory=set)

    def take(self, key: str, noun: str, reply: Mapping[str, Any]) -> None:
        items = reply.get("data")
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict) and "id" in item:
                self.things[key, noun, str(item["id"])] = item
        if reply.get("next_cursor") is None:
            self.whole.add((key, noun))


@dataclass(slots=True)
class Untouched:
    """What was there before and after, from the lines of a trace in their order, and what was written to."""

    before: _Reading = field(default_factory=_Reading)
    after: _Reading = field(default_factory=_Reading)
    written: set[str] = field(default_factory=set)
    """Ids of what the run sent a change to, or began a job on."""
    held_back: int = 0

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, Any]]) -> Untouched:
        """Read a trace."""
        untouched = cls()
        for line in lines:
            untouched.take(line)
        return untouched

    def take(self, line: Mapping[str, Any]) -> None:
        """Learn from a line."""
        if line.get("kind") == "exchange":
            self._exchange(line)
        elif line.get("kind") == "note" and line.get("text") == NOT_OURS:
            self.held_back += line["calls"]

    def _exchange(self, line: Mapping[str, Any]) -> None:
        operations: Any = line.get("operations") or [""]
        noun, _, done = str(operations[0]).partition(".")
        reading = {"before": self.before, "after": self.after}.get(str(line.get("client")))
        if reading is None:
            if line.get("method") != "GET":
                body = parsed_object(line.get("body") or "") or {}
                self.written |= {str(line.get("path")).rpartition("/")[2], str(body.get("domain_id"))}
        elif done == "list" and noun in NOUNS and line.get("status") == 200:
            reply = parsed_object(line.get("response") or "")
            if reply is not None:
                reading.take(str(line.get("api_key")), noun, reply)

    def lines(self) -> list[str]:
        """Say in a line that all reads the same; else what does not, and whether the run wrote to it."""
        held = f"{were(self.held_back, 'call')} held back, lest they write to what is not the run's"
        return [*self._compared(), *([held] if self.held_back else [])]

    def _compared(self) -> list[str]:
        after = self.after
        seen = [name for name in self.before.things if name in after.things or name[:2] in after.whole]
        if not seen:
            return []
        other: dict[tuple[str, str], str] = {}
        for name in seen:
            how = self._differs(name)
            if how:
                other.setdefault(name[1:], how)
        unique = {name[1:] for name in seen}
        kinds = Counter(noun for noun, _ in unique)
        counted = ", ".join(units.many(kinds[noun], word) for noun, word in NOUNS.items() if kinds[noun])
        if not other:
            return [f"untouched: what was there before reads the same after: {counted}"]
        same = len(unique) - len(other)
        sentences = [f"of {counted} that were there before, {units.count(same)} read the same after, not:"]
        named = [f"  {noun} {which}: {how}" for (noun, which), how in other.items()]
        sentences += named[:MOST_NAMED]
        if len(named) > MOST_NAMED:
            sentences.append(f"  and {units.count(len(named) - MOST_NAMED)} more")
        return sentences

    def _differs(self, name: Name) -> str:
        """Say in what a thing reads otherwise after, and who may have changed it; "" where in nothing."""
        was, now = self.before.things[name], self.after.things.get(name)
        if was == now:
            return ""
        fields = (
            [] if now is None else [field for field in {**was, **now} if was.get(field) != now.get(field)]
        )
        what = "gone" if now is None else ", ".join(fields)
        return f"{what} ({'the run wrote to it' if name[2] in self.written else 'not by the run'})"


def were(number: int, noun: str) -> str:
    """Begin a sentence on what was done with some things: 1 call was, 2 calls were."""
    return f"{units.many(number, noun)} {'was' if number == 1 else 'were'}"
