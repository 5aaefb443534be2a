"""A deployment read over HTTP, and a twin made of what was read."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

from ranksim.core.callers.target import Target
from ranksim.core.clock import MINUTE, SECOND, Micros
from ranksim.core.errors import BadInput
from ranksim.judge.load.driver import drive
from ranksim.judge.load.recorder import AnchoredClock, PartRecorder
from ranksim.judge.load.session import Session
from ranksim.judge.mirror.reading import Reading, read_mirrored
from ranksim.judge.mirror.recorded import TracedAccounts, with_recorded
from ranksim.judge.mirror.world import MirroredWorld, world_of
from ranksim.report import units

PATIENCE = 30.0
"""Seconds that a call may take, to the last byte of its reply."""

READING: Micros = 10 * MINUTE
"""How long reading may take in all."""


def mirrored(
    target: Target, within: Micros | None = None, recorded: TracedAccounts | None = None
) -> MirroredWorld:
    """Read a deployment within a time (µs), `READING` without, and make a twin of it.

    With what was `recorded` of it, the twin is fitted to that, too, and its clients call as these keys did.
    Raises BadInput where no key tells of an account, or there was not the time.
    """
    within = READING if within is None else within
    clock = AnchoredClock.here()
    with tempfile.TemporaryDirectory(prefix="ranksim-mirror-") as folder:
        tokens = [token for name in target.keys if (token := target.token(name))]
        path = Path(folder) / "read.jsonl"
        recorder = PartRecorder(path, part="0", clock=clock, salt=secrets.token_bytes(16), tokens=tokens)
        until = clock.now() + within
        session = Session(target, recorder, client="mirror", timeout=PATIENCE, until=until)
        try:
            reading: Reading | None = drive(read_mirrored(target), session)
        finally:
            session.close()
            recorder.close()
    if reading is None:
        raise BadInput(
            f"mirror: the deployment could not be read within {units.duration(within)}; see why it answers "
            "so slowly"
        )
    if not reading.accounts:
        tried = "; ".join(f"{name}: {why}" for name, why in reading.unknown.items())
        raise BadInput(
            f"mirror: no key of the target tells of its account ({tried}); check the address, which is "
            "without the /v1, and give a key that is not bound to a domain"
        )
    now = clock.now() if reading.date is None else reading.date + SECOND  # a Date has no fraction (RFC 9110)
    host = next(iter(target.environments.values()))
    return world_of(with_recorded(reading, recorded) if recorded else reading, host, now, recorded)
