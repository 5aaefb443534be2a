"""What a keeper of a world must know: each input in order, snapshots, and under which policy."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

from ranksim.clock import Micros
from ranksim.contract.policy import Policy


class NotKept(Exception):
    """What was asked for was done but cannot be kept, so no reply may say that it was."""

    def sentence(self) -> str:
        """Say it to whoever asked."""
        text = str(self)
        return f"{text[:1].upper()}{text[1:]}."


@dataclass(frozen=True, slots=True)
class Saved:
    """A snapshot that is kept, and the instant at which it was taken."""

    now: Micros
    world: bytes


class Record(Protocol):
    """Told of every input of the service, in order: a method, the instant, the arguments.

    Methods are those of `Service`, and some more: "moved" (an advance ended at the instant), "set_clock",
    "began" (another world), "snapshot" (a saved world) and "faults" (the rules, changed or struck). "advance"
    is told where it hands out attempts.
    """

    def __call__(self, method: str, now: Micros, arguments: dict[str, Any]) -> None:
        """Note one input."""


def policy_digest(policy: Policy) -> str:
    """Give what tells one policy from another."""
    return sha256(policy.model_dump_json().encode()).hexdigest()
