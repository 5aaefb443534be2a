"""What all clients share: the fields of their specifications, plans, making a call, taking a refusal."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Protocol, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from ranksim.core import clock, draws
from ranksim.core.callers.network import NetworkSpec
from ranksim.core.callers.portfolio import Actor
from ranksim.core.callers.request_factory import RequestFactory
from ranksim.core.callers.retry import Manners, insistently, is_limited
from ranksim.core.callers.steps import Pause, Program, Received, Send
from ranksim.core.clock import MINUTE, SECOND, Micros
from ranksim.core.contract.plans import SpendLabel
from ranksim.core.contract.quantities import Duration, Frozen, Moment
from ranksim.core.draws import Purpose
from ranksim.core.errors import BadInput
from ranksim.core.service.operations import OPERATIONS

Positive = Annotated[Duration, Field(gt=0)]
NotNegative = Annotated[Duration, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]


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
    BeforeValidator(_read_time_of_day, json_schema_input_type=str),
    PlainSerializer(lambda t: clock.iso(t)[11:-1], return_type=str, when_used="json"),
]
"""Microseconds since midnight UTC; in files text such as '02:00'."""


class Setting(Protocol):
    """Where clients are at work: what a program may know of it before it begins."""

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

    def credential(self, account: str, key: str | None) -> str:
        """Return the name by which steps use a key of an account, or without a key its web app."""

    def note(self, text: str) -> None:
        """Put a remark into the result."""

    def given_up(self, client: str, operation: str, tries: int) -> None:
        """Observe that a client gives a call up, as the rate limit refused the last of its tries."""


class Common(Frozen):
    """What every client has: whose it is, how it calls, and what it does when the rate limit refuses it.

    `key` is a key's name, by default the account's first. `surface` "app" is the web app, which has neither
    key nor rate limit. `on_limit`: "obey" waits as long as Retry-After says, "backoff" waits a draw below
    `retry_every`, doubled with each try up to `backoff_max`, "ignore" tries again after `retry_every`
    whatever the reply says. `max_tries` counts the first try; 1 never tries again. `idempotency_keys` gives
    each POST a key of its own, which its repeats carry too. The client is at work from `starts` to `stops`,
    instants, or times since the start of the world. `network` is the one it calls over, by default the
    scenario's.
    """

    account: str
    key: str | None = None
    surface: Literal["rest", "graphql", "app"] = "rest"
    on_limit: Literal["obey", "backoff", "ignore"] = "obey"
    max_tries: Count = 5
    retry_every: Positive = SECOND
    backoff_max: Positive = 5 * MINUTE
    idempotency_keys: bool = False
    starts: Moment = Moment(us=0)
    stops: Moment | None = None
    network: NetworkSpec | None = None

    @model_validator(mode="after")
    def _in_the_run(self) -> Self:
        if self.starts.us < 0 or (self.stops is not None and self.stops.us <= 0):
            raise ValueError("starts and stops are times since the start of the world, not before it")
        return self

    @property
    def owners(self) -> tuple[str, ...]:
        """The accounts in whose name the client calls."""
        return (self.account,)


# What can be told of its work before any of it is done


class TrackedPart(NamedTuple):
    """Domains that track alike: how many, words of each, slots of a word that is added, and of all; hosts."""

    domains: int
    keywords: int
    each: int
    slots: int
    hosts: tuple[str, ...] = ()


class Occasions(Protocol):
    """The instants at which a client acts."""

    @property
    def period(self) -> Micros:
        """The longest time between two occasions (µs)."""

    @property
    def is_even(self) -> bool:
        """Whether any two are a period apart."""

    def times(self, start: Micros, end: Micros) -> Iterator[Micros]:
        """Yield the occasions in [start, end)."""

    def phase(self, start: Micros, begun: Micros) -> Micros:
        """Return how long after `begun` the first occasion is (µs) of a client at work from `start` on."""


@dataclass(frozen=True, slots=True)
class OccasionWork:
    """Work at each occasion: `count` times an operation, each of a `size` in slots, pages or questions."""

    operation: SpendLabel
    count: int
    size: int = 1


@dataclass(frozen=True, slots=True)
class OccasionStarts:
    """Requests of the expensive class at each occasion.

    They are spread over `spread` (µs), by draws where `drawn` and else evenly, each after a dry run if
    `dry_run_first`; with a `gap` (µs) they go one after the other, so long after the reply before. They are
    for the domains of some `hosts`, without any for the first ones.
    """

    operation: SpendLabel
    requests: int
    spread: Micros = 0
    drawn: bool = False
    dry_run_first: bool = False
    gap: Micros | None = None
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """What a client does at each of its occasions; one without occasions spends nothing."""

    occasions: Occasions | None = None
    work: tuple[OccasionWork, ...] = ()
    starts: OccasionStarts | None = None


# At work


Then = Callable[[Received], object]


class Client:
    """A client at work: one account, one key, one way of taking refusals. Raises BadInput."""

    def __init__(
        self, setting: Setting, name: str, spec: Common, account: str | None = None, key: str | None = None
    ) -> None:
        self.name = name
        self.spec = spec
        self.setting = setting
        account = spec.account if account is None else account
        if account not in setting.actors:
            raise BadInput(f"clients.{name}.account: no account {account!r}; expected one of the accounts")
        self.actor: Actor = setting.actors[account]
        self.key = key or spec.key
        if spec.surface != "app" and self.key is None:
            if not self.actor.keys:
                raise BadInput(f"clients.{name}: account {account!r} has no key; give it one")
            self.key = next(iter(self.actor.keys))
        self.credential = setting.credential(account, None if spec.surface == "app" else self.key)
        self.start = max(setting.now, spec.starts.on(setting.start))
        self.end = setting.end if spec.stops is None else min(setting.end, spec.stops.on(setting.start))
        self.entity = draws.entity(name)
        self.manners = Manners(spec.on_limit, spec.max_tries, spec.retry_every, spec.backoff_max)
        self.sent = 0

    @property
    def seed(self) -> int:
        """What addresses its draws: a world that takes another future changes it on the way."""
        return self.setting.seed

    def requests(self, operations: Iterable[str]) -> RequestFactory:
        """Make a factory of requests for this client. Raises BadInput where the account lacks something."""
        return RequestFactory(self.name, self.actor, self, operations)

    def signed(self, send: Send) -> Send:
        """Return a new request as this client sends it, in place: with its key, and one for repeats."""
        number = self.sent
        self.sent += 1
        send.key, send.surface = self.credential, self.spec.surface
        if self.spec.idempotency_keys and OPERATIONS[send.operation].method == "POST":
            send.idempotency_key = send.idempotency_key or f"{self.name}-{number}"
        return send

    def ask(self, send: Send) -> Generator[Any, Any, Received]:
        """Send a new request, again where the client insists; return the last answer.

        A call whose last try the rate limit refuses is given up, which the setting is told.
        """
        address = self.sent << 8

        def jitter(tries: int) -> float:
            return draws.uniform(self.seed, self.entity, address | min(tries, 255), Purpose.BACKOFF)

        answer = yield from insistently(self.signed(send), self.manners, jitter)
        if is_limited(answer):
            self.setting.given_up(self.name, send.operation, self.manners.max_tries)
        return answer

    def learning(self, factory: RequestFactory, send: Send) -> Program:
        """Send a request of a factory, which learns from the reply."""
        answer = yield from self.ask(send)
        if answer.status:
            factory.learn(send, answer.status, answer.body)


class Line:
    """Requests of a client one after the other: one that is refused by the rate limit holds up the others.

    `gap` is the pause between a reply and the next request (µs). `add` puts a request at the end, with what
    takes its answer; whoever adds to an idle line spawns its `work`.
    """

    def __init__(self, client: Client, gap: Micros = 0) -> None:
        self.client = client
        self.gap = gap
        self.idle = True
        self._waiting: deque[tuple[Send, Then]] = deque()

    def add(self, send: Send, then: Then) -> None:
        """Put a request at the end of the line."""
        self._waiting.append((send, then))

    def drop(self) -> None:
        """Forget the requests that are still waiting."""
        self._waiting.clear()

    def work(self) -> Program:
        """Make the requests until none waits."""
        self.idle = False
        while self._waiting:
            send, then = self._waiting.popleft()
            then((yield from self.client.ask(send)))
            if self.gap and self._waiting:
                yield Pause(self.gap)
        self.idle = True


def data_of(answer: Received) -> Any:
    """Return what stands under `data` in a reply that succeeded, else None (S8, S9)."""
    return answer.data if 0 < answer.status < 400 else None
