"""Webhook attempts: those under way, sent and not yet reported to the service, and what came of others."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from ranksim.core.service.calls import Answer, Attempt
from ranksim.core.service.events import AttemptAnswered, ServiceEvent
from ranksim.core.service.state import Event

log = logging.getLogger("ranksim.facade")

KEPT = 10_000
"""How many events are remembered; the service itself forgets one once it is delivered everywhere."""


@dataclass(slots=True, eq=False)
class AttemptUnderWay:
    """An attempt, the task that sends it, and the answer while it waits to be reported."""

    attempt: Attempt
    task: asyncio.Task[None] | None = None
    answer: Answer | None = None


class AttemptsUnderWay:
    """Sends attempts side by side and keeps their answers until they are reported.

    `deliver` carries one attempt out; `answered` is called after each answer. Outside of an event loop
    attempts wait until `send` is called inside of one.
    """

    def __init__(self, deliver: Callable[[Attempt], Awaitable[Answer]], answered: Callable[[], None]) -> None:
        self._deliver, self._answered = deliver, answered
        self._under_way: dict[int, AttemptUnderWay] = {}
        self._unsent: list[AttemptUnderWay] = []

    def __len__(self) -> int:
        return len(self._under_way)

    def attempts(self) -> list[Attempt]:
        """Return the attempts, in order of sending."""
        return [under_way.attempt for under_way in self._under_way.values()]

    def add(self, attempt: Attempt) -> None:
        """Take an attempt in; `send` begins to send it."""
        under_way = self._under_way[attempt.attempt] = AttemptUnderWay(attempt)
        self._unsent.append(under_way)

    def send(self) -> None:
        """Begin to send what waits; outside of an event loop it goes on waiting."""
        if not self._unsent:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        unsent, self._unsent = self._unsent, []
        for under_way in unsent:
            under_way.task = loop.create_task(self._send(under_way))

    async def _send(self, under_way: AttemptUnderWay) -> None:
        try:
            answer = await self._deliver(under_way.attempt)
        except asyncio.CancelledError:
            under_way.task = None
            if self._is_under_way(under_way):
                self._unsent.append(under_way)
            raise
        except Exception as error:
            log.exception("the sender failed")
            answer = Answer(None, f"failed: {type(error).__name__}")
        if self._is_under_way(under_way):
            under_way.answer = answer
            self._answered()

    def _is_under_way(self, under_way: AttemptUnderWay) -> bool:
        """Return whether an attempt still is of this world."""
        return self._under_way.get(under_way.attempt.attempt) is under_way

    def pop_answered(self, *, ordered: bool) -> tuple[Attempt, Answer] | None:
        """Remove and return the first attempt with an answer; where `ordered`, only the one sent first."""
        for number, under_way in self._under_way.items():
            if under_way.answer is not None:
                del self._under_way[number]
                return under_way.attempt, under_way.answer
            if ordered:
                return None
        return None

    async def settle(self, deadline: float) -> bool:
        """Wait until no attempt is under way; False when `deadline`, of the loop's clock, comes first."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # whoever calls meanwhile is served between two instants too
        of_this_world = self._under_way
        while self._under_way and self._under_way is of_this_world:
            self.send()
            left = deadline - loop.time()
            if left <= 0 or (await asyncio.wait(self._tasks(), timeout=left))[1]:
                return False
        return True

    def forget(self) -> None:
        """Give up all attempts: another world begins, in which they are sent again."""
        for task in self._tasks():
            task.cancel()
        self._under_way, self._unsent = {}, []

    async def stop(self) -> None:
        """Stop sending; attempts without an answer stay under way."""
        tasks = self._tasks()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [under_way.task for under_way in self._under_way.values() if under_way.task is not None]


def count_answers(counts: Counter[str], events: Iterable[ServiceEvent]) -> None:
    """Count the attempts answered in a step: acknowledged, rejected with a status, or unanswered."""
    for event in events:
        if isinstance(event, AttemptAnswered):
            rejected = "unanswered" if event.status_code is None else "rejected"
            counts["acknowledged" if event.outcome == "acknowledged" else rejected] += 1


class SentEvents:
    """The events whose attempts went out lately, by id: what is needed to send them again."""

    def __init__(self) -> None:
        self._events: dict[str, Event] = {}

    def note(self, event: Event) -> None:
        """Remember an event, an attempt of which goes out."""
        if event.id in self._events:
            return
        self._events[event.id] = event
        if len(self._events) > KEPT:
            del self._events[next(iter(self._events))]

    def get(self, event: str) -> Event | None:
        """Return an event as it was before any delivery, or None where it is not remembered."""
        kept = self._events.get(event)
        return None if kept is None else replace(kept, open=0)

    def clear(self) -> None:
        """Forget all: another world begins."""
        self._events.clear()
