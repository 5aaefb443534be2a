"""What an account has only once, slots and briefs, kept for the tasks that want it most.

Tasks claim what their cases want at least. What is there is given to claims in the order of the plan; what
nobody claims is for whoever comes first. A call that would take what is reserved for others is not sent.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

from ranksim.core.callers.steps import Received, Send, relayed, silence
from ranksim.judge.check.tasks import CheckTask, owner_of
from ranksim.judge.deployment.discovery import KeyReach, Reach
from ranksim.judge.deployment.prices import fields_of, spends

BRIEFS, SLOTS = "briefs", "slots"

RATIONED = "calls were held back, as they would have taken slots or briefs that other cases want more"
"""The note of a trace that has the number of such calls."""

Scarce = tuple[str, str]
"""An account, and what it has once."""


@dataclass(slots=True)
class Ration:
    """What is left of each account, and what of it is reserved for tasks that have not ended.

    One object serves all programs of a process. What is left follows from readings, and from what was granted
    since; where it cannot be read, nothing is reserved.
    """

    accounts: Mapping[str, str]
    """The account of each key."""
    left: dict[Scarce, int]
    claims: dict[str, dict[Scarce, int]]
    """What is reserved for each task, by name."""
    wanting: dict[str, dict[Scarce, int]]
    """What tasks claimed and was not there."""
    held_back: int = 0
    _granted: set[tuple[str, str]] = field(default_factory=set)
    """Keys, and Idempotency-Keys under which a call was granted: what is sent again takes nothing."""
    _words: dict[str, int] = field(default_factory=dict)
    """How many keywords each list has."""
    _scans: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """What the run's scans cover."""
    _places: dict[str, int] = field(default_factory=dict)
    """How many pairings and places of scans each list has."""

    @classmethod
    def of(cls, reach: Reach, tasks: Iterable[CheckTask]) -> Ration:
        """Give what each account has to tasks, to those first that claim least."""
        accounts = {key.name: owner_of(key) for key in reach.usable()}
        left: dict[Scarce, int] = {}
        for key in reach.usable():
            for name, amount in ((BRIEFS, key.left("brief")), (SLOTS, key.room())):
                if amount is not None:
                    left.setdefault((owner_of(key), name), amount)
        free, claims, wanting = dict(left), dict[str, dict[Scarce, int]](), dict[str, dict[Scarce, int]]()
        for task in sorted(tasks, key=lambda task: task.claim.briefs + task.claim.slots):
            claimed = {BRIEFS: task.claim.briefs, SLOTS: task.claim.slots}
            for scarce in product(task.spends, claimed):
                if (units := claimed[scarce[1]]) and scarce in free:
                    granted = min(units, free[scarce])
                    free[scarce] -= granted
                    claims.setdefault(task.name, {})[scarce] = granted
                    if granted < units:
                        wanting.setdefault(task.name, {})[scarce] = units - granted
        return cls(accounts, left, claims, wanting)

    def permits(self, task: str, send: Send) -> bool:
        """Return whether a call takes nothing that is reserved for another task than the one that sends it.

        What asks for more than is left takes nothing: it is refused.
        """
        scarce, units = self._request_of(send)
        left = self.left.get(scarce)
        if (send.key, send.idempotency_key) in self._granted:
            return True
        if not units or left is None or units > left:
            return True
        own = self.claims.get(task, {}).get(scarce, 0)
        reserved = sum(claims.get(scarce, 0) for name, claims in self.claims.items() if name != task)
        return units <= max(own, left - reserved)

    def saw(self, task: str, send: Send, received: Received) -> None:
        """Learn from an answer what is left."""
        if not received.ok or not isinstance(received.data, Mapping):
            return
        if send.operation in ("slots.get", "account.usage"):
            name = SLOTS if send.operation == "slots.get" else BRIEFS
            read = KeyReach(send.key, "", "", usable=True, reads={send.operation: received.data})
            left = read.room() if name == SLOTS else read.left("brief")
            if left is not None and send.key in self.accounts:
                self.left[self.accounts[send.key], name] = left
            return
        if (send.key, send.idempotency_key) in self._granted:
            return
        if send.idempotency_key is not None:
            self._granted.add((send.key, send.idempotency_key))
        scarce, units = self._request_of(send)
        own = self.claims.get(task, {})
        if scarce in self.left:
            self.left[scarce] = max(0, self.left[scarce] - units)
            own |= {scarce: max(0, own[scarce] - units)} if scarce in own else {}
        self._note(send, received.data)

    def ended(self, task: str) -> None:
        """Reserve nothing for a task any more."""
        self.claims.pop(task, None)

    def _request_of(self, send: Send) -> tuple[Scarce, int]:
        """Return what a call asks for, and how much of it, as far as that is known."""
        account = self.accounts.get(send.key, "")
        if not (spends(send) or send.operation == "scans.update"):
            return (account, ""), 0
        body = fields_of(send)
        match send.operation:
            case "keyword_briefs.create":
                return (account, BRIEFS), _count(body, "keywords")
            case "keywords.create":
                listed = str(body.get("list_id"))
                return (account, SLOTS), _count(body, "keywords") * self._places.get(listed, 0)
            case "scans.create" | "scans.update":
                before = self._scans.get(str(send.path.get("id")), {})
                more = _places({**before, **body}) - (_places(before) if before else 0)
                words = sum(self._words.get(listed, 0) for listed in _lists({**before, **body}))
                return (account, SLOTS), words * more
        return (account, ""), 0

    def _note(self, send: Send, made: Mapping[str, Any]) -> None:
        """Note what lists a call has grown, and what scans cover."""
        body = fields_of(send)
        if send.operation == "keywords.create":
            listed = str(body.get("list_id"))
            self._words[listed] = self._words.get(listed, 0) + _count(body, "keywords")
        elif send.operation == "scans.create":
            self._scans[str(made.get("id"))] = body
            for listed in _lists(body):
                self._places[listed] = self._places.get(listed, 0) + _places(body)


def rationed(program: Generator[Any, Any, Any], ration: Ration, task: str) -> Generator[Any, Any, Any]:
    """Run a program of a task with what a ration permits; what it does not is answered like silence."""
    return relayed(program, partial(_rationed_send, ration, task))


def _rationed_send(ration: Ration, task: str, send: Send) -> Generator[Any, Any, Received]:
    if not ration.permits(task, send):
        ration.held_back += 1
        return (yield from silence())
    answer: Received = yield send
    ration.saw(task, send, answer)
    return answer


def _lists(body: Mapping[str, Any]) -> list[str]:
    lists = body.get("list_ids")
    return [str(listed) for listed in lists] if isinstance(lists, list) else []


def _count(body: Mapping[str, Any], name: str) -> int:
    items = body.get(name)
    return len(items) if isinstance(items, list) else 1


def _places(body: Mapping[str, Any]) -> int:
    return _count(body, "engine_devices") * _count(body, "geographies")
