"""Which world is served, saved, forked, restored and begun anew, and all that is in it."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic_core import to_json
from typing_extensions import TypedDict  # typing's has too little for pydantic before Python 3.12

from ranksim.core.clock import iso
from ranksim.core.contract.quantities import Frozen
from ranksim.core.errors import BadInput
from ranksim.twin.facade.control.command import Conflict, Json, Missing, Router
from ranksim.twin.facade.journal.sqlite import pack_file
from ranksim.twin.facade.journal.write_ahead import dump_world
from ranksim.twin.facade.page.overview import overview
from ranksim.twin.facade.snapshots import SavedWorld, policy_digest
from ranksim.twin.facade.twin import Twin
from ranksim.twin.facade.virtual_clock import is_instant

MOST_SNAPSHOTS = 100
MOST_SNAPSHOT = 512 * 1_048_576
"""Bytes of one that is taken in."""

NAME = "[A-Za-z0-9._-]{1,100}"
"""What a snapshot may be called."""

router, page_router = Router(), Router()
"""Those of the page stand last in the document."""


class WorldShown(TypedDict):
    """The world that is served."""

    world_id: str
    now: str
    policy: str
    seed: int
    keys: dict[str, str]


class NameBody(Frozen):
    """A name to save under."""

    name: Annotated[str, Field(pattern=f"^{NAME}$")]


class SnapshotShown(TypedDict):
    """A world that was saved."""

    name: str
    now: str
    bytes: int


class SnapshotList(TypedDict):
    """Saved worlds, in order of saving."""

    data: list[SnapshotShown]


class ForkShown(TypedDict):
    """The world that goes on, and the snapshot to go back to."""

    saved: SnapshotShown
    world: WorldShown


@router.add("GET", "/world")
async def get_world(twin: Twin) -> WorldShown:
    """Read which world is served."""
    return {
        "world_id": twin.world_id,
        "now": iso(twin.now()),
        "policy": twin.policy.name,
        "seed": twin.service.state.seed,
        "keys": dict(twin.keys),
    }


@router.add("POST", "/reset")
async def reset(twin: Twin) -> WorldShown:
    """Begin anew, as at the start. Fault rules and the journal of requests are emptied too."""
    if twin.origin is not None:
        await asyncio.to_thread(twin.origin.open)  # simulated once, anew after a restart: calls are answered
    twin.reset()
    return await get_world(twin)


@router.add("POST", "/fork", example={"name": "before"})
async def fork(twin: Twin, body: NameBody) -> ForkShown:
    """Save the world under a name and go on in a copy of it, a new world, from which restoring leads back."""
    saved = SavedWorld(twin.now(), twin.snapshot())
    snapshot = _save(twin, body.name, saved)
    twin.restore(saved.world, keep_requests=True)
    return {"saved": snapshot, "world": await get_world(twin)}


@router.add("GET", "/snapshots")
async def list_snapshots(twin: Twin) -> SnapshotList:
    """List the saved worlds."""
    return {"data": [_saved(name, saved) for name, saved in twin.snapshots.items()]}


@router.add("POST", "/snapshots", status=201, example={"name": "before"})
async def save(twin: Twin, body: NameBody) -> SnapshotShown:
    """Save the world under a name; what had the name is overwritten."""
    return _save(twin, body.name, SavedWorld(twin.now(), twin.snapshot()))


@router.add("GET", "/snapshots/{name}", answer=Json)
async def get_snapshot(twin: Twin, name: str) -> bytes:
    """Give a saved world as JSON, to keep elsewhere."""
    return _snapshot(twin, name).world


@router.add("PUT", "/snapshots/{name}", most=MOST_SNAPSHOT, example={})
async def put_snapshot(twin: Twin, name: str, body: Json, raw: bytes) -> SnapshotShown:
    """Take in a saved world under a name; restoring checks it."""
    now: Any = body.get("now")
    if "ranksim_snapshot" not in body or not is_instant(now):
        raise BadInput("body: expected the JSON that a snapshot of ranksim gave")
    if not re.fullmatch(NAME, name):
        raise BadInput(f"name: expected letters, digits, dots, underscores and hyphens, found {name!r}")
    return _save(twin, name, SavedWorld(now, raw))


@router.add("DELETE", "/snapshots/{name}")
async def drop_snapshot(twin: Twin, name: str) -> SnapshotShown:
    """Forget a saved world."""
    saved = _snapshot(twin, name)
    twin.snapshots.drop(name)
    twin.event_log.note(twin.now(), "snapshot.dropped", {"name": name})
    return _saved(name, saved)


@router.add("POST", "/snapshots/{name}/restore")
async def restore(twin: Twin, name: str) -> WorldShown:
    """Go back to where a world was saved, its fault rules too. The journal is emptied; time may go back."""
    twin.restore(_snapshot(twin, name).world)
    return await get_world(twin)


def _snapshot(twin: Twin, name: str) -> SavedWorld:
    if name not in twin.snapshots:
        raise Missing(f"snapshot: there is none with the name {name!r}")
    return twin.snapshots[name]


def _save(twin: Twin, name: str, saved: SavedWorld) -> SnapshotShown:
    if name not in twin.snapshots and len(twin.snapshots) >= MOST_SNAPSHOTS:
        raise Conflict(f"snapshot: there are {MOST_SNAPSHOTS} already; delete some")
    twin.snapshots.save(name, saved)
    twin.event_log.note(twin.now(), "snapshot.saved", {"name": name})
    return _saved(name, saved)


def _saved(name: str, saved: SavedWorld) -> SnapshotShown:
    return {"name": name, "now": iso(saved.now), "bytes": len(saved.world)}


class StateQuery(Frozen):
    """What state is given as."""

    form: Literal["state", "scenario"] = Field(
        "state", alias="as", description="All state, or a scenario that begins as the world stands."
    )


@router.add("GET", "/state", answer=Json)
async def get_state(twin: Twin, query: StateQuery) -> bytes:
    """Give all state of the service as JSON, secrets included: times in µs, money in µUSD.

    `?as=scenario` gives a scenario of what a file states of it: accounts, keys, portfolios, use, endpoints,
    faults, and what its timeline does from now on.
    """
    if query.form == "state":
        return twin.service.save()
    return to_json(twin.stated())


SCENARIO = {"start": "2026-03-04T10:00:00Z", "length": "1d", "accounts": {"acme": {"plan": "pro"}}}
"""A small one, to try."""


@router.add("POST", "/state", most=MOST_SNAPSHOT, example=SCENARIO)
async def begin_world(twin: Twin, body: str) -> WorldShown:
    """Begin the world that a scenario describes, in YAML or JSON, or that a snapshot is of.

    A reset returns to it. Its policy is that of the world that is served, if it says none.
    """
    if '"ranksim_snapshot"' in body:
        twin.restore(body.encode())
    else:
        origin = await asyncio.to_thread(twin.read_origin, (body, None), twin.policy)
        twin.begin_as(origin)
    return await get_world(twin)


@router.add("GET", "/export", media="application/vnd.sqlite3")
async def export(twin: Twin) -> bytes:
    """Give the whole world as a state file, to keep elsewhere. What is asked meanwhile is not in it."""
    return await asyncio.to_thread(pack_file, dump_world(twin), policy_digest(twin.policy))


@page_router.add("GET", "/overview")
async def get_overview(twin: Twin) -> Json:
    """Read what the live page shows besides events: clock, accounts, jobs, endpoints, faults."""
    return overview(twin)
