"""Keeping a world in a file: every input is on disk before what it caused is seen outside.

The service is deterministic, so its inputs lead to its state: the calls with their instants, the answers to
webhook attempts, what the control API did, how the clock was set. A restart reads the last snapshot and
replays the inputs since. Replies and webhook attempts wait until what led to them is kept; one write serves
all that wait.

A write that fails does what a kill and a restart would: the twin goes back to where the file ends. From then
on it refuses to write, and reads go on, until a write succeeds again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from ranksim.core.clock import Micros
from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.core.service.service import Service
from ranksim.twin.facade.faults import Faults
from ranksim.twin.facade.journal import journaled_service
from ranksim.twin.facade.journal.journaled_service import JournaledService, NotKept, bytes_of
from ranksim.twin.facade.journal.sqlite import StateFile
from ranksim.twin.facade.origin import Described
from ranksim.twin.facade.snapshots import SavedWorld, described_of, policy_digest
from ranksim.twin.facade.twin import Twin

logger = logging.getLogger("ranksim.facade")

SNAPSHOT_EVERY = 20_000
"""Inputs after which a new snapshot bounds the time of a replay."""

IDLE_S = 0.05
"""How long an input that nobody waits for may stay in memory."""

RETRY_S = 1.0
"""How long a file that could not be written is left alone."""


def attach(
    twin: Twin, path: Path, *, every: int = SNAPSHOT_EVERY, accept_loss: bool = False
) -> WriteAheadLog:
    """Resume a twin from a state file, and keep everything there; a new file begins with the twin's world.

    From a file that holds a world come its state, keys, seed, plan, start and clock, whatever the twin was
    made with; a clock that runs has run on meanwhile. `every` is the number of inputs between two snapshots.
    Call it before the twin starts, and `close` what it returns in the end. Raises BadInput, also for a file
    that holds less than was acknowledged, unless `accept_loss`.
    """
    file = StateFile(path, policy_digest(twin.policy), accept_loss=accept_loss)
    if file.loss:
        logger.warning("%s: %s; goes on with what is there", path, file.loss)
    try:
        log = WriteAheadLog(twin, file, every)
        if file.new:
            file.begin(dump_world(twin))
        else:
            log.go_on()
    except sqlite3.Error as error:
        file.close()
        raise BadInput(f"{path}: cannot be written ({error}); make room, or give another path") from None
    except BaseException:
        file.close()
        raise
    log.begin()
    if not file.new:
        twin.resume(twin.now())
    return log


class WriteAheadLog:
    """Writes a twin's inputs to a state file. See `attach`."""

    def __init__(self, twin: Twin, file: StateFile, every: int = SNAPSHOT_EVERY) -> None:
        self._twin, self._file, self._every = twin, file, every
        self._lines: list[bytes] = []
        self._recorded = self._kept = 0
        self._undone, self._why = range(0), ""
        """Which inputs were undone last, and why."""
        self._since = 0
        """Inputs since the last snapshot."""
        self._world_kept = ""
        """The world that the file leads to; inputs alone do not lead to another."""
        self._write: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._closed = False
        self._thread = ThreadPoolExecutor(1, "ranksim state file")

    def begin(self) -> None:
        """Begin to record; what the file holds leads to the world as it is now."""
        twin = self._twin
        self._world_kept = twin.world_id
        assert isinstance(twin.service, Service), "one file keeps a world"
        twin.service = JournaledService(twin.service, self.record)
        twin.began, twin.commit, twin.flushed = self._began, self.commit, self.flushed
        twin.clock.changed = lambda what: self.record(what, twin.now(), twin.clock.saved())
        twin.faults.changed = lambda: self.record("faults", twin.now(), twin.faults.saved())
        twin.snapshots.changed = self._snapshots_changed
        twin.acted = lambda now: self.record("timeline", now, twin.timeline.saved())

    def control_token(self, chosen: str, new: str) -> str:
        """Return the token of the control API, which outlives the process, too. Raises BadInput."""
        return self._file.control_token(chosen, new)

    def go_on(self) -> None:
        """Put the twin where the file ends. Raises BadInput."""
        twin = self._twin
        world, batches = self._file.read()
        at = replay_world(world, batches, twin.policy)
        self._since = sum(batch.count(b"\n") for batch in batches)
        twin.service, twin.keys, twin.world_id = at.service, at.keys, at.world_id
        twin.snapshots.resume(at.snapshots)
        twin.seed, twin.plan, twin.first, twin.empty = at.beginning
        twin.describe(at.described)
        twin.faults = Faults(twin.seed)
        twin.faults.resume(at.faults)
        twin.clock.resume(at.clock, at.now, at.traffic)

    def _began(self, service: Service) -> JournaledService:
        """Record that another world began, which inputs alone do not lead to."""
        self.record("began", self._twin.now(), {})
        return JournaledService(service, self.record)

    def _snapshots_changed(self, name: str, saved: SavedWorld | None) -> None:
        now, world = (0, None) if saved is None else (saved.now, saved.world)
        self.record("snapshot", self._twin.now(), {"name": name, "now": now, "world": world})

    def record(self, method: str, now: Micros, arguments: dict[str, Any]) -> None:
        """Note one input; none once the file is closed."""
        if self._closed:
            return
        if self._twin.refuses_writes and len(self._lines) >= self._every:
            self._lines, self._world_kept = [], ""  # a snapshot will stand for them
        self._lines.append(to_json((method, now, arguments), bytes_mode="base64"))
        self._recorded += 1
        if self._idle is None:
            self._write_soon()

    async def commit(self) -> None:
        """Wait until all inputs so far are on disk; where writes are refused there is nothing to wait for.

        Raises NotKept when they could not be written, and were undone.
        """
        last = self._recorded
        while self._kept < last and not self._twin.refuses_writes:
            await asyncio.shield(self._write or self._begin_write())
        if last in self._undone:
            raise NotKept(self._why)

    async def flushed(self) -> None:
        """Wait until all inputs so far are on disk, for as long as they cannot be written."""
        last = self._recorded
        while self._kept < last:
            await asyncio.shield(self._write or self._begin_write())

    def close(self) -> None:
        """Write what is left and close the file, outside of an event loop. Raises BadInput."""
        if self._idle is not None:
            self._idle.cancel()
        self._closed = True
        self._thread.shutdown()
        error = self._store(self._next()) if self._lines else None
        self._file.close()
        if error is not None:
            raise BadInput(f"the state file cannot be written ({error})")

    # Writing

    def _write_soon(self) -> None:
        """See to it that inputs are written even if nobody waits for them."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._idle = loop.call_later(IDLE_S, self._write_idle)

    def _write_idle(self) -> None:
        self._idle = None
        if self._write is None:
            self._begin_write()

    def _begin_write(self) -> asyncio.Task[None]:
        self._write = asyncio.get_running_loop().create_task(self._write_all())
        return self._write

    async def _write_all(self) -> None:
        """Write what there is, in a thread; what comes meanwhile is for the next time."""
        twin = self._twin
        try:
            # All that is ready to run now goes into the same write.
            await asyncio.sleep(RETRY_S if twin.refuses_writes else 0)
            error = await asyncio.get_running_loop().run_in_executor(self._thread, self._store, self._next())
            if error is not None and not twin.refuses_writes:
                self._undo(error)
            elif error is None and twin.refuses_writes:
                twin.refuses_writes = ""
                logger.info("the state file can be written again")
        finally:
            self._write = None
            if (self._lines or twin.refuses_writes) and self._idle is None:
                self._write_soon()

    def _next(self) -> Write:
        """Take what to write: a snapshot now and then, and of another world, else the inputs."""
        lines, self._lines = self._lines, []
        world_id = self._twin.world_id
        wanted = world_id != self._world_kept or self._since + len(lines) >= self._every
        return Write(lines, self._recorded, world_id, dump_world(self._twin) if wanted else None)

    def _store(self, write: Write) -> sqlite3.Error | None:
        """Write, and take note of it here, whatever becomes of who waits; return what went wrong."""
        try:
            if write.world is None or not self._begin_anew(write, write.world):
                self._file.append(b"".join(line + b"\n" for line in write.lines))
                self._since += len(write.lines)
        except sqlite3.Error as error:
            self._lines[:0] = write.lines
            return error
        self._kept = write.recorded
        return None

    def _begin_anew(self, write: Write, world: bytes) -> bool:
        """Write a snapshot; return False where there is no room for it and the inputs alone will do."""
        try:
            self._file.begin(world, len(write.lines))
        except sqlite3.Error:
            if write.world_id != self._world_kept:
                raise
            self._since -= self._every  # and is tried again after as many inputs
            return False
        self._since, self._world_kept = 0, write.world_id
        return True

    def _undo(self, error: sqlite3.Error) -> None:
        """Go back to where the file ends, as a kill and a restart would, and refuse to write."""
        twin = self._twin
        logger.error("the state file cannot be written (%s): what it does not hold is undone", error)
        twin.refuses_writes = (
            f"The state file cannot be written ({error}), so nothing was done; "
            "until it can be written, only reads are answered."
        )
        self._undone, self._why = range(self._kept + 1, self._recorded + 1), twin.refuses_writes
        self._recorded += 1  # what is recorded from here on was not undone
        self._lines, self._kept = [], self._recorded
        try:
            self.go_on()
        except BadInput as unreadable:
            logger.critical("the state file can be neither written nor read: %s", unreadable)
            os._exit(1)  # what is in memory was promised to nobody
        self.begin()
        twin.event_log.note(twin.now(), "world.undone", {"reason": str(error)})
        twin.resume(twin.now())


def dump_world(twin: Twin) -> bytes:
    """Return the whole world: a line of JSON about it, the worlds saved by name, and its state."""
    heading = {
        "world_id": twin.world_id,
        "keys": twin.keys,
        "beginning": (twin.seed, twin.plan, twin.first, twin.empty),
        "clock": twin.clock.saved(),
        "now": twin.clock.now(),
        "traffic": twin.clock.traffic(twin.clock.now()),
        "faults": twin.faults.saved(),
        "described": twin.described(),
        "snapshots": [(name, saved.now, len(saved.world)) for name, saved in twin.snapshots.items()],
    }
    worlds = [saved.world for saved in twin.snapshots.values()]
    return b"".join([json.dumps(heading).encode(), b"\n", *worlds, twin.service.save()])


@dataclass(frozen=True, slots=True)
class Write:
    """The inputs that wait, `recorded` of them in all so far, or instead of them the `world` they led to."""

    lines: list[bytes]
    recorded: int
    world_id: str
    world: bytes | None


# Replay


@dataclass(slots=True)
class Replayed:
    """Where a replay led: the service, and what is around it."""

    service: Service
    world_id: str
    keys: dict[str, str]
    beginning: tuple[int, str, Micros | None, bool]
    clock: dict[str, Any]
    now: Micros
    traffic: Micros
    faults: dict[str, Any]
    snapshots: dict[str, SavedWorld]
    described: Described = None


def replay_world(world: bytes, batches: Iterable[bytes], policy: Policy) -> Replayed:
    """Replay the inputs since a snapshot. Raises BadInput for what is no snapshot."""
    at = _opened(world, policy)
    for batch in batches:
        for line in batch.splitlines():
            method, now, arguments = from_json(line)
            at.now = max(at.now, now)
            at.traffic = max(at.traffic, arguments.get("traffic_now") or 0)
            _replay_one(at, method, now, arguments)
            at.service.advance(now)
    return at


def _opened(world: bytes, policy: Policy) -> Replayed:
    line, _, rest = world.partition(b"\n")
    heading = from_json(line)
    snapshots = {}
    for name, now, size in heading["snapshots"]:
        snapshots[name], rest = SavedWorld(now, rest[:size]), rest[size:]
    return Replayed(
        Service.restore(rest, policy),
        **{
            **heading,
            "snapshots": snapshots,
            "described": described_of(heading.get("described")),
        },
    )


def _replay_one(at: Replayed, method: str, now: Micros, arguments: dict[str, Any]) -> None:
    """Replay one input: of what is around the service here, of the service there."""
    match method:
        case "set_clock" | "moved":
            at.clock = arguments
        case "faults":
            at.faults = arguments
        case "timeline" if at.described is not None:
            at.described = at.described[0], arguments
        case "snapshot" if arguments["world"] is None:
            del at.snapshots[arguments["name"]]
        case "snapshot":
            at.snapshots[arguments["name"]] = SavedWorld(arguments["now"], bytes_of(arguments["world"]))
        case _:
            journaled_service.replay_input(at.service, method, now, arguments)
