"""A twin that can be served: a state file with the accounts as they are now, a target file of their keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ranksim.core.service.service import Service
from ranksim.twin.facade.journal.write_ahead import attach
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.twin import Twin
from ranksim.twin.sim.opening import open_world
from ranksim.twin.sim.scenario import Scenario

ADDRESSES = {"production": "http://127.0.0.1:8080", "sandbox": "http://127.0.0.1:8080/sandbox"}
"""Where `ranksim serve` serves, if nothing else is asked for."""


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
    actors = open_world(twin.service, world)
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
