"""One fake deployment inside a test, without sockets."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakSet

from ranksim.core.callers.receivers import AnswerStep as Step
from ranksim.core.clock import Micros
from ranksim.core.contract.plans import Plan
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.twin.facade.app import Facade
from ranksim.twin.facade.journal.journaled_service import Administration
from ranksim.twin.facade.mounts import Mounts
from ranksim.twin.facade.twin import Twin
from ranksim.twin.receiver.receiver import Receiver
from ranksim.twin.serving.asgi import App
from ranksim.twin.serving.control_auth import new_token
from ranksim.twin.serving.loop_thread import LoopThread
from ranksim.twin.testing.beginning import beginning_of, origin_of
from ranksim.twin.testing.clock import Clock, Jobs, Moment, moment_of
from ranksim.twin.testing.explained import explain_failure
from ranksim.twin.testing.requests import Requests

if TYPE_CHECKING:
    import httpx

    from ranksim.twin.sim.scenario import Scenario
    from ranksim.twin.testing.control import Deliveries, FaultRules, LimitSwitches

T = TypeVar("T")

START = "2026-03-02T09:00:00Z"
"""When a world begins if nothing else is said: a Monday morning, far from the edge of a week or a month."""

URL = "http://ranksim.test"
"""The base URL of a world without sockets."""

ENVIRONMENTS = {"production": "", "sandbox": "/sandbox"}
"""Where each environment's /v1 begins, below the base URL."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account that a world opened, with its first API key."""

    id: str
    name: str
    environment: str
    key: str


OPEN: WeakSet[World] = WeakSet()
"""The worlds of this process that are open: a failed test says how they stand."""


class World:
    """One fake deployment without sockets. Close it, or use it as a context manager.

    `policy` is a `Policy` or the path of one, `plan` that of the two first accounts, which are called "demo"
    (default "pro"); `seed` decides ids, keys and secrets. `clock` is "manual", "real" or "scaled:60", `start`
    an instant, or None for now; policy, plan, seed and start may be those of a `world` instead, see `of`.
    `signature_clock` "wall" signs webhooks for receivers that compare with their own clock, "virtual" with
    this world's. With `network`, webhooks also go to addresses beyond this machine. Unknown query parameters
    and fields of bodies are refused, or ignored without `strict_query` (U100) and `strict_body` (U84). Over
    HTTP the control API wants `control_token`, a new one by default and none if it is "". Raises BadInput.
    """

    begun = False
    """Whether it has come up: a world with a bad argument never does, and has nothing to tell."""

    def __init__(
        self,
        *,
        world: Scenario | Path | str | None = None,
        until: Moment | None = None,
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
        strict_body: bool = True,
        control_token: str | None = None,
    ) -> None:
        self.control_token = new_token() if control_token is None else control_token
        beginning: dict[str, Any] = {
            "policy": policy if isinstance(policy, Policy | None) else Policy.load(Path(policy)),
            "plan": plan,
            "seed": seed,
            "start": None if start is None else moment_of(start),
        }
        if world is not None:
            if policy is not None or plan or seed or start != START:
                raise BadInput("world: a scenario says policy, plan, seed and start; leave them out")
            beginning = beginning_of(world, None if until is None else moment_of(until))
        elif until is not None:
            raise BadInput("until: expected together with a world, a scenario to simulate up to then")
        self._beginning = {"world": world, "until": until} if world is not None else beginning
        self._settings: dict[str, Any] = {
            "clock": clock,
            "traffic_clock": traffic_clock,
            "signature_clock": signature_clock,
            "settle_timeout": settle_timeout,
        }
        self._network, self._strict_query, self._strict_body = network, strict_query, strict_body
        self._mounts = Mounts(network=network, waits=lambda: self.twin.clock.rate.mode != "manual")
        self.twin = Twin(**beginning, **self._settings, sender=self._mounts, read_origin=origin_of)
        """The world itself; touch it from its own loop alone, as the methods here do."""
        self.app = Facade(
            self.twin,
            token=self.control_token or None,
            strict_query=strict_query,
            strict_body=strict_body,
            control_names=self._names(),
        )
        self.url = URL
        self._receivers: list[Receiver] = []
        self._clients: list[httpx.Client] = []
        self._closed = False
        self.thread = LoopThread("ranksim world")
        self.clock = Clock(self.twin, self.thread)
        self.jobs = Jobs(self.twin, self.thread)
        self.requests = Requests(self.twin, self.thread)
        try:
            self._begin()
        except BaseException:
            self.thread.stop()
            raise
        self.begun = True
        OPEN.add(self)

    @classmethod
    def of(cls, world: Scenario | Path | str, until: Moment | None = None, **settings: Any) -> Self:
        """Begin with the accounts, portfolios, endpoints and what is used of a scenario, or of its file.

        What happens in it, by clients, pools and timeline, does so up to `until` (an instant), and not
        without. Raises BadInput.
        """
        return cls(world=world, until=until, **settings)

    def _names(self) -> Collection[str]:
        return ("ranksim.test",)

    def _begin(self) -> None:
        self.thread.call(self.twin.start())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and "PYTEST_CURRENT_TEST" not in os.environ:  # which says it itself
            error.add_note(f"{self.url}:\n{self.told()}")
        self.close()

    def close(self) -> None:
        """End the world, its clients and its receivers; a second call does nothing."""
        if self._closed:
            return
        OPEN.discard(self)
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
        from ranksim.twin.facade.httpx_transport import Transport

        return Transport(self.app, self.thread)

    def client(
        self, who: Account | str | None = None, environment: str = "production", **options: Any
    ) -> httpx.Client:
        """A client whose paths begin with /v1, for an account or a key (default the first one).

        `options` are those of `httpx.Client`. The world closes it.
        """
        import httpx

        client = httpx.Client(**self._options(who, environment, options))
        self._clients.append(client)
        return client

    def control(self, **options: Any) -> httpx.Client:
        """A client whose paths begin below /_ranksim, such as "/clock", and which sends the control token.

        `options` are those of `httpx.Client`. The world closes it.
        """
        import httpx

        client = httpx.Client(
            **{
                "trust_env": False, **self._connection(), **options,
                "base_url": f"{self.url}/_ranksim", "headers": headers_with_key(self.control_token, options),
            }
        )  # fmt: skip
        self._clients.append(client)
        return client

    def async_client(
        self, who: Account | str | None = None, environment: str = "production", **options: Any
    ) -> httpx.AsyncClient:
        """The same for asyncio; close it yourself."""
        import httpx

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
            "base_url": base_url, "headers": headers_with_key(key, options),
        }  # fmt: skip

    def _connection(self) -> dict[str, Any]:
        return {"transport": self.transport()}

    # Under its control

    @cached_property
    def faults(self) -> FaultRules:
        """Answers broken on purpose."""
        from ranksim.twin.testing.control import FaultRules

        return FaultRules(self.twin, self.thread)

    @cached_property
    def limits(self) -> LimitSwitches:
        """Limits switched off and on."""
        from ranksim.twin.testing.control import LimitSwitches

        return LimitSwitches(self.twin, self.thread)

    @cached_property
    def deliveries(self) -> Deliveries:
        """Webhook deliveries and their attempts; events triggered, and sent again."""
        from ranksim.twin.testing.control import Deliveries

        return Deliveries(self.twin, self.thread)

    @property
    def plans(self) -> Mapping[str, Plan]:
        """The plans of the policy by name, with their limits and prices."""
        return self.twin.policy.catalogue.plans

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
        identity = {"name": name, "plan": plan, "environment": environment, "status": status}
        more = {
            "add_ons": dict(add_ons or {}),
            "anchor": None if anchor is None else moment_of(anchor, "anchor"),
        }

        def opened() -> Account:
            account = self.twin.administer("open_account", **identity, **more)
            key = self.twin.administer("issue_key", account=account, name=name)
            return Account(account, name, environment, key)

        return self.run(opened)

    def administer(self, method: Administration, **arguments: Any) -> Any:
        """Do what the API does not offer: issue_key, withdraw_key, change_plan, set_status, set_add_on.

        Arguments are those of `Service`, without `now`. Raises BadInput.
        """
        return self.run(lambda: self.twin.administer(method, **arguments))

    def told(self) -> str:
        """Return what explains a failure: the clock, what is due, endpoints, the last requests."""
        if self._closed:
            return explain_failure(self.twin)

        async def explained() -> str:
            return explain_failure(self.twin)

        try:
            return self.thread.call(explained(), patience_s=10)
        except TimeoutError:
            return "this world does not answer: something in it blocks its loop"

    def __repr__(self) -> str:
        if not self.begun:
            return f"<{type(self).__name__} that has not begun>"
        return f"<{type(self).__name__} {self.url}, clock {self.clock}{', closed' if self._closed else ''}>"

    # Worlds

    def snapshot(self) -> bytes:
        """Return the whole world as JSON."""
        return self.run(self.twin.snapshot)

    def restore(self, snapshot: bytes) -> None:
        """Go back to where a snapshot was taken: another world begins, with the fault rules of then.

        The journal of requests is emptied. Raises BadInput.
        """
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
            **{**self._beginning, **self._settings, **running},
            network=self._network,
            strict_query=self._strict_query,
            strict_body=self._strict_body,
            control_token=self.control_token,
        )
        other._mounts.apps.update(self._mounts.apps)
        other.restore(snapshot)
        return other

    def run(self, what: Callable[[], T]) -> T:
        """Do something with `twin` on the world's loop, and return its result."""
        return self.thread.run(what)


def headers_with_key(key: str, options: Mapping[str, Any]) -> httpx.Headers:
    """Return the headers among the options of a client, with a key where they have none."""
    import httpx

    headers = httpx.Headers({"Authorization": f"Bearer {key}"})
    headers.update(options.get("headers"))
    return headers
