"""A file that outlives the process: one SQLite database, a snapshot of the world and the inputs since.

What is here knows bytes alone; `write_ahead` knows what they say.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

from ranksim.errors import BadInput
from ranksim.files import check_file
from ranksim.rulebook import rulebook_digest

APPLICATION = 0x52414E4B
"""SQLite's application id of our files: "RANK"."""

MAGIC = b"SQLite format 3\0"
"""What every SQLite database begins with."""

FORMAT = "2"

TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, said TEXT NOT NULL);
CREATE TABLE snapshot (number INTEGER PRIMARY KEY, world BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE inputs (number INTEGER PRIMARY KEY, batch BLOB NOT NULL, crc INTEGER NOT NULL);
"""


class StateFile:
    """A state file, opened and locked for this process alone.

    `policy` is the digest of the policy in force. A `new` file wants a snapshot from `begin` first. Each
    snapshot and batch of inputs has a CRC that goes on from the one before. Raises BadInput for a file that
    is in use, damaged, or of another policy or rulebook.
    """

    def __init__(self, path: Path, policy: str) -> None:
        check_file(path)
        self._path = path
        self.new = False
        self._number = self._crc = 0
        self._database = self._connected()
        try:
            with self._explained():
                self._open(policy)
        except BaseException:
            self._database.close()
            raise

    def begin(self, world: bytes) -> None:
        """Let a snapshot replace all that the file holds. Raises sqlite3.Error, and then changes nothing."""
        number, crc = self._number + 1, crc32(world)
        with self._database:
            if not self._database.in_transaction:  # as it is in a new file
                self._database.execute("BEGIN")
            self._database.execute("DELETE FROM snapshot")
            self._database.execute("DELETE FROM inputs")
            self._database.execute("INSERT INTO snapshot VALUES (?, ?, ?)", (number, world, crc))
        self._number, self._crc = number, crc

    def append(self, batch: bytes) -> None:
        """Add inputs, all or none. Raises sqlite3.Error, and then changes nothing."""
        number, crc = self._number + 1, crc32(batch, self._crc)
        self._database.execute("INSERT OR REPLACE INTO inputs VALUES (?, ?, ?)", (number, batch, crc))
        self._number, self._crc = number, crc

    def close(self) -> None:
        """Close the file and let others have it."""
        self._database.close()

    def _connected(self) -> sqlite3.Connection:
        """Open the file; a new one is for its owner's eyes alone, since it holds keys and secrets."""
        path = self._path
        try:
            path.touch(mode=0o600)
            with path.open("rb") as file:
                head = file.read(len(MAGIC))
        except OSError as error:
            raise BadInput(f"{path}: cannot be written ({error.strerror}); give another path") from None
        if head not in (b"", MAGIC):
            raise self._broken()
        with self._explained():
            return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)

    def read(self) -> tuple[bytes, list[bytes]]:
        """Return the last snapshot and the batches of inputs since. Raises BadInput."""
        with self._explained():
            snapshots = self._database.execute("SELECT number, world, crc FROM snapshot").fetchall()
            if len(snapshots) != 1 or crc32(snapshots[0][1]) != snapshots[0][2]:
                raise self._broken()
            number, world, crc = snapshots[0]
            batches: list[bytes] = []
            rows = self._database.execute("SELECT number, batch, crc FROM inputs ORDER BY number")
            for found, batch, claimed in rows:
                number, crc = number + 1, crc32(batch, crc)
                if (found, claimed) != (number, crc):
                    raise self._broken()
                batches.append(batch)
        self._number, self._crc = number, crc
        return world, batches

    def _open(self, policy: str) -> None:
        database = self._database
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA synchronous = FULL")
        self._own(database.execute("PRAGMA application_id").fetchone()[0])
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("BEGIN EXCLUSIVE")  # held until the file is closed
        about = {"format": FORMAT, "policy": policy, "rulebook": rulebook_digest()}
        if database.execute("PRAGMA application_id").fetchone()[0] == 0:
            for statement in (*TABLES.split(";"), f"PRAGMA application_id = {APPLICATION}"):
                database.execute(statement)
            database.executemany("INSERT INTO about VALUES (?, ?)", about.items())
            self.new = True  # the first snapshot completes the file
            return
        self._check(about)
        if database.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise self._broken()
        database.execute("COMMIT")

    def _own(self, application: int) -> None:
        """Refuse databases of others; one that is empty becomes ours."""
        tables = self._database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if application != APPLICATION and (application or tables):
            raise BadInput(f"{self._path}: is a database of another program; give a new file")

    def _check(self, about: dict[str, str]) -> None:
        """Refuse what this policy or this rulebook would read differently."""
        found = dict(self._database.execute("SELECT name, said FROM about").fetchall())
        if found.get("format") != about["format"]:
            raise BadInput(f"{self._path}: was written in another format; use the version that wrote it")
        if found.get("policy") != about["policy"]:
            raise BadInput(
                f"{self._path}: was written under another policy; "
                "start with the policy it was written under, or give a new file"
            )
        if found.get("rulebook") != about["rulebook"]:
            raise BadInput(
                f"{self._path}: was written by another version of the rulebook; "
                "start with the version that wrote it, or give a new file"
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise BadInput with a sentence for what SQLite says in a word."""
        try:
            yield
        except TypeError:
            raise self._broken() from None
        except sqlite3.Error as error:
            word = getattr(error, "sqlite_errorname", "")
            if word.startswith("SQLITE_BUSY"):
                raise BadInput(
                    f"{self._path}: is in use by another process; stop that one, or give another file"
                ) from None
            if word.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_ERROR")) or not word:
                raise self._broken() from None
            raise BadInput(f"{self._path}: cannot be used as a state file ({error})") from None

    def _broken(self) -> BadInput:
        return BadInput(
            f"{self._path}: is damaged or no state file of ranksim; restore a copy of it, or give a new file"
        )
