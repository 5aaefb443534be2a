"""Virtual webhook receivers: what a scripted receiver does with an attempt, without sockets or waiting."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ranksim.clock import Micros, duration
from ranksim.errors import BadInput
from ranksim.rules import webhooks
from ranksim.service.calls import Attempt
from ranksim.trace import Delivery, Signature

BASE = "https://receiver.rehearsal.example"

CHECKER = "ranksim rehearsal"

_STEP = re.compile(r"([1-5][0-9]{2}|timeout)(?::\S+?)?(?:\+([0-9a-z]+))?")
_SIGNED_AT = re.compile(r"t=([0-9]{1,15}),")


@dataclass(frozen=True, slots=True)
class Answering:
    """What a receiver does with one attempt: `status` after `delay` µs; None never answers."""

    status: int | None = 200
    delay: Micros = 0


def read_script(text: str) -> tuple[Answering, ...]:
    """Read "500,200+11s,302:/elsewhere,timeout": one step an attempt, the last for all further ones.

    Raises BadInput.
    """
    return tuple(_read_step(step.strip()) for step in text.split(","))


def _read_step(text: str) -> Answering:
    match = _STEP.fullmatch(text)
    if match is None:
        raise BadInput(
            f"script: expected steps such as 500, 200+2s, 302:/elsewhere or timeout, found {text!r}"
        )
    status, delay = match.groups()
    try:
        return Answering(None if status == "timeout" else int(status), duration(delay) if delay else 0)
    except ValueError as error:
        raise BadInput(f"script: {error}") from None


@dataclass(slots=True)
class Receivers:
    """The receivers of a rehearsal, a path each; `trust` tells one the secret of an endpoint."""

    scripts: dict[str, tuple[Answering, ...]] = field(default_factory=dict)
    secrets: dict[str, list[str]] = field(default_factory=dict)

    def listen(self, script: str) -> str:
        """Open a path that answers by a script, and give its URL."""
        path = f"/hooks/{len(self.scripts) + 1}"
        self.scripts[path] = read_script(script)
        return BASE + path

    def trust(self, url: str, secret: str) -> None:
        """Verify what comes to a URL with this secret too."""
        if url.startswith(BASE):
            self.secrets.setdefault(url.removeprefix(BASE), []).append(secret)

    def answering(self, attempt: Attempt) -> Answering | None:
        """Give what the receiver of an attempt does, or None where nobody listens."""
        steps = self.scripts.get(attempt.url.removeprefix(BASE))
        return None if steps is None else steps[min(attempt.number, len(steps)) - 1]

    def delivery(
        self, attempt: Attempt, received: Micros, answered: Micros | None, status: int | None
    ) -> Delivery:
        """Write an attempt down as its receiver saw it, and verify its digest; its age is not looked at."""
        path = attempt.url.removeprefix(BASE)
        header = attempt.headers.get("Service-Signature", "")
        stamp = _SIGNED_AT.match(header)
        known = self.secrets.get(path, [])
        signed_at = int(stamp[1]) if stamp else 0
        valid = any(webhooks.verify(secret, header, attempt.body, signed_at) for secret in known)
        return Delivery(
            received=received,
            answered=answered,
            endpoint=path,
            headers={name.lower(): value for name, value in attempt.headers.items()},
            body=attempt.body.decode("utf-8", "replace"),
            signature=Signature(
                valid=valid if known else None, t=signed_at if stamp else None, checked_by=CHECKER
            ),
            status=status,
        )
