"""State files that were damaged where they lay: refused in a sentence and left alone, or the same world."""

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ranksim.cli import app
from ranksim.core.errors import BadInput
from ranksim.twin.facade.journal.sqlite import StateFile

from .test_lost_log import DIGEST, beside, written

PAGE = 4096

Damage = Callable[[bytes], bytes]


def cut(size: int, good: bytes) -> bytes:
    """Keep the first bytes, or all but the last ones."""
    return good[:size]


def flipped(where: int | bytes, bit: int, good: bytes) -> bytes:
    """Change a bit of the byte at an offset, or of the last byte of the first text like that."""
    at = where if isinstance(where, int) else good.index(where) + len(where) - 1
    damaged = bytearray(good)
    damaged[at] ^= 1 << bit
    return bytes(damaged)


def over(first: int, last: int, content: bytes, good: bytes) -> bytes:
    """Write something over a range, again and again."""
    damaged = bytearray(good)
    size = len(damaged[first:last])
    damaged[first:last] = (content * (size // len(content) + 1))[:size]
    return bytes(damaged)


def swapped(good: bytes) -> bytes:
    return good[: -2 * PAGE] + good[-PAGE:] + good[-2 * PAGE : -PAGE]


JUNK = random.Random(46).randbytes(PAGE)
ALL = 1 << 30

REFUSED: dict[str, Damage] = {
    **{
        f"cut to {size}": partial(cut, size)
        for size in (1, 15, 16, 50, 100, 512, 4095, 4096, 5000, 8192, -8192, -4097, -4096, -4095, -512, -1)
    },
    **{
        f"{what} flipped": partial(flipped, where, bit)
        for what, where, bit in (
            ("magic", 0, 0),
            ("page size", 16, 4),
            ("fraction", 21, 0),
            ("encoding", 59, 1),
            ("owner", 71, 0),
            ("kind of the first page", 100, 3),
            ("kind of the second page", PAGE, 2),
            ("cells of the last page", -PAGE + 3, 6),
            ("world", b'"world_id": "', 4),
            ("state", b"acc_0000000001", 0),
            ("inputs", b'"host":"3.example', 0),
            ("policy", b"policy" + DIGEST[:9].encode(), 0),
            ("policy, no text", b"policy" + DIGEST[:9].encode(), 7),
            ("name of a table", b"CREATE TABLE input", 1),
        )
    },
    "numbers that say how far it goes, changed": lambda good: good.replace(b"closed41 ", b"closed31 "),
    "numbers that say how far it goes, none": lambda good: good.replace(b"closed41 ", b"closedx1 "),
    "one of those numbers, gone": lambda good: good.replace(b"closed41 ", b"closed410"),
    "magic zeroed": partial(over, 0, 16, b"\0"),
    "head zeroed": partial(over, 0, 100, b"\0"),
    "first page zeroed": partial(over, 0, PAGE, b"\0"),
    "second page zeroed": partial(over, PAGE, 2 * PAGE, b"\0"),
    "last page zeroed": partial(over, -PAGE, ALL, b"\0"),
    "all zeroed": partial(over, 0, ALL, b"\0"),
    "junk for all": partial(over, 0, ALL, JUNK),
    "junk for all but the magic": partial(over, 16, ALL, JUNK),
    "junk for the first page": partial(over, 0, PAGE, JUNK),
    "junk for the second page": partial(over, PAGE, 2 * PAGE, JUNK),
    "junk for the last page": partial(over, -PAGE, ALL, JUNK),
    "text for the head": partial(over, 0, 100, b"dear diary\n"),
    "a byte before it": lambda good: b"\0" + good,
    "two pages swapped": swapped,
}

HARMLESS: dict[str, Damage] = {
    "a count of changes flipped": partial(flipped, 27, 0),
    "the version of the writer flipped": partial(flipped, 98, 0),
    "a byte behind it": lambda good: good + b"\0",
    "a page behind it": lambda good: good + JUNK,
    "twice itself": lambda good: good + good,
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file that was closed, with 40 inputs.

    Its last byte is not zero, as of 255 worlds in 256: SQLite reads what lacks as zeros, so none would lack.
    """
    content = b"\0"
    while content.endswith(b"\0"):
        path = tmp_path_factory.mktemp("good") / "state"
        written(path).close()
        content = path.read_bytes()
    return content


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state"


def held(path: Path) -> tuple[bytes, list[bytes]]:
    with closing(StateFile(path, DIGEST)) as file:
        return file.read()


@pytest.mark.parametrize("damage", REFUSED.values(), ids=REFUSED)
def test_what_was_damaged_is_refused_in_a_sentence_and_left_alone(
    path: Path, good: bytes, damage: Damage
) -> None:
    path.write_bytes(damage(good))
    assert path.read_bytes() != good
    with pytest.raises(BadInput) as refused:
        held(path)
    said = str(refused.value)
    assert said.startswith(f"{path}: ")
    assert "\n" not in said
    assert path.read_bytes() == damage(good)
    code, told = tell(path)
    assert (code, told) == (2, f"ranksim: {said}\n")


def tell(path: Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["serve", "--state", str(path), "--check"])
    return done.exit_code, done.output


@pytest.mark.parametrize("damage", HARMLESS.values(), ids=HARMLESS)
def test_what_nobody_reads_may_be_damaged(path: Path, good: bytes, damage: Damage) -> None:
    path.write_bytes(good)
    whole = held(path)
    path.write_bytes(damage(good))
    assert path.read_bytes() != good
    assert held(path) == whole


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("", "is a directory"),
        ("no/state", "cannot be written (No such file or directory)"),
        ("/proc/state.db", "cannot be written"),
        ("/proc/self/status", "cannot be written"),
        ("/dev/full", "is a device or a pipe"),
        ("/dev/null", "is a device or a pipe"),
    ],
)
def test_a_place_that_can_hold_no_file_is_refused_in_a_sentence(tmp_path: Path, place: str, why: str) -> None:
    words = ["serve", "--port", "0", "--state", str(tmp_path / place)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert done.output.startswith(f"ranksim: {tmp_path / place}: {why}")
    assert done.output.count("\n") == 1


def places(good: bytes, count: int) -> Iterator[tuple[int, int]]:
    draws = random.Random(11)
    print("seed 11")
    for _ in range(count):
        yield draws.randrange(len(good)), draws.randrange(8)


@pytest.mark.slow
def test_any_bit_may_flip(path: Path, good: bytes) -> None:
    """Each is refused, or the world is the same; none is a traceback, none another world."""
    path.write_bytes(good)
    whole = held(path)
    refused = 0
    for at, bit in places(good, 600):
        path.write_bytes(flipped(at, bit, good))
        try:
            assert held(path) == whole, (at, bit)
        except BadInput:
            refused += 1
        for one in ("wal", "acknowledged"):
            beside(path, one).unlink(missing_ok=True)
    assert refused > 300


@pytest.mark.parametrize("table", ["about", "snapshot", "inputs"])
def test_a_table_that_computes_without_end_is_refused(table: str, good: bytes, path: Path) -> None:
    path.write_bytes(good)
    columns = {"about": "n AS name, n AS said", "snapshot": "n AS number, n AS world, n AS crc"}
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            f"DROP TABLE {table}; CREATE VIEW {table} AS "
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) "
            f"SELECT {columns.get(table, 'n AS number, n AS batch, n AS crc')} FROM c"
        )
    with pytest.raises(BadInput, match="is damaged or no state file"):
        held(path)
