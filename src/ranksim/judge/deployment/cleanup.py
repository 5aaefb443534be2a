"""What a run does in its end: it finds out what became of lost calls, and removes what it created.

What it creates carries its mark, and is removed where the API allows it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ranksim.core.callers.retry import pages, politely
from ranksim.core.callers.steps import Program, Received, Send
from ranksim.judge.deployment.discovery import KeyReach, Reach, read_all

KINDS = ("scans", "webhooks", "keywords", "keyword_lists", "labels", "competitors", "domains")
"""Nouns of what runs create, in the order in which it is removed: what goes on spending and sending first,
what holds others last."""

WITHIN = KINDS[2:-1]
"""What goes with its domain where that can be removed."""

NOT_ALLOWED = frozenset({405, 501})
"""Statuses by which a deployment says that it removes nothing of a kind."""

MOST_PAGES = 250
"""Pages of one list that are looked through."""

TIDIED = "what was created was removed, as far as that was possible"
"""The note of a trace that has what is `left` of it, by kind and reason."""

SHOWN = ("host", "name", "keyword", "url")
"""Fields of a thing in which its mark stands."""

NO_TIME = "there was no time left"

READ_AFTER = ("jobs.list", "scans.list", "account.usage", "slots.get")
"""What is read then: whatever a lost call may have changed shows here."""

MARK = re.compile("ranksim-[0-9a-f]{1,12}(?![0-9a-z])")
"""What a mark looks like, within a text."""


def mark(seed: int) -> str:
    """Return the mark of a run: what its hosts, names and Idempotency-Keys begin with."""
    return f"ranksim-{seed % (1 << 48):x}"


@dataclass(frozen=True, slots=True)
class Left:
    """Things of one `kind` that were left for one reason, `why`, with the key that may see them.

    `ids` is empty where it could not even be looked for them.
    """

    kind: str
    key: str
    why: str
    ids: tuple[str, ...] = ()


@dataclass(slots=True)
class Remains:
    """What is there of what a run created, and why: each thing is taken off as it is removed.

    It is true at any instant, so that removing may be cut. `others` counts what carries other runs' marks.
    """

    others: Counter[str] = field(default_factory=Counter)
    things: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """Kind, key and id of what was found, and why it is there."""
    unlisted: dict[tuple[str, str], str] = field(default_factory=dict)
    """Kinds that were not looked for with a key, and why."""

    def listed(self) -> list[Left]:
        """Return what is there, by kind and reason."""
        groups = defaultdict[tuple[str, str, str], list[str]](list)
        for (kind, key, item), why in self.things.items():
            groups[kind, key, why].append(item)
        for (kind, key), why in self.unlisted.items():
            groups.setdefault((kind, key, why), [])
        ordered = sorted(groups.items(), key=lambda group: KINDS.index(group[0][0]))
        return [Left(kind, key, why, tuple(ids)) for (kind, key, why), ids in ordered]


@dataclass(frozen=True, slots=True)
class Created:
    """By what is told what runs created: their marks, and URLs that their endpoints' begin with."""

    marks: frozenset[str]
    urls: tuple[str, ...] = ()

    def names(self, item: Mapping[str, Any]) -> bool:
        """Return whether a thing carries a mark, or is an endpoint of theirs."""
        url = str(item.get("url") or "")
        return not self.marks.isdisjoint(marks_of(item)) or bool(self.urls and url.startswith(self.urls))


def marks_of(item: Mapping[str, Any]) -> set[str]:
    """Return the marks that a thing carries."""
    return {mark for name in SHOWN for mark in MARK.findall(str(item.get(name) or ""))}


def owning_keys(reach: Reach) -> list[KeyReach]:
    """Return a key for each account, which sees all of it."""
    keys: dict[tuple[str, str], KeyReach] = {}
    for key in reach.usable():
        if key.purpose != "scoped":
            keys.setdefault((key.environment, key.account or f"of {key.name}"), key)
    return list(keys.values())


def remove_created(reach: Reach, created: Created, remains: Remains) -> Program:
    """Remove what runs created, and tell `remains` what is there until it is gone.

    Only what carries a mark is touched, and what lies in a domain that does. Scans and endpoints go first.
    Where domains can be removed, all that they hold goes with them; what is still there then goes one by one.
    The first refusal of a kind as such, a 405, ends that kind. Slots of what is removed stay held to the
    month's end (S26).
    """
    keys = owning_keys(reach)
    for key in keys:
        for kind in KINDS:
            remains.unlisted[kind, key.name] = NO_TIME
    for key in keys:
        yield from _Removing(reach, created, remains, key.name).program()


def find_created(reach: Reach, created: Created, remains: Remains) -> Program:
    """Look for what runs created, and tell `remains`; nothing is removed."""
    for key in owning_keys(reach):
        removing = _Removing(reach, created, remains, key.name)
        for kind in ("domains", *KINDS[:-1]):
            yield from removing.find(kind)


@dataclass(slots=True)
class _Removing:
    """Removing with one key what runs created in its account."""

    reach: Reach
    created: Created
    remains: Remains
    key: str
    domains: set[str] = field(default_factory=set)
    ended: dict[str, str] = field(default_factory=dict)
    """Kinds of which nothing can be removed, and why."""

    def program(self) -> Program:
        """Remove it, kind by kind."""
        domains = yield from self.find("domains")
        for kind in KINDS[:2]:
            yield from self.remove(kind, (yield from self.find(kind)))
        refused = yield from self.remove("domains", domains)
        for kind in WITHIN:
            yield from self.remove(kind, (yield from self.find(kind)))
        if "domains" not in self.ended:
            yield from self.remove("domains", refused)  # what was in their way is gone now

    def find(self, kind: str) -> Generator[Any, Any, list[str]]:
        """Return the ids of a kind that runs created and that are there, and note them."""
        items: list[Mapping[str, Any]] = []
        places: Sequence[Mapping[str, str]] = ({},)
        if kind == "keywords":  # of which an account may have a great many
            lists = yield from self.find("keyword_lists")
            places = [{"list_id": thing} for thing in lists]
            places += [{"domain_id": thing} for thing in self.reach.target.usable_domains]
        for place in places:
            listed = yield from self._listed(kind, place)
            if listed is None:
                return []
            for thing in listed:
                inside = "list_id" in place or str(thing.get("domain_id")) in self.domains
                if inside or self.created.names(thing):
                    items.append(thing)
                else:
                    self.remains.others.update(marks_of(thing))
        ids = [str(thing["id"]) for thing in items]
        if kind == "domains":
            self.domains = set(ids)
        self.remains.unlisted.pop((kind, self.key), None)
        for item in ids:
            self.remains.things.setdefault((kind, self.key, item), NO_TIME)
        return ids

    def _listed(
        self, kind: str, place: Mapping[str, str]
    ) -> Generator[Any, Any, list[Mapping[str, Any]] | None]:
        """Return what a list shows, None where it cannot be read."""
        operation = f"{kind}.list"
        why = "" if self.reach.can(operation, self.key) else self.reach.keys[self.key].lacks[operation]
        if not why:
            first = Send(operation, self.key, query={"limit": "1", **place})
            answer: Received = yield from politely(first, tries=2)
            why = "" if answer.ok else _answered(answer)
        if why:
            self.remains.unlisted[kind, self.key] = f"not listed: {why}"
            return None
        items = yield from pages(Send(operation, self.key, query=place), MOST_PAGES)
        return [item for item in items if isinstance(item, dict) and "id" in item]

    def remove(self, kind: str, ids: Iterable[str]) -> Generator[Any, Any, list[str]]:
        """Remove things of a kind; return those that stay."""
        stay = []
        for thing in ids:
            if kind not in self.ended:
                why = yield from self._remove(kind, thing)
                if not why:
                    self.remains.things.pop((kind, self.key, thing), None)
                    continue
            stay.append(thing)
            self.remains.things[kind, self.key, thing] = self.ended.get(kind) or why
        return stay

    def _remove(self, kind: str, thing: str) -> Generator[Any, Any, str]:
        """Remove one thing; return why it stays, "" where it does not."""
        path = {"id": thing}
        answer: Received = yield from politely(Send(f"{kind}.delete", self.key, path=path))
        if answer.status in (404, 410):  # it went with something else, or nothing of its kind can be removed
            there: Received = yield from politely(Send(f"{kind}.get", self.key, path=path))
            if there.status in (404, 410):
                return ""
            if there.ok:
                self.ended[kind] = f"{_answered(answer)}, though it is there"
        if answer.ok:
            return ""
        if answer.status in NOT_ALLOWED:
            self.ended[kind] = f"{_answered(answer)}: this deployment removes none"
        return self.ended.get(kind) or _answered(answer)


def _answered(answer: Received) -> str:
    return f"{answer.status} {answer.code}".strip() if answer.status else answer.error or "no reply"


# Lost calls


@dataclass(frozen=True, slots=True)
class Unknown:
    """A call whose reply was never seen; `exchange` is its id in the trace."""

    send: Send
    exchange: str = ""


def resolve_lost(reach: Reach, unknown: Sequence[Unknown]) -> Program:
    """Send lost POSTs again under their Idempotency-Keys, each once, then read what they may have changed.

    The deployment replays the reply of a call that took effect (S47); one that never arrived does its work
    now, which is an exchange like any other.
    """
    keys: dict[str, None] = {}
    seen: set[tuple[str, str | None]] = set()
    for call in unknown:
        send = call.send
        if (send.key, send.idempotency_key) in seen or send.idempotency_key is None:
            continue
        seen.add((send.key, send.idempotency_key))
        keys[send.key] = None
        yield from politely(replace(send, lose=False, planned=None))
    for key in keys:
        yield from read_all(reach, key, READ_AFTER)
