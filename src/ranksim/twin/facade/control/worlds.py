"""Which world is served, saved, forked, restored and begun anew, and all that is in it."""

from __future__ import annotations

import asyncio
import re

from pydantic_core import to_json

from ranksim.core.clock import iso
from ranksim.core.errors import BadInput
from ranksim.twin.facade.control import schemas
from ranksim.twin.facade.control.control_request import Conflict, ControlRequest, Missing
from ranksim.twin.facade.journal.sqlite import packed
from ranksim.twin.facade.journal.write_ahead import world_of
from ranksim.twin.facade.page.overview import overview
from ranksim.twin.facade.snapshots import SavedWorld, policy_digest
from ranksim.twin.facade.twin import Twin
from ranksim.twin.facade.virtual_clock import is_instant

MOST_SNAPSHOTS = 100


async def get_world(twin: Twin, request: ControlRequest) -> schemas.WorldShown:
    """Read which world is served."""
    return {
        "world_id": twin.world_id,
        "now": iso(twin.now()),
        "policy": twin.policy.name,
        "seed": twin.service.state.seed,
        "keys": dict(twin.keys),
    }


async def reset(twin: Twin, request: ControlRequest) -> schemas.WorldShown:
    """Begin anew, as at the start. Fault rules and the journal of requests are emptied too."""
    twin.reset()
    return await get_world(twin, request)


async def list_snapshots(twin: Twin, request: ControlRequest) -> schemas.SnapshotList:
    """List the saved worlds."""
    return {"data": [_saved(name, saved) for name, saved in twin.snapshots.items()]}


async def save(twin: Twin, request: ControlRequest) -> schemas.SnapshotShown:
    """Save the world under a name; what had the name is overwritten."""
    return _save(twin, request.body.name, SavedWorld(twin.now(), twin.snapshot()))


async def get_snapshot(twin: Twin, request: ControlRequest) -> bytes:
    """Give a saved world as JSON, to keep elsewhere."""
    return _snapshot(twin, request).world


async def put_snapshot(twin: Twin, request: ControlRequest) -> schemas.SnapshotShown:
    """Take in a saved world under a name; restoring checks it."""
    name, now = request.path["name"], request.body.get("now")
    if "ranksim_snapshot" not in request.body or not is_instant(now):
        raise BadInput("body: expected the JSON that a snapshot of ranksim gave")
    if not re.fullmatch(schemas.NAME, name):
        raise BadInput(f"name: expected letters, digits, dots, underscores and hyphens, found {name!r}")
    return _save(twin, name, SavedWorld(now, request.raw))


async def drop_snapshot(twin: Twin, request: ControlRequest) -> schemas.SnapshotShown:
    """Forget a saved world."""
    saved = _snapshot(twin, request)
    twin.snapshots.drop(request.path["name"])
    twin.event_log.note(twin.now(), "snapshot.dropped", {"name": request.path["name"]})
    return _saved(request.path["name"], saved)


async def restore(twin: Twin, request: ControlRequest) -> schemas.WorldShown:
    """Go back to where a world was saved, its fault rules too. The journal is emptied; time may go back."""
    twin.restore(_snapshot(twin, request).world)
    return await get_world(twin, request)


async def fork(twin: Twin, request: ControlRequest) -> schemas.ForkShown:
    """Save the world under a name and go on in a copy of it, a new world, from which restoring leads back."""
    saved = SavedWorld(twin.now(), twin.snapshot())
    shown = _save(twin, request.body.name, saved)
    twin.restore(saved.world, keep_requests=True)
    return {"saved": shown, "world": await get_world(twin, request)}


def _snapshot(twin: Twin, request: ControlRequest) -> SavedWorld:
    name = request.path["name"]
    if name not in twin.snapshots:
        raise Missing(f"snapshot: there is none with the name {name!r}")
    return twin.snapshots[name]


def _save(twin: Twin, name: str, saved: SavedWorld) -> schemas.SnapshotShown:
    if name not in twin.snapshots and len(twin.snapshots) >= MOST_SNAPSHOTS:
        raise Conflict(f"snapshot: there are {MOST_SNAPSHOTS} already; delete some")
    twin.snapshots.save(name, saved)
    twin.event_log.note(twin.now(), "snapshot.saved", {"name": name})
    return _saved(name, saved)


def _saved(name: str, saved: SavedWorld) -> schemas.SnapshotShown:
    return {"name": name, "now": iso(saved.now), "bytes": len(saved.world)}


async def get_state(twin: Twin, request: ControlRequest) -> bytes:
    """Give all state of the service as JSON, secrets included: times in µs, money in µUSD."""
    return twin.service.save()


async def get_table(twin: Twin, request: ControlRequest) -> bytes:
    """Give one part of the state, such as jobs or endpoints."""
    state, name = twin.service.state, request.path["part"]
    if name not in type(state).__slots__:
        raise Missing(f"state: there is no part {name!r}; expected one of {', '.join(type(state).__slots__)}")
    return to_json(getattr(state, name))


async def export(twin: Twin, request: ControlRequest) -> bytes:
    """Give the whole world as a state file, to keep elsewhere. What is asked meanwhile is not in it."""
    return await asyncio.to_thread(packed, world_of(twin), policy_digest(twin.policy))


async def get_overview(twin: Twin, request: ControlRequest) -> schemas.Json:
    """Read what the live page shows besides events: clock, accounts, jobs, endpoints, faults."""
    return overview(twin)
