"""Virtual webhook receivers: what a scripted receiver does with an attempt, without sockets or waiting."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain

from ranksim.core.callers.receivers import AnswerStep, by_attempt, read_script, signed_at, verify_any
from ranksim.core.clock import Micros
from ranksim.core.service.calls import Attempt
from ranksim.core.trace import DeliveryAttempt, Signature

BASE = "https://receiver.rehearsal.example"

CHECKER = "ranksim rehearsal"


@dataclass(slots=True)
class Receivers:
    """The receivers of a rehearsal, a path each; `trust` tells one the secret of an endpoint.

    `signed` has the seconds at which the attempts of an event at a path were signed.
    """

    scripts: dict[str, tuple[AnswerStep, ...]] = field(default_factory=dict)
    secrets: dict[str, list[str]] = field(default_factory=dict)
    signed: dict[tuple[str, str], set[int]] = field(default_factory=lambda: defaultdict(set))

    def listen(self, script: str) -> str:
        """Open a path that answers by a script, and give its URL."""
        path = f"/hooks/{len(self.scripts) + 1}"
        self.scripts[path] = read_script(script)
        return BASE + path

    def trust(self, url: str, secret: str) -> None:
        """Verify what comes to a URL with this secret too."""
        if url.startswith(BASE):
            self.secrets.setdefault(url.removeprefix(BASE), []).append(secret)

    def answering(self, attempt: Attempt) -> AnswerStep | None:
        """Return what the receiver of an attempt does, or None where nobody listens."""
        steps = self.scripts.get(attempt.url.removeprefix(BASE))
        return None if steps is None else by_attempt(steps, attempt.number)

    def delivery(
        self, attempt: Attempt, received: Micros, answered: Micros | None, status: int | None
    ) -> DeliveryAttempt:
        """Write an attempt down as its receiver saw it, and verify its digest; its age is not looked at."""
        path = attempt.url.removeprefix(BASE)
        header = attempt.headers.get("Service-Signature", "")
        signed, second = self.signed[path, attempt.event], signed_at(header)
        valid, problem = verify_any(
            self.secrets.get(path, []),
            header,
            attempt.body,
            others=chain.from_iterable(self.secrets.values()),
            earlier=signed,
        )
        signed.update(() if second is None else (second,))
        return DeliveryAttempt(
            received=received,
            answered=answered,
            endpoint=path,
            headers={name.lower(): value for name, value in attempt.headers.items()},
            body=attempt.body.decode("utf-8", "replace"),
            signature=Signature(valid=valid, t=second, checked_by=CHECKER),
            problem=problem,
            status=status,
        )
