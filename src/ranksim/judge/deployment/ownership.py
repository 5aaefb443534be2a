"""What a run may write to: what it made itself, and the domains that its target says may be used.

Profiles address what they made. This stands between them and a deployment all the same, so that no reply,
refusal or mistake of ours makes a run change what is somebody else's.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ranksim.core.callers.steps import Received, Send, relayed, silence
from ranksim.core.callers.target import Target
from ranksim.core.contract.views import created_by
from ranksim.core.service.calls import Body
from ranksim.judge.deployment.discovery import Reach
from ranksim.judge.deployment.prices import writes

NOBODYS = frozenset({"", "none", "any"})
"""Ids that no resource has: what names them is refused."""

NOT_OURS = "calls were held back, as they would have written to what the run did not make"
"""The note of a trace that has the number of such calls."""

SHOWN = ("host", "name", "url")
"""Fields by which a reply shows that what was made is what was asked for."""


@dataclass(slots=True)
class Ownership:
    """What was made so far, by environment and id, and what lies in domains that may be used.

    What was made may be changed and removed. In a domain that may be used, jobs may run and things be made;
    what was there before is neither changed nor removed. One object serves all programs of a process, so
    that each may write to what another one made.
    """

    target: Target
    usable: frozenset[str] = frozenset()
    held_back: int = 0
    _made: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def of(cls, reach: Reach) -> Ownership:
        """Begin a run that has made nothing, by what was read before it."""
        domains = reach.target.usable_domains
        lists = [item for key in reach.usable() for item in key.items("keyword_lists.list")]
        inside = {str(item["id"]) for item in lists if item.get("domain_id") in domains}
        return cls(reach.target, domains | inside)

    def permits(self, send: Send) -> bool:
        """Return whether a call only reads, or writes to nothing but what may be written to."""
        if not writes(send):
            return True
        body = _body(send)
        place = self._place(send)
        changed = {str(send.path.get("id", "")), str(body.get("id", ""))} - NOBODYS
        named = set(_named(body)) - NOBODYS - self.usable
        return all((place, thing) in self._made for thing in changed | named)

    def saw(self, send: Send, received: Received) -> None:
        """Learn from the reply to a creation what was made."""
        if not received.ok or not send.operation.endswith(".create") or send.surface != "rest":
            return
        body, data, place = _body(send), received.data, self._place(send)
        made = created_by(data) if send.operation == "keywords.create" else [data]
        for thing in made or ():
            if isinstance(thing, Mapping) and "id" in thing and _as_asked(thing, body):
                self._made.add((place, str(thing["id"])))

    def _place(self, send: Send) -> str:
        """The environment of a call: an id may be another one's elsewhere (S1)."""
        return send.environment or self.target.environment_of(send.key)


def kept(program: Generator[Any, Any, Any], ownership: Ownership) -> Generator[Any, Any, Any]:
    """Run a program with what an ownership permits; what it does not permit is answered like silence."""
    return relayed(program, partial(_kept_send, ownership))


def _kept_send(ownership: Ownership, send: Send) -> Generator[Any, Any, Received]:
    if not ownership.permits(send):
        ownership.held_back += 1
        return (yield from silence())
    answer: Received = yield send
    ownership.saw(send, answer)
    return answer


def _body(send: Send) -> Body:
    """Return the fields of a call's body, those of its variables where it goes over GraphQL; else none."""
    body: Any = send.body
    if body is None and send.raw is not None:
        try:
            body = json.loads(send.raw)
        except ValueError:
            body = None
    if send.surface == "graphql" and isinstance(body, dict):
        body = body.get("variables")
    return body if isinstance(body, dict) else {}


def _named(body: Body) -> Iterator[str]:
    """Return the ids that a body names."""
    for name, value in body.items():
        if name.endswith("_ids") and isinstance(value, list):
            yield from map(str, value)
        elif (name.endswith("_id") or name == "domain") and value is not None:
            yield str(value)


def _as_asked(made: Mapping[str, Any], body: Body) -> bool:
    """Return whether what a reply shows has the name or host that was asked for, as far as it shows one."""
    return all(made.get(name, body[name]) == body[name] for name in SHOWN if name in body)
