"""Webhook attempts that are late, sent twice, out of order, tampered with, or signed long ago, on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from ranksim.core.service.calls import Answer, Attempt
from ranksim.twin.facade.faults import InjectedFault

TAMPERED = b" "
"""What is added to a body once it was signed; it still is the same JSON."""

QUEUED = Answer(200, None, 0)
"""What the service hears of an attempt that is held: as of a queue between it and the receiver."""


@dataclass(slots=True)
class OddDeliveries:
    """Sends attempts that a fault befalls: `send` carries one out, `sign_old` gives it an old signature."""

    send: Callable[[Attempt], Awaitable[Answer]]
    sign_old: Callable[[Attempt], Attempt]
    _held: dict[str, list[Attempt]] = field(default_factory=dict)
    """What goes out after the next attempt of its endpoint."""

    async def deliver(self, attempt: Attempt, fault: InjectedFault | None) -> Answer:
        """Send an attempt as a fault wants it, and return the answer that counts, the first."""
        if fault is None:
            return await self._pass(attempt)
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        match fault.delivery:
            case "twice":
                answer = await self._pass(attempt)
                await self.send(attempt)
                return answer
            case "tampered":
                attempt = replace(attempt, body=attempt.body + TAMPERED)
            case "old_signature":
                attempt = self.sign_old(attempt)
            case "out_of_order":
                self._held.setdefault(attempt.endpoint, []).append(attempt)
                return QUEUED
        return await self._pass(attempt)

    async def _pass(self, attempt: Attempt) -> Answer:
        """Send an attempt, and after it those of its endpoint that are held."""
        answer = await self.send(attempt)
        for late in self._held.pop(attempt.endpoint, ()):
            await self.send(late)
        return answer
