"""A twin that can be served: a state file with the accounts as they are now, a target file of their keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ranksim.core.callers.portfolio import Actor, open_actor
from ranksim.core.clock import Micros
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Body, Call, Reply
from ranksim.core.service.service import Service
from ranksim.twin.facade.journal.write_ahead import attach
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin
from ranksim.twin.sim.scenario import Scenario

ADDRESSES = {"production": "http://127.0.0.1:8080", "sandbox": "http://127.0.0.1:8080/sandbox"}
"""Where `ranksim serve` serves, if nothing else is asked for."""


@dataclass(slots=True)
class _Now:
    """A service at an instant, where accounts are opened."""

    service: Service
    now: Micros

    def app_call(self, actor: Actor, operation: str, body: Body, /) -> Reply:
        call = Call(operation, body=body, surface="app", account=actor.account, environment=actor.environment)
        reply = self.service.handle(call, self.now).reply
        self.service.written(reply, self.now)
        return reply


def write_state(world: Scenario, file: Path) -> dict[str, Any]:
    """Begin a state file with the accounts of a world, and return a target file of their keys.

    `ranksim serve --state FILE` goes on from it, under the world's policy. Raises BadInput.
    """
    twin = Twin(
        world.policy,
        world.seed,
        start=world.start,
        signature_clock="wall",
        sender=Scripted(),
        empty=True,
    )
    assert isinstance(twin.service, Service)
    host = _Now(twin.service, world.start)
    actors = {name: open_actor(host, name, account) for name, account in world.accounts.items()}
    for name, receiver in world.receivers.items():
        actor = actors[receiver.account]
        bound = None if receiver.domain is None else actor.hosts[receiver.domain]
        hook = {"url": receiver.url, "event_types": list(receiver.event_types), "domain_id": bound}
        reply = host.app_call(actor, "webhooks.create", hook)
        if reply.status >= 400:
            raise BadInput(f"receivers.{name}: the service refused the endpoint: {reply.body}")
    keys: dict[str, Any] = {}
    for name, actor in actors.items():
        for key, token in actor.keys.items():
            twin.keys.setdefault(actor.environment, token)
            domain = twin.service.state.keys[token].domain
            scoped = {} if domain is None else {"purpose": "scoped", "domain_id": domain}
            keys[key if key not in keys else f"{key}-{name}"] = {
                "token": token,
                "environment": actor.environment,
                **scoped,
            }
    attach(twin, file).close()
    used = {actor.environment for actor in actors.values()}
    return {"environments": {name: url for name, url in ADDRESSES.items() if name in used}, "keys": keys}
