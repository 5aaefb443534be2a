"""What all clients share: the fields of their specifications, making a call, and taking no for an answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, Literal, Protocol

from pydantic import BeforeValidator, Field, PlainSerializer

from ranksim import clock, draws
from ranksim.callers.portfolio import Actor
from ranksim.callers.request_factory import Item, RequestFactory
from ranksim.clock import MINUTE, SECOND, Micros
from ranksim.contract.quantities import Duration, Frozen
from ranksim.draws import Purpose
from ranksim.errors import BadInput
from ranksim.service.calls import Body, Call, Reply
from ranksim.service.operations import OPERATIONS

Positive = Annotated[Duration, Field(gt=0)]
NotNegative = Annotated[Duration, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]


def _read_operation(value: Any) -> Any:
    if value not in OPERATIONS:
        close = get_close_matches(str(value), OPERATIONS, n=3) or list(OPERATIONS)[:3]
        raise ValueError(f"expected an operation such as {', '.join(close)}, found {value!r}")
    return value


OperationName = Annotated[str, BeforeValidator(_read_operation)]
"""A name of the operations table, such as "jobs.create"."""


def _read_time_of_day(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return clock.time_of_day(clock.instant(f"1970-01-01T{value}Z"))
        except ValueError:
            pass
    elif isinstance(value, int) and not isinstance(value, bool) and 0 <= value < clock.DAY:
        return value
    raise ValueError(f"write a time of day such as '02:00', found {value!r}")


TimeOfDay = Annotated[
    int,
    BeforeValidator(_read_time_of_day),
    PlainSerializer(lambda t: clock.iso(t)[11:-1], return_type=str, when_used="json"),
]
"""Microseconds since midnight UTC; in files text such as '02:00'."""


class World(Protocol):
    """What a client needs of a world."""

    seed: int
    start: Micros

    @property
    def now(self) -> Micros:
        """The present instant."""

    @property
    def end(self) -> Micros:
        """The instant at which the run ends."""

    @property
    def actors(self) -> Mapping[str, Any]:
        """Actor by account name."""

    def call(self, call: Call, client: str) -> Reply:
        """Make a call now."""

    def note(self, text: str) -> None:
        """Put a remark into the result."""

    def at(self, when: Micros, function: Callable[..., object], *args: Any) -> object:
        """Call a function at an instant."""

    def after(self, delay: Micros, function: Callable[..., object], *args: Any) -> object:
        """Call a function after so many µs."""

    def timeout(self, delay: Micros) -> Any:
        """Give what a process yields to wait so many µs."""

    def process(self, generator: Generator[Any, Any, Any]) -> Any:
        """Run a generator that yields SimPy events."""


class Common(Frozen):
    """What every client has: whose it is, how it calls, and what it does when the rate limit refuses it.

    `key` is a key's name, by default the account's first. `surface` "app" is the web app, which has neither
    key nor rate limit. `on_limit`: "obey" waits as long as Retry-After says, "backoff" waits a draw below
    `retry_every`, doubled with each try up to `backoff_max`, "ignore" tries again after `retry_every`
    whatever the reply says. `max_tries` counts the first try; 1 never tries again. `idempotency_keys` gives
    each POST a key of its own, which its repeats carry too. The client is at work from `starts` to `stops`,
    both since the start of the world.
    """

    account: str
    key: str | None = None
    surface: Literal["rest", "graphql", "app"] = "rest"
    on_limit: Literal["obey", "backoff", "ignore"] = "obey"
    max_tries: Count = 5
    retry_every: Positive = SECOND
    backoff_max: Positive = 5 * MINUTE
    idempotency_keys: bool = False
    starts: NotNegative = 0
    stops: Positive | None = None


Then = Callable[[Reply], object]


@dataclass(slots=True)
class Request:
    """A call to be made; `then` takes the reply once the client is through or has given up.

    `idempotency_key` is the key it must carry, whatever its client gives others.
    """

    operation: str
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    then: Then | None = None
    idempotency_key: str | None = None
    number: int = -1
    """Which request of its client it is; given when it is sent."""


class Client:
    """A client at work: one account, one key, one way of taking refusals. Raises BadInput."""

    def __init__(
        self, world: World, name: str, spec: Common, account: str | None = None, key: str | None = None
    ) -> None:
        self.world = world
        self.name = name
        self.spec = spec
        account = spec.account if account is None else account
        if account not in world.actors:
            raise BadInput(f"clients.{name}.account: no account {account!r}; expected one of the accounts")
        self.actor: Actor = world.actors[account]
        self.key = key or spec.key
        if spec.surface != "app" and self.key is None:
            if not self.actor.keys:
                raise BadInput(f"clients.{name}: account {account!r} has no key; give it one")
            self.key = next(iter(self.actor.keys))
        self.start = max(world.now, world.start + spec.starts)
        self.end = world.end if spec.stops is None else min(world.end, world.start + spec.stops)
        self.entity = draws.entity(name)
        self.sent = 0

    def requests(self, operations: Iterable[str]) -> RequestFactory:
        """Make a factory of requests for this client. Raises BadInput where the account lacks something."""
        return RequestFactory(self.name, self.actor, self.world.seed, operations)

    def send(self, request: Request, tries: int = 1) -> None:
        """Send a request, again where the rate limit refuses it and the client insists."""
        reply = self.call(request)
        if self.insists(reply, tries):
            self.world.after(self.pause(reply, request, tries), self.send, request, tries + 1)
        elif request.then is not None:
            request.then(reply)

    def call(self, request: Request) -> Reply:
        """Make the call once, now."""
        if request.number < 0:
            request.number = self.sent
            self.sent += 1
        spec, actor = self.spec, self.actor
        call = Call(request.operation, None, request.path, request.query, request.body)
        call.environment = actor.environment
        call.surface = spec.surface
        if spec.surface == "app":
            call.account = actor.account
        elif OPERATIONS[request.operation].keyless:
            call.caller = self.name
        else:
            # A key that is not issued yet is a key nobody knows.
            call.key = actor.keys.get(self.key or "", "none")
        call.idempotency_key = request.idempotency_key
        if spec.idempotency_keys and OPERATIONS[request.operation].method == "POST":
            call.idempotency_key = call.idempotency_key or f"{self.name}-{request.number}"
        return self.world.call(call, self.name)

    def insists(self, reply: Reply, tries: int) -> bool:
        """Tell whether a reply is a refusal of the rate limit that the client will not take yet."""
        return reply.outcome == "limited" and tries < self.spec.max_tries

    def pause(self, reply: Reply, request: Request, tries: int) -> Micros:
        """How long to wait before the next try (µs)."""
        spec = self.spec
        match spec.on_limit:
            case "obey":
                return _wait_of(reply.headers.get("Retry-After", "1"), self.world.now)
            case "backoff":
                # Full jitter: anything from nothing to twice as much as the time before.
                ceiling = min(spec.backoff_max, spec.retry_every << min(tries - 1, 40))
                address = request.number << 8 | min(tries, 255)
                return round(draws.uniform(self.world.seed, self.entity, address, Purpose.BACKOFF) * ceiling)
            case _:
                return spec.retry_every


def _wait_of(retry_after: str, now: Micros) -> Micros:
    """What a Retry-After asks for (µs): whole seconds, or the time until an HTTP-date (U6)."""
    if retry_after.isdecimal():
        return int(retry_after) * SECOND
    return max(0, int(parsedate_to_datetime(retry_after).timestamp()) * SECOND - now)


def drafted(factory: RequestFactory, operation: str, number: int, item: Item | None = None) -> Request:
    """Make a request of a factory, which learns from its reply. Raises BadInput."""
    send = factory.make(operation, number, item)
    then: Then | None = None
    if send.operation.partition(".")[0] in factory.learns:

        def then(reply: Reply) -> None:
            factory.learn(send, reply.status, reply.body)

    body = None if send.body is None else dict(send.body)
    return Request(send.operation, send.path, send.query, body, then)


class Line:
    """Requests of a client one after the other: one that is refused by the rate limit holds up the others.

    `gap` is the pause between a reply and the next request (µs).
    """

    def __init__(self, client: Client, gap: Micros = 0) -> None:
        self.client = client
        self.gap = gap
        self.waiting: deque[Request] = deque()
        self._busy = False
        self._tries = 1

    def add(self, *requests: Request) -> None:
        """Put requests at the end of the line."""
        self.waiting.extend(requests)
        if not self._busy:
            self._go()

    def drop(self) -> None:
        """Forget the requests that are still waiting."""
        self.waiting.clear()

    def _go(self) -> None:
        self._busy = True
        client = self.client
        while self.waiting:
            request = self.waiting[0]
            reply = client.call(request)
            if client.insists(reply, self._tries):
                pause = client.pause(reply, request, self._tries)
                self._tries += 1
                client.world.after(pause, self._go)
                return
            self.waiting.popleft()
            self._tries = 1
            if request.then is not None:
                request.then(reply)
            if self.gap and self.waiting:
                client.world.after(self.gap, self._go)
                return
        self._busy = False


def data_of(reply: Reply) -> Any:
    """Give what stands under `data` in a reply that succeeded, else None (S8, S9)."""
    return reply.body.get("data") if reply.status < 400 and reply.body else None
