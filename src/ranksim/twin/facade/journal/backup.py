"""State files that nobody serves: verified, and made one whole file again, to keep elsewhere."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic_core import to_json

from ranksim.core.contract.policy import Policy
from ranksim.core.errors import BadInput
from ranksim.twin.facade.journal.sqlite import StateFile, pack_file
from ranksim.twin.facade.journal.write_ahead import WriteAheadLog, dump_world
from ranksim.twin.facade.origin import ReadOrigin, Unread
from ranksim.twin.facade.sender import Scripted
from ranksim.twin.facade.snapshots import policy_digest
from ranksim.twin.facade.twin import Twin

BESIDE = ("", "-wal", "-acknowledged")
"""What a state file is made of, by how names end."""

LOCK_START, LOCK_LENGTH = 0x40000002, 510
"""The bytes that SQLite locks in a database that is in use."""


@dataclass(frozen=True, slots=True)
class SoundFile:
    """What a sound state file holds."""

    closed: bool
    counted: bool
    """Whether it tells how much of it was acknowledged; files from before there was a count do not."""
    inputs: int
    twin: Twin
    """The world that it leads to."""


def verify_file(path: Path, policy: Policy, read_origin: ReadOrigin = Unread) -> SoundFile:
    """Read all of a state file, and replay it, in a copy: the file stays as it is.

    Raises BadInput, also for a file that holds less than was acknowledged.
    """
    twin = Twin(policy, sender=Scripted(), clock="manual", empty=True, read_origin=read_origin)
    with _copied(path) as copy:
        try:
            file = StateFile(copy, policy_digest(policy))
            try:
                if file.new:
                    raise BadInput(f"{copy}: is empty: there is no world in it")
                WriteAheadLog(twin, file).go_on()
            finally:
                file.close()
        except BadInput as error:
            raise BadInput(str(error).replace(str(copy), str(path))) from None
    return SoundFile(file.closed, file.counted, file.mark.inputs, twin)


def export_file(path: Path, policy: Policy) -> bytes:
    """Return a state file as one whole file that was closed. Raises BadInput as `verify_file` does."""
    return pack_file(dump_world(verify_file(path, policy).twin), policy_digest(policy))


def export_scenario(path: Path, policy: Policy, read_origin: ReadOrigin) -> bytes:
    """Return a state file as a scenario, in JSON. Raises BadInput, also for what no scenario states."""
    return to_json(verify_file(path, policy, read_origin).twin.stated())


def begin_file(beginning: dict[str, Any]) -> bytes:
    """Return a state file in which a world begins, as settings of a twin say. Raises BadInput."""
    twin = Twin(**beginning, signature_clock="wall", sender=Scripted())
    return pack_file(dump_world(twin), policy_digest(twin.policy))


@contextmanager
def _copied(path: Path) -> Iterator[Path]:
    """Copy a state file, and what lies beside it, while nobody has it open."""
    with TemporaryDirectory(prefix="ranksim-state-") as place:
        copy = Path(place).resolve() / path.name
        try:
            with path.open("rb") as file:
                fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, LOCK_LENGTH, LOCK_START)
                for end in BESIDE:
                    if (part := Path(f"{path.resolve()}{end}")).exists():
                        shutil.copy(part, f"{copy}{end}")
        except BlockingIOError:
            raise BadInput(
                f"{path}: is in use by another process; stop that one, or export from its URL"
            ) from None
        except OSError as error:
            raise BadInput(f"{path}: cannot be read ({error.strerror}); expected a state file") from None
        yield copy
