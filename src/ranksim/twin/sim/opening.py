"""The accounts and endpoints of a scenario, opened in a service as they are at its start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from ranksim.core.callers.portfolio import Actor, fixed_id, open_actor
from ranksim.core.clock import Micros
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
    return _opened(service, world)[0]


def _opened(service: Service, world: Scenario) -> tuple[dict[str, Actor], dict[str, str]]:
    """Return the accounts, and the ids of endpoints, by name."""
    host = _Now(service, world.start)
    actors = {name: open_actor(host, name, account) for name, account in world.accounts.items()}
    endpoints = {}
    for name, receiver in world.receivers.items():
        actor = actors[receiver.account]
        bound = None if receiver.domain is None else actor.hosts[receiver.domain]
        hook = {"url": receiver.address(name), "event_types": list(receiver.event_types), "domain_id": bound}
        with fixed_id(service, f"receivers.{name}.id", receiver.id, service.state.endpoints):
            reply = host.app_call(actor, "webhooks.create", hook)
        if reply.status >= 400 or reply.body is None:
            raise BadInput(f"receivers.{name}: the service refused the endpoint: {reply.body}")
        endpoints[name] = reply.body["data"]["id"]
        if receiver.secret:
            service.state.endpoints[endpoints[name]].secret = receiver.secret
    return actors, endpoints


def timeline_state(
    actors: Mapping[str, Actor], endpoints: Mapping[str, str], down: Iterable[str] = (), done: int = 0
) -> dict[str, Any]:
    """Return where a timeline stands, as JSON: accounts, endpoints, receivers down, how much is done."""
    made = {name: asdict(actor) for name, actor in actors.items()}
    return {"done": done, "actors": made, "endpoints": dict(endpoints), "down": list(down)}


class Opened(NamedTuple):
    """A service as a scenario describes it, the first keys, and where its timeline stands."""

    service: Service
    keys: dict[str, str]
    standing: dict[str, Any]


def opened_at(world: Scenario, until: Micros | None) -> Opened:
    """Open a world as it is at its start, or simulate it up to an instant. Raises BadInput."""
    if until is None:
        service, down = Service(world.policy, world.seed), []
        actors, endpoints = _opened(service, world)
    else:
        from ranksim.twin.sim.world import World

        played = World(world)
        played.env.run(until=until - world.start)
        service, actors, endpoints = played.service, played.actors, played.endpoints
        down = [name for name, receiver in played.receivers.items() if receiver.down]
    keys: dict[str, str] = {}
    for actor in actors.values():
        for token in actor.keys.values():
            keys.setdefault(actor.environment, token)
    return Opened(service, keys, timeline_state(actors, endpoints, down))
