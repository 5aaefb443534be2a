"""Writing results so that nothing is ever half-written: a temporary neighbour first, then a rename."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ranksim.core.errors import BadInput

MARKER = "result.json"
"""The file that says a directory was written by ranksim."""

ITS_SCENARIO = "scenario.json"
"""The file beside it that has the scenario of a run."""

DOCUMENT = {"kind", "version", "metrics", "expectations", "tables"}
"""Fields that tell a result of ranksim (`ranksim.report.document`) from other JSON."""


def resolved(path: Path) -> Path:
    """Return where a path leads, links followed; a link to itself stays, and opening it says so."""
    return Path(os.path.realpath(path))


@dataclass(frozen=True, slots=True)
class Contents:
    """What ranksim writes into a directory of some sort: all names, and how its own is told from others'."""

    names: frozenset[str]
    is_own: Callable[[Path], bool]


@contextmanager
def new_file(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """A temporary path beside `path`, which replaces it when the block ends well and vanishes otherwise.

    `mode` are its permissions, less the umask. Raises BadInput when the file cannot be written there.
    """
    check_file(path)
    target = resolved(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise _cannot(path, error) from None
    temporary = Path(name)
    try:
        yield temporary
        _as_usual(temporary, mode)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, any that JSON can carry: half of a surrogate pair stands as its escape."""
    path.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def write_file(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a text as a file that is whole or not there. Raises BadInput as `new_file` does."""
    with new_file(path, mode) as temporary:
        write_text(temporary, text)


def only_tables(database: sqlite3.Connection) -> bool:
    """Whether a database holds tables alone: what a view computes instead may never end."""
    other = "SELECT count(*) FROM sqlite_schema WHERE type NOT IN ('table', 'index') OR sql LIKE '%VIRTUAL%'"
    return bool(database.execute(other).fetchone() == (0,))


@contextmanager
def packing(temporary: Path, path: Path) -> Iterator[BinaryIO]:
    """Open a temporary path for the bytes of `path`, which are packed where that ends in .gz or .xz."""
    with temporary.open("wb") as raw, ExitStack() as stack:
        file: Any = raw
        if path.suffix == ".gz":
            # No name and no time inside, so that equal content makes equal files.
            file = stack.enter_context(gzip.GzipFile("", "wb", fileobj=raw, mtime=0))
        elif path.suffix == ".xz":
            file = stack.enter_context(lzma.open(raw, "wb"))
        yield file


@contextmanager
def new_directory(path: Path, contents: Contents | None = None) -> Iterator[Path]:
    """A temporary directory beside `path`, which replaces it when the block ends well and vanishes otherwise.

    What stood at `path` must pass `check_directory`. Raises BadInput when nothing can be written there.
    """
    check_directory(path, contents)
    target = resolved(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise _cannot(path, error) from None
    try:
        yield temporary
        _as_usual(temporary, 0o777)
        if target.exists():
            old = temporary.with_name(temporary.name + ".old")
            target.rename(old)
            temporary.rename(target)
            shutil.rmtree(old)
        else:
            temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_file(path: Path) -> None:
    """Raise BadInput unless `path` is free or a plain file, below directories, where one may write."""
    if path.is_dir():
        raise BadInput(f"{path}: is a directory; give the path of a file")
    if path.exists() and not path.is_file():
        raise BadInput(f"{path}: is a device or a pipe, which cannot be replaced; give the path of a file")
    _check_parents(path)


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Raise BadInput unless each output is a path as `check_file` wants it, no input, and named once."""
    read = {resolved(path) for path in inputs if path is not None}
    written: set[Path] = set()
    for path in outputs:
        if path is None:
            continue
        check_file(path)
        if resolved(path) in read:
            raise BadInput(
                f"{path}: is read by this command, and would be lost; give another path to write to"
            )
        if resolved(path) in written:
            raise BadInput(f"{path}: is given for two outputs; give each a path of its own")
        written.add(resolved(path))


def check_apart(directory: Path | None, files: Iterable[Path | None]) -> None:
    """Raise BadInput for a file in a directory that results replace as a whole."""
    for path in files:
        if directory is not None and path is not None and resolved(directory) in resolved(path).parents:
            raise BadInput(f"{path}: lies in {directory}, which is replaced as a whole; give another path")


def check_directory(path: Path, contents: Contents | None = None) -> None:
    """Raise BadInput unless `path` is free, an empty directory, or results that ranksim wrote earlier.

    `contents` is what was written there, where that is no `RESULTS`. It can be replaced only where one may
    write beside it, and where it is no mount point.
    """
    _check_parents(path)
    if not path.exists():
        return
    if not path.is_dir():
        raise BadInput(f"{path}: is a file; give the path of a directory")
    if path.is_mount():
        raise BadInput(f"{path}: is a mount point, which cannot be replaced; give a directory in it")
    names = {entry.name for entry in path.iterdir()}
    if not names:
        return
    contents = contents or RESULTS
    if not contents.is_own(path):
        raise BadInput(
            f"{path}: is not empty and holds no results of ranksim; give an empty or a new directory"
        )
    foreign = sorted(names - contents.names)
    if foreign:
        raise BadInput(
            f"{path}: holds {foreign[0]}, which ranksim did not write; move it or give another directory"
        )


def _is_result(directory: Path) -> bool:
    try:
        document = json.loads((directory / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and document.keys() >= DOCUMENT


RESULTS = Contents(
    frozenset({MARKER, ITS_SCENARIO, "page.html", "trace.jsonl", "tables", "plots"}), _is_result
)
"""A directory of results."""


def _check_parents(path: Path) -> None:
    for parent in path.absolute().parents:
        if parent.exists():
            if not parent.is_dir():
                raise BadInput(f"{path}: {parent} is a file, not a directory; give another path")
            break
    target = resolved(path)
    nearest = next(parent for parent in target.parents if parent.exists())
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=nearest)  # only trying tells for sure
        os.close(handle)
        os.unlink(name)
    except OSError as error:
        raise _cannot(path, error) from None


def _as_usual(path: Path, mode: int) -> None:
    """Set the permissions of a temporary entry, made for its owner alone, to those of a plain one."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(mode & ~umask)


def _cannot(path: Path, error: OSError) -> BadInput:
    return BadInput(f"{path}: cannot be written ({error.strerror}); give a path that you may write to")
