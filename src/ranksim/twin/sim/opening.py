"""The accounts and endpoints of a scenario, opened in a service as they are at its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ranksim.core.callers.portfolio import Actor, open_actor
from ranksim.core.clock import Micros, iso
from ranksim.core.errors import BadInput
from ranksim.core.service.calls import Body, Call, Reply
from ranksim.core.service.service import Service
from ranksim.twin.sim.scenario import Scenario


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


def open_world(service: Service, world: Scenario) -> dict[str, Actor]:
    """Open a world's accounts in an empty service as they are at its start, endpoints included; return them
    by name. Raises BadInput.
    """
    host = _Now(service, world.start)
    actors = {name: open_actor(host, name, account) for name, account in world.accounts.items()}
    for name, receiver in world.receivers.items():
        actor = actors[receiver.account]
        bound = None if receiver.domain is None else actor.hosts[receiver.domain]
        hook = {"url": receiver.url, "event_types": list(receiver.event_types), "domain_id": bound}
        reply = host.app_call(actor, "webhooks.create", hook)
        if reply.status >= 400:
            raise BadInput(f"receivers.{name}: the service refused the endpoint: {reply.body}")
    return actors


def first_keys(actors: Mapping[str, Actor]) -> dict[str, str]:
    """Return the first key of each environment."""
    keys: dict[str, str] = {}
    for actor in actors.values():
        for token in actor.keys.values():
            keys.setdefault(actor.environment, token)
    return keys


def service_at_start(world: Scenario) -> tuple[Service, dict[str, str]]:
    """Return a service with the accounts of a world's start, and the first keys. Raises BadInput."""
    service = Service(world.policy, world.seed)
    return service, first_keys(open_world(service, world))


def service_at(world: Scenario, until: Micros) -> tuple[Service, dict[str, str]]:
    """Return the service of a world that was simulated to an instant, and its first keys. Raises BadInput."""
    from ranksim.twin.sim.world import World

    if not world.start < until <= world.end:
        raise BadInput(f"until: expected an instant up to {iso(world.end)}, the end of the scenario")
    played = World(world)
    played.env.run(until=until - world.start)
    return played.service, first_keys(played.actors)
