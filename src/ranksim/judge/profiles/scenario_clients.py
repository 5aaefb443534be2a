"""The clients of a scenario, aimed at a deployment: each user plays one, on what the run made for it.

What a deployment has no counterpart for is left out: clients of the web app, over GraphQL, and those that are
Python of their own. Plans, add-ons, timelines and receivers are the deployment's.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from ranksim.core.callers.portfolio import AccountSpec, Actor, Making, host_label, portfolio_of, site_of
from ranksim.core.callers.programs import AnyClient, Python, program_of
from ranksim.core.callers.retry import politely
from ranksim.core.callers.steps import Pause, Program, Received, Send
from ranksim.core.clock import Micros
from ranksim.core.errors import BadInput
from ranksim.judge.deployment.discovery import Reach
from ranksim.judge.profiles.fixtures import User
from ranksim.judge.profiles.profile import Profile


class HasClients(Protocol):
    """What is taken of a scenario: its accounts, its clients, and how long it is in µs."""

    @property
    def name(self) -> str:
        """The scenario's name."""

    @property
    def length(self) -> Micros:
        """How long it is."""

    @property
    def accounts(self) -> Mapping[str, AccountSpec]:
        """Its accounts by name."""

    @property
    def clients(self) -> Mapping[str, AnyClient]:
        """Its clients by name."""


@dataclass(slots=True)
class DeployedSetting:
    """Where clients are at work when they call a deployment: instants are µs of the recorder's clock."""

    reach: Reach
    seed: int
    start: Micros
    end: Micros
    actors: Mapping[str, Actor]

    @property
    def now(self) -> Micros:
        """The instant at which the clients begin."""
        return self.start

    def credential(self, account: str, key: str | None) -> str:
        """Return the target's key that stands for a key of an account of the scenario."""
        return key_for(self.reach, account, key)

    def note(self, text: str) -> None:
        """Drop a remark: a trace shows the calls themselves."""

    def given_up(self, client: str, operation: str, tries: int) -> None:
        """Do nothing: a trace shows every try."""


def key_for(reach: Reach, account: str, key: str | None) -> str:
    """Name the target's key for a scenario's: "account.key" where there is one, else "account", else main."""
    usable = {usable_key.name for usable_key in reach.usable()}
    return next((name for name in (f"{account}.{key}", account) if name in usable), reach.main)


def scenario_clients(scenario: HasClients, only: Collection[str] = ()) -> Profile:
    """Make a profile of a scenario's clients, or of those that `only` names.

    Raises BadInput when none of them can call a deployment, or one that is named.
    """
    title = scenario.name or "scenario"
    clients = {
        name: spec
        for name, spec in scenario.clients.items()
        if not isinstance(spec, Python) and spec.surface == "rest"
    }
    for name in only:
        if name not in clients:
            has = f"its clients that can: {', '.join(clients)}" if clients else "it has none that can"
            raise BadInput(f"{title}: no client {name!r} of it can call a deployment; {has}")
    clients = {name: spec for name, spec in clients.items() if not only or name in only}
    if not clients:
        raise BadInput(f"{title}: no client of it can call a deployment; expected one with surface: rest")

    def program(me: User) -> Program:
        copy, which = divmod(me.number, len(clients))
        name, spec = list(clients.items())[which]
        actors = {}
        for account in spec.owners:
            actors[account] = yield from _owned(me, account, scenario.accounts[account])
        start: Micros = yield Pause(0)
        setting = DeployedSetting(me.reach, me.seed, start, start + scenario.length, actors)
        yield from program_of(setting, me.named(name, *([copy] if copy else [])), spec)

    return Profile(
        name=title,
        aim=f"The clients of {title}: {', '.join(clients)}.",
        rules=(),
        users=len(clients),
        duration=scenario.length,
        plays=program,
    )


def _owned(me: User, name: str, spec: AccountSpec) -> Generator[Any, Any, Actor]:
    """Make what an account of the scenario starts with, as far as the deployment allows it.

    All users send the same POSTs under the same Idempotency-Keys, and so get the same ids.
    """
    key = me.reach.keys[key_for(me.reach, name, None)]
    actor = Actor(name, key.account, key.environment, {key_spec.name: key.name for key_spec in spec.keys})
    label = host_label(name).lower()
    numbers = count(1)

    sites: dict[str, str] = {}

    def made() -> Making:
        for portfolio in spec.portfolios:
            own = {host: me.host("own", label, next(numbers)) for host in portfolio.hosts(name)}
            sites.update(own)
            yield from portfolio_of(actor, portfolio, own.values())
        for site in spec.sites:
            sites[site.host] = me.host("own", label, next(numbers))
            yield from site_of(actor, site.model_copy(update={"host": sites[site.host]}))

    making = made()
    data: Any = None
    for call in count():
        try:
            operation, body = making.send(data)
        except StopIteration:
            break
        once = me.named("own", label, call)
        answer: Received = yield from politely(Send(operation, key.name, body=body, idempotency_key=once))
        if not answer.ok or not isinstance(answer.data, dict):
            break
        data = answer.data
    actor.hosts |= {host: actor.hosts[site] for host, site in sites.items() if site in actor.hosts}
    return actor
