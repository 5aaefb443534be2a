"""Finding out what became of calls whose replies were lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ranksim.core.callers.retry import pages, politely
from ranksim.core.callers.steps import Program, Send
from ranksim.judge.deployment.discovery import Reach

READ_AFTER = ("jobs.list", "scans.list", "account.usage", "slots.get")
"""What is read then: whatever a lost call may have changed shows here."""


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
        for operation in READ_AFTER:
            if not reach.can(operation, key):
                continue
            if operation.endswith(".list"):
                yield from pages(Send(operation, key))
            else:
                yield from politely(Send(operation, key))
