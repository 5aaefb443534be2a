"""What a deviation is: a deployment that breaks one fact, made by wrapping rules while a rehearsal runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ranksim.bridges.rehearsal import Network, rehearse
from ranksim.bridges.rehearsal_worlds import compact, make_world
from ranksim.core.callers.steps import Send
from ranksim.core.clock import HOUR, MINUTE, SECOND, Micros
from ranksim.core.contract.assumptions import Assumptions
from ranksim.core.contract.facts import Facts
from ranksim.core.contract.policy import Policy
from ranksim.core.service.calls import Reply
from ranksim.core.service.context import Context, Request
from ranksim.core.service.operations import OPERATIONS
from ranksim.core.trace import Trace
from ranksim.judge.conformance.compare import Judgement, compare
from ranksim.judge.profiles import profile

Patch = pytest.MonkeyPatch
Headers = dict[str, str]
Alter = Callable[[Send, int, Headers, bytes], tuple[int, Headers, bytes]]
Handler = Callable[[Context, Request], Reply]

SIZES: Mapping[str, tuple[int, Micros]] = {
    "everyday": (5, 2 * MINUTE),
    "burst": (3, 4 * MINUTE),
    "windows": (3, 11 * MINUTE),
    "race": (6, 4 * MINUTE),
    "retry": (6, 3 * MINUTE),
    "walk": (4, 2 * MINUTE),
    "ladder": (5, 6 * MINUTE),
    "webhooks": (4, 8 * MINUTE),
    "webhooks-long": (1, 10 * HOUR),
    "scope": (5, MINUTE),
    "soak": (10, 2 * MINUTE),
    "calibration": (5, 16 * MINUTE),
}
"""Users and length of each profile's run."""


def nothing(patch: Patch) -> None:
    """Break nothing."""


@dataclass(frozen=True)
class Deviation:
    """One thing that a deployment does wrong.

    `facts` are the S numbers that it breaks; `profiles` the ones tried, in order, until one exposes it.
    `apply` wraps rules for the length of a run, `alter` changes replies on their way out, `promises` replaces
    numbers of the facts and `chooses` assumptions in the deployment's policy. `pinned` is what the policy
    states that it is judged by: without it everything is open.
    """

    name: str
    facts: tuple[int, ...]
    profiles: tuple[str, ...]
    apply: Callable[[Patch], None] = nothing
    alter: Alter | None = None
    promises: Mapping[str, Any] = field(default_factory=dict)
    chooses: Mapping[str, Any] = field(default_factory=dict)
    pinned: Mapping[str, Any] = field(default_factory=dict)
    network: Network = field(default_factory=Network)
    time_scale: int = 1

    def policy(self) -> Policy:
        """Give the policy that the deployment follows."""
        return compact(Policy(facts=Facts(**self.promises), assumptions=Assumptions(**self.chooses)))

    def judged_by(self) -> Policy | None:
        """Give the policy that it is judged by."""
        return Policy(assumptions=Assumptions(**self.pinned)) if self.pinned else None

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Break the rules, and mend them again."""
        with Patch.context() as patch:
            self.apply(patch)
            yield

    def rehearsed(self, name: str, seed: int, loss: float = 0.0) -> Trace:
        """Run a profile against the deviating deployment in virtual time."""
        users, duration = SIZES[name]
        with self.applied():
            service, target = make_world(self.policy(), seed)
            target = target.model_copy(update={"time_scale": self.time_scale})
            return rehearse(
                profile(name),
                service,
                target,
                users=users,
                duration=duration,
                seed=seed,
                network=replace(self.network, loss=loss),
                alter=self.alter,
            )

    def judged(self, name: str, seed: int, loss: float = 0.0) -> Judgement:
        """Judge such a run."""
        return compare(self.rehearsed(name, seed, loss), self.judged_by())


# Changing replies


def without(name: str) -> Alter:
    """Leave a header out."""

    def alter(send: Send, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
        headers.pop(name, None)
        return status, headers, body

    return alter


def header(name: str, change: Callable[[str], str]) -> Alter:
    """Change a header where it stands."""

    def alter(send: Send, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
        if name in headers:
            headers[name] = change(headers[name])
        return status, headers, body

    return alter


def edited(change: Callable[[Send, int, Any], Any]) -> Alter:
    """Change the parsed body of a REST reply; `change` may give another, or None for the one it was given."""

    def alter(send: Send, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
        if not body or send.surface == "graphql":
            return status, headers, body
        reply = json.loads(body)
        changed = change(send, status, reply)
        text = json.dumps(reply if changed is None else changed).encode()
        headers["content-length"] = str(len(text))
        return status, headers, text

    return alter


def data_of(*operations: str) -> Callable[[Callable[[Any], None]], Alter]:
    """Make an alteration of the data of some operations' successes."""

    def make(change: Callable[[Any], None]) -> Alter:
        def apply(send: Send, status: int, reply: Any) -> None:
            if send.operation in operations and status < 300:
                for thing in reply["data"] if isinstance(reply["data"], list) else [reply["data"]]:
                    change(thing)

        return edited(apply)

    return make


def refusals(code: str, change: Callable[[Any], None]) -> Alter:
    """Change the bodies of the errors with a code."""

    def apply(send: Send, status: int, reply: Any) -> None:
        if status >= 400 and reply.get("code") == code:
            change(reply)

    return edited(apply)


# Wrapping rules


def handled(operation: str, around: Callable[[Handler, Context, Request], Reply]) -> Callable[[Patch], None]:
    """Wrap the handler of an operation."""

    def apply(patch: Patch) -> None:
        entry = OPERATIONS[operation]

        def handler(ctx: Context, request: Request) -> Reply:
            return around(entry.handler, ctx, request)

        patch.setitem(OPERATIONS, operation, replace(entry, handler=handler))

    return apply


__all__ = ["HOUR", "MINUTE", "SECOND", "Deviation"]
