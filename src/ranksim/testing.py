"""The fake deployment inside a test: `World` without sockets, `Server` on a free port, any number at once.

    with World(plan="pro") as world:
        client = world.client()                    # an httpx.Client that opens no socket
        job = client.post("/v1/jobs", json={...}).json()["data"]
        world.jobs.fail(job["id"], "the crawler was blocked")
        world.clock.advance("36m")

Each world has its own event loop in a thread; nothing is global. Time stands still unless it is moved.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar

import httpx

from ranksim.callers.receivers import AnswerStep as Step
from ranksim.clock import Micros, duration, instant, iso
from ranksim.contract.policy import Policy
from ranksim.errors import BadInput
from ranksim.facade.advance import Advance, AdvanceUnderWay
from ranksim.facade.advance_until import (
    AdvanceCondition,
    UntilEndpointDisabled,
    UntilJobFinished,
    meter_resets,
)
from ranksim.facade.app import Facade, create_app
from ranksim.facade.httpx_transport import App, Mounts, Transport
from ranksim.facade.request_journal import Expected, JournalEntry, RequestJournal
from ranksim.facade.twin import Twin
from ranksim.receiver.receiver import Received, Receiver
from ranksim.serving.control_auth import names_of, new_token
from ranksim.serving.listener import Listener
from ranksim.serving.loop_thread import LoopThread

__all__ = [
    "START",
    "Account",
    "Deployment",
    "NeedsControl",
    "NotSettled",
    "Received",
    "Receiver",
    "Server",
    "Step",
    "World",
    "asgi_app",
    "open_target",
    "transport",
]

T = TypeVar("T")

START = "2026-03-02T09:00:00Z"
"""When a world begins if nothing else is said: a Monday morning, far from the edge of a week or a month."""

URL = "http://ranksim.test"
"""The base URL of a world without sockets."""

ENVIRONMENTS = {"production": "", "sandbox": "/sandbox"}
"""Where each environment's /v1 begins, below the base URL."""

Length: TypeAlias = str | Micros | timedelta
Moment: TypeAlias = str | Micros


class NotSettled(AssertionError):
    """Time was moved and not everything that fell due could be done; the message says what is missing."""


class NeedsControl(unittest.SkipTest):
    """A test wants what a real deployment does not let it do; raised in a test it skips the test."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account that a world opened, with its first API key."""

    id: str
    name: str
    environment: str
    key: str


class World:
    """One fake deployment without sockets. Close it, or use it as a context manager.

    `policy` is a `Policy` or the path of one, `plan` that of the two first accounts, which are called "demo"
    (default "pro"); `seed` decides ids, keys and secrets. `clock` is "manual", "real" or "scaled:60", `start`
    an instant, or None for now. `signature_clock` "wall" signs webhooks for receivers that compare with their
    own clock, "virtual" with this world's. With `network`, webhooks also go to addresses beyond this machine.
    Unknown query parameters are refused, or ignored without `strict_query` (U100). Over HTTP the control API
    wants `control_token`, a new one by default and none if it is "". Raises BadInput.
    """

    def __init__(
        self,
        *,
        policy: Policy | Path | str | None = None,
        plan: str = "",
        seed: int = 0,
        clock: str = "manual",
        start: Moment | None = START,
        traffic_clock: str = "same",
        signature_clock: str = "wall",
        settle_timeout: float = 60.0,
        network: bool = False,
        strict_query: bool = True,
        control_token: str | None = None,
    ) -> None:
        self.control_token = new_token() if control_token is None else control_token
        self._settings: dict[str, Any] = {
            "policy": policy if isinstance(policy, Policy | None) else Policy.load(Path(policy)),
            "plan": plan,
            "seed": seed,
            "clock": clock,
            "start": None if start is None else _instant(start),
            "traffic_clock": traffic_clock,
            "signature_clock": signature_clock,
            "settle_timeout": settle_timeout,
        }
        self._network, self._strict_query = network, strict_query
        self._mounts = Mounts(network=network, waits=lambda: self.twin.clock.rate.mode != "manual")
        self.twin = Twin(**self._settings, sender=self._mounts)
        """The world itself; touch it from its own loop alone, as the methods here do."""
        self.app = create_app(
            self.twin,
            token=self.control_token or None,
            strict_query=strict_query,
            control_names=self._names(),
        )
        self.url = URL
        self.clock = Clock(self)
        self.jobs = Jobs(self)
        self.requests = Requests(self)
        self._receivers: list[Receiver] = []
        self._clients: list[httpx.Client] = []
        self._closed = False
        self.thread = LoopThread("ranksim world")
        try:
            self._begin()
        except BaseException:
            self.thread.stop()
            raise

    def _names(self) -> Collection[str]:
        return ("ranksim.test",)

    def _begin(self) -> None:
        self.thread.call(self.twin.start())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the world, its clients and its receivers; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        for client in self._clients:
            client.close()
        self._end()
        self.thread.stop()
        for receiver in self._receivers:
            receiver.stop()

    def _end(self) -> None:
        self.thread.call(self.twin.close())

    # Calling it

    @property
    def key(self) -> str:
        """The production key of the first account."""
        return self.twin.keys["production"]

    @property
    def sandbox_key(self) -> str:
        """The sandbox key of the first sandbox account."""
        return self.twin.keys["sandbox"]

    def base_url(self, environment: str = "production") -> str:
        """Where an environment's /v1 begins. Raises BadInput."""
        if environment not in ENVIRONMENTS:
            raise BadInput(f"environment: expected production or sandbox, found {environment!r}")
        return self.url + ENVIRONMENTS[environment]

    def transport(self) -> httpx.BaseTransport:
        """An httpx transport into this world, for `httpx.Client` and `httpx.AsyncClient`."""
        return Transport(self.app, self.thread)

    def client(
        self, who: Account | str | None = None, environment: str = "production", **options: Any
    ) -> httpx.Client:
        """A client whose paths begin with /v1, for an account or a key (default the first one).

        `options` are those of `httpx.Client`. The world closes it.
        """
        client = httpx.Client(**self._options(who, environment, options))
        self._clients.append(client)
        return client

    def control(self, **options: Any) -> httpx.Client:
        """A client whose paths begin below /_ranksim, such as "/clock", and which sends the control token.

        `options` are those of `httpx.Client`. The world closes it.
        """
        client = httpx.Client(
            **{
                "trust_env": False, **self._connection(), **options,
                "base_url": f"{self.url}/_ranksim", "headers": _headers(self.control_token, options),
            }
        )  # fmt: skip
        self._clients.append(client)
        return client

    def async_client(
        self, who: Account | str | None = None, environment: str = "production", **options: Any
    ) -> httpx.AsyncClient:
        """The same for asyncio; close it yourself."""
        return httpx.AsyncClient(**self._options(who, environment, options))

    def _options(
        self, who: Account | str | None, environment: str, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        if isinstance(who, Account):
            environment = who.environment
        base_url = self.base_url(environment)
        key = who.key if isinstance(who, Account) else who or self.twin.keys[environment]
        return {
            "trust_env": False, **self._connection(), **options,
            "base_url": base_url, "headers": _headers(key, options),
        }  # fmt: skip

    def _connection(self) -> dict[str, Any]:
        return {"transport": self.transport()}

    # Receiving its webhooks

    def mount(self, url: str, app: Receiver | App) -> None:
        """Let a program answer the webhooks to `url` and below: a `Receiver`, an ASGI or a WSGI app.

        No socket is opened for it. An ASGI app runs on the world's loop, without its lifespan.
        """
        self._mounts.apps[url] = app

    def receiver(self, *script: Step | int | str, **options: Any) -> Receiver:
        """A recording receiver at its `url`, answering by `script`; `options` are those of `Receiver`.

        It tells the time by the clock of the world, which stops it in the end.
        """
        clocks = {"clock": self.twin.now, "signing_clock": self._signing_clock}
        receiver = Receiver(*script, **{**clocks, **options})
        self._receivers.append(receiver)
        self._attach(receiver)
        return receiver

    def _attach(self, receiver: Receiver) -> None:
        receiver.url = f"https://receiver-{len(self._receivers)}.test"
        self.mount(receiver.url, receiver)

    def _signing_clock(self) -> Micros:
        return self.twin.clock.signed_at(self.twin.now())

    def subscribe(self, url: str | Receiver, path: str = "/hooks", **fields: Any) -> dict[str, Any]:
        """Create a webhook endpoint of the first account at a URL, or at a path of a receiver, over the API.

        `fields` are those of the body (event_types, domain_id). The receiver learns the secret. Raises
        BadInput with the answer when it is refused.
        """
        body = {"url": url.url + path if isinstance(url, Receiver) else url, **fields}
        reply = self.client().post("/v1/webhooks", json=body)
        if reply.status_code != 201:
            raise BadInput(f"webhook endpoint: {reply.status_code} {reply.text}")
        endpoint: dict[str, Any] = reply.json()["data"]
        if isinstance(url, Receiver):
            url.trust(endpoint["secret"], path)
        return endpoint

    # What the API does not offer

    def account(
        self,
        name: str,
        plan: str = "pro",
        environment: str = "production",
        *,
        status: str = "active",
        add_ons: Mapping[str, int] | None = None,
        anchor: Moment | None = None,
    ) -> Account:
        """Open an account with a key; its months begin at `anchor`, by default now. Raises BadInput."""
        said = {"name": name, "plan": plan, "environment": environment, "status": status}
        more = {
            "add_ons": dict(add_ons or {}),
            "anchor": None if anchor is None else _instant(anchor, "anchor"),
        }

        def opened() -> Account:
            account = self.twin.administer("open_account", **said, **more)
            key = self.twin.administer("issue_key", account=account, name=name)
            return Account(account, name, environment, key)

        return self.run(opened)

    def administer(self, method: str, **arguments: Any) -> Any:
        """Do what the API does not offer: issue_key, withdraw_key, change_plan, set_status, set_add_on.

        Arguments are those of `Service`, without `now`. Raises BadInput.
        """
        return self.run(lambda: self.twin.administer(method, **arguments))

    # Worlds

    def snapshot(self) -> bytes:
        """Return the whole world as JSON."""
        return self.run(self.twin.snapshot)

    def restore(self, snapshot: bytes) -> None:
        """Go back to where a snapshot was taken: another world begins. Raises BadInput."""
        self.run(lambda: self.twin.restore(snapshot))

    def reset(self) -> None:
        """Begin anew, as at the start."""
        self.run(self.twin.reset)

    def fork(self) -> Self:
        """A second world that goes on from here and shares nothing but what is mounted; close it too."""
        snapshot, clock = self.snapshot(), self.twin.clock
        running = {
            "clock": str(clock.rate), "traffic_clock": clock.traffic_clock, "signature_clock": clock.signature
        }  # fmt: skip
        other = type(self)(
            **{**self._settings, **running},
            network=self._network,
            strict_query=self._strict_query,
            control_token=self.control_token,
        )
        other._mounts.apps.update(self._mounts.apps)
        other.restore(snapshot)
        return other

    def run(self, what: Callable[[], T]) -> T:
        """Do something with `twin` on the world's loop, and give its result."""

        async def done() -> T:
            return what()

        return self.thread.call(done())


class Server(World):
    """One fake deployment at `url`, a free port of this machine, for any HTTP client; else as `World`.

    Receivers listen on free ports too; `mount` still works, without a socket.
    """

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0, **settings: Any) -> None:
        self._host, self._port = host, port
        super().__init__(**settings)
        self._settings["host"] = host  # for forks; a port is another's

    def _begin(self) -> None:
        super()._begin()
        self._listener = Listener(self.app, self._host, self._port)
        self.thread.call(self._listener.open())
        self.url = self._listener.url
        self._mounts.listens_at(self._listener.port)

    def _names(self) -> Collection[str]:
        return names_of(self._host)

    def _end(self) -> None:
        self.thread.call(self._listener.close())
        super()._end()

    def _connection(self) -> dict[str, Any]:
        return {}

    def _attach(self, receiver: Receiver) -> None:
        receiver.start()


class Clock:
    """The clock of a world, which goes forward only."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def now(self) -> Micros:
        """The current instant, µs since the epoch."""
        return self._world.twin.now()

    def __str__(self) -> str:
        return iso(self.now)

    def advance(
        self,
        by: Length | None = None,
        *,
        to: Moment | None = None,
        job: str = "",
        endpoint: str = "",
        meter: str = "",
        account: str = "",
        timeout: float | None = None,
    ) -> Advance:
        """Move time on, and return when everything that fell due was done, webhooks answered included.

        `by` is a length such as "36m" and `to` an instant. The clock stops where `job` has finished or
        `endpoint` is disabled, or where the `meter` of `account` (default the first one) begins anew. What
        does not come within `by`, or 400 days, is given up, which `met` of the answer tells. `timeout` is in
        seconds of wall time. Raises NotSettled, and BadInput.
        """
        return self._world.thread.call(self._advance(by, to, job, endpoint, meter, account, timeout))

    async def advance_async(
        self,
        by: Length | None = None,
        *,
        to: Moment | None = None,
        job: str = "",
        endpoint: str = "",
        meter: str = "",
        account: str = "",
        timeout: float | None = None,
    ) -> Advance:
        """The same without blocking the loop of the caller."""
        moving = self._advance(by, to, job, endpoint, meter, account, timeout)
        return await self._world.thread.call_async(moving)

    def next(self, timeout: float | None = None) -> Advance:
        """Move on to the next piece of work that is due; where there is none time stays."""
        return self._world.thread.call(_settled(self._world.twin.advance_to_next(timeout)))

    def settle(self, timeout: float | None = None) -> Advance:
        """Let what is due now be done and what is out be answered."""
        return self.advance(0, timeout=timeout)

    def set(self, clock: str | None = None, traffic: str | None = None, signature: str | None = None) -> None:
        """Change how time runs ("manual", "real", "scaled:60") from here on. Raises BadInput."""
        self._world.run(lambda: self._world.twin.set_clock(clock, traffic, signature))

    async def _advance(
        self,
        by: Length | None,
        to: Moment | None,
        job: str,
        endpoint: str,
        meter: str,
        account: str,
        timeout: float | None,
    ) -> Advance:
        twin = self._world.twin
        until: AdvanceCondition | None = (
            UntilJobFinished(job) if job else UntilEndpointDisabled(endpoint) if endpoint else None
        )
        if job and endpoint:
            raise BadInput("clock: expected a job or an endpoint, not both")
        if account and not meter:
            raise BadInput("clock: account says whose meter is meant; give meter too")
        if meter and (by, to) != (None, None):
            raise BadInput("clock: a meter says how far to go; leave out by and to")
        instant = None if to is None else _instant(to)
        if meter:
            state = twin.service.state
            owner = account or state.keys[twin.keys["production"]].account
            instant = meter_resets(state, twin.policy, owner, meter, twin.now())
        length = None if by is None else _micros(by)
        return await _settled(twin.advance(by=length, to=instant, until=until, timeout=timeout))


class Jobs:
    """The jobs of a world, whose outcome a test may decide; the webhooks of it are answered on return."""

    def __init__(self, world: World) -> None:
        self._world = world

    def finish(self, job: str, cost: int | None = None) -> None:
        """Let a job be done now, at a `cost` in µUSD (default: its estimate). Raises BadInput."""
        self._end(job, "done", None, cost)

    def fail(self, job: str, error: str = "failed by the test") -> None:
        """Let a job fail now with this error_detail; it costs nothing (U49). Raises BadInput."""
        self._end(job, "failed", error, None)

    def _end(self, job: str, outcome: str, error: str | None, cost: int | None) -> None:
        async def ended() -> None:
            twin = self._world.twin
            twin.finish_job(job, outcome, error, cost)
            # Where a receiver ends a job, the advance that called the receiver settles this too.
            with suppress(AdvanceUnderWay):
                await _settled(twin.advance(by=0))

        self._world.thread.call(ended())


class Requests:
    """The requests that a world was sent, oldest first: the last 10,000, or 64 MiB of them."""

    def __init__(self, world: World) -> None:
        self._world = world

    def search(self, **expected: Any) -> list[JournalEntry]:
        """Return the requests as expected; the arguments are fields of `request_journal.Expected`."""
        wanted = Expected(**expected)
        return self._world.run(lambda: self._journal().search(wanted))

    def count(self, **expected: Any) -> int:
        """Count the requests as expected."""
        return len(self.search(**expected))

    def assert_made(self, times: int | None = None, **expected: Any) -> None:
        """Assert that such a request came, or that it came so many times.

        The AssertionError names the requests that came near, and what tells them apart.
        """
        wanted = Expected(**expected)
        least = 1 if times is None else times
        verdict = self._world.run(lambda: self._journal().verify(wanted, least, times))
        if not verdict:
            raise AssertionError(verdict.message)

    def _journal(self) -> RequestJournal:
        if self._world.twin.requests is None:
            raise BadInput("requests: this world keeps no journal")
        return self._world.twin.requests


class Deployment:
    """A real deployment at a base URL, with a key; a test that wants control of it is skipped."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url.rstrip("/")
        self.key = self.sandbox_key = key
        self._clients: list[httpx.Client] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if hasattr(World, name) or name in ("clock", "jobs", "requests", "twin", "app"):
            raise NeedsControl(f"{name}: {self.url} is a real deployment, not under control of a test")
        raise AttributeError(name)

    def close(self) -> None:
        """Close the clients."""
        for client in self._clients:
            client.close()

    def base_url(self, environment: str = "production") -> str:
        """Where /v1 begins; a deployment is one environment."""
        return self.url

    def client(self, who: str | None = None, environment: str = "production", **options: Any) -> httpx.Client:
        """A client whose paths begin with /v1. `options` are those of `httpx.Client`."""
        client = httpx.Client(**self._options(who, options))
        self._clients.append(client)
        return client

    def async_client(
        self, who: str | None = None, environment: str = "production", **options: Any
    ) -> httpx.AsyncClient:
        """The same for asyncio; close it yourself."""
        return httpx.AsyncClient(**self._options(who, options))

    def _options(self, who: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
        return {**options, "base_url": self.url, "headers": _headers(who or self.key, options)}


def open_target(target: str = "inproc", key: str = "", **settings: Any) -> World | Deployment:
    """Open what RANKSIM_TARGET names: "inproc" a World, "server" a Server, a URL a Deployment.

    `settings` are those of a World; a deployment has its own. Raises BadInput.
    """
    if target == "inproc":
        return World(**settings)
    if target == "server":
        return Server(**settings)
    if not target.startswith(("http://", "https://")):
        raise BadInput(f"RANKSIM_TARGET: expected inproc, server or a URL, found {target!r}")
    if not key:
        raise BadInput("RANKSIM_KEY: expected an API key of the deployment that RANKSIM_TARGET names")
    return Deployment(target, key)


def transport(**settings: Any) -> httpx.BaseTransport:
    """An httpx transport into a world of its own, which ends when the client is closed."""
    world = World(**settings)
    return Transport(world.app, world.thread, closed=world.close)


def asgi_app(*, strict_query: bool = True, control_token: str | None = None, **settings: Any) -> Facade:
    """An ASGI app of a world of its own, which runs on the loop of whoever calls it.

    Time is moved over HTTP, under /_ranksim, by who sends the `token` of the app: `control_token`, a new one
    by default and none if it is "". `strict_query` is that of a `World`, `settings` those of `Twin`.
    """
    token = new_token() if control_token is None else control_token
    return create_app(Twin(**settings), token=token or None, strict_query=strict_query)


def _headers(key: str, options: Mapping[str, Any]) -> httpx.Headers:
    headers = httpx.Headers({"Authorization": f"Bearer {key}"})
    headers.update(options.get("headers"))
    return headers


async def _settled(moving: Coroutine[Any, Any, Advance]) -> Advance:
    advance = await moving
    if not advance.settled:
        waiting = ", ".join(f"attempt {one.number} of {one.event} to {one.url}" for one in advance.waiting)
        raise NotSettled(f"time stands at {iso(advance.now)}, still without an answer: {waiting}")
    return advance


def _micros(length: Length) -> Micros:
    try:
        if isinstance(length, timedelta):
            return length // timedelta(microseconds=1)
        return _no_fraction(duration(length) if isinstance(length, str) else length)
    except ValueError as error:
        raise BadInput(f"clock: {error}") from None


def _instant(moment: Moment, where: str = "clock") -> Micros:
    try:
        return _no_fraction(instant(moment) if isinstance(moment, str) else moment)
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from None


def _no_fraction(us: Micros) -> Micros:
    """Refuse what is no whole number: a fraction of a microsecond would spread to every instant after it."""
    if not isinstance(us, int):
        raise ValueError(f"expected text or a whole number of µs, found {us!r}")
    return us
