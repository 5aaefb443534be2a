"""What carries webhook attempts out: the protocol, a sender without sockets, and one over the network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ranksim.core.service.calls import Answer, Attempt


class Sender(Protocol):
    """What carries attempts out."""

    async def send(self, attempt: Attempt, timeout_s: float) -> Answer:
        """POST one attempt and give what the receiver answered; never raises for what a receiver does."""

    async def close(self) -> None:
        """Close the connections."""


class Scripted:
    """A sender without sockets: `answer` says what the receiver of an attempt answers, at once."""

    def __init__(self, answer: Callable[[Attempt], Answer | int] = lambda attempt: 200) -> None:
        self.answer = answer
        self.sent: list[Attempt] = []

    async def send(self, attempt: Attempt, timeout_s: float) -> Answer:
        """Note the attempt and answer it; a plain number is a status."""
        self.sent.append(attempt)
        answer = self.answer(attempt)
        return Answer(answer) if isinstance(answer, int) else answer

    async def close(self) -> None:
        """Nothing to let go of."""


class NetworkSender:
    """Sends over the network: by an `HttpSender` of these settings, made when the first attempt goes out.

    What that is made of takes long to read, and most worlds of tests send nothing.
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._sender: Sender | None = None

    async def send(self, attempt: Attempt, timeout_s: float) -> Answer:
        """POST one attempt."""
        if self._sender is None:
            from ranksim.twin.facade.http_sender import HttpSender

            self._sender = HttpSender(**self._settings)
        return await self._sender.send(attempt, timeout_s)

    async def close(self) -> None:
        """Close the connections, if there are any."""
        if self._sender is not None:
            await self._sender.close()
