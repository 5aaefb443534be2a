"""The store of a study: one SQLite database, a row for each replication of a point, kept as it finishes.

A store is bound to what its rows mean: the inputs, the design, the seed and the sources that simulate. How
often points are replicated is no part of that, so replications can be added later.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

from ranksim.core.errors import BadInput
from ranksim.core.files import check_file, only_tables
from ranksim.planner.study.engines import Measurement

APPLICATION = 0x52535459
"""SQLite's application id of a store: "RSTY"."""

FORMAT = "2"

TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, said TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE points (point TEXT PRIMARY KEY, settings TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE results (
    point TEXT NOT NULL, replication INTEGER NOT NULL,
    metrics TEXT, histograms TEXT, error TEXT, crc INTEGER NOT NULL,
    PRIMARY KEY (point, replication)
) WITHOUT ROWID;
"""

DAMAGED = "is damaged or no store of ranksim; give another --store, or remove this one"

Outcome: TypeAlias = Measurement | str
"""What a replication gave, or how it failed, in one line."""

DIFFERENCES = {
    "engine": "another engine",
    "inputs": "another scenario, population or policy",
    "design": "another design",
    "seed": "another seed",
    "sources": "another version of the rules or of the simulation",
}
"""What may differ between two studies, in the order in which it is said."""


class Store:
    """A store, opened and locked for this process alone; without a path it is in memory.

    `meaning` says what rows mean, by the names of `DIFFERENCES`. Raises BadInput for a file that is in use,
    damaged, of another program or of another study.
    """

    def __init__(self, path: Path | None, meaning: Mapping[str, str], title: str = "") -> None:
        self.path = path
        if path is not None:
            check_file(path)
            path.absolute().parent.mkdir(parents=True, exist_ok=True)
        with self._explained():
            self._database = sqlite3.connect(
                ":memory:" if path is None else path, timeout=0, isolation_level=None
            )
        try:
            with self._explained():
                self._open(dict(meaning), title)
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and let others have it."""
        self._database.close()

    def name_point(self, point: str, settings: Mapping[str, object]) -> None:
        """Record what a point sets, for those who read the store by other means."""
        text = json.dumps(settings, sort_keys=True, ensure_ascii=False)
        with self._explained():
            self._database.execute("INSERT OR IGNORE INTO points VALUES (?, ?)", (point, text))

    def add(self, point: str, replication: int, outcome: Outcome) -> None:
        """Keep one replication; it is safe from the end of this process when this returns."""
        row: tuple[str | None, str | None, str | None]
        if isinstance(outcome, str):
            row = (None, None, outcome)
        else:
            row = (_text(outcome.metrics), _text(outcome.histograms), None)
        with self._explained():
            crc = _crc(point, replication, *row)
            self._database.execute(
                "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?)", (point, replication, *row, crc)
            )

    def results(self) -> Iterator[tuple[str, int, Outcome]]:
        """Yield what is kept: point, replication and what it gave. Raises BadInput for what was changed."""
        with self._explained():
            rows = self._database.execute("SELECT * FROM results ORDER BY point, replication")
            for point, replication, metrics, histograms, error, crc in rows:
                if crc != _crc(point, replication, metrics, histograms, error):
                    raise BadInput(f"{self.path}: {DAMAGED}")
                if error is not None:
                    yield point, replication, error
                else:
                    yield point, replication, Measurement(json.loads(metrics), json.loads(histograms))

    def forget_failures(self) -> None:
        """Drop the replications that failed, so that they run again."""
        with self._explained():
            self._database.execute("DELETE FROM results WHERE error IS NOT NULL")

    # Opening

    def _open(self, meaning: dict[str, str], title: str) -> None:
        database = self._database
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        application = database.execute("PRAGMA application_id").fetchone()[0]
        tables = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if application == APPLICATION and not only_tables(database):
            raise BadInput(f"{self.path}: {DAMAGED}")
        if application != APPLICATION and (application or tables):
            raise BadInput(f"{self.path}: is a database of another program; give another --store")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(
            "PRAGMA synchronous = NORMAL"
        )  # outlives the process; the newest rows not a power cut
        database.execute("BEGIN EXCLUSIVE")
        if application == 0:
            for statement in (*TABLES.split(";"), f"PRAGMA application_id = {APPLICATION}"):
                database.execute(statement)
            about = {"format": FORMAT, "title": title, **meaning}
            database.executemany("INSERT INTO about VALUES (?, ?)", about.items())
        else:
            self._check(meaning)
        database.execute("COMMIT")

    def _check(self, meaning: dict[str, str]) -> None:
        """Refuse the results of another study, and a file that is damaged."""
        if self._database.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise BadInput(f"{self.path}: {DAMAGED}")
        about = dict(self._database.execute("SELECT name, said FROM about").fetchall())
        if about.get("format") != FORMAT:
            raise BadInput(f"{self.path}: was written in another format; use the version that wrote it")
        differing = [words for name, words in DIFFERENCES.items() if about.get(name) != meaning[name]]
        if differing:
            raise BadInput(
                f"{self.path}: holds results of another study, {about.get('title')!r}, with {differing[0]}; "
                "give another --store, or remove this one"
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Return in a sentence what SQLite says in a word."""
        try:
            yield
        except UnicodeDecodeError:
            raise BadInput(f"{self.path}: {DAMAGED}") from None
        except sqlite3.Error as error:
            word = getattr(error, "sqlite_errorname", "") or ""
            if word.startswith("SQLITE_BUSY"):
                problem = "is in use by another process; wait for that one, or give another --store"
            elif word in ("", "SQLITE_ERROR") or word.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
                problem = DAMAGED
            elif word.startswith("SQLITE_CONSTRAINT"):
                raise  # a replication run twice is an error of the program
            else:
                problem = f"cannot be written ({error}); make room, or give another --store"
            raise BadInput(f"{self.path}: {problem}") from None


def _crc(*row: object) -> int:
    """Return the checksum of a row, as it is kept beside it."""
    return crc32(repr(row).encode("utf-8", "surrogatepass"))


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
