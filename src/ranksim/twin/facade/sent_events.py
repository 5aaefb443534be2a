"""The webhook events whose attempts went out lately: what is needed to send one of them again."""

from __future__ import annotations

from dataclasses import replace

from ranksim.core.service.state import Event

KEPT = 10_000
"""How many events are remembered; the service itself forgets one once it is delivered everywhere."""


class SentEvents:
    """Events by id, the latest `KEPT`."""

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
