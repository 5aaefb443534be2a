"""What a profile's programs are made of: steps out, what came of them in.

A profile is written as generators that know nothing of sockets, clocks or Locust: each yields a step and is
sent what came of it. The same program runs under Locust against a deployment (`users`) and in virtual time
against the rulebook (`rehearsal`).

    def program(reach: Reach, user: int) -> Program:
        answer = yield Send("domains.list")
        yield Pause(2 * SECOND)

`Send` is answered with `Received`, `Pause` and `Until` with the present instant, `Listen` with a URL; `Lap`
says that a program has been once through.

Steps are made by the million in a simulated month, so they are not frozen, which would triple the cost of
making one; nobody changes one that was yielded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ranksim.core.clock import Micros


@dataclass(slots=True)
class Send:
    """Make one call of the operations table and wait for its reply.

    `key` names a key of the target ("" sends none); `environment` overrides where it is sent, which is where
    the key belongs. `path`, `query` and `body` are the call's; `raw` is sent instead of `body` as it stands.
    `lose` stops listening as soon as the request is out, so that its effect is unknown. `planned` is when it
    was meant to be sent, for open arrivals. `reads` False says that the sender will not look at the items of
    a page, but at its cursor at most: where the service is at hand they are not made then. `origin` is that
    of the page for which a browser would make the call; on the surface "preflight" what is sent is the
    browser's question whether that page may make it (the Fetch standard, CORS protocol), which has no key.
    """

    operation: str
    key: str = "main"
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: dict[str, Any] | None = None
    raw: bytes | None = None
    idempotency_key: str | None = None
    request_id: str | None = None
    surface: str = "rest"
    environment: str = ""
    lose: bool = False
    planned: Micros | None = None
    reads: bool = True
    origin: str = ""


@dataclass(slots=True)
class Pause:
    """Do nothing for `duration` µs of the recorder's clock."""

    duration: Micros


@dataclass(slots=True)
class Until:
    """Do nothing until `instant`, µs of the recorder's clock; at once when it has passed.

    Programs that must act together wait until one instant, which works across processes and machines whose
    clocks agree.
    """

    instant: Micros


@dataclass(slots=True)
class Listen:
    """Have the webhook receiver answer on a path of its own as `script` says; answered with the URL for it.

    `script` is as `ranksim serve receive --script` takes it: "500,500,200", "200+11s", "302:/elsewhere",
    "timeout".
    The URL is "" when there is no receiver that the deployment can reach. The driver hands the receiver the
    secret of every endpoint that is created for such a URL.
    """

    script: str = "200"


@dataclass(slots=True)
class Received:
    """What came of a `Send`. `status` is 0 and `body` None when no reply was seen; `error` may say why.

    `body` is the parsed JSON, or None; instants are µs on the recorder's clock.
    """

    status: int
    body: Any
    headers: Mapping[str, str]
    sent: Micros
    received: Micros
    error: str = ""

    def header(self, name: str) -> str:
        """Return a header by its name in lower case, or ""; most are never asked for."""
        return next((value for header, value in self.headers.items() if header.lower() == name), "")

    @property
    def ok(self) -> bool:
        """Whether it is a 2xx."""
        return 200 <= self.status <= 299

    @property
    def data(self) -> Any:
        """The envelope's data, or None."""
        return self.body.get("data") if isinstance(self.body, dict) else None

    @property
    def cursor(self) -> str | None:
        """The cursor of the page after this one, None where the list ends (S44)."""
        cursor = self.body.get("next_cursor") if self.ok and isinstance(self.body, dict) else None
        return cursor if isinstance(cursor, str) else None

    @property
    def code(self) -> str:
        """The error code, or ""."""
        return str(self.body.get("code", "")) if isinstance(self.body, dict) and not self.ok else ""


@dataclass(slots=True)
class Spawn:
    """Begin a program beside this one, with calls and waits of its own; answered at once with None."""

    program: Program


@dataclass(slots=True)
class Lap:
    """Say that this program has done all that it does once more, and goes on anew; answered with None.

    Who plays it may stop it here, where nothing is left half done.
    """


Step: TypeAlias = Send | Pause | Until | Listen | Spawn | Lap
Program: TypeAlias = Generator[Step, Any, None]


def relayed(
    program: Generator[Any, Any, Any], made: Callable[[Send], Generator[Any, Any, Received]]
) -> Generator[Any, Any, Any]:
    """Run a program whose calls are `made` by another one, those of programs that it begins as well."""
    answer: Any = None
    while True:
        try:
            step = program.send(answer)
        except StopIteration as end:
            return end.value
        if isinstance(step, Send):
            answer = yield from made(step)
        elif isinstance(step, Spawn):
            answer = yield Spawn(relayed(step.program, made))
        else:
            answer = yield step


def silence() -> Generator[Any, Any, Received]:
    """Answer a call that is not made as if no reply had come."""
    now = yield Pause(1_000)
    return Received(0, None, {}, now, now)
