"""A whole world as JSON, to go back to, and the worlds that are remembered under a name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self

from pydantic_core import from_json

from ranksim.core.clock import DISTANT_PAST, Micros, month_end
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.rules.admission import turn_meter
from ranksim.core.rules.terms import terms_of
from ranksim.core.service.state import State
from ranksim.twin.facade.origin import Described
from ranksim.twin.facade.virtual_clock import LAST, is_instant

NO_FAULTS: Mapping[str, Any] = {"made": 0, "rules": []}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A world at an instant: what its windows read, its first keys, its fault rules, its service's state."""

    now: Micros
    traffic: Micros
    keys: Mapping[str, str]
    state: bytes
    """JSON, as `Service.save` returns it."""
    faults: Mapping[str, Any]
    """The fault rules in force, as `Faults.saved` returns them."""
    described: Described = None

    def dump(self, policy: Policy) -> bytes:
        """Return it as JSON, bound to the policy in force."""
        heading = {
            "ranksim_snapshot": 1,
            "policy": policy_digest(policy),
            "now": self.now,
            "traffic": self.traffic,
            "keys": self.keys,
            "faults": self.faults,
        }
        if self.described is not None:
            heading["described"] = self.described
        members = [f"{json.dumps(name)}: {json.dumps(value)}".encode() for name, value in heading.items()]
        return b"{" + b", ".join([*members, b'"state": ' + self.state]) + b"}"

    @classmethod
    def parse(cls, snapshot: bytes, policy: Policy) -> Self:
        """Parse what `dump` returned. Raises BadInput, also where it was taken under another policy."""
        try:
            saved = from_json(snapshot)
            now, traffic, keys = saved["now"], saved["traffic"], dict(saved["keys"])
            digest, state = saved["policy"], json.dumps(saved["state"]).encode()
            faults = saved.get("faults", NO_FAULTS)  # which snapshots of before had none of
            described = described_of(saved.get("described"))
            sound = is_instant(now) and isinstance(traffic, int) and abs(traffic) <= 2 * LAST
            sound = sound and all(isinstance(text, str) for pair in keys.items() for text in pair)
        except (ValueError, TypeError, KeyError):
            sound = False
        if not sound:
            raise BadInput("snapshot: expected the JSON that a snapshot of ranksim gave")
        if digest != policy_digest(policy):
            raise BadInput(
                "snapshot: was taken under another policy; start with the policy it was taken under"
            )
        return cls(now, traffic, keys, state, faults, described)


def described_of(saved: Any) -> Described:
    """Parse, from JSON, what a world began with. Raises ValueError and TypeError for what is none."""
    if saved is None:
        return None
    (text, until), stands = saved
    return (str(text), until), dict(stands)


def begin_edited_periods(state: State, policy: Policy, now: Micros) -> None:
    """Let what is used of a period that never began count for the one that holds `now`.

    A service never saves such a state: somebody wrote it into a snapshot, and it would be gone at once.
    """
    terms = terms_of(policy)
    for account in state.accounts.values():
        books = account.books
        if books.month_ends == DISTANT_PAST and (books.settled or books.reserved or books.held):
            books.month_ends = month_end(books.anchor, now)
        for meter in account.meters.values():
            if meter.ends == DISTANT_PAST and (used := meter.used):
                turn_meter(now, meter, books, terms)
                meter.used = used


def policy_digest(policy: Policy) -> str:
    """Return what tells one policy from another.

    Limits of requests, and whether prices are known, decide nothing that is kept.
    """
    aside: dict[str, Any] = {"assumptions": {"graphql_limits"}, "catalogue": {"prices_known"}}
    if not policy.windows:  # as files say that are older than such tables
        aside["windows"] = True
    decisive = policy.model_dump_json(exclude=aside)
    return sha256(decisive.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class SavedWorld:
    """A snapshot that is remembered, as JSON, and the instant at which it was taken."""

    now: Micros
    world: bytes


class Snapshots(dict[str, SavedWorld]):
    """The worlds that the control API saved, by name. `changed` is told each, with None once dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: Callable[[str, SavedWorld | None], None] = lambda name, saved: None

    def save(self, name: str, saved: SavedWorld) -> None:
        """Remember a world under a name; what had the name is forgotten."""
        self[name] = saved
        self.changed(name, saved)

    def drop(self, name: str) -> None:
        """Forget a world. Raises KeyError."""
        del self[name]
        self.changed(name, None)

    def resume(self, worlds: Mapping[str, SavedWorld]) -> None:
        """Resume with worlds that were kept in a file."""
        self.clear()
        self.update(worlds)
