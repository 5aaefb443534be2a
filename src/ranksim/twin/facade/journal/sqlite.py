"""A file that outlives the process: one SQLite database, a snapshot of the world and the inputs since.

What is here knows bytes alone; `write_ahead` knows what they say.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from zlib import crc32

from ranksim.core.errors import BadInput
from ranksim.core.files import check_file, only_tables
from ranksim.core.rulebook import rulebook_digest
from ranksim.twin.facade.journal.acknowledged import AcknowledgedFile, Mark

logger = logging.getLogger("ranksim.facade")

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

CLOSED = "INSERT OR REPLACE INTO about VALUES ('closed', ?)"
OPENED = "INSERT OR REPLACE INTO about VALUES ('closed', '')"
NOTHING = "PRAGMA user_version = 0"
"""Writes one page, the first, as it is."""

CHECKPOINT = "PRAGMA wal_checkpoint(TRUNCATE)"
"""Moves all that is in the -wal file into the file itself."""

CHECKPOINT_EVERY = 1_000
"""Pages in the -wal file after which SQLite moves them by itself."""


class StateFile:
    """A state file, opened and locked for this process alone.

    `policy` is the digest of the policy in force. A `new` file wants a snapshot from `begin` first. Each
    snapshot and batch of inputs has a CRC that goes on from the one before. A file that holds less than was
    acknowledged is refused unless `accept_loss`, and then `loss` says what is missing. Raises BadInput for
    that, and for a file that is in use, damaged, or of another policy or rulebook.
    """

    def __init__(self, path: Path, policy: str, *, accept_loss: bool = False) -> None:
        check_file(path)
        self._path = path
        self.new = self.closed = self.counted = False
        """Whether it wants a first snapshot, was closed, and tells how much of it was acknowledged."""
        self.loss = ""
        self.mark = Mark(0, 0, 0)
        """How far the file goes."""
        self._acknowledged = AcknowledgedFile(path)
        self._database = self._connected()
        try:
            with self._explained():
                self._open(policy, accept_loss)
        except BaseException:
            self._database.close()
            self._acknowledged.close(remove=False)
            raise

    def begin(self, world: bytes, inputs: int = 0) -> None:
        """Let a snapshot replace all that the file holds, and so many inputs that it does not hold.

        Raises sqlite3.Error, and then changes nothing.
        """
        mark = Mark(self.mark.number + 1, self.mark.inputs + inputs, crc32(world))
        with self._withdrawn(), self._database:
            if not self._database.in_transaction:  # as it is in a new file
                self._database.execute("BEGIN")
            _put_snapshot(self._database, world, mark)
        if mark.number == 1:  # the first: whoever loses the -wal file loses no world without a word
            self._database.execute(CHECKPOINT)
        self._note(mark)

    def append(self, batch: bytes) -> None:
        """Add inputs, all or none. Raises sqlite3.Error, and then changes nothing."""
        inputs = self.mark.inputs + batch.count(b"\n")
        mark = Mark(self.mark.number + 1, inputs, crc32(batch, self.mark.crc))
        with self._withdrawn():
            self._database.execute(
                "INSERT OR REPLACE INTO inputs VALUES (?, ?, ?)", (mark.number, batch, mark.crc)
            )
        self._note(mark)

    def read(self) -> tuple[bytes, list[bytes]]:
        """Return the last snapshot and the batches of inputs since. Raises BadInput."""
        with self._explained():
            world, batches, marks = self._read()
        self.mark = marks[-1]
        return world, batches

    def control_token(self, chosen: str, new: str) -> str:
        """Return the token that was `chosen`, or else the one of the last start, or a `new` one; keep it.

        Raises BadInput where it cannot be kept.
        """
        with self._explained():
            row = self._database.execute("SELECT said FROM about WHERE name = 'token'").fetchone()
            token = str(chosen or (row[0] if row else new))
            self._database.execute("INSERT OR REPLACE INTO about VALUES ('token', ?)", (token,))
        return token

    def close(self) -> None:
        """Say in the file how far it goes, close it and let others have it."""
        try:
            self._database.execute(CLOSED, (" ".join(map(str, self.mark)),))
            self._database.close()  # which moves all into the file itself
        except sqlite3.Error:
            self._database.close()
            self._acknowledged.close(remove=False)
        else:
            self._acknowledged.close(remove=True)

    @contextmanager
    def _withdrawn(self) -> Iterator[None]:
        """Let nobody find what a write that failed has left in the -wal file.

        Where flushing it failed all of the write stands there, and a start after a kill would go on from it.
        SQLite's next write begins where that one did; this smallest of all is not flushed, nor are pages
        moved, since flushes fail.
        """
        try:
            yield
        except sqlite3.Error:
            with suppress(sqlite3.Error):
                self._database.execute("PRAGMA wal_autocheckpoint = 0")
                self._database.execute("PRAGMA synchronous = OFF")
                self._database.execute(NOTHING)
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_EVERY}")
            raise

    def _note(self, mark: Mark) -> None:
        """Note what is on disk, before anybody hears of it."""
        self.mark = mark
        try:
            self._acknowledged.write(mark)
        except OSError as error:  # a loss could go unnoticed, and nothing is lost yet
            logger.warning("%s: cannot be written (%s)", self._acknowledged.path, error.strerror)

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

    def _open(self, policy: str, accept_loss: bool) -> None:
        database = self._database
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA synchronous = FULL")
        database.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_EVERY}")
        self._own(database.execute("PRAGMA application_id").fetchone()[0])
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("BEGIN EXCLUSIVE")  # held until the file is closed
        try:
            acknowledged = self._acknowledged.read()
            if database.execute("PRAGMA application_id").fetchone()[0] == 0:
                self.new = True  # the first snapshot completes the file
                self._compare(None, acknowledged, [self.mark], accept_loss)
                self._acknowledged.begin(self.mark)
                _make_tables(database, policy)
                return
            if not only_tables(database):
                raise self._broken()
            about = self._about(policy)
            if database.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise self._broken()
            marks = self._read()[2]
            self.mark = marks[-1]
            self._compare(about.get("closed"), acknowledged, marks, accept_loss)
            self._acknowledged.begin(self.mark)
        except OSError as error:
            path = self._acknowledged.path
            raise BadInput(
                f"{path}: cannot be used ({error.strerror}); make room, or give another path"
            ) from None
        database.execute(OPENED)
        database.execute("COMMIT")
        database.execute(CHECKPOINT)

    def _read(self) -> tuple[bytes, list[bytes], list[Mark]]:
        """Return the last snapshot, the batches since, and how far the file went after each."""
        snapshots = self._database.execute("SELECT number, world, crc FROM snapshot").fetchall()
        if len(snapshots) != 1 or not isinstance(snapshots[0][1], bytes):  # damage may make a type another
            raise self._broken()
        if crc32(snapshots[0][1]) != snapshots[0][2]:
            raise self._broken()
        inputs = self._database.execute("SELECT said FROM about WHERE name = 'inputs'").fetchone()
        number, world, crc = snapshots[0]
        batches, marks = [], [Mark(number, int(inputs[0]) if inputs else 0, crc)]
        rows = self._database.execute("SELECT number, batch, crc FROM inputs ORDER BY number")
        for stored, batch, claimed in rows:
            if not isinstance(batch, bytes):
                raise self._broken()
            last = marks[-1]
            marks.append(Mark(last.number + 1, last.inputs + batch.count(b"\n"), crc32(batch, last.crc)))
            if (stored, claimed) != (marks[-1].number, marks[-1].crc):
                raise self._broken()
            batches.append(batch)
        return world, batches, marks

    def _compare(
        self, closed: str | None, acknowledged: Mark | None, marks: list[Mark], accept_loss: bool
    ) -> None:
        """Compare what is there with what was acknowledged. Raises BadInput for less, unless accepted.

        `closed` is what the file says of itself: how far it went when it was closed, "" while it is open, or
        None, as in files that were begun when none said so.
        """
        there = marks[-1]
        claims = [] if acknowledged is None else [acknowledged]
        if closed:
            claims.append(Mark(*map(int, closed.split())))
        self.closed, self.counted = bool(closed), bool(claims)
        most = max(claims, default=there)
        missing = ""
        if not claims:
            if closed is not None or (self.new and self._acknowledged.path.exists()):
                missing = (
                    f"was not closed, and {self._acknowledged.path}, which counts what was acknowledged, "
                    f"is missing or damaged, so nobody can tell whether its {there.inputs} inputs are all"
                )
        elif there.number < most.number:
            missing = (
                f"{most.inputs} inputs were acknowledged and {there.inputs} are there: "
                f"the last {most.inputs - there.inputs} are missing, "
                "since its -wal file is missing or damaged, or an older copy took its place"
            )
        elif any(claim.number >= marks[0].number and claim not in marks for claim in claims):
            missing = (
                f"the {most.inputs} inputs that were acknowledged are not those that are there: "
                "another copy took its place"
            )
        if missing and not accept_loss:
            raise BadInput(
                f"{self._path}: {missing}; restore what is missing, or go on without by --accept-loss"
            )
        self.loss = missing

    def _own(self, application: int) -> None:
        """Refuse databases of others; one that is empty becomes ours."""
        tables = self._database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if application != APPLICATION and (application or tables):
            raise BadInput(f"{self._path}: is a database of another program; give a new file")

    def _about(self, policy: str) -> dict[str, str]:
        """Return what the file says of itself; refuse what this policy or rulebook would read differently."""
        about: dict[str, str] = dict(self._database.execute("SELECT name, said FROM about").fetchall())
        if about.get("format") != FORMAT:
            raise BadInput(f"{self._path}: was written in another format; use the version that wrote it")
        if about.get("policy") != policy:
            raise BadInput(
                f"{self._path}: was written under another policy; "
                "start with the policy it was written under, or give a new file"
            )
        if about.get("rulebook") != rulebook_digest():
            raise BadInput(
                f"{self._path}: was written by another version of the rulebook; "
                "start with the version that wrote it, or give a new file"
            )
        return about

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise BadInput with a sentence for what SQLite says in a word."""
        try:
            yield
        except BadInput:
            raise
        except (TypeError, ValueError):  # a number or a text that is none
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


def pack_file(world: bytes, policy: str) -> bytes:
    """Return a state file that holds a world and was closed, `policy` being the digest of its policy."""
    database = sqlite3.connect(":memory:", isolation_level=None)
    mark = Mark(1, 0, crc32(world))
    _make_tables(database, policy)
    _put_snapshot(database, world, mark)
    database.execute(CLOSED, (" ".join(map(str, mark)),))
    file = database.serialize()
    database.close()
    return file


def _make_tables(database: sqlite3.Connection, policy: str) -> None:
    for statement in (*TABLES.split(";"), f"PRAGMA application_id = {APPLICATION}"):
        database.execute(statement)
    about = {"format": FORMAT, "policy": policy, "rulebook": rulebook_digest(), "closed": ""}
    database.executemany("INSERT INTO about VALUES (?, ?)", about.items())


def _put_snapshot(database: sqlite3.Connection, world: bytes, mark: Mark) -> None:
    database.execute("DELETE FROM snapshot")
    database.execute("DELETE FROM inputs")
    database.execute("INSERT INTO snapshot VALUES (?, ?, ?)", (mark.number, world, mark.crc))
    database.execute("INSERT OR REPLACE INTO about VALUES ('inputs', ?)", (str(mark.inputs),))
